/*
** lapack_routines.h - the routines of LAPACK for one element type. lapack_<type>.c includes this
** file after it has defined `number`, `real` (the type of a number's parts), P (the letter with
** which the routines' names begin) and, for complex numbers, TLK_COMPLEX. Fortran's calling
** convention passes all arguments by address, and a hidden length for each character argument.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "core/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linalg/lapack_call.h"
#include "kernels/cpu/matmul/blas.h"

/* Some routines for complex numbers take one more array, of real numbers, or have other names. */
#ifdef TLK_COMPLEX
#define REAL_WORK_TYPE real *,
#define REAL_SIZE_TYPE real *, const int *,
#define ORTHOGONAL "un"
#define SYMMETRIC "he"
typedef const void *Factor; /* cblas takes complex factors by address */
#define FACTOR(x) (&(const number){x})
#else
#define REAL_WORK_TYPE
#define REAL_SIZE_TYPE
#define ORTHOGONAL "or"
#define SYMMETRIC "sy"
typedef real Factor;
#define FACTOR(x) (x)
#endif

/* The addresses of the library's routines for `number`. */
static struct {
  void (*potrf)(const char *, const int *, number *, const int *, int *, size_t);
  void (*getrf)(const int *, const int *, number *, const int *, int *, int *);
  void (*laswp)(const int *, number *, const int *, const int *, const int *, const int *,
                const int *);
  void (*getrs)(const char *, const int *, const int *, const number *, const int *, const int *,
                number *, const int *, int *, size_t);
  void (*geqrf)(const int *, const int *, number *, const int *, number *, number *, const int *,
                int *);
  void (*orgqr)(const int *, const int *, const int *, number *, const int *, const number *,
                number *, const int *, int *);
  void (*gesdd)(const char *, const int *, const int *, number *, const int *, real *, number *,
                const int *, number *, const int *, number *, const int *, REAL_WORK_TYPE int *,
                int *, size_t);
  void (*syevd)(const char *, const char *, const int *, number *, const int *, real *, number *,
                const int *, REAL_SIZE_TYPE int *, const int *, int *, size_t, size_t);
  void (*gelsd)(const int *, const int *, const int *, number *, const int *, number *, const int *,
                real *, const real *, int *, number *, const int *, REAL_WORK_TYPE int *, int *);
  void (*sytrf)(const char *, const int *, number *, const int *, int *, number *, const int *,
                int *, size_t);
  void (*sytrs)(const char *, const int *, const int *, const number *, const int *, const int *,
                number *, const int *, int *, size_t);
  void (*hetrf)(const char *, const int *, number *, const int *, int *, number *, const int *,
                int *, size_t);
  void (*hetrs)(const char *, const int *, const int *, const number *, const int *, const int *,
                number *, const int *, int *, size_t);
  void (*trsm)(int, int, int, int, int, int, int, Factor, const number *, int, number *, int);
  void (*gemm)(int, int, int, int, int, int, Factor, const number *, int, const number *, int,
               Factor, number *, int);
  void (*gemv)(int, int, int, int, Factor, const number *, int, const number *, int, Factor,
               number *, int);
  void (*axpy)(int, Factor, const number *, int, number *, int);
  void (*scal)(int, Factor, number *, int);
#ifdef TLK_COMPLEX
  void (*geev)(const char *, const char *, const int *, number *, const int *, number *, number *,
               const int *, number *, const int *, number *, const int *, real *, int *, size_t,
               size_t);
#else
  void (*geev)(const char *, const char *, const int *, real *, const int *, real *, real *, real *,
               const int *, real *, const int *, real *, const int *, int *, size_t, size_t);
#endif
} lib;

static bool load_routine(void *member, const char *name) {
  void *symbol = tlk_blas_symbol(name);
  *(void **)member = symbol;
  return symbol != NULL;
}

