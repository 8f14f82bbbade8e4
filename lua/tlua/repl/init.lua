-- init.lua - tlua.repl: the parts of the interactive mode that display, complete and explain. The
-- loop itself, line editing and signals are in the command (src/main/repl.c).
local scopes = require "tlua.scope"
local chunks = require "tlua.repl.chunk"
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

--- Compiles a text that was typed; see chunk.lua.
---@param text string
---@return function|string chunk
---@return string? kind
---@return boolean more
function M.compile(text)
   return chunks.compile(text)
end

--- Returns the completions of the word before the cursor.
---@param text string
---@param before? string  the line before that word
---@return string[]
function M.complete(text, before)
   return complete.words(text, _G, before)
end

--- Returns the message of an error in a chunk. If the chunk has called a function that does not
--- exist, the message suggests a similar name.
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

-- the library's modes, and whether a profile was running, before the line that is running now
local modes, profiling

--- Saves the library's modes before a line runs.
function M.begin_line()
   local torch = require "tlua"
   modes, profiling = torch._modes(), torch._profiling()
   scopes.begin_line()
end

--- Ends a line after it has run. If Ctrl-C has interrupted the line, a scope may not have been
--- closed, so all modes are restored to their values before the line.
---@param interrupted boolean
function M.end_line(interrupted)
   local torch = require "tlua"
   scopes.end_line(interrupted)
   if interrupted then torch._set_modes(modes) end
   -- An interrupted line may have left a profile running. The garbage collector ends it if nothing
   -- refers to it any more.
   if interrupted and torch._profiling() and not profiling then collectgarbage() end
   modes = nil
end

--- Prints the manual's text on something.
---@param ... any a function, a name such as "nn.Linear", or nothing at all
function M.help(...)
   print(require("tlua.repl.help").text(...))
end

return M
