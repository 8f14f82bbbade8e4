/*
** dot.c - the loops of dot.h for several instruction sets. Each function is compiled for the
** instruction set that it needs, and tlk_packed_loops chooses among them at run time.
*/
#include "kernels/cpu/packed/dot.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/block_walk.h"

#define ALWAYS static inline __attribute__((always_inline))

typedef void Unpack(tli_BlockKind kind, const uint8_t *p, int n, tli_Chunk *u);

/* Unpacks chunk c of a weight row to integers. Groups beyond the row's end get scales of 0, so they
** add nothing. */
ALWAYS void unpack_chunk(Unpack *unpack, const tlk_PackedRows *p, const uint8_t *row, int64_t c,
                         tli_Chunk *u) {
  const tli_BlockLayout *layout = &tli_block_layouts[p->kind];
  int64_t left = p->features - c * TLI_CHUNK;
  if (left < TLI_CHUNK) memset(u, 0, sizeof *u);
  unpack(p->kind, row + c * TLI_CHUNK / layout->elements * layout->bytes,
         left < TLI_CHUNK ? (int)left : TLI_CHUNK, u);
}

ALWAYS const tlk_Rounded *rounded_at(const tlk_PackedRows *p, int64_t t, int64_t c) {
  return p->x + (t / TLK_TOKENS * p->chunks + c) * TLK_TOKENS + t % TLK_TOKENS;
}

/* Returns the number that the caller must subtract from a sum of products of integers. A weight is
** scale * (integer - zero) - least, with the scale and the `least` of its group, so least + zero *
** scale is multiplied by the sum of the group's input elements. */
ALWAYS float dot_least(const tli_Chunk *u, const tlk_Rounded *x, float zero) {
  float sum = 0;
  for (int g = 0; g < TLK_GROUPS; g++) sum += (u->least[g] + zero * u->scale[g]) * x->sum[g];
  return sum;
}

/* Sets to zero the fields of a chunk that tli_unpack does not set for every kind of block. */
ALWAYS void clear(tli_Chunk *u) {
  memset(u->scale, 0, sizeof u->scale);
  memset(u->least, 0, sizeof u->least);
}

/* ---- plain C --------------------------------------------------------------------- */

ALWAYS float plain_dot(const tli_Chunk *u, const tlk_Rounded *x, int group) {
  float sum = 0;
  for (int g = 0; g < TLI_CHUNK / group; g++) {
    int32_t dot = 0;
    for (int i = 0; i < group; i++) dot += u->q[g * group + i] * x->q[g * group + i];
    sum += (float)dot * (u->scale[g] * x->scale[g]);
  }
  return sum;
}

static void plain_rows(const tlk_PackedRows *p, int64_t rows) {
  const tli_BlockLayout *layout = &tli_block_layouts[p->kind];
  tli_Chunk u;
  clear(&u);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t t = 0; t < p->count; t++) p->out[t * p->step + r] = 0;
    for (int64_t c = 0; c < p->chunks; c++) {
      unpack_chunk(tli_unpack_chunk, p, p->weight + r * p->bytes, c, &u);
      for (int64_t t = 0; t < p->count; t++) {
        const tlk_Rounded *x = rounded_at(p, t, c);
        float sum = layout->group == 16 ? plain_dot(&u, x, 16) : plain_dot(&u, x, 32);
        p->out[t * p->step + r] += sum - dot_least(&u, x, (float)layout->zero);
      }
    }
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Prefetches the bytes that lie a page after `at`. The processor itself prefetches only within the
** page that it reads. */
ALWAYS void prefetch_page(const uint8_t *at, int bytes) {
  for (int i = 0; i < bytes; i += 64) _mm_prefetch((const char *)at + 4096 + i, _MM_HINT_T0);
}

/* ---- AVX2 ------------------------------------------------------------------------ */

#define AVX2 __attribute__((target("avx2,fma,f16c")))

ALWAYS AVX2 void f16c_halves(const uint16_t from[8], float to[8]) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)));
}

ALWAYS AVX2 float f16c_half(uint16_t bits) { return _cvtsh_ss(bits); }

static AVX2 __attribute__((noinline)) void avx2_unpack(tli_BlockKind kind, const uint8_t *p, int n,
                                                       tli_Chunk *u) {
  tli_unpack(f16c_halves, f16c_half, kind, p, n, u);
}

/* Multiplies 32 pairs of bytes, and sums each four adjacent products. The instruction vpmaddubsw
** does not overflow, because it multiplies absolute values of at most 128 by at most 127. */
ALWAYS AVX2 __m256i avx2_fours(__m256i q, __m256i x) {
  __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(x, q));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

