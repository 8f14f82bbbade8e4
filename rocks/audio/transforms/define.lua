-- define.lua - defines the class of a transform, whose arguments become fields of the module.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn

--- Returns a class. `prepare(self, a, title)` may check the arguments, add fields and register
--- buffers; `forward(self, ...)` computes the transform.
---@param name string
---@param parameters string  in the notation of args.signature
---@param forward function
---@param prepare? function
---@return table
return function(name, parameters, forward, prepare)
   local title = "audio.transforms." .. name
   local Class = class.class(title, nn.Module)
   local take = args.signature(("%s(%s)"):format(title, parameters))
   function Class:__init(...)
      local a = take(...)
      for key, value in pairs(a) do self[key] = value end
      if prepare then prepare(self, a, title) end
   end
   Class.forward = forward
   return Class
end
