-- xlua.lua - Torch7's package xlua: a progress bar, printing, and arguments by name.

local tlua = require "tlua"
local classes = require "tlua.torch7.classes"

local M = {}

local began, last

--- Shows a progress bar for a loop.
---@param at integer
---@param total integer
function M.progress(at, total)
   local now = tlua.io.clock()
   if at == 1 or not began then began, last = now, now end
   local width = 40
   local done = math.floor(width * at / total)
   io.write(("\r [%s%s] %d/%d  %.3fs"):format(("="):rep(done), ("."):rep(width - done), at, total,
      now - last))
   last = now
   if at >= total then
      io.write("\n")
      began = nil
   end
   io.flush()
end

function M.log(...) print(...) end

-- Returns a value as text: strings inside tables are quoted, and fields are sorted.
local function describe(value, indent)
   if type(value) ~= "table" or classes.metatype(value) then return tostring(value) end
   local keys, lines = {}, {}
   for key in pairs(value) do keys[#keys + 1] = key end
   table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
   for _, key in ipairs(keys) do
      local inner = value[key]
      inner = type(inner) == "string" and ("%q"):format(inner) or describe(inner, indent .. "  ")
      lines[#lines + 1] = ("%s  %s : %s\n"):format(indent, tostring(key), inner)
   end
   return ("{\n%s%s}"):format(table.concat(lines), indent)
end

--- Prints values with their fields.
function M.print(...)
   for i = 1, select("#", ...) do print(describe((select(i, ...)), "")) end
end

--- Returns the fields of a table, sorted, as text.
function M.tostring(value) return describe(value, "") end

--- Calls a function n times, and prints the seconds per call.
function M.profile(title, n, fn)
   local start = tlua.io.clock()
   for _ = 1, n do fn() end
   print(("%s: %g s"):format(title, (tlua.io.clock() - start) / n))
end

--- Parses arguments, which are given in order or as one table with names; fills in defaults:
---    local args, x, n = xlua.unpack({...}, "name", "text",
---       {arg = "x", type = "number", req = true}, {arg = "n", type = "number", default = 1})
function M.unpack(given, name, help, ...)
   local entries = {...}
   local by_name = #given == 1 and type(given[1]) == "table" and not classes.metatype(given[1])
      and given[1]
   if by_name then
      local known = false
      for _, entry in ipairs(entries) do known = known or by_name[entry.arg] ~= nil end
      if not known then by_name = nil end
   end
   local values, list = {}, {}
   for i, entry in ipairs(entries) do
      local value = by_name and by_name[entry.arg]
      if not by_name then value = given[i] end
      if value == nil then value = entry.default end
      if value == nil and entry.req then
         tlua.raise(("%s: expected the argument %s (%s); %s"):format(name, entry.arg, entry.type
            or "any", help))
      end
      values[entry.arg], list[i] = value, value
   end
   return values, table.unpack(list, 1, #entries)
end

--- Raises an error that shows a function's usage: (name, help, example, {arg, type, help}, ...).
function M.usage(name, help, example, ...)
   local lines = {name .. ": " .. (help or "")}
   for _, entry in ipairs {...} do
      lines[#lines + 1] = ("  %s (%s): %s"):format(entry.arg, entry.type or "any", entry.help or "")
   end
   if example then lines[#lines + 1] = example end
   return table.concat(lines, "\n")
end

function M.error(message, name) tlua.raise((name and name .. ": " or "") .. message) end
function M.require(name) return pcall(require, name) and require(name) or nil end

return M
