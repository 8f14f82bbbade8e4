/*
** step.c - steps of optimizers over lists of parameters.
**
** The elements of all tensors are divided into chunks, which are numbered in one sequence. Threads
** share the chunks. Operands in the compute type are updated in place. Operands of other types are
** converted in buffers that stay in the first-level cache. Each element's result depends on that
** element's operands alone.
*/
#include <string.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/optim/optim.h"
#include "kernels/optim.h"

enum { PARAM, GRAD, STATE, OPERANDS = STATE + TLK_OPTIM_STATES };

typedef struct Step {
  const struct tlk_optim_step *call;
  const tlk_Isa *isa;
  tlk_OptimLoop loop;
  tl_DType compute;
  int states;
  bool direct; /* whether all operands have the compute type */
  double factor;
  /* for each tensor, the number of its first chunk in the sequence of all chunks */
  int64_t first[TLK_OPTIM_TENSORS + 1];
} Step;

/* The operands of a piece of one parameter, in the compute type. */
typedef struct Operands {
  void *at[OPERANDS];
} Operands;

/* ---- coefficients ----------------------------------------------------------------- */

typedef void (*CoefsFn)(const double *options, double lr, double *clocks, double *coefs);

static const struct {
  CoefsFn fn;
  int clocks;
} families[] = {
#define X(name, options, clocks) {tlm_coefs_##name, clocks},
    TLK_OPTIM_FAMILIES(X)
#undef X
};

enum {
#define X(name, options, clocks) FAMILY_##name,
  TLK_OPTIM_FAMILIES(X)
#undef X
};

static const struct {
  int8_t family, states;
} rules[] = {
#define X(name, family, states) {FAMILY_##family, states},
    TLK_OPTIM_RULES(X)
#undef X
};

/* Computes the coefficients of all tensors. Most tensors have made the same number of steps. So if
** the step counts of a tensor equal those of the previous tensor, the coefficients are copied. */
bool tlk_optim_coefs(const struct tlk_optim_coefs *call) {
  if (call->found_inf && *call->found_inf != 0) return true;
  double lr = call->lr.data ? tlk_number(call->lr) : call->options[0];
  int family = rules[call->rule].family, n = families[family].clocks;
  double before[TLK_OPTIM_CLOCKS], after[TLK_OPTIM_CLOCKS];
  for (int i = 0; i < call->count; i++) {
    double t[TLK_OPTIM_CLOCKS] = {0}, *c = call->coefs + i * TLK_OPTIM_COEFS;
    for (int k = 0; k < n; k++) t[k] = *call->clocks[i][k];
    if (i > 0 && memcmp(t, before, sizeof t) == 0) {
      for (int k = 0; k < TLK_OPTIM_COEFS; k++) c[k] = c[k - TLK_OPTIM_COEFS];
    } else {
      memcpy(before, t, sizeof t);
      memset(c, 0, TLK_OPTIM_COEFS * sizeof *c);
      c[0] = call->maximize ? -1 : 1;
      families[family].fn(call->options, lr, t, c);
      memcpy(after, t, sizeof t);
    }
    for (int k = 0; k < n; k++) *call->clocks[i][k] = after[k];
  }
  return true;
}

/* Copies the coefficients of tensor i to `coefs`, converted to the compute type. */
static void load_coefs(const Step *s, int i, void *coefs) {
  const struct tlk_optim_step *call = s->call;
  const double *from = call->coefs ? call->coefs + i * TLK_OPTIM_COEFS : call->same;
  if (s->compute == TL_F64)
    memcpy(coefs, from, TLK_OPTIM_COEFS * sizeof *from);
  else
    for (int k = 0; k < TLK_OPTIM_COEFS; k++) ((float *)coefs)[k] = (float)from[k];
}

static double sign(const Step *s, int i) {
  return s->call->coefs ? s->call->coefs[i * TLK_OPTIM_COEFS] : s->call->same[0];
}

/* ---- elements --------------------------------------------------------------------- */

/* Updates the last n < TLK_LANES elements in buffers, where zeros pad them to whole vectors. */
static void run_tail(const Step *s, int64_t n, const Operands *o, double factor,
                     const void *coefs) {
  _Alignas(64) char pad[OPERANDS][TLK_LANES * 8];
  void *state[TLK_OPTIM_STATES];
  size_t bytes = (size_t)n * tl_dtype_size(s->compute);
  memset(pad, 0, sizeof pad);
  for (int k = 0; k < STATE + s->states; k++) memcpy(pad[k], o->at[k], bytes);
  for (int k = 0; k < TLK_OPTIM_STATES; k++) state[k] = pad[STATE + k];
  s->loop(TLK_LANES, pad[PARAM], pad[GRAD], state, factor, coefs);
  for (int k = 0; k < STATE + s->states; k++)
    if (k != GRAD) memcpy(o->at[k], pad[k], bytes);
}

