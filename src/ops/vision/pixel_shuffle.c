/*
** pixel_shuffle.c - moves elements from channels to pixels and back, and permutes channels.
*/
#include <string.h>

#include "ops/chain.h"
#include "ops/copy/memory_format.h"

/* Reshapes self to the sizes in `inner`, permutes these `last` dimensions by `order`, and reshapes
** the result to `shape`. */
static tl_Tensor *rearranged(tl_Tensor *self, const int64_t inner[6], const int64_t order[6],
                             int last, const int64_t *shape) {
  tli_Chain c = {0};
  tl_Tensor *apart = TLI_STEP(&c, tlo_reshape(self, (tl_Ints){last, inner}));
  tl_Tensor *turned = TLI_STEP(&c, tlo_permute(apart, (tl_Ints){last, order}));
  tl_Tensor *result = TLI_STEP(&c, tlo_reshape(turned, (tl_Ints){self->ndim, shape}));
  return tli_follow(tli_chain_end(&c, result), self);
}

static bool check_shuffle(const char *op, const tl_Tensor *input, int64_t factor) {
  if (input->ndim < 3)
    return tli_fail(TL_ESHAPE, "%s: expected (..., C, H, W), got %s", op, tli_sizes_str(input));
  if (factor >= 1 && factor <= INT32_MAX) return true;
  return tli_fail(TL_EARG, "%s: expected a factor of at least 1, got %" PRId64, op, factor);
}

/* Copies the sizes of input to `shape`. Returns the number of images. */
static int64_t leading(const tl_Tensor *input, int64_t *shape) {
  int64_t n = 1;
  for (int d = 0; d < input->ndim; d++) shape[d] = input->sizes[d];
  for (int d = 0; d < input->ndim - 3; d++) n *= shape[d];
  return n;
}

tl_Tensor *tlo_pixel_shuffle(tl_Tensor *input, int64_t upscale_factor) {
  TL_TRY_NULL(check_shuffle("pixel_shuffle", input, upscale_factor));
  int64_t shape[TL_MAX_DIMS], r = upscale_factor;
  int64_t n = leading(input, shape), *s = shape + input->ndim - 3;
  if (s[0] % (r * r) != 0)
    return tli_fail_null(TL_ESHAPE,
                         "pixel_shuffle: expected a multiple of %" PRId64 " channels, got %" PRId64,
                         r * r, s[0]);
  s[0] /= r * r;
  const int64_t inner[6] = {n, s[0], r, r, s[1], s[2]};
  s[1] *= r;
  s[2] *= r;
  return rearranged(input, inner, (int64_t[]){0, 1, 4, 2, 5, 3}, 6, shape);
}

tl_Tensor *tlo_pixel_unshuffle(tl_Tensor *input, int64_t downscale_factor) {
  TL_TRY_NULL(check_shuffle("pixel_unshuffle", input, downscale_factor));
  int64_t shape[TL_MAX_DIMS], r = downscale_factor;
  int64_t n = leading(input, shape), *s = shape + input->ndim - 3;
  if (s[1] % r != 0 || s[2] % r != 0)
    return tli_fail_null(TL_ESHAPE,
                         "pixel_unshuffle: expected images with sizes that are "
                         "multiples of %" PRId64 ", got %s",
                         r, tli_sizes_str(input));
  s[1] /= r;
  s[2] /= r;
  const int64_t inner[6] = {n, s[0], s[1], r, s[2], r};
  s[0] *= r * r;
  return rearranged(input, inner, (int64_t[]){0, 1, 3, 5, 2, 4}, 6, shape);
}

tl_Tensor *tlo_channel_shuffle(tl_Tensor *input, int64_t groups) {
  if (input->ndim < 3)
    return tli_fail_null(TL_ESHAPE, "channel_shuffle: expected (N, C, ...), got %s",
                         tli_sizes_str(input));
  if (groups < 1 || input->sizes[1] % groups != 0)
    return tli_fail_null(TL_EARG,
                         "channel_shuffle: groups: expected a divisor of %" PRId64
                         " channels, got %" PRId64,
                         input->sizes[1], groups);
  int64_t rest = 1;
  for (int d = 2; d < input->ndim; d++) rest *= input->sizes[d];
  const int64_t inner[6] = {input->sizes[0], groups, input->sizes[1] / groups, rest};
  return rearranged(input, inner, (int64_t[6]){0, 2, 1, 3}, 4, input->sizes);
}
