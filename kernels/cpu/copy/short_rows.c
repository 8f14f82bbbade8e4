/*
** short_rows.c - implements short_rows.h. A row is moved in two pieces of the same size, one at its
** start and one at its end. The pieces overlap if the row is shorter than both together. All
** instruction sets share these loops.
*/
#include "kernels/cpu/copy/short_rows.h"

#include <string.h>

/* Copies a row in two pieces of `size` bytes, a constant. */
#define COPY(size)                                            \
  {                                                           \
    memcpy(dst, src, size);                                   \
    memcpy(dst + bytes - (size), src + bytes - (size), size); \
  }

static void copy_rows(char *dst, int64_t ds, const char *src, int64_t ss, int64_t bytes,
                      int64_t rows) {
  for (int64_t r = 0; r < rows; r++, dst += ds, src += ss) {
    if (bytes >= 32)
      COPY(32)
    else if (bytes >= 16)
      COPY(16)
    else if (bytes >= 8)
      COPY(8)
    else if (bytes >= 4)
      COPY(4)
    else if (bytes >= 2)
      COPY(2)
    else
      *dst = *src;
  }
}

typedef uint64_t Sixteen __attribute__((vector_size(16)));

/* Returns 16 bytes that consist of copies of the element at `src`. */
static inline Sixteen copies(const char *src, int log2_size) {
  uint64_t word = 0;
  if (log2_size == 2) {
    uint32_t x;
    memcpy(&x, src, sizeof x);
    word = x * UINT64_C(0x0000000100000001);
  } else if (log2_size == 3) {
    memcpy(&word, src, sizeof word);
  } else if (log2_size == 0) {
    word = (uint8_t)*src * UINT64_C(0x0101010101010101);
  } else if (log2_size == 1) {
    uint16_t x;
    memcpy(&x, src, sizeof x);
    word = x * UINT64_C(0x0001000100010001);
  } else {
    Sixteen both;
    memcpy(&both, src, sizeof both);
    return both;
  }
  return (Sixteen){word, word};
}

/* Fills a row from `pattern` in two pieces of `size` bytes, a constant. */
#define FILL(size)                                \
  {                                               \
    memcpy(dst, &pattern, size);                  \
    memcpy(dst + bytes - (size), &pattern, size); \
  }

/* Fills each row with copies of the element at its start in src. */
static void fill_rows(char *dst, int64_t ds, const char *src, int64_t ss, int64_t bytes,
                      int64_t rows, int log2_size) {
  for (int64_t r = 0; r < rows; r++, dst += ds, src += ss) {
    Sixteen pattern = copies(src, log2_size);
    if (bytes >= 16) {
      for (int64_t at = 16; at < bytes; at += 16) memcpy(dst + at - 16, &pattern, 16);
      memcpy(dst + bytes - 16, &pattern, 16);
    } else if (bytes >= 8)
      FILL(8)
    else if (bytes >= 4)
      FILL(4)
    else if (bytes >= 2)
      FILL(2)
    else
      *dst = (char)pattern[0];
  }
}

bool tlk_move_short_rows(char *dst, int64_t ds, const char *src, int64_t step, int64_t ss,
                         int64_t bytes, int64_t rows, int log2_size) {
  if (bytes > 64) return false;
  if (step == 0)
    fill_rows(dst, ds, src, ss, bytes, rows, log2_size);
  else if (step == (int64_t)1 << log2_size)
    copy_rows(dst, ds, src, ss, bytes, rows);
  else
    return false;
  return true;
}
