/*
** dot.c - the loops of dot.h. Each function is compiled for the instructions that it uses, and the
** choice among them is made at run time.
**
** AMX's registers have 8 KB, and a process must ask the operating system once for permission to use
** them. Linux refuses if a thread has an alternate signal stack that is too small for these
** registers (Documentation/arch/x86/xstate.rst).
*/
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* syscall */
#endif
#include "kernels/cpu/matmul/dot.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/transpose_16.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

#define LINES TLK_DOT_LINES
#define TERMS TLK_DOT_TERMS
#define BLOCK (LINES * TERMS)

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define ALWAYS inline __attribute__((always_inline))

/* ---- packing --------------------------------------------------------------------- */

/* Returns 32 elements: the first n elements at p, and zeros after them. */
static ALWAYS AVX512 __m512i load_terms(const uint16_t *p, int64_t n) {
  if (n >= TERMS) return _mm512_loadu_si512(p);
  return _mm512_maskz_loadu_epi16((__mmask32)((1u << n) - 1), p);
}

/* Returns 16 elements, widened to 32 bits: the first n elements at p, and zeros after
** them. */
static ALWAYS AVX512 __m512i load_lines(const uint16_t *p, int64_t n) {
  __mmask16 mask = (__mmask16)(n >= LINES ? 0xffffu : (1u << n) - 1);
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p));
}

/* Reads a block from a source whose rows are lines (rows or columns of the product). Lines are
** `step` elements apart, and the terms of a line are contiguous. */
static ALWAYS AVX512 void read_lines(const uint16_t *from, int64_t step, int64_t lines,
                                     int64_t terms, __m512i z[LINES]) {
  for (int i = 0; i < LINES; i++)
    z[i] = i < lines ? load_terms(from + i * step, terms) : _mm512_setzero_si512();
}

/* Reads a block from a source whose rows are terms. Terms are `step` elements apart, and the lines
** of a term are contiguous. */
static ALWAYS AVX512 void read_terms(const uint16_t *from, int64_t step, int64_t lines,
                                     int64_t terms, __m512i z[LINES]) {
  for (int i = 0; i < LINES; i++) {
    __m512i even = 2 * i < terms ? load_lines(from + 2 * i * step, lines) : _mm512_setzero_si512();
    __m512i odd =
        2 * i + 1 < terms ? load_lines(from + (2 * i + 1) * step, lines) : _mm512_setzero_si512();
    z[i] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
  }
}

/* Packs one block. `by_term` means that the rows of the source are terms, not lines. `turn` means
** that the block is stored transposed. Callers pass constants for both, for which the inlined
** function is optimised. */
static ALWAYS AVX512 void pack_block(bool by_term, bool turn, const uint16_t *from, int64_t step,
                                     int64_t lines, int64_t terms, uint16_t *to) {
  __m512i z[LINES];
  if (by_term)
    read_terms(from, step, lines, terms, z);
  else
    read_lines(from, step, lines, terms, z);
  if (turn) tlk_transpose_16(z);
  for (int i = 0; i < LINES; i++) _mm512_storeu_si512(to + i * TERMS, z[i]);
}

/* Packs all blocks, in an order that reads each row of the source from end to end. */
static ALWAYS AVX512 void pack(bool by_term, bool turn, int64_t lines, int64_t k,
                               const uint16_t *from, int64_t step, uint16_t *to) {
  int64_t blocks = tlk_ceil_div(k, TERMS);
  if (by_term)
    for (int64_t t = 0; t < k; t += TERMS)
      for (int64_t i = 0; i < lines; i += LINES)
        pack_block(true, turn, from + t * step + i, step, lines - i, k - t,
                   to + (i / LINES * blocks + t / TERMS) * BLOCK);
  else
    for (int64_t i = 0; i < lines; i += LINES)
      for (int64_t t = 0; t < k; t += TERMS, to += BLOCK)
        pack_block(false, turn, from + i * step + t, step, lines - i, k - t, to);
}

static AVX512 void pack_left(bool trans, int64_t m, int64_t k, const void *a, int64_t lda,
                             void *to) {
  if (trans)
    pack(true, true, m, k, a, lda, to);
  else
    pack(false, false, m, k, a, lda, to);
}

static AVX512 void pack_right(bool trans, int64_t k, int64_t n, const void *b, int64_t ldb,
                              void *to) {
  if (trans)
    pack(false, true, n, k, b, ldb, to);
  else
    pack(true, false, n, k, b, ldb, to);
}

