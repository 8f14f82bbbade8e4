/*
** index_call.h - calls of the gather and scatter kernels: operands of any strides
** become lines along one dimension.
*/
#ifndef TLI_INDEX_CALL_H
#define TLI_INDEX_CALL_H

#include "ops/common.h"

/* Index tensors hold integers that are positions from 1: t itself or a copy in
** int64, row-major; NULL with "op: index: ..." for another dtype. */
tl_Tensor *tli_index_int64(const char *op, tl_Tensor *index) TL_MUSTCHECK;
/* Whether all of an int64, row-major index lies in [1, size], or in
** [-size, -1] if `wrap`; else false with a message, or, on a device, a fault. */
bool tli_check_index(const char *op, const char *argument, const tl_Tensor *index, int64_t size,
                     bool wrap) TL_MUSTCHECK;

/* tli_index_int64 in [1, size]: negative ones, which count from the end, are
** replaced, others that are out of range an error. */
tl_Tensor *tli_wrap_index(const char *op, const char *argument, tl_Tensor *index, int64_t size)
    TL_MUSTCHECK;
/* A copy of t if writing to `written` would change it, else t itself. */
tl_Tensor *tli_unaliased(tl_Tensor *t, const tl_Tensor *written) TL_MUSTCHECK;

/* The elements, or slices, of self at the positions in index along `count` dimensions
** from `first` on (index.c). */
tl_Tensor *tli_read_positions(const char *op, tl_Tensor *self, tl_Tensor *index, int first,
                              int count) TL_MUSTCHECK;

/* A tensor for gather and scatter, seen through sizes and strides of which the
** lines' dimensions come first, and `along`, the stride along a line. */
typedef struct tli_Operand {
  tl_Tensor *tensor;
  int64_t strides[TL_MAX_DIMS]; /* elements */
  int64_t along;                /* elements */
} tli_Operand;

/* out = in at index: `count` elements along each line over `sizes`, the
** operands being out, index, in; n positions lie along a line of in. */
bool tli_gather(const char *op, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                int64_t count, int64_t n) TL_MUSTCHECK;
/* out at index joined with in; operands as above, n positions along a line of
** out. Nothing is checked. out's dtype must be one to compute in (see
** tli_scatter_upcasts) unless join is TLK_JOIN_SET. */
bool tli_scatter(tlk_Join join, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                 int64_t count, int64_t n) TL_MUSTCHECK;
/* Whether elements of out's dtype must be joined in a copy of the dtype that
** they are computed in: the half types lose less, small integers wrap the same. */
bool tli_scatter_upcasts(tlk_Join join, const tl_Tensor *out);

#endif
