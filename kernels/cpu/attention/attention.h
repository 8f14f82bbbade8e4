/*
** attention.h - what the forward and the backward pass of attention share.
**
** Both walk over blocks of queries and of keys. Scores of a block lie as (keys,
** queries): each query has a lane of its own, so softmax works on whole vectors, and
** only the rows of queries are transposed, once for each of their blocks. Keys and
** values are read where they lie as the left side of products (matmul/tile.h) and,
** where their rows are whole vectors, as the right side, too.
**
** Sizes of blocks follow from the sizes of the call alone, and what is summed over
** blocks is summed in their order, so results have the same bits for every number of
** threads.
*/
#ifndef TLK_ATTENTION_H
#define TLK_ATTENTION_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/tile.h"

/* Queries and keys of a block at most: a block of scores stays in the cache. The keys
** are whole rows of tiles, and of the four that share a block of random words. */
#define TLK_ATTENTION_QUERIES 96
#define TLK_ATTENTION_KEYS 96

/* Loops over a block (keys, cols), one set for float, one for double. */
typedef struct tlk_AttentionLoops {
  double lowest; /* less than every score that counts, yet finite */
  /* One step of a softmax whose largest score and sum of exponentials so far are given
  ** for each column: scores become exponentials, factor is what older ones have to be
  ** multiplied by. */
  void (*softmax)(int64_t keys, int64_t cols, void *scores, void *largest, void *sum, void *factor);
  /* Scores become weights, and the weights' gradients those of the scores; norm and
  ** delta are one for each column, keep is (keys, cols) or NULL. */
  void (*gradient)(int64_t keys, int64_t cols, void *scores, void *grads, const void *keep,
                   const void *norm, const void *delta);
  /* Turns a mask of truths into what is added to scores, 0 or -inf, and the padding after
  ** its n columns into zeros. Returns whether some score stays above -inf. */
  bool (*mask)(bool truth, int64_t keys, int64_t n, int64_t cols, void *x);
  /* Columns [0, first + j) of row j become -inf. */
  void (*hide)(int64_t keys, int64_t cols, int64_t first, void *scores);
  /* What dropout of probability p multiplies weights by. The words of column c begin at
  ** block + c * step; keys are rounded up to four. */
  void (*keep)(int64_t keys, int64_t cols, uint64_t seed, uint64_t block, uint64_t step, double p,
               void *out);
  /* x += y, x *= y, x *= factor, and the sum of x * y. */
  void (*add)(int64_t n, void *x, const void *y);
  void (*multiply)(int64_t n, void *x, const void *y);
  void (*scale)(int64_t n, void *x, double factor);
  double (*dot)(int64_t n, const void *x, const void *y);
} tlk_AttentionLoops;

/* ---- what is the same for all blocks ---- */

typedef struct tlk_AttentionPlan {
  const tlk_Attention *a;
  const tlk_Isa *isa;
  const tlk_TileLoops *tile;
  const tlk_AttentionLoops *loops;
  tl_DType compute;
  int64_t size;          /* of an element that is computed with */
  int64_t queries, keys; /* of a whole block */
  int64_t query_blocks, key_blocks;
  int64_t width, value_width; /* of rows of query and key, and of value, in whole vectors */
  uint64_t seed, block;       /* where dropout's random words begin */
  uint64_t words;             /* blocks of them for each query */
} tlk_AttentionPlan;

void tlk_attention_plan(const tlk_Attention *a, tlk_AttentionPlan *plan);

/* ---- one block ---- */

/* A matrix in the type that is computed in; strides in elements. */
typedef struct tlk_Matrix {
  const void *at;
  int64_t row, col;
} tlk_Matrix;

/* Where a block is: the head of the query, its first query and key, their numbers, and
** the columns of its scores: the queries in whole vectors. */
typedef struct tlk_AttentionBlock {
  int64_t b, h, kv;
  int64_t query, queries, key, keys, cols;
} tlk_AttentionBlock;

/* Block i of the queries of head h, without keys; and block j of the keys it sees:
** false if it sees none of them. */
tlk_AttentionBlock tlk_attention_queries(const tlk_AttentionPlan *p, int64_t b, int64_t h,
                                         int64_t i);
bool tlk_attention_keys(const tlk_AttentionPlan *p, int64_t j, tlk_AttentionBlock *block);

/* `n` rows of `cols` elements of a head from row `first` on: where they lie, if they can
** be used there, else copied to buffer, in rows of whole vectors. For the right side of
** a product the rows must be whole vectors and near to each other. */
tlk_Matrix tlk_attention_rows(const tlk_AttentionPlan *p, const tlk_HeadRows *from, int64_t b,
                              int64_t h, int64_t first, int64_t n, int64_t cols, bool right,
                              void *buffer);
/* Writes rows back in the call's dtype. */
void tlk_attention_store(const tlk_AttentionPlan *p, const tlk_HeadRows *to, int64_t b, int64_t h,
                         int64_t first, int64_t n, int64_t cols, const void *rows, int64_t pitch);
/* out (cols of rows, n) = the transpose of n rows, in rows of `cols` with zeros at their
** ends. */
void tlk_attention_turn(const tlk_AttentionPlan *p, tlk_Matrix rows, int64_t n, int64_t size,
                        int64_t cols, void *out);

/* out (rows, cols) = or += left (rows, terms) times right (terms, cols), cols being whole
** vectors. */
void tlk_attention_product(const tlk_AttentionPlan *p, int64_t rows, int64_t terms, int64_t cols,
                           tlk_Matrix left, tlk_Matrix right, bool sum, void *out, int64_t pitch);

/* The scores of a block from its keys and its transposed, scaled queries, masked; false,
** with nothing written, if all are hidden. `mask` has room for two blocks. */
bool tlk_attention_scores(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block,
                          tlk_Matrix keys, const void *turned, void *mask, void *scores);
/* What dropout multiplies a block's weights by; false, with nothing written, if there is
** no dropout. */
bool tlk_attention_keep(const tlk_AttentionPlan *p, const tlk_AttentionBlock *block, void *keep);

/* ---- memory for blocks ---- */

/* Cuts `bytes` off memory that begins at `at`; with at NULL they are counted only. */
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
