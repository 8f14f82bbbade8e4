/* pointwise_f64.c - elementwise loops that compute in double. */
#include "kernels/cpu/loops.h"
#include "kernels/cpu/pointwise/fast_path.h"

typedef double real;
#define TYPE f64
#define TEMPLATE "kernels/cpu/pointwise/pointwise_loops.h"
#include "each_pointwise.h"

extern const tlk_Loop TLK_ISA_NAME(tlk_loops_f64)[TLK_NPOINTWISES];
const tlk_Loop TLK_ISA_NAME(tlk_loops_f64)[TLK_NPOINTWISES] = {
#define X(name, inputs, types, result) TLK_LOOP_ENTRY(f64, name, types)
    TLK_POINTWISES(X)
#undef X
};

extern const tlk_Loop TLK_ISA_NAME(tlk_fixed_f64)[TLK_NPOINTWISES];
const tlk_Loop TLK_ISA_NAME(tlk_fixed_f64)[TLK_NPOINTWISES] = {
#define X(name, inputs, types, result) TLK_FIXED_ENTRY(f64, name, inputs, types)
    TLK_POINTWISES(X)
#undef X
};
