/*
** runtime_test.cc - tests the emulator's runtime: refused calls, memory, streams, events, graphs,
** virtual memory, and failures on request.
*/
#include "spec/cuda/test/emulator_test.h"

#define OK(call) CHECK((call) == cudaSuccess)
#define FAILS(error, call) CHECK((call) == (error))

static void add_one(int *out) { out[threadIdx.x]++; }
static void times_two(int *out) { out[threadIdx.x] *= 2; }

/* ---- launches ---------------------------------------------------------------------------- */

static bool refused(cudaError_t error, dim3 grid, unsigned threads, size_t shared) {
  int *nowhere = nullptr;
  last_failure();
  return !launch(context(), add_one, grid, threads, shared, nowhere) && last_failure() == error;
}

TEST(launches_that_are_too_large) {
  CHECK(refused(cudaErrorInvalidConfiguration, dim3(1), 1025, 0));
  CHECK(refused(cudaErrorInvalidConfiguration, dim3(1), 0, 0));
  CHECK(refused(cudaErrorInvalidConfiguration, dim3(1, 65536), 32, 0));
  CHECK(refused(cudaErrorInvalidConfiguration, dim3(1u << 31), 32, 0));
  CHECK(refused(cudaErrorInvalidValue, dim3(1), 32, 48 * 1024 + 1));
}

TEST(shared_memory_beyond_48_kilobytes) {
  Device<int> out(32);
  const void *kernel = reinterpret_cast<const void *>(times_two);
  CHECK(!launch(context(), times_two, dim3(1), 32, 100 * 1024, out.data));
  OK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  CHECK(launch(context(), times_two, dim3(1), 32, 227 * 1024, out.data));
  FAILS(cudaErrorInvalidValue,
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024 + 1));
}

TEST(streams_of_another_device_or_none) {
  cudaStream_t gone;
  tlk_Context cx = *context();
  Device<int> out(1);
  FAILS(cudaErrorInvalidDevice, cudaSetDevice(2));
  OK(cudaSetDevice(1));
  FAILS(cudaErrorInvalidResourceHandle, cudaMemsetAsync(out.data, 0, 4, stream()));
  OK(cudaSetDevice(0));
  OK(cudaStreamCreate(&gone));
  OK(cudaStreamDestroy(gone));
  FAILS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(gone));
  FAILS(cudaErrorInvalidResourceHandle, cudaGetLastError());
  OK(cudaGetLastError());
  cx.device.index = 1;
  CHECK(!launch(&cx, add_one, dim3(1), 1, 0, out.data));
  CHECK(last_failure() == cudaErrorInvalidResourceHandle);
  OK(cudaSetDevice(0));
}

/* ---- memory -------------------------------------------------------------------------------- */

TEST(memory_that_is_misused) {
  void *data, *other;
  int here[4] = {0};
  OK(cudaMalloc(&data, 13));
  OK(cudaMalloc(&other, 13));
  CHECK((uintptr_t)data % 256 == 0);
  FAILS(cudaErrorInvalidValue, cudaMemcpy(here, data, 14, cudaMemcpyDeviceToHost));
  FAILS(cudaErrorInvalidValue, cudaMemcpy(data, here, 13, cudaMemcpyDeviceToHost));
  FAILS(cudaErrorInvalidValue, cudaMemcpy(here, here + 1, 4, cudaMemcpyHostToDevice));
  FAILS(cudaErrorInvalidValue, cudaMemset(here, 0, 4));
  OK(cudaMemcpy(here, data, 13, cudaMemcpyDeviceToHost));
  CHECK(here[0] == (int)0xfbfbfbfbu);
  FAILS(cudaErrorInvalidValue, cudaFree(static_cast<char *>(data) + 1));
  OK(cudaFree(data));
  FAILS(cudaErrorInvalidValue, cudaFree(data));
  FAILS(cudaErrorInvalidValue, cudaFreeHost(other));
  OK(cudaFree(other));
  OK(cudaFree(nullptr));
}

TEST(memory_that_runs_out) {
  size_t before, now, total;
  void *data, *more;
  OK(cudaMemGetInfo(&before, &total));
  emulated::configure("memory", (int64_t)(total - before) + 1000);
  OK(cudaMalloc(&data, 600));
  FAILS(cudaErrorMemoryAllocation, cudaMalloc(&more, 600));
  OK(cudaMemGetInfo(&now, &total));
  CHECK(now == 400);
  OK(cudaFree(data));
  emulated::configure("memory", (int64_t)4 << 30);
}

