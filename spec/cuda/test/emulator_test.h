/*
** emulator_test.h - what the emulator's own tests share: a device for launch(), and calls
** that must succeed.
*/
#ifndef EMULATOR_TEST_H
#define EMULATOR_TEST_H

#include "spec/cuda/inside.h"
#include "spec/support/test.h"

/* A stream of device 0, which launch() takes. */
const tlk_Context *context();
cudaStream_t stream();
/* What the last call of the runtime that failed has returned. */
cudaError_t last_failure();

/* Elements on device 0, each of them 0. */
template <class T> struct Device {
  T *data;
  size_t n;
  explicit Device(size_t count) : n(count) {
    void *memory;
    CHECK(cudaMalloc(&memory, n * sizeof(T)) == cudaSuccess);
    data = static_cast<T *>(memory);
    CHECK(cudaMemsetAsync(data, 0, n * sizeof(T), stream()) == cudaSuccess);
  }
  ~Device() { cudaFree(data); }
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;
  std::vector<T> read() const {
    std::vector<T> out(n);
    CHECK(cudaMemcpyAsync(out.data(), data, n * sizeof(T), cudaMemcpyDeviceToHost, stream()) ==
          cudaSuccess);
    CHECK(cudaStreamSynchronize(stream()) == cudaSuccess);
    return out;
  }
};

/* The parts of the test; not 0 if something failed. */
int test_threads();
int test_runtime();
/* Runs what must not go well. */
int do_wrong(const char *name);

#endif
