/* reduce_i32.c - reductions that compute in int32_t. */
#include "kernels/cpu/reduce/reduce.h"

typedef int32_t real;
#define TYPE i32
#define TEMPLATE "kernels/cpu/reduce/reduce_loops.h"
#include "each_reduction.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_reducers_i32)[TLK_NREDUCTIONS];
const tlk_Reducer TLK_ISA_NAME(tlk_reducers_i32)[TLK_NREDUCTIONS] = {
#define X(name, types) TLK_REDUCER_ENTRY(i32, name, types)
    TLK_REDUCTIONS(X)
#undef X
};
