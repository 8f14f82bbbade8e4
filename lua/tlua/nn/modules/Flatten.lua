-- Flatten.lua - merges several dimensions into one.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local signature = args.signature "nn.Flatten(start_dim: dim = 2, end_dim: dim = -1)"

--- Merges the dimensions from start_dim to end_dim into one.
---
---     print(table.unpack(torch.nn.Flatten()(torch.zeros(8, 3, 4)).shape))
---     --> 8	12
---@class nn.Flatten: nn.Module
---@overload fun(start_dim?: integer, end_dim?: integer): nn.Flatten
local Flatten, parent = class.class("nn.Flatten", Module)

--- Makes the layer. By default all dimensions but the first one, the batch, are merged.
---@param start_dim? integer
---@param end_dim? integer
function Flatten:__init(...)
   parent.__init(self)
   local a = signature(...)
   self.start_dim, self.end_dim = a.start_dim, a.end_dim
end

---@param input Tensor
---@return Tensor
function Flatten:forward(input)
   if not torch.is_tensor(input) then args.refuse("nn.Flatten", "input", "a tensor", input) end
   return input:flatten(self.start_dim, self.end_dim)
end

function Flatten:extra_repr()
   return ("start_dim=%d, end_dim=%d"):format(self.start_dim, self.end_dim)
end

return Flatten
