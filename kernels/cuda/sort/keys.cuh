/*
** keys.cuh - sort keys, which are unsigned integers in the same order as the elements. NaN sorts
** after every number, and -0 equals 0. A key has as many bits as its element.
*/
#ifndef TLK_CUDA_KEYS_CUH
#define TLK_CUDA_KEYS_CUH

#include "kernels/cuda/cuda.cuh"

/* Returns the key of a floating-point number whose bits are `bits`. `inf` has the bits of infinity
** in the same type. */
template <class U> __device__ __forceinline__ uint64_t float_key(U bits, U inf) {
  const U sign = (U)((U)1 << (8 * sizeof(U) - 1));
  U size = (U)(bits & (U)~sign);
  U key = bits & sign ? (U)~bits : (U)(bits | sign);
  return size > inf ? (U) ~(U)0 : size == 0 ? sign : key;
}

/* Computes the keys of elements i, i + step, ... before `end`; the remaining keys are 0. Loads all
** elements before it converts the first. */
template <class U, int N, class Key>
__device__ __forceinline__ void keys_of_bits(const void *data, int64_t i, int64_t step, int64_t end,
                                             uint64_t (&keys)[N], Key key) {
  U bits[N];
#pragma unroll
  for (int k = 0; k < N; k++)
    bits[k] = i + k * step < end ? static_cast<const U *>(data)[i + k * step] : 0;
#pragma unroll
  for (int k = 0; k < N; k++) keys[k] = key(bits[k]);
}
template <int N>
__device__ __forceinline__ void keys_here(const void *data, int dtype, int64_t i, int64_t step,
                                          int64_t end, uint64_t (&keys)[N]) {
#define KEYS(U, key) \
  return keys_of_bits<U>(data, i, step, end, keys, [](U b) -> uint64_t { return key; })
  switch (dtype) {
  case TL_F32: KEYS(uint32_t, float_key(b, (uint32_t)0x7f800000u));
  case TL_F64: KEYS(uint64_t, float_key(b, (uint64_t)0x7ff0000000000000u));
  case TL_F16: KEYS(uint16_t, float_key(b, (uint16_t)0x7c00u));
  case TL_BF16: KEYS(uint16_t, float_key(b, (uint16_t)0x7f80u));
  case TL_I8: KEYS(uint8_t, b ^ 0x80u);
  case TL_I16: KEYS(uint16_t, b ^ 0x8000u);
  case TL_I32: KEYS(uint32_t, b ^ 0x80000000u);
  case TL_I64: KEYS(uint64_t, b ^ 0x8000000000000000u);
  case TL_BOOL: KEYS(uint8_t, b != 0);
  default: KEYS(uint8_t, b);
  }
#undef KEYS
}
__device__ __forceinline__ uint64_t key_here(const void *data, int dtype, int64_t i) {
  uint64_t key[1];
  keys_here(data, dtype, i, 1, INT64_MAX, key);
  return key[0];
}
static __device__ __noinline__ uint64_t key_at(const void *data, int dtype, int64_t i) {
  return key_here(data, dtype, i);
}

static inline int key_bits(int dtype) { return (int)dtype_bytes(dtype) * 8; }
static inline uint64_t key_mask(int dtype) { return UINT64_MAX >> (64 - key_bits(dtype)); }
/* Returns the key of NaN, or 0 for integer dtypes, for which callers do not use the result. */
static inline uint64_t nan_key(int dtype) {
  bool floating = dtype == TL_F32 || dtype == TL_F64 || dtype == TL_F16 || dtype == TL_BF16;
  return floating ? key_mask(dtype) : 0;
}

/* Rows of n elements. Each key is XORed with `flip`. */
struct Keys {
  const char *data;
  int dtype, bytes, bits;
  int64_t rows, n;
  uint64_t flip, nan;

  __device__ __forceinline__ uint64_t at(int64_t row, int64_t i) const {
    return key_here(data, dtype, row * n + i) ^ flip;
  }
  /* Computes the element with a given key. Returns false if several elements have this key, as is
  ** so for NaN, 0 and true. */
  __device__ __forceinline__ bool element(uint64_t key, uint64_t *element) const {
    uint64_t sign = (uint64_t)1 << (bits - 1), own = key ^ flip;
    switch (dtype) {
    case TL_F32:
    case TL_F64:
    case TL_F16:
    case TL_BF16: *element = own & sign ? own ^ sign : ~own; return own != sign && own != nan;
    case TL_I8:
    case TL_I16:
    case TL_I32:
    case TL_I64: *element = own ^ sign; return true;
    case TL_BOOL: return false;
    default: *element = own; return true;
    }
  }
  /* Computes the keys of elements i, i + step, ... of a row, up to the row's end. */
  template <int N>
  __device__ __forceinline__ void batch(int64_t row, int64_t i, int64_t step,
                                        uint64_t (&keys)[N]) const {
    keys_here(data, dtype, row * n + i, step, (row + 1) * n, keys);
#pragma unroll
    for (int k = 0; k < N; k++) keys[k] ^= flip;
  }
};

static inline Keys keys_of(const tlk_Array &in, int64_t rows, int64_t n, bool flip) {
  uint64_t mask = flip ? key_mask(in.dtype) : 0;
  return Keys{(const char *)in.data,
              in.dtype,
              (int)dtype_bytes(in.dtype),
              key_bits(in.dtype),
              rows,
              n,
              mask,
              nan_key(in.dtype)};
}

/* The output: the first k elements of each row, as values and as positions. Either array may be
** NULL. */
struct Picked {
  char *values;
  int64_t *indices;
  int64_t k;

  /* Stores result number `to` of the row: the element at position `place`, and this position. */
  __device__ __forceinline__ void give(const Keys &in, int64_t row, int64_t to,
                                       int64_t place) const {
    put(in, row * in.n + place, row * k + to, place);
  }
  /* Stores element `from`, counted over all rows of the input, as element `at` of the output. Also
  ** stores `place`, which is the element's position in its row. */
  __device__ __forceinline__ void put(const Keys &in, int64_t from, int64_t at,
                                      int64_t place) const {
    if (indices) indices[at] = place + 1;
    if (values == NULL) return;
    switch (in.bytes) {
    case 8: ((uint64_t *)values)[at] = ((const uint64_t *)in.data)[from]; return;
    case 4: ((uint32_t *)values)[at] = ((const uint32_t *)in.data)[from]; return;
    case 2: ((uint16_t *)values)[at] = ((const uint16_t *)in.data)[from]; return;
    default: values[at] = in.data[from]; return;
    }
  }
  /* Does the same as `give` for an element whose key is known. If the key determines the element,
  ** the input is not read, because it would be read at random positions. */
  __device__ __forceinline__ void give_key(const Keys &in, int64_t row, int64_t to, int64_t place,
                                           uint64_t key) const {
    uint64_t element, at = row * k + to;
    if (values == NULL || !in.element(key, &element)) {
      give(in, row, to, place);
      return;
    }
    if (indices) indices[at] = place + 1;
    switch (in.bytes) {
    case 8: ((uint64_t *)values)[at] = element; return;
    case 4: ((uint32_t *)values)[at] = (uint32_t)element; return;
    case 2: ((uint16_t *)values)[at] = (uint16_t)element; return;
    default: values[at] = (char)element; return;
    }
  }
};

#endif
