/*
** cufft.c - Fourier transforms by cuFFT, which is loaded on first use. Making a plan takes
** milliseconds, so each device keeps the plans of its latest sizes. The workspace is allocated on
** the stream of each call, so that streams do not share it.
*/
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "kernels/cuda/lib/lib.h"
#include "kernels/cuda/plugin.h"

#if __has_include(<cufft.h>)

#include <cufft.h>

/* The functions of cuFFT that tlua calls. */
#define FFT_CALLS(X)        \
  X(cufftCreate)            \
  X(cufftSetAutoAllocation) \
  X(cufftMakePlanMany64)    \
  X(cufftSetStream)         \
  X(cufftSetWorkArea)       \
  X(cufftExecC2C)           \
  X(cufftExecR2C)           \
  X(cufftExecC2R)           \
  X(cufftExecZ2Z)           \
  X(cufftExecD2Z)           \
  X(cufftExecZ2D)           \
  X(cufftDestroy)

static struct {
#define X(name) __typeof__(&name) name;
  FFT_CALLS(X)
#undef X
} lib;
static bool opened;
static pthread_once_t opening = PTHREAD_ONCE_INIT;

#define NAME_(major) "libcufft.so." #major
#define NAME(major) NAME_(major)

static void open_library(void) {
  void *library = dlopen(NAME(CUFFT_VER_MAJOR), RTLD_NOW | RTLD_LOCAL);
  opened = library != NULL;
#define X(name)                                \
  if (opened) {                                \
    void *symbol = dlsym(library, #name);      \
    memcpy(&lib.name, &symbol, sizeof symbol); \
    opened = symbol != NULL;                   \
  }
  FFT_CALLS(X)
#undef X
}

static bool status_ok(cufftResult status, const char *call) {
  if (status == CUFFT_SUCCESS) return true;
  size_t name = strcspn(call, "(");
  return cuda_fail(status == CUFFT_ALLOC_FAILED ? TL_EMEM : TL_EDEVICE, "%.*s: status %d",
                   (int)name, call, (int)status);
}
#define OK(call) status_ok(lib.call, #call)
#define TRY(call) \
  if (!OK(call)) return false

/* ---- plans ------------------------------------------------------------------------------- */

/* Everything that a plan depends on. Keys are compared as bytes. */
typedef struct Key {
  long long n, lines, stride, in_distance, out_distance;
  int64_t type; /* a cufftType */
} Key;

typedef struct Plan {
  Key key;
  cufftHandle handle;
  size_t bytes;  /* size of the workspace in bytes */
  int64_t age;   /* number of the latest call that used the plan; 0 if this entry has no plan */
  bool captured; /* whether a graph uses the plan's tables, so that the plan must be kept */
} Plan;

enum { PLANS = 64 };
typedef struct Plans {
  Plan at[PLANS];
  int64_t calls;
} Plans;

static Plans plans[CUDA_MAX_DEVICES];
/* guards `plans` and the calls that use a plan */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static cufftType type_of(const cuda_Fft *f) {
  switch (f->kind) {
  case TLK_FFT_FROM_REAL: return f->wide ? CUFFT_D2Z : CUFFT_R2C;
  case TLK_FFT_TO_REAL: return f->wide ? CUFFT_Z2D : CUFFT_C2R;
  default: return f->wide ? CUFFT_Z2Z : CUFFT_C2C;
  }
}

static bool make_plan(const Key *key, Plan *plan) {
  /* the layout is given explicitly, because otherwise cuFFT ignores the strides */
  long long n = key->n, size = key->n;
  TRY(cufftCreate(&plan->handle));
  bool ok = OK(cufftSetAutoAllocation(plan->handle, 0)) &&
            OK(cufftMakePlanMany64(plan->handle, 1, &n, &size, key->stride, key->in_distance, &size,
                                   key->stride, key->out_distance, (cufftType)key->type, key->lines,
                                   &plan->bytes));
  if (!ok) {
    lib.cufftDestroy(plan->handle);
    return false;
  }
  plan->key = *key;
  return true;
}

/* Returns the plan for a key. If there is none, makes it in place of the oldest plan. Returns NULL
** with a message on failure. The caller holds the lock. */
static Plan *plan_of(Plans *p, const Key *key) {
  Plan *oldest = NULL;
  for (int i = 0; i < PLANS; i++) {
    Plan *at = &p->at[i];
    if (at->age > 0 && memcmp(&at->key, key, sizeof *key) == 0) return at;
    if (!at->captured && (oldest == NULL || at->age < oldest->age)) oldest = at;
  }
  if (oldest == NULL)
    return cuda_fail(TL_EDEVICE, "fft: graphs hold %d plans of other sizes", PLANS), NULL;
  if (oldest->age > 0) lib.cufftDestroy(oldest->handle);
  *oldest = (Plan){.age = 0};
  return make_plan(key, oldest) ? oldest : NULL;
}

static bool execute(const Plan *plan, const cuda_Fft *f) {
  int sign = f->inverse ? CUFFT_INVERSE : CUFFT_FORWARD;
  switch ((cufftType)plan->key.type) {
  case CUFFT_R2C: return OK(cufftExecR2C(plan->handle, f->in, f->out));
  case CUFFT_D2Z: return OK(cufftExecD2Z(plan->handle, f->in, f->out));
  case CUFFT_C2R: return OK(cufftExecC2R(plan->handle, f->in, f->out));
  case CUFFT_Z2D: return OK(cufftExecZ2D(plan->handle, f->in, f->out));
  case CUFFT_Z2Z: return OK(cufftExecZ2Z(plan->handle, f->in, f->out, sign));
  default: return OK(cufftExecC2C(plan->handle, f->in, f->out, sign));
  }
}

/* Runs a transform. The caller holds the lock. */
static bool run(const tlk_Context *cx, const Key *key, const cuda_Fft *f) {
  /* lifts CUDA's restrictions during captures, because making a plan allocates memory */
  CUDA_RELAXED;
  Plans *p = &plans[cx->device.index];
  Plan *plan = plan_of(p, key);
  if (plan == NULL) return false;
  plan->age = ++p->calls;
  plan->captured = plan->captured || cuda_capture(cx->stream) != 0;
  int64_t bytes = plan->bytes > 0 ? (int64_t)plan->bytes : 16;
  void *room = cuda_scratch(cx, bytes);
  bool ok = room && OK(cufftSetStream(plan->handle, cx->stream->handle)) &&
            OK(cufftSetWorkArea(plan->handle, room)) && execute(plan, f);
  if (room) cuda_scratch_free(cx, room, bytes);
  return ok;
}

bool cuda_lib_fft(const tlk_Context *cx, const cuda_Fft *f) {
  Key key = {f->n, f->lines, f->stride, f->in_distance, f->out_distance, type_of(f)};
  pthread_once(&opening, open_library);
  if (!opened)
    return cuda_fail(TL_EDEVICE, "fft: %s was not found; it comes with the CUDA toolkit",
                     NAME(CUFFT_VER_MAJOR));
  if (!cuda_enter(cx->device.index)) return false;
  pthread_mutex_lock(&lock);
  bool ok = run(cx, &key, f);
  pthread_mutex_unlock(&lock);
  return ok;
}

#else /* this build has no headers for cuFFT */

bool cuda_lib_fft(const tlk_Context *cx, const cuda_Fft *f) {
  (void)cx, (void)f;
  return cuda_fail(TL_EDEVICE, "fft: this build has no cuFFT; use the CPU");
}

#endif
