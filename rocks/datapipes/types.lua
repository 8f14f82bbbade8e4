-- types.lua - the types that can be declared for a pipe's items. A type is
--    a string: "integer", "float", "number", "string", "boolean", "table", "Tensor", "any" or the
--       name of a class, or alternatives separated by |: "integer|string";
--    a class, which includes the instances of classes that derive from it;
--    a function, which is called with a value and returns whether the value has the type;
--    a list of types, for items of that many values.

local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

local function is_list(kind)
   return type(kind) == "table" and not getmetatable(kind) and #kind > 0
end

local function is_type(kind)
   if type(kind) == "string" then return kind:find "[^|%s]" ~= nil end
   if not is_list(kind) then return type(kind) == "function" or class.issubclass(kind) end
   for _, part in ipairs(kind) do
      if not is_type(part) then return false end
   end
   return true
end

--- Raises an error if `kind` does not describe a type.
---@param who string
---@param what string
---@param kind any
function M.check(who, what, kind)
   if not is_type(kind) then
      args.refuse(who, what, "a type: a name, a class, a function or a list of them", kind)
   end
end

---@param kind any
---@return string
function M.describe(kind)
   if type(kind) == "string" then return kind end
   if class.issubclass(kind) then return kind.__name end
   if type(kind) == "function" then return "what its predicate takes" end
   local parts = {}
   for i, part in ipairs(kind) do parts[i] = M.describe(part) end
   return ("(%s)"):format(table.concat(parts, ", "))
end

local function holds_one(kind, value)
   if type(kind) == "function" then return kind(value) and true or false end
   if class.issubclass(kind) then return class.isinstance(value, kind) end
   for name in kind:gmatch "[^|%s]+" do
      if name == "any" or name == class.type(value) or name == type(value)
         or name == math.type(value) then
         return true
      end
   end
   return false
end

--- Returns whether an item, which is one value or several, has the type `kind`.
---@param kind any
---@param ... any
---@return boolean
function M.holds(kind, ...)
   if kind == "any" then return true end
   local n = select("#", ...)
   if not is_list(kind) then return n == 1 and holds_one(kind, (...)) end
   if n ~= #kind then return false end
   for i, part in ipairs(kind) do
      if not holds_one(part, (select(i, ...))) then return false end
   end
   return true
end

-- Returns whether each alternative in the string `part` is also an alternative in the string
-- `whole`. Alternatives are separated by |.
local function is_part_of_names(part, whole)
   local names = {}
   for name in whole:gmatch "[^|%s]+" do names[name] = true end
   for name in part:gmatch "[^|%s]+" do
      local wider = (name == "integer" or name == "float") and "number"
      if not (names[name] or names.any or wider and names[wider]) then return false end
   end
   return true
end

--- Returns whether all values of type `part` also have type `whole`, as far as this can be decided.
--- A function is only part of itself.
---@param part any
---@param whole any
---@return boolean
function M.is_part(part, whole)
   if part == whole or whole == "any" then return true end
   if is_list(part) and is_list(whole) then
      for i, kind in ipairs(whole) do
         if part[i] == nil or not M.is_part(part[i], kind) then return false end
      end
      return #part == #whole
   end
   if class.issubclass(part) then
      if class.issubclass(whole) then return class.issubclass(part, whole) end
      return type(whole) == "string" and is_part_of_names(part.__name, whole)
   end
   return type(part) == "string" and type(whole) == "string" and is_part_of_names(part, whole)
end

return M