/* ---- AVX512_BF16 ----------------------------------------------------------------- */

/* Number of rows, and number of blocks of columns, whose sums stay in registers together. */
enum { ROWS = 8, COLUMNS = 2 };

/* Returns a vector of copies of a pair of numbers. */
static ALWAYS AVX512_BF16 __m512bh repeat(int pair) {
  __m512i all = _mm512_set1_epi32(pair);
#if defined(__clang__) && __clang_major__ == 16
  __asm__("" : "+v"(all)); /* clang 16 crashes if the vector is cast before it is copied */
#endif
  return (__m512bh)all;
}

/* Computes a tile of ROWS rows and `columns` blocks of columns. Callers pass a constant for
** `columns`, for which the inlined function is optimised. */
static ALWAYS AVX512_BF16 void bf16_tile(int columns, int64_t blocks, const uint16_t *left,
                                         const uint16_t *right, bool add, float *c, int64_t ldc) {
  __m512 sums[ROWS][COLUMNS];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
    for (int j = 0; j < columns; j++)
      sums[r][j] = add ? _mm512_loadu_ps(c + r * ldc + j * LINES) : _mm512_setzero_ps();
  for (int64_t p = 0; p < blocks; p++, left += BLOCK, right += BLOCK)
    for (int q = 0; q < LINES; q++) {
      __m512bh pairs[COLUMNS];
#pragma GCC unroll 2
      for (int j = 0; j < columns; j++)
        pairs[j] = (__m512bh)_mm512_loadu_si512(right + j * blocks * BLOCK + q * TERMS);
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; r++) {
        int pair;
        memcpy(&pair, left + r * TERMS + 2 * q, sizeof pair);
#pragma GCC unroll 2
        for (int j = 0; j < columns; j++)
          sums[r][j] = _mm512_dpbf16_ps(sums[r][j], repeat(pair), pairs[j]);
      }
    }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
    for (int j = 0; j < columns; j++) _mm512_storeu_ps(c + r * ldc + j * LINES, sums[r][j]);
}

static AVX512_BF16 void bf16_multiply(int64_t m, int64_t n, int64_t k, const void *left,
                                      const void *right, bool add, float *c, int64_t ldc) {
  int64_t blocks = k / TERMS, line = blocks * BLOCK;
  for (int64_t j = 0; j < n; j += COLUMNS * LINES)
    for (int64_t i = 0; i < m; i += ROWS) {
      const uint16_t *a = (const uint16_t *)left + i / LINES * line + i % LINES * TERMS;
      const uint16_t *b = (const uint16_t *)right + j / LINES * line;
      if (n - j >= COLUMNS * LINES)
        bf16_tile(COLUMNS, blocks, a, b, add, c + i * ldc + j, ldc);
      else
        bf16_tile(1, blocks, a, b, add, c + i * ldc + j, ldc);
    }
}

static const tlk_DotLoops bf16_loops = {"x86-64-v4+bf16", pack_left, pack_right, bf16_multiply};

/* ---- AMX ------------------------------------------------------------------------- */

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#define AMX __attribute__((target("amx-tile,amx-bf16")))

