/*
** solver.c - implements cuSOLVER and cuBLAS for the emulated build. Documented requirements on
** arguments are checked when a routine is called: sizes, leading dimensions, work space of the
** requested size, aligned arrays, a stream. The CPU's LAPACK computes in stream order, and only
** then is the memory accessed; work space is overwritten.
**
** TLUA_EMULATED_SOLVER=1 logs each call on stderr.
*/
#include <cusolverDn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plugin.h"
#include "spec/cuda/library.h"

struct cusolverDnContext {
  cudaStream_t stream;
};
struct cublasContext {
  cudaStream_t stream;
  void *workspace;
  size_t bytes;
};
struct syevjInfo {
  int unused;
};
struct gesvdjInfo {
  int unused;
};

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

/* ---- what is told and refused ---------------------------------------------------------------- */

static bool tells(void) {
  const char *value = getenv("TLUA_EMULATED_SOLVER");
  return value && strcmp(value, "0") != 0;
}

/* Returns whether Jacobi rotations must fail to converge. */
static bool is_stuck(void) {
  const char *value = getenv("TLUA_EMULATED_SOLVER");
  return value && strcmp(value, "stuck") == 0;
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...) {
  va_list args;
  if (!tells()) return;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
}

static bool refuse(const char *call, const char *what) {
  fprintf(stderr, "emulated %s: %s\n", call, what);
  return false;
}

static bool aligned(const void *p, size_t bytes) { return p && (uintptr_t)p % bytes == 0; }

/* Checks arguments common to all routines: m rows with a leading dimension, and an array of
** elements. */
static bool good(const char *call, bool handle, int m, int n, int ld, const void *a, size_t bytes) {
  if (!handle) return refuse(call, "the handle was not created");
  if (m < 0 || n < 0) return refuse(call, "a negative size");
  if (ld < most(m, 1)) return refuse(call, "a leading dimension below the rows");
  return aligned(a, bytes) || refuse(call, "an array that is NULL or not aligned");
}

/* ---- work on the stream ------------------------------------------------------------------------ */

/* A call. `a` and the other arrays are those of one matrix or, if `batch` is not 0, arrays of
** pointers. */
typedef struct Job {
  void (*run)(const struct Job *job, int64_t i, void *a, void *b);
  tl_DType dtype;
  int m, n, k, nrhs, batch; /* sizes; batch 0 means that there are no arrays of pointers */
  int64_t step_a, step_b;   /* bytes from one matrix to the next; -1: arrays of pointers */
  bool vectors, upper, left, transpose, unit;
  char job;
  int ld_a, ld_b;
  void *a, *b, *s, *work;
  int64_t work_bytes;
  const void *in;
  int *pivots, *info;
} Job;

static const tlk_Lapack *cpu(void) { return cuda_host->cpu->lapack; }
static const tlk_Context *here(void) {
  static const tlk_Context cx = {.device = {TL_CPU, 0}};
  return &cx;
}

static void check(bool ok) {
  if (ok) return;
  fprintf(stderr, "emulated cuSOLVER: the CPU's LAPACK failed: %s\n", cuda_host->error());
  abort();
}

static void *matrix(const Job *j, void *base, int64_t step, int64_t i) {
  if (base == NULL) return NULL;
  return j->batch > 0 && step < 0 ? ((void **)base)[i] : (char *)base + step * i;
}

static void run(void *copy) {
  const Job *j = copy;
  if (j->work) memset(j->work, 0xff, (size_t)j->work_bytes); /* NaN */
  for (int64_t i = 0; i < most(j->batch, 1); i++)
    j->run(j, i, matrix(j, j->a, j->step_a, i), matrix(j, j->b, j->step_b, i));
}

static bool put(cudaStream_t stream, const Job *job) {
  return tlk_emulated_put(stream, run, job, sizeof *job) == cudaSuccess;
}

/* Converts a result to a status of cuSOLVER or cuBLAS. */
#define SOLVED(ok) ((ok) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE)
#define MULTIPLIED(ok) ((ok) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE)

/* ---- handles ------------------------------------------------------------------------------------- */

