/*
** copy.cu - copies between any strides and dtypes, and filling. If both dtypes are the same, a copy
** moves bytes in units as large as the strides allow. If both arrays are contiguous, the driver
** copies. If one array is transposed, a kernel copies tile by tile through shared memory.
*/
#include "kernels/cuda/complex.cuh"
#include "kernels/cuda/line_reduce.cuh"

#define COPY_THREADS 256

/* ---- strided copies of units -------------------------------------------------------------- */

template <class U>
__global__ void __launch_bounds__(COPY_THREADS) move_kernel(const __grid_constant__ Strided<2> s) {
  enum { K = 4 }; /* number of units that a thread loads before it stores them */
  uint32_t step = (uint32_t)thread_count();
  for (uint32_t i = (uint32_t)thread_index(); i < s.numel; i += K * step) {
    U x[K];
    int64_t offset[K][2];
#pragma unroll
    for (int k = 0; k < K; k++) {
      if (i + k * (uint64_t)step >= s.numel) break;
      s.offsets(i + k * step, offset[k]);
      x[k] = *static_cast<const U *>(s.source(1, offset[k][1]));
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
      if (i + k * (uint64_t)step >= s.numel) break;
      *reinterpret_cast<U *>(s.data[0] + offset[k][0]) = x[k];
    }
  }
}

/* Returns whether the elements along dimension 0 can be copied in units of this number of bytes. */
static bool units_fit(const tli_Iter &it, int64_t size, int64_t unit) {
  if (it.ndim == 0 || it.sizes[0] * size % unit != 0) return false;
  for (int k = 0; k < 2; k++) {
    const tli_IterArg &a = it.args[k];
    if (a.data == NULL) continue;
    if (a.strides[0] != size || !aligned(a.data, (size_t)unit)) return false;
    for (int d = 1; d < it.ndim; d++)
      if (a.strides[d] % unit != 0) return false;
  }
  return it.args[1].data != NULL || unit <= (int64_t)sizeof(int64_t);
}

static bool move_units(const tlk_Context *cx, tli_Iter it, int64_t size) {
  int64_t unit = 16;
  while (unit > size && !units_fit(it, size, unit)) unit /= 2;
  if (unit > size) {
    int64_t times = unit / size;
    it.sizes[0] /= times;
    it.numel /= times;
    for (int k = 0; k < 2; k++)
      if (it.args[k].data) it.args[k].strides[0] = unit;
  }
  auto kernel = unit == 16  ? move_kernel<Unit<16>>
                : unit == 8 ? move_kernel<Unit<8>>
                : unit == 4 ? move_kernel<Unit<4>>
                : unit == 2 ? move_kernel<Unit<2>>
                            : move_kernel<Unit<1>>;
  return for_parts<2>(it, [&](const Strided<2> &s) {
    unsigned grid = blocks_for(cx, s.numel, COPY_THREADS * 4, 32);
    return launch(cx, kernel, dim3(grid), COPY_THREADS, 0, s);
  });
}

/* ---- transposed copies ---------------------------------------------------------------------- */

/* The argument of a transposing copy. Elements are contiguous along `cols` in dst and along `rows`
** in src. `rest` is a loop over the other dimensions, and each of its iterations copies one
** matrix. */
struct Transpose {
  /* sizes of the matrix in elements, and the strides in bytes from row to row of dst and from
  ** column to column of src */
  int64_t cols, rows, dst_row, src_col;
  int64_t across, down; /* number of tiles in each direction */
  Strided<2> rest;
};

#define TILE_ROWS 8 /* number of rows of threads in a block */