static bool open_routines(void) {
  return load_routine(&lib.potrf, P "potrf_") && load_routine(&lib.getrf, P "getrf_") &&
         load_routine(&lib.laswp, P "laswp_") && load_routine(&lib.getrs, P "getrs_") &&
         load_routine(&lib.geqrf, P "geqrf_") && load_routine(&lib.orgqr, P ORTHOGONAL "gqr_") &&
         load_routine(&lib.gesdd, P "gesdd_") && load_routine(&lib.syevd, P SYMMETRIC "evd_") &&
         load_routine(&lib.gelsd, P "gelsd_") && load_routine(&lib.sytrf, P "sytrf_") &&
         load_routine(&lib.sytrs, P "sytrs_") && load_routine(&lib.hetrf, P SYMMETRIC "trf_") &&
         load_routine(&lib.hetrs, P SYMMETRIC "trs_") &&
         load_routine(&lib.trsm, "cblas_" P "trsm") && load_routine(&lib.gemm, "cblas_" P "gemm") &&
         load_routine(&lib.gemv, "cblas_" P "gemv") && load_routine(&lib.axpy, "cblas_" P "axpy") &&
         load_routine(&lib.scal, "cblas_" P "scal") && load_routine(&lib.geev, P "geev_");
}

/* A workspace of n elements. A routine that is asked for the size returns n as a number. */
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

static bool potrf(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int n = c->n, ld = most(n, 1);
  for (int64_t i = begin; i < end; i++)
    lib.potrf("L", &n, (number *)c->a + i * n * n, &ld, c->info + i, 1);
  return true;
}

/* Triangles are divided at multiples of this number, because products of such sizes are fast. */
#define TRIANGLE 16
/* Triangles of up to this size are solved here column by column, because the library solves small
** triangles slowly. */
#define CORNER 4

/* Solves x a^T = b for a small triangle a. Does the work of solve_by_products (below) without
** matrix products, one column of x after the other. */
static void solve_corner(bool upper, int n, int rows, const number *a, int lda, number *b,
                         int ldb) {
  for (int i = 0; i < n; i++) {
    int j = upper ? n - 1 - i : i;
    number *x = b + (int64_t)j * ldb;
    for (int k = upper ? n - 1 : 0; k != j; k += upper ? -1 : 1)
      lib.axpy(rows, FACTOR(-a[j + (int64_t)k * lda]), b + (int64_t)k * ldb, 1, x, 1);
    if (!upper) continue;
    number factor = 1 / a[j + (int64_t)j * lda];
    /* OpenBLAS's scal writes 0 if the factor is 0 or NaN, even over NaN */
    if (factor != 0 && factor == factor)
      lib.scal(rows, FACTOR(factor), x, 1);
    else
      for (int r = 0; r < rows; r++) x[r] *= factor;
  }
}

/* Returns the number of columns of the first of the two parts into which a triangle of n columns is
** divided. */
static int half_of(int n) {
  int step = n > TRIANGLE ? TRIANGLE : CORNER;
  return (n / 2 + step - 1) / step * step;
}

/* Solves x a^T = b for a triangle a (n, n). The diagonal of a lower triangle is 1. b (rows, n) is
** replaced by x. Matrix products do nearly all of the work. */
static void solve_by_products(bool upper, int n, int rows, const number *a, int lda, number *b,
                              int ldb) {
  if (n <= CORNER) {
    solve_corner(upper, n, rows, a, lda, b, ldb);
    return;
  }
  int first = half_of(n), rest = n - first;
  const number *right = a + (int64_t)first * lda;
  number *last = b + (int64_t)first * ldb;
  if (upper) {
    solve_by_products(upper, rest, rows, right + first, lda, last, ldb);
    lib.gemm(TLK_COLUMN_MAJOR, TLK_NO_TRANS, TLK_TRANS, rows, first, rest, FACTOR(-1), last, ldb,
             right, lda, FACTOR(1), b, ldb);
    solve_by_products(upper, first, rows, a, lda, b, ldb);
  } else {
    solve_by_products(upper, first, rows, a, lda, b, ldb);
    lib.gemm(TLK_COLUMN_MAJOR, TLK_NO_TRANS, TLK_TRANS, rows, rest, first, FACTOR(-1), b, ldb,
             a + first, lda, FACTOR(1), last, ldb);
    solve_by_products(upper, rest, rows, right + first, lda, last, ldb);
  }
}

