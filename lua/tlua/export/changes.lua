-- changes.lua - finds values of Lua, such as a count of calls, that each call of a recorded
-- function changes and reads. A program cannot repeat such changes, so the export raises an error.
-- The values are those that reads.lua has listed after the first call. Tensors are left out, since
-- recordings with other values show them.

local torch = require "tlua"

local M = {}

-- The depth of nested tables that are compared. Deeper tables count as different.
local DEEPEST <const> = 16

local differ

local function functions_differ(a, b, known, depth)
   if debug.getinfo(a, "S").what == "C" or debug.getinfo(b, "S").what == "C" then return true end
   if string.dump(a, true) ~= string.dump(b, true) then return true end
   for i = 1, 255 do
      local name, value = debug.getupvalue(a, i)
      if not name then return false end
      local _, other = debug.getupvalue(b, i)
      if differ(value, other, known, depth + 1) then return true end
   end
   return false
end

-- Returns whether a step may behave differently after `a` was replaced by `b`. A table or function
-- that a call has created is the same as its predecessor if their contents are the same, but a
-- table in the set `known` existed before.
function differ(a, b, known, depth)
   if rawequal(a, b) or a ~= a and b ~= b then return false end
   local kind = type(a)
   if kind ~= type(b) or depth > DEEPEST then return true end
   if kind == "function" then return functions_differ(a, b, known, depth) end
   if kind == "userdata" then return torch.is_tensor(a) ~= torch.is_tensor(b) end
   if kind ~= "table" then return true end
   if known[b] or not rawequal(debug.getmetatable(a), debug.getmetatable(b)) then return true end
   for key, item in next, a do
      if differ(item, rawget(b, key), known, depth + 1) then return true end
   end
   for key in next, b do
      if rawget(a, key) == nil then return true end
   end
   return false
end

--- Returns a key whose value differs in two tables; nil if there is none.
function M.difference(a, b)
   for key, value in next, a do
      if not rawequal(b[key], value) then return key end
   end
   for key in next, b do
      if rawget(a, key) == nil then return key end
   end
end

--- Returns the name of a table's field for messages.
function M.field_name(path, key)
   if type(key) == "string" then return path .. "." .. key end
   local kind = type(key)
   local text = (kind == "number" or kind == "boolean") and tostring(key) or torch.type(key)
   return ("%s[%s]"):format(path, text)
end

-- Returns the name of a key of a table all of whose keys count, if its value has changed.
local function changed_key(value, copy, path, known)
   for key, item in next, value do
      if differ(copy[key], item, known, 1) then return M.field_name(path, key) end
   end
   for key in next, copy do
      if rawget(value, key) == nil then return M.field_name(path, key) end
   end
end

local function refuse(name, title, noun)
   torch.raise(("%s: %s has another value in each call of the function, which reads it; a %s "
      .. "would repeat the value of the example; pass it as an input, or change it outside of the "
      .. "function if it is only for a log"):format(title, name, noun or "program"))
end

--- Raises an error if calls have changed a value, and the function reads the value for more than an
--- update such as n = n + 1. `seen` is a result of reads.of from before these calls.
---@param title string  the operator
---@param seen table  an empty table if the calls were not watched
---@param noun? string  the name of the recorded call in the message, by default "program"
function M.check(title, seen, noun)
   if not seen.known then return end
   for _, entry in ipairs(seen.lengths) do
      if rawlen(entry[1]) ~= entry[2] then refuse(entry[3], title, noun) end
   end
   for _, entry in ipairs(seen.upvalues) do
      local _, value = debug.getupvalue(entry[1], entry[2])
      if entry[5] and differ(entry[3], value, seen.known, 1) then refuse(entry[4], title, noun) end
   end
   for _, list in ipairs {seen.fields, seen.changing} do
      for _, entry in ipairs(list) do
         local value = rawget(entry[1], entry[2])
         -- a method may come from a class; a missing variable may be found in another table
         if entry[3] ~= nil and value == nil then value = entry[1][entry[2]] end
         if entry[5] and differ(entry[3], value, seen.known, 1) then
            refuse(entry[4], title, noun)
         end
      end
   end
   for _, entry in ipairs(seen.whole) do
      local name = entry[4] and changed_key(entry[1], entry[2], entry[3], seen.known)
      if name then refuse(name, title, noun) end
   end
end

return M