template <class U, int T>
__global__ void __launch_bounds__(32 * TILE_ROWS)
    transpose_kernel(const __grid_constant__ Transpose t) {
  __shared__ U tile[T][T + (sizeof(U) < 4 ? 4 / sizeof(U) : 1)];
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  int64_t each = t.across * t.down, tiles = each * t.rest.numel;
#pragma unroll 1
  for (int64_t b = blockIdx.x; b < tiles; b += gridDim.x) {
    int64_t matrix = b / each, place = b - matrix * each, offset[2];
    int64_t row = place / t.across, r0 = row * T, c0 = (place - row * t.across) * T;
    t.rest.offsets((uint32_t)matrix, offset);
    const char *src = t.rest.data[1] + offset[1];
    char *dst = t.rest.data[0] + offset[0];
#pragma unroll
    for (int i = 0; i < T; i += TILE_ROWS)
#pragma unroll
      for (int j = 0; j < T; j += 32)
        if (c0 + y + i < t.cols && r0 + x + j < t.rows)
          tile[y + i][x + j] =
              reinterpret_cast<const U *>(src + (c0 + y + i) * t.src_col)[r0 + x + j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < T; i += TILE_ROWS)
#pragma unroll
      for (int j = 0; j < T; j += 32)
        if (r0 + y + i < t.rows && c0 + x + j < t.cols)
          reinterpret_cast<U *>(dst + (r0 + y + i) * t.dst_row)[c0 + x + j] = tile[x + j][y + i];
    __syncthreads();
  }
}

/* Returns the dimension along which an operand is contiguous; -1 if there is none. */
static int unit_dimension(const tli_Iter &it, int k, int64_t size) {
  for (int d = 0; d < it.ndim; d++)
    if (it.args[k].strides[d] == size && it.sizes[d] >= 8) return d;
  return -1;
}

static bool transposed(const tli_Iter &it, int64_t size, int *cols, int *rows) {
  if (it.args[1].data == NULL) return false;
  *cols = unit_dimension(it, 0, size);
  *rows = unit_dimension(it, 1, size);
  return *cols >= 0 && *rows >= 0 && *cols != *rows && it.args[0].strides[*rows] != 0 &&
         it.args[1].strides[*cols] != 0;
}

static bool transpose(const tlk_Context *cx, const tli_Iter &it, int64_t size, int cols, int rows) {
  int side = size < 4 ? 64 : 32;
  Transpose t;
  tli_Iter rest = it;
  t.cols = it.sizes[cols];
  t.rows = it.sizes[rows];
  t.dst_row = it.args[0].strides[rows];
  t.src_col = it.args[1].strides[cols];
  t.across = divide_up(t.cols, side);
  t.down = divide_up(t.rows, side);
  rest.sizes[cols] = rest.sizes[rows] = 1;
  rest.numel = it.numel / t.cols / t.rows;
  auto kernel = size == 16  ? transpose_kernel<Unit<16>, 32>
                : size == 8 ? transpose_kernel<Unit<8>, 32>
                : size == 4 ? transpose_kernel<Unit<4>, 32>
                : size == 2 ? transpose_kernel<Unit<2>, 64>
                            : transpose_kernel<Unit<1>, 64>;
  return for_parts<2>(rest, [&](const Strided<2> &s) {
    t.rest = s;
    unsigned grid = blocks_for(cx, t.across * t.down * s.numel, 1, 64);
    return launch(cx, kernel, dim3(grid), 32 * TILE_ROWS, 0, t);
  });
}

/* ---- conversions ----------------------------------------------------------------------------- */

/* Expands to the case of a switch for a dtype whose elements are read as type W. */
#define READ_CASE(name, S)                        \
  case TL_##name:                                 \
    load_vector(static_cast<const S *>(from), x); \
    return;
#define READER(W, ...)                                                                 \
  template <int N>                                                                     \
  __device__ __forceinline__ void read_vector(const void *from, int dtype, W(&x)[N]) { \
    switch (dtype) {                                                                   \
      __VA_ARGS__                                                                      \
    default: unknown_dtype();                                                          \
    }                                                                                  \
  }
READER(float, READ_CASE(F32, float) READ_CASE(F16, f16) READ_CASE(BF16, bf16))
READER(double, READ_CASE(F64, double))
READER(int64_t, READ_CASE(I64, int64_t))
READER(int32_t, READ_CASE(I32, int32_t) READ_CASE(I16, int16_t) READ_CASE(I8, int8_t)
                    READ_CASE(U8, uint8_t) READ_CASE(BOOL, uint8_t))

