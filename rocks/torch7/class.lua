-- class.lua - the package class, which gives programs of Torch7's time classes without torch.class.
-- Its classes are Torch7's: torch.typename and torch.isTypeOf know them.

local classes = require "tlua.torch7.classes"

local M = {}

--- Defines a class, and returns its constructor table, in which methods are defined. `class(...)`
--- does the same as `class.new(...)`. Objects are made by calling the class or its function `new`.
---@param name string
---@param parentname? string
---@return table class
function M.new(name, parentname)
   local place = {}
   local class = classes.class(name, parentname, place)
   class.new = function(...) return class(...) end
   return class
end

--- Returns a new object of a class without calling `__init`. Returns nil if there is no such class.
---@param name string
---@return table?
function M.factory(name)
   local make = classes.factory(name)
   return make and make()
end

--- Returns the table with the methods of a class. Returns nil if there is no such class.
---@param name string
---@return table?
function M.metatable(name) return classes.getmetatable(name) end

--- Returns the name of an object's class. For a value without a class, returns the name of its Lua
--- type.
---@param object any
---@return string
function M.type(object) return classes.type(object) end

--- Returns whether an object's class has this name or derives from the class with this name. For a
--- value without a class, `name` is compared with the name of its Lua type.
---@param object any
---@param name string
---@return boolean
function M.istype(object, name)
   if type(name) ~= "string" then
      require "tlua.args".refuse("class.istype", "name", "a string", name)
   end
   local meta = classes.metatype(object)
   if not meta then return type(object) == name end
   return classes.isTypeOf(object, "^" .. name:gsub("%p", "%%%0") .. "$")
end

return setmetatable(M, {__call = function(_, ...) return M.new(...) end})
