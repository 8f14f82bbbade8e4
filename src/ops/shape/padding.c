/*
** padding.c - padding of tensors. In mode "constant" the input is copied into a filled tensor. All
** other modes select elements of the input, dimension by dimension.
*/
#include <string.h>

#include "ops/chain.h"
#include "ops/copy/memory_format.h"

/* ---- with a constant ---- */

/* Computes the sizes of the result. `pad` has the padding before and after the last dimension, then
** the padding before and after the second to last dimension, and so on. Negative numbers remove
** elements. */
static bool padded_sizes(const tl_Tensor *self, tl_Ints pad, int64_t *sizes) {
  if (pad.n % 2 != 0 || pad.n / 2 > self->ndim)
    return tli_fail(TL_EARG,
                    "pad: pad: expected an even count of numbers, at most %d for input "
                    "%s, got %" PRId64,
                    2 * self->ndim, tli_sizes_str(self), pad.n);
  for (int d = 0; d < self->ndim; d++) sizes[d] = self->sizes[d];
  for (int k = 0; k < pad.n / 2; k++) {
    int d = self->ndim - 1 - k;
    int64_t size;
    if (__builtin_add_overflow(pad.v[2 * k], pad.v[2 * k + 1], &size) ||
        __builtin_add_overflow(size, sizes[d], &size) || size < 0)
      return tli_fail(TL_EARG,
                      "pad: pad: %" PRId64 " and %" PRId64 " do not fit dimension " TLI_POS
                      " of input %s",
                      pad.v[2 * k], pad.v[2 * k + 1], (int64_t)d, tli_sizes_str(self));
    sizes[d] = size;
  }
  return true;
}

/* Copies the part of self that is not removed to its position in `result`. */
static bool copy_inside(tl_Tensor *result, const tl_Tensor *self, tl_Ints pad) {
  int64_t sizes[TL_MAX_DIMS];
  int64_t from = self->offset, to = result->offset;
  for (int d = 0; d < self->ndim; d++) {
    int k = self->ndim - 1 - d;
    int64_t before = k < pad.n / 2 ? pad.v[2 * k] : 0;
    int64_t begin = before < 0 ? -before : 0; /* first position of self that is copied */
    int64_t end =
        result->sizes[d] - before < self->sizes[d] ? result->sizes[d] - before : self->sizes[d];
    sizes[d] = end - begin;
    if (sizes[d] <= 0) return true;
    from += begin * self->strides[d];
    to += (begin + before) * result->strides[d];
  }
  tl_Tensor *src = tli_alias(self, self->ndim, sizes, self->strides, from);
  tl_Tensor *dst = src ? tli_alias(result, result->ndim, sizes, result->strides, to) : NULL;
  bool ok = dst && tli_copy(dst, src);
  tli_release(src);
  tli_release(dst);
  return ok;
}

tl_Tensor *tli_op_constant_pad(tl_Tensor *self, tl_Ints pad, tl_Scalar value) {
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(padded_sizes(self, pad, sizes));
  TL_TRY_NULL(tli_check_complex_number("pad", value, (tl_DType)self->dtype));
  tl_Tensor *result = tli_empty_format(tli_format_of(self), (tl_DType)self->dtype, tli_device(self),
                                       self->ndim, sizes);
  if (result && tli_fill(result, value) && copy_inside(result, self, pad)) return result;
  tli_release(result);
  return NULL;
}

tl_Tensor *tlo_constant_unpad(tl_Tensor *self, tl_Ints pad) {
  int64_t opposite[2 * TL_MAX_DIMS];
  for (int k = 0; k < pad.n; k++) opposite[k] = -pad.v[k];
  return tlo_constant_pad(self, (tl_Ints){pad.n, opposite}, tli_int(0));
}

/* ---- with elements of the input ---- */

typedef enum Mode { REFLECT, REPLICATE, CIRCULAR } Mode;

static bool find_mode(const char *name, Mode *mode) {
  static const char *const names[] = {"reflect", "replicate", "circular"};
  for (int k = 0; k < 3; k++) {
    if (strcmp(name, names[k]) != 0) continue;
    *mode = (Mode)k;
    return true;
  }
  return tli_fail(TL_EARG,
                  "pad: mode: expected \"constant\", \"reflect\", \"replicate\" or "
                  "\"circular\", got \"%s\"",
                  name);
}

/* Checks that the mode can add `more` elements to one end of a dimension of `size` elements. */
static bool check_room(Mode mode, int d, int64_t size, int64_t more) {
  int64_t most = mode == REFLECT ? size - 1 : mode == CIRCULAR ? size : INT64_MAX;
  if (more <= 0 || (size > 0 && more <= most)) return true;
  if (size == 0 || mode == REPLICATE)
    return tli_fail(TL_ESHAPE, "pad: dimension " TLI_POS " is empty and cannot be continued",
                    (int64_t)d);
  return tli_fail(TL_ESHAPE,
                  "pad: pad: expected at most %" PRId64 " for dimension " TLI_POS
                  " of size %" PRId64 ", got %" PRId64,
                  most, (int64_t)d, size, more);
}

/* Maps each position i to the element that padding puts there. Positions and elements count from 0;
** i may be outside of the `size` elements. */
static tl_Tensor *chain_source(tli_Chain *c, Mode mode, tl_Tensor *i, int64_t size) {
  tl_Tensor *last = TLI_STEP(c, tli_number(tli_int(size - 1)));
  tl_Tensor *first = TLI_STEP(c, tli_number(tli_int(0)));
  switch (mode) {
  /* reflects i at both ends: replaces it by |i|, and then by size - 1 - |size - 1 - i| */
  case REFLECT: {
    tl_Tensor *left = TLI_STEP(c, tlo_abs(i));
    tl_Tensor *past = chain_sub(c, last, left);
    tl_Tensor *right = TLI_STEP(c, tlo_abs(past));
    return chain_sub(c, last, right);
  }
  case REPLICATE: return TLI_STEP(c, tlo_clamp_both(i, first, last));
  case CIRCULAR: break;
  }
  return TLI_STEP(c, tli_with_number(tlo_remainder, i, tli_int(size)));
}