#define CONVERTED 8 /* number of elements in a vector */

template <class W>
__global__ void __launch_bounds__(COPY_THREADS)
    convert_kernel(const __grid_constant__ Strided<2> s, uint32_t vectors) {
  uint32_t step = (uint32_t)thread_count(), thread = (uint32_t)thread_index();
  int64_t offset[2];
  for (uint32_t i = thread; i < vectors; i += step) {
    W x[CONVERTED];
    s.offsets(i * CONVERTED, offset);
    read_vector(s.data[1] + offset[1], s.dtype[1], x);
    store_vector(s.data[0] + offset[0], s.dtype[0], x);
  }
  for (uint32_t i = vectors * CONVERTED + thread; i < s.numel; i += step) {
    s.offsets(i, offset);
    W x = load_any<W>(s.source(1, offset[1]), s.dtype[1]);
    store_any<W>(s.data[0] + offset[0], s.dtype[0], x);
  }
}

/* Converts complex numbers, or converts to them, one element at a time. W is the complex type of
** the source, or of the destination if the source is real. */
template <class W>
__global__ void __launch_bounds__(COPY_THREADS)
    convert_complex_kernel(const __grid_constant__ Strided<2> s) {
  uint32_t step = (uint32_t)thread_count();
  for (uint32_t i = (uint32_t)thread_index(); i < s.numel; i += step) {
    int64_t offset[2];
    s.offsets(i, offset);
    W x = load_any<W>(s.source(1, offset[1]), s.dtype[1]);
    store_any<W>(s.data[0] + offset[0], s.dtype[0], x);
  }
}

static bool is_complex(int dtype) { return dtype == TL_C64 || dtype == TL_C128; }

static bool convert_complex(const tlk_Context *cx, const tli_Iter &it) {
  int through = is_complex(it.args[1].dtype) ? it.args[1].dtype : it.args[0].dtype;
  auto kernel = through == TL_C64 ? convert_complex_kernel<Complex<float>>
                                  : convert_complex_kernel<Complex<double>>;
  return for_parts<2>(it, [&](const Strided<2> &s) {
    unsigned grid = blocks_for(cx, s.numel, COPY_THREADS, 32);
    return launch(cx, kernel, dim3(grid), COPY_THREADS, 0, s);
  });
}

/* Returns whether all elements of an operand can be read or written in vectors. */
static bool vectors_of(const tli_Iter &it, int k) {
  const tli_IterArg &a = it.args[k];
  int64_t size = dtype_bytes(a.dtype), bytes = size * CONVERTED < 16 ? size * CONVERTED : 16;
  if (a.data == NULL || it.ndim == 0 || a.strides[0] != size || !aligned(a.data, (size_t)bytes))
    return false;
  for (int d = 1; d < it.ndim; d++)
    if (a.strides[d] % bytes != 0) return false;
  return it.ndim == 1 || it.sizes[0] % CONVERTED == 0;
}

static bool convert(const tlk_Context *cx, const tli_Iter &it) {
  int from = it.args[1].dtype;
  if (is_complex(from) || is_complex(it.args[0].dtype)) return convert_complex(cx, it);
  bool half = from == TL_F16 || from == TL_BF16, vectors = vectors_of(it, 0) && vectors_of(it, 1);
  auto kernel = from == TL_F32 || half ? convert_kernel<float>
                : from == TL_F64       ? convert_kernel<double>
                : from == TL_I64       ? convert_kernel<int64_t>
                                       : convert_kernel<int32_t>;
  return for_parts<2>(it, [&](const Strided<2> &s) {
    unsigned grid = blocks_for(cx, s.numel, vectors ? COPY_THREADS * CONVERTED : COPY_THREADS, 32);
    return launch(cx, kernel, dim3(grid), COPY_THREADS, 0, s, vectors ? s.numel / CONVERTED : 0);
  });
}

/* ---- entries of the kernel table ------------------------------------------------------------- */

