/*
** lapack.c - calls LAPACK in the library that blas.c has opened. Threads share the matrices of a
** batch.
*/
#include "core/kernel/lapack.h"

#include <stdatomic.h>

#include "core/error.h"
#include "core/platform/parallel.h"
#include "core/platform/platform.h"
#include "kernels/cpu/linalg/lapack_call.h"
#include "kernels/cpu/cpu.h"

static bool found;
static tli_Once once = TLI_ONCE_INIT;

static void open_lapack(void) {
  found = tlk_lapack_f32.open() && tlk_lapack_f64.open() && tlk_lapack_c64.open() &&
          tlk_lapack_c128.open();
}

static bool ready(void) {
  tli_once(&once, open_lapack);
  return found || tli_fail(TL_EIO, "linalg: no LAPACK was found; libopenblas0 brings one");
}

/* ---- sharing a batch among threads ---- */

typedef struct Batch {
  const tlk_LapackCall *call;
  tlk_LapackRoutine run;
  atomic_bool failed;
} Batch;

static void run_range(void *context, int64_t begin, int64_t end) {
  Batch *b = context;
  if (!b->run(b->call, begin, end)) b->failed = true;
}

/* Calls a routine for all matrices of a batch, which threads share. One matrix costs about m * n *
** k operations. */
static bool share(tlk_LapackRoutine run, const tlk_LapackCall *call, int64_t batch, int m, int n,
                  int k) {
  if (batch == 0) return true;
  Batch b = {call, run, false};
  double work = (double)most(m, 1) * most(n, 1) * most(k, 1);
  TL_TRY(tli_parallel_try(batch, 1 + (int64_t)(TLK_GRAIN / work), run_range, &b));
  return !b.failed || tli_fail(TL_EMEM, "linalg: out of memory");
}

static const tlk_LapackRoutines *routines_of(tl_DType dtype) {
  switch (dtype) {
  case TL_F32: return &tlk_lapack_f32;
  case TL_C64: return &tlk_lapack_c64;
  case TL_C128: return &tlk_lapack_c128;
  default: return &tlk_lapack_f64;
  }
}

/* Calls the routine `name` of the call's dtype for all matrices. */
#define SHARE(name, m, n, k, ...) \
  ((void)cx,                      \
   ready() && share(routines_of(dtype)->name, &(tlk_LapackCall){__VA_ARGS__}, batch, m, n, k))

static bool potrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, void *a, int *info) {
  return SHARE(potrf, n, n, n, .n = n, .a = a, .info = info);
}
static bool getrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                  int *pivots, int *info) {
  return SHARE(getrf, m, n, least(m, n), .m = m, .n = n, .a = a, .pivots = pivots, .info = info);
}
static bool getrs(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, int nrhs,
                  const void *a, const int *pivots, void *b) {
  return SHARE(getrs, n, n, nrhs, .n = n, .nrhs = nrhs, .in = a, .pivots_in = pivots, .b = b);
}
static bool geqrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                  void *tau) {
  return SHARE(geqrf, m, n, least(m, n), .m = m, .n = n, .a = a, .b = tau);
}
static bool orgqr(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int k,
                  void *a, const void *tau) {
  return SHARE(orgqr, m, n, k, .m = m, .n = n, .k = k, .a = a, .in = tau);
}
static bool gesdd(const tlk_Context *cx, tl_DType dtype, char job, int64_t batch, int m, int n,
                  void *a, void *s, void *u, void *vt, int *info) {
  return SHARE(gesdd, m, n, least(m, n), .job = job, .m = m, .n = n, .a = a, .s = s, .u = u,
               .vt = vt, .info = info);
}
static bool syevd(const tlk_Context *cx, tl_DType dtype, bool vectors, bool upper, int64_t batch,
                  int n, void *a, void *w, int *info) {
  return SHARE(syevd, n, n, n, .vectors = vectors, .upper = upper, .n = n, .a = a, .s = w,
               .info = info);
}
static bool gelsd(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int nrhs,
                  void *a, void *b, void *s, double rcond, int *rank, int *info) {
  return SHARE(gelsd, m, n, most(m, n), .m = m, .n = n, .nrhs = nrhs, .a = a, .b = b, .s = s,
               .rcond = rcond, .rank = rank, .info = info);
}
static bool sytrf(const tlk_Context *cx, tl_DType dtype, bool hermitian, int64_t batch, int n,
                  void *a, int *pivots, int *info) {
  return SHARE(sytrf, n, n, n, .hermitian = hermitian, .n = n, .a = a, .pivots = pivots,
               .info = info);
}
static bool sytrs(const tlk_Context *cx, tl_DType dtype, bool hermitian, int64_t batch, int n,
                  int nrhs, const void *a, const int *pivots, void *b) {
  return SHARE(sytrs, n, n, nrhs, .hermitian = hermitian, .n = n, .nrhs = nrhs, .in = a,
               .pivots_in = pivots, .b = b);
}
static bool trsm(const tlk_Context *cx, tl_DType dtype, bool left, bool upper, bool transpose,
                 bool unit, int64_t batch, int m, int n, const void *a, void *b) {
  return SHARE(trsm, m, n, left ? m : n, .left = left, .upper = upper, .transpose = transpose,
               .unit = unit, .m = m, .n = n, .in = a, .b = b);
}

static bool geev(const tlk_Context *cx, tl_DType dtype, bool vectors, int64_t batch, int n, void *a,
                 void *w, void *v, int *info) {
  return SHARE(geev, n, n, n, .vectors = vectors, .n = n, .a = a, .s = w, .u = v, .info = info);
}

const tlk_Lapack tlk_cpu_lapack = {potrf, getrf, getrs, geqrf, orgqr, gesdd,
                                   syevd, gelsd, sytrf, sytrs, trsm,  geev};
