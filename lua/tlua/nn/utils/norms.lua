-- norms.lua - norms of weights along a dimension, and the power method, for weight_norm and
-- spectral_norm.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"

local M = {}

--- Returns a dimension counted from the front; false stays false. Raises an error if the weight
--- lacks the dimension.
---@param title string  the function's name, for the message
---@param weight Tensor
---@param dim integer|boolean
---@return integer|false
function M.dimension(title, weight, dim)
   if dim == false then return false end
   local n = weight:dim()
   if math.type(dim) ~= "integer" or dim == 0 or dim > n or dim < -n then
      args.refuse(title, "dim", ("an integer from 1 to %d, or from -%d to -1"):format(n, n), dim)
   end
   return dim < 0 and n + 1 + dim or dim
end

--- Returns the dimension of a weight that indexes a module's outputs.
---@param module nn.Module
---@return integer
function M.output_dimension(module)
   local nn = torch.nn
   for _, cls in ipairs {nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d} do
      if class.isinstance(module, cls) then return 2 end
   end
   return 1
end

--- Returns the Euclidean norm over all dimensions except `dim`; the dimensions that are reduced
--- keep size 1. If `dim` is false, returns the norm of all elements, without dimensions.
---@param tensor Tensor
---@param dim integer|false
---@return Tensor
function M.except(tensor, dim)
   if not dim then return torch.linalg.vector_norm(tensor) end
   if dim < 0 then dim = tensor:dim() + 1 + dim end
   if tensor:dim() == 1 then return tensor:abs() end
   local others = {}
   for i = 1, tensor:dim() do
      if i ~= dim then others[#others + 1] = i end
   end
   return torch.linalg.vector_norm(tensor, 2, others, {keepdim = true})
end

--- v g / |v|.
---@param v Tensor
---@param g Tensor
---@param dim integer|false
---@return Tensor
function M.scaled(v, g, dim)
   return v * (g / M.except(v, dim))
end

--- Reshapes a weight to a matrix that has one row for each position along a dimension.
---@param weight Tensor
---@param dim integer
---@return Tensor  (size(dim), the rest)
function M.matrix(weight, dim)
   return (dim == 1 and weight or weight:movedim(dim, 1)):flatten(2)
end

--- Raises an error for a weight without elements, because it has no singular value.
---@param title string
---@param name string
---@param weight Tensor
function M.check_elements(title, name, weight)
   if weight:numel() == 0 then
      args.refuse(title, name, "a weight with elements", weight)
   end
end

--- Runs steps of the power method: u and v converge to the singular vectors of the largest singular
--- value. u is updated first; u and v are changed in place.
---@param matrix Tensor  (n, k)
---@param u Tensor  (n)
---@param v Tensor  (k)
---@param steps integer
---@param eps number  lower bound of the divisor that normalizes a vector
function M.power_method(matrix, u, v, steps, eps)
   local _ <close> = torch.no_grad()
   for _ = 1, steps do
      u:copy_(F.normalize(torch.mv(matrix, v), {dim = 1, eps = eps}))
      v:copy_(F.normalize(torch.mv(matrix:t(), u), {dim = 1, eps = eps}))
   end
end

return M
