-- GroupNorm.lua - normalises groups of channels of each sample to zero mean and unit variance.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local AffineNorm = require "tlua.nn.modules.AffineNorm"

local signature = args.signature [[nn.GroupNorm(num_groups: count, num_channels: count,
   eps: number = 1e-5, affine: boolean = true, device: device?, dtype: string?,
   bias: boolean = true)]]

--- In each sample, normalizes each group of channels to mean 0 and variance 1, then multiplies each
--- channel by its weight and adds its bias.
---
---     local layer = torch.nn.GroupNorm(2, 4) -- two groups of two channels
---     print(layer(torch.tensor {{{1.0}, {3.0}, {5.0}, {9.0}}}):detach():flatten())
---     --> tensor([-1.0000,  1.0000, -1.0000,  1.0000])
---@class nn.GroupNorm: nn.AffineNorm
---@field weight Tensor?  (num_channels)
---@field bias Tensor?  (num_channels)
---@overload fun(num_groups: integer, num_channels: integer, options?: table): nn.GroupNorm
local GroupNorm, parent = class.class("nn.GroupNorm", AffineNorm)

--- Makes the layer.
---@param num_groups integer  a divisor of num_channels
---@param num_channels integer
---@param options? {eps: number, affine: boolean, bias: boolean,
--- device: string|torch.device, dtype: string}
function GroupNorm:__init(...)
   parent.__init(self)
   local a = signature(...)
   if a.num_groups < 1 or a.num_channels % a.num_groups ~= 0 then
      torch.raise(("nn.GroupNorm: num_groups: expected a divisor of %d channels, got %d"):format(
         a.num_channels, a.num_groups))
   end
   self.num_groups, self.num_channels, self.eps = a.num_groups, a.num_channels, a.eps
   self.affine = a.affine
   if a.affine then
      self:make_affine(a.num_channels, {device = a.device, dtype = a.dtype}, a.bias)
   end
end

---@param input Tensor  (N, num_channels, *)
---@return Tensor  the result, of the same shape
function GroupNorm:forward(input)
   return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)
end

function GroupNorm:extra_repr()
   return ("%d, %d, eps=%g, affine=%s"):format(
      self.num_groups, self.num_channels, self.eps, self.affine)
end

return GroupNorm
