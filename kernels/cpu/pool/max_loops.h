/*
** max_loops.h - max pooling of one plane. For each row of the result, the rows of the windows are
** combined into one row first, column by column, in a loop that vectorises. Then each window
** combines its columns. pool_<type>.c defines `Element`, its LOWEST and IS_NAN, and includes this
** file.
**
** Among equal maxima the first one in the plane is chosen, and among several NaN the last one, as
** in PyTorch.
*/
#include <math.h>
#include <string.h>

#include "kernels/cpu/pool/pool.h"

/* For each column, computes the maximum over the rows that windows (d, h, *) cover, and the number
** of the row that contains this maximum. */
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
        TLK_IVDEP
        for (int64_t w = 0; w < width; w++) {
          bool better = (x[w] > best[w]) | IS_NAN(x[w]);
          best[w] = better ? x[w] : best[w];
          rows[w] = better ? row : rows[w];
        }
      }
      first = false;
    }
  /* runs only if the windows cover no row, because they are entirely in the padding */
  for (int64_t w = 0; first && w < width; w++) best[w] = LOWEST, rows[w] = 0;
}

static void max_row(const tlk_Spans *p, const Element *best, const int32_t *rows, Element *out,
                    int64_t *indices) {
  for (int64_t o = 0; o < p->out[2]; o++) {
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
}

/* Pools two rows with windows of 2 x 2 elements, without the positions of the maxima. */
static void max_squares(const Element *x, const Element *y, Element *out, int64_t n) {
  for (int64_t o = 0; o < n; o++) {
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
