-- Parameter.lua - how a tensor becomes a parameter: it is marked, so that modules and optimizers
-- know it, and collects gradients.

local args = require "tlua.args"
local order = require "tlua.nn.order"

local signature = args.signature [[nn.Parameter(data: tensor, requires_grad: boolean = true)]]

--- A parameter with the data of a tensor, which it shares.
---@param data Tensor
---@param requires_grad? boolean  true by default
---@return Tensor
return function(...)
   local a = signature(...)
   local parameter = a.data:detach()
   parameter:requires_grad_(a.requires_grad)
   parameter.is_parameter = true
   return order.made(parameter)
end
