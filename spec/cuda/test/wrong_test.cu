/*
** wrong_test.cu - kernels with deliberate errors, under the names that emulator_spec.lua uses.
*/
#include "kernels/cuda/cuda.cuh"
#include "spec/cuda/test/emulator_test.h"

/* ---- errors that end the process -------------------------------------------------------- */

__global__ void barrier_of_half(int *out) {
  if (threadIdx.x < 48) __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void two_barriers(int *out) {
  if (threadIdx.x == 3)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void barrier_and_shuffle(int *out) {
  int x = 0;
  if (threadIdx.x == 3)
    __syncthreads();
  else
    x = __shfl_sync(ALL_LANES, x, 0);
  out[threadIdx.x] = x;
}

__global__ void stranger_to_the_mask(int *out) {
  out[threadIdx.x] = (int)__ballot_sync(0xffffu, 1);
}

__global__ void gives_up(int *out) {
  if (threadIdx.x == 2) __trap();
  out[threadIdx.x] = 1;
}

/* ---- errors that the address sanitizer detects -------------------------------------------- */

__global__ void past_the_end(const int *in, int *out, int n) {
  int i = (int)threadIdx.x;
  out[i] = i <= n ? in[i] : 0; /* < */
}

__global__ void past_shared(int *out) {
  int *shared = dynamic_shared<int>();
  shared[threadIdx.x + 1] = 1;
  out[threadIdx.x] = shared[threadIdx.x + 1];
}

/* ---- errors that give wrong results --------------------------------------------------------- */

__global__ void without_barrier(int *out) {
  int *shared = dynamic_shared<int>();
  shared[threadIdx.x] = (int)threadIdx.x;
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

/* A kernel that lacks a second barrier: fast threads begin the next round, and overwrite values
** that other threads have yet to read. */
__global__ void without_second_barrier(int *out) {
  int *shared = dynamic_shared<int>(), sum = 0;
  for (int round = 0; round < 4; round++) {
    shared[threadIdx.x] = round;
    __syncthreads();
    sum += shared[(threadIdx.x + 1) % blockDim.x];
  }
  out[threadIdx.x] = sum;
}

/* A kernel that is right only if the threads of a warp run in lockstep, which they do not. */
__global__ void without_warp_barrier(int *out) {
  int *shared = dynamic_shared<int>();
  shared[threadIdx.x] = 0;
  __syncwarp();
  shared[threadIdx.x] += 1;
  out[threadIdx.x] = shared[(threadIdx.x + 5) % blockDim.x];
}

/* Launches a kernel 20 times, and returns how many launches give a wrong result. */
static int shown(void (*kernel)(int *), int (*expected)(int)) {
  Device<int> out(64);
  int wrong = 0;
  for (int i = 0; i < 20; i++) {
    launch(context(), kernel, dim3(1), 64, 64 * sizeof(int), out.data);
    std::vector<int> got = out.read();
    bool right = true;
    for (int t = 0; t < 64; t++) right = right && got[(size_t)t] == expected(t);
    wrong += !right;
  }
  return wrong;
}

static int shows(const char *name) {
  int wrong = 0;
  if (strcmp(name, "without_barrier") == 0)
    wrong = shown(without_barrier, [](int t) { return 63 - t; });
  if (strcmp(name, "without_second_barrier") == 0)
    wrong = shown(without_second_barrier, [](int) { return 6; });
  if (strcmp(name, "without_warp_barrier") == 0)
    wrong = shown(without_warp_barrier, [](int) { return 1; });
  printf("%d of 20 launches gave wrong numbers\n", wrong);
  return 0;
}

static const struct {
  const char *name;
  void (*kernel)(int *);
} kernels[] = {
    {"barrier_of_half", barrier_of_half},
    {"two_barriers", two_barriers},
    {"barrier_and_shuffle", barrier_and_shuffle},
    {"stranger_to_the_mask", stranger_to_the_mask},
    {"gives_up", gives_up},
    {"past_shared", past_shared},
};

int do_wrong(const char *name) {
  Device<int> out(64), in(50);
  for (const auto &k : kernels)
    if (strcmp(name, k.name) == 0) {
      launch(context(), k.kernel, dim3(1, 2), 64, 64 * sizeof(int), out.data);
      return 0;
    }
  if (strcmp(name, "past_the_end") == 0) {
    launch(context(), past_the_end, dim3(1), 64, 0, in.data, out.data, 50);
    return 0;
  }
  if (strcmp(name, "freed") == 0) {
    int *gone = in.data;
    {
      Device<int> other(50);
      gone = other.data;
    }
    launch(context(), past_the_end, dim3(1), 64, 0, gone, out.data, 49);
    return 0;
  }
  return shows(name);
}
