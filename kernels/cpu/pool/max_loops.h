/*
** max_loops.h - max pooling of one plane. For each row of the result, the rows that the windows
** cover are first combined into one row of maxima, in a loop that vectorises. Then the maximum of
** each window's columns is taken. pool_<type>.c defines `Element`, its LOWEST and IS_NAN, and
** includes this file.
**
** Among equal maxima the first one in the plane is chosen, and among several NaN the last one, as
** in PyTorch.
*/
#include <math.h>
#include <string.h>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/pool/pool.h"

/* A row is processed in blocks of BLOCK elements. Rows are short, so a loop over the elements after
** the last whole block would take most of the time. Instead, the last block begins BLOCK elements
** before the row's end, and some results are computed twice. Rows shorter than a block are computed
** one element at a time. So are rows of types without BLOCK, for which block code would be too
** large. */
#ifdef BLOCK
static inline int64_t next_block(int64_t i, int64_t n) {
  return i + 2 * BLOCK <= n ? i + BLOCK : i + BLOCK < n ? n - BLOCK : n;
}

#define EACH_BLOCK(i, n) for (int64_t i = (n) < BLOCK ? (n) : 0; i < (n); i = next_block(i, n))
#define EACH_OF_SHORT(i, n) for (int64_t i = (n) < BLOCK ? 0 : (n); i < (n); i++)

/* Combines a block of a row with the maxima so far. */
static inline void join_block(const Element *x, Element *best, int32_t *rows, int32_t row) {
  TLK_VECTOR
  for (int i = 0; i < BLOCK; i++) {
    bool better = (x[i] > best[i]) | IS_NAN(x[i]);
    best[i] = better ? x[i] : best[i];
    rows[i] = better ? row : rows[i];
  }
}
#else
#define EACH_OF_SHORT(i, n) for (int64_t i = 0; i < (n); i++)
#endif

/* For each column, computes the maximum over the rows that windows (d, h, *) cover, and the number
** of the row with this maximum. */
static void join_rows(const tlk_Spans *p, const Element *in, int64_t d, int64_t h, Element *best,
                      int32_t *rows) {
  bool first = true;
  int64_t width = p->in[2];
  for (int64_t i = p->begin[0][d]; i < p->end[0][d]; i += p->step[0])
    for (int64_t j = p->begin[1][h]; j < p->end[1][h]; j += p->step[1]) {
      int32_t row = (int32_t)(i * p->in[1] + j);
      const Element *x = in + row * width;
      if (first) {
        memcpy(best, x, (size_t)width * sizeof(Element));
        for (int64_t w = 0; w < width; w++) rows[w] = row;
      } else {
#ifdef BLOCK
        EACH_BLOCK(w, width) join_block(x + w, best + w, rows + w, row);
#endif
        EACH_OF_SHORT(w, width) {
          bool better = (x[w] > best[w]) | IS_NAN(x[w]);
          best[w] = better ? x[w] : best[w];
          rows[w] = better ? row : rows[w];
        }
      }
      first = false;
    }
  /* if the windows lie entirely in the padding, they cover no row, and this loop sets the maxima */
  for (int64_t w = 0; first && w < width; w++) best[w] = LOWEST, rows[w] = 0;
}

#ifdef BLOCK
/* Computes a block of maxima of windows that are `stride` elements apart and have `count` elements
** each. Stores 1 + the position of each maximum unless indices is NULL. */
static inline __attribute__((always_inline)) void
max_block(const Element *best, const int32_t *rows, int64_t width, int64_t stride, int64_t step,
          int64_t count, int64_t column, Element *out, int64_t *indices) {
  Element m[BLOCK];
  int32_t row[BLOCK], at[BLOCK];
  TLK_VECTOR
  for (int i = 0; i < BLOCK; i++) {
    m[i] = best[i * stride];
    row[i] = rows[i * stride];
    at[i] = 0;
  }
  for (int64_t k = 1; k < count; k++) {
    const Element *x = best + k * step;
    const int32_t *from = rows + k * step;
    TLK_VECTOR
    for (int i = 0; i < BLOCK; i++) {
      Element e = x[i * stride];
      int32_t r = from[i * stride];
      bool nan = IS_NAN(e), was_nan = IS_NAN(m[i]);
      bool better = (e > m[i]) | ((e == m[i]) & (r < row[i])) | (nan & (!was_nan | (r >= row[i])));
      m[i] = better ? e : m[i];
      row[i] = better ? r : row[i];
      at[i] = better ? (int32_t)k : at[i];
    }
  }
  TLK_VECTOR
  for (int i = 0; i < BLOCK; i++) out[i] = m[i];
  if (indices == NULL) return;
  TLK_VECTOR
  for (int i = 0; i < BLOCK; i++)
    indices[i] = (int64_t)row[i] * width + column + i * stride + at[i] * step + 1;
}

