-- Unflatten.lua - splits one dimension into several.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local signature = args.signature "nn.Unflatten(dim: dim, unflattened_size: integers)"

--- Splits dimension `dim` into several dimensions of the given sizes.
---
---     local layer = torch.nn.Unflatten(2, {3, 4})
---     print(table.unpack(layer(torch.zeros(8, 12)).shape))
---     --> 8	3	4
---@class nn.Unflatten: nn.Module
---@overload fun(dim: integer, unflattened_size: integer[]): nn.Unflatten
local Unflatten, parent = class.class("nn.Unflatten", Module)

---@param dim integer
---@param unflattened_size integer[]  one may be -1
function Unflatten:__init(...)
   parent.__init(self)
   local a = signature(...)
   local sizes = a.unflattened_size
   self.dim, self.unflattened_size = a.dim, type(sizes) == "table" and sizes or {sizes}
end

---@param input Tensor
---@return Tensor
function Unflatten:forward(input)
   if not torch.is_tensor(input) then args.refuse("nn.Unflatten", "input", "a tensor", input) end
   return input:unflatten(self.dim, self.unflattened_size)
end

function Unflatten:extra_repr()
   return ("dim=%d, unflattened_size=(%s)"):format(
      self.dim, table.concat(self.unflattened_size, ", "))
end

return Unflatten