/* Replaces the identity matrix b (n, n) by the transposed inverse of the lower triangle a, whose
** diagonal is 1. This takes a third of the work of solve_by_products, since half of b stays 0. */
static void invert_lower(int n, const number *a, int lda, number *b, int ldb) {
  if (n <= TRIANGLE) {
    solve_by_products(false, n, n, a, lda, b, ldb);
    return;
  }
  int first = half_of(n), rest = n - first;
  const number *corner = a + (int64_t)first * lda + first;
  number *last = b + (int64_t)first * ldb;
  invert_lower(first, a, lda, b, ldb);
  invert_lower(rest, corner, lda, last + first, ldb);
  lib.gemm(TLK_COLUMN_MAJOR, TLK_NO_TRANS, TLK_TRANS, first, rest, first, FACTOR(-1), b, ldb,
           a + first, lda, FACTOR(0), last, ldb);
  solve_by_products(false, rest, first, corner, lda, last, ldb);
}

/* Transposes a column-major matrix (m, n). */
static void transpose(int m, int n, const number *from, int ld_from, number *to, int ld_to) {
  int64_t size = sizeof(number);
  tlk_isa()->move[size == 16  ? 4
                  : size == 8 ? 3
                              : 2]((char *)to, size, ld_to * size, (const char *)from,
                                   ld_from * size, size, n, m);
}

/* Matrices with at most this number of rows or of columns are factored by the library, which is
** then faster than factor_halves. */
#define COLUMNS 32

/* Factors a matrix like LAPACK's getrf: first the left half of its columns, then the rest. The
** buffer `t` has room for least(m, n) * n numbers. */
static void factor_halves(int m, int n, number *a, int ld, int *pivots, int *info, number *t) {
  int k = least(m, n), one = 1, later = 0;
  if (k <= COLUMNS) {
    lib.getrf(&m, &n, a, &ld, pivots, info);
    return;
  }
  int first = (k / 2 + TRIANGLE - 1) / TRIANGLE * TRIANGLE, rest = n - first, next = first + 1;
  number *right = a + (int64_t)first * ld;
  factor_halves(m, first, a, ld, pivots, info, t);
  lib.laswp(&rest, right, &ld, &one, &first, pivots, &one);
  transpose(first, rest, right, ld, t, rest);
  solve_by_products(false, first, rest, a, ld, t, rest);
  transpose(rest, first, t, rest, right, ld);
  lib.gemm(TLK_COLUMN_MAJOR, TLK_NO_TRANS, TLK_NO_TRANS, m - first, rest, first, FACTOR(-1),
           a + first, ld, right, ld, FACTOR(1), right + first, ld);
  factor_halves(m - first, rest, right + first, ld, pivots + first, &later, t);
  if (*info == 0 && later > 0) *info = later + first;
  for (int i = first; i < k; i++) pivots[i] += first;
  lib.laswp(&first, a, &ld, &next, &k, pivots, &one);
}

static bool getrf(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, ld = most(m, 1), k = least(m, n);
  bool halves = k > COLUMNS && (int64_t)k * n <= INT32_MAX;
  Work w = {0};
  if (halves) TL_TRY(work_new(&w, (double)k * n, sizeof(number)));
  for (int64_t i = begin; i < end; i++) {
    number *a = (number *)c->a + i * m * n;
    if (halves)
      factor_halves(m, n, a, ld, c->pivots + i * k, c->info + i, w.data);
    else
      lib.getrf(&m, &n, a, &ld, c->pivots + i * k, c->info + i);
  }
  if (halves) work_free(&w);
  return true;
}

/* Exchanges columns i and j, each of n numbers, of a column-major matrix. */
static __attribute__((noinline)) void exchange_columns(number *a, int64_t n, int64_t i, int64_t j) {
  for (int64_t k = 0; i != j && k < n; k++) {
    number kept = a[i * n + k];
    a[i * n + k] = a[j * n + k];
    a[j * n + k] = kept;
  }
}

