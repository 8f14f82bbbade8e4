-- Parameter.lua - nn.Parameter: marks a tensor as a parameter: modules register it, the backward
-- pass computes its gradient, and optimizers update it.

local args = require "tlua.args"
local order = require "tlua.nn.order"

local signature = args.signature [[nn.Parameter(data: tensor, requires_grad: boolean = true)]]

--- Returns a parameter that shares a tensor's data.
---@param data Tensor
---@param requires_grad? boolean  true by default
---@return Tensor
return function(...)
   local a = signature(...)
   local wrapped = args.kind_of(a.data)
   if wrapped == "masked tensor" or wrapped == "quantized tensor" then
      args.refuse("nn.Parameter", "data", "a dense, sparse or nested tensor", a.data)
   end
   local parameter = a.data:detach()
   parameter:requires_grad_(a.requires_grad)
   parameter.is_parameter = true
   return order.made(parameter)
end
