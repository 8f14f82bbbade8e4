/*
** emulator_test.h - code that the emulator's tests share: a device for launch(), and checks that
** calls succeed.
*/
#ifndef EMULATOR_TEST_H
#define EMULATOR_TEST_H

#include "spec/cuda/inside.h"
#include "spec/support/test.h"

/* Returns a stream of device 0, for use with launch(). */
const tlk_Context *context();
cudaStream_t stream();
/* Returns the error of the last runtime call that failed, and clears it. */
cudaError_t last_failure();

/* An array on device 0 whose elements are initially 0. */
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

/* The parts of the test. Each function returns 0 if all its checks have passed. */
int test_threads();
int test_runtime();
/* Runs the kernel with this name, which contains an error that the emulator must report. */
int do_wrong(const char *name);

#endif
