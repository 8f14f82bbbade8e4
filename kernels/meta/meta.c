/*
** meta.c - the meta device: tensors with a shape, a dtype and strides, but without memory.
** Operators check arguments, promote dtypes and allocate results as on any other device. Its
** kernels compute nothing, and an attempt to read values on the host fails
** (core/device/transfer.c).
**
** The device's table of kernels is generated from TLK_KERNELS, the list of the kernels of
** core/kernel/kernel.h, so a new kernel needs no change in this file.
*/
#include <stdint.h>
#include <stdio.h>

#include "core/device/backend.h"

/* ---- kernels --------------------------------------------------------------------- */

#define X(name, operands)                                  \
  static bool meta_##name(const struct tlk_##name *call) { \
    (void)call;                                            \
    return true;                                           \
  }
TLK_KERNELS(X)
#undef X

/* ---- factorizations, by the signatures of core/kernel/lapack.h -------------------------- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

static bool potrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, void *a, int *info) {
  return true;
}

static bool getrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                  int *pivots, int *info) {
  return true;
}

static bool getrs(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, int nrhs,
                  const void *a, const int *pivots, void *b) {
  return true;
}

static bool geqrf(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                  void *tau) {
  return true;
}

static bool orgqr(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int k,
                  void *a, const void *tau) {
  return true;
}

static bool gesdd(const tlk_Context *cx, tl_DType dtype, char job, int64_t batch, int m, int n,
                  void *a, void *s, void *u, void *vt, int *info) {
  return true;
}

static bool syevd(const tlk_Context *cx, tl_DType dtype, bool vectors, bool upper, int64_t batch,
                  int n, void *a, void *w, int *info) {
  return true;
}

static bool gelsd(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int nrhs,
                  void *a, void *b, void *s, double rcond, int *rank, int *info) {
  return true;
}

static bool sytrf(const tlk_Context *cx, tl_DType dtype, bool hermitian, int64_t batch, int n,
                  void *a, int *pivots, int *info) {
  return true;
}

static bool sytrs(const tlk_Context *cx, tl_DType dtype, bool hermitian, int64_t batch, int n,
                  int nrhs, const void *a, const int *pivots, void *b) {
  return true;
}

static bool trsm(const tlk_Context *cx, tl_DType dtype, bool left, bool upper, bool transpose,
                 bool unit, int64_t batch, int m, int n, const void *a, void *b) {
  return true;
}

static bool geev(const tlk_Context *cx, tl_DType dtype, bool vectors, int64_t batch, int n, void *a,
                 void *w, void *v, int *info) {
  return true;
}

static const tlk_Lapack lapack = {potrf, getrf, getrs, geqrf, orgqr, gesdd,
                                  syevd, gelsd, sytrf, sytrs, trsm,  geev};

/* ---- one device, with one stream that is always idle ------------------------------- */

static int count(void) { return 1; }

static bool properties(int index, tl_DeviceProperties *out) {
  *out = (tl_DeviceProperties){.bf16 = true};
  snprintf(out->name, sizeof out->name, "meta");
  return true;
}

static bool can_access_peer(int device, int peer) { return false; }

static int64_t library_version(const char *name) { return 0; }

/* Returns an address at which no process can have memory. Pointers from this address on may be
** moved and compared, and an access by mistake raises a fault. */
static void *alloc(const tlk_Context *cx, int64_t bytes) {
  return (void *)(UINTPTR_MAX / 2 + 1); /* NOLINT */
}

static void release(tl_Device device, void *data, int64_t bytes) {}

static bool record_stream(tl_Device device, void *data, tl_Stream *stream) { return true; }

/* Copies nothing, because this device has no memory. core/device/transfer.c calls this function
** only for copies to this device. */
static bool transfer(const struct tlk_transfer *call) { return true; }

static bool memory_stats(tl_Device device, tl_MemoryStats *out) {
  *out = (tl_MemoryStats){0};
  return true;
}

static bool memory_info(tl_Device device, int64_t *free, int64_t *total) {
  *free = *total = 0;
  return true;
}

static bool on_device(tl_Device device) { return true; }

static tl_Stream *default_stream(tl_Device device) {
  static char idle;
  return (tl_Stream *)&idle;
}

static tl_Stream *new_stream(tl_Device device, int priority) { return default_stream(device); }

static int64_t stream_id(const tl_Stream *stream) { return 0; }

static bool stream_sync(tl_Stream *stream) { return true; }

static uint64_t capture(const tl_Stream *stream) { return 0; }

static int64_t waits(tl_Device device) { return 0; }

#pragma GCC diagnostic pop

static const tl_DeviceApi device = {
    .count = count,
    .properties = properties,
    .can_access_peer = can_access_peer,
    .library_version = library_version,
    .alloc = alloc,
    .free = release,
    .record_stream = record_stream,
    .transfer = transfer,
    .trim = on_device,
    .memory_stats = memory_stats,
    .reset_peaks = on_device,
    .reset_sums = on_device,
    .memory_info = memory_info,
    .default_stream = default_stream,
    .stream = new_stream,
    .stream_id = stream_id,
    .stream_sync = stream_sync,
    .sync = on_device,
    .capture = capture,
    .waits = waits,
};

const tl_Backend tlk_meta_backend = {
    .name = "meta",
#define X(name, operands) .name = meta_##name,
    TLK_KERNELS(X)
#undef X
        .lapack = &lapack,
    .device = &device,
};
