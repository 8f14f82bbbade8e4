/*
** average_loops.h - average pooling of one plane. First the rows of a window are added up column by
** column, and then the columns are added, as max_loops.h does for maxima. pool_<type>.c defines
** `real` and includes this file.
*/
#include <string.h>

#include "kernels/cpu/pool/pool.h"

static void average(const tlk_Spans *p, const void *data, void *to, void *scratch) {
  const real *in = data;
  real *sum = scratch, *out = to;
  const double *share = p->share;
  int64_t width = p->in[2];
  for (int64_t d = 0; d < p->out[0]; d++)
    for (int64_t h = 0; h < p->out[1]; h++) {
      memset(sum, 0, (size_t)width * sizeof(real));
      for (int64_t i = p->begin[0][d]; i < p->end[0][d]; i++)
        for (int64_t j = p->begin[1][h]; j < p->end[1][h]; j++) {
          const real *x = in + (i * p->in[1] + j) * width;
          TLK_IVDEP
          for (int64_t w = 0; w < width; w++) sum[w] += x[w];
        }
      for (int64_t o = 0; o < p->out[2]; o++) {
        double total = 0;
        for (int64_t w = p->begin[2][o]; w < p->end[2][o]; w++) total += (double)sum[w];
        *out++ = (real)(total * *share++);
      }
    }
}

static void spread(const tlk_Spans *p, const void *data, void *to, void *scratch) {
  const real *out = data;
  real *row = scratch, *in = to;
  const double *share = p->share;
  int64_t width = p->in[2];
  memset(in, 0, (size_t)(p->in[0] * p->in[1] * width) * sizeof(real));
  for (int64_t d = 0; d < p->out[0]; d++)
    for (int64_t h = 0; h < p->out[1]; h++) {
      memset(row, 0, (size_t)width * sizeof(real));
      for (int64_t o = 0; o < p->out[2]; o++) {
        real part = (real)((double)*out++ * *share++);
        for (int64_t w = p->begin[2][o]; w < p->end[2][o]; w++) row[w] += part;
      }
      for (int64_t i = p->begin[0][d]; i < p->end[0][d]; i++)
        for (int64_t j = p->begin[1][h]; j < p->end[1][h]; j++) {
          real *x = in + (i * p->in[1] + j) * width;
          TLK_IVDEP
          for (int64_t w = 0; w < width; w++) x[w] += row[w];
        }
    }
}
