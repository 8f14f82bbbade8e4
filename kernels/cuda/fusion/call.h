/*
** call.h - what a kernel that was generated for a chain is called with. The host fills it,
** the generated source (source.c) reads it. C, CUDA C++, and what NVRTC takes.
*/
#ifndef TLK_CUDA_FUSION_CALL_H
#define TLK_CUDA_FUSION_CALL_H

#include "kernels/cuda/fault.h"

enum {
  FUSION_STEPS = 16,    /* calls of one chain */
  FUSION_OPERANDS = 16, /* arrays and numbers that they work on */
  FUSION_DIMS = 6,
  FUSION_OUTPUTS = 2, /* of one step */
  FUSION_INPUTS = 5,
  FUSION_PARAMS = 4, /* numbers of one step */
  FUSION_THREADS = 256
};

/* One number in the type that it is computed or stored in. */
typedef union fusion_Number {
  double f64;
  float f32;
  int64_t i64;
  int32_t i32;
} fusion_Number;

/* Division by a size as a product: Divider of cuda.cuh. */
typedef struct fusion_Size {
  uint32_t divisor, factor, shift;
} fusion_Size;

typedef struct fusion_Call {
  uint32_t numel;
  uint32_t zero; /* is 0, which the compiler does not know: see seal in element.cuh */
  int32_t ndim;
  fusion_Size sizes[FUSION_DIMS];
  int64_t strides[FUSION_DIMS][FUSION_OPERANDS]; /* bytes */
  char *data[FUSION_OPERANDS];
  fusion_Number number[FUSION_OPERANDS]; /* of those without data: its bytes */
  fusion_Number params[FUSION_STEPS * FUSION_PARAMS];
  cuda_Word word;
  tlk_Blame blame[FUSION_STEPS];
} fusion_Call;

#endif
