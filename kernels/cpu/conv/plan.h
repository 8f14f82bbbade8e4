/*
** plan.h - plans of a convolution, or of the gradient of its input, as weighted sums of elements of
** a scratch image (padded_image.h). There are two ways to compute a plan. For few channels,
** direct.c puts neighbouring positions of one channel into a SIMD vector. For many channels,
** implicit_gemm.c puts channels of one position into a vector.
*/
#ifndef TLK_PLAN_H
#define TLK_PLAN_H

#include <stdatomic.h>

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/padded_image.h"
#include "kernels/cpu/matmul/tile.h"

/* A job computes one grid of results. Each result is a sum over taps (elements of the convolution's
** kernel): the tap's weight times the element of the scratch image that lies offsets[tap] elements
** after the result's position. */
typedef struct tlk_ConvJob {
  int64_t taps;
  /* array (taps) of the offset of each tap (kernel element) in the scratch image, owned by the
  ** job */
  int64_t *offsets;
  void *weights;    /* array (groups, tiles, taps, height) of packed weights, owned by the job */
  int64_t count[3]; /* number of results along each dimension */
  int64_t pitch[3]; /* strides of the scratch image's dimensions, in elements */
  int64_t at;       /* position of the grid's first number in a plane of the output */
  int64_t steps[3]; /* strides between results of the grid, in elements */
} tlk_ConvJob;

typedef struct tlk_ConvPlan {
  const tlk_Conv *conv;
  const tlk_ConvLoops *lanes;
  const tlk_TileLoops *tile; /* loops for many channels; NULL for few channels */
  int64_t size;              /* size of an element in bytes */
  tlk_ConvLayout layout;
  int64_t channels; /* number of channels of a group in the scratch image */
  int64_t rows;     /* number of channels of a group in the result */
  /* tiles: number of tiles into which `rows` is divided; height: number of channels in a tile */
  int64_t tiles, height;
  int64_t result; /* number of elements in a plane of the result */
  int64_t njobs;
  tlk_ConvJob *jobs; /* owned */
  const char *in, *bias;
  char *out;
  /* number of parts into which each task is divided, so that several threads can share it */
  int64_t parts;
  atomic_bool failed;
} tlk_ConvPlan;

/* Plans the convolution that p->conv and the arrays in p describe or, if `backward`, the gradient
** of its input, and packs the weights. The caller must free the plan even after a failure. */
bool tlk_conv_plan(tlk_ConvPlan *p, bool backward, const void *weight);
void tlk_conv_plan_free(tlk_ConvPlan *p);

/* These functions compute the results of a plan: run_direct if the plan has no `tile`, run_gemm if
** it has one. Both set `failed` if memory is exhausted or the user interrupts the call. */
void tlk_conv_run_direct(tlk_ConvPlan *p);
void tlk_conv_run_gemm(tlk_ConvPlan *p);

/* These functions compute the gradient of the weight. tlk_conv_weight_direct is faster for few
** channels, and tlk_conv_weight_gemm for many. */
bool tlk_conv_weight_direct(const tlk_Conv *conv, void *grad_weight, const void *in,
                            const void *grad_out);
bool tlk_conv_weight_gemm(const tlk_Conv *conv, void *grad_weight, const void *in,
                          const void *grad_out);

/* Returns whether tlk_conv_scatter is the faster way to compute the gradient of the input. */
bool tlk_conv_scatters(const tlk_Conv *conv);
bool tlk_conv_scatter(const tlk_Conv *conv, void *grad_in, const void *grad_out,
                      const void *weight);

/* tlk_conv1x1 returns whether the convolution is a matrix product that is large enough to be
** computed as one. The next two functions compute such a convolution and its weight's gradient by
** matrix products. */
bool tlk_conv1x1(const tlk_Conv *conv);
bool tlk_conv1x1_sums(const tlk_Conv *conv, bool backward, void *out, const void *in,
                      const void *weight, const void *bias);
bool tlk_conv1x1_weight(const tlk_Conv *conv, void *grad_weight, const void *in,
                        const void *grad_out);

/* These functions do the same as the three functions above for bfloat16, on processors that have
** instructions for bfloat16. */
bool tlk_conv_dot1x1(const tlk_Conv *conv);
bool tlk_conv_dot1x1_sums(const tlk_Conv *conv, bool backward, void *out, const void *in,
                          const void *weight, const void *bias);
bool tlk_conv_dot1x1_weight(const tlk_Conv *conv, void *grad_weight, const void *in,
                            const void *grad_out);

/* Returns whether a SIMD vector should hold channels instead of neighbouring positions. This is so
** if there are enough channels to fill a vector, and if each sum has enough terms. */
bool tlk_conv_many(const tlk_Conv *conv, int64_t channels, int64_t terms);
double tlk_conv_bias(const tlk_ConvPlan *p, int64_t channel);

#endif