ALWAYS AVX2 __m256 avx2_dot(const tli_Chunk *u, const tlk_Rounded *x, int group, __m256i zero,
                            __m256 sum) {
  for (int g = 0; g < TLI_CHUNK / 32; g++) {
    __m256i q = _mm256_sub_epi8(_mm256_loadu_si256((const __m256i *)(u->q + 32 * g)), zero);
    __m256i w = _mm256_loadu_si256((const __m256i *)(x->q + 32 * g));
    __m256 dot = _mm256_cvtepi32_ps(avx2_fours(q, w));
    __m256 scale;
    if (group == 32)
      scale = _mm256_set1_ps(u->scale[g] * x->scale[g]);
    else
      scale = _mm256_set_m128(_mm_set1_ps(u->scale[2 * g + 1] * x->scale[2 * g + 1]),
                              _mm_set1_ps(u->scale[2 * g] * x->scale[2 * g]));
    sum = _mm256_fmadd_ps(scale, dot, sum);
  }
  return sum;
}

ALWAYS AVX2 float avx2_total(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

static AVX2 void avx2_rows(const tlk_PackedRows *p, int64_t rows) {
  const tli_BlockLayout *layout = &tli_block_layouts[p->kind];
  __m256i zero = _mm256_set1_epi8((char)layout->zero);
  tli_Chunk u;
  clear(&u);
  for (int64_t r = 0; r < rows; r++) {
    memset(p->sums, 0, (size_t)p->count * 8 * sizeof(float));
    for (int64_t c = 0; c < p->chunks; c++) {
      int64_t part = p->bytes / p->chunks;
      prefetch_page(p->weight + r * p->bytes + c * part, (int)part);
      unpack_chunk(avx2_unpack, p, p->weight + r * p->bytes, c, &u);
      for (int64_t t = 0; t < p->count; t++) {
        const tlk_Rounded *x = rounded_at(p, t, c);
        __m256 sum = _mm256_loadu_ps(p->sums + 8 * t);
        sum = layout->group == 16 ? avx2_dot(&u, x, 16, zero, sum) : avx2_dot(&u, x, 32, zero, sum);
        for (int g = 0; g < TLK_GROUPS; g += 8)
          sum = _mm256_fnmadd_ps(_mm256_loadu_ps(u.least + g), _mm256_loadu_ps(x->sum + g), sum);
        _mm256_storeu_ps(p->sums + 8 * t, sum);
      }
    }
    for (int64_t t = 0; t < p->count; t++)
      p->out[t * p->step + r] = avx2_total(_mm256_loadu_ps(p->sums + 8 * t));
  }
}

/* ---- AVX-512 VNNI ---------------------------------------------------------------- */

#define VNNI __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")))

static VNNI __attribute__((noinline)) void vnni_unpack(tli_BlockKind kind, const uint8_t *p, int n,
                                                       tli_Chunk *u) {
  tli_unpack(f16c_halves, f16c_half, kind, p, n, u);
}

/* Returns the number of the group to which each lane's elements belong. Lane k holds four elements,
** which begin at element 64 * i + 4 * k. */
ALWAYS VNNI __m512i lanes_of(int group, int i) {
  __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32(16 * i));
  return group == 32 ? _mm512_srli_epi32(at, 3) : _mm512_srli_epi32(at, 2);
}

enum { Q8_0_BYTES = 34 /* number of bytes in a block, which begins with its scale */ };
enum { AHEAD = 2 /* number of chunks by which unpacking is ahead; a power of two */ };

/* Computes the product of one weight row and one input row. A chunk is unpacked AHEAD chunks before
** it is read. Otherwise the load would stall, because it reads several stores that have not reached
** the cache yet. */
ALWAYS VNNI float vnni_row(const tlk_PackedRows *p, const uint8_t *row, int group,
                           tli_Chunk u[2 * AHEAD]) {
  __m512i lanes[4];
  for (int i = 0; i < 4; i++) lanes[i] = lanes_of(group, i);
  __m512 zero = _mm512_set1_ps((float)tli_block_layouts[p->kind].zero);
  __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
  for (int64_t c = -AHEAD; c < p->chunks; c++) {
    if (c + AHEAD < p->chunks)
      unpack_chunk(vnni_unpack, p, row, c + AHEAD, &u[(c + AHEAD) % (2 * AHEAD)]);
    if (c < 0) continue;
    const tli_Chunk *chunk = &u[c % (2 * AHEAD)];
    const tlk_Rounded *x = p->x + c * TLK_TOKENS;
    __m512 scale = _mm512_loadu_ps(chunk->scale);
    __m512 least = _mm512_fmadd_ps(zero, scale, _mm512_loadu_ps(chunk->least));
    __m512 both = _mm512_mul_ps(scale, _mm512_loadu_ps(x->scale));
    odd = _mm512_fnmadd_ps(least, _mm512_loadu_ps(x->sum), odd);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      __m512i fours =
          _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(chunk->q + 64 * i),
                              _mm512_loadu_si512(x->q + 64 * i));
      __m512 by = _mm512_permutexvar_ps(lanes[i], both), dot = _mm512_cvtepi32_ps(fours);
      if (i % 2)
        odd = _mm512_fmadd_ps(by, dot, odd);
      else
        even = _mm512_fmadd_ps(by, dot, even);
    }
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(even, odd));
}

