-- activations.lua - layers that apply one function elementwise or along a dimension. Each layer is
-- defined by a row of a table.

local torch = require "tlua"
local args = require "tlua.args"
local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

-- Each row is {class, options, function}. The method forward of the class calls the function of
-- torch.nn.functional with the input and then the options, in the order of the row. A function with
-- the option `inplace` also has an in-place form, whose name ends in `_`.
local rows = {
   --- Replaces negative elements by 0.
   ---
   ---     print(torch.nn.ReLU()(torch.tensor {-1.0, 0.0, 2.0}))
   ---     --> tensor([0., 0., 2.])
   {"ReLU", "inplace: boolean = false", "relu"},
   --- Clamps elements to [0, 6].
   ---
   ---     print(torch.nn.ReLU6()(torch.tensor {-1.0, 3.0, 8.0}))
   ---     --> tensor([0., 3., 6.])
   {"ReLU6", "inplace: boolean = false", "relu6"},
   --- Multiplies negative elements by negative_slope.
   ---
   ---     print(torch.nn.LeakyReLU(0.1)(torch.tensor {-1.0, 2.0}))
   ---     --> tensor([-0.1000,  2.0000])
   {"LeakyReLU", "negative_slope: number = 0.01, inplace: boolean = false", "leaky_relu"},
   --- Computes x for x > 0, else alpha (exp(x) - 1), elementwise.
   ---
   ---     print(torch.nn.ELU()(torch.tensor {-1.0, 2.0}))
   ---     --> tensor([-0.6321,  2.0000])
   {"ELU", "alpha: number = 1, inplace: boolean = false", "elu"},
   --- Computes scale * ELU(x) with the constants that keep mean 0 and variance 1.
   ---
   ---     print(torch.nn.SELU()(torch.tensor {-1.0, 1.0}))
   ---     --> tensor([-1.1113,  1.0507])
   {"SELU", "inplace: boolean = false", "selu"},
   --- Computes max(0, x) + min(0, alpha (exp(x / alpha) - 1)), elementwise.
   ---
   ---     print(torch.nn.CELU(2)(torch.tensor {-1.0, 1.0}))
   ---     --> tensor([-0.7869,  1.0000])
   {"CELU", "alpha: number = 1, inplace: boolean = false", "celu"},
   --- Computes x Phi(x), where Phi is the standard normal distribution function or, with "tanh",
   --- its approximation by tanh.
   ---
   ---     print(torch.nn.GELU()(torch.tensor {-1.0, 1.0}))
   ---     --> tensor([-0.1587,  0.8413])
   ---     print(torch.nn.GELU("tanh")(torch.tensor {-1.0, 1.0}))
   ---     --> tensor([-0.1588,  0.8412])
   {"GELU", "approximate: string = 'none'", "gelu"},
   --- Computes x sigmoid(x), elementwise.
   ---
   ---     print(torch.nn.SiLU()(torch.tensor {-1.0, 1.0}))
   ---     --> tensor([-0.2689,  0.7311])
   {"SiLU", "inplace: boolean = false", "silu"},
   --- Computes x tanh(softplus(x)), elementwise.
   ---
   ---     print(torch.nn.Mish()(torch.tensor {-1.0, 1.0}))
   ---     --> tensor([-0.3034,  0.8651])
   {"Mish", "inplace: boolean = false", "mish"},
   --- Computes log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold.
   ---
   ---     print(torch.nn.Softplus()(torch.tensor {0.0, 30.0}))
   ---     --> tensor([ 0.6931, 30.0000])
   {"Softplus", "beta: number = 1, threshold: number = 20", "softplus"},
   --- Computes x / (1 + abs(x)), elementwise.
   ---
   ---     print(torch.nn.Softsign()(torch.tensor {-1.0, 3.0}))
   ---     --> tensor([-0.5000,  0.7500])
   {"Softsign", "", "softsign"},
   --- Computes 1 / (1 + exp(-x)), elementwise.
   ---
   ---     print(torch.nn.Sigmoid()(torch.tensor {-1.0, 0.0}))
   ---     --> tensor([0.2689, 0.5000])
   {"Sigmoid", "", "sigmoid"},
   --- Computes log(sigmoid(x)) without overflow, elementwise.
   ---
   ---     print(torch.nn.LogSigmoid()(torch.tensor {0.0, -1000.0}))
   ---     --> tensor([-6.9315e-01, -1.0000e+03])
   {"LogSigmoid", "", "logsigmoid"},
   --- Computes the hyperbolic tangent, elementwise.
   ---
   ---     print(torch.nn.Tanh()(torch.tensor {-1.0, 0.0}))
   ---     --> tensor([-0.7616,  0.0000])
   {"Tanh", "", "tanh"},
   --- Computes x - tanh(x), elementwise.
   ---
   ---     print(torch.nn.Tanhshrink()(torch.tensor {-1.0, 1.0}))
   ---     --> tensor([-0.2384,  0.2384])
   {"Tanhshrink", "", "tanhshrink"},
   --- Moves elements towards 0 by lambd; elements whose distance from 0 is at most lambd become 0.
   ---
   ---     print(torch.nn.Softshrink()(torch.tensor {-2.0, 0.25, 2.0}))
   ---     --> tensor([-1.5000,  0.0000,  1.5000])
   {"Softshrink", "lambd: number = 0.5", "softshrink"},
   --- Replaces elements whose distance from 0 is at most lambd by 0.
   ---
   ---     print(torch.nn.Hardshrink()(torch.tensor {-2.0, 0.25, 2.0}))
   ---     --> tensor([-2.,  0.,  2.])
   {"Hardshrink", "lambd: number = 0.5", "hardshrink"},
   --- Clamps elements to [min_val, max_val].
   ---
   ---     print(torch.nn.Hardtanh()(torch.tensor {-2.0, 0.5, 2.0}))
   ---     --> tensor([-1.0000,  0.5000,  1.0000])
   {"Hardtanh", "min_val: number = -1, max_val: number = 1, inplace: boolean = false", "hardtanh"},
   --- Computes min(max(x + 3, 0), 6) / 6, elementwise.
   ---
   ---     print(torch.nn.Hardsigmoid()(torch.tensor {-4.0, 0.0, 1.5}))
   ---     --> tensor([0.0000, 0.5000, 0.7500])
   {"Hardsigmoid", "inplace: boolean = false", "hardsigmoid"},
   --- Computes x hardsigmoid(x), elementwise.
   ---
   ---     print(torch.nn.Hardswish()(torch.tensor {-1.5, 0.0, 1.5}))
   ---     --> tensor([-0.3750,  0.0000,  1.1250])
   {"Hardswish", "inplace: boolean = false", "hardswish"},
   --- Replaces elements that are not above the threshold by `value`.
   ---
   ---     print(torch.nn.Threshold(0.5, 9)(torch.tensor {0.25, 0.75}))
   ---     --> tensor([9.0000, 0.7500])
   {"Threshold", "threshold: number, value: number, inplace: boolean = false", "threshold"},
   --- Multiplies the first half of dimension dim by the sigmoid of the second half.
   ---
   ---     print(torch.nn.GLU()(torch.tensor {1.0, 2.0, 0.0, 0.0}))
   ---     --> tensor([0.5000, 1.0000])
   {"GLU", "dim: dim = -1", "glu"},
   --- Computes exp(x) / sum(exp(x)) along dimension dim, which counts from 1.
   ---
   ---     print(torch.nn.Softmax(2)(torch.tensor {{0.0, 0.0}, {0.0, math.log(3)}}))
   ---     --> tensor([[0.5000, 0.5000],
   ---     -->         [0.2500, 0.7500]])
   {"Softmax", "dim: dim", "softmax"},
   --- Computes the logarithm of the softmax along dim without underflow.
   ---
   ---     print(torch.nn.LogSoftmax(-1)(torch.tensor {{0.0, 0.0}}))
   ---     --> tensor([[-0.6931, -0.6931]])
   {"LogSoftmax", "dim: dim", "log_softmax"},
   --- Computes the softmax of -x along dim.
   ---
   ---     print(torch.nn.Softmin(1)(torch.tensor {0.0, math.log(3)}))
   ---     --> tensor([0.7500, 0.2500])
   {"Softmin", "dim: dim", "softmin"},
}

