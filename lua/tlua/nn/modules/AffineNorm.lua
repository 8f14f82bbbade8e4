-- AffineNorm.lua - the base class of normalisation layers with a learnt affine map, which is the
-- identity at first.

local torch = require "tlua"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

---@class nn.AffineNorm: nn.Module
---@field weight Tensor?
---@field bias Tensor?
local AffineNorm = class.class("nn.AffineNorm", Module)

-- Gives the layer a weight of the given shape and, if `bias` is true, a bias of the same shape.
function AffineNorm:make_affine(shape, place, bias)
   self.weight = Parameter(torch.ones(shape, place))
   if bias then self.bias = Parameter(torch.zeros(shape, place)) end
end

--- Sets the affine map to the identity: weight 1 and bias 0.
function AffineNorm:reset_parameters()
   local _ <close> = torch.no_grad()
   if self.weight then self.weight:fill_(1) end
   if self.bias then self.bias:zero_() end
end

return AffineNorm
