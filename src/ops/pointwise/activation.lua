-- Activation functions. Most of them have one elementwise kernel for the result and another for the
-- derivative. The derivative is itself differentiable.

local function F(entry)
   entry.module = "nn.functional"
   op(entry)
end

-- Declares an elementwise activation and the kernel of its derivative, `name`_backward(grad_output,
-- self, params). entry.second is the derivative of the backward kernel with respect to self.
-- entry.first is its derivative with respect to grad_output; by default this is the backward kernel
-- itself.
local function activation(name, params, entry)
   local typed, plain = "", ""
   for _, p in ipairs(params) do
      typed = typed .. ", Number " .. p
      plain = plain .. ", " .. p:match("^[%w_]+")
   end
   local backward = name .. "_backward"
   local first, second = entry.first or backward .. "(grad, self" .. plain .. ")", entry.second
   entry.first, entry.second = nil, nil
   entry[1] = name .. "(Tensor self" .. typed .. ") -> Tensor"
   entry.pointwise = entry.pointwise or {types = "floating"}
   if entry.inplace == nil then entry.inplace = true end
   if entry.method == nil then entry.method = false end
   entry.grad = {self = backward .. "(grad, self" .. plain .. ")"}
   entry.examples = entry.examples or {"T(3, 4)", "T(4, 3):t()", "T()", "T(0, 2)"}
   F(entry)
   op {backward .. "(Tensor grad_output, Tensor self" .. typed:gsub("=[^,]*", "") .. ") -> Tensor",
       internal = true, pointwise = {types = "floating"},
       grad = {grad_output = first, self = second}}
end

-- Rectifiers --------------------------------------------------------------------------------------

F {"relu(Tensor self) -> Tensor",
doc = "Returns the larger of self and 0, elementwise.", also = true,
   pointwise = {types = "number", bool = false}, inplace = true,
   grad = {self = "threshold_backward(grad, result, 0)"},
   examples = {"T(3, 4)", "T(4, 3):t()", "T()", "T(0, 2)"}}
example("relu", [[
   print(torch.relu(torch.tensor {-1.0, 0.0, 2.0}))
   --> tensor([0., 0., 2.])]])
F {"threshold(Tensor self, Number threshold, Number value) -> Tensor",
   doc = "Returns self where it is larger than threshold, else value.", also = true, method = false,
   pointwise = {types = "number", bool = false, truncates = true}, inplace = true,
   grad = {self = "threshold_backward(grad, self, threshold)"},
   examples = {"T(3, 4), 0.1, 5"}}
op {"threshold_backward(Tensor grad_output, Tensor self, Number threshold) -> Tensor",
    internal = true,
    pointwise = {types = "floating"},
    grad = {grad_output = "threshold_backward(grad, self, threshold)"}}
F {"relu6(Tensor self) -> Tensor",
    node = "Hardtanh", doc = "Clamps self to [0, 6].", method = false,
   pointwise = {types = "number", bool = false}, inplace = true,
   grad = {self = "hardtanh_backward(grad, self, 0, 6)"},
   examples = {"T(3, 4) * 8"}}
activation("hardtanh", {"min_val=-1.0", "max_val=1.0"},
   {doc = "Clamps self to [min_val, max_val].",
   pointwise = {types = "number", bool = false, truncates = true, check = "hardtanh"},
   examples = {"T(3, 4)", "T(3, 4), -0.5, 0.3"}})
activation("leaky_relu", {"negative_slope=0.01"},
   {doc = "Returns self where it is positive, else negative_slope * self.",
   examples = {"T(3, 4)", "T(3, 4), 0.2", "T(4, 3):t()"}})
example("leaky_relu", [[
   print(torch.nn.functional.leaky_relu(torch.tensor {-1.0, 2.0}, 0.1))
   --> tensor([-0.1000,  2.0000])]])
