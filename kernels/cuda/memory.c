/*
** memory.c - device memory: connects the allocator of kernels/device to the driver's virtual-memory
** calls. It also allocates pinned host memory.
**
** If the driver has no virtual-memory calls, if they fail, or with TLUA_CUDA_ALLOCATOR=segments,
** the allocator divides segments from cudaMalloc, which cannot grow.
** memory_stats().expandable_segments is 0 then. With TLUA_CUDA_ALLOCATOR=driver, every block is
** allocated by cudaMalloc and freed by cudaFree. This is slow and makes graphs unavailable, but
** tools that watch each block, such as compute-sanitizer, need it.
*/
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device/blocks.h"
#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/plugin.h"

#define LARGE_GRANULE (20 * 1024 * 1024) /* smallest granule of the arenas for large blocks */
/* granule of the segments from cudaMalloc, for blocks of every size */
#define SMALL_GRANULE (2 * 1024 * 1024)
/* the size of a stream's first arena is the size of the device's memory divided by FIRST */
#define FIRST 16

/* ---- the driver's calls --------------------------------------------------------------------- */

typedef struct Driver {
  CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
  CUresult (*unreserve)(CUdeviceptr, size_t);
  CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                     unsigned long long);
  CUresult (*release)(CUmemGenericAllocationHandle);
  CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
  CUresult (*unmap)(CUdeviceptr, size_t);
  CUresult (*access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
  CUresult (*granularity)(size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
  CUresult (*attribute)(int *, CUdevice_attribute, CUdevice);
} Driver;

static Driver driver;

static bool find_call(const char *name, void *call) {
  enum cudaDriverEntryPointQueryResult found;
  void *entry = NULL;
#if CUDART_VERSION >= 12050
  cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found);
#else
  cudaError_t error = cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found);
#endif
  if (error != cudaSuccess) cudaGetLastError();
  /* uses memcpy, because ISO C has no cast from a data pointer to a function pointer */
  memcpy(call, &entry, sizeof entry);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess && entry;
}

static bool find_calls(void) {
  return find_call("cuMemAddressReserve", &driver.reserve) &&
         find_call("cuMemAddressFree", &driver.unreserve) &&
         find_call("cuMemCreate", &driver.create) && find_call("cuMemRelease", &driver.release) &&
         find_call("cuMemMap", &driver.map) && find_call("cuMemUnmap", &driver.unmap) &&
         find_call("cuMemSetAccess", &driver.access) &&
         find_call("cuMemGetAllocationGranularity", &driver.granularity) &&
         find_call("cuDeviceGetAttribute", &driver.attribute);
}

/* ---- a device's memory ----------------------------------------------------------------------- */

typedef struct Memory {
  pthread_mutex_t lock;
  bool by_driver; /* whether each block is allocated by a cudaMalloc of its own */
  int device;
  CUmemAllocationProp kind; /* properties of the memory to map */
  tlk_Blocks blocks;
  /* unused events; the allocator takes one to mark a point in a stream's work, and returns it
  ** later */
  cudaEvent_t spare[64];
  int nspare;
} Memory;

static Memory memories[CUDA_MAX_DEVICES];

