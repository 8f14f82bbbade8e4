/* scan.c - running sums, products, minima and maxima in all compute types. */
#include "kernels/cpu/loops.h"

#define TEMPLATE "kernels/cpu/scan/scan_loops.h"
/* Expands to the entry of one scan in the table of type s, or to nothing if the scan is not defined
** for that type. */
#define SCANNER_ENTRY(s, name, types) ENTRY_(s, name, types)
#define ENTRY_(s, name, types) \
  TLK_IN_##s##_##types([TLK_scan_##name] = {start_##name##_##s, run_##name##_##s}, )
/* Forms the name of the table of scans in type s. */
#define TABLE(s) TABLE_(s)
#define TABLE_(s) TLK_ISA_NAME(tlk_scanners_##s)

/* One entry more than needed: the generated list can be empty, but C has no empty arrays. */
#define SCANNERS (TLK_NSCANS + 1)

#define real int32_t
#define TYPE i32
#include "kernels/cpu/scan/scan_table.h"

#define real int64_t
#define TYPE i64
#include "kernels/cpu/scan/scan_table.h"

#define real float
#define TYPE f32
#include "kernels/cpu/scan/scan_table.h"

#define real double
#define TYPE f64
#include "kernels/cpu/scan/scan_table.h"
