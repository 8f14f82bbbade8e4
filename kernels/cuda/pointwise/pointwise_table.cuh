/*
** pointwise_table.cuh - the elementwise kernels of one compute type, and their table. The file for
** a type defines these macros and then includes this file: TYPE, the name of the type; COMPUTE, the
** C type; STORED, the dtypes for which kernels are compiled; and IS_FLOATING unless the type is an
** integer.
*/
#define FUNCTION(name, n, s, result) POINTWISE_FUNCTOR(name, n, s, COMPUTE, result)
#define ENTRY_(name, s, ...) Run<name##_##s, __VA_ARGS__>::go,
#define ENTRY(name, s, ...) ENTRY_(name, s, __VA_ARGS__)
#define TABLE_(s) tlk_pointwise_##s
#define TABLE(s) TABLE_(s)

#define NUMBER_F(name, n, result) FUNCTION(name, n, TYPE, result)
#define NUMBER_E(name) ENTRY(name, TYPE, STORED)
#ifdef IS_FLOATING
#define FLOATING_F(name, n, result) FUNCTION(name, n, TYPE, result)
#define FLOATING_E(name) ENTRY(name, TYPE, STORED)
#define RARE_E(name) ENTRY(name, TYPE, COMPUTE)
#define INTEGER_F(name, n, result)
#define INTEGER_E(name) NULL,
#else
#define FLOATING_F(name, n, result)
#define FLOATING_E(name) NULL,
#define RARE_E(name) NULL,
#define INTEGER_F(name, n, result) FUNCTION(name, n, TYPE, result)
#define INTEGER_E(name) ENTRY(name, TYPE, STORED)
#endif

namespace {
#define X(name, inputs, types, result) types##_F(name, inputs, result)
TLK_POINTWISES(X)
#undef X
} // namespace

const tlk_PointwiseFn TABLE(TYPE)[] = {
#define X(name, inputs, types, result) types##_E(name)
    TLK_POINTWISES(X)
#undef X
};
