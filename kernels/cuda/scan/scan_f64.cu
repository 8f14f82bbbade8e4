/* scan_f64.cu - scans that compute in double. */
#include "kernels/cuda/scan/scan.cuh"

#define TYPE f64
#define JOINS(name) SCAN_JOIN(name, f64, double)
#define IS_FLOATING
#include "kernels/cuda/scan/scan_table.cuh"