static bool is_identity(int64_t n, const number *b) {
  for (int64_t i = 0; i < n * n; i++)
    if (b[i] != (i % (n + 1) == 0)) return false;
  return true;
}

/* Solves systems like LAPACK's getrs. `t` is room for the transpose of the right-hand side. */
static void solve_transposed(int n, int nrhs, const number *lu, const int *pivots, number *b,
                             number *t) {
  bool inverse = nrhs == n && is_identity(n, b);
  if (inverse) {
    memcpy(t, b, (size_t)n * (size_t)n * sizeof(number));
    invert_lower(n, lu, n, t, n);
  } else {
    transpose(n, nrhs, b, n, t, nrhs);
    for (int64_t k = 0; k < n; k++) exchange_columns(t, nrhs, k, pivots[k] - 1);
    solve_by_products(false, n, nrhs, lu, n, t, nrhs);
  }
  solve_by_products(true, n, nrhs, lu, n, t, nrhs);
  transpose(nrhs, n, t, nrhs, b, n);
  for (int64_t k = n; inverse && k-- > 0;) exchange_columns(b, n, k, pivots[k] - 1);
}

static bool getrs(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int n = c->n, nrhs = c->nrhs, ld = most(n, 1), info;
  bool many = n > 2 * TRIANGLE && nrhs >= TRIANGLE && (int64_t)n * nrhs <= INT32_MAX;
  Work w = {0};
  if (many) TL_TRY(work_new(&w, (double)n * nrhs, sizeof(number)));
  for (int64_t i = begin; i < end; i++) {
    const number *lu = (const number *)c->in + i * n * n;
    const int *pivots = c->pivots_in + i * n;
    number *b = (number *)c->b + i * n * nrhs;
    if (many)
      solve_transposed(n, nrhs, lu, pivots, b, w.data);
    else
      lib.getrs("N", &n, &nrhs, lu, &ld, pivots, b, &ld, &info, 1);
  }
  if (many) work_free(&w);
  return true;
}

static bool geqrf(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, ld = most(m, 1), k = least(m, n), query = -1, info;
  number size = 1, *a = c->a, *tau = c->b;
  Work w;
  lib.geqrf(&m, &n, a, &ld, tau, &size, &query, &info);
  TL_TRY(work_new(&w, (double)size, sizeof(number)));
  for (int64_t i = begin; i < end; i++)
    lib.geqrf(&m, &n, a + i * m * n, &ld, tau + i * k, w.data, &w.n, &info);
  work_free(&w);
  return true;
}

/* Reflections are applied this many at a time, as products with matrices. */
#define REFLECTORS 32
#define CONJ_TRANS 113

/* Multiplies column-major matrices: stores factor * a^H b (if `turned`) or factor * a b in c or, if
** `add`, adds it to c. */
static void multiply(bool turned, int m, int n, int k, number factor, const number *a, int lda,
                     const number *b, int ldb, bool add, number *c, int ldc) {
  lib.gemm(TLK_COLUMN_MAJOR, turned ? CONJ_TRANS : TLK_NO_TRANS, TLK_NO_TRANS, m, n, k,
           FACTOR(factor), a, lda, b, ldb, FACTOR(add), c, ldc);
}

/* Replaces columns 1 to k of a (m, n), which hold k reflectors below the diagonal, by these columns
** of the identity matrix. Then applies the reflections to a. Their product is I - v t v^H, where t
** is triangular. `room` has room for (m + 2 * k + 2 * n) * k numbers. */
static void reflect(int m, int n, int k, int lda, number *a, const number *tau, number *room) {
  number *v = room, *gram = v + (int64_t)m * k, *t = gram + k * k, *w = t + k * k;
  number *turned = w + (int64_t)n * k;
  for (int j = 0; j < k; j++)
    for (int i = 0; i < m; i++) {
      number *at = a + i + (int64_t)j * lda;
      v[i + (int64_t)j * m] = i < j ? 0 : i == j ? 1 : *at;
      *at = i == j;
    }
  multiply(true, k, k, m, 1, v, m, v, m, false, gram, k);
  memset(t, 0, (size_t)k * (size_t)k * sizeof(number));
  for (int j = 0; j < k; j++) {
    if (j > 0)
      lib.gemv(TLK_COLUMN_MAJOR, TLK_NO_TRANS, j, j, FACTOR(-tau[j]), t, k, gram + j * k, 1,
               FACTOR(0), t + j * k, 1);
    t[j + j * k] = tau[j];
  }
  multiply(true, k, n, m, 1, v, m, a, lda, false, w, k);
  multiply(false, k, n, k, 1, t, k, w, k, false, turned, k);
  multiply(false, m, n, k, -1, v, m, turned, k, true, a, lda);
}

