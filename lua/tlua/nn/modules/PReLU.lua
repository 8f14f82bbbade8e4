-- PReLU.lua - an activation that returns x for x > 0 and a * x otherwise, where the slope a is
-- learnt.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

local signature = args.signature [[nn.PReLU(num_parameters: count = 1, init: number = 0.25,
   device: device?, dtype: string?)]]

--- Returns x for x > 0 and a * x otherwise, elementwise; the slope a is one learnt number, or one
--- for each channel.
---
---     local layer = torch.nn.PReLU() -- the slope is learnt
---     print(layer(torch.tensor {-1.0, 2.0}):detach())
---     --> tensor([-0.2500,  2.0000])
---@class nn.PReLU: nn.Module
---@field weight Tensor  (num_parameters)
---@overload fun(num_parameters?: integer, options?: table): nn.PReLU
local PReLU, parent = class.class("nn.PReLU", Module)

---@param num_parameters? integer  1, or the number of channels
---@param options? {init: number, device: string|torch.device, dtype: string}
function PReLU:__init(...)
   parent.__init(self)
   local a = signature(...)
   self.num_parameters = a.num_parameters
   self.weight = Parameter(torch.empty(a.num_parameters, {device = a.device, dtype = a.dtype})
      :fill_(a.init))
end

---@param input Tensor
---@return Tensor
function PReLU:forward(input)
   return F.prelu(input, self.weight)
end

function PReLU:extra_repr()
   return "num_parameters=" .. self.num_parameters
end

return PReLU
