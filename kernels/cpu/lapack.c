/*
** lapack.c - LAPACK through the library that blas.c opened. Fortran's calling
** convention: everything by address, and a hidden length for each character.
*/
#include "core/lapack.h"

#include <pthread.h>

#include "core/alloc.h"
#include "core/error.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu.h"

/* The routines in one precision; T is its element type. */
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
    void (*trsm)(int, int, int, int, int, int, int, T, const T *, int, T *, int);                  \
  } Routines_##P;                                                                                  \
  static Routines_##P lib_##P

DEFINE_ROUTINES(float, s);
DEFINE_ROUTINES(double, d);

static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

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
   take(&lib_##P.trsm, "cblas_" #P "trsm"))

static void open_lapack(void) { found = TAKE(s) && TAKE(d); }

static bool ready(void) {
  pthread_once(&once, open_lapack);
  return found || tli_fail(TL_EIO, "linalg: no LAPACK was found; libopenblas0 brings one");
}

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

/* Work space of a size that the routine told. */
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

#define DEFINE(T, P)                                                                              \
  static bool potrf_##P(int64_t batch, int n, T *a, int *info) {                                  \
    int ld = most(n, 1);                                                                          \
    for (int64_t i = 0; i < batch; i++) lib_##P.potrf("L", &n, a + i * n * n, &ld, info + i, 1);  \
    return true;                                                                                  \
  }                                                                                               \
  static bool getrf_##P(int64_t batch, int m, int n, T *a, int *pivots, int *info) {              \
    int ld = most(m, 1), k = least(m, n);                                                         \
    for (int64_t i = 0; i < batch; i++)                                                           \
      lib_##P.getrf(&m, &n, a + i * m * n, &ld, pivots + i * k, info + i);                        \
    return true;                                                                                  \
  }                                                                                               \
  static bool getrs_##P(int64_t batch, int n, int nrhs, const T *a, const int *pivots, T *b) {    \
    int ld = most(n, 1), info;                                                                    \
    for (int64_t i = 0; i < batch; i++)                                                           \
      lib_##P.getrs("N", &n, &nrhs, a + i * n * n, &ld, pivots + i * n, b + i * n * nrhs, &ld,    \
                    &info, 1);                                                                    \
    return true;                                                                                  \
  }                                                                                               \
  static bool geqrf_##P(int64_t batch, int m, int n, T *a, T *tau) {                              \
    int ld = most(m, 1), k = least(m, n), query = -1, info;                                       \
    T size = 1;                                                                                   \
    Work w;                                                                                       \
    lib_##P.geqrf(&m, &n, a, &ld, tau, &size, &query, &info);                                     \
    TL_TRY(work_new(&w, (double)size, sizeof(T)));                                                \
    for (int64_t i = 0; i < batch; i++)                                                           \
      lib_##P.geqrf(&m, &n, a + i * m * n, &ld, tau + i * k, w.data, &w.n, &info);                \
    work_free(&w);                                                                                \
    return true;                                                                                  \
  }                                                                                               \
  static bool orgqr_##P(int64_t batch, int m, int n, int k, T *a, const T *tau) {                 \
    int ld = most(m, 1), query = -1, info;                                                        \
    T size = 1;                                                                                   \
    Work w;                                                                                       \
    lib_##P.orgqr(&m, &n, &k, a, &ld, tau, &size, &query, &info);                                 \
    TL_TRY(work_new(&w, (double)size, sizeof(T)));                                                \
    for (int64_t i = 0; i < batch; i++)                                                           \
      lib_##P.orgqr(&m, &n, &k, a + i * m * n, &ld, tau + i * k, w.data, &w.n, &info);            \
    work_free(&w);                                                                                \
    return true;                                                                                  \
  }                                                                                               \
  static bool gesdd_##P(char job, int64_t batch, int m, int n, T *a, T *s, T *u, T *vt,           \
                        int *info) {                                                              \
    int k = least(m, n), ld = most(m, 1), query = -1;                                             \
    int ucols = job == 'A' ? m : job == 'S' ? k : 0, vrows = job == 'A' ? n : job == 'S' ? k : 0; \
    int ldvt = most(vrows, 1);                                                                    \
    T size = 1;                                                                                   \
    Work w, iw;                                                                                   \
    TL_TRY(work_new(&iw, 8.0 * k, sizeof(int)));                                                  \
    lib_##P.gesdd(&job, &m, &n, a, &ld, s, u, &ld, vt, &ldvt, &size, &query, iw.data, info, 1);   \
    bool ok = work_new(&w, (double)size, sizeof(T));                                              \
    for (int64_t i = 0; ok && i < batch; i++)                                                     \
      lib_##P.gesdd(&job, &m, &n, a + i * m * n, &ld, s + i * k, u + i * m * ucols, &ld,          \
                    vt + i * vrows * n, &ldvt, w.data, &w.n, iw.data, info + i, 1);               \
    if (ok) work_free(&w);                                                                        \
    work_free(&iw);                                                                               \
    return ok;                                                                                    \
  }                                                                                               \
  static bool syevd_##P(bool vectors, bool upper, int64_t batch, int n, T *a, T *values,          \
                        int *info) {                                                              \
    const char *job = vectors ? "V" : "N", *part = upper ? "U" : "L";                             \
    int ld = most(n, 1), query = -1, isize = 1;                                                   \
    T size = 1;                                                                                   \
    Work w, iw;                                                                                   \
    lib_##P.syevd(job, part, &n, a, &ld, values, &size, &query, &isize, &query, info, 1, 1);      \
    TL_TRY(work_new(&w, (double)size, sizeof(T)));                                                \
    bool ok = work_new(&iw, isize, sizeof(int));                                                  \
    for (int64_t i = 0; ok && i < batch; i++)                                                     \
      lib_##P.syevd(job, part, &n, a + i * n * n, &ld, values + i * n, w.data, &w.n, iw.data,     \
                    &iw.n, info + i, 1, 1);                                                       \
    if (ok) work_free(&iw);                                                                       \
    work_free(&w);                                                                                \
    return ok;                                                                                    \
  }                                                                                               \
  static bool gelsd_##P(int64_t batch, int m, int n, int nrhs, T *a, T *b, T *s, double rcond,    \
                        int *rank, int *info) {                                                   \
    int ld = most(m, 1), ldb = most(most(m, n), 1), k = least(m, n), query = -1, isize = 1;       \
    T size = 1, limit = (T)rcond;                                                                 \
    Work w, iw;                                                                                   \
    lib_##P.gelsd(&m, &n, &nrhs, a, &ld, b, &ldb, s, &limit, rank, &size, &query, &isize, info);  \
    TL_TRY(work_new(&w, (double)size, sizeof(T)));                                                \
    bool ok = work_new(&iw, isize, sizeof(int));                                                  \
    for (int64_t i = 0; ok && i < batch; i++)                                                     \
      lib_##P.gelsd(&m, &n, &nrhs, a + i * m * n, &ld, b + i * ldb * nrhs, &ldb, s + i * k,       \
                    &limit, rank + i, w.data, &w.n, iw.data, info + i);                           \
    if (ok) work_free(&iw);                                                                       \
    work_free(&w);                                                                                \
    return ok;                                                                                    \
  }                                                                                               \
  static bool trsm_##P(bool left, bool upper, bool transpose, bool unit, int64_t batch, int m,    \
                       int n, const T *a, T *b) {                                                 \
    int k = left ? m : n;                                                                         \
    for (int64_t i = 0; i < batch && m > 0 && n > 0; i++)                                         \
      lib_##P.trsm(TLK_ROW_MAJOR, left ? 141 : 142, upper ? 121 : 122,                            \
                   transpose ? TLK_TRANS : TLK_NO_TRANS, unit ? 132 : 131, m, n, (T)1,            \
                   a + i * k * k, most(k, 1), b + i * m * n, most(n, 1));                         \
    return true;                                                                                  \
  }

