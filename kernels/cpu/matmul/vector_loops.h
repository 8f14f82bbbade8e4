/*
** vector_loops.h - matrix-vector products by BLAS. gemm.c includes this template for each type
** after it has defined `real` (the type of a number's parts), PARTS (the number of these parts, 2
** for complex numbers), VECTOR (the name of the function) and GEMV (the routine of BLAS).
*/
#if PARTS == 2
#define FACTOR(x) ((real[2]){(real)(x)})
#else
#define FACTOR(x) (real)(x)
#endif

/* Computes the product in one pass over the rows of the matrix. Sizes that do not fit into BLAS's
** ints are split. */
static bool VECTOR(const tlk_Gemm *g, const tlk_Epilogue *after, const void *a_, const void *b_,
                   void *c) {
  bool left = g->n == 1; /* whether the left operand is the matrix */
  int64_t ld = left ? g->lda : g->ldb, lines = left ? g->m : g->n;
  /* whether each result is the dot product of a row of the matrix and the vector */
  bool by_row = left ? !g->trans_a : g->trans_b;
  int64_t step = left ? (g->trans_b ? 1 : g->ldb) : (g->trans_a ? g->lda : 1);
  for (int64_t p = 0; p < g->k; p += BLAS_MAX) {
    const real *a = (const real *)a_ + PARTS * p * (g->trans_a ? g->lda : 1);
    const real *b = (const real *)b_ + PARTS * p * (g->trans_b ? 1 : g->ldb);
    int64_t k = tlk_min(g->k - p, BLAS_MAX), rows = by_row ? lines : k, cols = by_row ? k : lines;
    tlk_blas()->GEMV(TLK_ROW_MAJOR, by_row ? TLK_NO_TRANS : TLK_TRANS, (int)rows, (int)cols,
                     FACTOR(tli_to_double(g->alpha)), left ? a : b, (int)ld, left ? b : a,
                     (int)step, FACTOR(p ? 1 : tli_to_double(g->beta)), c, left ? (int)g->ldc : 1);
  }
  if (after) tlk_finish(after, g->dtype, g->m, g->n, c, g->ldc);
  return true;
}

#undef FACTOR
#undef real
#undef PARTS
#undef VECTOR
#undef GEMV
