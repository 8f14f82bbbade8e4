-- base.lua - code that the parts of the runtime share: the table of all functions, and how values
-- are shown, compared and iterated over.

local torch = require "tlua"

local M = {}

local function number_text(x)
   if math.type(x) == "integer" then return tostring(x) end
   if x ~= x then return "nan" end
   if x == math.huge or x == -math.huge then return x > 0 and "inf" or "-inf" end
   if x == math.floor(x) and math.abs(x) < 1e16 then return ("%.1f"):format(x) end
   for digits = 1, 17 do
      local text = ("%%.%dg"):format(digits):format(x)
      if tonumber(text) == x then return text end
   end
end

--- Returns the keys of a table, sorted.
function M.sorted_keys(t)
   local keys = {}
   for key in pairs(t) do keys[#keys + 1] = key end
   table.sort(keys, function(a, b)
      if type(a) == type(b) and type(a) ~= "boolean" then return a < b end
      return tostring(a) < tostring(b)
   end)
   return keys
end

local function table_text(t)
   local parts = {}
   if #t > 0 or next(t) == nil then
      for i, item in ipairs(t) do parts[i] = M.show(item) end
      return "[" .. table.concat(parts, ", ") .. "]"
   end
   for i, key in ipairs(M.sorted_keys(t)) do
      parts[i] = ("%s: %s"):format(M.show(key), M.show(t[key]))
   end
   return "{" .. table.concat(parts, ", ") .. "}"
end

--- Formats a value as Python does inside a list.
function M.show(value)
   local kind = type(value)
   if kind == "string" then return "'" .. value:gsub("[\\'\n]", {
      ["\\"] = "\\\\", ["'"] = "\\'", ["\n"] = "\\n"}) .. "'" end
   if kind == "number" then return number_text(value) end
   if kind == "boolean" then return value and "True" or "False" end
   if kind == "nil" then return "None" end
   local plain = kind == "table" and not getmetatable(value) and not torch._is_size(value)
   if plain then return table_text(value) end
   return tostring(value)
end

--- Returns an iterator over any value that Python's `for` accepts.
function M.iterator(thing)
   local kind = type(thing)
   if kind == "function" then return thing end
   if torch.is_tensor(thing) then return thing:iter() end
   if kind == "string" then return thing:gmatch(utf8.charpattern) end
   local meta = getmetatable(thing)
   local module = torch.isinstance(thing, torch.nn.Module)
   if meta and meta.__call and not module and not thing.iter then return thing end
   local iterates = kind == "table" and meta and not module and type(thing.iter) == "function"
   if iterates then return thing:iter() end
   if kind ~= "table" then
      error(("for: expected something to iterate over, got %s"):format(torch.type(thing)), 3)
   end
   if meta == M.set_class or not meta and #thing == 0 and next(thing) ~= nil then
      local key
      return function()
         key = next(thing, key)
         return key
      end
   end
   local i = 0
   return function()
      i = i + 1
      if i > #thing then return nil end
      local item = thing[i]
      if item == nil and thing.get then return thing:get(i) end
      return item
   end
end

--- Returns whether a sorts before b. Both are numbers, strings or one-element tensors, or lists,
--- which are compared item by item.
function M.less(a, b)
   if torch.is_tensor(a) then a = a:item() end
   if torch.is_tensor(b) then b = b:item() end
   if type(a) == "table" and type(b) == "table" then
      for i = 1, math.min(#a, #b) do
         if M.less(a[i], b[i]) then return true end
         if M.less(b[i], a[i]) then return false end
      end
      return #a < #b
   end
   return a < b
end

return M
