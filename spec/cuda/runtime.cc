/*
** runtime.cc - settings, errors, devices, kernels, and the look-up of the driver's functions.
*/
#include "spec/cuda/inside.h"

namespace emulated {

std::mutex lock;
thread_local int current_device;
static thread_local cudaError_t last_error;

/* ---- settings ------------------------------------------------------------------------- */

static int64_t setting(const char *name, int64_t otherwise) {
  const char *text = getenv(name);
  char *end;
  if (text == nullptr) return otherwise;
  long long value = strtoll(text, &end, 10);
  return *text && *end == '\0' && value >= 0 ? value : otherwise;
}

Settings settings = {setting("TLUA_EMULATED_SEED", 1),
                     setting("TLUA_EMULATED_DEVICES", 2),
                     setting("TLUA_EMULATED_MEMORY", (int64_t)4 << 30),
                     setting("TLUA_EMULATED_MULTIPROCESSORS", 4),
                     setting("TLUA_EMULATED_FAIL_AT", 0),
                     setting("TLUA_EMULATED_DEAD_AT", 0),
                     setting("TLUA_EMULATED_LAZY", 0),
                     setting("TLUA_EMULATED_IDLE", 0),
                     setting("TLUA_EMULATED_FOREIGN", 0),
                     setting("TLUA_EMULATED_LEGACY", 0),
                     setting("TLUA_EMULATED_ADDRESSES", (int64_t)1 << 47)};

static uint64_t state = (uint64_t)settings.seed;

bool configure(const char *key, int64_t value) {
  std::lock_guard<std::mutex> guard(lock);
  std::string name = key;
  if (name == "seed")
    state = (uint64_t)value;
  else if (name == "memory")
    settings.memory = value;
  else if (name == "multiprocessors")
    settings.multiprocessors = value;
  else if (name == "fail_at")
    settings.fail_at = value;
  else if (name == "lazy")
    settings.lazy = value;
  else
    return false;
  return true;
}

/* splitmix64 by S. Vigna: consecutive states give well-mixed words. */
uint64_t draw() {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* ---- errors ---------------------------------------------------------------------------- */

/* dead_at counts the calls that are left down to 1; then no call succeeds any more. */
bool is_dead() { return settings.dead_at == 1; }

cudaError_t may_go(const char *name) {
  if (is_dead()) return cudaErrorLaunchFailure;
  if (settings.dead_at > 1) settings.dead_at--;
  if (settings.fail_at == 0 || --settings.fail_at > 0) return cudaSuccess;
  return strcasestr(name, "alloc") || strstr(name, "Create") ? cudaErrorMemoryAllocation
                                                             : cudaErrorUnknown;
}

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

static bool is_device(int device) { return device >= 0 && device < settings.devices; }

/* ---- kernels ----------------------------------------------------------------------------- */

static cudaError_t check_launch(const Launch &l) {
  uint64_t threads = (uint64_t)l.threads.x * l.threads.y * l.threads.z;
  if (threads == 0 || threads > MOST_THREADS || l.threads.z > 64)
    return cudaErrorInvalidConfiguration;
  if (l.blocks.x > INT32_MAX || l.blocks.y > UINT16_MAX || l.blocks.z > UINT16_MAX)
    return cudaErrorInvalidConfiguration;
  /* A limit set by cudaFuncSetAttribute excludes static arrays; the default includes them. */
  bool allowed =
      l.kernel->most_dynamic != SHARED_BYTES && l.shared <= (size_t)l.kernel->most_dynamic;
  bool fits = l.kernel->shared_bytes <= SHARED_BYTES &&
              (allowed || l.kernel->shared_bytes + l.shared <= SHARED_BYTES);
  return fits ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t put_kernel(const void *kernel, dim3 blocks, dim3 threads, size_t shared,
                       cudaStream_t stream, std::function<void()> thread) {
  if (settings.idle) return cudaSuccess;
  return call("cudaLaunchKernel", [&] {
    if (settings.foreign) return cudaErrorNoKernelImageForDevice;
    Launch launch = {&kernel_of(kernel), blocks, threads, shared, std::move(thread)};
    cudaError_t error = check_launch(launch);
    return error == cudaSuccess ? put(stream, [launch] { run_grid(launch); }) : error;
  });
}

} // namespace emulated

using namespace emulated;

/* ---- errors ------------------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void) {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError(void) { return last_error; }

const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define X(name, number, text) \
  case name: return #name;
    TLK_CUDA_ERRORS(X)
#undef X
  }
  return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define X(name, number, text) \
  case name: return text;
    TLK_CUDA_ERRORS(X)
#undef X
  }
  return "unrecognized error code";
}

/* ---- devices ------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) {
  if (settings.devices == 0) return noted(cudaErrorNoDevice);
  *count = (int)settings.devices;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return call(__func__, [&] {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    current_device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return noted(is_device(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
  if (!is_device(device)) return noted(cudaErrorInvalidDevice);
  *out = {};
  snprintf(out->name, sizeof out->name, "emulated device %d", device);
  out->totalGlobalMem = (size_t)settings.memory;
  out->sharedMemPerBlock = SHARED_BYTES;
  out->sharedMemPerBlockOptin = MOST_SHARED_BYTES;
  out->sharedMemPerMultiprocessor = 228 * 1024;
  out->reservedSharedMemPerBlock = 1024;
  out->totalConstMem = 64 * 1024;
  out->regsPerBlock = out->regsPerMultiprocessor = 64 * 1024;
  out->warpSize = WARP_LANES;
  out->maxThreadsPerBlock = MOST_THREADS;
  out->maxThreadsDim[0] = out->maxThreadsDim[1] = MOST_THREADS;
  out->maxThreadsDim[2] = 64;
  out->maxGridSize[0] = INT32_MAX;
  out->maxGridSize[1] = out->maxGridSize[2] = UINT16_MAX;
  out->major = 9;
  out->multiProcessorCount = (int)settings.multiprocessors;
  out->maxThreadsPerMultiProcessor = 2048;
  out->canMapHostMemory = out->concurrentKernels = out->unifiedAddressing = 1;
  out->asyncEngineCount = 3;
  out->memoryBusWidth = 5120;
  out->l2CacheSize = 50 << 20;
  out->pciBusID = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device) {
  struct cudaDeviceProp p;
  cudaError_t error = cudaGetDeviceProperties(&p, device);
  if (error != cudaSuccess) return error;
  switch (attr) {
  case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
  case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
  case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
  case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
  case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
  case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
  case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
  case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
  case cudaDevAttrWarpSize: *value = p.warpSize; break;
  case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
  case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
  case cudaDevAttrIntegrated: *value = p.integrated; break;
  case cudaDevAttrCanMapHostMemory: *value = p.canMapHostMemory; break;
  case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
  case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
  case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
  case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
  case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
    *value = (int)p.sharedMemPerMultiprocessor;
    break;
  case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
  case cudaDevAttrMaxBlocksPerMultiprocessor: *value = 32; break;
  case cudaDevAttrReservedSharedMemoryPerBlock: *value = (int)p.reservedSharedMemPerBlock; break;
  case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
  default: return noted(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int length, int device) {
  if (!is_device(device)) return noted(cudaErrorInvalidDevice);
  snprintf(out, (size_t)length, "0000:%02x:00.0", (unsigned)device);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
  return call(__func__, [] {
    cudaError_t error = forbidden_beside_captures(current_device);
    if (error == cudaSuccess) finish_device(current_device);
    return error;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return noted(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

static bool peers[64][64];

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call(__func__, [&] {
    if (!is_device(peer) || peer == current_device) return cudaErrorInvalidDevice;
    bool already = peers[current_device & 63][peer & 63];
    peers[current_device & 63][peer & 63] = true;
    return already ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call(__func__, [&] {
    if (!is_device(peer) || peer == current_device) return cudaErrorInvalidDevice;
    bool enabled = peers[current_device & 63][peer & 63];
    peers[current_device & 63][peer & 63] = false;
    return enabled ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }

/* ---- kernels ----------------------------------------------------------------------------- */

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attr, int value) {
  return call(__func__, [&] {
    Kernel &k = kernel_of(kernel);
    if (attr == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (value < 0 || (size_t)value + k.shared_bytes > MOST_SHARED_BYTES)
      return cudaErrorInvalidValue;
    k.most_dynamic = value;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *kernel) {
  return call(__func__, [&] {
    const Kernel &k = kernel_of(kernel);
    *out = {};
    out->sharedSizeBytes = k.shared_bytes;
    out->maxThreadsPerBlock = MOST_THREADS;
    out->numRegs = 32;
    out->binaryVersion = out->ptxVersion = 90;
    out->maxDynamicSharedSizeBytes = k.most_dynamic;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel,
                                                          int threads, size_t shared) {
  return call(__func__, [&] {
    if (threads <= 0 || threads > MOST_THREADS) return cudaErrorInvalidValue;
    size_t bytes = kernel_of(kernel).shared_bytes + shared + 1024;
    *blocks = std::min<int>(32, std::min<int>(2048 / threads, (int)(228 * 1024 / bytes)));
    return cudaSuccess;
  });
}

/* ---- the driver ---------------------------------------------------------------------------- */

#define DRIVER_FUNCTIONS(X)        \
  X(cuGetErrorName)                \
  X(cuGetErrorString)              \
  X(cuDeviceGetAttribute)          \
  X(cuMemGetAllocationGranularity) \
  X(cuMemAddressReserve)           \
  X(cuMemAddressFree)              \
  X(cuMemCreate)                   \
  X(cuMemRelease)                  \
  X(cuMemMap)                      \
  X(cuMemUnmap)                    \
  X(cuMemSetAccess)

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long,
                                             enum cudaDriverEntryPointQueryResult *result) {
  static const struct {
    const char *name;
    void *function;
  } known[] = {
#define X(name) {#name, reinterpret_cast<void *>(name)},
      DRIVER_FUNCTIONS(X)
#undef X
  };
  enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  *function = nullptr;
  for (const auto &k : known)
    if (strcmp(k.name, symbol) == 0) {
      bool now = version <= CUDART_VERSION;
      status = now ? cudaDriverEntryPointSuccess : cudaDriverEntryPointVersionNotSufficent;
      if (now) *function = k.function;
    }
  if (result) *result = status;
  return cudaSuccess;
}