TEST(pinned_memory_and_peers) {
  void *pinned, *here, *there;
  struct cudaPointerAttributes of;
  OK(cudaHostAlloc(&pinned, 16, cudaHostAllocMapped));
  memset(pinned, 3, 16);
  OK(cudaMalloc(&here, 16));
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&there, 16));
  OK(cudaSetDevice(0));
  OK(cudaMemcpyAsync(here, pinned, 16, cudaMemcpyDefault, stream()));
  FAILS(cudaErrorInvalidValue, cudaMemcpyPeerAsync(there, 0, here, 0, 16, stream()));
  OK(cudaMemcpyPeerAsync(there, 1, here, 0, 16, stream()));
  memset(pinned, 0, 16);
  OK(cudaMemcpyAsync(pinned, there, 16, cudaMemcpyDeviceToHost, stream()));
  OK(cudaStreamSynchronize(stream()));
  CHECK(static_cast<char *>(pinned)[15] == 3);
  OK(cudaPointerGetAttributes(&of, static_cast<char *>(there) + 3));
  CHECK(of.type == cudaMemoryTypeDevice && of.device == 1);
  OK(cudaPointerGetAttributes(&of, &of));
  CHECK(of.type == cudaMemoryTypeUnregistered);
  OK(cudaFree(here));
  OK(cudaFree(there));
  OK(cudaFreeHost(pinned));
}

/* ---- streams that work late ------------------------------------------------------------------ */

TEST(a_missing_wait_shows) {
  cudaStream_t first, second;
  cudaEvent_t event;
  int late = 0;
  OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  emulated::configure("lazy", 1);
  for (int i = 0; i < 40; i++) {
    Device<int> x(1);
    bool waits = i % 2;
    OK(cudaStreamSynchronize(stream()));
    OK(cudaMemsetAsync(x.data, 1, 4, first));
    OK(cudaEventRecord(event, first));
    if (waits) OK(cudaStreamWaitEvent(second, event, 0));
    OK(cudaMemsetAsync(x.data, 2, 4, second));
    OK(cudaDeviceSynchronize());
    bool right = x.read()[0] == 0x02020202;
    CHECK_AT(i, right || !waits);
    late += !right;
  }
  CHECK(late > 2);
  emulated::configure("lazy", 0);
  OK(cudaStreamDestroy(first));
  OK(cudaStreamDestroy(second));
  OK(cudaEventDestroy(event));
}

TEST(events_tell_time) {
  cudaEvent_t start, end, silent;
  float elapsed = -1;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&end));
  OK(cudaEventCreateWithFlags(&silent, cudaEventDisableTiming));
  FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&elapsed, start, end));
  OK(cudaEventRecord(start, stream()));
  OK(cudaEventRecord(end, stream()));
  OK(cudaEventRecord(silent, stream()));
  OK(cudaEventSynchronize(end));
  OK(cudaEventElapsedTime(&elapsed, start, end));
  CHECK(elapsed >= 0 && elapsed < 1000);
  FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&elapsed, start, silent));
  OK(cudaEventDestroy(start));
  OK(cudaEventDestroy(end));
  OK(cudaEventDestroy(silent));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

struct Fork {
  cudaStream_t side;
  cudaEvent_t event;
  Fork() {
    OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  ~Fork() {
    OK(cudaStreamDestroy(side));
    OK(cudaEventDestroy(event));
  }
  void follow(cudaStream_t next, cudaStream_t first) {
    OK(cudaEventRecord(event, first));
    OK(cudaStreamWaitEvent(next, event, 0));
  }
};

TEST(a_graph_runs_again) {
  Device<int> x(8);
  Fork fork;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  OK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  CHECK(launch(context(), add_one, dim3(1), 8, 0, x.data));
  fork.follow(fork.side, stream());
  OK(cudaMemsetAsync(x.data + 7, 0, 4, fork.side));
  fork.follow(stream(), fork.side);
  CHECK(launch(context(), times_two, dim3(1), 8, 0, x.data));
  OK(cudaStreamEndCapture(stream(), &graph));
  CHECK(x.read()[0] == 0);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  for (int lazy = 0; lazy < 2; lazy++) {
    emulated::configure("lazy", lazy);
    for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(exec, stream()));
    OK(cudaStreamSynchronize(stream()));
    CHECK(x.read()[0] == (lazy ? 126 : 14) && x.read()[7] == 0);
  }
  emulated::configure("lazy", 0);
  OK(cudaGraphExecDestroy(exec));
  FAILS(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream()));
}

