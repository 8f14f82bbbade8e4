/*
** scan.h - scans by the type they compute in: a function for each, NULL where it is not
** defined. A file for each type, so that they are compiled beside each other.
*/
#ifndef TLK_CUDA_SCAN_H
#define TLK_CUDA_SCAN_H

#include "kernels/cuda/cuda.h"

typedef bool (*tlk_ScanFn)(const struct tlk_scan *call);

extern const tlk_ScanFn tlk_scan_f32[TLK_NSCANS];
extern const tlk_ScanFn tlk_scan_f64[TLK_NSCANS];
extern const tlk_ScanFn tlk_scan_i32[TLK_NSCANS];
extern const tlk_ScanFn tlk_scan_i64[TLK_NSCANS];

#endif
