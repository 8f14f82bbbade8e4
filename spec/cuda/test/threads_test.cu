/*
** threads_test.cu - tests threads, barriers, warps and shared memory.
*/
#include "kernels/cuda/cuda.cuh"
#include "spec/cuda/test/emulator_test.h"

/* ---- positions of threads ------------------------------------------------------------ */

__global__ void write_places(int *out) {
  int block = (int)(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
  out[block * (int)blockDim.x + (int)threadIdx.x] += block * 1000 + (int)threadIdx.x;
}

TEST(every_thread_of_every_block_runs_once) {
  Device<int> out(2 * 3 * 4 * 40);
  CHECK(launch(context(), write_places, dim3(2, 3, 4), 40, 0, out.data));
  std::vector<int> got = out.read();
  for (int i = 0; i < (int)got.size(); i++) CHECK_AT(i, got[(size_t)i] == i / 40 * 1000 + i % 40);
}

__global__ void write_warps(unsigned *out) { out[threadIdx.x] = threadIdx.x % warpSize; }

TEST(a_grid_without_blocks_does_nothing) {
  Device<unsigned> out(64);
  CHECK(launch(context(), write_warps, dim3(0), 64, 0, out.data));
  CHECK(out.read()[63] == 0);
  CHECK(launch(context(), write_warps, dim3(1), 64, 0, out.data));
  CHECK(out.read()[63] == 31);
}

/* ---- blocks ---------------------------------------------------------------------------- */

__global__ void sum_blocks(const float *in, float *out, int n) {
  __shared__ float parts[WARP];
  float x = 0;
  for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
    x += in[blockIdx.x * (unsigned)n + (unsigned)i];
  x = block_reduce(
      x, [](float a, float b) { return a + b; }, parts);
  float twice = block_reduce(
      x, [](float a, float b) { return a > b ? a : b; }, parts);
  if (threadIdx.x == 0) out[blockIdx.x] = x + twice;
}

__global__ void fill(float *out, int n) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) out[i] = (float)(i % 7);
}

TEST(a_block_sums_with_barriers_between) {
  const int n = 1000, blocks = 5;
  Device<float> in(n * blocks), out(blocks);
  float expected = 0;
  CHECK(launch(context(), fill, dim3(3), 64, 0, in.data, n * blocks));
  CHECK(launch(context(), sum_blocks, dim3(blocks), 256, 0, in.data, out.data, n));
  for (int i = 0; i < n; i++) expected += (float)(i % 7);
  CHECK(out.read()[0] == 2 * expected);
}

__global__ void count_threads(int *out) {
  int all = __syncthreads_count(threadIdx.x % 3 == 0);
  int any = __syncthreads_or(threadIdx.x == 5), none = __syncthreads_or(0);
  int each = __syncthreads_and(threadIdx.x < 100), most = __syncthreads_and(threadIdx.x != 5);
  out[threadIdx.x] = all * 10000 + any * 1000 + none * 100 + each * 10 + most;
}

TEST(barriers_count) {
  Device<int> out(100);
  CHECK(launch(context(), count_threads, dim3(1), 100, 0, out.data));
  for (int got : out.read()) CHECK(got == 34 * 10000 + 1000 + 10);
}

/* A kernel in which each thread enters the next stage only after its neighbour has reached the
** current stage. */
__global__ void relay(int *out, int stages) {
  int *stage = dynamic_shared<int>();
  unsigned next = (threadIdx.x + 1) % blockDim.x;
  stage[threadIdx.x] = 0;
  for (int s = 1; s <= stages; s++) {
    __syncthreads();
    int theirs = stage[next];
    __syncthreads();
    stage[threadIdx.x] = theirs + 1;
  }
  out[threadIdx.x] = stage[threadIdx.x];
}

TEST(barriers_hold_the_fast_back) {
  Device<int> out(160);
  for (int i = 0; i < 20; i++) {
    CHECK(launch(context(), relay, dim3(2), 160, 160 * sizeof(int), out.data, 9));
    for (int got : out.read()) CHECK(got == 9);
  }
}

/* ---- shared memory ------------------------------------------------------------------------ */

__device__ __noinline__ unsigned of_a_function() {
  __shared__ unsigned words[64];
  unsigned before = words[threadIdx.x];
  words[threadIdx.x] = 1;
  return before;
}

__global__ void read_unwritten(unsigned *out) {
  __shared__ unsigned words[64];
  out[threadIdx.x] = words[threadIdx.x];
  out[64 + threadIdx.x] = dynamic_shared<unsigned>()[threadIdx.x];
  out[128 + threadIdx.x] = of_a_function();
  words[threadIdx.x] = dynamic_shared<unsigned>()[threadIdx.x] = 1;
}

TEST(shared_memory_begins_as_garbage) {
  Device<unsigned> out(192);
  for (int i = 0; i < 3; i++) {
    CHECK(launch(context(), read_unwritten, dim3(1), 64, 64 * sizeof(unsigned), out.data));
    for (unsigned got : out.read()) CHECK(got == 0xfbfbfbfbu);
  }
}

