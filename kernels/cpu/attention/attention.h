/*
** attention.h - code that the forward and the backward pass of attention share.
**
** Both passes loop over blocks of queries and of keys. The scores of a block are stored as (keys,
** queries), so each query has a vector lane, softmax works on whole vectors, and only the rows of
** queries are transposed, once for each block of queries. Keys and values are read in place as the
** left side of products (matmul/tile.h) and, if their rows are whole vectors, as the right side as
** well.
**
** If the processor has instructions that multiply pairs of bfloat16 (matmul/dot.h), products of
** bfloat16 read the rows of queries, keys and values in place. Scores and their gradients are
** rounded to bfloat16 before they enter a product, as in PyTorch.
**
** The sizes of blocks depend on the sizes of the call alone, and sums over blocks are computed
** in order, so results have the same bits for every number of threads.
*/
#ifndef TLK_ATTENTION_H
#define TLK_ATTENTION_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/dot.h"
#include "kernels/cpu/matmul/tile.h"

/* The largest number of queries in a block, and the largest number of keys. The scores of a block
** of this size stay in the cache. The number of keys is a multiple of the tile's number of rows,
** and of 4, because four keys share a block of random words. */
#define TLK_ATTENTION_QUERIES 96
#define TLK_ATTENTION_KEYS 96

/* Loops over a block (keys, cols), one set for float, one for double. */
typedef struct tlk_AttentionLoops {
  double lowest; /* a finite number below every visible score */
  /* One step of an online softmax. `largest` and `sum` hold the maximum and the sum of exponentials
  ** so far for each column. Replaces the scores by exponentials; `factor` receives the number by
  ** which the caller must multiply older sums. */
  void (*softmax)(int64_t keys, int64_t cols, void *scores, void *largest, void *sum, void *factor);
  /* Replaces `scores` with the attention weights, and replaces `grads`, which holds the gradients
  ** of the weights, with the gradients of the scores. For each query (column), norm is the value
  ** that the forward pass saved and delta is sum(grad_out * out). keep holds the dropout factors
  ** (keys, cols), or is NULL. */
  void (*gradient)(int64_t keys, int64_t cols, void *scores, void *grads, const void *keep,
                   const void *norm, const void *delta);
  /* Converts a boolean mask x to an additive mask of 0 and -inf, leaves any other mask as it is,
  ** and sets the padding after its first n columns to 0. Returns whether the mask has an element
  ** other than -inf. */
  bool (*mask)(bool truth, int64_t keys, int64_t n, int64_t cols, void *x);
  /* Sets columns [0, first + j) of row j to -inf. */
  void (*hide)(int64_t keys, int64_t cols, int64_t first, void *scores);
  /* Computes the factors by which dropout with probability p multiplies the weights. The random
  ** words of column c begin at random block `block + c * step`. The number of keys is rounded up to
  ** a multiple of 4. */
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
  int64_t lanes;         /* the number of columns of a product is a multiple of this number */
  int64_t size;          /* size of an element of the compute type in bytes */
  int64_t queries, keys; /* number of queries and number of keys in a whole block */
  int64_t query_blocks, key_blocks;
  /* row size of query and key, and row size of value, both rounded up to whole vectors */
  int64_t width, value_width;
  uint64_t seed, block; /* seed and first random block for dropout */
  uint64_t words;       /* number of random blocks for each query */
} tlk_AttentionPlan;

void tlk_attention_plan(const tlk_Attention *a, tlk_AttentionPlan *plan);

/* ---- one block ---- */

/* A matrix of bfloat16 if `half` is set, otherwise of the compute type. Strides count elements. A
** row of a `half` matrix ends after `cols` elements; a row of any other matrix may be read up to
** the next whole vector. */
typedef struct tlk_Matrix {
  const void *at;
  int64_t row, col;
  bool half;
  int64_t cols;
} tlk_Matrix;

/* A block: its sample b, query head h and key head kv; the first query and the number of queries;
** the first key and the number of keys; and the number of columns of the scores, which is the
** number of queries rounded up to whole vectors. */
typedef struct tlk_AttentionBlock {
  int64_t b, h, kv;
  int64_t query, queries, key, keys, cols;
} tlk_AttentionBlock;

/* tlk_attention_queries returns block i of the queries of head h, without keys. tlk_attention_keys
** sets the block's keys to the j-th block of keys, or returns false if no query of the block sees
** any of these keys. */
tlk_AttentionBlock tlk_attention_queries(const tlk_AttentionPlan *p, int64_t b, int64_t h,
                                         int64_t i);
bool tlk_attention_keys(const tlk_AttentionPlan *p, int64_t j, tlk_AttentionBlock *block);

/* Returns `n` rows of `cols` elements of a head, beginning at row `first`, in the compute type. The
** rows are read in place if possible, and otherwise copied to `buffer` in rows of whole vectors.
** Rows for the right side of a product are only read in place if they are whole vectors and close
** to each other. */
tlk_Matrix tlk_attention_numbers(const tlk_AttentionPlan *p, const tlk_HeadRows *from, int64_t b,
                                 int64_t h, int64_t first, int64_t n, int64_t cols, bool right,
                                 void *buffer);
/* Returns rows of a head as an operand of a product: bfloat16 in place if the plan has `dots`,
** otherwise the result of tlk_attention_numbers. */
tlk_Matrix tlk_attention_rows(const tlk_AttentionPlan *p, const tlk_HeadRows *from, int64_t b,
                              int64_t h, int64_t first, int64_t n, int64_t cols, bool right,
                              void *buffer);
/* Converts rows to the call's dtype and stores them as rows of a head. */
void tlk_attention_store(const tlk_AttentionPlan *p, const tlk_HeadRows *to, int64_t b, int64_t h,
                         int64_t first, int64_t n, int64_t cols, const void *rows, int64_t pitch);
/* Returns the transpose (size, n) of n rows, as the right side of a product. For bfloat16 it is a
** view of the rows with swapped strides; otherwise it is a copy in `out`, padded with zeros to
** (size, cols). */
tlk_Matrix tlk_attention_turn(const tlk_AttentionPlan *p, tlk_Matrix rows, int64_t n, int64_t size,
                              int64_t cols, void *out);

/* Returns the size in bytes of the buffer `packed` that a product needs; 0 unless the plan has
** `dots`. */
int64_t tlk_attention_packed(const tlk_AttentionPlan *p);
/* Computes out (rows, cols) = left (rows, terms) * right (terms, cols), or adds the product to out
** if `sum` is set. cols must be a whole number of vectors. If the plan has `dots`, the right side
** must be bfloat16, and rows of out up to the next multiple of TLK_DOT_LINES are overwritten. */
void tlk_attention_product(const tlk_AttentionPlan *p, int64_t rows, int64_t terms, int64_t cols,
                           tlk_Matrix left, tlk_Matrix right, bool sum, void *out, int64_t pitch,
                           void *packed);

/* Computes the scaled and masked scores of a block from its keys and its transposed queries.
** Returns false and writes nothing if all scores are hidden. `mask` has room for two blocks. */
bool tlk_attention_scores(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block,
                          tlk_Matrix keys, tlk_Matrix turned, void *mask, void *scores,
                          void *packed);
/* Computes the factors by which dropout multiplies a block's weights. Without dropout, returns
** false and writes nothing. */
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
