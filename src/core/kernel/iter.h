/*
** iter.h - the shape of an elementwise loop over several operands, reduced to
** the fewest dimensions: broadcast (stride 0), reordered so that dimension 0
** is the innermost (smallest strides), and merged where memory allows.
** Back ends see nothing but this; they never see a tensor. The file is C++ as well.
*/
#ifndef TLI_ITER_H
#define TLI_ITER_H

#include "tlua.h"

#define TLI_ITER_MAX 8

/* A 0-d tensor of the CPU among operands of a device is a number: it travels by
** value, with data NULL. */
typedef struct tli_IterArg {
  char *data;
  int64_t number; /* its bytes */
  tl_DType dtype;
  int64_t strides[TL_MAX_DIMS]; /* bytes; 0 where broadcast */
} tli_IterArg;

typedef struct tli_Iter {
  int nargs; /* outputs first, then inputs */
  int ndim;  /* 0 only when numel is 1 or 0 */
  int64_t numel;
  int64_t sizes[TL_MAX_DIMS]; /* sizes[0] innermost */
  tli_IterArg args[TLI_ITER_MAX];
} tli_Iter;

/* Builds the loop over `shape` (ndim sizes in tensor order). Each operand's
** shape must be broadcastable to it; that was checked by the caller. */
void tli_iter_build(tli_Iter *it, int ndim, const int64_t *shape, tl_Tensor *const *args,
                    int nargs);

/* Calls `run` for rows along dimension 0 in the range [begin, end) of elements
** counted in iteration order: ptrs[k] is operand k's first element of the row,
** n the row's length (at most sizes[0]). Used by back ends to walk their share.*/
typedef bool (*tli_RowFn)(void *context, char **ptrs, int64_t n);
bool tli_iter_rows(const tli_Iter *it, int64_t begin, int64_t end, tli_RowFn run, void *context);

/* Whether every operand runs through memory without gaps in iteration order
** (an operand of stride 0 throughout, a scalar, counts too). */
bool tli_iter_flat(const tli_Iter *it);

#endif
