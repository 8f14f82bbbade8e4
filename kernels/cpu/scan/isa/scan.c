/* scan.c - running sums, products, minima and maxima in all compute types. */
#include "kernels/cpu/loops.h"

#define TEMPLATE "kernels/cpu/scan/scan_loops.h"
/* A row of a table, used as X of TLK_SCANS by a macro that names the type. */
#define SCANNER_ENTRY(s, name, types) \
  TLK_IN_##s##_##types([TLK_scan_##name] = {start_##name##_##s, run_##name##_##s}, )

/* one more than needed, because the generated list may be empty but a C array may not */
#define SCANNERS (TLK_NSCANS + 1)

#define real int32_t
#define TYPE i32
#include "each_scan.h"
#undef real
#undef TYPE
extern const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i32)[SCANNERS];
const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i32)[SCANNERS] = {
#define X(name, types) SCANNER_ENTRY(i32, name, types)
    TLK_SCANS(X)
#undef X
        [TLK_NSCANS] = {NULL, NULL},
};

#define real int64_t
#define TYPE i64
#include "each_scan.h"
#undef real
#undef TYPE
extern const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i64)[SCANNERS];
const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i64)[SCANNERS] = {
#define X(name, types) SCANNER_ENTRY(i64, name, types)
    TLK_SCANS(X)
#undef X
        [TLK_NSCANS] = {NULL, NULL},
};

#define real float
#define TYPE f32
#include "each_scan.h"
#undef real
#undef TYPE
extern const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f32)[SCANNERS];
const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f32)[SCANNERS] = {
#define X(name, types) SCANNER_ENTRY(f32, name, types)
    TLK_SCANS(X)
#undef X
        [TLK_NSCANS] = {NULL, NULL},
};

#define real double
#define TYPE f64
#include "each_scan.h"
#undef real
#undef TYPE
extern const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f64)[SCANNERS];
const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f64)[SCANNERS] = {
#define X(name, types) SCANNER_ENTRY(f64, name, types)
    TLK_SCANS(X)
#undef X
        [TLK_NSCANS] = {NULL, NULL},
};
