/*
** nccl.c - process groups on GPUs with NCCL. The library is loaded on first use; without
** libnccl.so.2, only groups with the back end "nccl" are unavailable.
**
** Communicators are non-blocking: a call that NCCL has begun but not ended returns ncclInProgress,
** and nccl_state tells when the call has ended. Until then the only other call that is allowed is
** ncclCommAbort, which ends the pending call.
*/
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/platform/optional.h"
#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/plugin.h"

#if __has_include(<nccl.h>)

#include <nccl.h>

/* The functions of NCCL that tlua calls, as X(name). */
#define NCCL_CALLS(X)       \
  X(ncclGetVersion)         \
  X(ncclGetErrorString)     \
  X(ncclGetLastError)       \
  X(ncclGetUniqueId)        \
  X(ncclCommInitRankConfig) \
  X(ncclCommGetAsyncError)  \
  X(ncclCommFinalize)       \
  X(ncclCommDestroy)        \
  X(ncclCommAbort)          \
  X(ncclCommRegister)       \
  X(ncclCommDeregister)     \
  X(ncclGroupStart)         \
  X(ncclGroupEnd)           \
  X(ncclAllReduce)          \
  X(ncclReduce)             \
  X(ncclBroadcast)          \
  X(ncclAllGather)          \
  X(ncclReduceScatter)      \
  X(ncclSend)               \
  X(ncclRecv)

enum { LEAST_VERSION = 21900 }; /* the first version of NCCL (2.19) that has ncclCommRegister */

static struct {
#define X(name) __typeof__(&name) name;
  NCCL_CALLS(X)
#undef X
} lib;
static int version;
static char missing[300]; /* the reason why the library is not available */
static pthread_once_t opening = PTHREAD_ONCE_INIT;

struct tl_Comm {
  int device;
  ncclComm_t handle; /* NCCL's communicator; NULL after it was aborted or destroyed */
  /* keeps one thread from aborting the communicator while another thread asks for its state */
  pthread_mutex_t lock;
};

/* ---- the library ---------------------------------------------------------------------- */