cusolverStatus_t cusolverGetProperty(libraryPropertyType type, int *value) {
  *value = type == MAJOR_VERSION ? 12 : 0;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle) {
  *handle = calloc(1, sizeof **handle);
  return SOLVED(*handle);
}
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnCreateSyevjInfo(syevjInfo_t *info) {
  *info = calloc(1, sizeof **info);
  return SOLVED(*info);
}
cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t *info) {
  *info = calloc(1, sizeof **info);
  return SOLVED(*info);
}
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
  *handle = calloc(1, sizeof **handle);
  return MULTIPLIED(*handle);
}
/* Sets the stream, which also resets the work space, as in cuBLAS. */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  *handle = (struct cublasContext){.stream = stream};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
  handle->workspace = workspace;
  handle->bytes = bytes;
  return MULTIPLIED(aligned(workspace, 256));
}

/* Checks a call of cuBLAS: streams must never share the library's own work space. */
static bool blas_good(const char *call, cublasHandle_t handle, int m, int n, int ld,
                      const void *a) {
  return good(call, handle, m, n, ld, a, sizeof(void *)) &&
         (handle->workspace || refuse(call, "no work space of the stream's"));
}

/* ---- the routines, when their turn has come -------------------------------------------------------- */

static void run_potrf(const Job *j, int64_t i, void *a, void *b) {
  (void)b;
  check(cpu()->potrf(here(), j->dtype, 1, j->n, a, j->info + i));
}
static void run_getrf(const Job *j, int64_t i, void *a, void *b) {
  (void)b;
  check(cpu()->getrf(here(), j->dtype, 1, j->m, j->n, a, j->pivots + i * least(j->m, j->n),
                     j->info + i));
}
static void run_getrs(const Job *j, int64_t i, void *a, void *b) {
  check(cpu()->getrs(here(), j->dtype, 1, j->n, j->nrhs, a, j->pivots + i * j->n, b));
}
static void run_geqrf(const Job *j, int64_t i, void *a, void *b) {
  (void)i;
  check(cpu()->geqrf(here(), j->dtype, 1, j->m, j->n, a, b));
}
static void run_orgqr(const Job *j, int64_t i, void *a, void *b) {
  (void)i;
  check(cpu()->orgqr(here(), j->dtype, 1, j->m, j->n, j->k, a, b));
}
static void run_syevd(const Job *j, int64_t i, void *a, void *b) {
  check(cpu()->syevd(here(), j->dtype, j->vectors, j->upper, 1, j->n, a, b, j->info + i));
}

/* Computes a singular value decomposition. b is V (n, columns); LAPACK returns its transpose.
** Without vectors both are still overwritten. */
static void run_gesvdj(const Job *j, int64_t i, void *a, void *b) {
  int k = least(j->m, j->n), uc = j->job == 'S' ? k : j->m, vc = j->job == 'S' ? k : j->n;
  size_t bytes = j->dtype == TL_F64 ? 8 : 4;
  char *u = (char *)j->in + (size_t)i * (size_t)j->m * (size_t)uc * bytes;
  char *s = (char *)j->s + (size_t)i * (size_t)k * bytes;
  char *vt = malloc((size_t)j->n * (size_t)vc * bytes + 1);
  if (vt == NULL) abort();
  check(cpu()->gesdd(here(), j->dtype, j->job, 1, j->m, j->n, a, s, u, vt, j->info + i));
  for (int r = 0; r < j->n; r++)
    for (int c = 0; c < vc; c++)
      memcpy((char *)b + ((size_t)c * (size_t)j->n + (size_t)r) * bytes,
             vt + ((size_t)r * (size_t)vc + (size_t)c) * bytes, bytes);
  if (!j->vectors) {
    memset(u, 0xff, (size_t)j->m * (size_t)uc * bytes);
    memset(b, 0xff, (size_t)j->n * (size_t)vc * bytes);
  }
  free(vt);
  if (!is_stuck()) return;
  memset(s, 0xff, (size_t)k * bytes);
  j->info[i] = j->n + 1;
}

/* Solves with columns as rows: x^T op(a)^T = b^T, in row-major matrices for the CPU. */
static void run_trsm(const Job *j, int64_t i, void *a, void *b) {
  (void)i;
  check(cpu()->trsm(here(), j->dtype, !j->left, !j->upper, j->transpose, j->unit, 1, j->n, j->m, a,
                    b));
}

