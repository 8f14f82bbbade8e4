/*
** cudnn_host.h - support for tests of the plugin's cuDNN code. It has replacements for the few
** plugin functions that this code calls, and the description of a device. With that description
** cuDNN makes plans even without a GPU.
*/
#ifndef CUDNN_HOST_H
#define CUDNN_HOST_H

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/device/settings.h"
#include "core/memory/alloc.h"
#include "core/device/disk_cache.h"
#include "core/device/backend.h"
#include "kernels/cuda/lib/cudnn.h"

/* ---- replacements for the plugin's functions ------------------------------------------------- */

static const tl_Host host = {.alloc = tli_alloc,
                             .free = tli_free,
                             .setting = tli_setting,
                             .cache_load = tli_cache_load,
                             .cache_store = tli_cache_store};
const tl_Host *cuda_host = &host;
static const char *device_name = "a device";
void cuda_device_kind(int device, cuda_DeviceKind *out) {
  memset(out, 0, sizeof *out);
  snprintf(out->name, sizeof out->name, "%s %d", device_name, device);
}
static double time_of_last(void);
bool cuda_fail(tl_ErrorKind kind, const char *format, ...) {
  (void)kind, (void)format;
  return false;
}
bool cuda_enter(int device) { return device >= 0; }
static bool capturing;
bool cuda_device_captures(int device) { return capturing || device < 0; }
int cuda_relax(void) { return 0; }
void cuda_unrelax(const int *mode) { (void)mode; }
static char some_room[64]; /* the scratch memory that the replacement of cuda_scratch returns */
void *cuda_scratch(const tlk_Context *cx, int64_t bytes) {
  (void)cx;
  return bytes <= (int64_t)sizeof some_room ? some_room : NULL;
}
void cuda_scratch_free(const tlk_Context *cx, void *data, int64_t bytes) {
  (void)cx, (void)data, (void)bytes;
}
tl_Event *cuda_event(tl_Device device, int flags) {
  static char event;
  (void)device, (void)flags;
  return (tl_Event *)(void *)&event;
}
void cuda_event_free(tl_Event *event) { (void)event; }
bool cuda_event_record(tl_Event *event, tl_Stream *stream) { return event && stream; }
bool cuda_event_elapsed(tl_Event *start, tl_Event *end, double *ms) {
  *ms = time_of_last();
  return start && end;
}
cudaEvent_t cuda_event_handle(const tl_Event *event) {
  (void)event;
  return NULL;
}
bool cuda_ok(cudaError_t error, const char *call) { return call && error == cudaSuccess; }
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  (void)stream;
  memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  (void)event;
  return cudaSuccess;
}

/* ---- the description of a device ------------------------------------------------------------- */

/* The properties of an H200, in the form of cudaDeviceProp. */
static const char h200[] =
    "{\"deviceName\":\"NVIDIA H200\",\"deviceVer\":900,\"driverVer\":13000,"
    "\"multiProcessorCount\":132,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"l2CacheSize\":62914560,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"regsPerBlock\":65536,\"pciDeviceId\":0,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":150754820096,\"cudaDeviceId\":0,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]}";

static inline cudnnBackendDescriptor_t described_device(cuda_DnnGraph *g) {
  cudnnBackendDescriptor_t d = cuda_dnn_add(g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  cuda_dnn_set(g, d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, sizeof h200, h200);
  cuda_dnn_finish(g, d);
  return d;
}

/* Functions that all replacements for cuDNN share. There is one handle, and there are no
** streams. */
static inline cudnnStatus_t stand_in_handle(cudnnHandle_t *handle) {
  static char one;
  *handle = (cudnnHandle_t)(void *)&one;
  return CUDNN_STATUS_SUCCESS;
}
static inline cudnnStatus_t stand_in_stream(cudnnHandle_t handle, cudaStream_t stream) {
  return handle && !stream ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* Returns whether a CUDA driver can be loaded. Without one, cuDNN compiles no engines. A fake
** driver whose functions all return success is enough; cudnn_spec.lua builds one. */
static inline bool has_driver(void) {
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != NULL;
}

#endif
