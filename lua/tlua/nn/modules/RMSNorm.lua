-- RMSNorm.lua - scales the last dimensions of each sample so that their mean square is one.

local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local AffineNorm = require "tlua.nn.modules.AffineNorm"

local signature = args.signature [[nn.RMSNorm(normalized_shape: integers, eps: number?,
   elementwise_affine: boolean = true, device: device?, dtype: string?)]]

--- Divides the last dimensions of each sample, whose sizes are normalized_shape, by the root of
--- their mean square. Then multiplies by the weight.
---
---     local layer = torch.nn.RMSNorm(2)
---     print(layer(torch.tensor {{3.0, 4.0}}):detach())
---     --> tensor([[0.8485, 1.1314]])
---@class nn.RMSNorm: nn.AffineNorm
---@field weight Tensor?  normalized_shape
---@overload fun(normalized_shape: integer|integer[], options?: table): nn.RMSNorm
local RMSNorm, parent = class.class("nn.RMSNorm", AffineNorm)

--- Makes the layer.
---@param normalized_shape integer|integer[]  the sizes of the last dimensions
---@param options? {eps: number, elementwise_affine: boolean,
--- device: string|torch.device, dtype: string}
function RMSNorm:__init(...)
   parent.__init(self)
   local a = signature(...)
   local shape = a.normalized_shape
   self.normalized_shape = type(shape) == "table" and shape or {shape}
   self.eps, self.elementwise_affine = a.eps, a.elementwise_affine
   if a.elementwise_affine then
      self:make_affine(self.normalized_shape, {device = a.device, dtype = a.dtype})
   end
end

--- Normalises the input. With a residual of the input's shape, normalises the sum of both, and
--- returns that sum as well.
---@param input Tensor  (*, normalized_shape)
---@param residual? Tensor
---@return Tensor  the result, of the same shape
---@return Tensor?  input + residual
function RMSNorm:forward(input, residual)
   if residual then
      return F.add_rms_norm(input, residual, self.normalized_shape, self.weight, self.eps)
   end
   return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)
end

function RMSNorm:extra_repr()
   return ("(%s), eps=%s, elementwise_affine=%s"):format(
      table.concat(self.normalized_shape, ", "), self.eps, self.elementwise_affine)
end

return RMSNorm
