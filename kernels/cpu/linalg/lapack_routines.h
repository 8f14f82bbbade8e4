/*
** lapack_routines.h - the routines of LAPACK in one precision: lapack_<type>.c defines `real` and
** P, the letter that begins their names, and includes this file. Fortran's calling convention
** passes everything by address, and a hidden length for each character.
*/
#include "core/memory/alloc.h"
#include "core/error.h"
#include "kernels/cpu/linalg/lapack_call.h"
#include "kernels/cpu/matmul/blas.h"

/* The library's routines of one precision. */
static struct {
  void (*potrf)(const char *, const int *, real *, const int *, int *, size_t);
  void (*getrf)(const int *, const int *, real *, const int *, int *, int *);
  void (*getrs)(const char *, const int *, const int *, const real *, const int *, const int *,
                real *, const int *, int *, size_t);
  void (*geqrf)(const int *, const int *, real *, const int *, real *, real *, const int *, int *);
  void (*orgqr)(const int *, const int *, const int *, real *, const int *, const real *, real *,
                const int *, int *);
  void (*gesdd)(const char *, const int *, const int *, real *, const int *, real *, real *,
                const int *, real *, const int *, real *, const int *, int *, int *, size_t);
  void (*syevd)(const char *, const char *, const int *, real *, const int *, real *, real *,
                const int *, int *, const int *, int *, size_t, size_t);
  void (*gelsd)(const int *, const int *, const int *, real *, const int *, real *, const int *,
                real *, const real *, int *, real *, const int *, int *, int *);
  void (*sytrf)(const char *, const int *, real *, const int *, int *, real *, const int *, int *,
                size_t);
  void (*sytrs)(const char *, const int *, const int *, const real *, const int *, const int *,
                real *, const int *, int *, size_t);
  void (*trsm)(int, int, int, int, int, int, int, real, const real *, int, real *, int);
} lib;

static bool load_routine(void *member, const char *name) {
  void *symbol = tlk_blas_symbol(name);
  *(void **)member = symbol;
  return symbol != NULL;
}

static bool open_routines(void) {
  return load_routine(&lib.potrf, P "potrf_") && load_routine(&lib.getrf, P "getrf_") &&
         load_routine(&lib.getrs, P "getrs_") && load_routine(&lib.geqrf, P "geqrf_") &&
         load_routine(&lib.orgqr, P "orgqr_") && load_routine(&lib.gesdd, P "gesdd_") &&
         load_routine(&lib.syevd, P "syevd_") && load_routine(&lib.gelsd, P "gelsd_") &&
         load_routine(&lib.sytrf, P "sytrf_") && load_routine(&lib.sytrs, P "sytrs_") &&
         load_routine(&lib.trsm, "cblas_" P "trsm");
}

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

static bool potrf(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int n = c->n, ld = most(n, 1);
  for (int64_t i = begin; i < end; i++)
    lib.potrf("L", &n, (real *)c->a + i * n * n, &ld, c->info + i, 1);
  return true;
}

static bool getrf(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, ld = most(m, 1), k = least(m, n);
  for (int64_t i = begin; i < end; i++)
    lib.getrf(&m, &n, (real *)c->a + i * m * n, &ld, c->pivots + i * k, c->info + i);
  return true;
}

static bool getrs(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int n = c->n, nrhs = c->nrhs, ld = most(n, 1), info;
  for (int64_t i = begin; i < end; i++)
    lib.getrs("N", &n, &nrhs, (const real *)c->in + i * n * n, &ld, c->pivots_in + i * n,
              (real *)c->b + i * n * nrhs, &ld, &info, 1);
  return true;
}

static bool geqrf(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, ld = most(m, 1), k = least(m, n), query = -1, info;
  real size = 1, *a = c->a, *tau = c->b;
  Work w;
  lib.geqrf(&m, &n, a, &ld, tau, &size, &query, &info);
  TL_TRY(work_new(&w, (double)size, sizeof(real)));
  for (int64_t i = begin; i < end; i++)
    lib.geqrf(&m, &n, a + i * m * n, &ld, tau + i * k, w.data, &w.n, &info);
  work_free(&w);
  return true;
}

static bool orgqr(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, k = c->k, ld = most(m, 1), query = -1, info;
  real size = 1, *a = c->a;
  const real *tau = c->in;
  Work w;
  lib.orgqr(&m, &n, &k, a, &ld, tau, &size, &query, &info);
  TL_TRY(work_new(&w, (double)size, sizeof(real)));
  for (int64_t i = begin; i < end; i++)
    lib.orgqr(&m, &n, &k, a + i * m * n, &ld, tau + i * k, w.data, &w.n, &info);
  work_free(&w);
  return true;
}