/* ---- warps -------------------------------------------------------------------------------- */

__global__ void shuffle_all(int *out, int n) {
  int lane = (int)threadIdx.x % WARP, x = (int)threadIdx.x * 10;
  int row = 0;
  auto put = [&](int value) { out[row++ * n + (int)threadIdx.x] = value; };
  put(__shfl_sync(ALL_LANES, x, 3));
  put(__shfl_sync(ALL_LANES, x, lane + 1, 8));
  put(__shfl_up_sync(ALL_LANES, x, 2));
  put(__shfl_down_sync(ALL_LANES, x, 2, 16));
  put(__shfl_xor_sync(ALL_LANES, x, 5));
  put((int)(__shfl_xor_sync(ALL_LANES, (double)x + 0.5, 1) * 2));
  put((int)__ballot_sync(ALL_LANES, lane & 1));
  put(__any_sync(ALL_LANES, lane == 7) * 2 + __all_sync(ALL_LANES, lane != 7));
  put(__popc(__match_any_sync(ALL_LANES, lane / 5)));
  put((int)__reduce_add_sync(ALL_LANES, (unsigned)lane));
  put(__reduce_min_sync(ALL_LANES, 3 - lane));
  put((int)__reduce_max_sync(ALL_LANES, (unsigned)(3 - lane)));
  put(warp_reduce(lane, [](int a, int b) { return a + b; }));
}

TEST(lanes_exchange_values) {
  enum { N = 64 };
  Device<int> out(13 * N);
  CHECK(launch(context(), shuffle_all, dim3(1), N, 0, out.data, N));
  std::vector<int> got = out.read();
  for (int t = 0; t < N; t++) {
    int lane = t % 32, first = t - lane, row = 0;
    auto next = [&] { return got[(size_t)(row++ * N + t)]; };
    CHECK_AT(t, next() == (first + 3) * 10);
    CHECK_AT(t, next() == (first + lane / 8 * 8 + (lane + 1) % 8) * 10);
    CHECK_AT(t, next() == (lane < 2 ? t : t - 2) * 10);
    CHECK_AT(t, next() == (lane % 16 < 14 ? t + 2 : t) * 10);
    CHECK_AT(t, next() == (first + (lane ^ 5)) * 10);
    CHECK_AT(t, next() == (first + (lane ^ 1)) * 20 + 1);
    CHECK_AT(t, next() == (int)0xaaaaaaaau);
    CHECK_AT(t, next() == 2);
    CHECK_AT(t, next() == (lane < 30 ? 5 : 2));
    CHECK_AT(t, next() == 31 * 16);
    CHECK_AT(t, next() == 3 - 31);
    CHECK_AT(t, next() == -1);
    CHECK_AT(t, next() == 31 * 16);
  }
}

/* A kernel in which first each half of a warp votes, and then all lanes that have not exited. */
__global__ void part_of_a_warp(int *out) {
  unsigned low = 0x0000ffffu, high = 0xffff0000u;
  int lane = (int)threadIdx.x % WARP;
  if (lane < 16)
    out[threadIdx.x] = (int)__ballot_sync(low, lane % 4 == 0);
  else
    out[threadIdx.x] = (int)(__ballot_sync(high, lane % 8 == 0) >> 16);
  if (lane >= 20) return;
  out[threadIdx.x] += __popc(__ballot_sync(ALL_LANES, 1)) * 0x100000;
}

TEST(masks_and_ended_lanes) {
  Device<int> out(40); /* the second warp has only eight lanes */
  CHECK(launch(context(), part_of_a_warp, dim3(1), 40, 0, out.data));
  std::vector<int> got = out.read();
  for (int t = 0; t < 40; t++) {
    int lane = t % 32, there = t < 32 ? 20 : 8, gone = lane >= 20;
    int votes = t >= 32 ? 0x11 : lane < 16 ? 0x1111 : 0x0101;
    CHECK_AT(t, got[(size_t)t] == votes + (gone ? 0 : there * 0x100000));
  }
}

__global__ void ask_a_stranger(unsigned *out) {
  unsigned x = threadIdx.x;
  if (threadIdx.x < 8) x = __shfl_sync(0xffu, x, 20);
  out[threadIdx.x] = x;
}

TEST(the_value_of_a_lane_outside_the_mask_is_garbage) {
  Device<unsigned> out(32);
  CHECK(launch(context(), ask_a_stranger, dim3(1), 32, 0, out.data));
  CHECK(out.read()[0] == 0xfbfbfbfbu);
  CHECK(out.read()[9] == 9);
}

/* ---- atomics ------------------------------------------------------------------------------- */

