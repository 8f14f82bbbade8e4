/*
** embed.c - unpacks the Lua sources that are part of the library; src/gen/pack.lua packs them and
** describes the format. The packed bytes come from the library itself, so their validity is not
** checked.
*/
#include "lua/embed.h"

#include <string.h>

/* A position in a sequence of packed bits. */
typedef struct Reader {
  const unsigned char *data;
  size_t at; /* number of bits read so far */
} Reader;

/* Returns the next bits, left-aligned in a word. At least the upper 25 bits are valid. */
static uint32_t peek(const Reader *r) {
  const unsigned char *p = r->data + (r->at >> 3);
  uint32_t word = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
  return word << (r->at & 7);
}

static uint32_t read_symbol(Reader *r, const uint16_t *code) {
  uint32_t entry = code[peek(r) >> (32 - TLI_CODE_BITS)];
  r->at += entry & 15;
  return entry >> 4;
}

/* Reads a number of which `bucket` determines the two highest bits. Its other bits come next in the
** packed bits. */
static uint32_t read_number(Reader *r, uint32_t bucket) {
  if (bucket < 2) return bucket;
  uint32_t low_bits = (bucket >> 1) - 1, high = (2 | (bucket & 1)) << low_bits;
  if (low_bits == 0) return high;
  uint32_t low = peek(r) >> (32 - low_bits);
  r->at += low_bits;
  return high | low;
}

void tli_embedded_text(const tli_Embedded *e, char *text) {
  Reader r = {(const unsigned char *)e->packed, 0};
  for (size_t made = 0; made < e->size;) {
    uint32_t symbol = read_symbol(&r, tli_symbol_code);
    if (symbol < 256) {
      text[made++] = (char)symbol;
      continue;
    }
    size_t length = read_number(&r, symbol - 256) + TLI_MIN_COPY;
    size_t distance = read_number(&r, read_symbol(&r, tli_distance_code)) + 1;
    if (distance >= length) {
      memcpy(text + made, text + made - distance, length);
      made += length;
    } else { /* copies byte by byte, because the source may overlap the bytes being written */
      for (size_t end = made + length; made < end; made++) text[made] = text[made - distance];
    }
  }
}
