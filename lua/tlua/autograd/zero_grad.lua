-- zero_grad.lua - the method zero_grad that modules and optimizers share.

local args = require "tlua.args"

local take = args.signature "zero_grad(set_to_none: boolean = true)"

--- Drops the gradients of parameters, or zeroes them with `{set_to_none = false}`.
---@param parameters Tensor[]
---@param options? boolean|{set_to_none: boolean}
return function(parameters, options)
   local drop = options == nil or take(options).set_to_none
   for _, parameter in ipairs(parameters) do
      if drop then
         parameter.grad = nil
      elseif parameter.grad then
         if parameter.grad.requires_grad then parameter.grad:detach_() end
         parameter.grad:zero_()
      end
   end
end
