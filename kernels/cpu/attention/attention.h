/*
** attention.h - code that the forward and the backward pass of attention share.
**
** Both passes loop over blocks of queries and of keys. The scores of a block are stored as (keys,
** queries), so each query has a vector lane and softmax works on whole vectors. Only the rows of
** queries must be transposed for this layout, once for each block of queries. Keys and values are
** read in place as the left factor of matrix products (matmul/tile.h). If their rows are whole
** vectors, they are read in place as the right factor as well.
**
** If the processor has instructions that multiply pairs of bfloat16 (matmul/dot.h), products of
** bfloat16 read the rows of queries, keys and values in place. Scores and their gradients are
** rounded to bfloat16 before they enter a product, as in PyTorch.
**
** Block sizes depend only on the sizes of the arguments, and sums over blocks are added in order,
** so results have the same bits for every number of threads.
*/
#ifndef TLK_ATTENTION_H
#define TLK_ATTENTION_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/dot.h"
#include "kernels/cpu/matmul/tile.h"

/* The largest number of queries and the largest number of keys in a block. The scores of such a
** block fit into the cache. The number of keys is a multiple of a tile's number of rows
** (matmul/tile.h). It is also a multiple of 4, because four keys share a block of random words for
** dropout. */
#define TLK_ATTENTION_QUERIES 96
#define TLK_ATTENTION_KEYS 96

/* Loops over the scores (keys, cols) of a block. There is one set of loops for float and one for
** double. */
typedef struct tlk_AttentionLoops {
  double lowest; /* a finite number that is less than any score without mask */
  /* Performs one step of an online softmax. `largest` and `sum` hold each column's maximum and sum
  ** of exponentials so far. Replaces the scores by exponentials; `factor` receives the number by
  ** which the caller must multiply the earlier sums. */
  void (*softmax)(int64_t keys, int64_t cols, void *scores, void *largest, void *sum, void *factor);
  /* Replaces `scores` with the attention weights, and replaces `grads`, which holds the gradients
  ** of the weights, with the gradients of the scores. `norm` holds the value that the forward pass
  ** saved for each query (column), and `delta` holds each query's sum(grad_out * out). `keep` holds
  ** the dropout factors (keys, cols), or is NULL. */
  void (*gradient)(int64_t keys, int64_t cols, void *scores, void *grads, const void *keep,
                   const void *norm, const void *delta);
  /* Prepares the mask x (keys, cols) of a block for addition to the scores. A boolean mask becomes
  ** 0 where it is true and -inf where it is false; any other mask stays as it is. The columns after
  ** the first n, which are padding, become 0. Returns false if all elements of the mask are -inf,
  ** because the block then contributes nothing. */
  bool (*mask)(bool truth, int64_t keys, int64_t n, int64_t cols, void *x);
  /* Hides the keys that are masked by causality: sets columns [0, first + j) of row j to -inf. */
  void (*hide)(int64_t keys, int64_t cols, int64_t first, void *scores);
  /* Computes the factors by which dropout with probability p multiplies the weights. The random
  ** words of column c begin at block `block + c * step` of the random sequence. The number of keys
  ** is rounded up to a multiple of 4, because a block has four words. */
  void (*keep)(int64_t keys, int64_t cols, uint64_t seed, uint64_t block, uint64_t step, double p,
               void *out);
  /* These four functions compute x += y, x *= y, x *= factor, and the sum of x * y. */
  void (*add)(int64_t n, void *x, const void *y);
  void (*multiply)(int64_t n, void *x, const void *y);
  void (*scale)(int64_t n, void *x, double factor);
  double (*dot)(int64_t n, const void *x, const void *y);
  /* Performs one step of the attention of a single query: rescales the earlier sums in `out` to the
  ** new maximum of the scores, and adds the values of this block, weighted by exponentials. The
  ** rows of keys and values have `size` elements, which are float16 if `half` is set. `scores` is
  ** scratch memory for `keys` floats. The loops for double have NULL here. */
  void (*one_query)(int64_t keys, int64_t size, const float *query, const void *key,
                    const void *value, bool half, float *scores, float *largest, float *sum,
                    float *out);
} tlk_AttentionLoops;

/* ---- sizes that are the same for all blocks ---- */

