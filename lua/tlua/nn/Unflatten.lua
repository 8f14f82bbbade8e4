-- Unflatten.lua - makes several dimensions of one.

local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.Module"

local signature = args.signature "nn.Unflatten(dim: integer, unflattened_size: integers)"

---@class nn.Unflatten: nn.Module
---@overload fun(dim: integer, unflattened_size: integer[]): nn.Unflatten
local Unflatten, parent = class.class("nn.Unflatten", Module)

---@param dim integer
---@param unflattened_size integer[]  one may be -1
function Unflatten:__init(...)
   parent.__init(self)
   local a = signature(...)
   self.dim, self.unflattened_size = a.dim, a.unflattened_size
end

---@param input Tensor
---@return Tensor
function Unflatten:forward(input)
   return input:unflatten(self.dim, self.unflattened_size)
end

function Unflatten:extra_repr()
   return ("dim=%d, unflattened_size=(%s)"):format(
      self.dim, table.concat(self.unflattened_size, ", "))
end

return Unflatten
