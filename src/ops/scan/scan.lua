-- Operators that compute cumulative sums, products and extremes along a dimension, differences, and
-- integrals.

local function scan(name, entry)
   entry[1] = name .. "(Tensor self, dim dim, *, dtype dtype=nil) -> Tensor"
   entry.scan, entry.inplace = {}, true
   entry.examples = entry.examples or {"T(3, 4), 1", "T(3, 4), 2", "T(2, 3, 2), 2", "T(0, 2), 2",
                                       "T(), 1"}
   op(entry)
end

scan("cumsum", {doc = "Computes running sums along dim. Integers and bool are summed in int64.",
   grad = {self = "flip(cumsum(flip(grad, dim), dim), dim)"},
   autocast = {gpu = "float32"}})
example("cumsum", [=[
   print(torch.tensor({{1, 2}, {3, 4}}):cumsum(1))
   --> tensor([[1, 2],
   -->         [4, 6]])]=])
scan("cumprod", {doc = "Computes running products along dim. Integers are multiplied in int64.",
   grad = {self = "cumprod_backward(grad, self, result, dim)"},
   autocast = {gpu = "float32"}})
example("cumprod", [[
   print(torch.tensor({1, 2, 3, 4}):cumprod(1))
   --> tensor([ 1,  2,  6, 24])]])
op {"cumprod_backward(Tensor grad, Tensor self, Tensor result, dim dim) -> Tensor", internal = true,
    composite = true, waits = "without zeros it is a division"}
op {"logcumsumexp(Tensor self, dim dim) -> Tensor",
    doc = [[Computes running values of log(sum(exp(self))) along dim, without overflow. Of complex
    numbers the imaginary parts are determined up to multiples of 2 pi.]],
    scan = {types = "floating"}, grad = {self = "logcumsumexp_backward(grad, self, result, dim)"},
    examples = {"T(3, 4), 1", "T(3, 4), 2"}}
op {"logcumsumexp_backward(Tensor grad, Tensor self, Tensor result, dim dim) -> Tensor",
    internal = true,
    composite = true}
for _, row in ipairs {{"cummax", "largest"}, {"cummin", "smallest"}} do
   op {row[1] .. "(Tensor self, dim dim) -> (Tensor values, Tensor indices)",
       doc = "Returns, at each position along dim, the " .. row[2]
          .. " element up to it and the position of that element, the last of several.",
       scan = {}, grad = {self = "scatter_add(zeros_like(self), dim, indices, grad_values)"},
       examples = {"T(3, 4), 1", "T(3, 4), 2"}}
end
example("cummax", [[
   print(torch.tensor({1, 3, 2}):cummax(1))
   --> tensor([1, 3, 3])	tensor([1, 2, 2])]])

op {"diff(Tensor self, int n=1, dim dim=-1, Tensor prepend=nil, Tensor append=nil) -> Tensor",
    doc = [[Computes the differences of neighbours along dim, n times over, after joining prepend
    and append to self's ends. For bool tensors it returns whether neighbours differ.]],
    composite = true, examples = {"T(5)", "T(3, 4), 2, 1", "T(3, 4), 1, 2, T(3, 1), T(3, 2)"}}
example("diff", [[
   print(torch.tensor({1, 4, 9}):diff())
   --> tensor([3, 5])]])
op {"trapezoid(Tensor y, Tensor x, *, dim dim=-1) -> Tensor",
    doc = [[Computes the integral of y along dim by the trapezoidal rule, for values at the points
    x.]],
    composite = true, method = false, alias = {"trapz"},
    examples = {"T(3, 4), T(4)", "T(3, 4), T(3, 4), {dim = 1}"}}
example("trapezoid", [[
   print(torch.trapezoid(torch.tensor {0.0, 1.0, 2.0}):item())
   --> 2.0]])
op {"trapezoid.dx(Tensor y, *, Number dx=1, dim dim=-1) -> Tensor",
    doc = "The same for points dx apart.", composite = true, method = false, alias = {"trapz"},
    examples = {"T(3, 4)", "T(3, 4), {dx = 0.5, dim = 1}"}}
op {"cumulative_trapezoid(Tensor y, Tensor x, *, dim dim=-1) -> Tensor",
    doc = [[Computes the running integral of y along dim by the trapezoidal rule, for values at the
    points x.]],
    composite = true, method = false, examples = {"T(3, 4), T(4)"}}
op {"cumulative_trapezoid.dx(Tensor y, *, Number dx=1, dim dim=-1) -> Tensor",
    doc = "The same for points dx apart.", composite = true, method = false,
    examples = {"T(3, 4)", "T(3, 4), {dx = 0.5, dim = 1}"}}

takes_complex [[logcumsumexp logcumsumexp_backward cumsum cumprod cumprod_backward diff trapezoid
   trapezoid_dx cumulative_trapezoid cumulative_trapezoid_dx]]
