-- Identity.lua - returns its arguments; a placeholder for a layer.

local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

---     print(torch.nn.Identity()(torch.tensor {1, 2}))
---     --> tensor([1, 2])
---@class nn.Identity: nn.Module
---@overload fun(...): nn.Identity
local Identity, parent = class.class("nn.Identity", Module)

--- Arguments are ignored, so it can replace any layer.
function Identity:__init()
   parent.__init(self)
end

---@param ... any
---@return any ...
function Identity:forward(...)
   return ...
end

return Identity
