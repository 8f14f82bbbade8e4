-- tlua.repl: what the interactive mode shows, completes and explains. The loop
-- itself, line editing and signals are the command's (src/main/repl.c).
local complete = require "tlua.repl.complete"
local display = require "tlua.repl.display"

local M = {}

--- The text that shows the values of an expression; keeps the first as `_`.
---@param width integer columns of the terminal
---@param ... any
---@return string
function M.show(width, ...)
   rawset(_G, "_", (...))
   return display.values({width = width}, ...)
end

--- The words that the word before the cursor may become.
---@param text string
---@return string[]
function M.complete(text)
   return complete.words(text, _G)
end

--- Prints the manual's text on something.
---@param ... any a function, a name such as "nn.Linear", or nothing at all
function M.help(...)
   print(require("tlua.repl.help").text(...))
end

return M
