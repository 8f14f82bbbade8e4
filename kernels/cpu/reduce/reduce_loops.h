/*
** reduce_loops.h - instantiates, for one compute type, the loops of each reduction that the
** generated list names. isa/reduce_<type>.c includes it; it holds macros only.
**
** Everything is reduced "vertically", whole vectors at a time: elements LANES apart in a row
** belong to one accumulator, and the accumulators are joined at the end. Four steps are first
** joined among themselves (see TLM_REDUCE_).
*/
#ifndef TLK_REDUCTIONS_H
#define TLK_REDUCTIONS_H

#include "kernels/cpu/loops.h"

/* Accumulators of a row: two vectors of the widest set. */
#define TLK_ROW_LANES(acc) ((int)(128 / sizeof(acc)))
#define TLK_UNROLL_HALVES _Pragma("GCC unroll 5") /* halves 32 lanes down to 1, in registers */
/* Forces the array to memory: compilers extract single lanes of a wide register, but load short
** vectors from memory. */
#define TLK_FROM_MEMORY(array) __asm__("" : "+m"(array));

#define TLK_REDUCER_(name, s, type)                                                                \
  typedef tlm_##name##_##s##_acc acc_##name##_##s;                                                 \
  typedef tlm_##name##_##s##_entered entered_##name##_##s;                                         \
  static inline entered_##name##_##s four_##name##_##s(const type *x, int64_t stride,              \
                                                       const type *p) {                            \
    return tlm_##name##_##s##_pair(                                                                \
        tlm_##name##_##s##_pair(tlm_##name##_##s##_enter(x[0], p),                                 \
                                tlm_##name##_##s##_enter(x[stride], p)),                           \
        tlm_##name##_##s##_pair(tlm_##name##_##s##_enter(x[2 * stride], p),                        \
                                tlm_##name##_##s##_enter(x[3 * stride], p)));                      \
  }                                                                                                \
  static void start_##name##_##s(int64_t n, void *acc, const tl_Scalar *params) {                  \
    TLK_REDUCTION_PARAMS_(name, s, type)                                                           \
    acc_##name##_##s *to = acc;                                                                    \
    for (int64_t i = 0; i < n; i++) to[i] = tlm_##name##_##s##_start(p);                           \
  }                                                                                                \
  static void columns_##name##_##s(int64_t rows, int64_t cols, int64_t stride, const void *x_,     \
                                   void *acc, const tl_Scalar *params) {                           \
    TLK_REDUCTION_PARAMS_(name, s, type)                                                           \
    const type *x = x_;                                                                            \
    acc_##name##_##s *to = acc;                                                                    \
    int64_t r = 0;                                                                                 \
    for (; r + 4 <= rows; r += 4, x += 4 * stride) {                                               \
      TLK_IVDEP                                                                                    \
      for (int64_t c = 0; c < cols; c++)                                                           \
        to[c] =                                                                                    \
            tlm_##name##_##s##_join(to[c], (acc_##name##_##s)four_##name##_##s(x + c, stride, p)); \
    }                                                                                              \
    for (; r < rows; r++, x += stride) {                                                           \
      TLK_IVDEP                                                                                    \
      for (int64_t c = 0; c < cols; c++)                                                           \
        to[c] =                                                                                    \
            tlm_##name##_##s##_join(to[c], (acc_##name##_##s)tlm_##name##_##s##_enter(x[c], p));   \
    }                                                                                              \
  }                                                                                                \
  static void join_##name##_##s(int64_t n, void *acc, const void *other) {                         \
    acc_##name##_##s *to = acc;                                                                    \
    const acc_##name##_##s *from = other;                                                          \
    TLK_IVDEP                                                                                      \
    for (int64_t i = 0; i < n; i++) to[i] = tlm_##name##_##s##_join(to[i], from[i]);               \
  }                                                                                                \
  static void row_##name##_##s(int64_t n, const void *x_, void *acc, const tl_Scalar *params) {    \
    TLK_REDUCTION_PARAMS_(name, s, type)                                                           \
    const type *x = x_;                                                                            \
    enum { LANES = TLK_ROW_LANES(acc_##name##_##s), FEW = 8 };                                     \
    acc_##name##_##s total = *(acc_##name##_##s *)acc;                                             \
    int64_t i = 0;                                                                                 \
    if (n >= LANES) {                                                                              \
      acc_##name##_##s lanes[LANES];                                                               \
      for (int k = 0; k < LANES; k++) lanes[k] = tlm_##name##_##s##_start(p);                      \
      for (; i + 4 * LANES <= n; i += 4 * LANES)                                                   \
        for (int k = 0; k < LANES; k++)                                                            \
          lanes[k] = tlm_##name##_##s##_join(                                                      \
              lanes[k], (acc_##name##_##s)four_##name##_##s(x + i + k, LANES, p));                 \
      for (; i + LANES <= n; i += LANES)                                                           \
        for (int k = 0; k < LANES; k++)                                                            \
          lanes[k] = tlm_##name##_##s##_join(                                                      \
              lanes[k], (acc_##name##_##s)tlm_##name##_##s##_enter(x[i + k], p));                  \
      TLK_UNROLL_HALVES                                                                            \
      for (int half = LANES / 2; half >= FEW; half /= 2)                                           \
        for (int k = 0; k < half; k++)                                                             \
          lanes[k] = tlm_##name##_##s##_join(lanes[k], lanes[k + half]);                           \
      acc_##name##_##s few[FEW];                                                                   \
      for (int k = 0; k < FEW; k++) few[k] = lanes[k];                                             \
      TLK_FROM_MEMORY(few)                                                                         \
      TLK_UNROLL_HALVES                                                                            \
      for (int half = FEW / 2; half > 0; half /= 2)                                                \
        for (int k = 0; k < half; k++) few[k] = tlm_##name##_##s##_join(few[k], few[k + half]);    \
      total = tlm_##name##_##s##_join(total, few[0]);                                              \
    }                                                                                              \
    for (; i < n; i++)                                                                             \
      total = tlm_##name##_##s##_join(total, (acc_##name##_##s)tlm_##name##_##s##_enter(x[i], p)); \
    *(acc_##name##_##s *)acc = total;                                                              \
  }                                                                                                \
  static void finish_##name##_##s(int64_t n, void *out, const void *acc,                           \
                                  const tl_Scalar *params) {                                       \
    TLK_REDUCTION_PARAMS_(name, s, type)                                                           \
    const acc_##name##_##s *from = acc;                                                            \
    type *to = out;                                                                                \
    for (int64_t i = 0; i < n; i++) to[i] = tlm_##name##_##s##_result(from[i], p);                 \
  }

#define TLK_REDUCTION_PARAMS_(name, s, type)                         \
  enum { nparams = tlm_##name##_##s##_params };                      \
  type p[nparams + 1];                                               \
  p[nparams] = 0;                                                    \
  for (int k = 0; k < nparams; k++) p[k] = tlk_param_##s(params[k]); \
  (void)params;

/* The loops of one reduction, used as X of TLK_REDUCTIONS by a macro that names the type. */
#define TLK_REDUCER(s, type, name, types) TLK_IN_##s##_##types(TLK_REDUCER_(name, s, type))
#define TLK_REDUCER_ENTRY(s, name, types)                                                         \
  TLK_IN_##s##_##types([TLK_reduction_##name] = {                                                 \
                           sizeof(acc_##name##_##s), false, start_##name##_##s, row_##name##_##s, \
                           columns_##name##_##s, join_##name##_##s, finish_##name##_##s}, )

#endif
