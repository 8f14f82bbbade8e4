-- OptimizedModule.lua - the module that torch.compile returns for a module.

local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

--- The module that torch.compile returns for a module. It has the original's parameters, whose
--- names get the prefix `_orig_mod.`, as in PyTorch, and all its other fields and methods. A value
--- that is assigned to a field becomes a field of the original.
---@class OptimizedModule: nn.Module
local Optimized, parent = class.class("OptimizedModule", Module)

function Optimized:__init(module)
   parent.__init(self)
   self._orig_mod = module
end

function Optimized.__index(self, key)
   local module = rawget(self, "_orig_mod")
   if key == "training" and module then return module.training end
   local value = type(key) == "string" and Optimized[key] or nil
   if value ~= nil then return value end
   if module == nil then return nil end
   return module[key]
end

function Optimized.__newindex(self, key, value)
   local module = rawget(self, "_orig_mod")
   if module and (key == "training" or Optimized[key] == nil) then
      module[key] = value
   else
      Module.__newindex(self, key, value)
   end
end

-- Sets the mode of the original module. This module keeps no field `training` of its own, because
-- that field would hide the original's.
function Optimized:train(...)
   parent.train(self, ...)
   rawset(self, "training", nil)
   rawset(self, "_evaluating", false)
   return self
end

function Optimized:__len() return #self._orig_mod end

-- Maps modules to objects of class compile.Compiled, which run a module's calls as programs. A copy
-- of an OptimizedModule has no such object, and calls the original module.
local calls_of <const> = setmetatable({}, {__mode = "k"})

function Optimized:_calls(calls) calls_of[self] = calls end

function Optimized:forward(...)
   local calls = calls_of[self]
   if not calls then return self._orig_mod(...) end
   return calls:__call(...)
end

function Optimized:__call(...)
   if self._hooks then return Module.__call(self, ...) end
   local calls = calls_of[self]
   if not calls then return self._orig_mod(...) end
   if calls.pause > 0 then
      calls.pause = calls.pause - 1
      return calls.fn(...)
   end
   return calls:__call(...)
end

return Optimized
