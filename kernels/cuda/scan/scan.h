/*
** scan.h - tables of scans, one for each compute type. An entry is NULL if the scan is not defined
** for the type. Each type is in a separate file, so that the files compile in parallel.
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