static void open_library(void) {
  void *library = dlopen(TLI_FILES_NCCL, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    snprintf(missing, sizeof missing, "%.200s (Debian, Ubuntu: libnccl2)", dlerror());
    return;
  }
#define X(name)                                                                   \
  {                                                                               \
    void *symbol = dlsym(library, #name);                                         \
    memcpy(&lib.name, &symbol, sizeof symbol);                                    \
    if (symbol == NULL) snprintf(missing, sizeof missing, "it has no %s", #name); \
  }
  NCCL_CALLS(X)
#undef X
  if (lib.ncclGetVersion) lib.ncclGetVersion(&version);
  if (missing[0] || version < LEAST_VERSION)
    snprintf(missing, sizeof missing, TLI_FILES_NCCL ": expected version 2.19 or later, got %d.%d",
             version / 10000, version / 100 % 100);
}

static bool ok(ncclResult_t result, const char *call) {
  if (result == ncclSuccess || result == ncclInProgress) return true;
  const char *more = lib.ncclGetLastError(NULL);
  size_t name = strcspn(call, "(");
  return cuda_fail(TL_EDEVICE, "%.*s: %s%s%.300s", (int)name, call, lib.ncclGetErrorString(result),
                   more && *more ? ": " : "", more ? more : "");
}
#define NCCL_TRY(call) \
  if (!ok(lib.call, #call)) return false

/* ---- communicators -------------------------------------------------------------------- */

static bool nccl_id(unsigned char id[TL_COMM_ID_BYTES]) {
  ncclUniqueId unique;
  NCCL_TRY(ncclGetUniqueId(&unique));
  memcpy(id, unique.internal, TL_COMM_ID_BYTES);
  return true;
}

static bool begin_open(tl_Comm *c, int rank, int size, const unsigned char *id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId unique;
  memcpy(unique.internal, id, TL_COMM_ID_BYTES);
  config.blocking = 0;
  if (!cuda_enter(c->device)) return false;
  CUDA_RELAXED;
  NCCL_TRY(ncclCommInitRankConfig(&c->handle, size, unique, rank, &config));
  return true;
}

static void comm_free(tl_Comm *c) {
  pthread_mutex_destroy(&c->lock);
  cuda_host->free(c, sizeof *c);
}

static tl_Comm *nccl_open(tl_Device device, int rank, int size,
                          const unsigned char id[TL_COMM_ID_BYTES]) {
  tl_Comm *c = cuda_host->alloc(sizeof *c);
  if (c == NULL) return NULL;
  memset(c, 0, sizeof *c);
  c->device = device.index;
  pthread_mutex_init(&c->lock, NULL);
  if (begin_open(c, rank, size, id)) return c;
  comm_free(c);
  return NULL;
}

static bool is_open(const tl_Comm *c) {
  return c->handle != NULL || cuda_fail(TL_EIO, "nccl: the communicator was aborted");
}

static bool nccl_state(tl_Comm *c, bool *busy) {
  ncclResult_t state = ncclSuccess;
  *busy = false;
  pthread_mutex_lock(&c->lock);
  bool good = is_open(c) &&
              ok(lib.ncclCommGetAsyncError(c->handle, &state), "ncclCommGetAsyncError") &&
              ok(state, "nccl");
  pthread_mutex_unlock(&c->lock);
  *busy = good && state == ncclInProgress;
  return good;
}

static void nccl_abort(tl_Comm *c, const char *why) {
  pthread_mutex_lock(&c->lock);
  ncclComm_t handle = c->handle;
  c->handle = NULL;
  pthread_mutex_unlock(&c->lock);
  if (handle == NULL) return;
  if (*why) cuda_note_failure(c->device, why);
  if (!cuda_enter(c->device)) return;
  CUDA_RELAXED;
  lib.ncclCommAbort(handle);
}

static bool nccl_finalize(tl_Comm *c) {
  if (!is_open(c) || !cuda_enter(c->device)) return false;
  CUDA_RELAXED;
  NCCL_TRY(ncclCommFinalize(c->handle));
  return true;
}

static void nccl_close(tl_Comm *c) {
  CUDA_RELAXED;
  if (c->handle && cuda_enter(c->device)) lib.ncclCommDestroy(c->handle);
  comm_free(c);
}

/* ---- steps ----------------------------------------------------------------------------- */

/* Sets *out to NCCL's constant for a dtype. NCCL has no 16-bit integers and no booleans. Data that
** is only copied, not reduced, is sent as bytes. */
static bool type_of(int dtype, ncclDataType_t *out) {
  switch (dtype) {
  case TL_F32: *out = ncclFloat32; return true;
  case TL_F64: *out = ncclFloat64; return true;
  case TL_F16: *out = ncclFloat16; return true;
  case TL_BF16: *out = ncclBfloat16; return true;
  case TL_I8: *out = ncclInt8; return true;
  case TL_I32: *out = ncclInt32; return true;
  case TL_I64: *out = ncclInt64; return true;
  case TL_U8: *out = ncclUint8; return true;
  default: return cuda_fail(TL_EDTYPE, "nccl: no type for dtype number %d", dtype);
  }
}

static ncclRedOp_t op_of(tl_CommOp op) {
  switch (op) {
  case TL_COMM_PROD: return ncclProd;
  case TL_COMM_MAX: return ncclMax;
  case TL_COMM_MIN: return ncclMin;
  case TL_COMM_AVG: return ncclAvg;
  default: return ncclSum;
  }
}

static bool put(ncclComm_t comm, cudaStream_t stream, const tl_CommStep *s) {
  ncclDataType_t type = ncclInt8;
  size_t n = (size_t)s->count;
  ncclRedOp_t op = op_of(s->op);
  if (!type_of(s->dtype, &type)) return false;
  switch (s->kind) {
  case TL_COMM_ALL_REDUCE:
    NCCL_TRY(ncclAllReduce(s->in, s->out, n, type, op, comm, stream));
    return true;
  case TL_COMM_REDUCE:
    NCCL_TRY(ncclReduce(s->in, s->out, n, type, op, s->peer, comm, stream));
    return true;
  case TL_COMM_BROADCAST:
    NCCL_TRY(ncclBroadcast(s->in, s->out, n, type, s->peer, comm, stream));
    return true;
  case TL_COMM_ALL_GATHER:
    NCCL_TRY(ncclAllGather(s->in, s->out, n, type, comm, stream));
    return true;
  case TL_COMM_REDUCE_SCATTER:
    NCCL_TRY(ncclReduceScatter(s->in, s->out, n, type, op, comm, stream));
    return true;
  case TL_COMM_SEND: NCCL_TRY(ncclSend(s->in, n, type, s->peer, comm, stream)); return true;
  case TL_COMM_RECV: NCCL_TRY(ncclRecv(s->out, n, type, s->peer, comm, stream)); return true;
  }
  return false;
}

/* Queues steps in an NCCL group. The group is always closed, because an open group would delay all
** later NCCL calls of this thread. */
static bool nccl_run(tl_Comm *c, tl_Stream *stream, const tl_CommStep *steps, int n) {
  if (!is_open(c) || !cuda_enter(c->device) || !fusion_settle(stream)) return false;
  if (n == 1) return put(c->handle, stream->handle, steps);
  bool good = true;
  NCCL_TRY(ncclGroupStart());
  for (int i = 0; i < n && good; i++) good = put(c->handle, stream->handle, &steps[i]);
  ncclResult_t end = lib.ncclGroupEnd();
  return good && ok(end, "ncclGroupEnd");
}

/* ---- buffers --------------------------------------------------------------------------- */

static void *nccl_add_buffer(tl_Comm *c, void *data, int64_t bytes) {
  void *buffer = NULL;
  if (c->handle == NULL || !cuda_enter(c->device)) return NULL;
  CUDA_RELAXED;
  ncclResult_t result = lib.ncclCommRegister(c->handle, data, (size_t)bytes, &buffer);
  return cuda_counted(CUDA_NCCL_BUFFERS, result == ncclSuccess) ? buffer : NULL;
}

static void nccl_remove_buffer(tl_Comm *c, void *buffer) {
  CUDA_RELAXED;
  if (c->handle && cuda_enter(c->device)) lib.ncclCommDeregister(c->handle, buffer);
}

static const tl_CommApi api = {
    .name = "nccl",
    .id = nccl_id,
    .open = nccl_open,
    .state = nccl_state,
    .run = nccl_run,
    .abort = nccl_abort,
    .finalize = nccl_finalize,
    .close = nccl_close,
    .add_buffer = nccl_add_buffer,
    .remove_buffer = nccl_remove_buffer,
};

const tl_CommApi *cuda_comms(void) {
  pthread_once(&opening, open_library);
  if (missing[0] == '\0') return &api;
  cuda_fail(TL_EDEVICE, "nccl: %s", missing);
  return NULL;
}

int64_t cuda_nccl_version(void) {
  pthread_once(&opening, open_library);
  return missing[0] ? 0 : version;
}

#else

const tl_CommApi *cuda_comms(void) {
  cuda_fail(TL_EDEVICE, "nccl: this build of tlua was made without NCCL's nccl.h");
  return NULL;
}

int64_t cuda_nccl_version(void) { return 0; }

#endif
