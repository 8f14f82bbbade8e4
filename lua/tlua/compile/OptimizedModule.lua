-- OptimizedModule.lua - the module that torch.compile returns for a module.

local torch = require "tlua"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

--- A module that torch.compile has made. Its parameters are those of the original, under names that
--- begin with `_orig_mod.`, as in PyTorch; other fields and methods are the original's.
---@class OptimizedModule: nn.Module
local Optimized, parent = class.class("OptimizedModule", Module)

function Optimized:__init(module)
   parent.__init(self)
   self._orig_mod = module
   if not module.training then self.training = false end
end

function Optimized.__index(self, key)
   local value = type(key) == "string" and Optimized[key] or nil
   if value ~= nil then return value end
   local module = rawget(self, "_orig_mod")
   if module == nil then return nil end
   return module[key]
end

function Optimized:__len() return #self._orig_mod end

function Optimized:forward(...)
   local calls = torch.compiler._calls(self)
   if not calls then return self._orig_mod(...) end -- a copy of a compiled module
   return calls:__call(...)
end

function Optimized:__call(...)
   if self._hooks then return Module.__call(self, ...) end
   return self:forward(...)
end

return Optimized
