/*
** scan_loops.h - instantiates, for one compute type, the loops of each scan that the generated
** list names. isa/scan.c includes it; it holds macros only.
*/
#ifndef TLK_SCANS_H
#define TLK_SCANS_H

#include "kernels/cpu/loops.h"

#define TLK_SCANNER_(name, s, type)                                                                \
  typedef tlm_##name##_##s##_state state_##name##_##s;                                             \
  static void start_##name##_##s(int64_t cols, void *state) {                                      \
    state_##name##_##s *a = state;                                                                 \
    for (int64_t c = 0; c < cols; c++) a[c] = tlm_##name##_##s##_first();                          \
  }                                                                                                \
  static void line_##name##_##s(int64_t rows, const type *x, type *y, state_##name##_##s *state) { \
    state_##name##_##s a = *state;                                                                 \
    for (int64_t r = 0; r < rows; r++) {                                                           \
      a = tlm_##name##_##s##_next(a, x[r]);                                                        \
      y[r] = (type)a;                                                                              \
    }                                                                                              \
    *state = a;                                                                                    \
  }                                                                                                \
  static void run_##name##_##s(int64_t rows, int64_t cols, int64_t step, const void *in,           \
                               void *out, int64_t indices_step, int64_t *indices, int64_t at,      \
                               void *state, int64_t *where) {                                      \
    state_##name##_##s *a = state;                                                                 \
    if (cols == 1 && step == 1 && indices == NULL) {                                               \
      line_##name##_##s(rows, in, out, a);                                                         \
      return;                                                                                      \
    }                                                                                              \
    for (int64_t r = 0; r < rows; r++) {                                                           \
      const type *x = (const type *)in + r * step;                                                 \
      type *y = (type *)out + r * step;                                                            \
      if (indices != NULL) {                                                                       \
        for (int64_t c = 0; c < cols; c++) {                                                       \
          where[c] = tlm_##name##_##s##_picks(a[c], x[c]) ? at + r : where[c];                     \
          indices[r * indices_step + c] = where[c];                                                \
        }                                                                                          \
      }                                                                                            \
      TLK_IVDEP                                                                                    \
      for (int64_t c = 0; c < cols; c++) {                                                         \
        a[c] = tlm_##name##_##s##_next(a[c], x[c]);                                                \
        y[c] = (type)a[c];                                                                         \
      }                                                                                            \
    }                                                                                              \
  }

/* The loops of one scan, used as X of TLK_SCANS by a macro that names the type. */
#define TLK_SCANNER(s, type, name, types) TLK_IN_##s##_##types(TLK_SCANNER_(name, s, type))
#define TLK_SCANNER_ENTRY(s, name, types) \
  TLK_IN_##s##_##types([TLK_scan_##name] = {start_##name##_##s, run_##name##_##s}, )

#endif