/* ---- by precision ----------------------------------------------------------------------------------- */

#define IN_ORDER(ld, rows) ((ld) == most(rows, 1) || refuse(name, "rows that are apart"))

#define DEFINE(P, T, TYPE)                                                                         \
  cusolverStatus_t cusolverDn##P##potrf_bufferSize(cusolverDnHandle_t h, cublasFillMode_t uplo,    \
                                                   int n, T *a, int lda, int *size) {              \
    (void)uplo;                                                                                    \
    *size = 3 * n + 7;                                                                             \
    return SOLVED(good("potrf_bufferSize", h, n, n, lda, a, sizeof *a));                           \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##potrf(cusolverDnHandle_t h, cublasFillMode_t uplo, int n, T *a,  \
                                        int lda, T *work, int size, int *info) {                   \
    static const char name[] = "potrf";                                                            \
    tell("%s n=%d\n", name, n);                                                                    \
    Job job = {run_potrf,                                                                          \
               TYPE,                                                                               \
               .n = n,                                                                             \
               .a = a,                                                                             \
               .info = info,                                                                       \
               .work = work,                                                                       \
               .work_bytes = size * (int64_t)sizeof(T)};                                           \
    return SOLVED(good(name, h, n, n, lda, a, sizeof *a) && IN_ORDER(lda, n) &&                    \
                  aligned(info, 4) && aligned(work, sizeof(T)) && size >= 3 * n + 7 &&             \
                  uplo == CUBLAS_FILL_MODE_LOWER && put(h->stream, &job));                         \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##potrfBatched(cusolverDnHandle_t h, cublasFillMode_t uplo, int n, \
                                               T *a[], int lda, int *info, int batch) {            \
    static const char name[] = "potrfBatched";                                                     \
    tell("%s n=%d batch=%d\n", name, n, batch);                                                    \
    Job job = {run_potrf, TYPE, .n = n, .a = a, .step_a = -1, .info = info, .batch = batch};       \
    return SOLVED(good(name, h, n, n, lda, a, sizeof *a) && IN_ORDER(lda, n) &&                    \
                  aligned(info, 4) && uplo == CUBLAS_FILL_MODE_LOWER && put(h->stream, &job));     \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##getrf_bufferSize(cusolverDnHandle_t h, int m, int n, T *a,       \
                                                   int lda, int *size) {                           \
    *size = m + 2 * n + 5;                                                                         \
    return SOLVED(good("getrf_bufferSize", h, m, n, lda, a, sizeof *a));                           \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##getrf(cusolverDnHandle_t h, int m, int n, T *a, int lda,         \
                                        T *work, int *pivots, int *info) {                         \
    static const char name[] = "getrf";                                                            \
    tell("%s m=%d n=%d\n", name, m, n);                                                            \
    Job job = {run_getrf,    TYPE,         .m = m,                                                 \
               .n = n,       .a = a,       .pivots = pivots,                                       \
               .info = info, .work = work, .work_bytes = (m + 2 * n + 5) * (int64_t)sizeof(T)};    \
    return SOLVED(good(name, h, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) &&                    \
                  aligned(info, 4) && aligned(pivots, 4) && aligned(work, sizeof(T)) &&            \
                  put(h->stream, &job));                                                           \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##getrs(cusolverDnHandle_t h, cublasOperation_t trans, int n,      \
                                        int nrhs, const T *a, int lda, const int *pivots, T *b,    \
                                        int ldb, int *info) {                                      \
    static const char name[] = "getrs";                                                            \
    tell("%s n=%d nrhs=%d\n", name, n, nrhs);                                                      \
    Job job = {run_getrs,                                                                          \
               TYPE,                                                                               \
               .n = n,                                                                             \
               .nrhs = nrhs,                                                                       \
               .a = (void *)(uintptr_t)a,                                                          \
               .b = b,                                                                             \
               .pivots = (int *)(uintptr_t)pivots};                                                \
    return SOLVED(good(name, h, n, nrhs, lda, a, sizeof *a) &&                                     \
                  good(name, h, n, nrhs, ldb, b, sizeof *b) && IN_ORDER(lda, n) &&                 \
                  IN_ORDER(ldb, n) && aligned(info, 4) && aligned(pivots, 4) &&                    \
                  trans == CUBLAS_OP_N && put(h->stream, &job));                                   \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##geqrf_bufferSize(cusolverDnHandle_t h, int m, int n, T *a,       \
                                                   int lda, int *size) {                           \
    *size = 2 * m + n + 3;                                                                         \
    return SOLVED(good("geqrf_bufferSize", h, m, n, lda, a, sizeof *a));                           \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##geqrf(cusolverDnHandle_t h, int m, int n, T *a, int lda, T *tau, \
                                        T *work, int size, int *info) {                            \
    static const char name[] = "geqrf";                                                            \
    tell("%s m=%d n=%d\n", name, m, n);                                                            \
    Job job = {run_geqrf, TYPE,     .m = m,       .n = n,                                          \
               .a = a,    .b = tau, .work = work, .work_bytes = size * (int64_t)sizeof(T)};        \
    return SOLVED(good(name, h, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) &&                    \
                  aligned(info, 4) && aligned(tau, sizeof(T)) && aligned(work, sizeof(T)) &&       \
                  size >= 2 * m + n + 3 && put(h->stream, &job));                                  \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##orgqr_bufferSize(cusolverDnHandle_t h, int m, int n, int k,      \
                                                   const T *a, int lda, const T *tau, int *size) { \
    *size = m + n + k + 9;                                                                         \
    return SOLVED(good("orgqr_bufferSize", h, m, n, lda, a, sizeof *a) &&                          \
                  aligned(tau, sizeof(T)) && n <= m && k <= n);                                    \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##orgqr(cusolverDnHandle_t h, int m, int n, int k, T *a, int lda,  \
                                        const T *tau, T *work, int size, int *info) {              \
    static const char name[] = "orgqr";                                                            \
    tell("%s m=%d n=%d k=%d\n", name, m, n, k);                                                    \
    Job job = {run_orgqr,                                                                          \
               TYPE,                                                                               \
               .m = m,                                                                             \
               .n = n,                                                                             \
               .k = k,                                                                             \
               .a = a,                                                                             \
               .b = (void *)(uintptr_t)tau,                                                        \
               .work = work,                                                                       \
               .work_bytes = size * (int64_t)sizeof(T)};                                           \
    return SOLVED(good(name, h, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) &&                    \
                  aligned(info, 4) && aligned(tau, sizeof(T)) && aligned(work, sizeof(T)) &&       \
                  size >= m + n + k + 9 && n <= m && k <= n && put(h->stream, &job));              \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##syevd_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t mode,   \
                                                   cublasFillMode_t uplo, int n, const T *a,       \
                                                   int lda, const T *w, int *size) {               \
    (void)uplo;                                                                                    \
    *size = (mode ? 2 : 1) * n * n + 11;                                                           \
    return SOLVED(good("syevd_bufferSize", h, n, n, lda, a, sizeof *a) && aligned(w, sizeof(T)));  \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##syevd(cusolverDnHandle_t h, cusolverEigMode_t mode,              \
                                        cublasFillMode_t uplo, int n, T *a, int lda, T *w,         \
                                        T *work, int size, int *info) {                            \
    static const char name[] = "syevd";                                                            \
    tell("%s n=%d\n", name, n);                                                                    \
    Job job = {run_syevd,                                                                          \
               TYPE,                                                                               \
               .n = n,                                                                             \
               .a = a,                                                                             \
               .b = w,                                                                             \
               .vectors = mode,                                                                    \
               .upper = uplo == CUBLAS_FILL_MODE_UPPER,                                            \
               .info = info,                                                                       \
               .work = work,                                                                       \
               .work_bytes = size * (int64_t)sizeof(T)};                                           \
    return SOLVED(good(name, h, n, n, lda, a, sizeof *a) && IN_ORDER(lda, n) &&                    \
                  aligned(info, 4) && aligned(w, sizeof(T)) && aligned(work, sizeof(T)) &&         \
                  size >= (mode ? 2 : 1) * n * n + 11 && put(h->stream, &job));                    \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##syevjBatched_bufferSize(                                         \
      cusolverDnHandle_t h, cusolverEigMode_t mode, cublasFillMode_t uplo, int n, const T *a,      \
      int lda, const T *w, int *size, syevjInfo_t params, int batch) {                             \
    (void)mode, (void)uplo;                                                                        \
    *size = batch * n + 13;                                                                        \
    return SOLVED(good("syevjBatched_bufferSize", h && params, n, n, lda, a, sizeof *a) &&         \
                  aligned(w, sizeof(T)));                                                          \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##syevjBatched(                                                    \
      cusolverDnHandle_t h, cusolverEigMode_t mode, cublasFillMode_t uplo, int n, T *a, int lda,   \
      T *w, T *work, int size, int *info, syevjInfo_t params, int batch) {                         \
    static const char name[] = "syevjBatched";                                                     \
    tell("%s n=%d batch=%d\n", name, n, batch);                                                    \
    Job job = {run_syevd,                                                                          \
               TYPE,                                                                               \
               .n = n,                                                                             \
               .a = a,                                                                             \
               .b = w,                                                                             \
               .batch = batch,                                                                     \
               .step_a = (int64_t)n * n * (int64_t)sizeof(T),                                      \
               .step_b = n * (int64_t)sizeof(T),                                                   \
               .vectors = mode,                                                                    \
               .upper = uplo == CUBLAS_FILL_MODE_UPPER,                                            \
               .info = info,                                                                       \
               .work = work,                                                                       \
               .work_bytes = size * (int64_t)sizeof(T)};                                           \
    return SOLVED(good(name, h && params, n, n, lda, a, sizeof *a) && IN_ORDER(lda, n) &&          \
                  aligned(info, 4) && aligned(w, sizeof(T)) && aligned(work, sizeof(T)) &&         \
                  size >= batch * n + 13 && n <= 32 && put(h->stream, &job));                      \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##gesvdj_bufferSize(                                               \
      cusolverDnHandle_t h, cusolverEigMode_t mode, int econ, int m, int n, const T *a, int lda,   \
      const T *s, const T *u, int ldu, const T *v, int ldv, int *size, gesvdjInfo_t params) {      \
    (void)mode, (void)econ;                                                                        \
    *size = 2 * m * n + 17;                                                                        \
    return SOLVED(good("gesvdj_bufferSize", h && params, m, n, lda, a, sizeof *a) &&               \
                  aligned(s, sizeof(T)) && aligned(u, sizeof(T)) && aligned(v, sizeof(T)) &&       \
                  ldu >= m && ldv >= n);                                                           \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##gesvdj(                                                          \
      cusolverDnHandle_t h, cusolverEigMode_t mode, int econ, int m, int n, T *a, int lda, T *s,   \
      T *u, int ldu, T *v, int ldv, T *work, int size, int *info, gesvdjInfo_t params) {           \
    static const char name[] = "gesvdj";                                                           \
    tell("%s m=%d n=%d econ=%d\n", name, m, n, econ);                                              \
    Job job = {run_gesvdj,                                                                         \
               TYPE,                                                                               \
               .m = m,                                                                             \
               .n = n,                                                                             \
               .a = a,                                                                             \
               .b = v,                                                                             \
               .s = s,                                                                             \
               .in = u,                                                                            \
               .job = econ ? 'S' : 'A',                                                            \
               .vectors = mode,                                                                    \
               .info = info,                                                                       \
               .work = work,                                                                       \
               .work_bytes = size * (int64_t)sizeof(T)};                                           \
    return SOLVED(good(name, h && params, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) &&          \
                  IN_ORDER(ldu, m) && IN_ORDER(ldv, n) && aligned(info, 4) &&                      \
                  aligned(s, sizeof(T)) && aligned(u, sizeof(T)) && aligned(v, sizeof(T)) &&       \
                  aligned(work, sizeof(T)) && size >= 2 * m * n + 17 && put(h->stream, &job));     \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##gesvdjBatched_bufferSize(                                        \
      cusolverDnHandle_t h, cusolverEigMode_t mode, int m, int n, const T *a, int lda, const T *s, \
      const T *u, int ldu, const T *v, int ldv, int *size, gesvdjInfo_t params, int batch) {       \
    (void)mode;                                                                                    \
    *size = batch * m + n + 19;                                                                    \
    return SOLVED(good("gesvdjBatched_bufferSize", h && params, m, n, lda, a, sizeof *a) &&        \
                  aligned(s, sizeof(T)) && aligned(u, sizeof(T)) && aligned(v, sizeof(T)) &&       \
                  ldu >= m && ldv >= n);                                                           \
  }                                                                                                \
  cusolverStatus_t cusolverDn##P##gesvdjBatched(                                                   \
      cusolverDnHandle_t h, cusolverEigMode_t mode, int m, int n, T *a, int lda, T *s, T *u,       \
      int ldu, T *v, int ldv, T *work, int size, int *info, gesvdjInfo_t params, int batch) {      \
    static const char name[] = "gesvdjBatched";                                                    \
    tell("%s m=%d n=%d batch=%d\n", name, m, n, batch);                                            \
    Job job = {run_gesvdj,                                                                         \
               TYPE,                                                                               \
               .m = m,                                                                             \
               .n = n,                                                                             \
               .a = a,                                                                             \
               .b = v,                                                                             \
               .s = s,                                                                             \
               .in = u,                                                                            \
               .job = 'A',                                                                         \
               .batch = batch,                                                                     \
               .step_a = (int64_t)m * n * (int64_t)sizeof(T),                                      \
               .step_b = (int64_t)n * n * (int64_t)sizeof(T),                                      \
               .vectors = mode,                                                                    \
               .info = info,                                                                       \
               .work = work,                                                                       \
               .work_bytes = size * (int64_t)sizeof(T)};                                           \
    return SOLVED(good(name, h && params, m, n, lda, a, sizeof *a) && IN_ORDER(lda, m) &&          \
                  IN_ORDER(ldu, m) && IN_ORDER(ldv, n) && aligned(info, 4) &&                      \
                  aligned(s, sizeof(T)) && aligned(u, sizeof(T)) && aligned(v, sizeof(T)) &&       \
                  aligned(work, sizeof(T)) && size >= batch * m + n + 19 && m <= 32 && n <= 32 &&  \
                  put(h->stream, &job));                                                           \
  }                                                                                                \
  cublasStatus_t cublas##P##getrfBatched(cublasHandle_t h, int n, T *const a[], int lda,           \
                                         int *pivots, int *info, int batch) {                      \
    static const char name[] = "getrfBatched";                                                     \
    tell("%s n=%d batch=%d\n", name, n, batch);                                                    \
    Job job = {                                                                                    \
        run_getrf,    TYPE,           .m = n,           .n = n,      .a = (void *)(uintptr_t)a,    \
        .step_a = -1, .batch = batch, .pivots = pivots, .info = info};                             \
    return MULTIPLIED(blas_good(name, h, n, n, lda, a) && IN_ORDER(lda, n) &&                      \
                      aligned(pivots, 4) && aligned(info, 4) && put(h->stream, &job));             \
  }                                                                                                \
  cublasStatus_t cublas##P##getrsBatched(cublasHandle_t h, cublasOperation_t trans, int n,         \
                                         int nrhs, const T *const a[], int lda, const int *pivots, \
                                         T *const b[], int ldb, int *host_info, int batch) {       \
    static const char name[] = "getrsBatched";                                                     \
    tell("%s n=%d nrhs=%d batch=%d\n", name, n, nrhs, batch);                                      \
    *host_info = 0;                                                                                \
    Job job = {run_getrs,                                                                          \
               TYPE,                                                                               \
               .n = n,                                                                             \
               .nrhs = nrhs,                                                                       \
               .a = (void *)(uintptr_t)a,                                                          \
               .b = (void *)(uintptr_t)b,                                                          \
               .step_a = -1,                                                                       \
               .step_b = -1,                                                                       \
               .batch = batch,                                                                     \
               .pivots = (int *)(uintptr_t)pivots};                                                \
    return MULTIPLIED(blas_good(name, h, n, nrhs, lda, a) &&                                       \
                      blas_good(name, h, n, nrhs, ldb, b) && IN_ORDER(lda, n) &&                   \
                      IN_ORDER(ldb, n) && aligned(pivots, 4) && trans == CUBLAS_OP_N &&            \
                      put(h->stream, &job));                                                       \
  }                                                                                                \
  cublasStatus_t cublas##P##geqrfBatched(cublasHandle_t h, int m, int n, T *const a[], int lda,    \
                                         T *const tau[], int *host_info, int batch) {              \
    static const char name[] = "geqrfBatched";                                                     \
    tell("%s m=%d n=%d batch=%d\n", name, m, n, batch);                                            \
    *host_info = 0;                                                                                \
    Job job = {run_geqrf,                                                                          \
               TYPE,                                                                               \
               .m = m,                                                                             \
               .n = n,                                                                             \
               .a = (void *)(uintptr_t)a,                                                          \
               .b = (void *)(uintptr_t)tau,                                                        \
               .step_a = -1,                                                                       \
               .step_b = -1,                                                                       \
               .batch = batch};                                                                    \
    return MULTIPLIED(blas_good(name, h, m, n, lda, a) && IN_ORDER(lda, m) &&                      \
                      aligned(tau, sizeof *tau) && put(h->stream, &job));                          \
  }                                                                                                \
  cublasStatus_t cublas##P##trsm_v2(                                                               \
      cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t trans,     \
      cublasDiagType_t diag, int m, int n, const T *alpha, const T *a, int lda, T *b, int ldb) {   \
    static const char name[] = "trsm";                                                             \
    int k = side == CUBLAS_SIDE_LEFT ? m : n;                                                      \
    tell("%s m=%d n=%d\n", name, m, n);                                                            \
    Job job = {run_trsm,                                                                           \
               TYPE,                                                                               \
               .m = m,                                                                             \
               .n = n,                                                                             \
               .a = (void *)(uintptr_t)a,                                                          \
               .b = b,                                                                             \
               .left = side == CUBLAS_SIDE_LEFT,                                                   \
               .upper = uplo == CUBLAS_FILL_MODE_UPPER,                                            \
               .transpose = trans == CUBLAS_OP_T,                                                  \
               .unit = diag == CUBLAS_DIAG_UNIT};                                                  \
    return MULTIPLIED(good(name, h && h->workspace, k, k, lda, a, sizeof(T)) &&                    \
                      good(name, h, m, n, ldb, b, sizeof(T)) && IN_ORDER(lda, k) &&                \
                      IN_ORDER(ldb, m) && *alpha == 1 && put(h->stream, &job));                    \
  }                                                                                                \
  cublasStatus_t cublas##P##trsmBatched(                                                           \
      cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t trans,     \
      cublasDiagType_t diag, int m, int n, const T *alpha, const T *const a[], int lda,            \
      T *const b[], int ldb, int batch) {                                                          \
    static const char name[] = "trsmBatched";                                                      \
    int k = side == CUBLAS_SIDE_LEFT ? m : n;                                                      \
    tell("%s m=%d n=%d batch=%d\n", name, m, n, batch);                                            \
    Job job = {run_trsm,                                                                           \
               TYPE,                                                                               \
               .m = m,                                                                             \
               .n = n,                                                                             \
               .a = (void *)(uintptr_t)a,                                                          \
               .b = (void *)(uintptr_t)b,                                                          \
               .step_a = -1,                                                                       \
               .step_b = -1,                                                                       \
               .batch = batch,                                                                     \
               .left = side == CUBLAS_SIDE_LEFT,                                                   \
               .upper = uplo == CUBLAS_FILL_MODE_UPPER,                                            \
               .transpose = trans == CUBLAS_OP_T,                                                  \
               .unit = diag == CUBLAS_DIAG_UNIT};                                                  \
    return MULTIPLIED(blas_good(name, h, k, k, lda, a) && blas_good(name, h, m, n, ldb, b) &&      \
                      IN_ORDER(lda, k) && IN_ORDER(ldb, m) && *alpha == 1 &&                       \
                      put(h->stream, &job));                                                       \
  }
DEFINE(S, float, TL_F32)
DEFINE(D, double, TL_F64)