/* Configures all eight tiles as 16 rows of 64 bytes (Intel's manual, volume 1, section 18.1). */
static const struct {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tiles = {.palette = 1,
           .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
           .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* Computes up to 2 x 2 blocks of c in the tile registers 0 to 3. Registers 4 and 5 hold blocks of
** the left factor, and registers 6 and 7 blocks of the right factor. `down` and `across` tell
** whether there are two blocks in that direction. Callers pass constants for both, for which the
** inlined function is optimised. */
static ALWAYS AMX void amx_tile(bool down, bool across, int64_t blocks, const uint16_t *left,
                                const uint16_t *right, bool add, float *c, int64_t ldc) {
  int64_t step = ldc * (int64_t)sizeof *c, line = blocks * BLOCK;
  float *below = c + LINES * ldc;
  if (add) {
    _tile_loadd(0, c, step);
    if (across) _tile_loadd(1, c + LINES, step);
    if (down) _tile_loadd(2, below, step);
    if (down && across) _tile_loadd(3, below + LINES, step);
  } else {
    _tile_zero(0);
    if (across) _tile_zero(1);
    if (down) _tile_zero(2);
    if (down && across) _tile_zero(3);
  }
  for (int64_t p = 0; p < blocks; p++, left += BLOCK, right += BLOCK) {
    _tile_loadd(4, left, 64);
    _tile_loadd(6, right, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (across) _tile_loadd(7, right + line, 64);
    if (across) _tile_dpbf16ps(1, 4, 7);
    if (down) _tile_loadd(5, left + line, 64);
    if (down) _tile_dpbf16ps(2, 5, 6);
    if (down && across) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, step);
  if (across) _tile_stored(1, c + LINES, step);
  if (down) _tile_stored(2, below, step);
  if (down && across) _tile_stored(3, below + LINES, step);
}

static AMX void amx_multiply(int64_t m, int64_t n, int64_t k, const void *left, const void *right,
                             bool add, float *c, int64_t ldc) {
  int64_t blocks = k / TERMS, line = blocks * BLOCK;
  _tile_loadconfig(&tiles);
  for (int64_t j = 0; j < n; j += 2 * LINES)
    for (int64_t i = 0; i < m; i += 2 * LINES) {
      const uint16_t *a = (const uint16_t *)left + i / LINES * line;
      const uint16_t *b = (const uint16_t *)right + j / LINES * line;
      float *to = c + i * ldc + j;
      bool down = m - i > LINES, across = n - j > LINES;
      if (down && across)
        amx_tile(true, true, blocks, a, b, add, to, ldc);
      else if (down)
        amx_tile(true, false, blocks, a, b, add, to, ldc);
      else if (across)
        amx_tile(false, true, blocks, a, b, add, to, ldc);
      else
        amx_tile(false, false, blocks, a, b, add, to, ldc);
    }
  /* after this, the system need not save the tile registers when it switches threads */
  _tile_release();
}

static const tlk_DotLoops amx_loops = {"x86-64-v4+amx", pack_left, pack_right, amx_multiply};

/* Bits of CPUID leaf 7 (Intel's manual, volume 2, CPUID). */
enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
/* arch_prctl's request for permission, and the feature number of tile data */
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

static const tlk_DotLoops *amx_if_possible(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return NULL;
  if (!(d & AMX_BF16) || !(d & AMX_TILE)) return NULL;
  bool given = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
  return given ? &amx_loops : NULL;
}
#else
static const tlk_DotLoops *amx_if_possible(void) { return NULL; }
#endif

/* ---- the choice ------------------------------------------------------------------ */

static bool has_bf16(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

/* Returns whether multiplying with vdpbf16ps is faster than converting to float32. Intel's
** processors issue this instruction only every second cycle (uops.info), so converting is faster on
** them. AMD's processors issue it as often as a multiplication of float32. */
static bool bf16_is_fast(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx;
}

/* Chooses the loops. The environment variable TLUA_ISA can ask for one set of loops (x86-64-v4+bf16
** or x86-64-v4+amx) or for none (x86-64-v4). */
static const tlk_DotLoops *choose(void) {
  const char *wish = getenv("TLUA_ISA"), *extra = wish ? strchr(wish, '+') : NULL;
  if (strstr(tlk_isa()->name, "x86-64-") == NULL || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl"))
    return NULL;
  if (extra) {
    if (strcmp(extra, "+amx") == 0) return amx_if_possible();
    return strcmp(extra, "+bf16") == 0 && has_bf16() ? &bf16_loops : NULL;
  }
  if (wish && *wish) return NULL;
  const tlk_DotLoops *amx = amx_if_possible();
  return amx ? amx : has_bf16() && bf16_is_fast() ? &bf16_loops : NULL;
}

const tlk_DotLoops *tlk_dot_loops(void) {
  static _Atomic(const tlk_DotLoops *) chosen;
  static atomic_bool known;
  if (tlk_portable()) return NULL;
  if (!atomic_load_explicit(&known, memory_order_acquire)) {
    atomic_store_explicit(&chosen, choose(), memory_order_relaxed);
    atomic_store_explicit(&known, true, memory_order_release);
  }
  return atomic_load_explicit(&chosen, memory_order_relaxed);
}
#else
const tlk_DotLoops *tlk_dot_loops(void) { return NULL; }
#endif

const char *tlk_cpu_isa(void) {
  const tlk_DotLoops *dots = tlk_dot_loops();
  return dots ? dots->isa : tlk_isa()->name;
}
