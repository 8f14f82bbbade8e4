/*
** solver.c - implements cuSOLVER and cuBLAS for the emulated build. When a routine is called, it
** checks the documented requirements: sizes, leading dimensions, a workspace of the requested size,
** aligned arrays, a stream. Then it queues the computation, for which it uses the CPU's LAPACK.
** Memory is accessed only when the stream reaches the computation, which also overwrites the
** workspace.
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

/* ---- logging and refusing -------------------------------------------------------------------- */

static bool tells(void) {
  const char *value = getenv("TLUA_EMULATED_SOLVER");
  return value && strcmp(value, "0") != 0;
}

/* Returns whether the test wants Jacobi's method to fail to converge. */
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

/* Checks the arguments that all routines have in common: a matrix of m rows, stored at a with
** the leading dimension ld. */
static bool good(const char *call, bool handle, int m, int n, int ld, const void *a, size_t bytes) {
  if (!handle) return refuse(call, "the handle was not created");
  if (m < 0 || n < 0) return refuse(call, "a negative size");
  if (ld < most(m, 1)) return refuse(call, "a leading dimension below the rows");
  return aligned(a, bytes) || refuse(call, "an array that is NULL or not aligned");
}

/* ---- work on the stream ---------------------------------------------------------------------- */

/* The arguments of a call. If `batch` is 0, the arrays belong to one matrix; otherwise they
** belong to a batch. */
typedef struct Job {
  void (*run)(const struct Job *job, int64_t i, void *a, void *b);
  tl_DType dtype;
  int m, n, k, nrhs, batch; /* the sizes of the matrices; a batch of 0 means a single matrix */
  /* bytes from one matrix to the next; -1 if the array has pointers to the matrices */
  int64_t step_a, step_b;
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

/* Converts a boolean to a status of cuSOLVER or cuBLAS. */
#define SOLVED(ok) ((ok) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE)
#define MULTIPLIED(ok) ((ok) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE)

/* ---- handles --------------------------------------------------------------------------------- */

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
/* Sets the stream; as in cuBLAS, this also resets the workspace. */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  *handle = (struct cublasContext){.stream = stream};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
  handle->workspace = workspace;
  handle->bytes = bytes;
  return MULTIPLIED(aligned(workspace, 256));
}

/* Checks the arguments of a cuBLAS call. A workspace must be set, because several streams would
** share the default one. */
static bool blas_good(const char *call, cublasHandle_t handle, int m, int n, int ld,
                      const void *a) {
  return good(call, handle, m, n, ld, a, sizeof(void *)) &&
         (handle->workspace || refuse(call, "no work space of the stream's"));
}

/* ---- the routines, in stream order ----------------------------------------------------------- */

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

/* Computes a singular value decomposition. The routine returns V (n, columns) in b, while LAPACK
** returns V^T. Even if no vectors are requested, the contents of both arrays are lost. */
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

/* Solves the transposed system x^T op(a)^T = b^T, because the CPU's kernels take row-major
** matrices. */
static void run_trsm(const Job *j, int64_t i, void *a, void *b) {
  (void)i;
  check(cpu()->trsm(here(), j->dtype, !j->left, !j->upper, j->transpose, j->unit, 1, j->n, j->m, a,
                    b));
}

/* ---- the routines for each precision --------------------------------------------------------- */

#define IN_ORDER(ld, rows) ((ld) == most(rows, 1) || refuse(name, "rows that are apart"))

#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define SOLVER(name) PASTE(cusolverDn, P, name)
#define BLAS(name) PASTE(cublas, P, name)
/* Makes a job that runs a routine; the remaining arguments initialize the job's fields. */
#define JOB(routine, ...) ((Job){routine, DTYPE, __VA_ARGS__})

#define P S
#define T float
#define DTYPE TL_F32
#include "spec/cuda/solver_calls.h"
#define P D
#define T double
#define DTYPE TL_F64
#include "spec/cuda/solver_calls.h"
