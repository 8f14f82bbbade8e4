-- Linear.lua - an affine map of the last dimension: y = x W^T + b.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

local signature = args.signature [[nn.Linear(in_features: count, out_features: count,
   bias: boolean = true, device: device?, dtype: string?)]]

--- An affine map of the last dimension: y = x W^T + b, for x of shape (..., in_features) and y of
--- shape (..., out_features). The initial values are uniformly distributed in [-b, b], where b =
--- 1/sqrt(in_features).
---
---     local layer = torch.nn.Linear(3, 2)
---     print(table.concat(layer(torch.ones(4, 3)).shape, " "))
---     --> 4 2
---@class nn.Linear: nn.Module
---@field weight Tensor  (out_features, in_features)
---@field bias Tensor?  (out_features)
---@overload fun(in_features: integer, out_features: integer, options?: table): nn.Linear
local Linear, parent = class.class("nn.Linear", Module)

---@param in_features integer
---@param out_features integer
---@param options? {bias: boolean, device: string|torch.device, dtype: string}
function Linear:__init(...)
   parent.__init(self)
   local a = signature(...)
   local place = {device = a.device, dtype = a.dtype}
   self.in_features, self.out_features = a.in_features, a.out_features
   self.weight = Parameter(torch.empty(a.out_features, a.in_features, place))
   if a.bias then self.bias = Parameter(torch.empty(a.out_features, place)) end
   self:reset_parameters()
end

--- Fills the parameters with uniform random values from [-b, b], where b = 1/sqrt(in_features).
function Linear:reset_parameters()
   init.kaiming_uniform_(self.weight, {a = 5 ^ 0.5})
   if self.bias then
      local bound = self.in_features > 0 and self.in_features ^ -0.5 or 0
      init.uniform_(self.bias, -bound, bound)
   end
end

local activated = {
   relu = F.linear_relu,
   gelu = F.linear_gelu,
   gelu_tanh = function(input, weight, bias) return F.linear_gelu(input, weight, bias, "tanh") end,
}

---@param input Tensor  (*, in_features)
---@param activation? "relu"|"gelu"|"gelu_tanh"  an activation of the result, computed in the same
--- pass
---@return Tensor  (*, out_features)
function Linear:forward(input, activation)
   return (activated[activation] or F.linear)(input, self.weight, self.bias)
end

local forward = Linear.forward
local relu, gelu -- the methods `forward` of nn.ReLU and nn.GELU, set on first use
local watched <const> = Module._watched
local gelus = {none = "gelu", tanh = "gelu_tanh"}

--- Returns whether a module is a plain Linear without hooks, so that nothing can observe its output
--- before the activation.
---@param module nn.Module
---@return boolean
function Linear.takes_activation(module)
   return module.forward == forward and not rawget(module, "_hooks")
end

--- Returns the name, as `forward` takes it, of the activation that the module `after` computes.
--- Returns nil if that module computes something else, or if either module has hooks.
---@param module nn.Module
---@param after nn.Module
---@return string?
function Linear.activation(module, after)
   if module.forward ~= forward then return nil end
   if not relu then
      local activations = require "tlua.nn.modules.activations"
      relu, gelu = activations.ReLU.forward, activations.GELU.forward
   end
   local next_forward = after.forward
   local name = next_forward == relu and "relu" or next_forward == gelu and gelus[after.approximate]
   return name and not (module._hooks or after._hooks or watched.around) and name or nil
end

function Linear:extra_repr()
   return ("in_features=%d, out_features=%d, bias=%s"):format(
      self.in_features, self.out_features, self.bias ~= nil)
end

return Linear