typedef struct tlk_AttentionPlan {
  const tlk_Attention *a;
  const tlk_Isa *isa;
  const tlk_TileLoops *tile;
  /* loops that multiply bfloat16 directly; NULL if the processor lacks the instructions */
  const tlk_DotLoops *dots;
  const tlk_AttentionLoops *loops;
  tl_DType compute;
  /* number of elements in a vector; products of matrices have a multiple of this number of
  ** columns */
  int64_t lanes;
  int64_t size;          /* size of an element of the compute type in bytes */
  int64_t queries, keys; /* number of queries and number of keys in a whole block */
  int64_t query_blocks, key_blocks;
  /* row size of query and key, and row size of value, both rounded up to whole vectors */
  int64_t width, value_width;
  uint64_t seed, block; /* seed for dropout, and first block of its random sequence */
  uint64_t words;       /* number of blocks of random words for each query */
} tlk_AttentionPlan;

void tlk_attention_plan(const tlk_Attention *a, tlk_AttentionPlan *plan);

/* ---- one block ---- */

/* A matrix of bfloat16 if `half` is set, otherwise of the compute type. Strides count elements. A
** row of a bfloat16 matrix ends after `cols` elements. Rows of any other matrix that is a right
** factor are padded, so they may be read up to the next whole vector. */
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

/* tlk_attention_queries returns block i of the queries of head h. The range of keys in this block
** is not set yet: tlk_attention_keys sets it to the j-th block of keys, or returns false if no
** query of the block sees any of these keys. */
tlk_AttentionBlock tlk_attention_queries(const tlk_AttentionPlan *p, int64_t b, int64_t h,
                                         int64_t i);
bool tlk_attention_keys(const tlk_AttentionPlan *p, int64_t j, tlk_AttentionBlock *block);

/* Returns `n` rows of `cols` elements of a head, beginning at row `first`, in the compute type. The
** rows are read in place if possible; otherwise they are copied to `buffer` and padded to whole
** vectors. Rows for the right factor of a product are read in place only if they are whole vectors
** and close to each other. */
tlk_Matrix tlk_attention_numbers(const tlk_AttentionPlan *p, const tlk_HeadRows *from, int64_t b,
                                 int64_t h, int64_t first, int64_t n, int64_t cols, bool right,
                                 void *buffer);
/* Returns rows of a head as a factor of a product. If the plan has `dots`, the rows are bfloat16
** and read in place; otherwise the result is that of tlk_attention_numbers. */
tlk_Matrix tlk_attention_rows(const tlk_AttentionPlan *p, const tlk_HeadRows *from, int64_t b,
                              int64_t h, int64_t first, int64_t n, int64_t cols, bool right,
                              void *buffer);
/* Converts rows to the call's dtype and stores them as rows of a head. */
void tlk_attention_store(const tlk_AttentionPlan *p, const tlk_HeadRows *to, int64_t b, int64_t h,
                         int64_t first, int64_t n, int64_t cols, const void *rows, int64_t pitch);
/* Returns the transpose (size, n) of n rows, as the right factor of a product. For bfloat16 the
** transpose is a view of the rows with swapped strides; otherwise it is a copy in `out`, padded
** with zeros to (size, cols). */
tlk_Matrix tlk_attention_turn(const tlk_AttentionPlan *p, tlk_Matrix rows, int64_t n, int64_t size,
                              int64_t cols, void *out);

/* Returns the size in bytes of the buffer `packed` that a product needs to reorder its factors, or
** 0 if the plan has no `dots`, because products then read their factors directly. */
int64_t tlk_attention_packed(const tlk_AttentionPlan *p);
/* Computes out (rows, cols) = left (rows, terms) * right (terms, cols), or adds the product to out
** if `sum` is set. cols must be a whole number of vectors. If the plan has `dots`, `right` must be
** bfloat16, and the product also overwrites the rows of out that follow, up to the next multiple of
** TLK_DOT_LINES. */
void tlk_attention_product(const tlk_AttentionPlan *p, int64_t rows, int64_t terms, int64_t cols,
                           tlk_Matrix left, tlk_Matrix right, bool sum, void *out, int64_t pitch,
                           void *packed);

/* Computes the scaled and masked scores of a block from its keys and its transposed queries.
** Returns false and writes nothing if all scores are masked. `mask` is a buffer with room for three
** blocks. */
bool tlk_attention_scores(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block,
                          tlk_Matrix keys, tlk_Matrix turned, void *mask, void *scores,
                          void *packed);
/* Computes the factors by which dropout multiplies a block's weights. Without dropout, returns
** false and writes nothing. */
bool tlk_attention_keep(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block, void *keep);

/* ---- memory for blocks ---- */

/* Divides the memory at `at` into arrays, one after another. If `at` is NULL, the struct only adds
** up the bytes that the arrays need. */
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
