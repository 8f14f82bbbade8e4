/*
** scan_loops.h - the loops of one scan. kernels/cpu/loops.h explains how this file is included.
*/
#define STATE TLM_OWN(state)
#define NEXT TLM_OWN(next)

static void TLK_OWN(start)(int64_t cols, void *state) {
  STATE *a = state;
  for (int64_t c = 0; c < cols; c++) a[c] = TLM_OWN(first)();
}

static void TLK_OWN(line)(int64_t rows, const real *x, real *y, STATE *state) {
  STATE a = *state;
  for (int64_t r = 0; r < rows; r++) {
    a = NEXT(a, x[r]);
    y[r] = (real)a;
  }
  *state = a;
}

static void TLK_OWN(run)(int64_t rows, int64_t cols, int64_t step, const void *in, void *out,
                         int64_t indices_step, int64_t *indices, int64_t at, void *state,
                         int64_t *where) {
  STATE *a = state;
  if (cols == 1 && step == 1 && indices == NULL) {
    TLK_OWN(line)(rows, in, out, a);
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    const real *x = (const real *)in + r * step;
    real *y = (real *)out + r * step;
    if (indices != NULL) {
      for (int64_t c = 0; c < cols; c++) {
        where[c] = TLM_OWN(picks)(a[c], x[c]) ? at + r : where[c];
        indices[r * indices_step + c] = where[c];
      }
    }
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) {
      a[c] = NEXT(a[c], x[c]);
      y[c] = (real)a[c];
    }
  }
}

#undef STATE
#undef NEXT
