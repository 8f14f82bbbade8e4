-- validation.lua - checks the items of pipes and the arguments of functions against declared types.
-- A class declares the type of its items in its field `type`. types.lua describes the types:
--
--    local Numbers = torch.class("Numbers", torch.data.IterDataPipe)
--    Numbers.type = "integer"
--    Numbers.iter = torch.data.runtime_validation(function(self) ... end)
--    Numbers.__init = torch.data.argument_validation(
--       function(self, source) self.source = source end, {source = "number"})

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local switches = require "tlua.datapipes.switches"
local types = require "tlua.datapipes.types"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"

local M = {}

--- Returns an item unchanged. Raises an error if the item does not have the pipe's declared type.
function M.checked(pipe, ...)
   if (...) == nil or types.holds(pipe.type, ...) then return ... end
   local found = {}
   for i = 1, select("#", ...) do found[i] = args.describe((select(i, ...))) end
   torch.raise(("%s: expected items of type %s, got %s"):format(
      torch.type(pipe), types.describe(pipe.type), table.concat(found, " and ")))
end

--- Wraps a method `iter` so that it checks each item against the pipe's field `type`. Reading an
--- item of another type raises an error. A type is a string such as "integer", "number|string",
--- "Tensor" or "any" (the default), a class, a function that tells whether a value has the type, or
--- a list of types for items of several values.
---@param iter fun(pipe): fun(): any ...
---@return fun(pipe): fun(): any ...
function M.runtime_validation(iter)
   if type(iter) ~= "function" then
      args.refuse("data.runtime_validation", "iter", "a method iter", iter)
   end
   return function(pipe)
      local next_item = iter(pipe)
      if not switches.validation then return next_item end
      return function() return M.checked(pipe, next_item()) end
   end
end

--- Disables the checks of iterations that begin while `fn` runs. Without fn, it disables them until
--- the returned scope is closed: `local _ <close> = torch.data.runtime_validation_disabled()`.
---@names data.runtime_validation_disabled
---@param fn? function
---@return any ...
M.runtime_validation_disabled =
   switches.scope("data.runtime_validation_disabled", "validation", false)

-- Returns a table that maps the name of each parameter of a function to the parameter's position.
local function parameters(fn)
   local places, i = {}, 1
   local name = debug.getlocal(fn, i)
   while name do
      places[name] = i
      i = i + 1
      name = debug.getlocal(fn, i)
   end
   return places
end

--- Raises an error if an argument does not match its declared type.
function M.check_argument(name, hint, value)
   local expected = class.issubclass(hint, IterDataPipe) and hint or IterDataPipe
   if not class.isinstance(value, expected) then
      args.refuse("data.argument_validation", name, "an instance of " .. expected.__name, value)
   end
   if expected ~= hint and not types.is_part(value.type, hint) then
      torch.raise(("data.argument_validation: %s: expected a pipe with items of type %s, got %s "
         .. "with items of type %s"):format(name, types.describe(hint), torch.type(value),
         types.describe(value.type)))
   end
end

--- Returns a function that checks those arguments that are pipes, and then calls `fn`. `hints` maps
--- the names of fn's parameters to the type of the pipe's items, or to the pipe's class. An
--- argument of nil is not checked.
---@param fn function
---@param hints table<string, any>
---@return function
function M.argument_validation(fn, hints)
   local name <const> = "data.argument_validation"
   if type(fn) ~= "function" then args.refuse(name, "fn", "a function", fn) end
   if type(hints) ~= "table" or getmetatable(hints) then
      args.refuse(name, "hints", "a table of types by names of parameters", hints)
   end
   local places, checks = parameters(fn), {}
   for parameter, hint in pairs(hints) do
      if not places[parameter] then
         torch.raise(("%s: hints: expected names of parameters, got %s, which the function does "
            .. "not have"):format(name, tostring(parameter)))
      end
      types.check(name, parameter, hint)
      checks[#checks + 1] = {place = places[parameter], name = parameter, hint = hint}
   end
   table.sort(checks, function(a, b) return a.place < b.place end)
   return function(...)
      for _, check in ipairs(checks) do
         local value = select(check.place, ...)
         if value ~= nil then M.check_argument(check.name, check.hint, value) end
      end
      return fn(...)
   end
end

return M
