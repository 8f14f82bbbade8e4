/*
** index_call.h - calls of the gather and scatter kernels, whose operands of any strides become
** lines along one dimension.
*/
#ifndef TLI_INDEX_CALL_H
#define TLI_INDEX_CALL_H

#include "ops/common.h"

/* Converts an index tensor, which holds integer positions from 1. Returns t itself or a copy in
** int64, row-major; NULL with "op: index: ..." for any other dtype. */
tl_Tensor *tli_index_int64(const char *op, tl_Tensor *index) TL_MUSTCHECK;
/* Checks that an int64, row-major index is in [1, size] or, if `wrap`, in [-size, -1].
** Otherwise returns false with a message or, on a device, records a fault. */
bool tli_check_index(const char *op, const char *argument, const tl_Tensor *index, int64_t size,
                     bool wrap) TL_MUSTCHECK;

/* Converts an index tensor with positions in [1, size] like tli_index_int64. Negative positions,
** which count from the end, become positive; positions out of range are an error. */
tl_Tensor *tli_wrap_index(const char *op, const char *argument, tl_Tensor *index, int64_t size)
    TL_MUSTCHECK;
/* Returns a copy of t if writing to `written` would change it, otherwise t itself. */
tl_Tensor *tli_unaliased(tl_Tensor *t, const tl_Tensor *written) TL_MUSTCHECK;

/* Returns the elements, or slices, of self at the positions in index along `count` dimensions
** starting at `first` (index.c). */
tl_Tensor *tli_read_positions(const char *op, tl_Tensor *self, tl_Tensor *index, int first,
                              int count) TL_MUSTCHECK;

/* An operand of gather and scatter: a tensor with the strides of the lines' dimensions, and the
** stride along a line. */
typedef struct tli_Operand {
  tl_Tensor *tensor;
  int64_t strides[TL_MAX_DIMS]; /* strides of the lines' dimensions, in elements */
  int64_t along;                /* stride along a line, in elements */
} tli_Operand;

/* Sets out = in at index: `count` elements along each line, for lines over `sizes`. The
** operands are out, index, in; a line of in has n positions. */
bool tli_gather(const char *op, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                int64_t count, int64_t n) TL_MUSTCHECK;
/* Combines out at index with in; the operands are those of tli_gather, but a line of `out` has n
** positions. Nothing is checked. out's dtype must be a compute type (see tli_scatter_upcasts)
** unless join is TLK_JOIN_SET. */
bool tli_scatter(tlk_Join join, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                 int64_t count, int64_t n) TL_MUSTCHECK;
/* Returns whether elements of out's dtype must be combined in a copy of its compute type: half
** types lose less precision, and small integers wrap as in their own type. */
bool tli_scatter_upcasts(tlk_Join join, const tl_Tensor *out);

#endif
