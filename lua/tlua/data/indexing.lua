-- indexing.lua - handles integer keys of datasets and loaders. If such keys gave nil, `for i, x in
-- ipairs(loader)` would silently run zero times.

local torch = require "tlua"

local M = {}

local iterator <const> = ipairs {}

--- Makes instances of a class, and of derived classes, call at(self, i, ends) when a program reads
--- an integer key that has no value. All other keys are looked up in the class. `ends` is true if
--- the caller may be ipairs, which needs nil after the last item; without Lua's debug library
--- `ends` is always true.
---@param cls table
---@param at fun(self: table, i: integer, ends: boolean): any
function M.define(cls, at)
   function cls:__index(key)
      if math.type(key) == "integer" then
         return at(self, key, not debug or debug.getinfo(2, "f").func == iterator)
      end
      return getmetatable(self)[key]
   end
end

--- Raises an error that names the dataset unless `i` is the position of one of its items.
---@param dataset table
---@param i any
---@param given? any  the value that the message shows, `i` by default
function M.check(dataset, i, given)
   local n = #dataset
   if type(i) ~= "number" or not math.tointeger(i) or i < 1 or i > n then
      torch.raise(("%s: expected a position from 1 to %d, got %s"):format(torch.type(dataset), n,
         tostring(given or i)))
   end
end

--- Makes instances of a class raise an error when they are indexed by an integer or called. The
--- error shows the right loop.
---@param cls table
---@param loop string  the right loop
---@return fun(self: table) refuse  raises the error
function M.refuse(cls, loop)
   local function refuse(self)
      torch.raise(("%s has no numbered fields, and is not an iterator: write %s"):format(
         torch.type(self), loop))
   end
   M.define(cls, refuse)
   cls.__call = refuse
   return refuse
end

return M
