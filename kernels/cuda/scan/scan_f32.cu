/* scan_f32.cu - scans that compute in float. */
#include "kernels/cuda/scan/scan.cuh"

#define TYPE f32
#define JOINS(name) SCAN_JOIN(name, f32, float) SCAN_JOIN(name, f64, double)
#define IS_FLOATING
#include "kernels/cuda/scan/scan_table.cuh"
