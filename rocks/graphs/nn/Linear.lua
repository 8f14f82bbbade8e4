-- Linear.lua - an affine map with the initial values of PyTorch Geometric's layers.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local inits = require "tlua.graphs.nn.inits"
local nn = torch.nn

local signature = args.signature [[graphs.nn.Linear(in_channels: count, out_channels: count,
   bias: boolean = true, weight_initializer: string?, bias_initializer: string?)]]

--- An affine map of the last dimension, like nn.Linear, but with a choice of initial values.
---
---     local layer = torch.graphs.nn.Linear(3, 2, {weight_initializer = "glorot"})
---     print(layer(torch.ones(4, 3)).shape)
---     --> torch.Size([4, 2])
---@class graphs.nn.Linear: nn.Module
---@field weight Tensor  (out_channels, in_channels)
---@field bias Tensor?  (out_channels)
---@overload fun(in_channels: integer, out_channels: integer, options?: table): graphs.nn.Linear
local Linear, parent = class.class("graphs.nn.Linear", nn.Module)

---@param in_channels integer
---@param out_channels integer
---@param options? {bias: boolean, weight_initializer: "glorot"|"uniform"|"kaiming_uniform"|"zeros",
--- bias_initializer: "zeros"}  weight_initializer: the initial values of the weight;
--- bias_initializer: the initial values of the bias
function Linear:__init(...)
   parent.__init(self)
   local a = signature(...)
   self.in_channels, self.out_channels = a.in_channels, a.out_channels
   rawset(self, "_inits", {a.weight_initializer, a.bias_initializer})
   inits.check("graphs.nn.Linear", a.weight_initializer, a.bias_initializer)
   self.weight = nn.Parameter(torch.empty(a.out_channels, a.in_channels))
   if a.bias then self.bias = nn.Parameter(torch.empty(a.out_channels)) end
   self:reset_parameters()
end

--- Sets the parameters to new initial values.
function Linear:reset_parameters()
   inits.weight(self.weight, self.in_channels, self._inits[1])
   if self.bias then inits.bias(self.bias, self.in_channels, self._inits[2]) end
end

---@param x Tensor  (*, in_channels)
---@return Tensor  (*, out_channels)
function Linear:forward(x)
   return nn.functional.linear(x, self.weight, self.bias)
end

function Linear:extra_repr()
   return ("%d, %d, bias=%s"):format(self.in_channels, self.out_channels, self.bias ~= nil)
end

return Linear
