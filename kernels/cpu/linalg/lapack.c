/*
** lapack.c - LAPACK, from the library that blas.c opened. Fortran's calling convention passes
** everything by address, and a hidden length for each character. Threads share the matrices of
** a batch.
*/
#include "core/kernel/lapack.h"

#include <stdatomic.h>

#include "core/memory/alloc.h"
#include "core/error.h"
#include "core/platform/parallel.h"
#include "core/platform/platform.h"
#include "kernels/cpu/matmul/blas.h"
#include "kernels/cpu/cpu.h"

/* Declares the routines in one precision; T is its element type. */
#define DEFINE_ROUTINES(T, P)                                                                      \
  typedef struct Routines_##P {                                                                    \
    void (*potrf)(const char *, const int *, T *, const int *, int *, size_t);                     \
    void (*getrf)(const int *, const int *, T *, const int *, int *, int *);                       \
    void (*getrs)(const char *, const int *, const int *, const T *, const int *, const int *,     \
                  T *, const int *, int *, size_t);                                                \
    void (*geqrf)(const int *, const int *, T *, const int *, T *, T *, const int *, int *);       \
    void (*orgqr)(const int *, const int *, const int *, T *, const int *, const T *, T *,         \
                  const int *, int *);                                                             \
    void (*gesdd)(const char *, const int *, const int *, T *, const int *, T *, T *, const int *, \
                  T *, const int *, T *, const int *, int *, int *, size_t);                       \
    void (*syevd)(const char *, const char *, const int *, T *, const int *, T *, T *,             \
                  const int *, int *, const int *, int *, size_t, size_t);                         \
    void (*gelsd)(const int *, const int *, const int *, T *, const int *, T *, const int *, T *,  \
                  const T *, int *, T *, const int *, int *, int *);                               \
    void (*sytrf)(const char *, const int *, T *, const int *, int *, T *, const int *, int *,     \
                  size_t);                                                                         \
    void (*sytrs)(const char *, const int *, const int *, const T *, const int *, const int *,     \
                  T *, const int *, int *, size_t);                                                \
    void (*trsm)(int, int, int, int, int, int, int, T, const T *, int, T *, int);                  \
  } Routines_##P;                                                                                  \
  static Routines_##P lib_##P

DEFINE_ROUTINES(float, s);
DEFINE_ROUTINES(double, d);

static bool found;
static tli_Once once = TLI_ONCE_INIT;

static bool take(void *member, const char *name) {
  void *symbol = tlk_blas_symbol(name);
  *(void **)member = symbol;
  return symbol != NULL;
}

