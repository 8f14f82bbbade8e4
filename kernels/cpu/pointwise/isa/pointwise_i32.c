/* pointwise_i32.c - elementwise loops that compute in int32_t. */
#include "kernels/cpu/loops.h"

#define X(name, inputs, types, result) TLK_LOOP(i32, int32_t, name, inputs, types, result)
TLK_POINTWISES(X)
#undef X

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