/* Returns the elements of two blocks of Q8_0, plus 128, as unsigned bytes. If a block lies beyond
** the row's end, zeros take the place of its elements. */
ALWAYS VNNI __m512i load_q8_0(const uint8_t *at, int blocks) {
  __m256i low = _mm256_setzero_si256(), high = low;
  if (blocks > 0) low = _mm256_loadu_si256((const __m256i *)(const void *)(at + 2));
  if (blocks > 1) high = _mm256_loadu_si256((const __m256i *)(const void *)(at + Q8_0_BYTES + 2));
  return _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1),
                          _mm512_set1_epi8((char)0x80));
}

/* Computes one element of the result for Q8_0. */
ALWAYS VNNI float vnni_row_q8_0(const tlk_PackedRows *p, const uint8_t *row) {
  __m256i starts = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  starts = _mm256_mullo_epi32(starts, _mm256_set1_epi32(Q8_0_BYTES));
  __m512i lanes[4];
  for (int i = 0; i < 4; i++) lanes[i] = lanes_of(32, i);
  __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
  __m256 rest = _mm256_setzero_ps();
  for (int64_t c = 0; c < p->chunks; c++, row += 8 * Q8_0_BYTES) {
    const tlk_Rounded *x = p->x + c * TLK_TOKENS;
    prefetch_page(row, 8 * Q8_0_BYTES);
    int blocks = (int)tlk_min(8, p->features / 32 - 8 * c);
    __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(blocks * Q8_0_BYTES), starts);
    __m256i halves = _mm256_mask_i32gather_epi32(_mm256_setzero_si256(),
                                                 (const int *)(const void *)row, starts, mask, 1);
    __m256 both =
        _mm256_mul_ps(_mm256_cvtph_ps(_mm256_cvtepi32_epi16(halves)), _mm256_loadu_ps(x->scale));
    __m256i offset = _mm256_loadu_si256((const __m256i *)(const void *)x->offset);
    rest = _mm256_fmadd_ps(both, _mm256_cvtepi32_ps(offset), rest);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      __m512i q = load_q8_0(row + 2 * i * Q8_0_BYTES, blocks - 2 * i);
      __m512i fours =
          _mm512_dpbusd_epi32(_mm512_setzero_si512(), q, _mm512_loadu_si512(x->q + 64 * i));
      __m512 by = _mm512_permutexvar_ps(lanes[i], _mm512_castps256_ps512(both));
      if (i % 2)
        odd = _mm512_fmadd_ps(by, _mm512_cvtepi32_ps(fours), odd);
      else
        even = _mm512_fmadd_ps(by, _mm512_cvtepi32_ps(fours), even);
    }
  }
  even = _mm512_add_ps(even, odd);
  return _mm512_reduce_add_ps(_mm512_add_ps(even, _mm512_zextps256_ps512(rest)));
}

/* Returns the eight scales of a block of Q4_K or Q5_K, and then its eight minimums. They are
** unpacked from the block's first 16 bytes as in tli_scales_k. */
ALWAYS VNNI __m128i vnni_scales(__m128i head) {
  __m128i own =
      _mm_srlv_epi32(_mm_shuffle_epi32(head, _MM_SHUFFLE(3, 2, 3, 1)), _mm_setr_epi32(0, 0, 0, 4));
  __m128i rest = _mm_srli_epi32(_mm_shuffle_epi32(head, _MM_SHUFFLE(2, 2, 1, 1)), 2);
  own = _mm_and_si128(own, _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
  return _mm_or_si128(own, _mm_and_si128(rest, _mm_setr_epi32(0, 0x30303030, 0, 0x30303030)));
}

/* Returns a vector with `low` in all elements of its lower half and `high` in all elements of its
** upper half. */
ALWAYS VNNI __m512i halves_of(int low, int high) {
  return _mm512_inserti64x4(_mm512_set1_epi32(low), _mm256_set1_epi32(high), 1);
}

/* Returns a vector with the same 32 bytes in both halves. */
ALWAYS VNNI __m512i twice(const uint8_t *p) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* Computes one element of the result for Q4_K or Q5_K. Each sum of four products fits into 16 bits,
** so vpdpwssd multiplies these sums by the scales of their groups as integers. The input has one
** scale for the whole chunk. */
ALWAYS VNNI float vnni_row_k(const tlk_PackedRows *p, const uint8_t *row, int bits) {
  __m512i split = halves_of(0, 4), nibble = _mm512_set1_epi8(15), fifth = _mm512_set1_epi8(16);
  __m512i lanes[4];
  for (int i = 0; i < 4; i++)
    lanes[i] = halves_of((int)0x80808000 + 2 * i, (int)0x80808001 + 2 * i);
  __m512 sum = _mm512_setzero_ps();
  __m256 least = _mm256_setzero_ps();
  for (int64_t c = 0; c < p->chunks; c++, row += bits == 4 ? 144 : 176) {
    prefetch_page(row, bits == 4 ? 144 : 176);
    const tlk_Rounded *x = p->x + c * TLK_TOKENS;
    __m128i head = _mm_loadu_si128((const __m128i *)(const void *)row), six = vnni_scales(head);
    __m128 d = _mm_cvtph_ps(head); /* scale of the block's scales, and scale of its minimums */
    __m512i scales = _mm512_broadcast_i32x4(six), total = _mm512_setzero_si512();
    __m512i high = bits == 5 ? twice(row + 16) : total;
    const uint8_t *low = row + (bits == 5 ? 48 : 16);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      __m512i q = _mm512_and_si512(_mm512_srlv_epi32(twice(low + 32 * i), split), nibble);
      if (bits == 5) {
        __m512i bit = i < 2 ? _mm512_sllv_epi32(high, halves_of(4 - 2 * i, 3 - 2 * i))
                            : _mm512_srlv_epi32(high, halves_of(2 * i - 4, 2 * i - 3));
        q = _mm512_or_si512(q, _mm512_and_si512(bit, fifth));
      }
      __m512i fours =
          _mm512_dpbusd_epi32(_mm512_setzero_si512(), q, _mm512_loadu_si512(x->q + 64 * i));
      total = _mm512_dpwssd_epi32(total, fours, _mm512_shuffle_epi8(scales, lanes[i]));
    }
    __m128 by = _mm_mul_ss(d, _mm_load_ss(x->scale));
    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total), _mm512_broadcastss_ps(by), sum);
    __m256 six_least = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(six, 8)));
    __m256 least_by = _mm256_broadcastss_ps(_mm_movehdup_ps(d));
    least = _mm256_fmadd_ps(_mm256_mul_ps(six_least, least_by), _mm256_loadu_ps(x->sum), least);
  }
  return _mm512_reduce_add_ps(_mm512_sub_ps(sum, _mm512_zextps256_ps512(least)));
}