/* Computes the same as LAPACK's orgqr: the first n columns of the product of k reflections. */
static void form_columns(int m, int n, int k, number *a, const number *tau, number *room) {
  for (int j = k; j < n; j++)
    for (int i = 0; i < m; i++) a[i + (int64_t)j * m] = i == j;
  for (int first = (k - 1) / REFLECTORS * REFLECTORS; first >= 0; first -= REFLECTORS) {
    int some = least(k - first, REFLECTORS);
    for (int j = first; j < first + some; j++)
      memset(a + (int64_t)j * m, 0, (size_t)first * sizeof(number));
    reflect(m - first, n - first, some, m, a + first + (int64_t)first * m, tau + first, room);
  }
}

static bool orgqr(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, k = c->k, ld = most(m, 1), query = -1, info;
  number size = 1, *a = c->a;
  const number *tau = c->in;
#ifdef TLI_INFER
  /* The library for inference calls only LAPACK's own routine, so that it need not contain the code
  ** of the products. */
  bool products = false;
#else
  bool products = k >= 2 * REFLECTORS;
#endif
  Work w;
  if (!products) lib.orgqr(&m, &n, &k, a, &ld, tau, &size, &query, &info);
  double room = ((double)m + 2 * REFLECTORS + 2.0 * n) * REFLECTORS;
  TL_TRY(work_new(&w, products ? room : (double)size, sizeof(number)));
  for (int64_t i = begin; i < end; i++)
    if (products)
      form_columns(m, n, k, a + i * m * n, tau + i * k, w.data);
    else
      lib.orgqr(&m, &n, &k, a + i * m * n, &ld, tau + i * k, w.data, &w.n, &info);
  work_free(&w);
  return true;
}

/* The extra workspace of real numbers, which only routines for complex numbers take. */
#ifdef TLK_COMPLEX
#define REAL_WORK(w) (w)->data,
#define REAL_SIZE(w) (w)->data, &(w)->n,
static bool real_work_new(Work *w, double n) { return work_new(w, n, sizeof(real)); }
static void real_work_free(Work *w) { work_free(w); }
#else
#define REAL_WORK(w)
#define REAL_SIZE(w)
static bool real_work_new(Work *w, double n) { return (void)w, (void)n, true; }
static void real_work_free(Work *w) { (void)w; }
#endif

static bool gesdd(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  char job = c->job;
  int m = c->m, n = c->n, k = least(m, n), ld = most(m, 1), query = -1, info;
  int ucols = job == 'A' ? m : job == 'S' ? k : 0, vrows = job == 'A' ? n : job == 'S' ? k : 0;
  int ldvt = most(vrows, 1);
  number size = 1, *a = c->a, *u = c->u, *vt = c->vt;
  real *s = c->s;
  Work w, rw, iw;
  TL_TRY(work_new(&iw, 8.0 * k, sizeof(int)));
  bool real_ok = real_work_new(&rw, (double)k * most(5 * k + 7, 2 * most(m, n) + 2 * k + 1));
  bool ok = real_ok;
  if (ok) {
    lib.gesdd(&job, &m, &n, a, &ld, s, u, &ld, vt, &ldvt, &size, &query, REAL_WORK(&rw) iw.data,
              &info, 1);
    ok = work_new(&w, (double)size, sizeof(number));
  }
  for (int64_t i = begin; ok && i < end; i++)
    lib.gesdd(&job, &m, &n, a + i * m * n, &ld, s + i * k, u + i * m * ucols, &ld,
              vt + i * vrows * n, &ldvt, w.data, &w.n, REAL_WORK(&rw) iw.data, c->info + i, 1);
  if (ok) work_free(&w);
  if (real_ok) real_work_free(&rw);
  work_free(&iw);
  return ok;
}

