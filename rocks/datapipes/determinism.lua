-- determinism.lua - marks pipes whose items may differ from run to run, so that a program can
-- forbid them.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local switches = require "tlua.datapipes.switches"

local M = {}

--- Raises an error if `cls` is marked as `non_deterministic` and guaranteed_datapipes_determinism
--- is on.
---@param cls table
---@param ... any  the constructor's arguments
function M.check(cls, ...)
   local varies = cls.is_non_deterministic
   if type(varies) == "function" then
      local answer = varies(...)
      if type(answer) ~= "boolean" then
         args.refuse(cls.__name, "non_deterministic", "a boolean as the result of its function",
            answer)
      end
      varies = answer
   end
   if varies and switches.determinism then
      torch.raise(("%s: marked non_deterministic; expected a deterministic pipe, since "
         .. "guaranteed_datapipes_determinism is on"):format(cls.__name))
   end
end

local function mark(cls, varies)
   if not class.issubclass(cls, require "tlua.datapipes.IterDataPipe") then
      torch.raise(("data.non_deterministic: expected a class that derives from data.IterDataPipe, "
         .. "got %s"):format(tostring(cls)))
   end
   cls.is_non_deterministic = varies
   return cls
end

--- Marks a class of pipes, and all classes derived from it, because the items of their pipes may
--- differ from run to run:
---
---    local Noise = torch.data.non_deterministic(torch.class("Noise", torch.data.IterDataPipe))
---
--- If the constructor's arguments determine whether items differ, pass a function that gets these
--- arguments and returns true or false: `non_deterministic(fn)` returns a function that marks a
--- class with this condition.
---@param what table|fun(...): boolean
---@return table|fun(cls: table): table
function M.non_deterministic(what)
   if type(what) ~= "function" then return mark(what, true) end
   return function(cls) return mark(cls, what) end
end

--- Forbids the construction of pipes marked as `non_deterministic` while `fn` runs. Without fn, it
--- forbids them until the returned scope is closed: `local _ <close> =
--- torch.data.guaranteed_datapipes_determinism()`.
---@names data.guaranteed_datapipes_determinism
---@param fn? function
---@return any ...
M.guaranteed_datapipes_determinism =
   switches.scope("data.guaranteed_datapipes_determinism", "determinism", true)

return M
