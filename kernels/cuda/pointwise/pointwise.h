/*
** pointwise.h - elementwise kernels by the type they compute in: a function for each
** kernel, NULL where it is not defined. A file for each type, so that they are compiled
** beside each other.
*/
#ifndef TLK_CUDA_POINTWISE_H
#define TLK_CUDA_POINTWISE_H

#include "kernels/cuda/cuda.h"

typedef bool (*tlk_PointwiseFn)(const struct tlk_pointwise *call);

extern const tlk_PointwiseFn tlk_pointwise_f32[TLK_NPOINTWISES];
extern const tlk_PointwiseFn tlk_pointwise_f64[TLK_NPOINTWISES];
extern const tlk_PointwiseFn tlk_pointwise_i32[TLK_NPOINTWISES];
extern const tlk_PointwiseFn tlk_pointwise_i64[TLK_NPOINTWISES];

#endif
