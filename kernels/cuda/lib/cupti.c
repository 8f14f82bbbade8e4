/*
** cupti.c - records GPU activity with CUPTI. The library is loaded on first use. If CUPTI is
** missing or refuses to record (because another profiler is attached, or the driver forbids it), no
** activity is reported.
**
** CUPTI fills buffers with records and returns them when they are full or flushed, from any thread.
** Times are passed on as times of CUPTI's clock.
*/
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/cuda/plugin.h"

#if defined(__has_include)
#if __has_include(<cupti.h>)
#define HAVE_CUPTI
#endif
#endif

#ifdef HAVE_CUPTI

#include <cupti.h>

/* The types of records. Later versions of CUPTI only append fields, so their records can be read as
** these types, too. */
#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 Kernel;
typedef CUpti_ActivityMemcpy6 Copy;
#else
typedef CUpti_ActivityKernel9 Kernel;
typedef CUpti_ActivityMemcpy5 Copy;
#endif
typedef CUpti_ActivityMemset4 Fill;

#define BUFFER ((size_t)1 << 20)

/* The functions of CUPTI that tlua calls, as X(function). */
#define CUPTI_CALLS(X)              \
  X(cuptiActivityRegisterCallbacks) \
  X(cuptiActivityEnable)            \
  X(cuptiActivityDisable)           \
  X(cuptiActivityFlushAll)          \
  X(cuptiActivityGetNextRecord)     \
  X(cuptiGetTimestamp)

static struct {
#define X(name) __typeof__(&name) name;
  CUPTI_CALLS(X)
#undef X
  /* the C++ runtime's __cxa_demangle; NULL if there is none */
  char *(*demangle)(const char *name, char *room, size_t *size, int *status);
} lib;

static bool usable;
/* the function to which activities are reported; NULL if nothing is recorded */
static _Atomic(void (*)(const tl_Activity *)) told;

/* ---- records ------------------------------------------------------------------------- */

static void tell(const char *name, uint32_t device, uint32_t stream, uint64_t begin, uint64_t end) {
  void (*note)(const tl_Activity *) = atomic_load(&told);
  /* a time of 0 means that CUPTI could not measure it */
  if (note == NULL || begin == 0 || end < begin) return;
  note(&(tl_Activity){.name = name,
                      .device = {TL_CUDA, (int8_t)device},
                      .stream_id = stream,
                      .begin = (int64_t)begin,
                      .end = (int64_t)end});
}

/* Reports a kernel under its demangled name, for instance "void scale<float>(float*)" for
** "_Z5scaleIfEvPT_". */
static void tell_kernel(const Kernel *k) {
  int status = -1;
  const char *name = k->name ? k->name : "kernel";
  char *words = lib.demangle ? lib.demangle(name, NULL, NULL, &status) : NULL;
  tell(words ? words : name, k->deviceId, k->streamId, k->start, k->end);
  free(words);
}

static const char *copy_name(uint8_t kind) {
  switch (kind) {
  case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "Memcpy HtoD";
  case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "Memcpy DtoH";
  case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "Memcpy DtoD";
  case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "Memcpy PtoP";
  default: return "Memcpy";
  }
}

static void tell_record(const CUpti_Activity *record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
      record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
    tell_kernel((const void *)record);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const Copy *c = (const void *)record;
    tell(copy_name(c->copyKind), c->deviceId, c->streamId, c->start, c->end);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const Fill *f = (const void *)record;
    tell("Memset", f->deviceId, f->streamId, f->start, f->end);
  }
}

/* ---- buffers --------------------------------------------------------------------------- */

static void CUPTIAPI buffer_wanted(uint8_t **buffer, size_t *size, size_t *most) {
  *buffer = malloc(BUFFER); /* malloc's alignment is larger than the 8 bytes that CUPTI requires */
  *size = *buffer ? BUFFER : 0;
  *most = 0; /* 0 means that CUPTI may fill the buffer with as many records as fit */
}

static void CUPTIAPI buffer_filled(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                   size_t valid) {
  (void)context, (void)stream, (void)size;
  CUpti_Activity *record = NULL;
  while (buffer && lib.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    tell_record(record);
  free(buffer);
}

/* ---- the library ----------------------------------------------------------------------- */

#define TEXT_(value) #value
#define TEXT(value) TEXT_(value)
#if CUPTI_API_VERSION >= 130000
#define MAJOR 13
#else
#define MAJOR 12
#endif

/* Loads the library from the system's search path, or from a directory that CUDA's installers
** use. */
static void *open_library(void) {
  static const char *const places[] = {
      "libcupti.so." TEXT(MAJOR), "/usr/local/cuda/lib64/libcupti.so." TEXT(MAJOR),
      "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so." TEXT(MAJOR), "libcupti.so"};
  void *found = NULL;
  for (size_t i = 0; !found && i < sizeof places / sizeof *places; i++)
    found = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
  return found;
}

static void open_once(void) {
  void *library = open_library();
  bool ok = library != NULL;
#define X(name) ok = ok && (*(void **)&lib.name = dlsym(library, #name)) != NULL;
  CUPTI_CALLS(X)
#undef X
  if (!ok) return; /* does not unload the library on failure, because recording may have begun */
  *(void **)&lib.demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle");
  usable = lib.cuptiActivityRegisterCallbacks(buffer_wanted, buffer_filled) == CUPTI_SUCCESS;
}

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static void disable(int n) {
  for (int i = 0; i < n; i++) lib.cuptiActivityDisable(kinds[i]);
}

static bool enable(void) {
  for (int i = 0; i < NKINDS; i++)
    if (lib.cuptiActivityEnable(kinds[i]) != CUPTI_SUCCESS) {
      disable(i);
      return false;
    }
  return true;
}

bool cuda_activities(void (*note)(const tl_Activity *activity), int64_t *now) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  uint64_t time = 0;
  pthread_once(&once, open_once);
  if (!usable || lib.cuptiGetTimestamp(&time) != CUPTI_SUCCESS) return false;
  *now = (int64_t)time;
  if (note == NULL) {
    disable(NKINDS);
    lib.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    atomic_store(&told, NULL);
    return true;
  }
  atomic_store(&told, note);
  if (enable()) return true;
  atomic_store(&told, NULL);
  return false;
}

#else

bool cuda_activities(void (*note)(const tl_Activity *activity), int64_t *now) {
  (void)note, (void)now;
  return false;
}

#endif
