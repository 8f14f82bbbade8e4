/*
** csr.cu - products of a sparse matrix, compressed by rows (CSR), with dense matrices. Each thread
** adds its sums in the order of the sparse matrix's elements, so results are deterministic.
** Elements whose column is outside of the matrix are skipped.
*/
#include "kernels/cuda/cuda.cuh"

namespace {

#define CSR_THREADS 256

/* Computes the product of the sparse matrix and a dense matrix. Each thread computes one element of
** the product. */
template <class T>
__global__ void __launch_bounds__(CSR_THREADS)
    product_kernel(T *out, const int64_t *pointers, const int64_t *columns, const T *values,
                   const T *right, int64_t rows, int64_t across, int64_t k) {
  for (int64_t at = thread_index(); at < rows * k; at += thread_count()) {
    int64_t i = at / k, c = at % k;
    T sum = 0;
    for (int64_t e = pointers[i] - 1; e < pointers[i + 1] - 1; e++) {
      int64_t column = columns[e];
      if (column >= 1 && column <= across) sum += values[e] * right[(column - 1) * k + c];
    }
    out[at] = sum;
  }
}

/* Computes the product of the transposed sparse matrix and a dense matrix. Each thread computes one
** column. */
template <class T>
__global__ void __launch_bounds__(CSR_THREADS)
    transposed_kernel(T *out, const int64_t *pointers, const int64_t *columns, const T *values,
                      const T *left, int64_t rows, int64_t across, int64_t k) {
  for (int64_t c = thread_index(); c < k; c += thread_count()) {
    for (int64_t j = 0; j < across; j++) out[j * k + c] = 0;
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t e = pointers[i] - 1; e < pointers[i + 1] - 1; e++) {
        int64_t column = columns[e];
        if (column >= 1 && column <= across)
          out[(column - 1) * k + c] += values[e] * left[i * k + c];
      }
    }
  }
}

/* Computes the product of `left` and the transpose of `right`, only at the positions of the sparse
** matrix's elements. Each thread computes one row. */
template <class T>
__global__ void __launch_bounds__(CSR_THREADS)
    sampled_kernel(T *out, const int64_t *pointers, const int64_t *columns, const T *left,
                   const T *right, int64_t rows, int64_t across, int64_t k) {
  for (int64_t i = thread_index(); i < rows; i += thread_count()) {
    for (int64_t e = pointers[i] - 1; e < pointers[i + 1] - 1; e++) {
      int64_t column = columns[e];
      T sum = 0;
      if (column >= 1 && column <= across)
        for (int64_t c = 0; c < k; c++) sum += left[i * k + c] * right[(column - 1) * k + c];
      out[e] = sum;
    }
  }
}

template <class T> bool run(const struct tlk_csr *call) {
  T *out = (T *)call->out.data;
  const T *values = (const T *)call->values, *left = (const T *)call->left;
  const T *right = (const T *)call->right;
  int64_t all = call->kind == TLK_CSR_PRODUCT      ? call->rows * call->k
                : call->kind == TLK_CSR_TRANSPOSED ? call->k
                                                   : call->rows;
  unsigned grid = blocks_for(call->cx, all, CSR_THREADS, 16);
  if (call->kind == TLK_CSR_PRODUCT)
    return launch(call->cx, product_kernel<T>, dim3(grid), CSR_THREADS, 0, out, call->pointers,
                  call->columns, values, right, call->rows, call->across, call->k);
  if (call->kind == TLK_CSR_TRANSPOSED)
    return launch(call->cx, transposed_kernel<T>, dim3(grid), CSR_THREADS, 0, out, call->pointers,
                  call->columns, values, left, call->rows, call->across, call->k);
  return launch(call->cx, sampled_kernel<T>, dim3(grid), CSR_THREADS, 0, out, call->pointers,
                call->columns, left, right, call->rows, call->across, call->k);
}

} // namespace

bool tlk_csr(const struct tlk_csr *call) {
  return call->out.dtype == TL_F64 ? run<double>(call) : run<float>(call);
}
