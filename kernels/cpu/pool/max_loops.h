/*
** max_loops.h - max pooling of one plane. For each row of the result, the rows that the windows
** cover are first combined into one row of maxima. Then the maximum of each window's columns is
** taken. Types with BLOCK do both in blocks of BLOCK elements, in loops that vectorise, unless the
** windows have different sizes. pool_<type>.c defines `Element`, its LOWEST and IS_NAN, and
** includes this file.
**
** Among equal maxima the first one in the plane is chosen, and among several NaN the last one, as
** in PyTorch.
*/
#include <math.h>
#include <string.h>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/pool/pool.h"

#ifdef BLOCK
/* A row is processed in blocks of BLOCK elements. The last block of a row of the input begins BLOCK
** elements before the row's end, so that the block lies in the row; some elements are then
** processed twice, which does not change their maxima. */
static inline int64_t next_block(int64_t i, int64_t n, int64_t size) {
  return i + 2 * size <= n ? i + size : i + size < n ? n - size : n;
}
#define EACH_BLOCK(i, n, size) \
  for (int64_t i = (n) < (size) ? (n) : 0; i < (n); i = next_block(i, n, size))
#endif

/* ---- windows of any size ---- */

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
      for (int64_t w = 0; w < width; w++) {
        bool better = first | (x[w] > best[w]) | IS_NAN(x[w]);
        best[w] = better ? x[w] : best[w];
        rows[w] = better ? row : rows[w];
      }
      first = false;
    }
  /* if the windows lie entirely in the padding, they cover no row, and this loop sets the maxima */
  for (int64_t w = 0; first && w < width; w++) best[w] = LOWEST, rows[w] = 0;
}

/* Computes the maximum of one window. Stores 1 + the position of the maximum unless indices is
** NULL. */
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

#ifdef BLOCK
/* ---- windows of one size ---- */

#define SQUARES 8 /* the number of windows of 2 x 2 elements that are computed together */
/* windows that begin at least this number of columns apart are computed one by one */
#define FAR 16

/* Rows in scratch memory, for one row of windows. A row begins and ends with columns for the
** padding. best[w] is the maximum of column w, and at[w] its position in the plane. most[w] is the
** maximum of the window that begins at column w, and most_at[w] its position in the plane. */
typedef struct Rows {
  Element *best, *most;
  int32_t *at, *most_at;
} Rows;

/* The position of the elements in the margins. It is larger than every position in a plane. */
#define NOWHERE INT32_MAX

static Rows rows_in(const tlk_Spans *p, void *scratch) {
  Rows r = {.best = scratch};
  r.most = r.best + p->margins;
  r.at = (int32_t *)(void *)(r.most + p->margins);
  r.most_at = r.at + p->margins;
  for (int64_t w = 0; w < p->margins; w++) r.best[w] = LOWEST, r.at[w] = NOWHERE;
  return r;
}

/* Returns BLOCK elements. The first `valid` of them are the elements from position `first` of the
** plane on, and the rest are arbitrary numbers. `tail` is memory for BLOCK elements. */
static inline __attribute__((always_inline)) const Element *
read_row(const tlk_Spans *p, const Element *in, int64_t first, int64_t valid, Element *tail) {
  if (valid == BLOCK || first + BLOCK <= p->in[0] * p->in[1] * p->in[2]) return in + first;
  for (int64_t i = 0; i < valid; i++) tail[i] = in[first + i];
  return tail;
}

