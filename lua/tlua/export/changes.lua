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

local plain <const> = {number = true, boolean = true, string = true}

-- Returns a key of a table that is missing in an earlier copy of the table, and has a plain value.
local function new_key(value, copy)
   for key, item in next, value do
      if copy[key] == nil and plain[type(item)] then return key end
   end
end

-- Returns whether the script or the library uses a field.
local function is_used(seen, entry)
   local reads = seen.reads or seen
   return entry[5] or reads.by_library and reads:by_library(entry[1], entry[2])
end

--- Raises an error if calls have changed a value, and the function reads the value for more than an
--- update such as n = n + 1. `seen` is a result of reads.of from before these calls, or a table
--- with the same lists and the result as `reads`.
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
         if differ(entry[3], value, seen.known, 1) and is_used(seen, entry) then
            refuse(entry[4], title, noun)
         end
      end
   end
   for _, entry in ipairs(seen.sets) do
      local key = new_key(entry[1], entry[2])
      if key ~= nil then refuse(M.field_name(entry[3], key), title, noun) end
   end
   for _, entry in ipairs(seen.whole) do
      local name = entry[4] and changed_key(entry[1], entry[2], entry[3], seen.known)
      if name then refuse(name, title, noun) end
   end
end

-- Calls fn(entry, value) for each variable and field of `seen` that has a tensor as its value.
local function each_tensor(seen, fn)
   for _, entry in ipairs(seen.upvalues) do
      local _, value = debug.getupvalue(entry[1], entry[2])
      if torch.is_tensor(value) then fn(entry, value) end
   end
   for _, entry in ipairs(seen.fields) do
      local value = rawget(entry[1], entry[2])
      if torch.is_tensor(value) then fn(entry, value) end
   end
end

-- Returns the names of the variables and fields that have another tensor than in `seen`, and that
-- the function reads for more than an update, or of all of them if there is none.
local function names_of_tensors(seen)
   local used, all, known = {}, {}, {}
   each_tensor(seen, function(entry, value)
      local name = entry[4]
      if rawequal(value, entry[3]) or known[name] then return end
      all[#all + 1], known[name] = name, true
      if entry[5] then used[#used + 1] = name end
   end)
   return #used > 0 and used or all
end

--- Returns a list of {name, tensor} for the tensors in variables and fields.
function M.tensors(seen)
   local list = {}
   each_tensor(seen, function(entry, value)
      list[#list + 1] = {(entry[4]:gsub("^the variable ", "")), value}
   end)
   return list
end

--- Raises the error `problem`, that two recordings differ, with the names of the variables and
--- fields in which each call has left another tensor. `seen` is as for M.check, and may be nil.
---@param problem string
---@param seen? table
---@param advice string  what the user can do about these tensors
function M.raise_with_names(problem, seen, advice)
   local names = seen and names_of_tensors(seen) or {}
   if #names == 0 then error(problem, 0) end
   local text = tostring(problem):gsub("^[^:]*:%d+: ", "")
   torch.raise(("%s; calls leave other tensors in %s: %s"):format(text,
      table.concat(names, " and "), advice))
end

--- Advice for raise_with_names if calls with other values differ. `place` is where tensors of a
--- program's state are kept.
function M.keep_in(place)
   return ("if the function reads the tensor of an earlier call, keep it in %s, and change it in "
      .. "place, as copy_ does"):format(place)
end

return M
