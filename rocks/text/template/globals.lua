-- globals.lua - the functions that are available in every template.

local arguments = require "tlua.text.template.arguments"
local values = require "tlua.text.template.values"

local M = {functions = {}}

local take, integer_of, fail = arguments.take, arguments.integer, values.fail

local function define(name, call) M.functions[name] = values.new_function(name, call) end

local most_items <const> = 100000

define("range", function(self, args, named)
   local first, last, step = take("range", args, named, "start!", "stop", "step")
   local from, to, by = integer_of("range", first), integer_of("range", last, 0),
      integer_of("range", step, 1)
   if last == nil then from, to = 0, from end
   if by == 0 then fail "range() arg 3 must not be zero" end
   local count = math.max(0, (to - from + by - (by > 0 and 1 or -1)) // by)
   if count > most_items then
      fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", most_items)
   end
   self:charge(count)
   local list = {start = from, stop = to, step = by}
   for i = 1, count do list[i] = from + (i - 1) * by end
   return setmetatable(list, values.Range)
end)

-- Returns the arguments of dict(...) or namespace(...) as a dict.
local function fields_of(self, title, args, named)
   local order = self.order or {}
   local dict = values.dict()
   if #args > 1 then fail("%s expected at most 1 argument, got %d", title, #args) end
   if args[1] ~= nil then
      if values.kind(args[1]) == "dict" then
         for _, key in ipairs(args[1].keys) do values.put(dict, key, values.get(args[1], key)) end
      else
         for item in values.iterate(args[1]) do
            local pair = values.elements(item)
            if #pair ~= 2 then fail "dictionary update sequence needs pairs" end
            values.put(dict, pair[1], pair[2])
         end
      end
   end
   for _, name in ipairs(order) do
      if named[name] ~= nil then values.put(dict, name, named[name]) end
   end
   local others = {}
   for name in pairs(named) do
      if dict.values[name] == nil then others[#others + 1] = name end
   end
   table.sort(others)
   for _, name in ipairs(others) do values.put(dict, name, named[name]) end
   return dict
end

define("dict", function(self, args, named) return fields_of(self, "dict", args, named) end)

--- Raises an error if a namespace may not have a field of the given name.
---@param name any
function M.check_field(name)
   if type(name) == "string" and name:sub(1, 1) == "_" then
      fail("cannot store underscore-prefixed attributes on a namespace, but got '%s'", name)
   end
end

define("namespace", function(self, args, named)
   local fields = fields_of(self, "namespace", args, named).values
   for name in pairs(fields) do M.check_field(name) end
   return setmetatable({fields = fields}, values.Namespace)
end)

define("cycler", function(_, items, named)
   take("cycler", {}, named)
   if #items == 0 then fail "at least one item has to be provided" end
   local at = 1
   local cycler = values.new_function("cycler", function() return fail "cycler is no function" end)
   cycler.fields = setmetatable({
      next = values.new_function("next", function()
         local item = items[at]
         at = at % #items + 1
         return item
      end),
      reset = values.new_function("reset", function()
         at = 1
         return values.none
      end),
   }, {__index = function(_, name) if name == "current" then return items[at] end end})
   return cycler
end)

define("joiner", function(_, args, named)
   local separator, used = take("joiner", args, named, "sep"), false
   return values.new_function("joiner", function()
      if used then return separator or ", " end
      used = true
      return ""
   end)
end)

define("raise_exception", function(_, args, named)
   fail(values.text((take("raise_exception", args, named, "message!"))))
end)

-- The conversion characters of strftime that all C libraries support.
local conversions <const> = "[aAbBcdDeFgGhHIjmMnprRStTuUVwWxXyYzZC%%]"

define("strftime_now", function(_, args, named)
   local format = arguments.text("strftime_now", (take("strftime_now", args, named, "format!")))
   local now = os.time()
   return (format:gsub("%%(%-?)(.?)", function(flag, letter)
      if letter == "f" then fail "strftime_now: %f is not supported" end
      if not letter:find("^" .. conversions .. "$") then return nil end
      local text = os.date("%" .. letter, now)
      if flag == "-" then text = text:gsub("^0+(.)", "%1") end
      return text
   end))
end)

return M
