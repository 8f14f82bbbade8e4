/*
** attention.h - code that the forward and the backward pass of attention share.
**
** Both loop over blocks of queries and of keys. The scores of a block are stored as (keys,
** queries), so each query has a vector lane, softmax works on whole vectors, and only the rows
** of queries are transposed, once for each of their blocks. Keys and values are read in place
** as the left side of products (matmul/tile.h) and, if their rows are whole vectors, as the
** right side, too.
**
** Where the processor multiplies pairs of bfloat16 (matmul/dot.h), products of bfloat16 read the
** rows of queries, keys and values in place, and scores and their gradients are rounded to bfloat16
** before they are multiplied, as PyTorch does.
**
** The sizes of blocks depend on the sizes of the call alone, and sums over blocks are computed
** in order, so results have the same bits for every number of threads.
*/
#ifndef TLK_ATTENTION_H
#define TLK_ATTENTION_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/dot.h"
#include "kernels/cpu/matmul/tile.h"

/* The largest numbers of queries and keys in a block, whose scores stay in the cache. The number of
** keys is a multiple of the tile's rows, and of the four keys that share a block of random
** words. */
#define TLK_ATTENTION_QUERIES 96
#define TLK_ATTENTION_KEYS 96

/* Loops over a block (keys, cols), one set for float, one for double. */
typedef struct tlk_AttentionLoops {
  double lowest; /* a finite number below every visible score */
  /* One step of an online softmax. `largest` and `sum` hold the maximum and the sum of exponentials
  ** so far for each column. Scores become exponentials; `factor` receives the number by which the
  ** caller must multiply older sums. */
  void (*softmax)(int64_t keys, int64_t cols, void *scores, void *largest, void *sum, void *factor);
  /* Replaces scores by weights, and the gradients of weights by those of scores. norm and delta
  ** have one number for each column; keep is (keys, cols) or NULL. */
  void (*gradient)(int64_t keys, int64_t cols, void *scores, void *grads, const void *keep,
                   const void *norm, const void *delta);
  /* Converts a boolean mask to 0 or -inf, or keeps an additive mask, and zeroes the padding
  ** after its n columns. Returns whether some score stays above -inf. */
  bool (*mask)(bool truth, int64_t keys, int64_t n, int64_t cols, void *x);
  /* Sets columns [0, first + j) of row j to -inf. */
  void (*hide)(int64_t keys, int64_t cols, int64_t first, void *scores);
  /* Computes dropout's factors of the weights, with probability p. The words of column c begin
  ** at block + c * step; keys are rounded up to four. */
  void (*keep)(int64_t keys, int64_t cols, uint64_t seed, uint64_t block, uint64_t step, double p,
               void *out);
  /* Compute x += y, x *= y, x *= factor, and the sum of x * y. */
  void (*add)(int64_t n, void *x, const void *y);
  void (*multiply)(int64_t n, void *x, const void *y);
  void (*scale)(int64_t n, void *x, double factor);
  double (*dot)(int64_t n, const void *x, const void *y);
} tlk_AttentionLoops;

/* ---- sizes that are the same for all blocks ---- */

typedef struct tlk_AttentionPlan {
  const tlk_Attention *a;
  const tlk_Isa *isa;
  const tlk_TileLoops *tile;
  /* loops for bfloat16 products; NULL if the processor lacks the instructions */
  const tlk_DotLoops *dots;
  const tlk_AttentionLoops *loops;
  tl_DType compute;
  int64_t lanes;         /* columns of a product are a multiple of this number */
  int64_t size;          /* bytes of an element of the compute type */
  int64_t queries, keys; /* numbers of queries and keys in a whole block */
  int64_t query_blocks, key_blocks;
  /* row sizes of query and key, and of value, rounded up to whole vectors */
  int64_t width, value_width;
  uint64_t seed, block; /* seed and first random block of dropout */
  uint64_t words;       /* number of random blocks for each query */
} tlk_AttentionPlan;

void tlk_attention_plan(const tlk_Attention *a, tlk_AttentionPlan *plan);

