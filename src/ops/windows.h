/*
** windows.h - reads options of operators with sliding windows. An option is a list with one number
** for all dimensions, or with one number for each dimension.
*/
#ifndef TLI_WINDOWS_H
#define TLI_WINDOWS_H

#include "ops/common.h"

/* Writes n numbers (at most 3) to `out`: the numbers of `list`, or n copies of its only number.
** Each number must be at least `least`. Messages begin with "op: what: ". */
bool tli_spread(const char *op, const char *what, tl_Ints list, int n, int64_t least, int64_t *out)
    TL_MUSTCHECK;

/* Returns the number of windows along one dimension, which is 0 if no window fits. With
** `ceil_mode`, an incomplete window at the end also counts. */
int64_t tli_count_windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                          int64_t dilation, bool ceil_mode);

/* The lists {0} and {1}, which serve as default options. */
extern const tl_Ints tli_zero, tli_one;

#endif