static bool contiguous(const tli_Iter &it, int k, int64_t size) {
  return it.args[k].data && (it.ndim == 0 || (it.ndim == 1 && it.args[k].strides[0] == size));
}

static bool copy_bytes(const tlk_Context *cx, void *to, const void *from, int64_t bytes) {
  if (to == from) return true;
  if (!cuda_enter(cx->device.index)) return false;
  CUDA_TRY(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, cx->stream->handle));
  return true;
}

bool tlk_copy(const struct tlk_copy *call) {
  const tli_Iter &it = call->it;
  int64_t size = dtype_bytes(it.args[0].dtype);
  int cols, rows;
  if (it.numel == 0) return true;
  if (it.args[0].dtype != it.args[1].dtype) return convert(call->cx, it);
  if (contiguous(it, 0, size) && contiguous(it, 1, size))
    return copy_bytes(call->cx, it.args[0].data, it.args[1].data, it.numel * size);
  if (transposed(it, size, &cols, &rows)) return transpose(call->cx, it, size, cols, rows);
  return move_units(call->cx, it, size);
}

/* Returns 8 bytes that consist of copies of the value, converted to the dtype. */
int64_t cuda_fill_pattern(int dtype, const tl_Scalar *value) {
  const tl_Scalar &s = *value;
  double real = s.kind == TL_FLOATING ? s.f : (double)s.i;
  double most = 0x1p63;
  int64_t whole = s.kind != TL_FLOATING ? s.i
                  : real != real        ? 0
                  : real >= most        ? INT64_MAX
                  : real < -most        ? INT64_MIN
                                        : (int64_t)real;
  uint64_t bits = (uint64_t)whole, size = (uint64_t)dtype_bytes(dtype);
  float single = (float)real;
  switch (dtype) {
  case TL_F32: bits = tli_float_bits(single); break;
  case TL_F64: memcpy(&bits, &real, sizeof bits); break;
  case TL_F16: bits = tli_f32_to_f16(single); break;
  case TL_BF16: bits = tli_f32_to_bf16(single); break;
  case TL_BOOL: bits = s.kind == TL_FLOATING ? s.f != 0 : s.i != 0; break;
  default: break;
  }
  if (size < 8) bits &= ((uint64_t)1 << 8 * size) - 1;
  for (; size < 8; size *= 2) bits |= bits << 8 * size;
  return (int64_t)bits;
}

/* Stores 16 bytes that consist of copies of the value, converted to the dtype. */
static void fill_pattern(int dtype, const tl_Scalar &value, int64_t (&out)[2]) {
  out[0] = out[1] = is_complex(dtype) ? 0 : cuda_fill_pattern(dtype, &value);
  if (!is_complex(dtype)) return;
  double parts[2] = {value.kind >= TL_FLOATING ? value.f : (double)value.i,
                     value.kind == TL_COMPLEX ? value.imag : 0};
  float narrow_parts[4] = {(float)parts[0], (float)parts[1], (float)parts[0], (float)parts[1]};
  memcpy(out, dtype == TL_C64 ? (const void *)narrow_parts : parts, sizeof out);
}

bool tlk_fill(const struct tlk_fill *call) {
  tli_Iter it = call->it;
  int64_t size = dtype_bytes(it.args[0].dtype), pattern[2];
  fill_pattern(it.args[0].dtype, call->value, pattern);
  if (it.numel == 0) return true;
  if (pattern[0] == 0 && pattern[1] == 0 && contiguous(it, 0, size)) {
    if (!cuda_enter(call->cx->device.index)) return false;
    CUDA_TRY(
        cudaMemsetAsync(it.args[0].data, 0, (size_t)(it.numel * size), call->cx->stream->handle));
    return true;
  }
  it.nargs = 2;
  it.args[1] = it.args[0];
  it.args[1].data = NULL;
  memcpy(it.args[1].stored, pattern, sizeof pattern);
  for (int d = 0; d < it.ndim; d++) it.args[1].strides[d] = 0;
  return move_units(call->cx, it, size);
}
