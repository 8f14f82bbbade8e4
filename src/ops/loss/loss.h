/*
** loss.h - helper functions for writing losses as chains of operators (chain.h).
*/
#ifndef TLI_LOSS_H
#define TLI_LOSS_H

#include "ops/chain.h"

static const double log_of_two_pi = 1.83787706640934548356;

static inline tl_Tensor *chain_reduced(tli_Chain *c, tl_Tensor *t, const char *reduction) {
  return TLI_STEP(c, tlo_reduced(t, reduction));
}
static inline tl_Tensor *chain_total(tli_Chain *c, tl_Tensor *t) {
  return TLI_STEP(c, tlo_sum(t, TLI_NOINTS, false, TL_NODTYPE));
}
static inline tl_Tensor *chain_plus(tli_Chain *c, tl_Tensor *t, double value) {
  tl_Tensor *number = chain_number(c, value);
  return chain_add(c, t, number);
}
static inline tl_Tensor *chain_at_least(tli_Chain *c, tl_Tensor *t, double least) {
  tl_Tensor *number = chain_number(c, least);
  return TLI_STEP(c, tlo_clamp_min(t, number));
}
static inline tl_Tensor *chain_where(tli_Chain *c, tl_Tensor *mask, tl_Tensor *a, tl_Tensor *b) {
  return TLI_STEP(c, tlo_where(mask, a, b));
}
/* Returns a mask of the elements that equal a number. */
static inline tl_Tensor *chain_equals(tli_Chain *c, tl_Tensor *t, int64_t value) {
  tl_Tensor *number = TLI_STEP(c, tli_number(tli_int(value)));
  return TLI_STEP(c, tlo_eq(t, number));
}

#endif
