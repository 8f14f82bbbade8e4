/*
** cusolver.c - computes the factorizations of core/kernel/lapack.h with cuSOLVER and cuBLAS, which
** are loaded on first use. Without these libraries, LAPACK computes the factorizations on the host.
**
** Each device has one handle for each library. A routine takes the device's lock, sets the stream
** of both handles, and gives both handles a workspace that is allocated on that stream. Batches of
** small matrices are passed to batched routines; larger matrices are passed one by one.
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

/* The functions of cuSOLVER and cuBLAS that tlua calls, as X(name). P is the letter for the
** precision. */
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

/* Largest size of a matrix for which a batched routine is called, except that of Cholesky
** factorizations. Above this size, one call for each matrix is faster. */
enum { SMALL = 256 };
enum { JACOBI = 32 }; /* largest size of a matrix that the batched Jacobi routines accept */
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
  /* the status that cuSOLVER returns if an allocation fails; cuBLAS returns 3 */
  const int alloc_failed = 2;
  bool memory = status == alloc_failed || (status == 3 && strncmp(call, "cublas", 6) == 0);
  return cuda_fail(memory ? TL_EMEM : TL_EDEVICE, "%.*s: status %d", (int)name, call, status);
}
/* The additional step expands macros in `call` before OK_ turns it into text. */
#define OK(call) OK_(call)
#define OK_(call) status_ok((int)lib.call, #call)
#define TRY(call) \
  if (!OK(call)) return false

/* ---- a call ------------------------------------------------------------------------------ */

/* The resources of one call: the device's handles, which stay locked, and the workspace. Both are
** released when the call ends. */
typedef struct Session {
  const tlk_Context *cx;
  Handles *h;
  int n;
  void *scratch[6];
  int64_t bytes[6];
} Session;

/* Allocates workspace. Returns NULL with a message on failure. */
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

/* Gives cuBLAS a workspace for this call. Otherwise cuBLAS would use its own workspace for all
** streams. */
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

/* Returns the side on which cuBLAS multiplies by op(a). cuBLAS is column-major, so a row-major b
** appears to it as b^T, and op(a) x = b becomes x^T op(a)^T = b^T. */
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

#define real float
#define P S
#include "kernels/cuda/linalg/cusolver_routines.h"
#undef real
#undef P
#define real double
#define P D
#include "kernels/cuda/linalg/cusolver_routines.h"
#undef real
#undef P

/* ---- the table ----------------------------------------------------------------------------- */

/* Calls the routine for the dtype's precision, for real dtypes only: LAPACK computes with complex
** matrices on the host (tli_has_lapack). */
#define CALL(name, ...)                                                \
  Session s;                                                           \
  if (dtype != TL_F32 && dtype != TL_F64) return cuda_no_dtype(dtype); \
  return batch == 0 ||                                                 \
         (begin(&s, cx, batch) &&                                      \
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

#else /* this build has no headers for cuSOLVER */

int64_t cuda_cusolver_version(void) { return 0; }
const tlk_Lapack *cuda_lapack(void) { return NULL; }

#endif
