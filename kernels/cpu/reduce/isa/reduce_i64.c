/* reduce_i64.c - reductions that compute in int64_t. */
#include "kernels/cpu/reduce/reduce.h"

typedef int64_t real;
#define TYPE i64
#define TEMPLATE "kernels/cpu/reduce/reduce_loops.h"
#include "each_reduction.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_reducers_i64)[TLK_NREDUCTIONS];
const tlk_Reducer TLK_ISA_NAME(tlk_reducers_i64)[TLK_NREDUCTIONS] = {
#define X(name, types) TLK_REDUCER_ENTRY(i64, name, types)
    TLK_REDUCTIONS(X)
#undef X
};