/* Computes one element of the result for Q6_K as vnni_row_k does for Q4_K. */
ALWAYS VNNI float vnni_row_q6_k(const tlk_PackedRows *p, const uint8_t *row) {
  __m512i nibble = _mm512_set1_epi8(15), pair = _mm512_set1_epi8(48);
  __m512i lanes =
      _mm512_setr_epi32(0x80800100, 0x80800100, 0x80800100, 0x80800100, 0x80800302, 0x80800302,
                        0x80800302, 0x80800302, 0x80800504, 0x80800504, 0x80800504, 0x80800504,
                        0x80800706, 0x80800706, 0x80800706, 0x80800706);
  __m512i next = _mm512_add_epi32(lanes, _mm512_set1_epi32(0x0808));
  __m512 sum = _mm512_setzero_ps(), zero = _mm512_set1_ps(32);
  for (int64_t c = 0; c < p->chunks; c++, row += 210) {
    prefetch_page(row, 210);
    const tlk_Rounded *x = p->x + c * TLK_TOKENS;
    __m128i eight = _mm_loadu_si128((const __m128i *)(const void *)(row + 192));
    __m256i scales = _mm256_cvtepi8_epi16(eight);
    __m512i total = _mm512_setzero_si512();
#pragma GCC unroll 2
    for (int n = 0; n < 2; n++) {
      __m512i low = _mm512_loadu_si512(row + 64 * n), high = twice(row + 128 + 32 * n);
      __m512i own = _mm512_broadcast_i32x4(n ? _mm256_extracti128_si256(scales, 1)
                                             : _mm256_castsi256_si128(scales));
      __m512i q[2] = {_mm512_sllv_epi32(high, halves_of(4, 2)),
                      _mm512_srlv_epi32(high, halves_of(0, 2))};
      q[0] = _mm512_or_si512(_mm512_and_si512(low, nibble), _mm512_and_si512(q[0], pair));
      q[1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(low, 4), nibble),
                             _mm512_and_si512(q[1], pair));
      for (int h = 0; h < 2; h++) {
        __m512i fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), q[h],
                                            _mm512_loadu_si512(x->q + 128 * n + 64 * h));
        total = _mm512_dpwssd_epi32(total, fours, _mm512_shuffle_epi8(own, h ? next : lanes));
      }
    }
    uint16_t bits;
    memcpy(&bits, row + 208, sizeof bits);
    float d = f16c_half(bits);
    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total), _mm512_set1_ps(d * x->scale[0]), sum);
    __m512 offset = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(eight)),
                                  _mm512_mul_ps(zero, _mm512_loadu_ps(x->sum)));
    sum = _mm512_fnmadd_ps(offset, _mm512_set1_ps(d), sum);
  }
  return _mm512_reduce_add_ps(sum);
}

/* One chunk of each of TLK_PANEL_ROWS weight rows, as vectors that hold 16 rows each. q[v][k] holds
** the elements 4 k to 4 k + 3 of the 16 rows of vector v. */
enum { VECTORS = TLK_PANEL_ROWS / 16 };
typedef struct Panel {
  __m512i q[VECTORS][TLI_CHUNK / 4];
  __m512 scale[VECTORS][TLK_GROUPS], least[VECTORS][TLK_GROUPS];
} Panel;