#define TAKE(P)                                                              \
  (take(&lib_##P.potrf, #P "potrf_") && take(&lib_##P.getrf, #P "getrf_") && \
   take(&lib_##P.getrs, #P "getrs_") && take(&lib_##P.geqrf, #P "geqrf_") && \
   take(&lib_##P.orgqr, #P "orgqr_") && take(&lib_##P.gesdd, #P "gesdd_") && \
   take(&lib_##P.syevd, #P "syevd_") && take(&lib_##P.gelsd, #P "gelsd_") && \
   take(&lib_##P.sytrf, #P "sytrf_") && take(&lib_##P.sytrs, #P "sytrs_") && \
   take(&lib_##P.trsm, "cblas_" #P "trsm"))

static void open_lapack(void) { found = TAKE(s) && TAKE(d); }

static bool ready(void) {
  tli_once(&once, open_lapack);
  return found || tli_fail(TL_EIO, "linalg: no LAPACK was found; libopenblas0 brings one");
}

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

/* Workspace of the size that a routine's query returned. */
typedef struct Work {
  void *data;
  int n;
  size_t bytes;
} Work;

static bool work_new(Work *w, double n, size_t element) {
  w->n = most((int)n, 1);
  w->bytes = (size_t)w->n * element;
  w->data = tli_alloc(w->bytes);
  return w->data != NULL;
}

static void work_free(Work *w) { tli_free(w->data, w->bytes); }

/* The arguments of a routine; each uses some of them. The matrices of a batch are contiguous. */
typedef struct Call {
  bool vectors, left, upper, transpose, unit;
  char job;
  int m, n, k, nrhs;
  const void *in; /* read-only operands: factors, tau */
  void *a, *b, *s, *u, *vt;
  const int *pivots_in;
  int *pivots, *rank, *info;
  double rcond;
} Call;

/* Processes matrices from begin to end. Returns false if memory is exhausted. */
typedef bool (*Routine)(const Call *c, int64_t begin, int64_t end);

#define DEFINE(T, P)                                                                               \
  static bool potrf_##P(const Call *c, int64_t begin, int64_t end) {                               \
    int n = c->n, ld = most(n, 1);                                                                 \
    for (int64_t i = begin; i < end; i++)                                                          \
      lib_##P.potrf("L", &n, (T *)c->a + i * n * n, &ld, c->info + i, 1);                          \
    return true;                                                                                   \
  }                                                                                                \
  static bool getrf_##P(const Call *c, int64_t begin, int64_t end) {                               \
    int m = c->m, n = c->n, ld = most(m, 1), k = least(m, n);                                      \
    for (int64_t i = begin; i < end; i++)                                                          \
      lib_##P.getrf(&m, &n, (T *)c->a + i * m * n, &ld, c->pivots + i * k, c->info + i);           \
    return true;                                                                                   \
  }                                                                                                \
  static bool getrs_##P(const Call *c, int64_t begin, int64_t end) {                               \
    int n = c->n, nrhs = c->nrhs, ld = most(n, 1), info;                                           \
    for (int64_t i = begin; i < end; i++)                                                          \
      lib_##P.getrs("N", &n, &nrhs, (const T *)c->in + i * n * n, &ld, c->pivots_in + i * n,       \
                    (T *)c->b + i * n * nrhs, &ld, &info, 1);                                      \
    return true;                                                                                   \
  }                                                                                                \
  static bool geqrf_##P(const Call *c, int64_t begin, int64_t end) {                               \
    int m = c->m, n = c->n, ld = most(m, 1), k = least(m, n), query = -1, info;                    \
    T size = 1, *a = c->a, *tau = c->b;                                                            \
    Work w;                                                                                        \
    lib_##P.geqrf(&m, &n, a, &ld, tau, &size, &query, &info);                                      \
    TL_TRY(work_new(&w, (double)size, sizeof(T)));                                                 \
    for (int64_t i = begin; i < end; i++)                                                          \
      lib_##P.geqrf(&m, &n, a + i * m * n, &ld, tau + i * k, w.data, &w.n, &info);                 \
    work_free(&w);                                                                                 \
    return true;                                                                                   \
  }                                                                                                \
  static bool orgqr_##P(const Call *c, int64_t begin, int64_t end) {                               \
    int m = c->m, n = c->n, k = c->k, ld = most(m, 1), query = -1, info;                           \
    T size = 1, *a = c->a;                                                                         \
    const T *tau = c->in;                                                                          \
    Work w;                                                                                        \
    lib_##P.orgqr(&m, &n, &k, a, &ld, tau, &size, &query, &info);                                  \
    TL_TRY(work_new(&w, (double)size, sizeof(T)));                                                 \
    for (int64_t i = begin; i < end; i++)                                                          \
      lib_##P.orgqr(&m, &n, &k, a + i * m * n, &ld, tau + i * k, w.data, &w.n, &info);             \
    work_free(&w);                                                                                 \
    return true;                                                                                   \
  }                                                                                                \
  static bool gesdd_##P(const Call *c, int64_t begin, int64_t end) {                               \
    char job = c->job;                                                                             \
    int m = c->m, n = c->n, k = least(m, n), ld = most(m, 1), query = -1, info;                    \
    int ucols = job == 'A' ? m : job == 'S' ? k : 0, vrows = job == 'A' ? n : job == 'S' ? k : 0;  \
    int ldvt = most(vrows, 1);                                                                     \
    T size = 1, *a = c->a, *s = c->s, *u = c->u, *vt = c->vt;                                      \
    Work w, iw;                                                                                    \
    TL_TRY(work_new(&iw, 8.0 * k, sizeof(int)));                                                   \
    lib_##P.gesdd(&job, &m, &n, a, &ld, s, u, &ld, vt, &ldvt, &size, &query, iw.data, &info, 1);   \
    bool ok = work_new(&w, (double)size, sizeof(T));                                               \
    for (int64_t i = begin; ok && i < end; i++)                                                    \
      lib_##P.gesdd(&job, &m, &n, a + i * m * n, &ld, s + i * k, u + i * m * ucols, &ld,           \
                    vt + i * vrows * n, &ldvt, w.data, &w.n, iw.data, c->info + i, 1);             \
    if (ok) work_free(&w);                                                                         \
    work_free(&iw);                                                                                \
    return ok;                                                                                     \
  }                                                                                                \
  static bool syevd_##P(const Call *c, int64_t begin, int64_t end) {                               \
    const char *job = c->vectors ? "V" : "N", *part = c->upper ? "U" : "L";                        \
    int n = c->n, ld = most(n, 1), query = -1, isize = 1, info;                                    \
    T size = 1, *a = c->a, *values = c->s;                                                         \
    Work w, iw;                                                                                    \
    lib_##P.syevd(job, part, &n, a, &ld, values, &size, &query, &isize, &query, &info, 1, 1);      \
    TL_TRY(work_new(&w, (double)size, sizeof(T)));                                                 \
    bool ok = work_new(&iw, isize, sizeof(int));                                                   \
    for (int64_t i = begin; ok && i < end; i++)                                                    \
      lib_##P.syevd(job, part, &n, a + i * n * n, &ld, values + i * n, w.data, &w.n, iw.data,      \
                    &iw.n, c->info + i, 1, 1);                                                     \
    if (ok) work_free(&iw);                                                                        \
    work_free(&w);                                                                                 \
    return ok;                                                                                     \
  }                                                                                                \
  static bool gelsd_##P(const Call *c, int64_t begin, int64_t end) {                               \
    int m = c->m, n = c->n, nrhs = c->nrhs, ld = most(m, 1), ldb = most(most(m, n), 1);            \
    int k = least(m, n), query = -1, isize = 1, info;                                              \
    T size = 1, limit = (T)c->rcond, *a = c->a, *b = c->b, *s = c->s;                              \
    Work w, iw;                                                                                    \
    lib_##P.gelsd(&m, &n, &nrhs, a, &ld, b, &ldb, s, &limit, c->rank + begin, &size, &query,       \
                  &isize, &info);                                                                  \
    TL_TRY(work_new(&w, (double)size, sizeof(T)));                                                 \
    bool ok = work_new(&iw, isize, sizeof(int));                                                   \
    for (int64_t i = begin; ok && i < end; i++)                                                    \
      lib_##P.gelsd(&m, &n, &nrhs, a + i * m * n, &ld, b + i * ldb * nrhs, &ldb, s + i * k,        \
                    &limit, c->rank + i, w.data, &w.n, iw.data, c->info + i);                      \
    if (ok) work_free(&iw);                                                                        \
    work_free(&w);                                                                                 \
    return ok;                                                                                     \
  }                                                                                                \
  static bool sytrf_##P(const Call *c, int64_t begin, int64_t end) {                               \
    int n = c->n, ld = most(n, 1), query = -1, info;                                               \
    T size = 1, *a = c->a;                                                                         \
    Work w;                                                                                        \
    lib_##P.sytrf("L", &n, a, &ld, c->pivots, &size, &query, &info, 1);                            \
    TL_TRY(work_new(&w, (double)size, sizeof(T)));                                                 \
    for (int64_t i = begin; i < end; i++)                                                          \
      lib_##P.sytrf("L", &n, a + i * n * n, &ld, c->pivots + i * n, w.data, &w.n, c->info + i, 1); \
    work_free(&w);                                                                                 \
    return true;                                                                                   \
  }                                                                                                \
  static bool sytrs_##P(const Call *c, int64_t begin, int64_t end) {                               \
    int n = c->n, nrhs = c->nrhs, ld = most(n, 1), info;                                           \
    for (int64_t i = begin; i < end; i++)                                                          \
      lib_##P.sytrs("L", &n, &nrhs, (const T *)c->in + i * n * n, &ld, c->pivots_in + i * n,       \
                    (T *)c->b + i * n * nrhs, &ld, &info, 1);                                      \
    return true;                                                                                   \
  }                                                                                                \
  static bool trsm_##P(const Call *c, int64_t begin, int64_t end) {                                \
    int m = c->m, n = c->n, k = c->left ? m : n;                                                   \
    for (int64_t i = begin; i < end && m > 0 && n > 0; i++)                                        \
      lib_##P.trsm(TLK_ROW_MAJOR, c->left ? 141 : 142, c->upper ? 121 : 122,                       \
                   c->transpose ? TLK_TRANS : TLK_NO_TRANS, c->unit ? 132 : 131, m, n, (T)1,       \
                   (const T *)c->in + i * k * k, most(k, 1), (T *)c->b + i * m * n, most(n, 1));   \
    return true;                                                                                   \
  }

