-- input.lua - io.read and io.lines in a notebook, whose user types into a field.

local M = {}

local rest = "" -- the unread part of the last line

-- Reads one value in a format of io.read. Returns nil if the format is "n" and no number follows.
local function take(format, more)
   if math.type(format) == "integer" then
      if rest == "" then rest = more() end
      local text = rest:sub(1, format)
      rest = rest:sub(format + 1)
      return text
   end
   local letter = type(format) == "string" and format:match "^%*?(.)"
   if letter ~= "l" and letter ~= "L" and letter ~= "n" and letter ~= "a" then
      error("bad argument to 'read' (invalid format)", 3)
   end
   if rest == "" then rest = more() end
   if letter == "a" then
      local text = rest
      rest = ""
      return text
   end
   if letter == "n" then
      local text, stop = rest:match "^%s*([%w.+-]+)()"
      local number = text and tonumber(text)
      if number then rest = rest:sub(stop) end
      if number and rest == "\n" then rest = "" end
      return number
   end
   local line, stop = rest:match "^(.-)\n()"
   rest = rest:sub(stop)
   return letter == "L" and line .. "\n" or line
end

--- Replaces io.read and io.lines by functions that call `ask` for each line.
---@param ask? fun(prompt: string?): string
function M.open(ask)
   local function more()
      if not ask then error("io.read: this notebook runs without a user", 0) end
      return ask() .. "\n"
   end
   local library = _G.io -- the io table of the user's code; tlua's own code has another one
   local lines = library.lines
   library.read = function(...)
      local formats, results = table.pack(...), {}
      if formats.n == 0 then formats = {"l", n = 1} end
      for i = 1, formats.n do results[i] = take(formats[i], more) end
      return table.unpack(results, 1, formats.n)
   end
   library.lines = function(...)
      if ... ~= nil then return lines(...) end
      return function() return library.read "l" end
   end
end

return M
