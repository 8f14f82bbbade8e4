/*
** chain.h - formulas that consist of several operators, written in C. A chain owns all intermediate
** results and remembers whether a step has failed. Code therefore reads like a formula: each step
** is a call, steps after a failure do nothing, and the end releases everything.
**
**   tli_Chain c = {0};
**   tl_Tensor *y = chain_mul(&c, a, chain_t(&c, b));
**   return tli_chain_end(&c, y);
*/
#ifndef TLI_CHAIN_H
#define TLI_CHAIN_H

#include "ops/common.h"

#define TLI_CHAIN_SLOTS 16

typedef struct tli_ChainBlock tli_ChainBlock;

typedef struct tli_Chain {
  int n;
  bool failed;
  /* blocks of earlier results (owned); when v is full, its results are moved to a new block */
  tli_ChainBlock *full;
  tl_Tensor *v[TLI_CHAIN_SLOTS]; /* owned */
} tli_Chain;

/* Adds a result to the chain, which owns the result from now on. NULL means that the operator
** failed. Returns the result (borrowed), or NULL if memory is exhausted. */
tl_Tensor *tli_keep(tli_Chain *c, tl_Tensor *steals);

/* Releases the chain. Returns a new reference to `result`, which may be a tensor of the chain or
** any other tensor. Returns NULL if a step failed. */
tl_Tensor *tli_chain_end(tli_Chain *c, tl_Tensor *result);
/* Releases the chain and keeps n results. Each out[i] must be a step of the chain or NULL; a step
** is replaced by a new reference to the tensor. If a step failed, sets every out[i] to NULL and
** returns false. */
bool tli_chain_end_all(tli_Chain *c, tl_Tensor **out, int n) TL_MUSTCHECK;

/* Adds the result of any operator to the chain, as a step. The arguments of `call` must not be
** calls of chain_ functions, because they would be evaluated after the check for an earlier
** failure. In contrast, the arguments of the chain_ functions below may be such calls. */
#define TLI_STEP(c, call) ((c)->failed ? NULL : tli_keep((c), (call)))
/* Runs a step that may fail but has no tensor as result, such as an in-place operator. */
#define TLI_DO(c, call) ((c)->failed = (c)->failed || !(call))

