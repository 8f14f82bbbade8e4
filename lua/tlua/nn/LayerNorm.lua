-- LayerNorm.lua - the last dimensions of each sample to zero mean and unit variance.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local Module = require "tlua.nn.Module"
local Parameter = require "tlua.nn.Parameter"

local signature = args.signature [[nn.LayerNorm(normalized_shape: integers, eps: number = 1e-5,
   elementwise_affine: boolean = true, bias: boolean = true, device: string?, dtype: string?)]]

---@class nn.LayerNorm: nn.Module
---@field weight Tensor?  normalized_shape
---@field bias Tensor?  normalized_shape
---@overload fun(normalized_shape: integer|integer[], options?: table): nn.LayerNorm
local LayerNorm, parent = class.class("nn.LayerNorm", Module)

---@param normalized_shape integer|integer[]  the sizes of the last dimensions
---@param options? {eps: number, elementwise_affine: boolean, bias: boolean, dtype: string}
function LayerNorm:__init(...)
   parent.__init(self)
   local a = signature(...)
   local shape = a.normalized_shape
   self.normalized_shape = type(shape) == "table" and shape or {shape}
   self.eps, self.elementwise_affine = a.eps, a.elementwise_affine
   local place = {device = a.device, dtype = a.dtype}
   if a.elementwise_affine then
      self.weight = Parameter(torch.ones(self.normalized_shape, place))
      if a.bias then self.bias = Parameter(torch.zeros(self.normalized_shape, place)) end
   end
end

--- Sets the affine map to the identity.
function LayerNorm:reset_parameters()
   local _ <close> = torch.no_grad()
   if self.weight then self.weight:fill_(1) end
   if self.bias then self.bias:zero_() end
end

---@param input Tensor  (*, normalized_shape)
---@return Tensor  of the same shape
function LayerNorm:forward(input)
   return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
end

function LayerNorm:extra_repr()
   return ("(%s), eps=%g, elementwise_affine=%s"):format(
      table.concat(self.normalized_shape, ", "), self.eps, self.elementwise_affine)
end

return LayerNorm