activation("elu", {"alpha=1.0"}, {doc = [[Returns self where it is positive, else alpha * (exp(self)
- 1).]],
   second = "keep_where(grad * elu_backward(grad_output, self, alpha), le(self, 0))",
   examples = {"T(3, 4)", "T(3, 4), 0.7"}})
example("elu", [[
   print(torch.nn.functional.elu(torch.tensor {-1.0, 2.0}))
   --> tensor([-0.6321,  2.0000])]])
activation("celu", {"alpha=1.0"}, {node = "Celu",
   doc = "Returns self where it is positive, else alpha * (exp(self / alpha) - 1).", also = true,
   second = "keep_where(grad * celu_backward(grad_output, self, alpha) / alpha, le(self, 0))",
   examples = {"T(3, 4)", "T(3, 4), 0.7"}})
activation("selu", {}, {node = "Elu", also = true,
   doc = [[Computes 1.0507 * elu(self, 1.6733): with these constants deep networks keep mean 0 and
   variance 1.]],
   second = "keep_where(grad * selu_backward(grad_output, self), le(self, 0))"})
F {"prelu(Tensor self, Tensor weight) -> Tensor",
   node = "PreluKernel",
   doc = [[Returns self where it is positive, else weight * self; weight holds one slope, or one per
   channel (dimension 2).]],
   also = true, composite = true,
   autocast = "lower",
   examples = {"T(3, 4), T(4)", "T(3, 4), T(1)", "T(2, 3, 4), T(3)", "T(4), T(1)", "T(), T()"}}
op {"prelu_kernel(Tensor self, Tensor weight) -> Tensor", name = "prelu", internal = true,
    pointwise = {types = "floating", kernel = "prelu"},
    grad = {self = "where(gt(self, 0), grad, grad * weight)",
            weight = "keep_where(grad * self, le(self, 0))"}}
F {[[rrelu(Tensor self, float lower=0.125, float upper=0.3333333333333333, bool training=false, *,
      Generator generator=nil) -> Tensor]],
   doc = [[Returns self where it is positive, else self times a slope. While training the slope is
   drawn uniformly from [lower, upper] for each element; otherwise it is the mean of lower and
   upper.]],
   node = "RreluWithNoise", also = true, method = false, inplace = true, composite = true,
   examples = {"T(3, 4)", "T(3, 4), 0.1, 0.2"}}

-- Smooth ones -------------------------------------------------------------------------------------

F {"gelu(Tensor self, string approximate='none') -> Tensor",
   doc = [[Computes self * Phi(self), where Phi is the normal distribution's function; approximate =
   'tanh' uses a formula with tanh instead.]],
   method = false, composite = true, examples = {"T(3, 4)", "T(3, 4), 'tanh'", "T(0)"}}
example("gelu", [[
   print(torch.nn.functional.gelu(torch.tensor {-1.0, 0.0, 1.0}))
   --> tensor([-0.1587,  0.0000,  0.8413])]])
op {"gelu_erf(Tensor self) -> Tensor",
    name = "gelu", internal = true, pointwise = {types = "floating", kernel = "gelu"},
    grad = {self = "gelu_backward(grad, self)"}}
op {"gelu_backward(Tensor grad_output, Tensor self) -> Tensor", internal = true,
    pointwise = {types = "floating"},
    grad = {grad_output = "gelu_backward(grad, self)",
            self = [[grad * grad_output * exp(self * self * -0.5) * 0.3989422804014327 *
            (2 - self * self)]]}}
op {"gelu_tanh(Tensor self) -> Tensor",
    name = "gelu", internal = true, pointwise = {types = "floating"},
    grad = {self = "gelu_tanh_backward(grad, self)"}}
op {"gelu_tanh_backward(Tensor grad_output, Tensor self) -> Tensor",
    name = "gelu_backward", internal = true,
    pointwise = {types = "floating"},
    grad = {grad_output = "gelu_tanh_backward(grad, self)",
            self = "grad * grad_output * gelu_tanh_second(self)"}}
