-- input.lua - replaces io.read, io.lines and os.exit in a notebook. The user types input into a
-- field of the notebook, and os.exit must not end the process before the outputs of the cell are
-- published.

local M = {}

local rest = "" -- the part of the last line that has not been read yet

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

--- Replaces io.read and io.lines by functions that call `ask` for each line, and os.exit by a
--- function that raises an error. Returns a function that restores the originals.
---@param ask? fun(prompt: string?): string
---@return fun() restore
function M.open(ask)
   local function more()
      if not ask then error("io.read: this notebook runs without a user", 0) end
      return ask() .. "\n"
   end
   -- These are the `io` and `os` of the user's code. tlua's own code has its own copies of them.
   local library, system = rawget(_G, "io") or {}, rawget(_G, "os") or {}
   local read, lines, exit = library.read, library.lines, system.exit
   system.exit = function(code)
      error(("os.exit(%s): a cell cannot end the process of a notebook"):format(
         code == nil and "" or tostring(code)), 2)
   end
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
   return function() library.read, library.lines, system.exit = read, lines, exit end
end

return M
