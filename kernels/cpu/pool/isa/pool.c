/*
** pool.c - pooling of one plane. For each row of the result, the rows of the windows are first
** combined into one, column by column, which vectorises; then each window combines its columns.
**
** Among equal maxima the first in the plane is chosen, among several NaN the last, as in
** PyTorch.
*/
#include <math.h>
#include <string.h>

#include "kernels/cpu/pool/pool.h"

/* isnan_(x) of the type. */
#define NOT_NAN(x) false

static const int32_t lowest_i32 = INT32_MIN;
static const int64_t lowest_i64 = INT64_MIN;
static const float lowest_f32 = -INFINITY;
static const double lowest_f64 = -INFINITY;

#define MAX(s, type, isnan_)                                                                      \
  /* Computes the maximum of each column over the rows of windows (d, h), and its row. */         \
  static void join_rows_##s(const tlk_Spans *p, const type *in, int64_t d, int64_t h, type *best, \
                            int32_t *rows) {                                                      \
    bool first = true;                                                                            \
    int64_t width = p->in[2];                                                                     \
    for (int64_t i = p->begin[0][d]; i < p->end[0][d]; i += p->step[0])                           \
      for (int64_t j = p->begin[1][h]; j < p->end[1][h]; j += p->step[1]) {                       \
        int32_t row = (int32_t)(i * p->in[1] + j);                                                \
        const type *x = in + row * width;                                                         \
        if (first) {                                                                              \
          memcpy(best, x, (size_t)width * sizeof(type));                                          \
          for (int64_t w = 0; w < width; w++) rows[w] = row;                                      \
        } else {                                                                                  \
          TLK_IVDEP                                                                               \
          for (int64_t w = 0; w < width; w++) {                                                   \
            bool better = (x[w] > best[w]) | isnan_(x[w]);                                        \
            best[w] = better ? x[w] : best[w];                                                    \
            rows[w] = better ? row : rows[w];                                                     \
          }                                                                                       \
        }                                                                                         \
        first = false;                                                                            \
      }                                                                                           \
    /* the window is entirely in the padding */                                                   \
    for (int64_t w = 0; first && w < width; w++) best[w] = lowest_##s, rows[w] = 0;               \
  }                                                                                               \
  static void max_row_##s(const tlk_Spans *p, const type *best, const int32_t *rows, type *out,   \
                          int64_t *indices) {                                                     \
    for (int64_t o = 0; o < p->out[2]; o++) {                                                     \
      int64_t w = p->begin[2][o];                                                                 \
      bool empty = w >= p->end[2][o];                                                             \
      type m = empty ? lowest_##s : best[w];                                                      \
      int64_t at = empty ? 0 : (int64_t)rows[w] * p->in[2] + w;                                   \
      for (w += p->step[2]; w < p->end[2][o]; w += p->step[2]) {                                  \
        int64_t here = (int64_t)rows[w] * p->in[2] + w;                                           \
        bool better = best[w] > m || (best[w] == m && here < at) ||                               \
                      (isnan_(best[w]) && (!isnan_(m) || here > at));                             \
        m = better ? best[w] : m;                                                                 \
        at = better ? here : at;                                                                  \
      }                                                                                           \
      out[o] = m;                                                                                 \
      if (indices) indices[o] = at + 1;                                                           \
    }                                                                                             \
  }                                                                                               \
  /* Pools two rows with windows of 2 x 2, without positions. */                                  \
  static void max_squares_##s(const type *x, const type *y, type *out, int64_t n) {               \
    for (int64_t o = 0; o < n; o++) {                                                             \
      type m = x[2 * o], b = x[2 * o + 1], c = y[2 * o], d = y[2 * o + 1];                        \
      m = (b > m) | isnan_(b) ? b : m;                                                            \
      m = (c > m) | isnan_(c) ? c : m;                                                            \
      out[o] = (d > m) | isnan_(d) ? d : m;                                                       \
    }                                                                                             \
  }                                                                                               \
  static void max_##s(const tlk_Spans *p, const void *in, void *out, int64_t *indices,            \
                      void *scratch) {                                                            \
    type *best = scratch, *to = out;                                                              \
    int32_t *rows = (int32_t *)(void *)(best + p->in[2]);                                         \
    for (int64_t d = 0; d < p->out[0]; d++)                                                       \
      for (int64_t h = 0; h < p->out[1]; h++, to += p->out[2]) {                                  \
        if (p->squares && indices == NULL) {                                                      \
          const type *x = (const type *)in + (d * p->in[1] + 2 * h) * p->in[2];                   \
          max_squares_##s(x, x + p->in[2], to, p->out[2]);                                        \
          continue;                                                                               \
        }                                                                                         \
        join_rows_##s(p, in, d, h, best, rows);                                                   \
        max_row_##s(p, best, rows, to, indices);                                                  \
        if (indices) indices += p->out[2];                                                        \
      }                                                                                           \
  }

