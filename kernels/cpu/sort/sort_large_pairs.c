/* sort_large_pairs.c - sorts pairs that store the key and the position in separate integers. */
#include "kernels/cpu/sort/sort.h"

typedef tlk_LargePair Item;
#define KEY(item) ((item).key)
#define LESS(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).place < (b).place))
#define SORT tlk_sort_large_pairs
#include "kernels/cpu/sort/sort_items.h"
