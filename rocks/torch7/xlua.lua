-- xlua.lua - Torch7's package xlua: a progress bar, printing, and named arguments.

local tlua = require "tlua"
local args = require "tlua.args"
local classes = require "tlua.torch7.classes"
local trepl = require "tlua.torch7.trepl"

local M = {}

local began, last

-- Returns a number without its fraction.
local function whole(name, value)
   local integer = type(value) == "number" and value == value and math.tointeger(value // 1)
   if not integer then args.refuse("xlua.progress", name, "a finite number", value) end
   return integer
end

--- Shows a progress bar for a loop. Fractions of the two numbers are left out.
---@param at number
---@param total number
function M.progress(at, total)
   at, total = whole("at", at), whole("total", total)
   local now = tlua.io.clock()
   if at == 1 or not began then began, last = now, now end
   local width = 40
   local done = total > 0 and math.max(0, math.min(width, width * at // total)) or width
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

--- Prints values as trepl's print does: tables with their fields.
function M.print(...) trepl.print(...) end

--- Formats a table with its fields as text.
function M.tostring(value) return trepl.tostring(value) end

--- Calls a function n times, and prints the seconds per call.
function M.profile(title, n, fn)
   if type(n) ~= "number" then args.refuse("xlua.profile", "n", "a number", n) end
   local start = tlua.io.clock()
   for _ = 1, n do fn() end
   print(("%s: %g s"):format(title, (tlua.io.clock() - start) / n))
end

--- Parses arguments that are given in order or as one table with names, and fills in defaults:
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

--- Returns a text that shows a function's usage: (name, help, example, {arg, type, help}, ...).
function M.usage(name, help, example, ...)
   local lines = {name .. ": " .. (help or "")}
   for _, entry in ipairs {...} do
      lines[#lines + 1] = ("  %s (%s): %s"):format(entry.arg, entry.type or "any", entry.help or "")
   end
   if example then lines[#lines + 1] = example end
   return table.concat(lines, "\n")
end

--- Parses arguments as unpack does, and sets them as fields of an object.
function M.unpack_class(object, given, name, help, ...)
   local values = M.unpack(given, name, help, ...)
   for key, value in pairs(values) do object[key] = value end
   return values
end

local at_start = {}
for name in pairs(_G) do at_start[name] = true end

-- Returns the sorted names of the globals that a program has created.
local function own_globals()
   local names = {}
   for name in pairs(_G) do
      if not at_start[name] and not package.loaded[name] then names[#names + 1] = tostring(name) end
   end
   table.sort(names)
   return names
end

--- Prints the names of packages and of the globals that the program has created.
function M.who()
   local libraries, values = {}, {}
   for name, value in pairs(_G) do
      if package.loaded[name] == value and name ~= "_G" then libraries[#libraries + 1] = name end
   end
   table.sort(libraries)
   for _, name in ipairs(own_globals()) do values[name] = _G[name] end
   print "Global Libs:"
   trepl.print(libraries)
   print "Global Vars:"
   trepl.print(values)
end

--- Removes a global.
function M.clear(name) rawset(_G, name, nil) end

--- Removes the globals that the program has created, and collects garbage.
function M.clearall()
   for _, name in ipairs(own_globals()) do M.clear(name) end
   collectgarbage()
end

function M.error(message, name) tlua.raise((name and name .. ": " or "") .. message) end
function M.require(name) return pcall(require, name) and require(name) or nil end

for name, value in pairs(require "tlua.torch7.xlua_options") do M[name] = value end

M.lua_print = print

return M
