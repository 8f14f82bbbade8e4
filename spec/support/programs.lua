-- programs.lua - helper functions for specs of exported programs.

local torch = require "tlua"

local M = {}

--- Saves a program to a file, and returns the program that is loaded from this file.
---@param program export.Program
---@return export.Program
function M.saved(program)
   local path <const> = os.tmpname()
   program:save(path)
   local loaded = torch.export.load(path)
   os.remove(path)
   return loaded
end

return M
