-- zero_grad.lua - implements the method zero_grad of modules and optimizers.

local torch = require "tlua"

--- Drops the gradients of parameters, or fills them with zeros if set_to_none is false.
---@param parameters Tensor[]
---@param set_to_none boolean  whether gradients are dropped
return function(parameters, set_to_none)
   if set_to_none then return torch._drop_grads(parameters) end
   for _, parameter in ipairs(parameters) do
      if parameter.grad then
         if parameter.grad.requires_grad then parameter.grad:detach_() end
         parameter.grad:zero_()
      end
   end
end
