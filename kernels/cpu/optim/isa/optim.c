/* optim.c - loops for the optimizers' update rules (kernels/optim.h), and for scaling arrays. */
#include "kernels/cpu/optim/optim.h"
#include "kernels/optim.h"

/* Defines the loop of a rule, such as Adam's. State variables that the rule does not have are 0. */
#define STEP(rule, states, s, type)                                                           \
  static void step_##rule##_##s(int64_t n, void *param, const void *grad, void *const *state, \
                                double factor, const void *coefs) {                           \
    type *p = param;                                                                          \
    const type *g = grad;                                                                     \
    type *a = state[0], *b = state[1], *d = state[2];                                         \
    type c[TLK_OPTIM_COEFS], by = (type)factor;                                               \
    memcpy(c, coefs, sizeof c);                                                               \
    TLK_IVDEP                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                         \
      type x = states > 0 ? a[i] : 0, y = states > 1 ? b[i] : 0, z = states > 2 ? d[i] : 0;   \
      p[i] = tlm_step_##rule##_##s(p[i], g[i] * by, &x, &y, &z, c);                           \
      if (states > 0) a[i] = x;                                                               \
      if (states > 1) b[i] = y;                                                               \
      if (states > 2) d[i] = z;                                                               \
    }                                                                                         \
  }
#define BOTH(rule, family, states) STEP(rule, states, f32, float) STEP(rule, states, f64, double)
TLK_OPTIM_RULES(BOTH)

/* Defines the loop that scales a tensor. It finds infinities and NaN by x - x, which is 0 only for
** finite x. */
#define SCALE(s, type)                                          \
  static bool scale_##s(int64_t n, void *data, double factor) { \
    type *x = data;                                             \
    type by = (type)factor, rest = 0;                           \
    for (int64_t i = 0; i < n; i++) {                           \
      type off = x[i] - x[i];                                   \
      rest = off == 0 ? rest : 1;                               \
      x[i] *= by;                                               \
    }                                                           \
    return rest == 0;                                           \
  }
SCALE(f32, float)
SCALE(f64, double)

extern const tlk_OptimLoops TLK_ISA_NAME(tlk_optim_loops)[2];
const tlk_OptimLoops TLK_ISA_NAME(tlk_optim_loops)[2] = {
#define X(rule, family, states) [TLK_OPTIM_##rule] = step_##rule##_f32,
    {{TLK_OPTIM_RULES(X)}, scale_f32},
#undef X
#define X(rule, family, states) [TLK_OPTIM_##rule] = step_##rule##_f64,
    {{TLK_OPTIM_RULES(X)}, scale_f64},
#undef X
};
