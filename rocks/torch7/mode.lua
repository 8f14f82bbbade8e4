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

--- Makes `m:training()` set the training mode and return the module, as in Torch7. `m.training`
--- stays true or false, as layers expect; the call works because booleans get a metatable with
--- __call. This affects the whole program, so a program must ask for it. All other calls of
--- booleans are errors.
---     require "tlua.torch7.mode".allow_call()
function M.allow_call()
   local meta = debug.getmetatable(true)
   if meta and meta.__call == set_mode then return end
   if meta then
      torch.raise("torch7.mode.allow_call: booleans have a metatable already")
   end
   debug.setmetatable(true, {__call = set_mode})
end

--- Undoes allow_call: removes the metatable from booleans.
function M.refuse_call()
   local meta = debug.getmetatable(true)
   if meta and meta.__call == set_mode then debug.setmetatable(true, nil) end
end

return M
