/*
** move_loops.h - copies of elements of one size. isa/move.c includes this file after it has defined
** BITS (the size of an element in bits), Word (an integer of that size) and SIDE (the side of the
** squares in which pieces are transposed). If it also defines TURNS_WHOLE or TURNS_PART, it uses
** its own `turn` or `turn_part` instead of this file's. If it defines SPLITS, there is a loop of
** its own for elements that are stored in groups of three, such as the colours of pixels.
*/
#define OF_BITS(name) TLK_PASTE_(name, BITS)

/* An element at any address. Callers also move a pair of numbers as one element, and its address
** may not be a multiple of its size. */
typedef Word OF_BITS(Loose) __attribute__((aligned(1)));

#ifndef TURNS_WHOLE
/* Transposes a square: the columns of src become the rows of dst. */
static inline void OF_BITS(turn)(char *dst, int64_t ds1, const char *src, int64_t ss0) {
  Word square[SIDE][SIDE];
  for (int c = 0; c < SIDE; c++) {
    const OF_BITS(Loose) *in = (const OF_BITS(Loose) *)(src + c * ss0);
    for (int r = 0; r < SIDE; r++) square[r][c] = in[r];
  }
  for (int r = 0; r < SIDE; r++) memcpy(dst + r * ds1, square[r], sizeof square[r]);
}
#endif

#ifndef TURNS_PART
/* Transposes a part of a square: the first `rows` rows and `cols` columns of dst. */
static void OF_BITS(turn_part)(char *dst, int64_t ds1, const char *src, int64_t ss0, int64_t cols,
                               int64_t rows) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      memcpy(dst + r * ds1 + c * sizeof(Word), src + c * ss0 + r * sizeof(Word), sizeof(Word));
}
#endif

static void OF_BITS(fill_row)(char *dst, int64_t cols, const char *src) {
  Word value;
  memcpy(&value, src, sizeof value);
  OF_BITS(Loose) *out = (OF_BITS(Loose) *)dst;
  for (int64_t c = 0; c < cols; c++) out[c] = value;
}

static void OF_BITS(reverse_row)(char *dst, int64_t cols, const char *src) {
  OF_BITS(Loose) *out = (OF_BITS(Loose) *)dst;
  const OF_BITS(Loose) *in = (const OF_BITS(Loose) *)src;
  for (int64_t c = 0; c < cols; c++) out[c] = in[-c];
}

#ifdef SPLITS
/* Copies three rows whose elements alternate in src. */
static void OF_BITS(split)(Word *restrict a, Word *restrict b, Word *restrict c,
                           const Word *restrict src, int64_t cols) {
  for (int64_t i = 0; i < cols; i++) {
    a[i] = src[3 * i];
    b[i] = src[3 * i + 1];
    c[i] = src[3 * i + 2];
  }
}
#endif

/* Transposes a piece whose elements are contiguous along columns in dst and along rows in src. */
static void OF_BITS(transpose)(char *dst, int64_t ds1, const char *src, int64_t ss0, int64_t cols,
                               int64_t rows) {
  const int64_t side = SIDE, size = sizeof(Word);
#ifdef SPLITS
  if (rows == 3 && ss0 == 3 * size) {
    OF_BITS(split)
    ((Word *)dst, (Word *)(dst + ds1), (Word *)(dst + 2 * ds1), (const Word *)src, cols);
    return;
  }
#endif
  for (int64_t r = 0; r < rows; r += side)
    for (int64_t c = 0; c < cols; c += side) {
      char *to = dst + r * ds1 + c * size;
      const char *from = src + c * ss0 + r * size;
      int64_t wide = cols - c < side ? cols - c : side, high = rows - r < side ? rows - r : side;
      if (wide == side && high == side)
        OF_BITS(turn)(to, ds1, from, ss0);
      else
        OF_BITS(turn_part)(to, ds1, from, ss0, wide, high);
    }
}

static void OF_BITS(move)(char *dst, int64_t ds0, int64_t ds1, const char *src, int64_t ss0,
                          int64_t ss1, int64_t cols, int64_t rows) {
  const int64_t size = sizeof(Word);
  if (ds0 == size && ss1 == size && ss0 != size && ss0 != 0 && rows > 1) {
    OF_BITS(transpose)(dst, ds1, src, ss0, cols, rows);
    return;
  }
  if (ds1 == size && ss0 == size && ds0 != size && ss1 != 0 && cols > 1 && rows > 1) {
    OF_BITS(transpose)(dst, ds0, src, ss1, rows, cols);
    return;
  }
  const int log2_size = BITS == 8 ? 0 : BITS == 16 ? 1 : BITS == 32 ? 2 : BITS == 64 ? 3 : 4;
  if (ds0 == size && rows > 1 &&
      tlk_move_short_rows(dst, ds1, src, ss0, ss1, cols * size, rows, log2_size))
    return;
  for (int64_t r = 0; r < rows; r++, dst += ds1, src += ss1) {
    if (ds0 == size && ss0 == size) {
      memcpy(dst, src, (size_t)(cols * size));
    } else if (ds0 == size && ss0 == 0) {
      OF_BITS(fill_row)(dst, cols, src);
    } else if (ds0 == size && ss0 == -size) {
      OF_BITS(reverse_row)(dst, cols, src);
    } else {
      char *d = dst;
      const char *s = src;
      for (int64_t c = 0; c < cols; c++, d += ds0, s += ss0) memcpy(d, s, sizeof(Word));
    }
  }
}

#undef OF_BITS
#undef BITS
#undef Word
#undef SIDE