/* ---- one block ---- */

/* A matrix in the compute type, or of bfloat16 if `half` is set; strides count elements. A `half`
** matrix has exactly `cols` columns in memory; any other may be read up to whole vectors. */
typedef struct tlk_Matrix {
  const void *at;
  int64_t row, col;
  bool half;
  int64_t cols;
} tlk_Matrix;

/* A block's position: sample, query head and key head, its first query and key, their numbers,
** and the columns of its scores, which are the queries rounded up to whole vectors. */
typedef struct tlk_AttentionBlock {
  int64_t b, h, kv;
  int64_t query, queries, key, keys, cols;
} tlk_AttentionBlock;

/* tlk_attention_queries returns block i of the queries of head h, without keys.
** tlk_attention_keys sets the keys of the j-th block, or returns false if the queries see none of
** those keys. */
tlk_AttentionBlock tlk_attention_queries(const tlk_AttentionPlan *p, int64_t b, int64_t h,
                                         int64_t i);
bool tlk_attention_keys(const tlk_AttentionPlan *p, int64_t j, tlk_AttentionBlock *block);

/* Returns `n` rows of `cols` elements of a head, beginning at row `first`, in the compute type: in
** place if possible, otherwise copied to `buffer` in rows of whole vectors. Rows for the right side
** of a product must be whole vectors and close to each other. */
tlk_Matrix tlk_attention_numbers(const tlk_AttentionPlan *p, const tlk_HeadRows *from, int64_t b,
                                 int64_t h, int64_t first, int64_t n, int64_t cols, bool right,
                                 void *buffer);
/* Returns rows of a head in the form that products read. */
tlk_Matrix tlk_attention_rows(const tlk_AttentionPlan *p, const tlk_HeadRows *from, int64_t b,
                              int64_t h, int64_t first, int64_t n, int64_t cols, bool right,
                              void *buffer);
/* Writes rows in the call's dtype. */
void tlk_attention_store(const tlk_AttentionPlan *p, const tlk_HeadRows *to, int64_t b, int64_t h,
                         int64_t first, int64_t n, int64_t cols, const void *rows, int64_t pitch);
/* Returns the transpose (size, n) of n rows as the right side of products: in `out`, padded with
** zeros to (size, cols), or the rows themselves if they are bfloat16. */
tlk_Matrix tlk_attention_turn(const tlk_AttentionPlan *p, tlk_Matrix rows, int64_t n, int64_t size,
                              int64_t cols, void *out);

/* Returns the bytes that products need at `packed`; 0 unless the plan has `dots`. */
int64_t tlk_attention_packed(const tlk_AttentionPlan *p);
/* Computes out (rows, cols) = left (rows, terms) times right (terms, cols), or adds it to out if
** `sum`; cols is a whole number of vectors. With `dots` the right side must be bfloat16, and
** further rows of out are written, up to the next multiple of TLK_DOT_LINES. */
void tlk_attention_product(const tlk_AttentionPlan *p, int64_t rows, int64_t terms, int64_t cols,
                           tlk_Matrix left, tlk_Matrix right, bool sum, void *out, int64_t pitch,
                           void *packed);

/* Computes the scaled and masked scores of a block from its keys and its transposed queries.
** Returns false and writes nothing if all scores are hidden. `mask` has room for two blocks. */
bool tlk_attention_scores(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block,
                          tlk_Matrix keys, tlk_Matrix turned, void *mask, void *scores,
                          void *packed);
/* Computes dropout's factors of a block's weights; returns false and writes nothing without
** dropout. */
bool tlk_attention_keep(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block, void *keep);

/* ---- memory for blocks ---- */

/* Divides the memory at `at` into arrays. If `at` is NULL, only the bytes are counted. */
typedef struct tlk_Carver {
  char *at;
  int64_t used;
} tlk_Carver;

static inline void *tlk_carve(tlk_Carver *c, int64_t bytes) {
  void *part = c->at ? c->at + c->used : NULL;
  c->used += (bytes + 63) & -64;
  return part;
}

#endif
