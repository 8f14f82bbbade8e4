-- recording.lua - a scope in which gradients are recorded, regardless of the surrounding modes.
-- Functions that differentiate internally run in such a scope.

local torch = require "tlua"
local scopes = require "tlua.scope"

local M = {}

--- Returns the tensor itself, or a copy if the tensor was made in inference mode, because such a
--- tensor cannot be saved for the backward pass.
---@param tensor Tensor
---@return Tensor
function M.usable(tensor)
   if tensor.requires_grad or not (tensor:is_floating_point() or tensor:is_complex()) then
      return tensor
   end
   local own = tensor:detach()
   return pcall(own.requires_grad_, own) and tensor or tensor:clone()
end

--- Returns a leaf tensor with the values of `tensor`. A tensor made in inference mode is copied,
--- because autograd cannot use it.
---@param tensor Tensor
---@return Tensor
function M.leaf(tensor)
   local own = tensor:detach()
   if pcall(own.requires_grad_, own) then return own end
   return tensor:detach():clone():requires_grad_()
end

return setmetatable(M, {__call = function()
   return scopes.all {torch.inference_mode(false), torch.enable_grad()}
end})