static void run_elements(const Step *s, int64_t n, const Operands *o, double factor,
                         const void *coefs) {
  int64_t tail = n % TLK_LANES, size = (int64_t)tl_dtype_size(s->compute);
  if (n > tail) s->loop(n - tail, o->at[PARAM], o->at[GRAD], o->at + STATE, factor, coefs);
  if (tail == 0) return;
  Operands rest;
  for (int k = 0; k < STATE + s->states; k++) rest.at[k] = (char *)o->at[k] + (n - tail) * size;
  run_tail(s, tail, &rest, factor, coefs);
}

/* ---- operands of other dtypes -------------------------------------------------------- */

static tlk_Array operand(const struct tlk_optim_step *call, const tlk_OptimTensor *t, int k) {
  if (k == PARAM && t->master) return (tlk_Array){t->master, TL_F32};
  if (k == PARAM) return (tlk_Array){t->param, call->param};
  if (k == GRAD) return (tlk_Array){(void *)(intptr_t)t->grad, call->grad};
  return (tlk_Array){t->state[k - STATE], call->state};
}

static void *element(tlk_Array a, int64_t i) {
  return (char *)a.data + i * (int64_t)tl_dtype_size(a.dtype);
}

/* Updates n elements, at most TLK_CHUNK, from element `begin` on. Operands that do not have the
** compute type are converted in buffers. */
static void run_converted(const Step *s, const tlk_OptimTensor *t, int64_t begin, int64_t n,
                          double factor, const void *coefs) {
  _Alignas(64) char buffers[OPERANDS][TLK_CHUNK * 8];
  Operands o = {{NULL}};
  for (int k = 0; k < STATE + s->states; k++) {
    tlk_Array a = operand(s->call, t, k);
    o.at[k] = a.dtype == s->compute ? element(a, begin) : buffers[k];
    if (a.dtype != s->compute)
      s->isa->convert[a.dtype][s->compute](n, buffers[k], element(a, begin));
  }
  run_elements(s, n, &o, factor, coefs);
  for (int k = 0; k < STATE + s->states; k++) {
    tlk_Array a = operand(s->call, t, k);
    if (k != GRAD && a.dtype != s->compute)
      s->isa->convert[s->compute][a.dtype](n, element(a, begin), buffers[k]);
  }
  tlk_Array param = {t->param, s->call->param};
  if (t->master && t->param)
    s->isa->convert[TL_F32][param.dtype](n, element(param, begin), o.at[PARAM]);
}

/* ---- tensors ------------------------------------------------------------------------ */

static void run_tensor(const Step *s, int i, int64_t begin, int64_t end) {
  const tlk_OptimTensor *t = &s->call->tensors[i];
  _Alignas(64) double coefs[TLK_OPTIM_COEFS];
  double factor = s->factor * sign(s, i);
  load_coefs(s, i, coefs);
  if (s->direct && t->master == NULL) {
    Operands o;
    for (int k = 0; k < OPERANDS; k++) {
      tlk_Array a = operand(s->call, t, k);
      o.at[k] = a.data ? element(a, begin) : NULL;
    }
    run_elements(s, end - begin, &o, factor, coefs);
    return;
  }
  for (int64_t at = begin; at < end; at += TLK_CHUNK)
    run_converted(s, t, at, tlk_min(TLK_CHUNK, end - at), factor, coefs);
}

static void run_chunks(void *context, int64_t begin, int64_t end) {
  const Step *s = context;
  for (int i = 0; i < s->call->count && s->first[i] < end; i++) {
    if (s->first[i + 1] <= begin) continue;
    int64_t from = (tlk_max(begin, s->first[i]) - s->first[i]) * TLK_CHUNK;
    int64_t to = (tlk_min(end, s->first[i + 1]) - s->first[i]) * TLK_CHUNK;
    run_tensor(s, i, from, tlk_min(to, s->call->tensors[i].n));
  }
}

bool tlk_optim_step(const struct tlk_optim_step *call) {
  if (call->found_inf && *call->found_inf != 0) return true;
  Step s = {.call = call, .isa = tlk_isa(), .states = rules[call->rule].states, .factor = 1};
  s.compute = call->param == TL_F64 ? TL_F64 : TL_F32;
  s.loop = s.isa->optim[s.compute == TL_F64].step[call->rule];
  s.direct = call->param == s.compute && call->grad == s.compute &&
             (s.states == 0 || call->state == s.compute);
  if (call->grad_scale.data) s.factor /= tlk_number(call->grad_scale);
  if (call->clip.data) s.factor *= tlk_number(call->clip);
  s.first[0] = 0;
  for (int i = 0; i < call->count; i++)
    s.first[i + 1] = s.first[i] + tlk_ceil_div(call->tensors[i].n, TLK_CHUNK);
  tli_parallel_pieces(s.first[call->count], TLK_GRAIN / TLK_CHUNK, run_chunks, &s);
  return true;
}
