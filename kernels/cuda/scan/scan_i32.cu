/*
** scan_i32.cu - scans that compute in int32_t.
*/
#include "kernels/cuda/scan/scan.cuh"

#define JOINS(name) SCAN_JOIN(name, i32, int32_t) SCAN_JOIN(name, i64, int64_t)
#define NUMBER_F(name) SCAN_F(name, i32, JOINS(name))
#define NUMBER_E(name) run_scan<name##_i32>,
#define FLOATING_F(name)
#define FLOATING_E(name) NULL,

#define X(name, types) types##_F(name)
TLK_SCANS(X)
#undef X

const tlk_ScanFn tlk_scan_i32[] = {
#define X(name, types) types##_E(name)
    TLK_SCANS(X)
#undef X
};
