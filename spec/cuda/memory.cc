/*
** memory.cc - device memory, pinned memory, and copies. Each block has exactly the number of bytes
** that were requested, so that the address sanitizer detects any access beyond its end.
*/
#include "spec/cuda/inside.h"

namespace emulated {

std::map<char *, Range> &ranges = *new std::map<char *, Range>();
std::map<int, size_t> &memory_used = *new std::map<int, size_t>();

enum { ALIGNMENT = 256 };

/* Returns the range that contains an address, or the end of the map. */
static std::map<char *, Range>::iterator range_at(char *at) {
  auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return ranges.end();
  auto found = std::prev(next);
  return at < found->first + found->second.bytes ? found : ranges.end();
}

/* Adjacent ranges count as one range, because the driver may map one block in several parts. */
Range owner_of(const void *data, size_t bytes) {
  char *at = static_cast<char *>(const_cast<void *>(data)), *end = at + bytes;
  auto found = range_at(at);
  if (found == ranges.end()) return {HOST_MEMORY, -1, 0};
  Range range = found->second;
  while (range.owner != HOST_MEMORY && (at = found->first + found->second.bytes) < end) {
    found = range_at(at);
    if (found == ranges.end()) return {HOST_MEMORY, -1, 0};
    if (found->second.owner != range.owner || found->second.device != range.device)
      range.owner = HOST_MEMORY;
  }
  return range;
}

static bool touches(const void *data, size_t bytes) {
  char *at = static_cast<char *>(const_cast<void *>(data));
  auto next = ranges.lower_bound(at);
  return range_at(at) != ranges.end() || (next != ranges.end() && next->first < at + bytes);
}

static cudaError_t allocate(void **out, size_t bytes, Range range) {
  size_t free = (size_t)settings.memory - memory_used[range.device];
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (range.owner == DEVICE_MEMORY && bytes > free) return cudaErrorMemoryAllocation;
  if (posix_memalign(out, ALIGNMENT, bytes) != 0) return cudaErrorMemoryAllocation;
  memset(*out, GARBAGE, bytes);
  ranges[static_cast<char *>(*out)] = range;
  if (range.owner == DEVICE_MEMORY) memory_used[range.device] += bytes;
  return cudaSuccess;
}

static cudaError_t release(void *data, Owner owner) {
  auto found = ranges.find(static_cast<char *>(data));
  if (data == nullptr) return cudaSuccess;
  if (found == ranges.end() || found->second.owner != owner) return cudaErrorInvalidValue;
  if (owner == DEVICE_MEMORY) memory_used[found->second.device] -= found->second.bytes;
  memset(data, GARBAGE, found->second.bytes);
  ranges.erase(found);
  free(data);
  return cudaSuccess;
}

/* ---- copies ---------------------------------------------------------------------------- */

static bool is_on_device(const void *data, size_t bytes) {
  return owner_of(data, bytes).owner == DEVICE_MEMORY;
}
/* Returns whether the memory is pinned, or no byte of it is on a device. */
static bool is_on_host(const void *data, size_t bytes) {
  return owner_of(data, bytes).owner == PINNED_MEMORY || !touches(data, bytes);
}

static cudaError_t check_copy(const void *dst, const void *src, size_t bytes,
                              enum cudaMemcpyKind kind) {
  bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  if (kind == cudaMemcpyDefault) {
    to = is_on_device(dst, bytes);
    from = is_on_device(src, bytes);
  }
  bool fine = (to ? is_on_device : is_on_host)(dst, bytes) &&
              (from ? is_on_device : is_on_host)(src, bytes);
  return fine ? cudaSuccess : cudaErrorInvalidValue;
}

/* The largest copy of pageable memory that does not wait for the stream. */
enum { STAGED_BYTES = 64 * 1024 };

/* Copies in stream order. Pageable memory is read, and written, before the call returns; pinned
** memory is accessed when the stream reaches the copy. */
static cudaError_t copy(void *dst, const void *src, size_t bytes, cudaStream_t stream) {
  CUstream_st *s = stream_of(stream);
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (!capturing(s) && owner_of(src, bytes).owner == HOST_MEMORY) {
    cudaError_t waited = bytes > STAGED_BYTES ? finish(s) : cudaSuccess;
    if (waited != cudaSuccess) return waited;
    std::string staged(static_cast<const char *>(src), bytes);
    return put(stream, [=] { memcpy(dst, staged.data(), bytes); });
  }
  cudaError_t error = put(stream, [=] { memmove(dst, src, bytes); });
  bool pageable = owner_of(dst, bytes).owner == HOST_MEMORY;
  return error == cudaSuccess && pageable && !capturing(s) ? finish(s) : error;
}

} // namespace emulated

using namespace emulated;