local M = {}

-- Returns a method forward. The arguments are the names of the function, of its in-place form (nil
-- if it has none), and of the options that it takes, at most two.
local function forward_of(plain, in_place, first, second)
   if not in_place and not first then
      return function(_, input) return F[plain](input) end
   end
   return function(self, input)
      local fn = F[in_place and self.inplace and in_place or plain]
      if second then return fn(input, self[first], self[second]) end
      if first then return fn(input, self[first]) end
      return fn(input)
   end
end

for _, row in ipairs(rows) do
   local name, options, plain = table.unpack(row)
   local in_place
   local taken = {}
   for option in options:gmatch "([%w_]+)%s*:" do
      if option == "inplace" then in_place = plain .. "_" else taken[#taken + 1] = option end
   end
   M[name] = define(name, options, forward_of(plain, in_place, taken[1], taken[2]))
end

--- The leaky ReLU with random slopes for negative elements. Slopes are drawn from (lower, upper) in
--- training mode; otherwise the slope is the mean of lower and upper.
---
---     local layer = torch.nn.RReLU():eval() -- the mean slope, (1/8 + 1/3) / 2
---     print(layer(torch.tensor {-1.0, 2.0}))
---     --> tensor([-0.2292,  2.0000])
M.RReLU = define("RReLU", [[lower: number = 0.125, upper: number = 0.3333333333333333,
   inplace: boolean = false]], function(self, input)
   return F[self.inplace and "rrelu_" or "rrelu"](input, self.lower, self.upper, self.training)
end)

--- Softmax over the channels of (N, C, H, W) or (C, H, W).
---
---     print(torch.nn.Softmax2d()(torch.zeros(1, 4, 1, 1)):flatten())
---     --> tensor([0.2500, 0.2500, 0.2500, 0.2500])
M.Softmax2d = define("Softmax2d", "", function(_, input)
   if not torch.is_tensor(input) or input:dim() ~= 3 and input:dim() ~= 4 then
      args.refuse("nn.Softmax2d", "input", "a tensor of 3 or 4 dimensions", input)
   end
   return F.softmax(input, -3)
end)

return M
