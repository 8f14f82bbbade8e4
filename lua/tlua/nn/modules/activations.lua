-- activations.lua - layers that apply one function elementwise or along a dimension, defined by one
-- row each.

local torch = require "tlua"
local args = require "tlua.args"
local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

-- {class, options, function}: forward calls the function of torch.nn.functional with the input and
-- the options in this order. Functions with the option `inplace` have an in-place form, whose name
-- ends in `_`.
local rows = {
   {"ReLU", "inplace: boolean = false", "relu"},
   {"ReLU6", "inplace: boolean = false", "relu6"},
   {"LeakyReLU", "negative_slope: number = 0.01, inplace: boolean = false", "leaky_relu"},
   {"ELU", "alpha: number = 1, inplace: boolean = false", "elu"},
   {"SELU", "inplace: boolean = false", "selu"},
   {"CELU", "alpha: number = 1, inplace: boolean = false", "celu"},
   {"GELU", "approximate: string = 'none'", "gelu"},
   {"SiLU", "inplace: boolean = false", "silu"},
   {"Mish", "inplace: boolean = false", "mish"},
   {"Softplus", "beta: number = 1, threshold: number = 20", "softplus"},
   {"Softsign", "", "softsign"},
   {"Sigmoid", "", "sigmoid"},
   {"LogSigmoid", "", "logsigmoid"},
   {"Tanh", "", "tanh"},
   {"Tanhshrink", "", "tanhshrink"},
   {"Softshrink", "lambd: number = 0.5", "softshrink"},
   {"Hardshrink", "lambd: number = 0.5", "hardshrink"},
   {"Hardtanh", "min_val: number = -1, max_val: number = 1, inplace: boolean = false", "hardtanh"},
   {"Hardsigmoid", "inplace: boolean = false", "hardsigmoid"},
   {"Hardswish", "inplace: boolean = false", "hardswish"},
   {"Threshold", "threshold: number, value: number, inplace: boolean = false", "threshold"},
   {"GLU", "dim: dim = -1", "glu"},
   {"Softmax", "dim: dim", "softmax"},
   {"LogSoftmax", "dim: dim", "log_softmax"},
   {"Softmin", "dim: dim", "softmin"},
}

local M = {}

-- Returns a forward method. The arguments name the function, its in-place form, if any, and the
-- options that it takes, at most two.
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

-- Slopes are drawn from (lower, upper) in training mode; otherwise the slope is their mean.
M.RReLU = define("RReLU", [[lower: number = 0.125, upper: number = 0.3333333333333333,
   inplace: boolean = false]], function(self, input)
   return F[self.inplace and "rrelu_" or "rrelu"](input, self.lower, self.upper, self.training)
end)

-- Softmax over the channels of (N, C, H, W) or (C, H, W).
M.Softmax2d = define("Softmax2d", "", function(_, input)
   if not torch.is_tensor(input) or input:dim() ~= 3 and input:dim() ~= 4 then
      args.refuse("nn.Softmax2d", "input", "a tensor of 3 or 4 dimensions", input)
   end
   return F.softmax(input, -3)
end)

return M
