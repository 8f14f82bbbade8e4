-- Bilinear.lua - a bilinear map of two inputs: y_k = x1^T W_k x2 + b_k.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

local signature = args.signature [[nn.Bilinear(in1_features: count, in2_features: count,
   out_features: count, bias: boolean = true, device: device?, dtype: string?)]]

--- A bilinear map of two inputs: y_k = x1^T W_k x2 + b_k.
---
---     local layer = torch.nn.Bilinear(2, 3, 4)
---     print(table.unpack(layer(torch.zeros(5, 2), torch.zeros(5, 3)).shape))
---     --> 5	4
---@class nn.Bilinear: nn.Module
---@field weight Tensor  (out_features, in1_features, in2_features)
---@field bias Tensor?  (out_features)
---@overload fun(in1_features, in2_features, out_features, options?: table): nn.Bilinear
local Bilinear, parent = class.class("nn.Bilinear", Module)

---@param in1_features integer
---@param in2_features integer
---@param out_features integer
---@param options? {bias: boolean, device: string|torch.device, dtype: string}
function Bilinear:__init(...)
   parent.__init(self)
   local a = signature(...)
   local place = {device = a.device, dtype = a.dtype}
   self.in1_features, self.in2_features = a.in1_features, a.in2_features
   self.out_features = a.out_features
   self.weight = Parameter(torch.empty(a.out_features, a.in1_features, a.in2_features, place))
   if a.bias then self.bias = Parameter(torch.empty(a.out_features, place)) end
   self:reset_parameters()
end

--- Fills the parameters with uniform random values from [-b, b], where b = 1/sqrt(in1_features).
function Bilinear:reset_parameters()
   local bound = math.max(self.in1_features, 1) ^ -0.5
   init.uniform_(self.weight, -bound, bound)
   if self.bias then init.uniform_(self.bias, -bound, bound) end
end

---@param input1 Tensor  (*, in1_features)
---@param input2 Tensor  (*, in2_features)
---@return Tensor  (*, out_features)
function Bilinear:forward(input1, input2)
   return F.bilinear(input1, input2, self.weight, self.bias)
end

function Bilinear:extra_repr()
   return ("in1_features=%d, in2_features=%d, out_features=%d, bias=%s"):format(
      self.in1_features, self.in2_features, self.out_features, self.bias ~= nil)
end

return Bilinear
