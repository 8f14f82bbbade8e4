/*
** best_loops.h - the largest or smallest element and its position. NaN counts as better than every
** number, and the first of equal elements is chosen. best_<type>.c includes this file after it has
** defined `Element`, IS_NAN for elements, `Position` (an integer of the same size) and MEMBER (the
** member of tlk_Best that holds the value). Callers pass a constant for `largest`, for which the
** inlined function is optimised.
*/
#include "kernels/cpu/cpu.h"
#include "kernels/math.h"

/* number of elements in a block; a block with a new best element is searched again for its
** position */
#define BLOCK 1024
#define STRIP 64 /* number of columns that are processed together */
#define ALWAYS inline __attribute__((always_inline))

/* Returns whether the best element so far, `held`, is still the best when x is compared with it.
** The result is false if either is NaN. */
static ALWAYS bool keeps(bool largest, Element held, Element x) {
  return largest ? x <= held : x >= held;
}

static ALWAYS Element better(bool largest, Element held, Element x) {
  Element m = keeps(largest, held, x) ? held : x;
  return IS_NAN(held) ? held : m;
}

/* Returns the best of n > 0 contiguous elements. */
static ALWAYS Element extreme(bool largest, int64_t n, const Element *x) {
  enum { LANES = 32 };
  Element best = x[0];
  int64_t i = 0;
  if (n >= LANES) {
    Element lane[LANES];
    for (int k = 0; k < LANES; k++) lane[k] = x[k];
    for (i = LANES; i + LANES <= n; i += LANES)
      for (int k = 0; k < LANES; k++) lane[k] = better(largest, lane[k], x[i + k]);
    for (int half = LANES / 2; half > 0; half /= 2)
      for (int k = 0; k < half; k++) lane[k] = better(largest, lane[k], lane[k + half]);
    best = lane[0];
  }
  for (; i < n; i++) best = better(largest, best, x[i]);
  return best;
}

/* Returns the first position of `best`, which must occur in x. First finds a group of elements,
** then the element in the group. */
static int64_t find(int64_t n, const Element *x, Element best) {
  enum { LANES = 32 };
  int64_t i = 0;
  if (IS_NAN(best)) {
    while (!IS_NAN(x[i])) i++;
    return i;
  }
  for (; i + LANES <= n; i += LANES) {
    Position found = 0;
    for (int k = 0; k < LANES; k++) found |= x[i + k] == best;
    if (found) break;
  }
  while (x[i] != best) i++;
  return i;
}

/* Returns whether x is better than the best element in acc. */
static ALWAYS bool replaces(bool largest, const tlk_Best *acc, Element x) {
  Element held = (Element)acc->value.MEMBER;
  return acc->index < 0 || (!IS_NAN(held) && !keeps(largest, held, x));
}

static ALWAYS void row(bool largest, int64_t n, const void *x_, void *acc_,
                       const tl_Scalar *params) {
  (void)params;
  tlk_Best *acc = acc_;
  const Element *x = x_;
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t piece = n - at < BLOCK ? n - at : BLOCK;
    Element best = extreme(largest, piece, x + at);
    if (!replaces(largest, acc, best)) continue;
    acc->value.MEMBER = best;
    acc->index = acc->seen + at + find(piece, x + at, best);
  }
  acc->seen += n;
}

static ALWAYS void strip(bool largest, int64_t rows, int64_t cols, int64_t stride, const Element *x,
                         tlk_Best *acc) {
  Element held[STRIP];
  Position where[STRIP];
  for (int64_t c = 0; c < cols; c++) {
    held[c] = x[c];
    where[c] = 0;
  }
  for (int64_t r = 1; r < rows; r++) {
    const Element *line = x + r * stride;
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) {
      Position p = keeps(largest, held[c], line[c]) ? where[c] : (Position)r;
      where[c] = IS_NAN(held[c]) ? where[c] : p;
      held[c] = better(largest, held[c], line[c]);
    }
  }
  for (int64_t c = 0; c < cols; c++) {
    if (replaces(largest, &acc[c], held[c])) {
      acc[c].value.MEMBER = held[c];
      acc[c].index = acc[c].seen + where[c];
    }
    acc[c].seen += rows;
  }
}

static ALWAYS void columns(bool largest, int64_t rows, int64_t cols, int64_t stride, const void *x,
                           void *acc, const tl_Scalar *params) {
  (void)params;
  if (rows == 0) return;
  for (int64_t c = 0; c < cols; c += STRIP)
    strip(largest, rows, cols - c < STRIP ? cols - c : STRIP, stride, (const Element *)x + c,
          (tlk_Best *)acc + c);
}

static ALWAYS void join(bool largest, int64_t n, void *acc_, const void *other_) {
  tlk_Best *acc = acc_;
  const tlk_Best *other = other_;
  for (int64_t i = 0; i < n; i++) {
    if (other[i].index >= 0 && replaces(largest, &acc[i], (Element)other[i].value.MEMBER)) {
      acc[i].value = other[i].value;
      acc[i].index = acc[i].seen + other[i].index;
    }
    acc[i].seen += other[i].seen;
  }
}

static void start(int64_t n, void *acc, const tl_Scalar *params) {
  (void)params;
  tlk_Best *best = acc;
  for (int64_t i = 0; i < n; i++) best[i] = (tlk_Best){.seen = 0, .index = -1};
}

static void row_least(int64_t n, const void *x, void *acc, const tl_Scalar *params) {
  row(false, n, x, acc, params);
}
static void columns_least(int64_t rows, int64_t cols, int64_t stride, const void *x, void *acc,
                          const tl_Scalar *params) {
  columns(false, rows, cols, stride, x, acc, params);
}
static void join_least(int64_t n, void *acc, const void *other) { join(false, n, acc, other); }

static void row_largest(int64_t n, const void *x, void *acc, const tl_Scalar *params) {
  row(true, n, x, acc, params);
}
static void columns_largest(int64_t rows, int64_t cols, int64_t stride, const void *x, void *acc,
                            const tl_Scalar *params) {
  columns(true, rows, cols, stride, x, acc, params);
}
static void join_largest(int64_t n, void *acc, const void *other) { join(true, n, acc, other); }

#define BEST_LOOPS                                                                    \
  {                                                                                   \
    {sizeof(tlk_Best), true, start, row_least, columns_least, join_least, NULL}, {    \
      sizeof(tlk_Best), true, start, row_largest, columns_largest, join_largest, NULL \
    }                                                                                 \
  }
