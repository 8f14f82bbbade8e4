/*
** channels.h - inner loops over the channels of an array (outer, channels, inner). A loop processes
** a run of one channel's elements or, if inner is 1, a row of all channels. There is one set of
** loops for float and one for double. The values of the channels have the same type as the
** elements.
*/
#ifndef TLK_CHANNELS_H
#define TLK_CHANNELS_H

#include "kernels/cpu/cpu.h"

typedef struct tlk_ChannelLoops {
  /* The next functions process a run of n elements of one channel. */
  double (*sum)(int64_t n, const void *x);
  double (*deviation)(int64_t n, const void *x, double mean);
  void (*products)(int64_t n, const void *grad, const void *x, double mean, double *sum,
                   double *product);
  void (*affine)(int64_t n, void *out, const void *x, double mean, double scale, double shift,
                 const void *other, double factor);
  /* The next functions process a row that has one element of each of n channels. They add to the
  ** sums of the channels. */
  void (*row_sum)(int64_t n, const void *x, double *sum);
  void (*row_deviation)(int64_t n, const void *x, const double *mean, double *sum);
  void (*row_products)(int64_t n, const void *grad, const void *x, const void *mean, double *sum,
                       double *product);
  void (*row_affine)(int64_t n, void *out, const void *x, const void *mean, const void *scale,
                     const void *shift, const void *other, const void *factor);
} tlk_ChannelLoops;

/* Returns the value of channel i from an array of floats, or of doubles if `size` is 8. */
static inline double tlk_number_at(const void *data, int64_t i, int64_t size) {
  return size == 4 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static inline void tlk_store_at(void *data, int64_t i, int64_t size, double value) {
  if (size == 4)
    ((float *)data)[i] = (float)value;
  else
    ((double *)data)[i] = value;
}

#endif
