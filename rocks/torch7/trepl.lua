-- trepl.lua - the function print of Torch7's interactive program th, which shows the contents of
-- tables.

local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"

local field, methods = types.field, types.methods

local M = {}

local lua_print = print
local deepest <const> = 6

-- Returns the keys of a table: first the numbers, then all other keys, sorted as texts.
local function sorted_keys(value)
   local keys = {}
   for key in next, value do keys[#keys + 1] = key end
   table.sort(keys, function(a, b)
      local one, two = type(a) == "number", type(b) == "number"
      if one ~= two then return one end
      if one then return a < b end
      return tostring(a) < tostring(b)
   end)
   return keys
end

local function describe_tensor(x)
   local name = types.kind_of(x).name .. "Tensor"
   if methods.numel(x) == 0 then return name .. " - empty" end
   return ("%s - size: %s"):format(name, table.concat(field(x, "shape"), "x"))
end

-- Formats a value inside a table as text. The lines of a table are indented.
local function describe(value, indent, depth, seen)
   if types.is_tensor(value) then return describe_tensor(value) end
   if types.is_storage(value) then
      return ("%s - size: %d"):format(classes.type(value):match "[^.]+$", value:size())
   end
   if type(value) == "string" then return ('"%s"'):format(value) end
   if type(value) ~= "table" then return tostring(value) end
   if seen[value] or depth > deepest then return "{...}" end
   local meta = debug.getmetatable(value)
   if meta and meta.__metatable ~= nil then return tostring(value) end
   if meta and meta.__tostring and not classes.metatype(value) then return tostring(value) end
   seen[value] = true
   local lines = {"{"}
   for _, key in ipairs(sorted_keys(value)) do
      local inner = rawget(value, key)
      local text = describe(inner, indent .. "    ", depth + 1, seen)
      if classes.metatype(inner) and type(inner) == "table" and text:find "^{\n" then
         text = tostring(inner):gsub("\n", "\n    " .. indent) .. "\n    " .. indent .. text
      end
      local gap = type(inner) == "table" and text:find "\n" and "\n    " .. indent or ""
      lines[#lines + 1] = ("%s  %s : %s%s"):format(indent, tostring(key), gap, text)
   end
   seen[value] = nil
   lines[#lines + 1] = indent .. "}"
   return table.concat(lines, "\n")
end

--- Formats a value as th's print shows it.
---@param value any
---@return string
function M.tostring(value)
   if type(value) ~= "table" then return tostring(value) end
   local meta = debug.getmetatable(value)
   if meta and (meta.__tostring or classes.metatype(value)) then return tostring(value) end
   return describe(value, "", 1, {})
end

--- Prints values. Tables are printed with their fields.
function M.print(...)
   local texts = table.pack(...)
   for i = 1, texts.n do texts[i] = M.tostring(texts[i]) end
   lua_print(table.unpack(texts, 1, texts.n))
end

--- Replaces the global print by this package's print.
function M.install() rawset(_G, "print", M.print) end

return M
