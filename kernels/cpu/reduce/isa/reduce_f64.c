/* reduce_f64.c - reductions that compute in double. */
#include "kernels/cpu/reduce/reduce.h"

typedef double real;
#define TYPE f64
#define TEMPLATE "kernels/cpu/reduce/reduce_loops.h"
#include "each_reduction.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_reducers_f64)[TLK_NREDUCTIONS];
const tlk_Reducer TLK_ISA_NAME(tlk_reducers_f64)[TLK_NREDUCTIONS] = {
#define X(name, types) TLK_REDUCER_ENTRY(f64, name, types)
    TLK_REDUCTIONS(X)
#undef X
};
