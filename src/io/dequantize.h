/*
** dequantize.h - converts the quantized blocks of GGUF files to float32.
*/
#ifndef TLI_DEQUANTIZE_H
#define TLI_DEQUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The layout of a block: the layout's name, the block's size in bytes, and its number of
** elements. */
typedef struct tli_Quantization {
  const char *name;
  int bytes, elements;
  void (*read)(const unsigned char *block, float *out);
} tli_Quantization;

/* Returns the layout with GGUF's name, such as "Q4_K"; NULL if unknown. */
const tli_Quantization *tli_quantization(const char *name);

#endif
