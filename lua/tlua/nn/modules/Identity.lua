-- Identity.lua - a layer that returns its arguments, as a placeholder for another layer.

local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

--- Returns its arguments unchanged: a placeholder for another layer.
---
---     print(torch.nn.Identity()(torch.tensor {1, 2}))
---     --> tensor([1, 2])
---@class nn.Identity: nn.Module
---@overload fun(...): nn.Identity
local Identity, parent = class.class("nn.Identity", Module)

--- Makes the layer. Arguments are ignored, so the class can replace any layer's class.
function Identity:__init()
   parent.__init(self)
end

---@param ... any
---@return any ...
function Identity:forward(...)
   return ...
end

return Identity