/* Computes the maxima of `valid` columns, at most BLOCK, that begin at column w. Sets the remaining
** columns of the block to the values that the margins have. */
static inline __attribute__((always_inline)) void join_columns(const tlk_Spans *p,
                                                               const Element *in, int64_t d,
                                                               int64_t h, int64_t w, int64_t valid,
                                                               Element *best, int32_t *at) {
  Element m[BLOCK], tail[BLOCK] = {0};
  int32_t from[BLOCK];
  bool is_first = true;
  TLK_VECTOR
  for (int i = 0; i < BLOCK; i++) m[i] = LOWEST, from[i] = NOWHERE;
  for (int64_t a = p->begin[0][d]; a < p->end[0][d]; a += p->step[0])
    for (int64_t b = p->begin[1][h]; b < p->end[1][h]; b += p->step[1]) {
      int64_t first = (a * p->in[1] + b) * p->in[2] + w;
      const Element *x = read_row(p, in, first, valid, tail);
      int32_t position = (int32_t)first;
      if (is_first) {
        TLK_VECTOR
        for (int i = 0; i < BLOCK; i++) m[i] = x[i], from[i] = position + i;
      } else {
        TLK_VECTOR
        for (int i = 0; i < BLOCK; i++) {
          int better = (x[i] > m[i]) | IS_NAN(x[i]);
          m[i] = better ? x[i] : m[i];
          from[i] = better ? position + i : from[i];
        }
      }
      is_first = false;
    }
  TLK_VECTOR
  for (int i = 0; i < BLOCK; i++) {
    best[i] = i < valid ? m[i] : LOWEST;
    at[i] = i < valid ? from[i] : NOWHERE;
  }
}

/* Computes the maxima of BLOCK windows, each of which begins one column after the one before. */
static inline __attribute__((always_inline)) void
slide(const tlk_Spans *p, const Element *best, const int32_t *at, Element *most, int32_t *most_at) {
  Element m[BLOCK];
  int32_t from[BLOCK];
  TLK_VECTOR
  for (int i = 0; i < BLOCK; i++) m[i] = best[i], from[i] = at[i];
  for (int64_t k = 1; k < p->count; k++) {
    const Element *x = best + k * p->step[2];
    const int32_t *here = at + k * p->step[2];
    TLK_VECTOR
    for (int i = 0; i < BLOCK; i++) {
      int nan = IS_NAN(x[i]), was_nan = IS_NAN(m[i]);
      int better = (x[i] > m[i]) | ((x[i] == m[i]) & (here[i] < from[i])) |
                   (nan & (!was_nan | (here[i] > from[i])));
      m[i] = better ? x[i] : m[i];
      from[i] = better ? here[i] : from[i];
    }
  }
  TLK_VECTOR
  for (int i = 0; i < BLOCK; i++) most[i] = m[i], most_at[i] = from[i];
}

/* Computes the maximum of the window that begins at column 0 of `best`. */
static inline void pick(const tlk_Spans *p, const Element *best, const int32_t *at, Element *most,
                        int32_t *most_at) {
  Element m = best[0];
  int32_t from = at[0];
  for (int64_t k = p->step[2], end = p->count * k; k < end; k += p->step[2]) {
    bool nan = IS_NAN(best[k]);
    bool better =
        best[k] > m || (best[k] == m && at[k] < from) || (nan && (!IS_NAN(m) || at[k] > from));
    m = better ? best[k] : m;
    from = better ? at[k] : from;
  }
  *most = m, *most_at = from;
}

/* Computes a row of the result. */
static void max_row(const tlk_Spans *p, const Rows *r, const Element *in, int64_t d, int64_t h,
                    Element *out, int64_t *indices) {
  int64_t width = p->in[2], n = p->out[2], stride = p->stride;
  Element *best = r->best + p->padding;
  int32_t *at = r->at + p->padding;
  int64_t valid = width < BLOCK ? width : BLOCK;
  for (int64_t w = 0; w < width; w = next_block(w, width, BLOCK))
    join_columns(p, in, d, h, w, valid, best + w, at + w);
  /* `slide` also computes the windows between the wanted ones, so it is slower than `pick` if
  ** wanted windows are far apart */
  for (int64_t w = 0; w <= (n - 1) * stride; w += stride < FAR ? BLOCK : stride) {
    if (stride < FAR)
      slide(p, r->best + w, r->at + w, r->most + w, r->most_at + w);
    else
      pick(p, r->best + w, r->at + w, r->most + w, r->most_at + w);
  }
  for (int64_t o = 0; o < n; o++) out[o] = r->most[o * stride];
  for (int64_t o = 0; indices && o < n; o++) {
    int64_t from = r->most_at[o * stride], begin = p->begin[2][o];
    if (from == NOWHERE) from = begin < p->end[2][o] ? begin : 0;
    indices[o] = from + 1;
  }
}

