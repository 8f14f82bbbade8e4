/*
** gather.c - inner loops of gather and scatter. If neighbouring lines share the index and are
** adjacent in memory, whole rows are copied. Otherwise single elements are copied, either along the
** lines or across the lines, in the direction that is contiguous.
*/
#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/kernel/element.h"
#include "kernels/cpu/index/gather.h"

static void range(int64_t n, const int64_t *x, int64_t *least, int64_t *most) {
  int64_t low = x[0], high = x[0];
  for (int64_t i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  *least = low;
  *most = high;
}

static inline int64_t load_position(const char *p) {
  int64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* Returns whether the lines share an index and are adjacent in `out` and in `in`, so that whole
** rows can be copied. */
static inline bool shared_index(const tlk_Tile *t, int64_t size) {
  return t->lines > 1 && t->line_strides[1] == 0 && t->line_strides[0] == size &&
         (t->line_strides[2] == size || t->line_strides[2] == 0);
}

/* Returns whether the inner loop runs along a line. Otherwise it runs from line to line. */
static inline bool along_first(const tlk_Tile *t) {
  return t->lines == 1 ||
         (t->count > 1 && t->strides[1] != 0 &&
          t->strides[1] <= (t->line_strides[1] ? t->line_strides[1] : t->line_strides[0]));
}

/* Returns whether n positions are all in [low, high]. `low` is at least 1. */
static inline bool all_within(int64_t n, const int64_t *at, int64_t low, int64_t high) {
  uint64_t most = 0;
  for (int64_t i = 0; i < n; i++) {
    uint64_t from = (uint64_t)at[i] - (uint64_t)low;
    most = from > most ? from : most;
  }
  return most <= (uint64_t)(high - low);
}

/* Returns whether the elements of a line are contiguous in all operands. */
static inline bool dense(const tlk_Tile *t, int64_t size) {
  return t->strides[0] == size && t->strides[1] == (int64_t)sizeof(int64_t) &&
         t->strides[2] == size && t->high >= t->low;
}

#define PIECE 512 /* number of positions that are checked together */
#define AHEAD 4   /* number of rows by which prefetching is ahead of copying */

static inline void fetch_row(const tlk_Tile *t, int operand, int64_t k) {
  if (k >= t->count) return;
  int64_t at = load_position(t->ptrs[1] + k * t->strides[1]);
  if (at < 1 || at > t->high) return;
  const char *row = t->ptrs[operand] + (at - 1) * t->strides[operand];
  for (int line = 0; line < 4; line++) __builtin_prefetch(row + line * 64);
}

#define BITS 8
#define Word uint8_t
#include "kernels/cpu/index/gather_loops.h"
#define BITS 16
#define Word uint16_t
#include "kernels/cpu/index/gather_loops.h"
#define BITS 32
#define Word uint32_t
#include "kernels/cpu/index/gather_loops.h"
#define BITS 64
#define Word uint64_t
#include "kernels/cpu/index/gather_loops.h"
#define BITS 128
#define Word uint128_t
#include "kernels/cpu/index/gather_loops.h"

#define ONLY_SET
#define real uint8_t
#define TYPE 8
#include "kernels/cpu/index/scatter_loops.h"
#define real uint16_t
#define TYPE 16
#include "kernels/cpu/index/scatter_loops.h"
#define real uint32_t
#define TYPE 32
#include "kernels/cpu/index/scatter_loops.h"
#define real uint64_t
#define TYPE 64
#include "kernels/cpu/index/scatter_loops.h"
#define real uint128_t
#define TYPE 128
#include "kernels/cpu/index/scatter_loops.h"
#undef ONLY_SET

#define ORDERED
#define real float
#define TYPE f32
#include "kernels/cpu/index/scatter_loops.h"
#define real double
#define TYPE f64
#include "kernels/cpu/index/scatter_loops.h"
#define real int32_t
#define TYPE i32
#define UNSIGNED uint32_t
#include "kernels/cpu/index/scatter_loops.h"
#define real int64_t
#define TYPE i64
#define UNSIGNED uint64_t
#include "kernels/cpu/index/scatter_loops.h"
#undef ORDERED

#define JOINS(name, ...)                                                          \
  {                                                                               \
    [TLK_C_I32] = name##_i32, [TLK_C_I64] = name##_i64, [TLK_C_F32] = name##_f32, \
    [TLK_C_F64] = name##_f64, __VA_ARGS__                                         \
  }
#ifdef TLI_INFER /* a build for inference has no complex tensors */
#define COMPLEX_JOINS(name) JOINS(name, )
#else
#define real tli_C64
#define TYPE c64
#include "kernels/cpu/index/scatter_loops.h"
#define real tli_C128
#define TYPE c128
#include "kernels/cpu/index/scatter_loops.h"
#define COMPLEX_JOINS(name) JOINS(name, [TLK_C_C64] = name##_c64, [TLK_C_C128] = name##_c128)
#endif

extern const tlk_IndexLoops TLK_ISA_NAME(tlk_index_loops);
const tlk_IndexLoops TLK_ISA_NAME(tlk_index_loops) = {
    .range = range,
    .gather = {gather_8, gather_16, gather_32, gather_64, gather_128},
    .set = {set_8, set_16, set_32, set_64, set_128},
    .join = {[TLK_JOIN_ADD] = COMPLEX_JOINS(add),
             [TLK_JOIN_MUL] = COMPLEX_JOINS(mul),
             [TLK_JOIN_MAX] = JOINS(max, ),
             [TLK_JOIN_MIN] = JOINS(min, )},
};
