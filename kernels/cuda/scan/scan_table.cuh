/*
** scan_table.cuh - the scans of one compute type, and their table. The file for a type defines
** these macros and then includes this file: TYPE, the name of the type; JOINS(name), a SCAN_JOIN
** for each type that the scans compute in; and, for a floating type, IS_FLOATING.
*/
#define FUNCTION(name, s) SCAN_F(name, s, JOINS(name))
#define ENTRY_(name, s) run_scan<name##_##s>,
#define ENTRY(name, s) ENTRY_(name, s)
#define TABLE_(s) tlk_scan_##s
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

#define X(name, types) types##_F(name)
TLK_SCANS(X)
#undef X

const tlk_ScanFn TABLE(TYPE)[] = {
#define X(name, types) types##_E(name)
    TLK_SCANS(X)
#undef X
};
