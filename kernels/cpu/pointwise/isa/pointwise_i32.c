/* pointwise_i32.c - elementwise loops that compute in int32_t. */
#include "kernels/cpu/loops.h"
#include "kernels/cpu/pointwise/fast_path.h"

typedef int32_t real;
#define TYPE i32
#define TEMPLATE "kernels/cpu/pointwise/pointwise_loops.h"
#include "each_pointwise.h"

extern const tlk_Loop TLK_ISA_NAME(tlk_loops_i32)[TLK_NPOINTWISES];
const tlk_Loop TLK_ISA_NAME(tlk_loops_i32)[TLK_NPOINTWISES] = {
#define X(name, inputs, types, result) TLK_LOOP_ENTRY(i32, name, types)
    TLK_POINTWISES(X)
#undef X
};

extern const tlk_Loop TLK_ISA_NAME(tlk_fixed_i32)[TLK_NPOINTWISES];
const tlk_Loop TLK_ISA_NAME(tlk_fixed_i32)[TLK_NPOINTWISES] = {
#define X(name, inputs, types, result) TLK_FIXED_ENTRY(i32, name, inputs, types)
    TLK_POINTWISES(X)
#undef X
};
