-- arguments.lua - checks the arguments of the filters, tests and methods of templates.

local values = require "tlua.text.template.values"

local M = {}

--- Returns the arguments in the order of the given names. A missing argument is nil.
---@param title string  the function, for error messages
---@param args any[]  the arguments by position
---@param named table<string, any>  the arguments by name
---@param ... string  the names; a name of a required argument ends with "!"; required arguments
--- come first
---@return any ...
function M.take(title, args, named, ...)
   local names, list = {...}, {}
   if #args > #names then
      values.fail("%s: expected at most %d arguments, got %d", title, #names, #args)
   end
   local known = {}
   for i, name in ipairs(names) do
      local plain = name:gsub("!", "")
      known[plain] = true
      list[i] = args[i]
      if named[plain] ~= nil then
         if list[i] ~= nil then values.fail("%s: %s is given twice", title, plain) end
         list[i] = named[plain]
      end
      if list[i] == nil and plain ~= name then
         values.fail("%s: the argument %s is missing", title, plain)
      end
   end
   for name in pairs(named) do
      if not known[name] then values.fail("%s: there is no argument %s", title, name) end
   end
   return table.unpack(list, 1, #names)
end

--- Raises an error unless an argument is a string, and returns it.
---@param title string
---@param value any
---@return string
function M.text(title, value)
   if type(value) == "string" then return value end
   if values.kind(value) == "undefined" then values.fail(value.message) end
   return values.fail("%s: expected a text, got %s", title, values.repr(value))
end

--- Raises an error unless an argument is an integer, and returns it; returns `default` if it is
--- missing or none.
---@param title string
---@param value any
---@param default? integer
---@return integer
function M.integer(title, value, default)
   if (value == nil or value == values.none) and default then return default end
   local number = value ~= nil and values.number(value)
   if math.type(number) == "integer" then return number end
   if value ~= nil and values.kind(value) == "undefined" then values.fail(value.message) end
   return values.fail("%s: expected an integer, got %s", title,
      value == nil and "nothing" or values.repr(value))
end

--- Returns an optional argument, or nil if the argument is the template's none.
---@param value any
---@return any
function M.optional(value)
   if value == values.none then return nil end
   return value
end

return M
