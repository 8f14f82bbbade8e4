-- Operators for lua/tlua/sparse that multiply a sparse matrix in compressed sparse row (CSR) format
-- by dense matrices. Row i has the elements from pointers[i] to pointers[i + 1] - 1, and `columns`
-- has the column of each element. Positions count from 1.

op {[[_csr_mm(Tensor pointers, Tensor columns, Tensor values, Tensor dense, int rows,
      bool transposed=false) -> Tensor]],
    doc = [[Returns the product of a sparse matrix, or of its transpose, of float32, float64 or half
    types, with dense (n, k), as (rows, k). torch.sparse.mm calls it.]],
    method = false, flops = "2 * numel(values) * size(dense, -1)",
    examples = {"torch.tensor{1, 3, 3, 4}, torch.tensor{1, 2, 1}, T(3), T(2, 5), 3",
                "torch.tensor{1, 3, 3, 4}, torch.tensor{1, 2, 1}, T(3), T(3, 5), 2, true"},
    grad = {values = "csr_values_backward(grad, pointers, columns, dense, transposed)",
            dense = [[csr_dense_backward(grad, pointers, columns, values, sizes(dense),
              transposed)]]}}
op {[[csr_values_backward(Tensor grad, Tensor pointers, Tensor columns, Tensor dense,
      bool transposed) -> Tensor]],
    internal = true, composite = true}
op {[[csr_dense_backward(Tensor grad, Tensor pointers, Tensor columns, Tensor values, int[] sizes,
      bool transposed) -> Tensor]],
    internal = true, composite = true}
op {"_csr_sampled(Tensor pointers, Tensor columns, Tensor left, Tensor right) -> Tensor",
    doc = [[Returns the products of row i of left (rows, k) and row j of right (columns, k) for the
    elements (i, j) of a sparse matrix. torch.sparse.sampled_addmm calls it.]],
    method = false, flops = "2 * numel(columns) * size(left, -1)",
    examples = {"torch.tensor{1, 3, 3, 4}, torch.tensor{1, 2, 1}, T(3, 5), T(2, 5)"},
    grad = {left = "csr_dense_backward(right, pointers, columns, grad, sizes(left), true)",
            right = "csr_dense_backward(left, pointers, columns, grad, sizes(right), false)"}}
