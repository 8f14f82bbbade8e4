/*
** sort.h - sorting and selecting by keys: unsigned integers in the order of the
** elements, -0 like 0 and every NaN the largest; the other way round where the
** order is to descend.
*/
#ifndef TLK_SORT_H
#define TLK_SORT_H

#include "kernels/cpu/cpu.h"

/* An element's key above its place: unlike any other, so that sorting items is
** stable. */
typedef uint64_t tlk_Pair;
/* The same for keys of 64 bits. */
typedef struct tlk_LargePair {
  uint64_t key, place;
} tlk_LargePair;

/* Sorts n items with keys of that many bits; `spare` has room for as many, and
** the result is in the one that is returned. Shared among threads if `alone`,
** for one long row; then the result is NULL after an interruption. */
tlk_Pair *tlk_sort_pairs(int64_t n, int bits, tlk_Pair *items, tlk_Pair *spare, bool alone);
tlk_LargePair *tlk_sort_large_pairs(int64_t n, int bits, tlk_LargePair *items, tlk_LargePair *spare,
                                    bool alone);

#endif
