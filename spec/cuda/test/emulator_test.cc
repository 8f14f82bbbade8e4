/*
** emulator_test.cc - tests that the emulator in spec/cuda does what CUDA does. Without arguments,
** runs everything that must succeed. With the name of an error, makes that error, at which the
** emulator must end the process; emulator_spec.lua checks the message.
*/
#include "spec/cuda/test/emulator_test.h"

static cudaError_t failure;

bool cuda_enter(int device) { return cuda_ok(cudaSetDevice(device), "cudaSetDevice"); }

bool cuda_ok(cudaError_t error, const char *) {
  if (error != cudaSuccess) failure = error;
  return error == cudaSuccess;
}

cudaError_t last_failure() {
  cudaError_t error = failure;
  failure = cudaSuccess;
  return error;
}

static tl_Stream own;

cudaStream_t stream() {
  if (own.handle == nullptr) cudaStreamCreateWithFlags(&own.handle, cudaStreamNonBlocking);
  return own.handle;
}

const tlk_Context *context() {
  static tlk_Context cx;
  stream();
  cx.stream = &own;
  return &cx;
}

int main(int argc, char **argv) {
  if (argc > 1) return do_wrong(argv[1]);
  return test_threads() | test_runtime();
}
