/*
** sort.h - sorting and selecting by keys. A key is an unsigned integer that stands for an element.
** Keys have the same order as the elements, except that -0 equals 0 and NaN is the largest. For
** descending sorts the order is reversed.
*/
#ifndef TLK_SORT_H
#define TLK_SORT_H

#include "kernels/cpu/cpu.h"

/* An item: the key of an element in the high bits, and the element's position in the low bits. No
** two items are equal, so sorting is stable. */
typedef uint64_t tlk_Pair;
/* An item with a key of 64 bits. */
typedef struct tlk_LargePair {
  uint64_t key, place;
} tlk_LargePair;

/* Sorts n items whose keys have `bits` bits. Returns the array that contains the result: either
** `items` or `spare`, which has the same size. `alone` means that all threads sort one long row,
** which the user can interrupt; the result is NULL then. */
tlk_Pair *tlk_sort_pairs(int64_t n, int bits, tlk_Pair *items, tlk_Pair *spare, bool alone);
tlk_LargePair *tlk_sort_large_pairs(int64_t n, int bits, tlk_LargePair *items, tlk_LargePair *spare,
                                    bool alone);

#endif