/* ---- blocks ------------------------------------------------------------------------------ */

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  return call(__func__, [&] {
    *total = (size_t)settings.memory;
    *free = *total - memory_used[current_device];
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *data) {
  return call(__func__, [&] {
    Range range = owner_of(data, 1);
    void *address = const_cast<void *>(data);
    *out = {cudaMemoryTypeUnregistered, -2, nullptr, address};
    if (range.owner == DEVICE_MEMORY) *out = {cudaMemoryTypeDevice, range.device, address, nullptr};
    if (range.owner == PINNED_MEMORY) *out = {cudaMemoryTypeHost, range.device, address, address};
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void **data, size_t bytes) {
  return call(__func__, [&] {
    return allocate(data, bytes, {DEVICE_MEMORY, current_device, bytes});
  });
}

cudaError_t cudaFree(void *data) {
  return call_free(__func__, [&] {
    for (int device = 0; device < settings.devices; device++) finish_device(device);
    return release(data, DEVICE_MEMORY);
  });
}

cudaError_t cudaMallocAsync(void **data, size_t bytes, cudaStream_t stream) {
  return call(__func__, [&] {
    if (stream_of(stream) == nullptr) return cudaErrorInvalidResourceHandle;
    return allocate(data, bytes, {DEVICE_MEMORY, current_device, bytes});
  });
}

cudaError_t cudaFreeAsync(void *data, cudaStream_t stream) {
  return call_free(__func__, [&] {
    if (owner_of(data, 1).owner != DEVICE_MEMORY) return cudaErrorInvalidValue;
    return put(stream, [=] { release(data, DEVICE_MEMORY); });
  });
}

cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned) {
  return call(__func__, [&] {
    return allocate(data, bytes, {PINNED_MEMORY, current_device, bytes});
  });
}
cudaError_t cudaMallocHost(void **data, size_t bytes) {
  return cudaHostAlloc(data, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *data) {
  return call_free(__func__, [&] {
    for (int device = 0; device < settings.devices; device++) finish_device(device);
    return release(data, PINNED_MEMORY);
  });
}

cudaError_t cudaHostRegister(void *data, size_t bytes, unsigned) {
  return call(__func__, [&] {
    if (bytes == 0) return cudaErrorInvalidValue;
    if (touches(data, bytes)) return cudaErrorHostMemoryAlreadyRegistered;
    ranges[static_cast<char *>(data)] = {PINNED_MEMORY, current_device, bytes};
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void *data) {
  return call_free(__func__, [&] {
    auto found = ranges.find(static_cast<char *>(data));
    if (found == ranges.end() || found->second.owner != PINNED_MEMORY)
      return cudaErrorHostMemoryNotRegistered;
    ranges.erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
  return call(__func__, [&] {
    *device = host;
    return owner_of(host, 1).owner == PINNED_MEMORY ? cudaSuccess : cudaErrorInvalidValue;
  });
}

/* ---- copies --------------------------------------------------------------------------------- */

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call(__func__, [&] {
    if (bytes == 0) return cudaSuccess;
    cudaError_t error = check_copy(dst, src, bytes, kind);
    return error == cudaSuccess ? copy(dst, src, bytes, stream) : error;
  });
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind) {
  return call(__func__, [&] {
    cudaError_t error = cudaSuccess;
    if (bytes > 0) error = check_copy(dst, src, bytes, kind);
    if (error == cudaSuccess && bytes > 0) error = copy(dst, src, bytes, nullptr);
    return error == cudaSuccess ? finish(stream_of(nullptr)) : error;
  });
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return call(__func__, [&] {
    cudaError_t error = cudaSuccess;
    if (width > dst_pitch || width > src_pitch) return cudaErrorInvalidValue;
    for (size_t i = 0; i < height && width > 0 && error == cudaSuccess; i++) {
      char *to = static_cast<char *>(dst) + i * dst_pitch;
      const char *from = static_cast<const char *>(src) + i * src_pitch;
      error = check_copy(to, from, width, kind);
      if (error == cudaSuccess) error = copy(to, from, width, stream);
    }
    return error;
  });
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t bytes,
                                cudaStream_t stream) {
  return call(__func__, [&] {
    Range target = owner_of(dst, bytes), source = owner_of(src, bytes);
    if (bytes == 0) return cudaSuccess;
    if (to < 0 || to >= settings.devices || from < 0 || from >= settings.devices)
      return cudaErrorInvalidDevice;
    if (target.owner != DEVICE_MEMORY || target.device != to || source.owner != DEVICE_MEMORY ||
        source.device != from)
      return cudaErrorInvalidValue;
    return copy(dst, src, bytes, stream);
  });
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream) {
  return call(__func__, [&] {
    if (bytes == 0) return cudaSuccess;
    if (owner_of(data, bytes).owner == HOST_MEMORY) return cudaErrorInvalidValue;
    return put(stream, [=] { memset(data, value, bytes); });
  });
}

cudaError_t cudaMemset(void *data, int value, size_t bytes) {
  return cudaMemsetAsync(data, value, bytes, nullptr);
}