static bool gesdd(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  char job = c->job;
  int m = c->m, n = c->n, k = least(m, n), ld = most(m, 1), query = -1, info;
  int ucols = job == 'A' ? m : job == 'S' ? k : 0, vrows = job == 'A' ? n : job == 'S' ? k : 0;
  int ldvt = most(vrows, 1);
  real size = 1, *a = c->a, *s = c->s, *u = c->u, *vt = c->vt;
  Work w, iw;
  TL_TRY(work_new(&iw, 8.0 * k, sizeof(int)));
  lib.gesdd(&job, &m, &n, a, &ld, s, u, &ld, vt, &ldvt, &size, &query, iw.data, &info, 1);
  bool ok = work_new(&w, (double)size, sizeof(real));
  for (int64_t i = begin; ok && i < end; i++)
    lib.gesdd(&job, &m, &n, a + i * m * n, &ld, s + i * k, u + i * m * ucols, &ld,
              vt + i * vrows * n, &ldvt, w.data, &w.n, iw.data, c->info + i, 1);
  if (ok) work_free(&w);
  work_free(&iw);
  return ok;
}

static bool syevd(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  const char *job = c->vectors ? "V" : "N", *part = c->upper ? "U" : "L";
  int n = c->n, ld = most(n, 1), query = -1, isize = 1, info;
  real size = 1, *a = c->a, *values = c->s;
  Work w, iw;
  lib.syevd(job, part, &n, a, &ld, values, &size, &query, &isize, &query, &info, 1, 1);
  TL_TRY(work_new(&w, (double)size, sizeof(real)));
  bool ok = work_new(&iw, isize, sizeof(int));
  for (int64_t i = begin; ok && i < end; i++)
    lib.syevd(job, part, &n, a + i * n * n, &ld, values + i * n, w.data, &w.n, iw.data, &iw.n,
              c->info + i, 1, 1);
  if (ok) work_free(&iw);
  work_free(&w);
  return ok;
}

static bool gelsd(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, nrhs = c->nrhs, ld = most(m, 1), ldb = most(most(m, n), 1);
  int k = least(m, n), query = -1, isize = 1, info;
  real size = 1, limit = (real)c->rcond, *a = c->a, *b = c->b, *s = c->s;
  Work w, iw;
  lib.gelsd(&m, &n, &nrhs, a, &ld, b, &ldb, s, &limit, c->rank + begin, &size, &query, &isize,
            &info);
  TL_TRY(work_new(&w, (double)size, sizeof(real)));
  bool ok = work_new(&iw, isize, sizeof(int));
  for (int64_t i = begin; ok && i < end; i++)
    lib.gelsd(&m, &n, &nrhs, a + i * m * n, &ld, b + i * ldb * nrhs, &ldb, s + i * k, &limit,
              c->rank + i, w.data, &w.n, iw.data, c->info + i);
  if (ok) work_free(&iw);
  work_free(&w);
  return ok;
}

static bool sytrf(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int n = c->n, ld = most(n, 1), query = -1, info;
  real size = 1, *a = c->a;
  Work w;
  lib.sytrf("L", &n, a, &ld, c->pivots, &size, &query, &info, 1);
  TL_TRY(work_new(&w, (double)size, sizeof(real)));
  for (int64_t i = begin; i < end; i++)
    lib.sytrf("L", &n, a + i * n * n, &ld, c->pivots + i * n, w.data, &w.n, c->info + i, 1);
  work_free(&w);
  return true;
}

static bool sytrs(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int n = c->n, nrhs = c->nrhs, ld = most(n, 1), info;
  for (int64_t i = begin; i < end; i++)
    lib.sytrs("L", &n, &nrhs, (const real *)c->in + i * n * n, &ld, c->pivots_in + i * n,
              (real *)c->b + i * n * nrhs, &ld, &info, 1);
  return true;
}

static bool trsm(const tlk_LapackCall *c, int64_t begin, int64_t end) {
  int m = c->m, n = c->n, k = c->left ? m : n;
  for (int64_t i = begin; i < end && m > 0 && n > 0; i++)
    lib.trsm(TLK_ROW_MAJOR, c->left ? 141 : 142, c->upper ? 121 : 122,
             c->transpose ? TLK_TRANS : TLK_NO_TRANS, c->unit ? 132 : 131, m, n, (real)1,
             (const real *)c->in + i * k * k, most(k, 1), (real *)c->b + i * m * n, most(n, 1));
  return true;
}

#define LAPACK_ROUTINES \
  { open_routines, potrf, getrf, getrs, geqrf, orgqr, gesdd, syevd, gelsd, sytrf, sytrs, trsm }
