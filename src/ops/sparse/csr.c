/*
** csr.c - products of a sparse matrix in compressed sparse row (CSR) format with dense matrices.
** The kernel computes in float32 or float64; half types are converted to float32.
*/
#include <string.h>

#include "ops/common.h"

static bool check_pattern(const char *op, const tl_Tensor *pointers, const tl_Tensor *columns) {
  const tl_Tensor *both[] = {pointers, columns};
  for (int i = 0; i < 2; i++)
    if (both[i]->ndim != 1 || both[i]->dtype != TL_I64)
      return tli_fail(TL_EARG, "%s: %s: expected int64 of one dimension, got %s %s", op,
                      i ? "columns" : "pointers", tl_dtype_name((tl_DType)both[i]->dtype),
                      tli_sizes_str(both[i]));
  if (pointers->numel > 0) return true;
  return tli_fail(TL_ESHAPE, "%s: pointers: expected at least one", op);
}

static bool is_real(tl_DType dtype) {
  return dtype == TL_F32 || dtype == TL_F64 || dtype == TL_F16 || dtype == TL_BF16;
}

/* Checks x, which must have `ndim` dimensions, and `matrix`. Both must have the same floating
** dtype. */
static bool check_operands(const char *op, const tl_Tensor *x, int ndim, const tl_Tensor *matrix) {
  if (x->ndim != ndim || matrix->ndim != 2)
    return tli_fail(TL_ESHAPE, "%s: expected %s and a matrix, got %s and %s", op,
                    ndim == 1 ? "values of one dimension" : "a matrix", tli_sizes_str(x),
                    tli_sizes_str(matrix));
  if (x->dtype != matrix->dtype || !is_real((tl_DType)x->dtype))
    return tli_fail(TL_EDTYPE, "%s: expected one floating dtype, got %s and %s", op,
                    tl_dtype_name((tl_DType)x->dtype), tl_dtype_name((tl_DType)matrix->dtype));
  return true;
}

/* Runs the kernel. Its operands are contiguous and have the dtype of `out`. */
static bool run(const char *op, tlk_CsrKind kind, tl_Tensor *out, const tl_Tensor *pointers,
                const tl_Tensor *columns, const tl_Tensor *values, const tl_Tensor *left,
                const tl_Tensor *right, int64_t k) {
  int64_t across = kind == TLK_CSR_TRANSPOSED ? out->sizes[0] : right->sizes[0];
  tl_Device device = tli_device(out);
  return TLI_RUN(device, csr, .kind = kind, .out = tli_array(out), .pointers = tli_data(pointers),
                 .columns = tli_data(columns), .values = values ? tli_data(values) : NULL,
                 .left = left ? tli_data(left) : NULL, .right = right ? tli_data(right) : NULL,
                 .rows = pointers->numel - 1, .across = across, .nnz = columns->numel, .k = k,
                 .of_pointers = tli_fault_source(device, op, "pointers"),
                 .of_columns = tli_fault_source(device, op, "columns"));
}

/* Replaces the operands by contiguous tensors in the kernel's dtype, except that indices stay
** int64. */
static bool prepare(tl_Tensor **tensors, int n, tl_DType compute) {
  for (int i = 0; i < n; i++) {
    tl_DType dtype = tensors[i]->dtype == TL_I64 ? TL_I64 : compute;
    tl_Tensor *made = tli_contiguous_as(tensors[i], dtype);
    if (made == NULL) {
      for (int k = 0; k < i; k++) tli_release(tensors[k]);
      return false;
    }
    tensors[i] = made;
  }
  return true;
}

/* Returns the result in `dtype`, or NULL if `ok` is false. Releases all operands and `out`. */
static tl_Tensor *finish(tl_Tensor **tensors, int n, tl_Tensor *out, bool ok, tl_DType dtype) {
  for (int i = 0; i < n; i++) tli_release(tensors[i]);
  tl_Tensor *result = ok ? tlo_to_dtype(out, dtype) : NULL;
  tli_release(out);
  return result;
}

