-- Orthogonal polynomials of torch.special, which share one kernel. A family is identified by the
-- index of its row in this file, counted from 0; tlm_orthogonal in kernels/bessel.h uses the same
-- indices.

local families <const> = {
   {"chebyshev_polynomial_t", "Chebyshev's polynomial of the first kind"},
   {"chebyshev_polynomial_u", "Chebyshev's polynomial of the second kind"},
   {"chebyshev_polynomial_v", "Chebyshev's polynomial of the third kind"},
   {"chebyshev_polynomial_w", "Chebyshev's polynomial of the fourth kind"},
   {"shifted_chebyshev_polynomial_t", "Chebyshev's polynomial of the first kind, of 2 input - 1,"},
   {"shifted_chebyshev_polynomial_u", "Chebyshev's polynomial of the second kind, of 2 input - 1,"},
   {"shifted_chebyshev_polynomial_v", "Chebyshev's polynomial of the third kind, of 2 input - 1,"},
   {"shifted_chebyshev_polynomial_w", "Chebyshev's polynomial of the fourth kind, of 2 input - 1,"},
   {"hermite_polynomial_h", "The physicists' Hermite polynomial"},
   {"hermite_polynomial_he", "The probabilists' Hermite polynomial"},
   {"laguerre_polynomial_l", "Laguerre's polynomial"},
   {"legendre_polynomial_p", "Legendre's polynomial"},
}
for i, family in ipairs(families) do
   op {family[1] .. "(Operand input, Operand n) -> Tensor", module = "special", method = false,
       doc = family[2] .. [[ of degree n, truncated to an integer; 0 for negative degrees, NaN for
       degrees beyond a million. Differentiable with respect to input, up to eight times.]],
       expr = ("orthogonal_polynomial(input, n, %d, 0)"):format(i - 1),
       examples = {"T(3, 4), torch.tensor {0.0, 1, 2, 5}", "T(3), 3"}}
end
op {"orthogonal_polynomial(Operand input, Operand n, int family, int slope) -> Tensor",
    internal = true, pointwise = {types = "floating", rare = true},
    grad = {input = "grad * orthogonal_slope(input, n, family, slope)",
            n = "no_derivative(grad, 'orthogonal polynomials', 'n')"}}
op {"orthogonal_slope(Tensor input, Operand n, int family, int slope) -> Tensor", internal = true,
    composite = true}