TEST(a_capture_that_ends_badly) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  enum cudaStreamCaptureStatus status;
  cudaGraph_t graph;
  void *data;
  Fork fork;
  OK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  FAILS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream()));
  OK(cudaStreamIsCapturing(stream(), &status));
  CHECK(status == cudaStreamCaptureStatusInvalidated);
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream(), &graph));

  OK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  FAILS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&data, 8));
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream(), &graph));

  Device<int> x(1);
  OK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  fork.follow(fork.side, stream());
  OK(cudaMemsetAsync(x.data, 0, 4, fork.side));
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  FAILS(cudaErrorCapturedEvent, cudaEventQuery(fork.event));
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  FAILS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream(), &graph));
  FAILS(cudaErrorIllegalState, cudaStreamEndCapture(stream(), &graph));

  OK(cudaEventRecord(fork.event, fork.side));
  OK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  FAILS(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(stream(), fork.event, 0));
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream(), &graph));
}

TEST(calls_that_a_relaxed_thread_may_make) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaGraph_t graph;
  cudaEvent_t event;
  void *data;
  OK(cudaEventCreate(&event));
  OK(cudaEventRecord(event, stream()));
  OK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal));
  FAILS(cudaErrorStreamCaptureUnsupported, cudaEventQuery(event));
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream(), &graph));

  OK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal));
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  OK(cudaEventSynchronize(event));
  OK(cudaMalloc(&data, 8));
  OK(cudaFree(data));
  OK(cudaStreamEndCapture(stream(), &graph));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed));
  FAILS(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize());
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream(), &graph));
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  OK(cudaEventDestroy(event));
}

/* ---- virtual memory -------------------------------------------------------------------------- */

TEST(memory_is_mapped_to_addresses) {
  const size_t granule = 2 << 20;
  CUdeviceptr base;
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp prop = {};
  CUmemAccessDesc access = {};
  size_t free, total, now;
  std::vector<char> bytes(granule + 8);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(cudaMemGetInfo(&free, &total));
  CHECK(cuMemAddressReserve(&base, 8 * granule, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(cuMemCreate(&handle, granule + 1, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < 2; i++) {
    CHECK(cuMemCreate(&handle, granule, &prop, 0) == CUDA_SUCCESS);
    CHECK(cuMemMap(base + i * granule, granule, 0, handle, 0) == CUDA_SUCCESS);
    CHECK(cuMemMap(base + i * granule, granule, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
  }
  void *data = reinterpret_cast<void *>(base);
  FAILS(cudaErrorInvalidValue, cudaMemset(data, 1, 8));
  CHECK(cuMemSetAccess(base, 2 * granule, &access, 1) == CUDA_SUCCESS);
  OK(cudaMemset(data, 1, granule + 4));
  OK(cudaMemcpy(bytes.data(), data, granule + 8, cudaMemcpyDeviceToHost));
  CHECK(bytes[granule + 3] == 1 && bytes[granule + 4] == (char)0xfb);
  FAILS(cudaErrorInvalidValue, cudaMemset(data, 1, 2 * granule + 1));
  OK(cudaMemGetInfo(&now, &total));
  CHECK(free - now == 2 * granule);
  CHECK(cuMemAddressFree(base, 8 * granule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(base, 2 * granule) == CUDA_SUCCESS);
  OK(cudaMemGetInfo(&now, &total));
  CHECK(free == now);
  CHECK(cuMemAddressFree(base, 8 * granule) == CUDA_SUCCESS);
}

TEST(the_drivers_functions_are_found) {
  enum cudaDriverEntryPointQueryResult found;
  void *function;
  OK(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 12000, cudaEnableDefault, &found));
  CHECK(found == cudaDriverEntryPointSuccess && function == reinterpret_cast<void *>(cuMemCreate));
  OK(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, cudaEnableDefault, &found));
  CHECK(found == cudaDriverEntryPointSymbolNotFound && function == nullptr);
}

/* ---- failures on request --------------------------------------------------------------------- */

TEST(the_nth_call_fails) {
  Device<int> out(8);
  void *data = nullptr;
  emulated::configure("fail_at", 2);
  OK(cudaMemsetAsync(out.data, 0, 4, stream()));
  FAILS(cudaErrorMemoryAllocation, cudaMalloc(&data, 8));
  OK(cudaMalloc(&data, 8));
  OK(cudaFree(data));
  emulated::configure("fail_at", 1);
  FAILS(cudaErrorUnknown, cudaStreamSynchronize(stream()));
  OK(cudaStreamSynchronize(stream()));
}

int test_runtime() { return test_all(); }
