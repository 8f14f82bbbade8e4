-- paths.lua - aliases for PyTorch's older paths in torch.autograd.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

M.grad_mode = {
   no_grad = torch.no_grad, enable_grad = torch.enable_grad,
   inference_mode = torch.inference_mode, set_grad_enabled = torch.set_grad_enabled,
}

M.profiler = {
   profile = torch.profiler.profile, record_function = torch.profiler.record_function,
}

--- Returns the tensor itself, since every tensor can record gradients. With requires_grad, returns
--- a leaf that shares the tensor's memory.
---@param tensor Tensor
---@param requires_grad? boolean
---@return Tensor
function M.Variable(tensor, requires_grad)
   if not torch.is_tensor(tensor) then
      args.refuse("autograd.Variable", "data", "a tensor", tensor)
   end
   if type(requires_grad) == "table" then requires_grad = requires_grad.requires_grad end
   if requires_grad ~= nil then
      if type(requires_grad) ~= "boolean" then
         args.refuse("autograd.Variable", "requires_grad", "true or false", requires_grad)
      end
      tensor = tensor:detach()
      tensor:requires_grad_(requires_grad)
   end
   return tensor
end

return M
