-- indexing.lua - numbers as keys of datasets and loaders. An object that does not know them would
-- answer nil, and `for i, x in ipairs(loader)` would run zero times.

local torch = require "tlua"

local M = {}

local iterator <const> = ipairs {}

--- Gives instances of a class, and of classes that derive from it, an answer to integer keys that
--- they do not hold: at(self, i, ends). All other keys are the class's. `ends` tells that ipairs
--- asks, which stops at the first nil; without Lua's debug library anybody may be ipairs.
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

--- Makes integer keys and calls of a class's instances raise an error that shows the right loop.
---@param cls table
---@param loop string  the right loop
---@return fun(self: table) refuse  raises the error
function M.refuse(cls, loop)
   local function refuse(self)
      torch.raise(("%s has no numbered fields, and is no iterator: write %s"):format(
         torch.type(self), loop))
   end
   M.define(cls, refuse)
   cls.__call = refuse
   return refuse
end

return M
