-- Softmax and related operators along a dimension.

local function F(entry)
   entry.module = "nn.functional"
   op(entry)
end

F {"softmax(Tensor self, dim dim, dtype dtype=nil) -> Tensor",
   doc = [[Computes exp(self) / sum(exp(self)) along dim, without overflow. With dtype self is
   converted to it first.]],
   also = true, composite = true,
   autocast = {gpu = "float32"},
   examples = {"T(3, 4), 2", "T(2, 3, 4), 1", "T(2, 3, 4), 2", "T(), 1"}}
example("softmax", [=[
   local x = torch.tensor {{0.0, 0.0}, {0.0, math.log(3)}}
   print(torch.softmax(x, 2)) -- every row of the result sums to 1
   --> tensor([[0.5000, 0.5000],
   -->         [0.2500, 0.7500]])]=])
op {"softmax_along(Tensor self, dim dim) -> Tensor", name = "softmax", internal = true,
    grad = {self = "softmax_backward(grad, result, dim)"}}
op {"softmax_backward(Tensor grad_output, Tensor output, dim dim) -> Tensor", internal = true,
    grad = {grad_output = "softmax_backward(grad, output, dim)",
            output = [[grad * grad_output - grad * sum(grad_output * output, dim, true) -
            grad_output * sum(grad * output, dim, true)]]}}
F {"log_softmax(Tensor self, dim dim, dtype dtype=nil) -> Tensor",
   doc = [[Computes log(softmax(self, dim)), more accurately than the two operators one after the
   other.]],
   also = true, composite = true,
   autocast = {gpu = "float32"},
   examples = {"T(3, 4), 2", "T(2, 3, 4), 1", "T(2, 3, 4), 2", "T(), 1"}}
example("log_softmax", [[
   print(torch.log_softmax(torch.tensor {0.0, 0.0}, 1))
   --> tensor([-0.6931, -0.6931])]])
op {"log_softmax_along(Tensor self, dim dim) -> Tensor", name = "log_softmax", internal = true,
    grad = {self = "log_softmax_backward(grad, result, dim)"}}
op {"log_softmax_backward(Tensor grad_output, Tensor output, dim dim) -> Tensor", internal = true,
    grad = {grad_output = "grad - sum(grad * exp(output), dim, true)",
            output = "neg(grad * exp(output) * sum(grad_output, dim, true))"}}
F {"softmin(Tensor self, dim dim, dtype dtype=nil) -> Tensor",
doc = "Computes softmax of -self along dim.",
   method = false, expr = "softmax(neg(self), dim, dtype)",
   autocast = {gpu = "float32"}, examples = {"T(3, 4), 2"}}
F {[[gumbel_softmax(Tensor logits, float tau=1.0, bool hard=false, float eps=1e-10, dim dim=-1, *,
      Generator generator=nil) -> Tensor]],
   doc = [[Draws a sample of the Gumbel-softmax distribution along dim, at temperature tau. With
   hard the sample is one-hot, but has the gradient of the soft sample.]],
   composite = true, gradcheck = false,
   autocast = {gpu = "float32"}, examples = {"T(3, 4)"}}
op {"straight_through(Tensor self, Tensor soft) -> Tensor",
    node = "Add", internal = true, grad = {soft = "grad"}}
