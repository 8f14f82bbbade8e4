/* reduce_f32.c - reductions that compute in float. */
#include "kernels/cpu/reduce/reduce.h"

typedef float real;
#define TYPE f32
#define TEMPLATE "kernels/cpu/reduce/reduce_loops.h"
#include "each_reduction.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_reducers_f32)[TLK_NREDUCTIONS];
const tlk_Reducer TLK_ISA_NAME(tlk_reducers_f32)[TLK_NREDUCTIONS] = {
#define X(name, types) TLK_REDUCER_ENTRY(f32, name, types)
    TLK_REDUCTIONS(X)
#undef X
};
