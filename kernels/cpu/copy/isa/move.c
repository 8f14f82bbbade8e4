/*
** move.c - copies two-dimensional pieces between any strides. The loops depend only on the size of
** an element. Contiguous rows are copied by memcpy. An element that is broadcast fills its row.
** Transposed pieces are copied in squares that stay in registers.
*/
#include <string.h>

#include "kernels/cpu/copy/short_rows.h"
#include "kernels/cpu/cpu.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

#ifdef __AVX__
#ifdef __AVX512F__
#define SIDE_32 16
#define WIDE(name) _mm512_##name
#define WIDEN _mm512_castps128_ps512
#define PUT _mm512_insertf32x4
typedef __m512 Wide;
#else
#define SIDE_32 8
#define WIDE(name) _mm256_##name
#define WIDEN _mm256_castps128_ps256
#define PUT _mm256_insertf128_ps
typedef __m256 Wide;
#endif

static inline __m128 four(const char *src) {
  return _mm_loadu_ps((const float *)(const void *)src);
}

/* Loads four elements from each of columns 0, 4, 8 ... into one vector. Inserting elements from
** memory does not need the shuffle unit, of which a processor has only one. */
static inline Wide fours(const char *src, int64_t ss0) {
  Wide v = PUT(WIDEN(four(src)), four(src + 4 * ss0), 1);
#ifdef __AVX512F__
  v = PUT(PUT(v, four(src + 8 * ss0), 2), four(src + 12 * ss0), 3);
#endif
  return v;
}

/* Completes the transposition of a square of 32-bit elements from the vectors that `fours` has
** loaded. Vector i of `in` holds columns i, i + 4, i + 8 ...; `rows` receives four rows. */
static inline void turn_fours(const Wide in[4], Wide rows[4]) {
  Wide low01 = WIDE(unpacklo_ps)(in[0], in[1]), low23 = WIDE(unpacklo_ps)(in[2], in[3]);
  Wide high01 = WIDE(unpackhi_ps)(in[0], in[1]), high23 = WIDE(unpackhi_ps)(in[2], in[3]);
  rows[0] = WIDE(shuffle_ps)(low01, low23, 0x44);
  rows[1] = WIDE(shuffle_ps)(low01, low23, 0xee);
  rows[2] = WIDE(shuffle_ps)(high01, high23, 0x44);
  rows[3] = WIDE(shuffle_ps)(high01, high23, 0xee);
}

/* If columns of src are at least FAR bytes apart, each column lies in a page of its own. The
** hardware does not prefetch from so many pages at once, so the code prefetches each column AHEAD
** bytes ahead of its reads. */
#define FAR 4096
#define AHEAD 256

static inline void turn_32(char *dst, int64_t ds1, const char *src, int64_t ss0) {
  if (ss0 >= FAR)
#pragma GCC unroll 16
    for (int c = 0; c < SIDE_32; c++) __builtin_prefetch(src + c * ss0 + AHEAD);
  for (int r = 0; r < SIDE_32; r += 4, src += 16, dst += 4 * ds1) {
    Wide in[4], rows[4];
    for (int c = 0; c < 4; c++) in[c] = fours(src + c * ss0, ss0);
    turn_fours(in, rows);
    for (int i = 0; i < 4; i++) WIDE(storeu_ps)((float *)(void *)(dst + i * ds1), rows[i]);
  }
}

#define SIDE_64 (SIDE_32 / 2)

/* Transposes a square of elements of 64 bits, as turn_32 does for 32 bits. Here `fours` loads two
** elements from each of columns 0, 2, 4 ... All loads come before the stores, since rows of dst may
** evict columns of src from the cache. */
static inline void turn_64(char *dst, int64_t ds1, const char *src, int64_t ss0) {
  Wide rows[SIDE_64];
#pragma GCC unroll 4
  for (int r = 0; r < SIDE_64; r += 2) {
    Wide even = fours(src + 8 * r, ss0 / 2), odd = fours(src + ss0 + 8 * r, ss0 / 2);
    rows[r] = WIDE(shuffle_ps)(even, odd, 0x44);
    rows[r + 1] = WIDE(shuffle_ps)(even, odd, 0xee);
  }
#pragma GCC unroll 8
  for (int r = 0; r < SIDE_64; r++) WIDE(storeu_ps)((float *)(void *)(dst + r * ds1), rows[r]);
}
#else
#define SIDE_32 8
#endif

#ifdef __AVX512F__
/* Loads a vector as `fours` does at the edge of the array, where fewer columns or elements are
** left. The vector has zeros in place of the missing elements. */
static inline Wide part_of_fours(const char *src, int64_t ss0, int64_t cols, __mmask8 in) {
  Wide v = WIDE(setzero_ps)();
  if (cols > 0) v = PUT(v, _mm_maskz_loadu_ps(in, src), 0);
  if (cols > 4) v = PUT(v, _mm_maskz_loadu_ps(in, src + 4 * ss0), 1);
  if (cols > 8) v = PUT(v, _mm_maskz_loadu_ps(in, src + 8 * ss0), 2);
  if (cols > 12) v = PUT(v, _mm_maskz_loadu_ps(in, src + 12 * ss0), 3);
  return v;
}

static void turn_part_32(char *dst, int64_t ds1, const char *src, int64_t ss0, int64_t cols,
                         int64_t rows) {
  __mmask16 out = (__mmask16)((1u << cols) - 1);
  for (; rows > 0; rows -= 4, src += 16, dst += 4 * ds1) {
    __mmask8 in = (__mmask8)(rows < 4 ? (1u << rows) - 1 : 15);
    Wide columns[4], turned[4];
    for (int c = 0; c < 4; c++) columns[c] = part_of_fours(src + c * ss0, ss0, cols - c, in);
    turn_fours(columns, turned);
    for (int i = 0; i < 4 && i < rows; i++) _mm512_mask_storeu_ps(dst + i * ds1, out, turned[i]);
  }
}
#endif

/* With AVX, elements of 32 and 64 bits are transposed by the functions above. For the other
** elements, compilers find the register shuffles themselves. */
#define BITS 8
#define Word uint8_t
#define SIDE 8
#ifndef TLI_INFER
#define SPLITS
#endif
#include "kernels/cpu/copy/move_loops.h"
#undef SPLITS
#define BITS 16
#define Word uint16_t
#define SIDE 8
#include "kernels/cpu/copy/move_loops.h"
#define BITS 128
#define Word uint128_t
#define SIDE 4
#include "kernels/cpu/copy/move_loops.h"

#ifdef __AVX__
#define TURNS_WHOLE
#endif
#define BITS 64
#define Word uint64_t
#ifdef __AVX__
#define SIDE SIDE_64
#else
#define SIDE 8
#endif
#include "kernels/cpu/copy/move_loops.h"
#ifdef __AVX512F__
#define TURNS_PART
#endif
#define BITS 32
#define Word uint32_t
#define SIDE SIDE_32
#include "kernels/cpu/copy/move_loops.h"

extern const tlk_Move TLK_ISA_NAME(tlk_move)[5];
const tlk_Move TLK_ISA_NAME(tlk_move)[5] = {move_8, move_16, move_32, move_64, move_128};
