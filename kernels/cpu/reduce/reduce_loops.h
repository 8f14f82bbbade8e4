/*
** reduce_loops.h - the loops of one reduction; kernels/cpu/loops.h explains how this file is
** included.
**
** A row is reduced "vertically", in whole vectors: elements that are LANES apart in the row belong
** to one accumulator, and the accumulators are joined at the end. The elements of four steps are
** joined to one another before they are joined to an accumulator (see TLM_REDUCE_ in
** kernels/math.h).
*/
#define ACC TLM_OWN(acc)
#define ENTER TLM_OWN(enter)
#define PAIR TLM_OWN(pair)
#define JOIN TLM_OWN(join)

static inline TLM_OWN(entered) TLK_OWN(four)(const real *x, int64_t stride, const real *p) {
  return PAIR(PAIR(ENTER(x[0], p), ENTER(x[stride], p)),
              PAIR(ENTER(x[2 * stride], p), ENTER(x[3 * stride], p)));
}

static void TLK_OWN(start)(int64_t n, void *acc, const tl_Scalar *params) {
  TLK_READ_PARAMS
  ACC *to = acc;
  for (int64_t i = 0; i < n; i++) to[i] = TLM_OWN(start)(p);
}

static void TLK_OWN(columns)(int64_t rows, int64_t cols, int64_t stride, const void *x_, void *acc,
                             const tl_Scalar *params) {
  TLK_READ_PARAMS
  const real *x = x_;
  ACC *to = acc;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) to[c] = JOIN(to[c], (ACC)TLK_OWN(four)(x + c, stride, p));
  }
  for (; r < rows; r++, x += stride) {
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) to[c] = JOIN(to[c], (ACC)ENTER(x[c], p));
  }
}

static void TLK_OWN(join)(int64_t n, void *acc, const void *other) {
  ACC *to = acc;
  const ACC *from = other;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) to[i] = JOIN(to[i], from[i]);
}

static void TLK_OWN(row)(int64_t n, const void *x_, void *acc, const tl_Scalar *params) {
  TLK_READ_PARAMS
  const real *x = x_;
  enum { LANES = TLK_ROW_LANES(ACC), FEW = 8 };
  ACC total = *(ACC *)acc;
  int64_t i = 0;
  if (n >= LANES) {
    ACC lanes[LANES];
    for (int k = 0; k < LANES; k++) lanes[k] = TLM_OWN(start)(p);
    for (; i + 4 * LANES <= n; i += 4 * LANES)
      for (int k = 0; k < LANES; k++)
        lanes[k] = JOIN(lanes[k], (ACC)TLK_OWN(four)(x + i + k, LANES, p));
    for (; i + LANES <= n; i += LANES)
      for (int k = 0; k < LANES; k++) lanes[k] = JOIN(lanes[k], (ACC)ENTER(x[i + k], p));
    TLK_UNROLL_HALVES
    for (int half = LANES / 2; half >= FEW; half /= 2)
      for (int k = 0; k < half; k++) lanes[k] = JOIN(lanes[k], lanes[k + half]);
    ACC few[FEW];
    for (int k = 0; k < FEW; k++) few[k] = lanes[k];
    TLK_FROM_MEMORY(few)
    TLK_UNROLL_HALVES
    for (int half = FEW / 2; half > 0; half /= 2)
      for (int k = 0; k < half; k++) few[k] = JOIN(few[k], few[k + half]);
    total = JOIN(total, few[0]);
  }
  for (; i < n; i++) total = JOIN(total, (ACC)ENTER(x[i], p));
  *(ACC *)acc = total;
}

static void TLK_OWN(finish)(int64_t n, void *out, const void *acc, const tl_Scalar *params) {
  TLK_READ_PARAMS
  const ACC *from = acc;
  real *to = out;
  for (int64_t i = 0; i < n; i++) to[i] = TLM_OWN(result)(from[i], p);
}

#undef ACC
#undef ENTER
#undef PAIR
#undef JOIN
