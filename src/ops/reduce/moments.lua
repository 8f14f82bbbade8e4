-- Operators that compute means, variances, norms and logsumexp.

local dims = "dim[] dim=nil, bool keepdim=false"

op {"mean(Tensor self, " .. dims .. ", *, dtype dtype=nil) -> Tensor",
    doc = [[Returns the mean over dim, by default over all dimensions, of a floating tensor; NaN if
    there are no elements.]],
    composite = true, examples = {"T(3, 4)", "T(3, 4), 2", "T(2, 3, 4), {1, 3}, true"}}
example("mean", [[
   local x = torch.tensor {{1.0, 2.0}, {3.0, 6.0}}
   print(x:mean():item(), x:mean(1))
   --> 3.0	tensor([2., 4.])]])
op {"nanmean(Tensor self, " .. dims .. ", *, dtype dtype=nil) -> Tensor",
    doc = "Returns the mean over dim of the elements that are not NaN; NaN if there are none.",
    composite = true, node = "Div", examples = {"T(3, 4)", "T(3, 4), 2"}}

-- Declares the older overloads. Their option `unbiased`, alone or after dim, says whether to divide
-- by n - 1.
local function unbiased(name, doc, node)
   op {name .. ".unbiased(Tensor self, bool unbiased) -> Tensor", doc = doc, composite = true,
       node = node, examples = {"T(3, 4), false"}}
   op {name .. ".dim(Tensor self, dim[] dim, bool unbiased, bool keepdim=false) -> Tensor",
       doc = doc, node = node,
       composite = true, examples = {"T(3, 4), 2, false", "T(3, 4), {1, 2}, true, true"}}
end

op {[[var(Tensor self, dim[] dim=nil, *, Number correction=1, bool unbiased=true,
      bool keepdim=false) -> Tensor]],
    doc = [[Returns the variance over dim: the sum of the squared deviations from the mean, divided
    by n - correction; unbiased = false means correction 0.]],
    composite = true,
    examples = {"T(3, 4)", "T(3, 4), 2", "T(3, 4), 1, {correction = 0, keepdim = true}"}}
example("var", [[
   local x = torch.tensor {1.0, 2.0, 3.0, 4.0}
   print(x:var():item(), x:var {correction = 0}:item())
   --> 1.6666666269302	1.25]])
unbiased("var", "The same with correction 1 (true) or 0 (false).")
op {"variance(Tensor self, dim[] dim, Number correction, bool keepdim) -> Tensor",
    name = "var", internal = true,
    grad = {self = "var_backward(grad, self, dim, correction, keepdim)"}}
op {"var_backward(Tensor grad, Tensor self, dim[] dim, Number correction, bool keepdim) -> Tensor",
    internal = true,
    composite = true}
-- Computes a square root whose derivative at 0 is defined as 0. The argument is a sum of
-- magnitudes, which is 0 only if all its terms are 0.
op {"root(Tensor self) -> Tensor",
    name = "sqrt", internal = true, pointwise = {types = "floating", kernel = "sqrt"},
    grad = {self = "where(eq(result, 0), 0, grad / (2 * result))"}}
op {[[std(Tensor self, dim[] dim=nil, *, Number correction=1, bool unbiased=true,
      bool keepdim=false) -> Tensor]],
    node = "Std", doc = "Returns the standard deviation over dim: the square root of var.",
    composite = true,
    examples = {"T(3, 4)", "T(3, 4), 2", "T(3, 4), 1, {correction = 0, keepdim = true}"}}
example("std", [[
   print(torch.tensor({{1.0, 3.0}, {2.0, 2.0}}):std(2))
   --> tensor([1.4142, 0.0000])]])
unbiased("std", "The same with correction 1 (true) or 0 (false).", "Std")
op {"logsumexp(Tensor self, dim[] dim, bool keepdim=false) -> Tensor",
    node = "Logsumexp", doc = "Computes log(sum(exp(self))) over dim, without overflow.",
    composite = true,
    autocast = {gpu = "float32"}, examples = {"T(3, 4), 2", "T(3, 4), {1, 2}, true"}}
example("logsumexp", [[
   local x = torch.tensor {1000.0, 1000.0} -- exp(1000) itself overflows
   print(x:logsumexp(1))
   --> tensor(1000.6932)]])
op {[[norm(Tensor self, Number p=2, dim[] dim=nil, bool keepdim=false, *, dtype dtype=nil)
      -> Tensor]],
    doc = [[Returns the p-norm over dim, or of all elements: sum(|x|^p)^(1/p). For math.huge it is
    the largest magnitude, for -math.huge the smallest, for 0 the number of elements that differ
    from 0.]],
    composite = true,
    autocast = {gpu = "float32"},
    examples = {"T(3, 4)", "T(3, 4), 1, 2", "T(3, 4), 3, {1}, true", "T(3, 4), math.huge"}}
example("norm", [[
   local x = torch.tensor {{3.0, 4.0}, {6.0, 8.0}}
   print(x:norm(2, 2), x:norm(1):item())
   --> tensor([ 5., 10.])	21.0]])
op {[[norm.name(Tensor self, string p, dim[] dim=nil, bool keepdim=false, *, dtype dtype=nil)
      -> Tensor]],
    doc = [[Returns a norm by name: "fro" is the 2-norm over dim, or of all elements; "nuc" the sum
    of the singular values of the matrices in two dimensions dim.]],
    composite = true, waits = "singular values are computed on the CPU",
    examples = {"T(3, 4), 'fro'", "T(3, 4), 'fro', 1", "T(3, 4), 'nuc'"}}
op {"p_norm(Tensor self, Number p, dim[] dim, bool keepdim) -> Tensor",
    name = "norm", node = "LinalgVectorNorm", internal = true,
    grad = {self = "p_norm_backward(grad, self, result, p, dim, keepdim)"}}
op {[[p_norm_backward(Tensor grad, Tensor self, Tensor result, Number p, dim[] dim, bool keepdim)
      -> Tensor]],
    internal = true, composite = true}

-- Internal reductions from which norms are computed.
for _, name in ipairs {"sum_abs", "sum_square", "amax_abs", "amin_abs"} do
   op {name .. "(Tensor self, dim[] dim, bool keepdim) -> Tensor", internal = true,
       reduction = {types = "floating"}}
end
op {"sum_power(Tensor self, Number p, dim[] dim, bool keepdim) -> Tensor", internal = true,
    reduction = {types = "floating"}}

takes_complex "logsumexp mean var var_unbiased var_dim std std_unbiased std_dim norm"
