-- Operators that compute products of Householder reflections.

op {"householder_product(Tensor A, Tensor tau) -> Tensor",
    node = "LinalgHouseholderProduct",
    doc = [[Returns the first n columns of H1 H2 ... Hk for A (..., m, n), m >= n, and tau (..., k),
    k <= n. Hi = I - tau[i] v v^T (complex: v^H), where v holds zeros above position i, a one at i,
    and below it the elements of A's column i. torch.geqrf returns such A and tau.]],
    composite = true, module = "linalg", method = false,
    examples = {"T(4, 3), T(3)", "T(2, 4, 3), T(2, 2)"}}

op {"orgqr(Tensor self, Tensor input2) -> Tensor",
    doc = "The same as torch.linalg.householder_product.",
    expr = "householder_product(self, input2)", examples = {"T(4, 3), T(3)"}}
op {[[ormqr(Tensor self, Tensor tau, Tensor other, bool left=true, bool transpose=false)
      -> Tensor]],
    node = "Ormqr",
    doc = [[Returns Q other, or other Q if left is false; with transpose, Q^T (complex: Q^H)
    replaces Q. Q = H1 H2 ... Hk is the square matrix of the reflections that
    torch.linalg.householder_product describes: self (..., m, n) holds their vectors, and tau (...,
    k), k = min(m, n), their scales.]],
    composite = true, examples = {"T(4, 3), T(3), T(4, 2)", "T(3, 4), T(3), T(3, 2), true, true",
                                  "T(2, 4, 3), T(2, 3), T(2, 2, 4), false"}}

takes_complex()
