/*
** pointwise.h - tables of elementwise kernels, one for each compute type. An entry is NULL if the
** kernel is not defined for the type. Each type is in a separate file, so that the files compile in
** parallel.
*/
#ifndef TLK_CUDA_POINTWISE_H
#define TLK_CUDA_POINTWISE_H

#include "kernels/cuda/cuda.h"

typedef bool (*tlk_PointwiseFn)(const struct tlk_pointwise *call);

extern const tlk_PointwiseFn tlk_pointwise_f32[TLK_NPOINTWISES];
extern const tlk_PointwiseFn tlk_pointwise_f64[TLK_NPOINTWISES];
extern const tlk_PointwiseFn tlk_pointwise_i32[TLK_NPOINTWISES];
extern const tlk_PointwiseFn tlk_pointwise_i64[TLK_NPOINTWISES];
extern const tlk_PointwiseFn *const tlk_pointwise_c64;
extern const tlk_PointwiseFn *const tlk_pointwise_c128;

#endif
