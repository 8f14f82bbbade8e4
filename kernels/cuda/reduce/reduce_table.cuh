/*
** reduce_table.cuh - the reductions of one compute type, and their table. The file for a type first
** defines TYPE, the name of the type, and for a floating type also IS_FLOATING. Then it includes
** this file.
*/
#define FUNCTION(name, s) REDUCTION_F(name, s)
#define ENTRY_(name, s) run_reduction<name##_##s>,
#define ENTRY(name, s) ENTRY_(name, s)
#define TABLE_(s) tlk_reduce_##s
#define TABLE(s) TABLE_(s)

#define NUMBER_F(name) FUNCTION(name, TYPE)
#define NUMBER_E(name) ENTRY(name, TYPE)
#ifdef IS_FLOATING
#define FLOATING_F(name) FUNCTION(name, TYPE)
#define FLOATING_E(name) ENTRY(name, TYPE)
#else
#define FLOATING_F(name)
#define FLOATING_E(name) NULL,
#endif

namespace {
#define X(name, types) types##_F(name)
TLK_REDUCTIONS(X)
#undef X
} // namespace

const tlk_ReduceFn TABLE(TYPE)[] = {
#define X(name, types) types##_E(name)
    TLK_REDUCTIONS(X)
#undef X
};