DEFINE(float, s)
DEFINE(double, d)

/* ---- sharing a batch among threads ---- */

typedef struct Batch {
  const Call *call;
  Routine run;
  atomic_bool failed;
} Batch;

static void run_range(void *context, int64_t begin, int64_t end) {
  Batch *b = context;
  if (!b->run(b->call, begin, end)) b->failed = true;
}

/* Shares matrices of sizes m, n and k; the cost of each is about their product. */
static bool share(Routine run, const Call *call, int64_t batch, int m, int n, int k) {
  if (batch == 0) return true;
  Batch b = {call, run, false};
  double work = (double)most(m, 1) * most(n, 1) * most(k, 1);
  TL_TRY(tli_parallel_try(batch, 1 + (int64_t)(TLK_GRAIN / work), run_range, &b));
  return !b.failed || tli_fail(TL_EMEM, "linalg: out of memory");
}

/* Calls the routine of the dtype's precision. */
#define SHARE(name, m, n, k, ...) \
  ((void)cx,                      \
   ready() && share(dtype == TL_F32 ? name##_s : name##_d, &(Call){__VA_ARGS__}, batch, m, n, k))

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
static bool sytrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, void *a, int *pivots,
                  int *info) {
  return SHARE(sytrf, n, n, n, .n = n, .a = a, .pivots = pivots, .info = info);
}
static bool sytrs(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, int nrhs,
                  const void *a, const int *pivots, void *b) {
  return SHARE(sytrs, n, n, nrhs, .n = n, .nrhs = nrhs, .in = a, .pivots_in = pivots, .b = b);
}
static bool trsm(const tlk_Context *cx, tl_DType dtype, bool left, bool upper, bool transpose,
                 bool unit, int64_t batch, int m, int n, const void *a, void *b) {
  return SHARE(trsm, m, n, left ? m : n, .left = left, .upper = upper, .transpose = transpose,
               .unit = unit, .m = m, .n = n, .in = a, .b = b);
}

const tlk_Lapack tlk_cpu_lapack = {potrf, getrf, getrs, geqrf, orgqr, gesdd,
                                   syevd, gelsd, sytrf, sytrs, trsm};