DEFINE(float, s)
DEFINE(double, d)

/* Chooses the precision. */
#define BY_DTYPE(name, ...) \
  (ready() && (dtype == TL_F32 ? name##_s(__VA_ARGS__) : name##_d(__VA_ARGS__)))

static bool potrf(tl_DType dtype, int64_t batch, int n, void *a, int *info) {
  return BY_DTYPE(potrf, batch, n, a, info);
}
static bool getrf(tl_DType dtype, int64_t batch, int m, int n, void *a, int *pivots, int *info) {
  return BY_DTYPE(getrf, batch, m, n, a, pivots, info);
}
static bool getrs(tl_DType dtype, int64_t batch, int n, int nrhs, const void *a, const int *pivots,
                  void *b) {
  return BY_DTYPE(getrs, batch, n, nrhs, a, pivots, b);
}
static bool geqrf(tl_DType dtype, int64_t batch, int m, int n, void *a, void *tau) {
  return BY_DTYPE(geqrf, batch, m, n, a, tau);
}
static bool orgqr(tl_DType dtype, int64_t batch, int m, int n, int k, void *a, const void *tau) {
  return BY_DTYPE(orgqr, batch, m, n, k, a, tau);
}
static bool gesdd(tl_DType dtype, char job, int64_t batch, int m, int n, void *a, void *s, void *u,
                  void *vt, int *info) {
  return BY_DTYPE(gesdd, job, batch, m, n, a, s, u, vt, info);
}
static bool syevd(tl_DType dtype, bool vectors, bool upper, int64_t batch, int n, void *a, void *w,
                  int *info) {
  return BY_DTYPE(syevd, vectors, upper, batch, n, a, w, info);
}
static bool gelsd(tl_DType dtype, int64_t batch, int m, int n, int nrhs, void *a, void *b, void *s,
                  double rcond, int *rank, int *info) {
  return BY_DTYPE(gelsd, batch, m, n, nrhs, a, b, s, rcond, rank, info);
}
static bool trsm(tl_DType dtype, bool left, bool upper, bool transpose, bool unit, int64_t batch,
                 int m, int n, const void *a, void *b) {
  return BY_DTYPE(trsm, left, upper, transpose, unit, batch, m, n, a, b);
}

const tlk_Lapack tlk_cpu_lapack = {potrf, getrf, getrs, geqrf, orgqr, gesdd, syevd, gelsd, trsm};
