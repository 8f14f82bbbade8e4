-- Products of Householder reflections.

op {"householder_product(Tensor A, Tensor tau) -> Tensor",
    node = "LinalgHouseholderProduct",
    doc = [[The first n columns of H1 H2 ... Hk for A (..., m, n), m >= n, and tau (..., k), k <= n:
    Hi = I - tau[i] v v^T, where v has a one at i, below it what column i of A has there, and
    zeros above. torch.geqrf gives such A and tau.]],
    composite = true, module = "linalg", method = false,
    examples = {"T(4, 3), T(3)", "T(2, 4, 3), T(2, 2)"}}

op {"orgqr(Tensor self, Tensor input2) -> Tensor",
    doc = "The same as torch.linalg.householder_product.",
    expr = "householder_product(self, input2)", examples = {"T(4, 3), T(3)"}}
op {[[ormqr(Tensor self, Tensor tau, Tensor other, bool left=true, bool transpose=false)
      -> Tensor]],
    node = "Ormqr",
    doc = [[Q other or, unless left, other Q, with transpose by Q^T, for the square matrix
    Q = H1 H2 ... Hk of the reflections that torch.linalg.householder_product describes, of which
    self (..., m, n) has the vectors and tau (..., k), k = min(m, n), the scales.]],
    composite = true, examples = {"T(4, 3), T(3), T(4, 2)", "T(3, 4), T(3), T(3, 2), true, true",
                                  "T(2, 4, 3), T(2, 3), T(2, 2, 4), false"}}
