/* pointwise_i64.c - elementwise loops that compute in int64_t. */
#include "kernels/cpu/loops.h"
#include "kernels/cpu/pointwise/fast_path.h"

typedef int64_t real;
#define TYPE i64
#define TEMPLATE "kernels/cpu/pointwise/pointwise_loops.h"
#include "each_pointwise.h"

extern const tlk_Loop TLK_ISA_NAME(tlk_loops_i64)[TLK_NPOINTWISES];
const tlk_Loop TLK_ISA_NAME(tlk_loops_i64)[TLK_NPOINTWISES] = {
#define X(name, inputs, types, result) TLK_LOOP_ENTRY(i64, name, types)
    TLK_POINTWISES(X)
#undef X
};

extern const tlk_Loop TLK_ISA_NAME(tlk_fixed_i64)[TLK_NPOINTWISES];
const tlk_Loop TLK_ISA_NAME(tlk_fixed_i64)[TLK_NPOINTWISES] = {
#define X(name, inputs, types, result) TLK_FIXED_ENTRY(i64, name, inputs, types)
    TLK_POINTWISES(X)
#undef X
};