static inline tl_Tensor *chain_add(tli_Chain *c, tl_Tensor *a, tl_Tensor *b) {
  return TLI_STEP(c, tlo_add(a, b, tli_int(1)));
}
static inline tl_Tensor *chain_sub(tli_Chain *c, tl_Tensor *a, tl_Tensor *b) {
  return TLI_STEP(c, tlo_sub(a, b, tli_int(1)));
}
static inline tl_Tensor *chain_mul(tli_Chain *c, tl_Tensor *a, tl_Tensor *b) {
  return TLI_STEP(c, tlo_mul(a, b));
}
static inline tl_Tensor *chain_div(tli_Chain *c, tl_Tensor *a, tl_Tensor *b) {
  return TLI_STEP(c, tlo_true_divide(a, b));
}
static inline tl_Tensor *chain_neg(tli_Chain *c, tl_Tensor *a) { return TLI_STEP(c, tlo_neg(a)); }
static inline tl_Tensor *chain_number(tli_Chain *c, double value) {
  return TLI_STEP(c, tli_number(tli_float(value)));
}
/* These functions apply fn to a tensor and a number, as in chain_with(&c, tlo_mul, t, 0.5). With
** chain_with_int, an integer tensor gives an integer result. */
static inline tl_Tensor *chain_with(tli_Chain *c, tli_Binary fn, tl_Tensor *a, double number) {
  return TLI_STEP(c, tli_with_number(fn, a, tli_float(number)));
}
static inline tl_Tensor *chain_with_int(tli_Chain *c, tli_Binary fn, tl_Tensor *a, int64_t number) {
  return TLI_STEP(c, tli_with_number(fn, a, tli_int(number)));
}
/* These functions compute where(condition, a, number) and where(condition, number, a). */
static inline tl_Tensor *chain_where_else(tli_Chain *c, tl_Tensor *condition, tl_Tensor *a,
                                          tl_Scalar number) {
  return TLI_STEP(c, tli_where_else(condition, a, number));
}
static inline tl_Tensor *chain_where_then(tli_Chain *c, tl_Tensor *condition, tl_Scalar number,
                                          tl_Tensor *a) {
  return TLI_STEP(c, tli_where_then(condition, number, a));
}
/* Converts a to a dtype. Returns a itself if it already has the dtype and is not a number that was
** converted to a tensor. */
static inline tl_Tensor *chain_to(tli_Chain *c, tl_Tensor *a, tl_DType dtype) {
  if (c->failed || ((tl_DType)a->dtype == dtype && !(a->flags & TLI_NUMBER))) return a;
  return tli_keep(c, tlo_to_dtype(a, dtype));
}
static inline tl_Tensor *chain_masked_fill(tli_Chain *c, tl_Tensor *a, tl_Tensor *mask,
                                           double value) {
  tl_Tensor *number = chain_number(c, value);
  return TLI_STEP(c, tlo_masked_fill(a, mask, number));
}
static inline tl_Tensor *chain_clamp(tli_Chain *c, tl_Tensor *a, double least, double most) {
  tl_Tensor *min = chain_number(c, least), *max = chain_number(c, most);
  return TLI_STEP(c, tlo_clamp(a, min, max));
}
static inline tl_Tensor *chain_scale(tli_Chain *c, tl_Tensor *a, double factor) {
  return TLI_STEP(c, tlo_scaled(a, tli_float(factor)));
}
static inline tl_Tensor *chain_matmul(tli_Chain *c, tl_Tensor *a, tl_Tensor *b) {
  return TLI_STEP(c, tlo_matmul(a, b));
}
/* Transposes the last two dimensions. */
static inline tl_Tensor *chain_t(tli_Chain *c, tl_Tensor *a) {
  return TLI_STEP(c, tlo_transpose(a, -2, -1));
}
/* Returns the conjugate of a complex tensor. Real tensors are returned unchanged. */
static inline tl_Tensor *chain_conj(tli_Chain *c, tl_Tensor *a) {
  if (c->failed || !tli_is_complex((tl_DType)a->dtype)) return a;
  return tli_keep(c, tlo_conj(a));
}
/* Transposes the last two dimensions and conjugates complex tensors. */
static inline tl_Tensor *chain_h(tli_Chain *c, tl_Tensor *a) {
  return chain_t(c, chain_conj(c, a));
}
static inline tl_Tensor *chain_unsqueeze(tli_Chain *c, tl_Tensor *a, int64_t dim) {
  return TLI_STEP(c, tlo_unsqueeze(a, dim));
}
static inline tl_Tensor *chain_tril(tli_Chain *c, tl_Tensor *a, int64_t diagonal) {
  return TLI_STEP(c, tlo_tril(a, diagonal));
}
static inline tl_Tensor *chain_triu(tli_Chain *c, tl_Tensor *a, int64_t diagonal) {
  return TLI_STEP(c, tlo_triu(a, diagonal));
}
/* Returns the part of a from position `start` up to, but not including, `stop` along dim. */
static inline tl_Tensor *chain_slice(tli_Chain *c, tl_Tensor *a, int64_t dim, int64_t start,
                                     int64_t stop) {
  return TLI_STEP(c, tlo_slice(a, dim, start, stop, 1));
}
/* Concatenates a and b along dim. */
static inline tl_Tensor *chain_cat(tli_Chain *c, tl_Tensor *a, tl_Tensor *b, int64_t dim) {
  return TLI_STEP(c, tlo_cat((tl_Tensors){2, (tl_Tensor *[]){a, b}}, dim));
}
static inline tl_Tensor *chain_sum(tli_Chain *c, tl_Tensor *a, int64_t dim, bool keepdim) {
  return TLI_STEP(c, tlo_sum(a, (tl_Ints){1, &dim}, keepdim, TL_NODTYPE));
}

#endif
