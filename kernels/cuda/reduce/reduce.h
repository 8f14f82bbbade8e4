/*
** reduce.h - reductions by the type they compute in: a function for each, NULL where it
** is not defined. A file for each type, so that they are compiled beside each other.
*/
#ifndef TLK_CUDA_REDUCE_H
#define TLK_CUDA_REDUCE_H

#include "kernels/cuda/cuda.h"

typedef bool (*tlk_ReduceFn)(const struct tlk_reduce *call);

extern const tlk_ReduceFn tlk_reduce_f32[TLK_NREDUCTIONS];
extern const tlk_ReduceFn tlk_reduce_f64[TLK_NREDUCTIONS];
extern const tlk_ReduceFn tlk_reduce_i32[TLK_NREDUCTIONS];
extern const tlk_ReduceFn tlk_reduce_i64[TLK_NREDUCTIONS];

#endif
