/* sort_pairs.c - sorting pairs of a key and a position that share one number. */
#include "kernels/cpu/sort/sort.h"

typedef tlk_Pair Item;
#define KEY(item) ((item) >> 32)
#define LESS(a, b) ((a) < (b))
#define SORT tlk_sort_pairs
#include "kernels/cpu/sort/sort_items.h"
