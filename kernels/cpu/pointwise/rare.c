/*
** rare.c - elementwise loops of special functions. They are long and seldom called, so all
** instruction sets share one build of them, which the Makefile optimises without vectors.
*/
#include "kernels/cpu/loops.h"

#define IN_FLOATING(...)
#define IN_NUMBER(...)
#define IN_INTEGER(...)
#define IN_NONE(...)
#define IN_RARE(...) __VA_ARGS__

#define X(name, inputs, types, result)                     \
  IN_##types(TLK_PLAIN##inputs##_(name, f32, float, float) \
                 TLK_PLAIN##inputs##_(name, f64, double, double))
TLK_POINTWISES(X)
#undef X

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