/* Returns a tensor of the n positions from `start` on. */
static tl_Tensor *chain_places(tli_Chain *c, const tl_Tensor *self, int64_t start, int64_t n) {
  return TLI_STEP(
      c, tlo_arange(tli_int(start), tli_int(start + n), tli_int(1), TL_I64, tli_device(self)));
}

/* Selects the elements that padding puts at positions `place`, if dimension d consists of `size`
** elements from `first` on. */
static tl_Tensor *chain_select(tli_Chain *c, tl_Tensor *self, Mode mode, int d, tl_Tensor *place,
                               int64_t first, int64_t size) {
  tl_Tensor *from = c->failed ? NULL : chain_source(c, mode, place, size);
  tl_Tensor *positions = TLI_STEP(c, tli_with_number(tli_plus, from, tli_int(first + 1)));
  return TLI_STEP(c, tlo_index_select(self, d, positions));
}

/* From this size on, a dimension with little padding is copied as a whole, and only the padding is
** selected by positions. */
#define LONG_LEAST 1024

static tl_Tensor *chain_ends(tli_Chain *c, tl_Tensor *self, Mode mode, int d, int64_t before,
                             int64_t after) {
  int64_t size = self->sizes[d];
  tl_Tensor *left = chain_places(c, self, -before, before);
  tl_Tensor *right = chain_places(c, self, size, after);
  tl_Tensor *place = c->failed ? NULL : chain_cat(c, left, right, 0);
  tl_Tensor *ends = c->failed ? NULL : chain_select(c, self, mode, d, place, 0, size);
  tl_Tensor *start = chain_slice(c, ends, d, 0, before);
  tl_Tensor *stop = chain_slice(c, ends, d, before, before + after);
  if (c->failed) return NULL;
  return TLI_STEP(c, tlo_cat((tl_Tensors){3, (tl_Tensor *[]){start, self, stop}}, d));
}

static tl_Tensor *pad_dim(tl_Tensor *self, Mode mode, int d, int64_t before, int64_t after) {
  int64_t first = 0, size = self->sizes[d];
  if (before < -size || after < -size)
    return tli_fail_null(TL_EARG,
                         "pad: pad: dimension " TLI_POS " has only %" PRId64 " elements to cut off",
                         (int64_t)d, size);
  if (mode == CIRCULAR) { /* removes elements first, because only the remaining ones wrap around */
    first = before < 0 ? -before : 0;
    size -= first + (after < 0 ? -after : 0);
  }
  TL_TRY_NULL(check_room(mode, d, size, before));
  TL_TRY_NULL(check_room(mode, d, size, after));
  tli_Chain c = {0};
  if (before >= 0 && after >= 0 && size >= LONG_LEAST && before + after <= size / 2)
    return tli_chain_end(&c, chain_ends(&c, self, mode, d, before, after));
  int64_t start = -before - first, n = before + self->sizes[d] + after;
  tl_Tensor *place = chain_places(&c, self, start, n);
  return tli_chain_end(&c, chain_select(&c, self, mode, d, place, first, size));
}

static tl_Tensor *pad_with_elements(tl_Tensor *input, tl_Ints pad, Mode mode) {
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(padded_sizes(input, pad, sizes));
  int most = input->ndim > 3 ? 3 : input->ndim - 1;
  if (pad.n / 2 > most)
    return tli_fail_null(TL_ESHAPE,
                         "pad: pad: expected at most %d numbers for input %s in this "
                         "mode, got %" PRId64,
                         most > 0 ? 2 * most : 0, tli_sizes_str(input), pad.n);
  tli_Chain c = {0};
  tl_Tensor *result = input;
  for (int k = 0; k < pad.n / 2 && result; k++) {
    int64_t before = pad.v[2 * k], after = pad.v[2 * k + 1];
    if (before == 0 && after == 0) continue;
    result = TLI_STEP(&c, pad_dim(result, mode, input->ndim - 1 - k, before, after));
  }
  return tli_follow(tli_chain_end(&c, result), input);
}

tl_Tensor *tlo_pad(tl_Tensor *input, tl_Ints pad, const char *mode, tl_Scalar value) {
  Mode by_elements = REFLECT;
  if (strcmp(mode, "constant") == 0)
    return tlo_constant_pad(input, pad, tli_given(value) ? value : tli_int(0));
  TL_TRY_NULL(find_mode(mode, &by_elements));
  if (tli_given(value) && tli_to_double(value) != 0)
    return tli_fail_null(TL_EARG, "pad: value: mode \"%s\" takes none", mode);
  static const char *const titles[][3] = {
      [REFLECT] = {"ReflectionPad1D", "ReflectionPad2D", "ReflectionPad3D"},
      [REPLICATE] = {"ReplicationPad1D", "ReplicationPad2D", "ReplicationPad3D"},
      /* the names that PyTorch gives to the autograd nodes */
      [CIRCULAR] = {"CopySlices", "CopySlices", "CopySlices"}};
  uint64_t count = tli_node_count();
  tl_Tensor *result = pad_with_elements(input, pad, by_elements);
  if (result && pad.n >= 2) tli_entitle(result, titles[by_elements][pad.n / 2 - 1], count);
  return result;
}
