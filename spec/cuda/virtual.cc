/*
** virtual.cc - the driver's virtual memory: functions that reserve addresses, create memory, and
** map memory to addresses.
*/
#include "spec/cuda/inside.h"

#include <sys/mman.h>
#include <unistd.h>

using namespace emulated;

namespace {

enum { GRANULE = 2 << 20 };

struct Memory {
  int file, device;
  size_t bytes;
  int uses; /* number of mappings, plus 1 while the handle is held */
  bool shared;
};

struct Mapping {
  CUmemGenericAllocationHandle handle;
  size_t bytes;
};

typedef std::map<CUmemGenericAllocationHandle, Memory> Memories;

std::map<char *, size_t> &reserved = *new std::map<char *, size_t>();
size_t reserved_bytes; /* sum of all reserved sizes */
std::map<char *, Mapping> &mapped = *new std::map<char *, Mapping>();
Memories &memories = *new Memories();
CUmemGenericAllocationHandle last_handle;

char *at(CUdeviceptr address) { return reinterpret_cast<char *>(address); }

bool whole(size_t bytes) { return bytes > 0 && bytes % GRANULE == 0; }

template <class W> CUresult driver(const char *name, W work) {
  std::lock_guard<std::mutex> guard(lock);
  if (settings.legacy) return CUDA_ERROR_NOT_SUPPORTED;
  if (may_capture(name) != cudaSuccess) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return may_go(name) == cudaSuccess ? work() : CUDA_ERROR_OUT_OF_MEMORY;
}

/* These functions return whether all of these bytes are reserved, or mapped by whole mappings. */
bool is_reserved(char *address, size_t bytes) {
  auto next = reserved.upper_bound(address);
  if (next == reserved.begin()) return false;
  auto found = std::prev(next);
  return address + bytes <= found->first + found->second;
}
bool is_mapped(char *address, size_t bytes) {
  for (auto m = mapped.find(address); bytes > 0; m = mapped.find(address)) {
    if (m == mapped.end() || m->second.bytes > bytes) return false;
    address += m->second.bytes;
    bytes -= m->second.bytes;
  }
  return true;
}
bool is_unmapped(char *address, size_t bytes) {
  auto next = mapped.lower_bound(address);
  if (next != mapped.end() && next->first < address + bytes) return false;
  if (next == mapped.begin()) return true;
  auto before = std::prev(next);
  return before->first + before->second.bytes <= address;
}

void drop(CUmemGenericAllocationHandle handle) {
  Memory &memory = memories.at(handle);
  if (--memory.uses > 0) return;
  memory_used[memory.device] -= memory.bytes;
  close(memory.file);
  memories.erase(handle);
}

bool closed_map(char *address, size_t bytes) {
  return mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
              -1, 0) != MAP_FAILED;
}

void spoil(int file, size_t bytes) {
  std::string garbage(GRANULE, (char)GARBAGE);
  for (size_t done = 0; done < bytes; done += GRANULE)
    if (pwrite(file, garbage.data(), GRANULE, (off_t)done) != GRANULE) stop("no memory");
}

} // namespace

CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = cudaGetErrorName((cudaError_t)error);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = cudaGetErrorString((cudaError_t)error);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attr, CUdevice device) {
  *value = attr == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
           attr == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ||
           attr == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
  return device >= 0 && device < settings.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *,
                                       CUmemAllocationGranularity_flags) {
  *bytes = GRANULE;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long) {
  return driver(__func__, [&] {
    size_t aligned = std::max<size_t>(alignment, GRANULE);
    if (!whole(bytes) || aligned & (aligned - 1)) return CUDA_ERROR_INVALID_VALUE;
    if (reserved_bytes + bytes > (size_t)settings.addresses) return CUDA_ERROR_OUT_OF_MEMORY;
    void *pages = mmap(nullptr, bytes + aligned, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    char *first = static_cast<char *>(pages);
    char *begin = first + (aligned - (uintptr_t)first % aligned) % aligned;
    if (begin > first) munmap(first, (size_t)(begin - first));
    munmap(begin + bytes, (size_t)(first + aligned - begin));
    reserved[begin] = bytes;
    reserved_bytes += bytes;
    *address = (CUdeviceptr)begin;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  std::lock_guard<std::mutex> guard(lock);
  if (may_capture(__func__) != cudaSuccess) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  auto found = reserved.find(at(address));
  if (found == reserved.end() || found->second != bytes || !is_unmapped(at(address), bytes))
    return CUDA_ERROR_INVALID_VALUE;
  munmap(at(address), bytes);
  reserved_bytes -= bytes;
  reserved.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long) {
  return driver(__func__, [&] {
    int device = prop->location.id;
    if (!whole(bytes) || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || device < 0 ||
        device >= settings.devices)
      return CUDA_ERROR_INVALID_VALUE;
    if (memory_used[device] + bytes > (size_t)settings.memory) return CUDA_ERROR_OUT_OF_MEMORY;
    int file = memfd_create("emulated", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    spoil(file, bytes);
    memory_used[device] += bytes;
    *out = ++last_handle;
    bool shared = prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
                  prop->allocFlags.gpuDirectRDMACapable;
    memories[*out] = {file, device, bytes, 1, shared};
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> guard(lock);
  if (may_capture(__func__) != cudaSuccess) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (memories.count(handle) == 0) return CUDA_ERROR_INVALID_VALUE;
  drop(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  return driver(__func__, [&] {
    auto memory = memories.find(handle);
    if (memory == memories.end() || !whole(bytes) || offset + bytes > memory->second.bytes ||
        !is_reserved(at(address), bytes) || !is_unmapped(at(address), bytes))
      return CUDA_ERROR_INVALID_VALUE;
    if (mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->second.file,
             (off_t)offset) == MAP_FAILED)
      return CUDA_ERROR_OUT_OF_MEMORY;
    memory->second.uses++;
    mapped[at(address)] = {handle, bytes};
    return CUDA_SUCCESS;
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  std::lock_guard<std::mutex> guard(lock);
  if (may_capture(__func__) != cudaSuccess) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!is_mapped(at(address), bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (int device = 0; device < settings.devices; device++) finish_device(device);
  if (!closed_map(at(address), bytes)) return CUDA_ERROR_UNKNOWN;
  while (bytes > 0) {
    auto found = mapped.find(at(address));
    ranges.erase(found->first);
    address += found->second.bytes;
    bytes -= found->second.bytes;
    drop(found->second.handle);
    mapped.erase(found);
  }
  return CUDA_SUCCESS;
}

/* For the replacement of NCCL: returns whether other processes and network cards can access the
** memory at an address. This also holds for memory from cudaMalloc, which is not mapped. */
extern "C" __attribute__((visibility("default"))) int emulated_is_shared(void *data) {
  std::lock_guard<std::mutex> guard(lock);
  auto next = mapped.upper_bound(static_cast<char *>(data));
  if (next == mapped.begin()) return 1;
  auto found = std::prev(next);
  bool inside = data < found->first + found->second.bytes;
  return !inside || memories.at(found->second.handle).shared;
}

/* Sets access rights. Only memory with access counts as device memory in the runtime. */
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc,
                        size_t count) {
  return driver(__func__, [&] {
    bool open = false;
    if (!is_mapped(at(address), bytes)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
      open = open || desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (mprotect(at(address), bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
      return CUDA_ERROR_UNKNOWN;
    for (size_t done = 0; done < bytes;) {
      auto found = mapped.find(at(address) + done);
      int device = memories.at(found->second.handle).device;
      if (open)
        ranges[found->first] = {DEVICE_MEMORY, device, found->second.bytes};
      else
        ranges.erase(found->first);
      done += found->second.bytes;
    }
    return CUDA_SUCCESS;
  });
}