/* Reads 16 bytes of each of 16 rows, which begin `stride` bytes apart. Stores their transpose:
** to[k] holds bytes 4 k to 4 k + 3 of all rows. Inverts the bits that are set in `flip`. */
ALWAYS VNNI void fill_fours(const void *at, int64_t stride, __m512i flip, __m512i to[4]) {
  const uint8_t *from = at;
  __m512i z[4], pairs[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    z[j] =
        _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(from + j * stride)));
#pragma GCC unroll 3
    for (int lane = 1; lane < 4; lane++)
      z[j] = _mm512_mask_broadcast_i32x4(
          z[j], (__mmask16)(15 << 4 * lane),
          _mm_loadu_si128((const __m128i *)(const void *)(from + 4 * lane * stride + j * stride)));
  }
  pairs[0] = _mm512_unpacklo_epi32(z[0], z[1]);
  pairs[1] = _mm512_unpacklo_epi32(z[2], z[3]);
  pairs[2] = _mm512_unpackhi_epi32(z[0], z[1]);
  pairs[3] = _mm512_unpackhi_epi32(z[2], z[3]);
  to[0] = _mm512_xor_si512(_mm512_unpacklo_epi64(pairs[0], pairs[1]), flip);
  to[1] = _mm512_xor_si512(_mm512_unpackhi_epi64(pairs[0], pairs[1]), flip);
  to[2] = _mm512_xor_si512(_mm512_unpacklo_epi64(pairs[2], pairs[3]), flip);
  to[3] = _mm512_xor_si512(_mm512_unpackhi_epi64(pairs[2], pairs[3]), flip);
}

/* Fills a vector of 16 rows from Q8_0, whose integers need no unpacking. Blocks beyond a row's end
** get scales of 0. */
static VNNI void fill_q8_0(const tlk_PackedRows *p, int64_t first, int64_t c, __m512i *q,
                           __m512 *scale) {
  const uint8_t *block = p->weight + first * p->bytes + c * 8 * Q8_0_BYTES;
  int blocks = (int)tlk_min(8, p->features / 32 - 8 * c);
  __m512i row = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i at = _mm512_mullo_epi32(row, _mm512_set1_epi32((int32_t)p->bytes));
  __m512i flip = _mm512_set1_epi8((char)0x80);
  for (int g = 0; g < blocks; g++, block += Q8_0_BYTES) {
    fill_fours(block + 2, p->bytes, flip, q + 8 * g);
    fill_fours(block + 18, p->bytes, flip, q + 8 * g + 4);
    /* each gathered number contains a scale in its lower 16 bits */
    scale[g] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_i32gather_epi32(at, block, 1)));
  }
  for (int g = blocks; g < 8; g++) scale[g] = _mm512_setzero_ps();
}

/* Fills a vector of up to 16 rows from any layout. */
static VNNI void fill_any(const tlk_PackedRows *p, int64_t first, int64_t rows, int64_t c,
                          tli_Chunk *u, __m512i *q, __m512 *scale, __m512 *least) {
  const int64_t stride = sizeof *u;
  for (int64_t r = 0; r < rows; r++)
    unpack_chunk(vnni_unpack, p, p->weight + (first + r) * p->bytes, c, &u[r]);
  __m512i none = _mm512_setzero_si512();
  for (int k = 0; k < 64; k += 4) fill_fours(u->q + 4 * k, stride, none, q + k);
  for (int g = 0; g < 16; g += 4) {
    fill_fours(u->scale + g, stride, none, (__m512i *)scale + g);
    fill_fours(u->least + g, stride, none, (__m512i *)least + g);
  }
}

/* Returns whether fill_q8_0 can fill all vectors of a panel of `rows` rows. */
ALWAYS bool is_plain(const tlk_PackedRows *p, int64_t rows) {
  return p->kind == TLI_Q8_0 && rows % 16 == 0 && p->bytes <= INT32_MAX / 16;
}

static VNNI void fill_panel(const tlk_PackedRows *p, int64_t first, int64_t rows, int64_t c,
                            tli_Chunk *u, Panel *panel) {
  bool plain = is_plain(p, rows);
  for (int v = 0; v < VECTORS && 16 * v < rows; v++) {
    if (plain)
      fill_q8_0(p, first + 16 * v, c, panel->q[v], panel->scale[v]);
    else
      fill_any(p, first + 16 * v, tlk_min(16, rows - 16 * v), c, u, panel->q[v], panel->scale[v],
               panel->least[v]);
  }
}

/* The largest number of input rows whose sums stay in registers; it divides TLK_TOKENS. With fewer
** rows, the processor would have to wait for the results of products. */
enum { TILE = 6, SMALL_TILE = 4 };

