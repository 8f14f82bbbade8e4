/*
** iter.h - an elementwise loop over several operands, reduced to the fewest dimensions. Operands
** are broadcast (stride 0). Dimensions are reordered so that dimension 0 is the innermost (smallest
** strides), and merged where the strides allow it. Kernels get such a loop, never a tensor. The
** file also compiles as C++.
*/
#ifndef TLI_ITER_H
#define TLI_ITER_H

#include "tlua.h"

#define TLI_ITER_MAX 8

/* An operand of the loop. If the operands are on a device, a 0-d tensor on the CPU is passed by
** value, with data NULL. */
typedef struct tli_IterArg {
  char *data;
  union {
    int64_t number; /* for an operand passed by value: the bytes of its element */
    /* for an operand passed by value whose element has 16 bytes: the bytes of its element */
    char stored[16];
  };
  tl_DType dtype;
  int64_t strides[TL_MAX_DIMS]; /* strides in bytes; 0 for a broadcast dimension */
} tli_IterArg;

typedef struct tli_Iter {
  int nargs; /* number of operands: outputs come first, then inputs */
  int ndim;  /* number of dimensions; 0 only if numel is 1 or 0 */
  int64_t numel;
  int64_t sizes[TL_MAX_DIMS]; /* size of each dimension; sizes[0] is the innermost */
  tli_IterArg args[TLI_ITER_MAX];
} tli_Iter;

/* Builds the loop over `shape` (ndim sizes in tensor order). The caller has checked that each
** operand's shape can be broadcast to `shape`. */
void tli_iter_build(tli_Iter *it, int ndim, const int64_t *shape, tl_Tensor *const *args,
                    int nargs);

/* Calls `run` for rows along dimension 0 in the range [begin, end) of elements, counted in
** iteration order. ptrs[k] points to operand k's first element of the row, and n is the row's
** length (at most sizes[0]). A back end with threads calls tli_iter_rows in each thread, for that
** thread's share of the elements. */
typedef bool (*tli_RowFn)(void *context, char **ptrs, int64_t n);
bool tli_iter_rows(const tli_Iter *it, int64_t begin, int64_t end, tli_RowFn run, void *context);

/* Returns whether every operand either is contiguous in iteration order or has stride 0 in all
** dimensions, as a scalar has. */
bool tli_iter_flat(const tli_Iter *it);

#endif