/* A kernel in which the last block to finish sums the values that all blocks have written. */
__global__ void sum_by_the_last(const float *in, float *parts, unsigned *ticket, float *out) {
  __shared__ bool last;
  __shared__ float sums[WARP];
  float x = warp_reduce(in[thread_index()], [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = x;
    __threadfence();
    last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  x = threadIdx.x < gridDim.x ? parts[threadIdx.x] : 0;
  x = block_reduce(
      x, [](float a, float b) { return a + b; }, sums);
  if (threadIdx.x == 0) *out = x;
}

TEST(the_last_block_sums) {
  Device<float> in(320), parts(10), out(1);
  Device<unsigned> ticket(1);
  CHECK(launch(context(), fill, dim3(1), 32, 0, in.data, 320));
  float expected = 0;
  for (int i = 0; i < 320; i++) expected += (float)(i % 7);
  for (int i = 0; i < 5; i++)
    CHECK(launch(context(), sum_by_the_last, dim3(10), 32, 0, in.data, parts.data, ticket.data,
                 out.data));
  CHECK(out.read()[0] == expected);
  CHECK(ticket.read()[0] == 0);
}

__global__ void change(int *ints, float *floats, unsigned long long *words) {
  atomicAdd(&ints[0], 1);
  atomicMax(&ints[1], (int)threadIdx.x);
  atomicMin(&ints[2], -(int)threadIdx.x);
  atomicOr(&ints[3], 1 << threadIdx.x % 32);
  if (atomicCAS(&ints[4], 0, 7) == 0) atomicAdd(&ints[5], 1);
  atomicAdd(floats, 0.5f);
  atomicAdd(words, 1ull << 40);
  atomicExch(words + 1, 9ull);
}

TEST(atomics) {
  Device<int> ints(6);
  Device<float> floats(1);
  Device<unsigned long long> words(2);
  CHECK(launch(context(), change, dim3(3), 100, 0, ints.data, floats.data, words.data));
  CHECK((ints.read() == std::vector<int>{300, 99, -99, -1, 7, 1}));
  CHECK(floats.read()[0] == 150);
  CHECK(words.read()[0] == 300ull << 40 && words.read()[1] == 9);
}

/* ---- numbers ------------------------------------------------------------------------------- */

TEST(functions_of_numbers) {
  CHECK(__umulhi(0x80000000u, 6) == 3 && __mulhi(-2, 3) == -1);
  CHECK(__umul64hi(1ull << 63, 6) == 3 && __mul64hi(-2, 3) == -1);
  CHECK(__clz(1) == 31 && __clz(0) == 32 && __ffs(8) == 4 && __popcll(0xffull << 40) == 8);
  CHECK(__brev(1) == 0x80000000u && __byte_perm(0x33221100u, 0x77665544u, 0x7140) == 0x77114400u);
  CHECK(__funnelshift_l(0x80000000u, 1, 1) == 3 && __funnelshift_r(2, 1, 1) == 0x80000001u);
  CHECK(__float_as_uint(1.0f) == 0x3f800000u && __uint_as_float(0x40000000u) == 2);
  CHECK(__float2int_rz(3e9f) == INT32_MAX && __float2int_rn(-2.5f) == -2);
  CHECK(__float2int_rd(NAN) == 0 && __double2uint_ru(-1.0) == 0);
  CHECK(max(1, 2.5f) == 2.5f && min(-1, 3) == -1 && max(NAN, 1.0f) == 1 && min(1.0f, NAN) == 1);
  CHECK(rsqrt(4.0f) == 0.5f && rsqrtf(16.0f) == 0.25f && normcdf(0.0) == 0.5);
  CHECK(__saturatef(2) == 1 && __saturatef(NAN) == 0 && __fmaf_rn(2, 3, 4) == 10);
}

/* ---- large loops ----------------------------------------------------------------------- */

/* Returns a loop over contiguous float32 elements. */
static tli_Iter loop_of(int ndim, int64_t inner, int64_t outer) {
  tli_Iter it = {};
  it.ndim = ndim;
  it.nargs = 2;
  it.numel = inner * outer;
  it.sizes[0] = inner, it.sizes[1] = outer;
  for (int k = 0; k < 2; k++) {
    it.args[k].data = reinterpret_cast<char *>((uintptr_t)4096);
    it.args[k].strides[0] = 4, it.args[k].strides[1] = 4 * inner;
  }
  return it;
}

/* Returns whether the parts of a split loop cover all elements and begin at multiples of 16
** bytes. */
static bool is_cut_well(const tli_Iter &it) {
  int64_t all = 0;
  char *next = it.args[0].data;
  bool ok = for_parts<2>(it, [&](const Strided<2> &s) {
    bool good = s.numel <= INT32_MAX && s.data[0] == next && (uintptr_t)next % 16 == 0;
    all += s.numel;
    next += 4 * (int64_t)s.numel;
    return good && (it.sizes[0] % 4 != 0 || s.sizes[0].divisor % 4 == 0);
  });
  return ok && all == it.numel;
}

TEST(a_loop_that_is_too_large_is_cut_between_vectors) {
  const int64_t most = INT32_MAX;
  CHECK(is_cut_well(loop_of(1, most + 5, 1)));
  CHECK(is_cut_well(loop_of(1, 3 * most + 2, 1)));
  CHECK(is_cut_well(loop_of(2, most + 5, 2)));
  CHECK(is_cut_well(loop_of(2, 12, most / 4)));
  CHECK(is_cut_well(loop_of(2, most / 4 + 1, 12)));
}

int test_threads() { return test_all(); }
