/*
** reduce.h - tables of reductions, one for each compute type. An entry is NULL if the reduction is
** not defined for the type. Each type is in a separate file, so that the files compile in parallel.
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
