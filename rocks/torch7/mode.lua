-- mode.lua - makes Torch7's model:training() work in unchanged programs.

local torch = require "tlua"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local M = {}

local function set_mode(_, module)
   if not class.isinstance(module, Module) then
      torch.raise("attempt to call a boolean value")
   end
   return module:train()
end

--- Makes `m:training()` set training mode, as in Torch7, and return the module. `m.training` stays
--- true or false, as layers expect, because booleans get a metatable with __call. The metatable
--- affects the whole program, so programs must request it. All other calls of booleans are errors.
---     require "tlua.torch7.mode".allow_call()
function M.allow_call()
   local meta = debug.getmetatable(true)
   if meta and meta.__call == set_mode then return end
   if meta then
      torch.raise("torch7.mode.allow_call: booleans have a metatable already")
   end
   debug.setmetatable(true, {__call = set_mode})
end

--- Undoes allow_call.
function M.refuse_call()
   local meta = debug.getmetatable(true)
   if meta and meta.__call == set_mode then debug.setmetatable(true, nil) end
end

return M
