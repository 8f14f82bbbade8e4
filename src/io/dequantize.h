/*
** dequantize.h - blocks of few bits, as GGUF files have them, as float32.
*/
#ifndef TLI_DEQUANTIZE_H
#define TLI_DEQUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a block is laid out: its name, bytes and elements. */
typedef struct tli_Quantization {
  const char *name;
  int bytes, elements;
  void (*read)(const unsigned char *block, float *out);
} tli_Quantization;

/* By GGUF's name, "Q4_K"; NULL for others. */
const tli_Quantization *tli_quantization(const char *name);

#endif