tl_Tensor *tli_op__csr_mm(tl_Tensor *pointers, tl_Tensor *columns, tl_Tensor *values,
                          tl_Tensor *dense, int64_t rows, bool transposed) {
  TL_TRY_NULL(check_pattern("_csr_mm", pointers, columns));
  TL_TRY_NULL(check_operands("_csr_mm", values, 1, dense));
  int64_t lines = transposed ? dense->sizes[0] : rows;
  if (rows < 0 || pointers->numel - 1 != lines || values->numel != columns->numel)
    return tli_fail_null(TL_ESHAPE,
                         "_csr_mm: expected pointers for %" PRId64
                         " rows and as many values as columns, got %" PRId64 ", %" PRId64
                         " and %" PRId64,
                         lines, pointers->numel, values->numel, columns->numel);
  tl_DType dtype = (tl_DType)values->dtype, compute = dtype == TL_F64 ? TL_F64 : TL_F32;
  tl_Tensor *t[] = {pointers, columns, values, dense};
  TL_TRY_NULL(prepare(t, 4, compute));
  int64_t k = dense->sizes[1];
  tl_Tensor *out = tli_empty(compute, tli_device(dense), 2, (int64_t[]){rows, k});
  bool ok = out != NULL;
  if (ok && out->numel > 0)
    ok = columns->numel == 0 ? tli_fill(out, tli_int(0))
         : transposed ? run("_csr_mm", TLK_CSR_TRANSPOSED, out, t[0], t[1], t[2], t[3], NULL, k)
                      : run("_csr_mm", TLK_CSR_PRODUCT, out, t[0], t[1], t[2], NULL, t[3], k);
  return finish(t, 4, out, ok, dtype);
}

tl_Tensor *tli_op__csr_sampled(tl_Tensor *pointers, tl_Tensor *columns, tl_Tensor *left,
                               tl_Tensor *right) {
  TL_TRY_NULL(check_pattern("_csr_sampled", pointers, columns));
  TL_TRY_NULL(check_operands("_csr_sampled", left, 2, right));
  if (left->sizes[0] != pointers->numel - 1 || left->sizes[1] != right->sizes[1])
    return tli_fail_null(TL_ESHAPE,
                         "_csr_sampled: expected left (%" PRId64
                         ", k) and right (columns, k), got %s and %s",
                         pointers->numel - 1, tli_sizes_str(left), tli_sizes_str(right));
  tl_DType dtype = (tl_DType)left->dtype, compute = dtype == TL_F64 ? TL_F64 : TL_F32;
  tl_Tensor *t[] = {pointers, columns, left, right};
  TL_TRY_NULL(prepare(t, 4, compute));
  tl_Tensor *out = tli_empty(compute, tli_device(left), 1, &columns->numel);
  bool ok = out != NULL;
  /* fills the result with 0, because the kernel does not write the elements that no row contains */
  if (ok && out->numel > 0)
    ok = tli_fill(out, tli_int(0)) &&
         run("_csr_sampled", TLK_CSR_SAMPLED, out, t[0], t[1], NULL, t[2], t[3], left->sizes[1]);
  return finish(t, 4, out, ok, dtype);
}

/* ---- derivatives ---- */

tl_Tensor *tlo_csr_values_backward(tl_Tensor *grad, tl_Tensor *pointers, tl_Tensor *columns,
                                   tl_Tensor *dense, bool transposed) {
  return transposed ? tlo__csr_sampled(pointers, columns, dense, grad)
                    : tlo__csr_sampled(pointers, columns, grad, dense);
}

/* Computes the gradient of the dense matrix: the transpose of the sparse matrix times grad or, if
** the forward pass used the transpose, the sparse matrix times grad. */
tl_Tensor *tlo_csr_dense_backward(tl_Tensor *grad, tl_Tensor *pointers, tl_Tensor *columns,
                                  tl_Tensor *values, tl_Ints sizes, bool transposed) {
  return tlo__csr_mm(pointers, columns, values, grad, sizes.v[0], !transposed);
}
