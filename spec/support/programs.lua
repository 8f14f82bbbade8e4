-- programs.lua - helpers for specs of programs.

local torch = require "tlua"

local M = {}

--- Returns a program after it was saved to a file and loaded.
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
