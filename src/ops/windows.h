/*
** windows.h - reads the options of operators with sliding windows: lists of one number for all
** dimensions, or one for each.
*/
#ifndef TLI_WINDOWS_H
#define TLI_WINDOWS_H

#include "ops/common.h"

/* Writes n numbers (at most 3): those of `list`, or n copies of its only number. Each must be at
** least `least`. Messages begin with "op: what: ". */
bool tli_spread(const char *op, const char *what, tl_Ints list, int n, int64_t least, int64_t *out)
    TL_MUSTCHECK;

/* A list with the number 0, and a list with the number 1. */
extern const tl_Ints tli_zero, tli_one;

#endif
