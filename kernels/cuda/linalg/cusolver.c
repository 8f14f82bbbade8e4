/*
** cusolver.c - the factorizations of core/kernel/lapack.h by cuSOLVER and cuBLAS, which are
** loaded on first use. Without them, LAPACK computes on the host.
**
** Each device has one handle of either library. A routine takes the device's lock, sets the
** handles' stream, and gives both a workspace from that stream's memory. Batches of small
** matrices use batched routines; larger matrices use one call each.
*/
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/linalg/linalg.h"
#include "kernels/cuda/plugin.h"

#if __has_include(<cusolverDn.h>) && __has_include(<cublas_v2.h>)

#include <cublas_v2.h>
#include <cusolverDn.h>

/* The functions of the libraries that tlua calls, as X(name); P is the precision's letter. */
#define SOLVER_OF(X, P)                      \
  X(cusolverDn##P##potrf_bufferSize)         \
  X(cusolverDn##P##potrf)                    \
  X(cusolverDn##P##potrfBatched)             \
  X(cusolverDn##P##getrf_bufferSize)         \
  X(cusolverDn##P##getrf)                    \
  X(cusolverDn##P##getrs)                    \
  X(cusolverDn##P##geqrf_bufferSize)         \
  X(cusolverDn##P##geqrf)                    \
  X(cusolverDn##P##orgqr_bufferSize)         \
  X(cusolverDn##P##orgqr)                    \
  X(cusolverDn##P##syevd_bufferSize)         \
  X(cusolverDn##P##syevd)                    \
  X(cusolverDn##P##syevjBatched_bufferSize)  \
  X(cusolverDn##P##syevjBatched)             \
  X(cusolverDn##P##gesvdj_bufferSize)        \
  X(cusolverDn##P##gesvdj)                   \
  X(cusolverDn##P##gesvdjBatched_bufferSize) \
  X(cusolverDn##P##gesvdjBatched)
#define SOLVER_CALLS(X)         \
  X(cusolverGetProperty)        \
  X(cusolverDnCreate)           \
  X(cusolverDnSetStream)        \
  X(cusolverDnCreateSyevjInfo)  \
  X(cusolverDnCreateGesvdjInfo) \
  SOLVER_OF(X, S)               \
  SOLVER_OF(X, D)
#define BLAS_OF(X, P)        \
  X(cublas##P##getrfBatched) \
  X(cublas##P##getrsBatched) \
  X(cublas##P##geqrfBatched) \
  X(cublas##P##trsm_v2)      \
  X(cublas##P##trsmBatched)
#define BLAS_CALLS(X)      \
  X(cublasCreate_v2)       \
  X(cublasSetStream_v2)    \
  X(cublasSetWorkspace_v2) \
  BLAS_OF(X, S)            \
  BLAS_OF(X, D)

static struct {
#define X(name) __typeof__(&name) name;
  SOLVER_CALLS(X)
  BLAS_CALLS(X)
#undef X
} lib;
static bool opened;
static pthread_once_t opening = PTHREAD_ONCE_INIT;

/* The largest size for batched routines. Above it, one call for each matrix is faster. */
enum { SMALL = 256 };
enum { JACOBI = 32 }; /* the largest matrix for batched Jacobi rotations */
#define BLAS_WORKSPACE ((int64_t)4 << 20)

typedef struct Handles {
  pthread_mutex_t lock;
  cusolverDnHandle_t solver;
  cublasHandle_t blas;
  syevjInfo_t syevj;
  gesvdjInfo_t gesvdj;
} Handles;

static Handles handles[CUDA_MAX_DEVICES];

/* ---- the libraries --------------------------------------------------------------------- */

#ifdef TLK_EMULATED /* the emulation in spec/cuda defines these functions */

static void take(void) {
#define X(name) lib.name = name;
  SOLVER_CALLS(X)
  BLAS_CALLS(X)
#undef X
  opened = true;
}

#else

#define NAME_(base, major) "lib" base ".so." #major
#define NAME(base, major) NAME_(base, major)

static bool take_symbol(void *library, const char *name, void *member) {
  void *symbol = library ? dlsym(library, name) : NULL;
  memcpy(member, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void take(void) {
  void *solver = dlopen(NAME("cusolver", CUSOLVER_VER_MAJOR), RTLD_NOW | RTLD_LOCAL);
  void *blas = dlopen(NAME("cublas", CUBLAS_VER_MAJOR), RTLD_NOW | RTLD_LOCAL);
  bool all = true;
#define X(name) all = take_symbol(solver, #name, &lib.name) && all;
  SOLVER_CALLS(X)
#undef X
#define X(name) all = take_symbol(blas, #name, &lib.name) && all;
  BLAS_CALLS(X)
#undef X
  opened = all;
}

#endif

static void open_libraries(void) {
  for (int i = 0; i < CUDA_MAX_DEVICES; i++) pthread_mutex_init(&handles[i].lock, NULL);
  take();
}

static bool ready(void) {
  pthread_once(&opening, open_libraries);
  return opened;
}

int64_t cuda_cusolver_version(void) {
  int parts[3] = {0, 0, 0};
  libraryPropertyType which[] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
  if (!ready()) return 0;
  for (int i = 0; i < 3; i++) lib.cusolverGetProperty(which[i], &parts[i]);
  return parts[0] * 10000 + parts[1] * 100 + parts[2];
}

static bool status_ok(int status, const char *call) {
  if (status == 0) return true;
  size_t name = strcspn(call, "(");
  const int alloc_failed = 2; /* cuSOLVER's status for a failed allocation; cuBLAS's is 3 */
  bool memory = status == alloc_failed || (status == 3 && strncmp(call, "cublas", 6) == 0);
  return cuda_fail(memory ? TL_EMEM : TL_EDEVICE, "%.*s: status %d", (int)name, call, status);
}
#define OK(call) status_ok((int)lib.call, #call)
#define TRY(call) \
  if (!OK(call)) return false

/* ---- a call ------------------------------------------------------------------------------ */

/* Holds the lock on the device's handles, and workspace for the duration of the call. */
typedef struct Session {
  const tlk_Context *cx;
  Handles *h;
  int n;
  void *scratch[6];
  int64_t bytes[6];
} Session;

/* Allocates workspace; returns NULL with a message on failure. */
static void *room(Session *s, int64_t bytes) {
  if (bytes < 16) bytes = 16;
  void *data = cuda_scratch(s->cx, bytes);
  if (data == NULL) return NULL;
  s->scratch[s->n] = data;
  s->bytes[s->n++] = bytes;
  return data;
}

static bool open_handles(Handles *h) {
  CUDA_RELAXED;
  if (h->solver == NULL) TRY(cusolverDnCreate(&h->solver));
  if (h->syevj == NULL) TRY(cusolverDnCreateSyevjInfo(&h->syevj));
  if (h->gesvdj == NULL) TRY(cusolverDnCreateGesvdjInfo(&h->gesvdj));
  if (h->blas == NULL) TRY(cublasCreate_v2(&h->blas));
  return true;
}

static bool begin(Session *s, const tlk_Context *cx, int64_t batch) {
  *s = (Session){.cx = cx, .h = &handles[cx->device.index]};
  if (batch > INT32_MAX)
    return cuda_fail(TL_ESHAPE, "linalg: expected less than 2^31 matrices, got %lld",
                     (long long)batch);
  if (!cuda_enter(cx->device.index)) return false;
  pthread_mutex_lock(&s->h->lock);
  cudaStream_t stream = cx->stream->handle;
  bool ok = open_handles(s->h) && OK(cusolverDnSetStream(s->h->solver, stream)) &&
            OK(cublasSetStream_v2(s->h->blas, stream));
  if (!ok) pthread_mutex_unlock(&s->h->lock);
  return ok;
}

static bool end(Session *s, bool ok) {
  for (int i = s->n - 1; i >= 0; i--) cuda_scratch_free(s->cx, s->scratch[i], s->bytes[i]);
  pthread_mutex_unlock(&s->h->lock);
  return ok;
}

/* Gives cuBLAS a workspace, because streams would share cuBLAS's own workspace. */
static bool blas_workspace(Session *s) {
  void *data = room(s, BLAS_WORKSPACE);
  if (data == NULL) return false;
  TRY(cublasSetWorkspace_v2(s->h->blas, data, (size_t)BLAS_WORKSPACE));
  return true;
}

/* Returns a device array of pointers to the matrices of a batch; NULL with a message on
** failure. */
static void *pointers(Session *s, const void *base, int64_t step, int64_t batch) {
  void *out = room(s, batch * (int64_t)sizeof(void *));
  return out && cuda_linalg_pointers(s->cx, out, base, step, batch) ? out : NULL;
}

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

/* ---- the routines, by precision ------------------------------------------------------------- */

typedef struct Triangle {
  bool left, upper, transpose, unit;
} Triangle;

/* Returns the side of op(a) for cuBLAS, which is column-major: it sees row-major b as b^T, and
** op(a) x = b as x^T op(a)^T = b^T. */
static cublasSideMode_t side_of(Triangle t) {
  return t.left ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT;
}
static cublasFillMode_t fill_of(Triangle t) {
  return t.upper ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
}
static cublasOperation_t op_of(Triangle t) { return t.transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }
static cublasDiagType_t diag_of(Triangle t) {
  return t.unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
}

#define LOWER CUBLAS_FILL_MODE_LOWER

#define DEFINE(T, P)                                                                               \
  static bool potrf_##P(Session *s, int64_t batch, int n, T *a, int *info) {                       \
    cusolverDnHandle_t h = s->h->solver;                                                           \
    int size = 0;                                                                                  \
    if (batch > 1) {                                                                               \
      T **at = pointers(s, a, (int64_t)n * n * (int64_t)sizeof(T), batch);                         \
      return at && OK(cusolverDn##P##potrfBatched(h, LOWER, n, at, n, info, (int)batch));          \
    }                                                                                              \
    TRY(cusolverDn##P##potrf_bufferSize(h, LOWER, n, a, n, &size));                                \
    T *work = room(s, size * (int64_t)sizeof(T));                                                  \
    return work && OK(cusolverDn##P##potrf(h, LOWER, n, a, n, work, size, info));                  \
  }                                                                                                \
  static bool getrf_##P(Session *s, int64_t batch, int m, int n, T *a, int *pivots, int *info) {   \
    cusolverDnHandle_t h = s->h->solver;                                                           \
    int size = 0, k = least(m, n);                                                                 \
    bool ok = true;                                                                                \
    if (batch > 1 && m == n && n <= SMALL) {                                                       \
      T **at = pointers(s, a, (int64_t)n * n * (int64_t)sizeof(T), batch);                         \
      return at && blas_workspace(s) &&                                                            \
             OK(cublas##P##getrfBatched(s->h->blas, n, at, n, pivots, info, (int)batch));          \
    }                                                                                              \
    TRY(cusolverDn##P##getrf_bufferSize(h, m, n, a, m, &size));                                    \
    T *work = room(s, size * (int64_t)sizeof(T));                                                  \
    for (int64_t i = 0; work && ok && i < batch; i++)                                              \
      ok = OK(cusolverDn##P##getrf(h, m, n, a + i * m * n, m, work, pivots + i * k, info + i));    \
    return work && ok;                                                                             \
  }                                                                                                \
  static bool getrs_##P(Session *s, int64_t batch, int n, int nrhs, const T *a, const int *pivots, \
                        T *b) {                                                                    \
    int64_t nn = (int64_t)n * n, nb = (int64_t)n * nrhs;                                           \
    bool ok = true;                                                                                \
    if (batch > 1 && n <= SMALL) {                                                                 \
      int info = 0;                                                                                \
      const T *const *at = pointers(s, a, nn * (int64_t)sizeof(T), batch);                         \
      T **bt = at ? pointers(s, b, nb * (int64_t)sizeof(T), batch) : NULL;                         \
      return bt && blas_workspace(s) &&                                                            \
             OK(cublas##P##getrsBatched(s->h->blas, CUBLAS_OP_N, n, nrhs, at, n, pivots, bt, n,    \
                                        &info, (int)batch));                                       \
    }                                                                                              \
    int *info = room(s, sizeof *info);                                                             \
    for (int64_t i = 0; info && ok && i < batch; i++)                                              \
      ok = OK(cusolverDn##P##getrs(s->h->solver, CUBLAS_OP_N, n, nrhs, a + i * nn, n,              \
                                   pivots + i * n, b + i * nb, n, info));                          \
    return info && ok;                                                                             \
  }                                                                                                \
  static bool geqrf_##P(Session *s, int64_t batch, int m, int n, T *a, T *tau) {                   \
    cusolverDnHandle_t h = s->h->solver;                                                           \
    int size = 0, k = least(m, n);                                                                 \
    int64_t mn = (int64_t)m * n;                                                                   \
    bool ok = true;                                                                                \
    if (batch > 1 && most(m, n) <= SMALL) {                                                        \
      int info = 0;                                                                                \
      T **at = pointers(s, a, mn * (int64_t)sizeof(T), batch);                                     \
      T **taus = at ? pointers(s, tau, k * (int64_t)sizeof(T), batch) : NULL;                      \
      return taus && blas_workspace(s) &&                                                          \
             OK(cublas##P##geqrfBatched(s->h->blas, m, n, at, m, taus, &info, (int)batch));        \
    }                                                                                              \
    TRY(cusolverDn##P##geqrf_bufferSize(h, m, n, a, m, &size));                                    \
    T *work = room(s, size * (int64_t)sizeof(T));                                                  \
    int *info = work ? room(s, sizeof *info) : NULL;                                               \
    for (int64_t i = 0; info && ok && i < batch; i++)                                              \
      ok = OK(cusolverDn##P##geqrf(h, m, n, a + i * mn, m, tau + i * k, work, size, info));        \
    return info && ok;                                                                             \
  }                                                                                                \
  static bool orgqr_##P(Session *s, int64_t batch, int m, int n, int k, T *a, const T *tau) {      \
    cusolverDnHandle_t h = s->h->solver;                                                           \
    int size = 0;                                                                                  \
    int64_t mn = (int64_t)m * n;                                                                   \
    bool ok = true;                                                                                \
    TRY(cusolverDn##P##orgqr_bufferSize(h, m, n, k, a, m, tau, &size));                            \
    T *work = room(s, size * (int64_t)sizeof(T));                                                  \
    int *info = work ? room(s, sizeof *info) : NULL;                                               \
    for (int64_t i = 0; info && ok && i < batch; i++)                                              \
      ok = OK(cusolverDn##P##orgqr(h, m, n, k, a + i * mn, m, tau + i * k, work, size, info));     \
    return info && ok;                                                                             \
  }                                                                                                \
  static bool syevd_##P(Session *s, bool vectors, bool upper, int64_t batch, int n, T *a, T *w,    \
                        int *info) {                                                               \
    cusolverDnHandle_t h = s->h->solver;                                                           \
    cusolverEigMode_t job = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;       \
    cublasFillMode_t part = upper ? CUBLAS_FILL_MODE_UPPER : LOWER;                                \
    int size = 0, count = (int)batch;                                                              \
    int64_t nn = (int64_t)n * n;                                                                   \
    bool ok = true, jacobi = batch > 1 && n <= JACOBI;                                             \
    if (!(jacobi ? OK(cusolverDn##P##syevjBatched_bufferSize(h, job, part, n, a, n, w, &size,      \
                                                             s->h->syevj, count))                  \
                 : OK(cusolverDn##P##syevd_bufferSize(h, job, part, n, a, n, w, &size))))          \
      return false;                                                                                \
    T *work = room(s, size * (int64_t)sizeof(T));                                                  \
    if (work && jacobi)                                                                            \
      return OK(cusolverDn##P##syevjBatched(h, job, part, n, a, n, w, work, size, info,            \
                                            s->h->syevj, count));                                  \
    for (int64_t i = 0; work && ok && i < batch; i++)                                              \
      ok = OK(                                                                                     \
          cusolverDn##P##syevd(h, job, part, n, a + i * nn, n, w + i * n, work, size, info + i));  \
    return work && ok;                                                                             \
  }                                                                                                \
  /* Computes the singular values, and the vectors as the columns of u (m, uc) and v (n, vc). */   \
  static bool svd_##P(Session *s, char job, int64_t batch, int m, int n, T *a, T *sv, T *u, T *v,  \
                      int *info) {                                                                 \
    cusolverDnHandle_t h = s->h->solver;                                                           \
    cusolverEigMode_t mode = job == 'N' ? CUSOLVER_EIG_MODE_NOVECTOR : CUSOLVER_EIG_MODE_VECTOR;   \
    int size = 0, count = (int)batch, k = least(m, n), econ = job != 'A';                          \
    int uc = econ ? k : m, vc = econ ? k : n;                                                      \
    gesvdjInfo_t params = s->h->gesvdj;                                                            \
    bool ok = true, jacobi = batch > 1 && most(m, n) <= JACOBI && uc == m && vc == n;              \
    if (!(jacobi ? OK(cusolverDn##P##gesvdjBatched_bufferSize(h, mode, m, n, a, m, sv, u, m, v, n, \
                                                              &size, params, count))               \
                 : OK(cusolverDn##P##gesvdj_bufferSize(h, mode, econ, m, n, a, m, sv, u, m, v, n,  \
                                                       &size, params))))                           \
      return false;                                                                                \
    T *work = room(s, size * (int64_t)sizeof(T));                                                  \
    if (work && jacobi)                                                                            \
      return OK(cusolverDn##P##gesvdjBatched(h, mode, m, n, a, m, sv, u, m, v, n, work, size,      \
                                             info, params, count));                                \
    for (int64_t i = 0; work && ok && i < batch; i++)                                              \
      ok = OK(cusolverDn##P##gesvdj(h, mode, econ, m, n, a + i * m * n, m, sv + i * k,             \
                                    u + i * m * uc, m, v + i * n * vc, n, work, size, info + i,    \
                                    params));                                                      \
    return work && ok;                                                                             \
  }                                                                                                \
  static bool gesdd_##P(Session *s, char job, int64_t batch, int m, int n, T *a, T *sv, T *u,      \
                        T *vt, int *info) {                                                        \
    int k = least(m, n), uc = job == 'A' ? m : k, vc = job == 'A' ? n : k;                         \
    tl_DType dtype = sizeof(T) == 8 ? TL_F64 : TL_F32;                                             \
    T *v = room(s, batch * n * vc * (int64_t)sizeof(T));                                           \
    if (v && job == 'N') u = room(s, batch * m * uc * (int64_t)sizeof(T));                         \
    return v && u && svd_##P(s, job, batch, m, n, a, sv, u, v, info) &&                            \
           (job == 'N' || cuda_linalg_transposes(s->cx, dtype, batch, n, vc, v, vt));              \
  }                                                                                                \
  static bool trsm_##P(Session *s, Triangle t, int64_t batch, int m, int n, const T *a, T *b) {    \
    cublasHandle_t h = s->h->blas;                                                                 \
    int k = t.left ? m : n;                                                                        \
    int64_t kk = (int64_t)k * k, mn = (int64_t)m * n;                                              \
    T one = 1;                                                                                     \
    bool ok = blas_workspace(s);                                                                   \
    if (ok && batch > 1 && k <= SMALL) {                                                           \
      const T *const *at = pointers(s, a, kk * (int64_t)sizeof(T), batch);                         \
      T **bt = at ? pointers(s, b, mn * (int64_t)sizeof(T), batch) : NULL;                         \
      return bt && OK(cublas##P##trsmBatched(h, side_of(t), fill_of(t), op_of(t), diag_of(t), n,   \
                                             m, &one, at, k, bt, n, (int)batch));                  \
    }                                                                                              \
    for (int64_t i = 0; ok && i < batch; i++)                                                      \
      ok = OK(cublas##P##trsm_v2(h, side_of(t), fill_of(t), op_of(t), diag_of(t), n, m, &one,      \
                                 a + i * kk, k, b + i * mn, n));                                   \
    return ok;                                                                                     \
  }

DEFINE(float, S)
DEFINE(double, D)

/* ---- the table ----------------------------------------------------------------------------- */

/* Calls the routine of the dtype's precision. */
#define CALL(name, ...)           \
  Session s;                      \
  return batch == 0 ||            \
         (begin(&s, cx, batch) && \
          end(&s, dtype == TL_F32 ? name##_S(&s, __VA_ARGS__) : name##_D(&s, __VA_ARGS__)))

static bool potrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, void *a, int *info) {
  CALL(potrf, batch, n, a, info);
}
static bool getrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                  int *pivots, int *info) {
  CALL(getrf, batch, m, n, a, pivots, info);
}
static bool getrs(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, int nrhs,
                  const void *a, const int *pivots, void *b) {
  CALL(getrs, batch, n, nrhs, a, pivots, b);
}
static bool geqrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                  void *tau) {
  CALL(geqrf, batch, m, n, a, tau);
}
static bool orgqr(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int k,
                  void *a, const void *tau) {
  CALL(orgqr, batch, m, n, k, a, tau);
}
static bool gesdd(const tlk_Context *cx, tl_DType dtype, char job, int64_t batch, int m, int n,
                  void *a, void *sv, void *u, void *vt, int *info) {
  CALL(gesdd, job, batch, m, n, a, sv, u, vt, info);
}
static bool syevd(const tlk_Context *cx, tl_DType dtype, bool vectors, bool upper, int64_t batch,
                  int n, void *a, void *w, int *info) {
  CALL(syevd, vectors, upper, batch, n, a, w, info);
}
static bool trsm(const tlk_Context *cx, tl_DType dtype, bool left, bool upper, bool transpose,
                 bool unit, int64_t batch, int m, int n, const void *a, void *b) {
  Triangle t = {left, upper, transpose, unit};
  if (m == 0 || n == 0) return true;
  CALL(trsm, t, batch, m, n, a, b);
}

static const tlk_Lapack table = {.potrf = potrf,
                                 .getrf = getrf,
                                 .getrs = getrs,
                                 .geqrf = geqrf,
                                 .orgqr = orgqr,
                                 .gesdd = gesdd,
                                 .syevd = syevd,
                                 .trsm = trsm};

const tlk_Lapack *cuda_lapack(void) { return ready() ? &table : NULL; }

#else /* this build has no headers of cuSOLVER */

int64_t cuda_cusolver_version(void) { return 0; }
const tlk_Lapack *cuda_lapack(void) { return NULL; }

#endif
