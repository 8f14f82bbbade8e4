/*
** fused.c - loops around the formulas of kernels/fused.h.
*/
#include "kernels/cpu/cpu.h"
#include "kernels/fused.h"

#ifdef TLI_RUNTIME
#include "runtime_kernels.h"
#else
#define TLK_KEEPS_fused 1
#endif
#if TLK_KEEPS_fused

/* clang-format off */
#define OUTPUT_1(T) T *x = args[0]; const void *const *in = (const void *const *)(args + 1);
#define OUTPUT_2(T) T *x = args[0], *y = args[1]; const void *const *in = (const void *const *)(args + 2);
#define INPUT_2(T) const T *a = in[0], *b = in[1];
#define INPUT_3(T) INPUT_2(T) const T *c = in[2];
#define INPUT_4(T) INPUT_3(T) const T *d = in[3];
#define INPUT_5(T) INPUT_4(T) const T *e = in[4];
#define GIVEN_1 &x[i]
#define GIVEN_2 &x[i], &y[i]
#define TAKEN_2 a[i], b[i]
#define TAKEN_3 TAKEN_2, c[i]
#define TAKEN_4 TAKEN_3, d[i]
#define TAKEN_5 TAKEN_4, e[i]
/* clang-format on */

#define LOOP(s, T, name, outputs, inputs)                                              \
  static bool name##_##s(int64_t n, void *const *args, const tl_Scalar *params) {      \
    (void)params;                                                                      \
    OUTPUT_##outputs(T) INPUT_##inputs(T) n -= n % TLK_LANES;                          \
    TLK_IVDEP                                                                          \
    for (int64_t i = 0; i < n; i++) tlf_##name##_##s(TAKEN_##inputs, GIVEN_##outputs); \
    return true;                                                                       \
  }
/* The loops for gradients are left out of a library for inference. */
#ifdef TLI_INFER
#define KEPT TLK_FUSED_RESULTS
#else
#define KEPT TLK_FUSED
#endif
#define X(name, outputs, inputs) \
  LOOP(f32, float, name, outputs, inputs) LOOP(f64, double, name, outputs, inputs)
KEPT(X)
#undef X

extern const tlk_Loop TLK_ISA_NAME(tlk_fused_f32)[], TLK_ISA_NAME(tlk_fused_f64)[];
const tlk_Loop TLK_ISA_NAME(tlk_fused_f32)[TLK_NFUSED] = {
#define X(name, outputs, inputs) [TLK_FUSED_##name] = name##_f32,
    KEPT(X)
#undef X
};
const tlk_Loop TLK_ISA_NAME(tlk_fused_f64)[TLK_NFUSED] = {
#define X(name, outputs, inputs) [TLK_FUSED_##name] = name##_f64,
    KEPT(X)
#undef X
};

#endif
