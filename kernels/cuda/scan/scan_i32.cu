/* scan_i32.cu - scans that compute in int32_t. */
#include "kernels/cuda/scan/scan.cuh"

#define TYPE i32
#define JOINS(name) SCAN_JOIN(name, i32, int32_t) SCAN_JOIN(name, i64, int64_t)
#include "kernels/cuda/scan/scan_table.cuh"