/* The number of columns by which the workspace of heevd is enlarged. With the size that heevd
** itself asks for, it applies one reflection at a time; with more columns, it applies blocks of
** reflections. */
#define EIGEN_COLUMNS 64

static bool syevd(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  const char *job = c->vectors ? "V" : "N", *part = c->upper ? "U" : "L";
  int n = c->n, ld = most(n, 1), query = -1, isize = 1, info;
  number size = 1, *a = c->a;
  real *values = c->s;
  Work w, rw, iw;
#ifdef TLK_COMPLEX
  real rsize = 1;
  lib.syevd(job, part, &n, a, &ld, values, &size, &query, &rsize, &query, &isize, &query, &info, 1,
            1);
  TL_TRY(real_work_new(&rw, (double)rsize));
  size += (real)n * EIGEN_COLUMNS;
#else
  lib.syevd(job, part, &n, a, &ld, values, &size, &query, &isize, &query, &info, 1, 1);
#endif
  bool first = work_new(&w, (double)size, sizeof(number));
  bool ok = first && work_new(&iw, isize, sizeof(int));
  for (int64_t i = begin; ok && i < end; i++)
    lib.syevd(job, part, &n, a + i * n * n, &ld, values + i * n, w.data, &w.n,
              REAL_SIZE(&rw) iw.data, &iw.n, c->info + i, 1, 1);
  if (ok) work_free(&iw);
  if (first) work_free(&w);
  real_work_free(&rw);
  return ok;
}

static bool gelsd(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, nrhs = c->nrhs, ld = most(m, 1), ldb = most(most(m, n), 1);
  int k = least(m, n), query = -1, isize = 1, info;
  number size = 1, *a = c->a, *b = c->b;
  real limit = (real)c->rcond, *s = c->s;
  Work w, rw, iw;
#ifdef TLK_COMPLEX
  real rsize = 1;
  lib.gelsd(&m, &n, &nrhs, a, &ld, b, &ldb, s, &limit, c->rank + begin, &size, &query, &rsize,
            &isize, &info);
  TL_TRY(real_work_new(&rw, (double)rsize));
#else
  lib.gelsd(&m, &n, &nrhs, a, &ld, b, &ldb, s, &limit, c->rank + begin, &size, &query, &isize,
            &info);
#endif
  bool first = work_new(&w, (double)size, sizeof(number));
  bool ok = first && work_new(&iw, isize, sizeof(int));
  for (int64_t i = begin; ok && i < end; i++)
    lib.gelsd(&m, &n, &nrhs, a + i * m * n, &ld, b + i * ldb * nrhs, &ldb, s + i * k, &limit,
              c->rank + i, w.data, &w.n, REAL_WORK(&rw) iw.data, c->info + i);
  if (ok) work_free(&iw);
  if (first) work_free(&w);
  real_work_free(&rw);
  return ok;
}

static bool sytrf(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int n = c->n, ld = most(n, 1), query = -1, info;
  number size = 1, *a = c->a;
  Work w;
  __typeof__(lib.sytrf) factor = c->hermitian ? lib.hetrf : lib.sytrf;
  factor("L", &n, a, &ld, c->pivots, &size, &query, &info, 1);
  TL_TRY(work_new(&w, (double)size, sizeof(number)));
  for (int64_t i = begin; i < end; i++)
    factor("L", &n, a + i * n * n, &ld, c->pivots + i * n, w.data, &w.n, c->info + i, 1);
  work_free(&w);
  return true;
}

