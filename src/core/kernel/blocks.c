/*
** blocks.c - the functions of blocks.h, compiled without special instruction sets.
*/
#include "core/kernel/blocks.h"

void tli_unpack_chunk(tli_BlockKind kind, const uint8_t *p, int n, tli_Chunk *u) {
  tli_unpack(tli_plain_halves, tli_f16_to_f32, kind, p, n, u);
}

void tli_dequantize(tli_BlockKind kind, const uint8_t *blocks, int64_t n, float *out) {
  const tli_BlockLayout *layout = &tli_block_layouts[kind];
  tli_Chunk u = {.least = {0}};
  for (int64_t at = 0; at < n; at += TLI_CHUNK) {
    int count = n - at < TLI_CHUNK ? (int)(n - at) : TLI_CHUNK;
    tli_unpack_chunk(kind, blocks + at / layout->elements * layout->bytes, count, &u);
    for (int i = 0; i < count; i++) {
      int g = i / layout->group;
      float product = u.scale[g] * (float)(u.q[i] - layout->zero);
      out[at + i] = product - u.least[g];
    }
  }
}
