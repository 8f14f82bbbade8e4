/*
** sort.h - sorting and selecting by keys: unsigned integers in the order of the elements, where
** -0 equals 0 and NaN is the largest; the order is reversed for descending sorts.
*/
#ifndef TLK_SORT_H
#define TLK_SORT_H

#include "kernels/cpu/cpu.h"

/* An item: an element's key in the high bits, its position in the low bits. All items differ, so
** sorting is stable. */
typedef uint64_t tlk_Pair;
/* An item with a key of 64 bits. */
typedef struct tlk_LargePair {
  uint64_t key, place;
} tlk_LargePair;

/* Sorts n items with keys of `bits` bits and returns the array with the result: items or `spare`,
** which has the same size. With `alone`, all threads sort one long row, and the result is NULL if
** the user interrupts them. */
tlk_Pair *tlk_sort_pairs(int64_t n, int bits, tlk_Pair *items, tlk_Pair *spare, bool alone);
tlk_LargePair *tlk_sort_large_pairs(int64_t n, int bits, tlk_LargePair *items, tlk_LargePair *spare,
                                    bool alone);

#endif