/* Adds the products of a panel and `tile` input rows to sums (tile, TLK_PANEL_ROWS). In kinds that
** are `whole`, a chunk of an input row has one scale. Meanwhile, prefetches from `next` on, the
** same number of cache lines with each group. */
ALWAYS VNNI void multiply_tile(const Panel *panel, const tlk_Rounded *x, int group, bool whole,
                               bool has_least, int tile, const uint8_t *next, int lines,
                               float *sums) {
  __m512 total[TILE][VECTORS];
  const int8_t *own = x->q;
  const __m512i *q = panel->q[0];
#pragma GCC unroll 8
  for (int t = 0; t < tile; t++)
    for (int v = 0; v < VECTORS; v++)
      total[t][v] =
          whole ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + TLK_PANEL_ROWS * t + 16 * v);
  for (int g = 0; g < TLI_CHUNK / group; g++) {
    __m512i dot[TILE][VECTORS];
#pragma GCC unroll 8
    for (int t = 0; t < tile; t++)
      for (int v = 0; v < VECTORS; v++) dot[t][v] = _mm512_set1_epi32(x[t].offset[g]);
#pragma GCC unroll 8
    for (int k = 0; k < group / 4; k++)
#pragma GCC unroll 8
      for (int t = 0; t < tile; t++) {
        int32_t four;
        memcpy(&four, own + (size_t)t * sizeof *x + 4 * k, sizeof four);
        for (int v = 0; v < VECTORS; v++)
          dot[t][v] =
              _mm512_dpbusd_epi32(dot[t][v], q[v * (TLI_CHUNK / 4) + k], _mm512_set1_epi32(four));
      }
    own += group;
    q += group / 4;
    for (int i = 0; i < lines; i++, next += 64) _mm_prefetch((const char *)next, _MM_HINT_T1);
    __m512 scale[VECTORS];
    for (int v = 0; v < VECTORS; v++) scale[v] = panel->scale[v][g];
#pragma GCC unroll 8
    for (int t = 0; t < tile; t++)
      for (int v = 0; v < VECTORS; v++) {
        __m512 by = whole ? scale[v] : _mm512_mul_ps(scale[v], _mm512_set1_ps(x[t].scale[g]));
        total[t][v] = _mm512_fmadd_ps(by, _mm512_cvtepi32_ps(dot[t][v]), total[t][v]);
      }
  }
#pragma GCC unroll 8
  for (int t = 0; whole && t < tile; t++)
    for (int v = 0; v < VECTORS; v++)
      total[t][v] = _mm512_fmadd_ps(total[t][v], _mm512_set1_ps(x[t].scale[0]),
                                    _mm512_loadu_ps(sums + TLK_PANEL_ROWS * t + 16 * v));
  for (int g = 0; has_least && g < TLI_CHUNK / group; g++)
#pragma GCC unroll 8
    for (int t = 0; t < tile; t++)
      for (int v = 0; v < VECTORS; v++)
        total[t][v] =
            _mm512_fnmadd_ps(panel->least[v][g], _mm512_set1_ps(x[t].sum[g]), total[t][v]);
#pragma GCC unroll 8
  for (int t = 0; t < tile; t++)
    for (int v = 0; v < VECTORS; v++)
      _mm512_storeu_ps(sums + TLK_PANEL_ROWS * t + 16 * v, total[t][v]);
}

/* Adds the products of a panel and up to TILE input rows. Meanwhile, prefetches the next bytes of
** the weight. */
ALWAYS VNNI void multiply_panel(const Panel *panel, const tlk_Rounded *x, int group, bool whole,
                                bool has_least, int64_t rows, const uint8_t *next, int64_t bytes,
                                float *sums) {
  int lines = (int)tlk_ceil_div(bytes, 64 * (TLI_CHUNK / group));
  if (rows <= SMALL_TILE)
    multiply_tile(panel, x, group, whole, has_least, SMALL_TILE, next, lines, sums);
  else
    multiply_tile(panel, x, group, whole, has_least, TILE, next, lines, sums);
}

/* Sets the sums of a tile to 0. */
ALWAYS VNNI void clear_sums(float *sums) {
  for (int i = 0; i < TILE * TLK_PANEL_ROWS; i += 16)
    _mm512_storeu_ps(sums + i, _mm512_setzero_ps());
}

/* Copies the sums of `count` input rows and `rows` weight rows to the result. */
ALWAYS VNNI void store_sums(const float *sums, int64_t count, int64_t rows, int64_t step,
                            float *out) {
  for (int64_t t = 0; t < count; t++, out += step, sums += TLK_PANEL_ROWS)
    for (int64_t v = 0; v < rows; v += 16) {
      __mmask16 mask = (__mmask16)((1u << tlk_min(16, rows - v)) - 1);
      _mm512_mask_storeu_ps(out + v, mask, _mm512_loadu_ps(sums + v));
    }
}

