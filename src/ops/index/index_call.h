/*
** index_call.h - calls of the gather and scatter kernels. Operands with any strides are described
** as lines along one dimension.
*/
#ifndef TLI_INDEX_CALL_H
#define TLI_INDEX_CALL_H

#include "ops/common.h"

/* Converts an index tensor of integer positions, which count from 1, to row-major int64. Returns a
** new reference to t itself or a copy. For any other dtype, returns NULL with the message "op:
** index: ...". */
tl_Tensor *tli_index_int64(const char *op, tl_Tensor *index) TL_MUSTCHECK;
/* Checks that the elements of a row-major int64 index are in [1, size] or, if `wrap` is set, in
** [-size, -1]. For a failed check, the CPU returns false with a message, and other devices record a
** fault. */
bool tli_check_index(const char *op, const char *argument, const tl_Tensor *index, int64_t size,
                     bool wrap) TL_MUSTCHECK;

/* Converts an index tensor like tli_index_int64 and checks that its positions are in [1, size].
** Negative positions count from the end and become positive. */
tl_Tensor *tli_wrap_index(const char *op, const char *argument, tl_Tensor *index, int64_t size)
    TL_MUSTCHECK;
/* Returns a copy of t if t shares storage with `written`, and otherwise a new reference to t. */
tl_Tensor *tli_unaliased(tl_Tensor *t, const tl_Tensor *written) TL_MUSTCHECK;

/* Returns the elements or slices of self at the positions in index. The positions refer to `count`
** dimensions of self, beginning at `first`, as if these were one dimension (index.c). */
tl_Tensor *tli_read_positions(const char *op, tl_Tensor *self, tl_Tensor *index, int first,
                              int count) TL_MUSTCHECK;

/* An operand of gather and scatter: a tensor, the strides between lines, and the stride along a
** line. */
typedef struct tli_Operand {
  tl_Tensor *tensor;
  int64_t strides[TL_MAX_DIMS]; /* strides from line to line, for each dimension, in elements */
  int64_t along;                /* stride along a line, in elements */
} tli_Operand;

/* Gathers: sets `out` to the elements of `in` at `index`. The operands are out, index, in. There is
** one line for each position in `sizes`; a line of `out` and `index` has `count` elements, a line
** of `in` has n. */
bool tli_gather(const char *op, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                int64_t count, int64_t n) TL_MUSTCHECK;
/* Scatters: combines `out` at `index` with the elements of `in`. The operands are as for
** tli_gather, except that a line of `out` has n elements. Does not check the index. Unless `join`
** is TLK_JOIN_SET, the dtype of `out` must be a compute type (see tli_scatter_upcasts). */
bool tli_scatter(tlk_Join join, const tli_Operand operands[3], int ndim, const int64_t *sizes,
                 int64_t count, int64_t n) TL_MUSTCHECK;
/* Returns whether elements of out's dtype must be combined in a copy that has the compute type.
** Half types then lose less precision; small integers wrap around as they do in their own type. */
bool tli_scatter_upcasts(tlk_Join join, const tl_Tensor *out);

#endif
