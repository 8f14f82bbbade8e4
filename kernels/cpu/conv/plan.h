/*
** plan.h - a convolution, or the gradient of its input, as weighted sums of elements of
** a scratch image (padded_image.h). A plan is run in one of two ways. In direct.c a SIMD
** vector holds neighbouring positions of one channel: for few channels. In implicit_gemm.c
** it holds channels of one position: for many.
*/
#ifndef TLK_PLAN_H
#define TLK_PLAN_H

#include <stdatomic.h>

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/padded_image.h"
#include "kernels/cpu/matmul/tile.h"

/* A grid of results. Each result is a sum over the taps: the tap's weight times the element of the
** scratch image that lies offsets[tap] elements after the result's position. */
typedef struct tlk_ConvJob {
  int64_t taps;
  int64_t *offsets; /* owned (taps) */
  void *weights;    /* owned (groups, tiles, taps, height) */
  int64_t count[3]; /* results along each dimension */
  int64_t pitch[3]; /* the scratch image's pitches */
  int64_t at;       /* the grid's first element in the result's plane */
  int64_t steps[3]; /* strides between the grid's results, in elements */
} tlk_ConvJob;

typedef struct tlk_ConvPlan {
  const tlk_Conv *conv;
  const tlk_ConvLoops *lanes;
  const tlk_TileLoops *tile; /* NULL for few channels */
  int64_t size;              /* bytes of an element */
  tlk_ConvLayout layout;
  int64_t channels;      /* channels of a group in the scratch image */
  int64_t rows;          /* channels of a group in the result */
  int64_t tiles, height; /* tiles of those channels, and channels of each tile */
  int64_t result;        /* elements of a plane of the result */
  int64_t njobs;
  tlk_ConvJob *jobs; /* owned */
  const char *in, *bias;
  char *out;
  int64_t parts; /* parts of a task, for several threads */
  atomic_bool failed;
} tlk_ConvPlan;

/* Plans the convolution or, if `backward`, the gradient of its input, from p's conv and arrays,
** and packs the weights. The plan must be freed also after a failure. */
bool tlk_conv_plan(tlk_ConvPlan *p, bool backward, const void *weight);
void tlk_conv_plan_free(tlk_ConvPlan *p);

/* Run a plan that has no tile, and one that has. Both set `failed` if memory is exhausted. */
void tlk_conv_run_direct(tlk_ConvPlan *p);
void tlk_conv_run_gemm(tlk_ConvPlan *p);

/* Compute the gradient of the weight, for few channels and for many. */
bool tlk_conv_weight_direct(const tlk_Conv *conv, void *grad_weight, const void *in,
                            const void *grad_out);
bool tlk_conv_weight_gemm(const tlk_Conv *conv, void *grad_weight, const void *in,
                          const void *grad_out);

/* tlk_conv1x1 returns whether the convolution is a matrix product and is worth computing by one.
** The two functions after it compute such a convolution, or its weight's gradient, by matrix
** products. */
bool tlk_conv1x1(const tlk_Conv *conv);
bool tlk_conv1x1_sums(const tlk_Conv *conv, bool backward, void *out, const void *in,
                      const void *weight, const void *bias);
bool tlk_conv1x1_weight(const tlk_Conv *conv, void *grad_weight, const void *in,
                        const void *grad_out);

/* Do as the tlk_conv1x1 functions do, for bfloat16, if the processor has instructions for
** bfloat16. */
bool tlk_conv_dot1x1(const tlk_Conv *conv);
bool tlk_conv_dot1x1_sums(const tlk_Conv *conv, bool backward, void *out, const void *in,
                          const void *weight, const void *bias);
bool tlk_conv_dot1x1_weight(const tlk_Conv *conv, void *grad_weight, const void *in,
                            const void *grad_out);

/* Returns whether this number of channels fills vectors well enough, for sums of `terms` terms. */
bool tlk_conv_many(const tlk_Conv *conv, int64_t channels, int64_t terms);
double tlk_conv_bias(const tlk_ConvPlan *p, int64_t channel);

#endif
