-- functional_datapipe.lua - gives user-defined classes of pipes a functional form.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"
local MapDataPipe = require "tlua.datapipes.MapDataPipe"

--- Returns a function that registers a class as a method of all pipes and returns that class:
---
---    local Pairs = torch.class("Pairs", torch.data.IterDataPipe)
---    torch.data.functional_datapipe "pairs"(Pairs)
---    pipe:pairs()      -- Pairs(pipe)
---
--- The class must derive from IterDataPipe or from MapDataPipe. All pipes that derive from the same
--- base class get the method. A name that is already in use raises an error. The workers of a
--- DataLoader do not have the methods that a program has registered.
---@param name string
---@return fun(cls: table): table
return function(name)
   if type(name) ~= "string" then
      args.refuse("data.functional_datapipe", "name", "a string", name)
   end
   return function(cls)
      local base = class.issubclass(cls, IterDataPipe) and IterDataPipe
         or class.issubclass(cls, MapDataPipe) and MapDataPipe
      if not base then
         torch.raise(("data.functional_datapipe: expected a class that derives from "
            .. "data.IterDataPipe or data.MapDataPipe, got %s"):format(tostring(cls)))
      end
      base.register_datapipe_as_function(name, cls)
      return cls
   end
end
