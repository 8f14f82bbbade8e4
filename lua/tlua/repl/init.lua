-- tlua.repl: what the interactive mode shows, completes and explains. The loop
-- itself, line editing and signals are the command's (src/main/repl.c).
local scopes = require "tlua.scope"
local complete = require "tlua.repl.complete"
local display = require "tlua.repl.display"

local M = {}

--- Returns the text that shows the values of an expression; keeps the first as `_`.
---@param width integer columns of the terminal
---@param ... any
---@return string
function M.show(width, ...)
   rawset(_G, "_", (...))
   return display.values({width = width}, ...)
end

--- Returns the completions of the word before the cursor.
---@param text string
---@param before? string  the line before that word
---@return string[]
function M.complete(text, before)
   return complete.words(text, _G, before)
end

--- The message of an error in a chunk; where a function was called that does not exist, with the
--- name that was probably meant.
---@param message string
---@param chunk string
---@return string
function M.explain(message, chunk)
   local first, rest = message:match("^([^\n]*)(.*)$")
   local kind, name = first:match("attempt to call a nil value %((%a+) '([%a_][%w_]*)'%)$")
   if not kind then return message end
   local path = ""
   if kind ~= "global" then
      path = chunk:match("([%a_][%w_.]*)%s*[.:]%s*" .. name .. "%f[^%w_]")
   end
   local meant = path and complete.meant(path, name, _G)
   return meant and ("%s; did you mean %s?%s"):format(first, meant, rest) or message
end

local modes, profiling -- before the line that runs

--- Called before a line runs: notes what the library's modes are.
function M.begin_line()
   local torch = require "tlua"
   modes, profiling = torch._modes(), torch._profiling()
   scopes.begin_line()
end

--- Called after a line has run. Where Ctrl-C has struck, the closing of a scope may never have been
--- called; then all modes are made what they were before the line.
---@param interrupted boolean
function M.end_line(interrupted)
   local torch = require "tlua"
   scopes.end_line(interrupted)
   if interrupted then torch._set_modes(modes) end
   -- a recording that nobody has got ends with the collection
   if interrupted and torch._profiling() and not profiling then collectgarbage() end
   modes = nil
end

--- Prints the manual's text on something.
---@param ... any a function, a name such as "nn.Linear", or nothing at all
function M.help(...)
   print(require("tlua.repl.help").text(...))
end

return M
