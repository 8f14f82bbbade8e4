/*
** winograd_loops.h - inner loops of convolution with 3 x 3 kernels in tiles of 4 x 4 results. Each
** tile is computed from a patch of 6 x 6 elements with 36 products instead of 144, one for each
** pair of the points below (S. Winograd, Arithmetic complexity of computations, 1980; A. Lavin and
** S. Gray, Fast algorithms for convolutional neural networks, 2016, arXiv:1509.09308). The
** transforms are those of Toom and Cook: polynomials are evaluated at points, multiplied there, and
** interpolated. The points 0, -5/8, 5/8, -3/2, 3/2 and infinity have about half the rounding error
** of the usual 0, -1, 1, -2, 2 and infinity.
**
** A loop works on one vector of channels, so each element of an image, of weights or of sums is
** `lanes` floats.
*/
#ifndef TLK_WINOGRAD_LOOPS_H
#define TLK_WINOGRAD_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

enum { TLK_TILE = 4, TLK_PATCH = 6, TLK_POINTS = TLK_PATCH * TLK_PATCH };

/* Inner loops. All distances are counted in floats. The transformed values of a point form a plane;
** there are TLK_POINTS planes, `plane` apart. In a plane, the values of neighbouring tiles or
** channels are `step` apart. */
typedef struct tlk_WinogradLoops {
  int lanes; /* number of floats in a vector */
  /* Transforms n patches of an image. Neighbouring patches begin TLK_TILE elements apart, and rows
  ** of the image are `row` apart. */
  void (*patches)(int64_t n, const float *in, int64_t row, float *out, int64_t step, int64_t plane);
  /* Transforms n tiles of the gradients of the results, which are laid out like the image of
  ** `patches`. */
  void (*tiles)(int64_t n, const float *in, int64_t row, float *out, int64_t step, int64_t plane);
  /* Transforms n kernels whose elements are in_step apart. If `turned`, each kernel is reversed
  ** first. */
  void (*kernels)(int64_t n, const float *in, int64_t in_step, bool turned, float *out,
                  int64_t step, int64_t plane);
  /* Transforms n tiles back to results, adds the vector `bias` unless it is NULL, and stores the
  ** first `rows` rows and `cols` columns. Returns whether all results are finite. */
  bool (*results)(int64_t n, const float *in, int64_t step, int64_t plane, const float *bias,
                  int64_t rows, int64_t cols, float *out, int64_t row);
  /* Transforms n gradients back to kernels of 3 x 3 elements, which are out_step apart. Returns
  ** whether all gradients are finite. */
  bool (*gradients)(int64_t n, const float *in, int64_t step, int64_t plane, float *out,
                    int64_t out_step);
} tlk_WinogradLoops;

#endif
