-- functional_datapipe.lua - gives classes of pipes a functional form.

local torch = require "tlua"
local class = require "tlua.class"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"
local MapDataPipe = require "tlua.datapipes.MapDataPipe"

--- A function that makes a class a method of all pipes, and returns it:
---
---    local Pairs = torch.class("Pairs", torch.data.IterDataPipe)
---    torch.data.functional_datapipe "pairs"(Pairs)
---    pipe:pairs()      -- Pairs(pipe)
---
--- The class derives from IterDataPipe or from MapDataPipe, and pipes of that kind get the method.
--- A name that is taken is an error. A worker of a DataLoader has the forms that come with the
--- library.
---@param name string
---@return fun(cls: table): table
return function(name)
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