op {"gelu_tanh_second(Tensor self) -> Tensor",
    name = "gelu_backward", internal = true,
    pointwise = {types = "floating", rare = true},
    nondiff = "third derivative of gelu"}
activation("silu", {}, {doc = "Computes self * sigmoid(self).",
   first = "conj(silu_backward(conj(grad), self))",
   second = [[conj(grad) * grad_output * conj(sigmoid(self) * (1 - sigmoid(self)) * (2 + self * (1 -
   2 * sigmoid(self))))]]})
example("silu", [[
   print(torch.nn.functional.silu(torch.tensor {-1.0, 0.0, 1.0}))
   --> tensor([-0.2689,  0.0000,  0.7311])]])
activation("mish", {}, {doc = "Computes self * tanh(log(1 + exp(self))).",
   second = "grad * grad_output * mish_second(self)"})
op {"mish_second(Tensor self) -> Tensor",
    name = "mish_backward", internal = true,
    pointwise = {types = "floating", rare = true},
    nondiff = "third derivative of mish"}
activation("softplus", {"beta=1.0", "threshold=20.0"}, {inplace = false,
   autocast = {gpu = "float32"},
   doc = "Computes log(1 + exp(beta * self)) / beta, and self where beta * self > threshold.",
   second = [[keep_where(grad * grad_output * sigmoid(self * beta) * (1 - sigmoid(self * beta)) *
   beta, le(self * beta, threshold))]],
   examples = {"T(3, 4)", "T(3, 4) * 4, 2, 3"}})
example("softplus", [[
   print(torch.nn.functional.softplus(torch.tensor {0.0, 30.0}))
   --> tensor([ 0.6931, 30.0000])]])
F {"softsign(Tensor self) -> Tensor", node = "Div",
doc = "Computes self / (1 + |self|).", method = false,
   pointwise = {types = "floating"},
   grad = {self = "softsign_backward(grad, self)"}, examples = {"T(3, 4)"}}
op {"softsign_backward(Tensor grad, Tensor self) -> Tensor", internal = true, composite = true}
F {"tanhshrink(Tensor self) -> Tensor", node = "Sub",
doc = "Computes self - tanh(self).", method = false,
   pointwise = {types = "floating"},
   grad = {self = "grad * conj(square(tanh(self)))"}, examples = {"T(3, 4)"}}
activation("softshrink", {"lambd=0.5"}, {pointwise = {types = "floating", check = "softshrink"},
   doc = "Moves self by lambd towards 0; elements within [-lambd, lambd] become 0.",
   inplace = false, examples = {"T(3, 4)", "T(3, 4), 0.1"}})
activation("hardshrink", {"lambd=0.5"}, {doc = [[Sets elements within [-lambd, lambd] to 0 and keeps
the others.]],
   also = true, method = true, inplace = false, examples = {"T(3, 4)", "T(3, 4), 0.1"}})
activation("hardsigmoid", {}, {doc = "Computes self / 6 + 1/2, clamped to [0, 1].",
   examples = {"T(3, 4) * 4"}})
activation("hardswish", {}, {doc = "Computes self * hardsigmoid(self).", examples = {"T(3, 4) * 4"},
   second = "keep_where(grad * grad_output / 3, lt(abs(self), 3))"})
activation("logsigmoid", {}, {node = "LogSigmoid",
doc = "Computes log(sigmoid(self)) without overflow.",
   inplace = false,
   second = "neg(grad * grad_output * sigmoid(self) * (1 - sigmoid(self)))"})
F {"glu(Tensor self, dim dim=-1) -> Tensor",
   node = "Glu", doc = "Splits self along dim into halves a and b, and computes a * sigmoid(b).",
   method = false, composite = true, examples = {"T(3, 4)", "T(4, 3), 1"}}
example("glu", [[
   print(torch.nn.functional.glu(torch.tensor {1.0, 2.0, 0.0, 0.0}))
   --> tensor([0.5000, 1.0000])]])

takes_complex "silu silu_backward softsign softsign_backward tanhshrink"
