-- Linear layers that compute bias and activation in the pass of the matrix product. In the backward
-- pass, one kernel computes the gradient of the activation's argument and sums it for the bias.
-- While history is recorded, differentiable operators compute the gradient instead.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

F {"linear_relu(Tensor input, Tensor weight, Tensor bias=nil) -> Tensor",
   doc = [[Computes relu(linear(input, weight, bias)) in one pass. nn.Sequential and the
   Transformer's layers call it where a Linear is followed by a ReLU.]],
   composite = true,
   autocast = "lower",
   examples = {"T(5, 3), T(2, 3), T(2)", "T(2, 4, 3), T(2, 3)", "T(0, 3), T(2, 3), T(2)"}}
F {"linear_gelu(Tensor input, Tensor weight, Tensor bias=nil, string approximate='none') -> Tensor",
   doc = [[Computes gelu(linear(input, weight, bias), approximate) in one pass. nn.Sequential and
   the Transformer's layers call it where a Linear is followed by a GELU.]],
   composite = true,
   autocast = "lower",
   examples = {"T(5, 3), T(2, 3), T(2)", "T(2, 4, 3), T(2, 3), nil, 'tanh'",
               "T(0, 3), T(2, 3), T(2)"}}

-- The operands must have one floating-point dtype and these shapes: weight (out, in) with in > 0,
-- bias (out) or none, input (..., in). The result `inner` is the argument of gelu; it is kept if
-- the call is recorded, because the derivative needs it.
local wants = "bool want_input, bool want_weight, bool want_bias"
local needs = "needs(input), needs(weight), needs(bias))"
local gradients = ") -> (Tensor input, Tensor weight, Tensor bias)"

op {"linear_bias(Tensor input, Tensor weight, Tensor bias) -> Tensor",
    name = "linear", node = "Addmm", internal = true,
    flops = "2 * numel(result) * size(input, -1)",
    grad = {["input, weight, bias"] = "linear_bias_backward(grad, input, weight, " .. needs}}
op {"linear_bias_backward(Tensor grad, Tensor input, Tensor weight, " .. wants .. gradients,
    internal = true, composite = true}

op {"linear_relu_core(Tensor input, Tensor weight, Tensor bias) -> Tensor",
    name = "linear_relu", node = "AddmmActivation", internal = true,
    flops = "2 * numel(result) * size(input, -1)",
    grad = {["input, weight, bias"] =
       "linear_relu_backward(grad, input, weight, result, " .. needs}}
op {"linear_relu_backward(Tensor grad, Tensor input, Tensor weight, Tensor result, "
       .. wants .. gradients,
    internal = true, composite = true}

op {"linear_gelu_core(Tensor input, Tensor weight, Tensor bias, bool tanh) "
       .. "-> (Tensor result, Tensor inner)",
    name = "linear_gelu", node = "AddmmActivation", internal = true, nograd = {inner = true},
    flops = "2 * numel(result) * size(input, -1)",
    grad = {["input, weight, bias"] =
       "linear_gelu_backward(grad_result, input, weight, bias, inner, tanh, " .. needs}}
op {"linear_gelu_backward(Tensor grad, Tensor input, Tensor weight, Tensor bias, Tensor inner, "
       .. "bool tanh, " .. wants .. gradients,
    internal = true, composite = true}
