/* sort_pairs.c - sorts pairs that store the key and the position in one integer. */
#include "kernels/cpu/sort/sort.h"

typedef tlk_Pair Item;
#define KEY(item) ((item) >> 32)
#define LESS(a, b) ((a) < (b))
#define SORT tlk_sort_pairs
#include "kernels/cpu/sort/sort_items.h"