MAX(i32, int32_t, NOT_NAN)
MAX(i64, int64_t, NOT_NAN)
MAX(f32, float, isnan)
MAX(f64, double, isnan)

#define AVERAGE(s, type)                                                                   \
  static void average_##s(const tlk_Spans *p, const void *data, void *to, void *scratch) { \
    const type *in = data;                                                                 \
    type *sum = scratch, *out = to;                                                        \
    const double *share = p->share;                                                        \
    int64_t width = p->in[2];                                                              \
    for (int64_t d = 0; d < p->out[0]; d++)                                                \
      for (int64_t h = 0; h < p->out[1]; h++) {                                            \
        memset(sum, 0, (size_t)width * sizeof(type));                                      \
        for (int64_t i = p->begin[0][d]; i < p->end[0][d]; i++)                            \
          for (int64_t j = p->begin[1][h]; j < p->end[1][h]; j++) {                        \
            const type *x = in + (i * p->in[1] + j) * width;                               \
            TLK_IVDEP                                                                      \
            for (int64_t w = 0; w < width; w++) sum[w] += x[w];                            \
          }                                                                                \
        for (int64_t o = 0; o < p->out[2]; o++) {                                          \
          double total = 0;                                                                \
          for (int64_t w = p->begin[2][o]; w < p->end[2][o]; w++) total += (double)sum[w]; \
          *out++ = (type)(total * *share++);                                               \
        }                                                                                  \
      }                                                                                    \
  }                                                                                        \
  static void spread_##s(const tlk_Spans *p, const void *data, void *to, void *scratch) {  \
    const type *out = data;                                                                \
    type *row = scratch, *in = to;                                                         \
    const double *share = p->share;                                                        \
    int64_t width = p->in[2];                                                              \
    memset(in, 0, (size_t)(p->in[0] * p->in[1] * width) * sizeof(type));                   \
    for (int64_t d = 0; d < p->out[0]; d++)                                                \
      for (int64_t h = 0; h < p->out[1]; h++) {                                            \
        memset(row, 0, (size_t)width * sizeof(type));                                      \
        for (int64_t o = 0; o < p->out[2]; o++) {                                          \
          type part = (type)((double)*out++ * *share++);                                   \
          for (int64_t w = p->begin[2][o]; w < p->end[2][o]; w++) row[w] += part;          \
        }                                                                                  \
        for (int64_t i = p->begin[0][d]; i < p->end[0][d]; i++)                            \
          for (int64_t j = p->begin[1][h]; j < p->end[1][h]; j++) {                        \
            type *x = in + (i * p->in[1] + j) * width;                                     \
            TLK_IVDEP                                                                      \
            for (int64_t w = 0; w < width; w++) x[w] += row[w];                            \
          }                                                                                \
      }                                                                                    \
  }

AVERAGE(f32, float)
AVERAGE(f64, double)

extern const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_loops);
const tlk_PoolLoops TLK_ISA_NAME(tlk_pool_loops) = {
    .max = {[TLK_C_I32] = max_i32,
            [TLK_C_I64] = max_i64,
            [TLK_C_F32] = max_f32,
            [TLK_C_F64] = max_f64},
    .average = {average_f32, average_f64},
    .spread = {spread_f32, spread_f64},
};
