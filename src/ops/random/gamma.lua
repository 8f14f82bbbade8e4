-- Operators that draw random numbers from gamma and Dirichlet distributions, and operators that
-- compute the derivatives of these numbers with respect to the parameters.

local random = {gradcheck = false, method = false, waits = "drawn on the CPU"}

local function draw(entry)
   for key, value in pairs(random) do entry[key] = value end
   op(entry)
end

draw {"_standard_gamma(Tensor self, *, Generator generator=nil) -> Tensor",
      doc = [[Draws numbers from the gamma distributions of shape self and rate 1, differentiable
      with respect to self.]],
      grad = {self = "grad * _standard_gamma_grad(self, result)"}, examples = {"P(3)", "P(2, 3)"}}
draw {"_sample_dirichlet(Tensor self, *, Generator generator=nil) -> Tensor",
      doc = [[Draws points from the Dirichlet distributions whose concentrations are the rows of
      self, differentiable with respect to self.]],
      grad = {self = [[_dirichlet_grad(result, self, sum(self, -1, true)) *
      (grad - sum(result * grad, -1, true))]]}, examples = {"P(3)", "P(2, 3)"}}

op {"_standard_gamma_grad(Tensor self, Tensor output) -> Tensor", method = false,
    doc = [[Returns the derivative of output, a number drawn from a gamma distribution, with respect
    to the distribution's shape self, for a constant value of the distribution function.]],
    pointwise = {types = "floating", kernel = "gamma_slope"},
    nondiff = "derivative of random numbers", examples = {"P(3, 4), P(3, 4)"}}
op {"_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor", method = false,
    doc = [[Returns the derivative of x, a number drawn from the beta distribution of alpha and
    total - alpha, with respect to alpha alone, divided by 1 - x.]],
    pointwise = {types = "floating", kernel = "beta_slope"},
    nondiff = "derivative of random numbers",
    examples = {"P(3, 4) / 10, P(3, 4), P(3, 4) + 10"}}
