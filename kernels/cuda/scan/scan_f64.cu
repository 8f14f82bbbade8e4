/*
** scan_f64.cu - scans that compute in double.
*/
#include "kernels/cuda/scan/scan.cuh"

#define JOINS(name) SCAN_JOIN(name, f64, double)
#define NUMBER_F(name) SCAN_F(name, f64, JOINS(name))
#define NUMBER_E(name) run_scan<name##_f64>,
#define FLOATING_F(name) SCAN_F(name, f64, JOINS(name))
#define FLOATING_E(name) run_scan<name##_f64>,

#define X(name, types) types##_F(name)
TLK_SCANS(X)
#undef X

const tlk_ScanFn tlk_scan_f64[] = {
#define X(name, types) types##_E(name)
    TLK_SCANS(X)
#undef X
};
