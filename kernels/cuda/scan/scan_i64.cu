/* scan_i64.cu - scans that compute in int64_t. */
#include "kernels/cuda/scan/scan.cuh"

#define TYPE i64
#define JOINS(name) SCAN_JOIN(name, i64, int64_t)
#include "kernels/cuda/scan/scan_table.cuh"