/* Computes the maxima of n windows of 2 x 2 elements in the rows x and y. */
static inline __attribute__((always_inline)) void square_block(const Element *x, const Element *y,
                                                               Element *out, int n) {
  TLK_VECTOR
  for (int i = 0; i < n; i++) {
    Element m = x[2 * i], b = x[2 * i + 1], c = y[2 * i], d = y[2 * i + 1];
    m = (b > m) | IS_NAN(b) ? b : m;
    m = (c > m) | IS_NAN(c) ? c : m;
    out[i] = (d > m) | IS_NAN(d) ? d : m;
  }
}

/* Like square_block, and stores 1 + the positions of the maxima. `first` is the position of x in
** the plane. */
static inline __attribute__((always_inline)) void
place_block(const Element *x, int64_t first, int64_t width, Element *out, int64_t *indices, int n) {
  const Element *y = x + width;
  int32_t at[SQUARES]; /* the number of the maximum among the elements of its window */
  TLK_VECTOR
  for (int i = 0; i < n; i++) {
    Element m = x[2 * i], b = x[2 * i + 1], c = y[2 * i], d = y[2 * i + 1];
    int better = (b > m) | IS_NAN(b);
    m = better ? b : m;
    int32_t k = better ? 1 : 0;
    better = (c > m) | IS_NAN(c);
    m = better ? c : m;
    k = better ? 2 : k;
    better = (d > m) | IS_NAN(d);
    out[i] = better ? d : m;
    at[i] = better ? 3 : k;
  }
  TLK_VECTOR
  for (int i = 0; i < n; i++)
    indices[i] = first + 2 * i + (at[i] & 1) + (at[i] > 1 ? width : 0) + 1;
}

/* Pools the row of n windows of 2 x 2 elements that begins at position `first` of the plane. */
static void place_squares(const Element *in, int64_t first, int64_t width, Element *out,
                          int64_t *indices, int64_t n) {
#define PLACE(size)      \
  EACH_BLOCK(o, n, size) \
  place_block(in + first + 2 * o, first + 2 * o, width, out + o, indices + o, size)
  if (n >= SQUARES)
    PLACE(SQUARES);
  else if (n >= SQUARES / 2)
    PLACE(SQUARES / 2);
  else if (n >= 2)
    PLACE(2);
  else
    PLACE(1);
#undef PLACE
}
#endif

/* Pools two rows with windows of 2 x 2 elements, if the positions of the maxima are not wanted. */
static void max_squares(const Element *x, const Element *y, Element *out, int64_t n) {
  int64_t done = 0;
#ifdef BLOCK
  EACH_BLOCK(o, n, SQUARES) square_block(x + 2 * o, y + 2 * o, out + o, SQUARES);
  done = n < SQUARES ? 0 : n;
#endif
  for (int64_t o = done; o < n; o++) {
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
#ifdef BLOCK
  Rows r;
  bool blocks = p->margins > 0 && !p->squares;
  if (blocks) r = rows_in(p, scratch);
#endif
  for (int64_t d = 0; d < p->out[0]; d++)
    for (int64_t h = 0; h < p->out[1]; h++, to += p->out[2]) {
      if (p->squares && indices == NULL) {
        const Element *x = (const Element *)in + (d * p->in[1] + 2 * h) * p->in[2];
        max_squares(x, x + p->in[2], to, p->out[2]);
        continue;
      }
#ifdef BLOCK
      if (p->squares) {
        int64_t first = (d * p->in[1] + 2 * h) * p->in[2];
        place_squares(in, first, p->in[2], to, indices, p->out[2]);
        indices += p->out[2];
        continue;
      }
      if (blocks) {
        max_row(p, &r, in, d, h, to, indices);
        if (indices) indices += p->out[2];
        continue;
      }
#endif
      join_rows(p, in, d, h, best, rows);
      for (int64_t o = 0; o < p->out[2]; o++) max_one(p, best, rows, o, to, indices);
      if (indices) indices += p->out[2];
    }
}