/* Computes the products of up to TLK_PANEL_ROWS weight rows from row `first` on. Meanwhile,
** prefetches the rows that follow, up to row `end`: the processor does not prefetch them by itself,
** because it cannot foresee the order in which fill_panel reads rows. */
static VNNI void vnni_panel(const tlk_PackedRows *p, int64_t first, int64_t rows, int64_t end,
                            Panel *panel) {
  const tli_BlockLayout *layout = &tli_block_layouts[p->kind];
  bool has_least = tli_block_has_least(p->kind);
  int64_t tiles = tlk_ceil_div(p->count, TILE);
  const uint8_t *next = p->weight + (first + rows) * p->bytes;
  const uint8_t *next_end = p->weight + tlk_min(end, first + 2 * rows) * p->bytes;
  int64_t part = (rows * p->bytes / (p->chunks * tiles) + 64) & -64;
  tli_Chunk u[16];
  if (!is_plain(p, rows)) memset(u, 0, sizeof u);
  for (int64_t c = 0; c < p->chunks; c++) {
    fill_panel(p, first, rows, c, u, panel);
    for (int64_t t = 0; t < p->count; t += TILE) {
      const tlk_Rounded *x = rounded_at(p, t, c);
      float *sums = p->sums + t * TLK_PANEL_ROWS;
      int64_t left = p->count - t, bytes = tlk_min(part, next_end - next);
      if (c == 0) clear_sums(sums);
      if (layout->group == 16) /* layouts with groups of 16 elements are rounded with one scale for
                               ** the whole chunk */
        multiply_panel(panel, x, 16, true, has_least, left, next, bytes, sums);
      else if (layout->elements == TLI_CHUNK)
        multiply_panel(panel, x, 32, true, has_least, left, next, bytes, sums);
      else
        multiply_panel(panel, x, 32, false, has_least, left, next, bytes, sums);
      next += bytes;
      if (c == p->chunks - 1)
        store_sums(sums, tlk_min(TILE, left), rows, p->step, p->out + t * p->step + first);
    }
  }
}

/* Computes the products of several input rows with the weight. */
static VNNI void vnni_panels(const tlk_PackedRows *p, int64_t rows) {
  Panel panel;
  memset(&panel, 0, sizeof panel);
  for (int64_t r = 0; r < rows; r += TLK_PANEL_ROWS)
    vnni_panel(p, r, tlk_min(TLK_PANEL_ROWS, rows - r), rows, &panel);
}

static VNNI void vnni_rows(const tlk_PackedRows *p, int64_t rows) {
  int group = tli_block_layouts[p->kind].group;
  tli_Chunk u[2 * AHEAD];
  for (int i = 0; i < 2 * AHEAD; i++) clear(&u[i]);
  if (p->count > 1)
    vnni_panels(p, rows);
  else if (p->kind == TLI_Q8_0)
    for (int64_t r = 0; r < rows; r++) p->out[r] = vnni_row_q8_0(p, p->weight + r * p->bytes);
  else if (p->kind == TLI_Q4_K)
    for (int64_t r = 0; r < rows; r++) p->out[r] = vnni_row_k(p, p->weight + r * p->bytes, 4);
  else if (p->kind == TLI_Q5_K)
    for (int64_t r = 0; r < rows; r++) p->out[r] = vnni_row_k(p, p->weight + r * p->bytes, 5);
  else if (p->kind == TLI_Q6_K)
    for (int64_t r = 0; r < rows; r++) p->out[r] = vnni_row_q6_k(p, p->weight + r * p->bytes);
  else if (group == 16)
    for (int64_t r = 0; r < rows; r++) p->out[r] = vnni_row(p, p->weight + r * p->bytes, 16, u);
  else
    for (int64_t r = 0; r < rows; r++) p->out[r] = vnni_row(p, p->weight + r * p->bytes, 32, u);
}

/* Rounds 16 elements, multiplied by the same number in all lanes of `by`. */
ALWAYS VNNI void round_16(const float *x, __m512 by, int8_t *q) {
  __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), by));
  _mm_storeu_si128((__m128i *)(void *)q, _mm512_cvtepi32_epi8(whole));
}

/* Returns the absolute values of 16 elements, as integers of the same order. */
ALWAYS VNNI __m512i bits_16(const float *x) {
  return _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(0x7fffffff));
}

/* Rounds TLI_CHUNK elements with a common scale, which it returns, as packed_linear.c does. */
ALWAYS VNNI float round_256(const float *x, int8_t *q) {
  __m512i most = bits_16(x);
  for (int i = 16; i < TLI_CHUNK; i += 16) most = _mm512_max_epu32(most, bits_16(x + i));
  uint32_t bits = _mm512_reduce_max_epu32(most);
  float by = 127.0f / tli_bits_float(bits), scale = bits >= 0x7f800000u ? NAN : 0.0f;
  if (bits >= 0x7f800000u || isinf(by)) { /* all elements are 0 or too small to have a scale, or
                                          ** some are not finite */
    memset(q, 0, TLI_CHUNK);
    return scale;
  }
  int i = 0; /* the first element with the largest absolute value becomes -127 */
  while (fabsf(x[i]) != tli_bits_float(bits)) i++;
  if (x[i] > 0) by = -by;
  for (i = 0; i < TLI_CHUNK; i += 16) round_16(x + i, _mm512_set1_ps(by), q + i);
  return 1.0f / by;
}

