/*
** byte_order.h - conversion of numbers in files, which are little-endian on every machine.
*/
#ifndef TLI_BYTE_ORDER_H
#define TLI_BYTE_ORDER_H

#include <stdint.h>
#include <string.h>

#include "core/tensor/dtype.h"

#define TLI_BIG_ENDIAN (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)

/* Returns the unsigned number in two bytes of a file. */
static inline uint16_t tli_file_u16(const void *from) {
  uint16_t bits;
  memcpy(&bits, from, sizeof bits);
  return TLI_BIG_ENDIAN ? (uint16_t)(bits << 8 | bits >> 8) : bits;
}

/* Converts n elements from the byte order of files to that of this machine, or back. The two parts
** of a complex number are converted separately and keep their order. */
static inline void tli_swap_for_file(void *elements, int64_t n, tl_DType dtype) {
  if (!TLI_BIG_ENDIAN) return;
  tl_DType part = tli_real_dtype(dtype);
  int bytes = tli_dtype_bytes[part];
  unsigned char *p = (unsigned char *)elements;
  for (n *= tli_dtype_bytes[dtype] / bytes; n > 0; n--, p += bytes)
    for (int low = 0, high = bytes - 1; low < high; low++, high--) {
      unsigned char c = p[low];
      p[low] = p[high];
      p[high] = c;
    }
}

#endif
