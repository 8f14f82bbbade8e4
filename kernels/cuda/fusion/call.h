/*
** call.h - the argument of a kernel that was generated for a chain. The host fills the argument in,
** and the generated source (source.c) reads it. The header is valid in C, in CUDA C++, and in the
** subset of C++ that NVRTC accepts.
*/
#ifndef TLK_CUDA_FUSION_CALL_H
#define TLK_CUDA_FUSION_CALL_H

#include "kernels/cuda/fault.h"

enum {
  FUSION_STEPS = 16,    /* largest number of calls in a chain */
  FUSION_OPERANDS = 16, /* largest total number of arrays and numbers that the steps use */
  FUSION_DIMS = 6,
  FUSION_OUTPUTS = 2, /* largest number of outputs of a step */
  FUSION_INPUTS = 5,
  FUSION_PARAMS = 4, /* largest number of numeric parameters of a step */
  FUSION_THREADS = 256
};

/* A number in any of the types that steps compute in or store. */
typedef union fusion_Number {
  double f64;
  float f32;
  int64_t i64;
  int32_t i32;
} fusion_Number;

/* The size of a dimension, prepared for dividing offsets by multiplication, as Divider in cuda.cuh
** does. */
typedef struct fusion_Size {
  uint32_t divisor, factor, shift;
} fusion_Size;

typedef struct fusion_Call {
  uint32_t numel;
  /* always 0, but the compiler does not know this, so it cannot join steps (see `seal` in
  ** element.cuh) */
  uint32_t zero;
  int32_t ndim;
  fusion_Size sizes[FUSION_DIMS];
  int64_t strides[FUSION_DIMS][FUSION_OPERANDS]; /* bytes */
  char *data[FUSION_OPERANDS];
  /* the value of each operand whose `data` is NULL, as the bytes of its dtype */
  fusion_Number number[FUSION_OPERANDS];
  fusion_Number params[FUSION_STEPS * FUSION_PARAMS];
  cuda_Word word;
  tlk_FaultSource source[FUSION_STEPS];
} fusion_Call;

#endif
