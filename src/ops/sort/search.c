/*
** search.c - searchsorted and bucketize, which find the positions at which values belong in a
** sorted sequence.
*/
#include <string.h>

#include "ops/common.h"

static bool check_search(const char *op, const tl_Tensor *sequence, const tl_Tensor *values) {
  bool fits = sequence->ndim == 1;
  if (!fits && sequence->ndim > 0 && sequence->ndim == values->ndim) {
    fits = true;
    for (int d = 0; d < sequence->ndim - 1; d++)
      fits = fits && sequence->sizes[d] == values->sizes[d];
  }
  if (fits) return true;
  return tli_fail(TL_ESHAPE,
                  "%s: expected a sequence of one dimension, or with the first sizes of "
                  "values, got %s and %s",
                  op, tli_sizes_str(sequence), tli_sizes_str(values));
}

tl_Tensor *tli_op_search(tl_Tensor *sorted_sequence, tl_Tensor *values, bool right) {
  tl_DType dtype = tli_result_dtype((tl_Tensor *[]){sorted_sequence, values}, 2);
  dtype = tli_dtype_compute(dtype);
  tl_Tensor *in = tli_contiguous_as(sorted_sequence, dtype);
  tl_Tensor *what = in ? tli_contiguous_as(values, dtype) : NULL;
  tl_Tensor *out = what ? tli_empty(TL_I64, tli_device(in), values->ndim, values->sizes) : NULL;
  if (out && out->numel > 0) {
    int64_t n = in->sizes[in->ndim - 1];
    int64_t rows = in->ndim == 1 ? 1 : what->numel / what->sizes[what->ndim - 1];
    if (!TLI_RUN(tli_device(in), search, .out = tli_data(out), .sorted = tli_array(in),
                 .values = tli_array(what), .rows = rows, .n = n, .m = what->numel / rows,
                 .right = right)) {
      tli_release(out);
      out = NULL;
    }
  }
  tli_release(in);
  tli_release(what);
  return out;
}

static tl_Tensor *search(const char *op, tl_Tensor *sequence, tl_Tensor *values, bool out_int32,
                         bool right) {
  TL_TRY_NULL(check_search(op, sequence, values));
  tl_Tensor *there = tli_operand_on(values, tli_device(sequence));
  tl_Tensor *found = there ? tlo_search(sequence, there, right) : NULL;
  tli_release(there);
  if (found == NULL || !out_int32) return found;
  tl_Tensor *narrow = tlo_to_dtype(found, TL_I32);
  tli_release(found);
  return narrow;
}

tl_Tensor *tlo_searchsorted(tl_Tensor *sorted_sequence, tl_Tensor *values, bool out_int32,
                            bool right, const char *side, tl_Tensor *sorter) {
  if (side && strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
    return tli_fail_null(TL_EARG, "searchsorted: side: expected 'left' or 'right', got '%s'", side);
  if (side && right && strcmp(side, "left") == 0)
    return tli_fail_null(TL_EARG, "searchsorted: side 'left' contradicts right = true");
  right = right || (side && strcmp(side, "right") == 0);
  if (sorter == NULL) return search("searchsorted", sorted_sequence, values, out_int32, right);
  if (!tli_same_sizes(sorter, sorted_sequence))
    return tli_fail_null(TL_ESHAPE, "searchsorted: sorter: expected shape %s, got %s",
                         tli_sizes_str(sorted_sequence), tli_sizes_str(sorter));
  tl_Tensor *in_order = tlo_gather(sorted_sequence, -1, sorter);
  tl_Tensor *result = in_order ? search("searchsorted", in_order, values, out_int32, right) : NULL;
  tli_release(in_order);
  return result;
}

tl_Tensor *tlo_bucketize(tl_Tensor *self, tl_Tensor *boundaries, bool out_int32, bool right) {
  if (boundaries->ndim != 1)
    return tli_fail_null(TL_ESHAPE, "bucketize: boundaries: expected one dimension, got %s",
                         tli_sizes_str(boundaries));
  return search("bucketize", boundaries, self, out_int32, right);
}
