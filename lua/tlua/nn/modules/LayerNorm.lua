-- LayerNorm.lua - normalises the last dimensions of each sample to zero mean and unit variance.

local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local AffineNorm = require "tlua.nn.modules.AffineNorm"

local signature = args.signature [[nn.LayerNorm(normalized_shape: integers, eps: number = 1e-5,
   elementwise_affine: boolean = true, bias: boolean = true, device: device?, dtype: string?)]]

--- Normalises the last dimensions of each sample, whose sizes are normalized_shape, to mean 0 and
--- variance 1. Then multiplies by the weight and adds the bias.
---
---     local layer = torch.nn.LayerNorm(2)
---     print(layer(torch.tensor {{1.0, 3.0}, {10.0, 30.0}}):detach())
---     --> tensor([[-1.0000,  1.0000],
---     -->         [-1.0000,  1.0000]])
---@class nn.LayerNorm: nn.AffineNorm
---@field weight Tensor?  normalized_shape
---@field bias Tensor?  normalized_shape
---@overload fun(normalized_shape: integer|integer[], options?: table): nn.LayerNorm
local LayerNorm, parent = class.class("nn.LayerNorm", AffineNorm)

---@param normalized_shape integer|integer[]  the sizes of the last dimensions
---@param options? {eps: number, elementwise_affine: boolean, bias: boolean,
--- device: string|torch.device, dtype: string}
function LayerNorm:__init(...)
   parent.__init(self)
   local a = signature(...)
   local shape = a.normalized_shape
   self.normalized_shape = type(shape) == "table" and shape or {shape}
   self.eps, self.elementwise_affine = a.eps, a.elementwise_affine
   if a.elementwise_affine then
      self:make_affine(self.normalized_shape, {device = a.device, dtype = a.dtype}, a.bias)
   end
end

--- Normalises the input. With a residual of the input's shape, normalises the sum of both, and
--- returns that sum as well.
---@param input Tensor  (*, normalized_shape)
---@param residual? Tensor
---@return Tensor  the result, of the same shape
---@return Tensor?  input + residual
function LayerNorm:forward(input, residual)
   if residual then
      return F.add_layer_norm(input, residual, self.normalized_shape, self.weight, self.bias,
         self.eps)
   end
   return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
end

function LayerNorm:extra_repr()
   return ("(%s), eps=%g, elementwise_affine=%s"):format(
      table.concat(self.normalized_shape, ", "), self.eps, self.elementwise_affine)
end

return LayerNorm
