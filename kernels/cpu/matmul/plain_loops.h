/*
** plain_loops.h - products of integers in plain loops. gemm.c includes this template for each width
** of integers after it has defined `whole` (the type) and PLAIN (the name of the function).
*/

/* Computes the product one row of c at a time, so that the inner loop reads contiguous elements if
** b is not transposed. Signed and unsigned integers wrap around to the same bits, so both are
** computed as unsigned. */
static bool PLAIN(const tlk_Gemm *g, const tlk_Epilogue *after, const void *a_, const void *b_,
                  void *c_) {
  (void)after;
  const whole *a = a_, *b = b_;
  int64_t sam = g->trans_a ? 1 : g->lda, sak = g->trans_a ? g->lda : 1;
  int64_t sbk = g->trans_b ? 1 : g->ldb, sbn = g->trans_b ? g->ldb : 1;
  whole alpha = (whole)tli_to_int(g->alpha), beta = (whole)tli_to_int(g->beta);
  for (int64_t i = 0; i < g->m; i++) {
    whole *row = (whole *)c_ + i * g->ldc;
    for (int64_t j = 0; j < g->n; j++) row[j] = beta != 0 ? (whole)((uint64_t)row[j] * beta) : 0;
    for (int64_t p = 0; p < g->k; p++) {
      uint64_t x = (uint64_t)alpha * a[i * sam + p * sak];
      const whole *from = b + p * sbk;
      for (int64_t j = 0; j < g->n; j++)
        row[j] = (whole)((uint64_t)row[j] + x * (uint64_t)from[j * sbn]);
    }
  }
  return true;
}

#undef whole
#undef PLAIN
