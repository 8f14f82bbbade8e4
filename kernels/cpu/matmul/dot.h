/*
** dot.h - products of bfloat16 by instructions that multiply pairs of elements and add them to
** float32 sums: vdpbf16ps of AVX512_BF16 and tdpbf16ps of AMX. Both read packed matrices, which
** consist of blocks of 1 KB:
**
**   left factor   (m, k): 16 rows of 32 terms
**   right factor  (k, n): 16 pairs of terms for 16 columns, row by row; the two terms of a pair
**                         are beside each other in each column
**
** Blocks follow one another along k, then along m or n; elements past the end of the matrix are 0.
*/
#ifndef TLK_DOT_H
#define TLK_DOT_H

#include <stdbool.h>
#include <stdint.h>

/* A block has TLK_DOT_LINES lines, which are rows or columns of a factor, and TLK_DOT_TERMS terms
** of each line. */
enum { TLK_DOT_LINES = 16, TLK_DOT_TERMS = 32 };

typedef struct tlk_DotLoops {
  const char *isa; /* name of the instruction set, as TLUA_ISA spells it */
  /* Packs the left factor: a (m, k), whose rows are lda elements apart, or the transpose of such a
  ** matrix if `trans`. */
  void (*pack_left)(bool trans, int64_t m, int64_t k, const void *a, int64_t lda, void *to);
  /* Packs the right factor: b (k, n), whose rows are ldb elements apart, or the transpose of such a
  ** matrix if `trans`. */
  void (*pack_right)(bool trans, int64_t k, int64_t n, const void *b, int64_t ldb, void *to);
  /* Computes c = left * right, or c += left * right if `add`, for whole blocks: m and n are
  ** multiples of TLK_DOT_LINES, and k is a multiple of TLK_DOT_TERMS. The order in which an
  ** element's terms are summed does not depend on m and n. */
  void (*multiply)(int64_t m, int64_t n, int64_t k, const void *left, const void *right, bool add,
                   float *c, int64_t ldc);
} tlk_DotLoops;

/* Returns the best loops that the processor has instructions for and that TLUA_ISA allows; NULL if
** there are none. */
const tlk_DotLoops *tlk_dot_loops(void);

#endif
