/*
** csr_loops.h - the loops of csr.h for the type `real`. A panel of columns of one row of the result
** stays in registers while the row's sparse elements are multiplied with rows of the dense matrix.
*/
#include "kernels/cpu/sparse/csr.h"
#include "kernels/cpu/vector.h"

#include <string.h>

/* The sums of a panel take a quarter of the registers; operands need the remaining ones. */
#define LANES (TLK_VECTOR_BYTES / (int)sizeof(real))
#define VECTORS (TLK_VECTOR_REGISTERS / 4)
#define PANEL (LANES * VECTORS)

typedef real Vector
    __attribute__((vector_size(TLK_VECTOR_BYTES), aligned(sizeof(real)), may_alias));

/* Multiplies a row by a panel of `vectors` vectors. Callers pass a constant for `vectors`, for
** which the inlined function is optimised. */
static inline __attribute__((always_inline)) void panel_of(int vectors, const real *values,
                                                           const int64_t *columns, int64_t n,
                                                           const real *in, int64_t step,
                                                           real *out) {
  Vector sum[VECTORS] = {{0}};
  for (int64_t e = 0; e < n; e++) {
    const real *row = in + (columns[e] - 1) * step;
    Vector v = (Vector){0} + values[e];
    for (int i = 0; i < vectors; i++) {
      Vector x;
      memcpy(&x, row + i * LANES, sizeof x);
      sum[i] += v * x;
    }
  }
  for (int i = 0; i < vectors; i++) memcpy(out + i * LANES, &sum[i], sizeof sum[i]);
}

static inline void part_panel(const real *values, const int64_t *columns, int64_t n, const real *in,
                              int64_t step, real *out, int64_t width) {
  int64_t c = 0;
  if (width >= PANEL / 2) {
    panel_of(VECTORS / 2, values, columns, n, in, step, out);
    c = PANEL / 2;
  }
  for (; c + LANES <= width; c += LANES) {
    Vector sum = {0};
    for (int64_t e = 0; e < n; e++) {
      Vector x;
      memcpy(&x, in + (columns[e] - 1) * step + c, sizeof x);
      sum += values[e] * x;
    }
    memcpy(out + c, &sum, sizeof sum);
  }
  for (; c < width; c++) {
    real sum = 0;
    for (int64_t e = 0; e < n; e++) sum += values[e] * in[(columns[e] - 1) * step + c];
    out[c] = sum;
  }
}

typedef real Eight __attribute__((vector_size(8 * sizeof(real))));

/* Returns the dot product of a sparse row and a vector. Single loads are faster than gather
** instructions, which many processors execute slowly. */
static inline real with_vector(const real *values, const int64_t *columns, int64_t n,
                               const real *in) {
  Eight sum = {0};
  int64_t e = 0;
  for (; e + 8 <= n; e += 8) {
    const int64_t *c = columns + e;
    Eight v, x = {in[c[0] - 1], in[c[1] - 1], in[c[2] - 1], in[c[3] - 1],
                  in[c[4] - 1], in[c[5] - 1], in[c[6] - 1], in[c[7] - 1]};
    memcpy(&v, values + e, sizeof v);
    sum += v * x;
  }
  real total = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  for (; e < n; e++) total += values[e] * in[columns[e] - 1];
  return total;
}

static void product_vector(const tlk_CsrRows *r) {
  const real *values = r->values;
  for (int64_t i = r->begin; i < r->end; i++) {
    int64_t first = r->pointers[i] - 1, n = r->pointers[i + 1] - 1 - first;
    ((real *)r->out)[i] = with_vector(values + first, r->columns + first, n, r->in);
  }
}

static void product(const tlk_CsrRows *r) {
  if (r->width == 1 && r->in_step == 1 && r->out_step == 1) {
    product_vector(r);
    return;
  }
  const real *values = r->values, *in = r->in;
  for (int64_t i = r->begin; i < r->end; i++) {
    int64_t first = r->pointers[i] - 1, n = r->pointers[i + 1] - 1 - first;
    real *out = (real *)r->out + i * r->out_step;
    int64_t c = 0;
    for (; c + PANEL <= r->width; c += PANEL)
      panel_of(VECTORS, values + first, r->columns + first, n, in + c, r->in_step, out + c);
    if (c < r->width)
      part_panel(values + first, r->columns + first, n, in + c, r->in_step, out + c, r->width - c);
  }
}

static void transposed(const tlk_CsrRows *r) {
  const real *values = r->values;
  for (int64_t i = r->begin; i < r->end; i++) {
    const real *in = (const real *)r->in + i * r->in_step;
    for (int64_t e = r->pointers[i] - 1; e < r->pointers[i + 1] - 1; e++) {
      real *out = (real *)r->out + (r->columns[e] - 1) * r->out_step;
      real v = values[e];
      for (int64_t c = 0; c < r->width; c++) out[c] += v * in[c];
    }
  }
}

static inline real dot(const real *a, const real *b, int64_t n) {
  Vector sum[4] = {{0}};
  int64_t c = 0;
  for (; c + 4 * LANES <= n; c += 4 * LANES)
    for (int i = 0; i < 4; i++) {
      Vector x, y;
      memcpy(&x, a + c + i * LANES, sizeof x);
      memcpy(&y, b + c + i * LANES, sizeof y);
      sum[i] += x * y;
    }
  for (; c + LANES <= n; c += LANES) {
    Vector x, y;
    memcpy(&x, a + c, sizeof x);
    memcpy(&y, b + c, sizeof y);
    sum[0] += x * y;
  }
  Vector all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  real total = 0;
  for (int i = 0; i < LANES; i++) total += all[i];
  for (; c < n; c++) total += a[c] * b[c];
  return total;
}

static void sampled(const tlk_CsrRows *r, const void *left) {
  real *out = r->out;
  for (int64_t i = r->begin; i < r->end; i++) {
    const real *a = (const real *)left + i * r->in_step;
    for (int64_t e = r->pointers[i] - 1; e < r->pointers[i + 1] - 1; e++)
      out[e] = dot(a, (const real *)r->in + (r->columns[e] - 1) * r->in_step, r->width);
  }
}

#define CSR_LOOPS \
  { PANEL, product, transposed, sampled }