/* Rounds groups of 32 elements, of n elements in total, as packed_linear.c does. Returns their
** scales. */
ALWAYS VNNI __m256 round_32s(const float *x, int n, int8_t *q) {
  uint32_t most[TLI_CHUNK / 32] = {0};
  float by[TLI_CHUNK / 32];
  for (int i = 0; i < n; i += 32)
    most[i / 32] = _mm512_reduce_max_epu32(_mm512_max_epu32(bits_16(x + i), bits_16(x + i + 16)));
  __m256 infinity = _mm256_set1_ps(INFINITY), whole = _mm256_set1_ps(127.0f);
  __m256 largest = _mm256_castsi256_ps(_mm256_loadu_si256((const __m256i *)(const void *)most));
  __m256 factor = _mm256_div_ps(whole, largest), scale = _mm256_div_ps(largest, whole);
  __mmask8 usable = _mm256_cmp_ps_mask(factor, infinity, _CMP_LT_OQ) &
                    _mm256_cmp_ps_mask(largest, infinity, _CMP_LT_OQ);
  __mmask8 fits = _mm256_cmp_ps_mask(scale, _mm256_set1_ps(6.2e-5f), _CMP_GT_OQ) &
                  _mm256_cmp_ps_mask(scale, _mm256_set1_ps(65000.0f), _CMP_LT_OQ);
  _mm256_storeu_ps(by, _mm256_maskz_mov_ps(usable, factor));
  for (int i = 0; i < n; i += 16) round_16(x + i, _mm512_set1_ps(by[i / 32]), q + i);
  __m128i halves = _mm256_cvtps_ph(scale, _MM_FROUND_TO_NEAREST_INT);
  scale = _mm256_mask_mov_ps(scale, fits, _mm256_cvtph_ps(halves));
  __mmask8 bad = _mm256_cmp_ps_mask(largest, infinity, _CMP_NLT_UQ);
  return _mm256_mask_mov_ps(_mm256_maskz_mov_ps(usable, scale), bad, _mm256_set1_ps(NAN));
}

/* Returns the sums of each 16 integers of a chunk. */
ALWAYS VNNI __m512i sums_of_16(const int8_t *q) {
  __m512i ones = _mm512_set1_epi8(1), pairs = _mm512_set1_epi16(1), fours[4];
  for (int i = 0; i < 4; i++)
    fours[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, _mm512_loadu_si512(q + 64 * i));
  __m512i low = _mm512_madd_epi16(_mm512_packs_epi32(fours[0], fours[1]), pairs);
  __m512i high = _mm512_madd_epi16(_mm512_packs_epi32(fours[2], fours[3]), pairs);
  __m512i sums = _mm512_madd_epi16(_mm512_packs_epi32(low, high), pairs);
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), sums);
}

static VNNI void vnni_round_chunk(const tli_BlockLayout *layout, const float *x, int n,
                                  tlk_Rounded *out) {
  if (n < TLI_CHUNK) memset(out->q, 0, sizeof out->q);
  __m512 scale = layout->elements == TLI_CHUNK ? _mm512_set1_ps(round_256(x, out->q))
                                               : _mm512_zextps256_ps512(round_32s(x, n, out->q));
  __m512i sums = sums_of_16(out->q);
  if (layout->group == 32) {
    __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    sums = _mm512_maskz_add_epi32(0xff, _mm512_permutexvar_epi32(even, sums),
                                  _mm512_permutexvar_epi32(odd, sums));
    scale = _mm512_maskz_mov_ps(0xff, scale);
  }
  _mm512_storeu_ps(out->scale, scale);
  _mm512_storeu_ps(out->sum, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sums)));
  _mm512_storeu_si512(out->offset, _mm512_mullo_epi32(sums, _mm512_set1_epi32(-layout->zero)));
}

static bool is_at_least(const char *name) {
  const char *own = tlk_isa()->name;
  return strcmp(own, name) == 0 || strcmp(own, "x86-64-v4") == 0 ||
         strcmp(own, "x86-64-native") == 0;
}

static bool has_vnni(void) {
  return is_at_least("x86-64-v4") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

tlk_RoundChunk *tlk_round_chunk(tlk_RoundChunk *plain) {
  return has_vnni() ? vnni_round_chunk : plain;
}

tlk_PackedLoops *tlk_packed_loops(void) {
  if (has_vnni()) return vnni_rows;
  bool avx2 = is_at_least("x86-64-v3") && __builtin_cpu_supports("avx2");
  return avx2 && __builtin_cpu_supports("fma") ? avx2_rows : plain_rows;
}
#else
tlk_PackedLoops *tlk_packed_loops(void) { return plain_rows; }
tlk_RoundChunk *tlk_round_chunk(tlk_RoundChunk *plain) { return plain; }
#endif