/* Computes windows [first, end), which are `stride` elements apart and have `count` elements
** each. */
static inline __attribute__((always_inline)) void
max_blocks(const tlk_Spans *p, const Element *best, const int32_t *rows, int64_t stride,
           int64_t count, int64_t first, int64_t end, Element *out, int64_t *indices) {
  EACH_BLOCK(o, end - first) {
    int64_t at = first + o, column = p->begin[2][at];
    max_block(best + column, rows + column, p->in[2], stride, p->step[2], count, column, out + at,
              indices ? indices + at : NULL);
  }
}

/* Returns the number of elements that window o covers along the last dimension. */
static inline int64_t window_count(const tlk_Spans *p, int64_t o) {
  int64_t span = p->end[2][o] - p->begin[2][o];
  return span <= 0 ? 0 : (span - 1) / p->step[2] + 1;
}
#endif

/* Computes the maximum of one window. */
static inline void max_one(const tlk_Spans *p, const Element *best, const int32_t *rows, int64_t o,
                           Element *out, int64_t *indices) {
  int64_t w = p->begin[2][o];
  bool empty = w >= p->end[2][o];
  Element m = empty ? LOWEST : best[w];
  int64_t at = empty ? 0 : (int64_t)rows[w] * p->in[2] + w;
  for (w += p->step[2]; w < p->end[2][o]; w += p->step[2]) {
    int64_t here = (int64_t)rows[w] * p->in[2] + w;
    bool better = best[w] > m || (best[w] == m && here < at) ||
                  (IS_NAN(best[w]) && (!IS_NAN(m) || here > at));
    m = better ? best[w] : m;
    at = better ? here : at;
  }
  out[o] = m;
  if (indices) indices[o] = at + 1;
}

static void max_row(const tlk_Spans *p, const Element *best, const int32_t *rows, Element *out,
                    int64_t *indices) {
  int64_t n = p->out[2], first = 0, end = n;
#ifdef BLOCK
  const int64_t *begin = p->begin[2];
  int64_t count = window_count(p, n / 2);
  int64_t stride = n > 1 ? begin[n / 2] - begin[n / 2 - 1] : 0;
  /* windows at the edges may have fewer elements or a smaller distance to the next window */
  while (first < n && (window_count(p, first) != count ||
                       (first + 1 < n && begin[first + 1] - begin[first] != stride)))
    max_one(p, best, rows, first++, out, indices);
  while (end > first && window_count(p, end - 1) != count)
    max_one(p, best, rows, --end, out, indices);
  /* a constant stride, so that the compiler uses vector loads instead of gather instructions */
  if (stride == 1)
    max_blocks(p, best, rows, 1, count, first, end, out, indices);
  else
    max_blocks(p, best, rows, stride, count, first, end, out, indices);
#endif
  EACH_OF_SHORT(o, end - first) max_one(p, best, rows, first + o, out, indices);
}

#ifdef BLOCK
static inline void square_block(const Element *x, const Element *y, Element *out) {
  TLK_VECTOR
  for (int i = 0; i < BLOCK; i++) {
    Element m = x[2 * i], b = x[2 * i + 1], c = y[2 * i], d = y[2 * i + 1];
    m = (b > m) | IS_NAN(b) ? b : m;
    m = (c > m) | IS_NAN(c) ? c : m;
    out[i] = (d > m) | IS_NAN(d) ? d : m;
  }
}
#endif

/* Pools two rows with windows of 2 x 2 elements, if the positions of the maxima are not wanted. */
static void max_squares(const Element *x, const Element *y, Element *out, int64_t n) {
#ifdef BLOCK
  EACH_BLOCK(o, n) square_block(x + 2 * o, y + 2 * o, out + o);
#endif
  EACH_OF_SHORT(o, n) {
    Element m = x[2 * o], b = x[2 * o + 1], c = y[2 * o], d = y[2 * o + 1];
    m = (b > m) | IS_NAN(b) ? b : m;
    m = (c > m) | IS_NAN(c) ? c : m;
    out[o] = (d > m) | IS_NAN(d) ? d : m;
  }
}

static void pool_max(const tlk_Spans *p, const void *in, void *out, int64_t *indices,
                     void *scratch) {
  Element *best = scratch, *to = out;
  int32_t *rows = (int32_t *)(void *)(best + p->in[2]);
  for (int64_t d = 0; d < p->out[0]; d++)
    for (int64_t h = 0; h < p->out[1]; h++, to += p->out[2]) {
      if (p->squares && indices == NULL) {
        const Element *x = (const Element *)in + (d * p->in[1] + 2 * h) * p->in[2];
        max_squares(x, x + p->in[2], to, p->out[2]);
        continue;
      }
      join_rows(p, in, d, h, best, rows);
      max_row(p, best, rows, to, indices);
      if (indices) indices += p->out[2];
    }
}