static bool sytrs(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int n = c->n, nrhs = c->nrhs, ld = most(n, 1), info;
  for (int64_t i = begin; i < end; i++)
    (c->hermitian ? lib.hetrs : lib.sytrs)("L", &n, &nrhs, (const number *)c->in + i * n * n, &ld,
                                           c->pivots_in + i * n, (number *)c->b + i * n * nrhs, &ld,
                                           &info, 1);
  return true;
}

static bool trsm(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, k = c->left ? m : n;
  for (int64_t i = begin; i < end && m > 0 && n > 0; i++)
    lib.trsm(TLK_ROW_MAJOR, c->left ? 141 : 142, c->upper ? 121 : 122,
             c->transpose ? TLK_TRANS : TLK_NO_TRANS, c->unit ? 132 : 131, m, n, FACTOR(1),
             (const number *)c->in + i * k * k, most(k, 1), (number *)c->b + i * m * n, most(n, 1));
  return true;
}

#ifdef TLK_COMPLEX

static bool geev(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  const char *job = c->vectors ? "V" : "N";
  int n = c->n, ld = most(n, 1), query = -1, info;
  int64_t step = c->vectors ? (int64_t)n * n : 0;
  number size = 1, *a = c->a, *values = c->s, *v = c->u;
  Work w, rw;
  TL_TRY(real_work_new(&rw, 2.0 * n));
  lib.geev("N", job, &n, a, &ld, values, NULL, &ld, v, &ld, &size, &query, rw.data, &info, 1, 1);
  bool ok = work_new(&w, (double)size, sizeof(number));
  for (int64_t i = begin; ok && i < end; i++)
    lib.geev("N", job, &n, a + i * n * n, &ld, values + i * n, NULL, &ld, v + i * step, &ld, w.data,
             &w.n, rw.data, c->info + i, 1, 1);
  if (ok) work_free(&w);
  real_work_free(&rw);
  return ok;
}

#else

static void store_complex(real *numbers, int64_t at, real re, real im) {
  numbers[2 * at] = re;
  numbers[2 * at + 1] = im;
}

/* Stores the eigenvectors of a real matrix as complex numbers. For a pair of conjugate eigenvalues,
** LAPACK returns two real columns: the real and the imaginary part of the first eigenvector. */
static void store_vectors(const real *columns, const real *imag, int n, real *v) {
  for (int j = 0; j < n; j++) {
    int64_t at = (int64_t)j * n;
    bool paired = imag[j] != 0 && j + 1 < n;
    for (int64_t i = at; i < at + n; i++) {
      store_complex(v, i, columns[i], paired ? columns[i + n] : 0);
      if (paired) store_complex(v, i + n, columns[i], -columns[i + n]);
    }
    j += paired;
  }
}

static bool geev(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  const char *job = c->vectors ? "V" : "N";
  int n = c->n, ld = most(n, 1), query = -1, info;
  int64_t square = c->vectors ? (int64_t)n * n : 0;
  real size = 1, *a = c->a, *values = c->s, *v = c->u;
  /* parts: real parts of the eigenvalues, then their imaginary parts, then the columns */
  Work w, parts;
  TL_TRY(work_new(&parts, 2.0 * n + (double)square, sizeof(real)));
  real *re = parts.data, *im = re + n, *columns = im + n;
  lib.geev("N", job, &n, a, &ld, re, im, NULL, &ld, columns, &ld, &size, &query, &info, 1, 1);
  bool ok = work_new(&w, (double)size, sizeof(real));
  for (int64_t i = begin; ok && i < end; i++) {
    lib.geev("N", job, &n, a + i * n * n, &ld, re, im, NULL, &ld, columns, &ld, w.data, &w.n,
             c->info + i, 1, 1);
    for (int j = 0; j < n; j++) store_complex(values, i * n + j, re[j], im[j]);
    if (c->vectors) store_vectors(columns, im, n, v + 2 * i * square);
  }
  if (ok) work_free(&w);
  work_free(&parts);
  return ok;
}

#endif

#define LAPACK_ROUTINES                                                                        \
  {                                                                                            \
    open_routines, potrf, getrf, getrs, geqrf, orgqr, gesdd, syevd, gelsd, sytrf, sytrs, trsm, \
        geev                                                                                   \
  }
