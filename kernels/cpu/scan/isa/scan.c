/* scan.c - running sums, products, minima and maxima in all compute types. */
#include "kernels/cpu/scan/scan_loops.h"

/* The generated list may be empty, but a C array may not. */
#define SCANNERS (TLK_NSCANS + 1)

#define X(name, types) TLK_SCANNER(i32, int32_t, name, types)
TLK_SCANS(X)
#undef X
extern const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i32)[SCANNERS];
const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i32)[SCANNERS] = {
#define X(name, types) TLK_SCANNER_ENTRY(i32, name, types)
    TLK_SCANS(X)
#undef X
        [TLK_NSCANS] = {NULL, NULL},
};

#define X(name, types) TLK_SCANNER(i64, int64_t, name, types)
TLK_SCANS(X)
#undef X
extern const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i64)[SCANNERS];
const tlk_Scanner TLK_ISA_NAME(tlk_scanners_i64)[SCANNERS] = {
#define X(name, types) TLK_SCANNER_ENTRY(i64, name, types)
    TLK_SCANS(X)
#undef X
        [TLK_NSCANS] = {NULL, NULL},
};

#define X(name, types) TLK_SCANNER(f32, float, name, types)
TLK_SCANS(X)
#undef X
extern const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f32)[SCANNERS];
const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f32)[SCANNERS] = {
#define X(name, types) TLK_SCANNER_ENTRY(f32, name, types)
    TLK_SCANS(X)
#undef X
        [TLK_NSCANS] = {NULL, NULL},
};

#define X(name, types) TLK_SCANNER(f64, double, name, types)
TLK_SCANS(X)
#undef X
extern const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f64)[SCANNERS];
const tlk_Scanner TLK_ISA_NAME(tlk_scanners_f64)[SCANNERS] = {
#define X(name, types) TLK_SCANNER_ENTRY(f64, name, types)
    TLK_SCANS(X)
#undef X
        [TLK_NSCANS] = {NULL, NULL},
};