static bool has(int device, CUdevice_attribute attribute) {
  int value = 0;
  return driver.attribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

/* Returns the kind of memory to map. NCCL can register memory (ncclCommRegister) only if other
** processes can open the memory and network cards can access it. */
static CUmemAllocationProp kind_for(int device, bool shared) {
  CUmemAllocationProp kind = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
  };
  if (shared && has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
    kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (shared && has(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
    kind.allocFlags.gpuDirectRDMACapable = 1;
  return kind;
}

static char *reserve(void *self, int64_t bytes) {
  CUdeviceptr at = 0;
  (void)self;
  CUDA_RELAXED;
  CUresult error = driver.reserve(&at, (size_t)bytes, 0, 0, 0);
  if (error == CUDA_SUCCESS) return (char *)(uintptr_t)at;
  cuda_fail(TL_EMEM, "no address space for %lld bytes (error %d of cuMemAddressReserve)",
            (long long)bytes, (int)error);
  return NULL;
}

static void unreserve(void *self, char *at, int64_t bytes) {
  (void)self;
  CUDA_RELAXED;
  driver.unreserve((CUdeviceptr)(uintptr_t)at, (size_t)bytes);
}

static void unmap(void *self, char *at, int64_t bytes, int64_t granule) {
  (void)self, (void)granule;
  CUDA_RELAXED;
  driver.unmap((CUdeviceptr)(uintptr_t)at, (size_t)bytes);
}

/* Maps one granule. Each granule has its own memory handle, which is released together with the
** mapping. */
static bool map_granule(const Memory *m, char *at, int64_t granule) {
  CUmemGenericAllocationHandle handle;
  if (driver.create(&handle, (size_t)granule, &m->kind, 0) != CUDA_SUCCESS) return false;
  CUresult error = driver.map((CUdeviceptr)(uintptr_t)at, (size_t)granule, 0, handle, 0);
  driver.release(handle);
  return error == CUDA_SUCCESS;
}

/* Gives the device and its peers access to a range of addresses. */
static bool give_access(const Memory *m, char *at, int64_t bytes) {
  CUmemAccessDesc access[CUDA_MAX_DEVICES];
  size_t n = 0;
  for (int peer = 0; peer < cuda_device_count(); peer++) {
    int reaches = peer == m->device;
    if (!reaches && cudaDeviceCanAccessPeer(&reaches, peer, m->device) != cudaSuccess) continue;
    if (reaches)
      access[n++] = (CUmemAccessDesc){
          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer},
          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
      };
  }
  return driver.access((CUdeviceptr)(uintptr_t)at, (size_t)bytes, access, n) == CUDA_SUCCESS;
}

static bool map(void *self, char *at, int64_t bytes, int64_t granule) {
  const Memory *m = self;
  int64_t done = 0;
  CUDA_RELAXED;
  while (done < bytes && map_granule(m, at + done, granule)) done += granule;
  if (done == bytes && give_access(m, at, bytes)) return true;
  if (done > 0) unmap(self, at, done, granule);
  return false;
}

/* ---- segments ------------------------------------------------------------------------------- */

static void *from_driver(int64_t bytes) {
  void *data = NULL;
  CUDA_RELAXED;
  return cuda_ok(cudaMalloc(&data, bytes > 0 ? (size_t)bytes : 1), "cudaMalloc") ? data : NULL;
}

/* Returns a block to the driver by cudaFree, which first waits for all streams. */
static void to_driver(void *data) {
  CUDA_RELAXED;
  cudaFree(data);
}

static char *segment_new(void *self, int64_t bytes) {
  (void)self;
  return from_driver(bytes);
}

static void segment_free(void *self, char *at, int64_t bytes) {
  (void)self, (void)bytes;
  to_driver(at);
}

static bool segment_map(void *self, char *at, int64_t bytes, int64_t granule) {
  (void)self, (void)at, (void)bytes, (void)granule;
  return true;
}

static void segment_unmap(void *self, char *at, int64_t bytes, int64_t granule) {
  (void)self, (void)at, (void)bytes, (void)granule;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void *mark(void *self, int stream) {
  Memory *m = self;
  cudaEvent_t event = NULL;
  if (m->nspare > 0)
    event = m->spare[--m->nspare];
  else if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess)
    return NULL;
  if (cudaEventRecord(event, cuda_stream_by_id(m->device, stream)->handle) == cudaSuccess)
    return event;
  cudaGetLastError();
  cudaEventDestroy(event);
  return NULL;
}

static bool passed(void *self, void *point) {
  (void)self;
  CUDA_RELAXED;
  return cudaEventQuery(point) != cudaErrorNotReady;
}

static void drop(void *self, void *point) {
  Memory *m = self;
  if (m->nspare < (int)(sizeof m->spare / sizeof *m->spare))
    m->spare[m->nspare++] = point;
  else
    cudaEventDestroy(point);
}

static bool wait_for_all(void *self) {
  (void)self;
  CUDA_RELAXED;
  CUDA_TRY(cudaDeviceSynchronize());
  return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* Describes a source of blocks: address space to which memory is mapped on demand. */
static tlk_BlockSource mapped(Memory *m, int64_t total) {
  size_t granule = SMALL_GRANULE;
  driver.granularity(&granule, &m->kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  int64_t small = (int64_t)granule, large = round_up(LARGE_GRANULE, small);
  return (tlk_BlockSource){.granule = {large, small},
                           .reach = round_up(total / FIRST, large),
                           .most = round_up(total + total / 8, large),
                           .reserve = reserve,
                           .unreserve = unreserve,
                           .map = map,
                           .unmap = unmap};
}

/* Describes a source of blocks: segments from cudaMalloc, which have the same sizes as PyTorch's
** segments. */
static tlk_BlockSource segments(void) {
  return (tlk_BlockSource){.granule = {SMALL_GRANULE, SMALL_GRANULE},
                           .least = LARGE_GRANULE,
                           .reach = LARGE_GRANULE,
                           .most = LARGE_GRANULE,
                           .reserve = segment_new,
                           .unreserve = segment_free,
                           .map = segment_map,
                           .unmap = segment_unmap};
}

static bool open_with(Memory *m, tlk_BlockSource source, int64_t total) {
  source.self = m;
  source.host = cuda_host;
  source.name = "cuda";
  source.device = (tl_Device){TL_CUDA, (int8_t)m->device};
  source.mark = mark;
  source.passed = passed;
  source.drop = drop;
  source.wait = wait_for_all;
  tlk_blocks_open(&m->blocks, &source, total);
  return true;
}

/* Returns whether memory of this kind can be mapped on this device. Not all drivers can map memory,
** and virtual machines may forbid it. */
static bool can_map(Memory *m, bool shared) {
  m->kind = kind_for(m->device, shared);
  int64_t granule = mapped(m, 0).granule[1];
  char *at = reserve(m, granule);
  bool ok = at && map(m, at, granule, granule);
  if (ok) unmap(m, at, granule, granule);
  if (at) unreserve(m, at, granule);
  return ok;
}

static bool is_wanted(const char *allocator) {
  const char *wanted = getenv("TLUA_CUDA_ALLOCATOR");
  return wanted && strcmp(wanted, allocator) == 0;
}

bool cuda_memory_open(int device) {
  Memory *m = &memories[device];
  size_t free_bytes, total;
  pthread_mutex_init(&m->lock, NULL);
  m->device = device;
  m->by_driver = is_wanted("driver");
  CUDA_TRY(cudaMemGetInfo(&free_bytes, &total));
  bool maps = !m->by_driver && !is_wanted("segments") && find_calls() &&
              (can_map(m, true) || can_map(m, false));
  open_with(m, maps ? mapped(m, (int64_t)total) : segments(), (int64_t)total);
  m->blocks.stats.expandable_segments = maps;
  return true;
}

/* Locks and returns the device's memory. Returns NULL with a message on failure. */
static Memory *lock(int device) {
  if (!cuda_enter(device)) return NULL;
  pthread_mutex_lock(&memories[device].lock);
  return &memories[device];
}

static void unlock(Memory *m) { pthread_mutex_unlock(&m->lock); }

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Updates the statistics for a block that the driver allocated (sign 1) or freed (sign -1). */
static void count_by_driver(Memory *m, int sign, int64_t bytes) {
  tl_MemoryStats *s = &m->blocks.stats;
  tl_Stat *counts[] = {s->allocation, s->active, s->segment};
  tl_Stat *sizes[] = {s->allocated_bytes, s->active_bytes, s->reserved_bytes, s->requested_bytes};
  tl_Pool pool = bytes <= TLK_SMALL_BLOCK ? TL_POOL_SMALL : TL_POOL_LARGE;
  for (int i = 0; i < 3; i++) {
    tl_stat_add(&counts[i][TL_POOL_ALL], sign);
    tl_stat_add(&counts[i][pool], sign);
  }
  for (int i = 0; i < 4; i++) {
    tl_stat_add(&sizes[i][TL_POOL_ALL], sign * bytes);
    tl_stat_add(&sizes[i][pool], sign * bytes);
  }
  if (sign > 0)
    s->num_device_alloc++;
  else
    s->num_device_free++;
}

static void *alloc_by_driver(Memory *m, int64_t bytes) {
  void *data = from_driver(bytes);
  if (data) count_by_driver(m, 1, bytes);
  return data;
}

static void free_by_driver(Memory *m, void *data, int64_t bytes) {
  to_driver(data);
  count_by_driver(m, -1, bytes);
}

void *cuda_alloc(const tlk_Context *cx, int64_t bytes) {
  const tl_Stream *stream = cx->stream;
  uint64_t pool = cuda_capture_pool(stream);
  Memory *m = lock(stream->device);
  if (m == NULL) return NULL;
  void *data = m->by_driver ? alloc_by_driver(m, bytes)
                            : tlk_blocks_alloc(&m->blocks, bytes, stream->id, pool);
  unlock(m);
  return data;
}

void cuda_free(tl_Device device, void *data, int64_t bytes) {
  fusion_freed(device.index, data, bytes);
  Memory *m = lock(device.index);
  if (m == NULL) return;
  if (m->by_driver)
    free_by_driver(m, data, bytes);
  else
    tlk_blocks_free(&m->blocks, data);
  unlock(m);
}

void *cuda_scratch(const tlk_Context *cx, int64_t bytes) { return cuda_alloc(cx, bytes); }

void cuda_scratch_free(const tlk_Context *cx, void *data, int64_t bytes) {
  cuda_free(cx->device, data, bytes);
}

bool cuda_record_stream(tl_Device device, void *data, tl_Stream *stream) {
  Memory *m = lock(device.index);
  if (m == NULL) return false;
  tlk_blocks_used_by(&m->blocks, data, stream->id);
  unlock(m);
  return true;
}

bool cuda_trim(tl_Device device) {
  Memory *m = lock(device.index);
  if (m == NULL) return false;
  bool ok = tlk_blocks_trim(&m->blocks);
  unlock(m);
  return ok;
}

/* ---- pools of graphs ------------------------------------------------------------------------- */

bool cuda_memory_hold(int device, uint64_t pool) {
  Memory *m = lock(device);
  if (m == NULL) return false;
  bool ok = m->by_driver
                ? cuda_fail(TL_EDEVICE, "capturing a graph: not possible while every block "
                                        "is the driver's, which frees it at once "
                                        "(TLUA_CUDA_ALLOCATOR is set to driver)")
                : tlk_blocks_hold(&m->blocks, pool);
  unlock(m);
  return ok;
}

void cuda_memory_let_go(int device, uint64_t pool, uint64_t launched) {
  Memory *m = lock(device);
  if (m == NULL) return;
  tlk_blocks_let_go(&m->blocks, pool, launched);
  unlock(m);
}

void cuda_memory_capture(int device, int change) {
  Memory *m = lock(device);
  if (m == NULL) return;
  tlk_blocks_capture(&m->blocks, change);
  unlock(m);
}

/* ---- statistics ------------------------------------------------------------------------------ */

bool cuda_memory_stats(tl_Device device, tl_MemoryStats *out) {
  Memory *m = lock(device.index);
  if (m == NULL) return false;
  tlk_blocks_stats(&m->blocks, out);
  unlock(m);
  return true;
}

bool cuda_reset_peaks(tl_Device device) {
  Memory *m = lock(device.index);
  if (m == NULL) return false;
  tl_stats_reset_peaks(&m->blocks.stats);
  unlock(m);
  return true;
}

bool cuda_reset_sums(tl_Device device) {
  Memory *m = lock(device.index);
  if (m == NULL) return false;
  tl_stats_reset_sums(&m->blocks.stats);
  unlock(m);
  return true;
}

bool cuda_memory_info(tl_Device device, int64_t *free_bytes, int64_t *total) {
  size_t unused, all;
  if (!cuda_enter(device.index)) return false;
  CUDA_RELAXED;
  CUDA_TRY(cudaMemGetInfo(&unused, &all));
  *free_bytes = (int64_t)unused;
  *total = (int64_t)all;
  return true;
}

bool cuda_set_memory_limit(tl_Device device, int64_t bytes) {
  Memory *m = lock(device.index);
  if (m == NULL) return false;
  m->blocks.limit = bytes;
  unlock(m);
  return true;
}

bool cuda_memory_blocks(tl_Device device, void (*visit)(void *to, const tl_BlockInfo *block),
                        void *to) {
  Memory *m = lock(device.index);
  if (m == NULL) return false;
  tlk_blocks_visit(&m->blocks, visit, to);
  unlock(m);
  return true;
}

/* ---- pinned memory --------------------------------------------------------------------------- */

void *cuda_pinned_alloc(int64_t bytes) {
  void *data = NULL;
  unsigned flags = cudaHostAllocPortable | cudaHostAllocMapped;
  CUDA_RELAXED;
  return cuda_ok(cudaHostAlloc(&data, (size_t)bytes, flags), "cudaHostAlloc") ? data : NULL;
}

void cuda_pinned_free(void *data, int64_t bytes) {
  (void)bytes;
  CUDA_RELAXED;
  cudaFreeHost(data);
}
