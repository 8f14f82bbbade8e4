/*
** rare.c - elementwise loops of special functions. These functions are long and seldom called, so
** all instruction sets share one build of their loops, which the Makefile compiles without
** vectorisation.
*/
#include "kernels/cpu/loops.h"

#define IN_FLOATING(...)
#define IN_NUMBER(...)
#define IN_INTEGER(...)
#define IN_NONE(...)
#define IN_RARE(...) __VA_ARGS__
#undef TAKES
#define TAKES(types) TLK_PASTE_(IN, types)(1) + 0
#define TEMPLATE "kernels/cpu/pointwise/pointwise_loops.h"

#define real float
#define TYPE f32
#include "each_pointwise.h"
#undef real
#undef TYPE
#define real double
#define TYPE f64
#include "each_pointwise.h"

const tlk_Loop tlk_rare_loops[2][TLK_NPOINTWISES] = {
#define X(name, inputs, types, result) IN_##types([TLK_##name] = loop_##name##_f32, )
    {TLK_POINTWISES(X)},
#undef X
#define X(name, inputs, types, result) IN_##types([TLK_##name] = loop_##name##_f64, )
    {TLK_POINTWISES(X)}
#undef X
};

const tlk_Loop tlk_rare_fixed[2][TLK_NPOINTWISES] = {
#define X(name, inputs, types, result) IN_##types(TLK_FIXED##inputs##_(f32, name))
    {TLK_POINTWISES(X)},
#undef X
#define X(name, inputs, types, result) IN_##types(TLK_FIXED##inputs##_(f64, name))
    {TLK_POINTWISES(X)}
#undef X
};
