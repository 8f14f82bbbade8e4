/*
** gather_loops.h - the loop of gather for elements of one size. isa/gather.c includes this file
** after it has defined BITS (the size of an element in bits) and Word (an integer of that size).
*/
#define OF_BITS(name) TLK_PASTE_(name, BITS)

static bool OF_BITS(gather_rows)(const tlk_Tile *t, int64_t *bad) {
  size_t bytes = (size_t)t->lines * sizeof(Word);
  for (int64_t k = 0; k < t->count; k++) {
    int64_t at = load_position(t->ptrs[1] + k * t->strides[1]);
    if (at < 1 || at > t->high) return *bad = at, false;
    if (bytes >= 256) fetch_row(t, 2, k + AHEAD);
    memcpy(t->ptrs[0] + k * t->strides[0], t->ptrs[2] + (at - 1) * t->strides[2], bytes);
  }
  return true;
}

static bool OF_BITS(gather_dense)(const tlk_Tile *t, int64_t line) {
  Word *out = (void *)(t->ptrs[0] + line * t->line_strides[0]);
  const int64_t *index = (const void *)(t->ptrs[1] + line * t->line_strides[1]);
  const Word *in = (const void *)(t->ptrs[2] + line * t->line_strides[2]);
  for (int64_t k = 0; k < t->count; k += PIECE) {
    int64_t n = t->count - k < PIECE ? t->count - k : PIECE;
    if (!all_within(n, index + k, 1, t->high)) return false;
    TLK_IVDEP
    for (int64_t i = k; i < k + n; i++) out[i] = in[index[i] - 1];
  }
  return true;
}

static bool OF_BITS(gather)(const tlk_Tile *t, int64_t *bad) {
  if (shared_index(t, sizeof(Word)) && t->line_strides[2] != 0) return OF_BITS(gather_rows)(t, bad);
  bool along = along_first(t);
  int64_t outer = along ? t->lines : t->count, inner = along ? t->count : t->lines;
  const int64_t *so = along ? t->line_strides : t->strides;
  const int64_t *si = along ? t->strides : t->line_strides;
  int64_t step = t->strides[2], in_outer = along ? t->line_strides[2] : 0;
  int64_t in_inner = along ? 0 : t->line_strides[2];
  bool tight = along && dense(t, sizeof(Word));
  for (int64_t i = 0; i < outer; i++) {
    if (tight && OF_BITS(gather_dense)(t, i))
      /* The first loop only tells whether any position is out of range. If so, the second loop
      ** finds out which one. */
      continue;
    char *out = t->ptrs[0] + i * so[0];
    const char *index = t->ptrs[1] + i * so[1], *in = t->ptrs[2] + i * in_outer;
    for (int64_t k = 0; k < inner; k++) {
      int64_t at = load_position(index + k * si[1]);
      if (at < 1 || at > t->high) return *bad = at, false;
      memcpy(out + k * si[0], in + k * in_inner + (at - 1) * step, sizeof(Word));
    }
  }
  return true;
}

#undef OF_BITS
#undef Word
#undef BITS
