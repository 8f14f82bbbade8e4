-- scope.lua - functions that change a setting for a while: as long as a function runs, or until a
-- to-be-closed variable ends.

local M = {}

--- Runs fn with the arguments behind it and calls `restore` when it ends, fails or is abandoned.
--- Without fn the result is a scope, whose end calls `restore`: local _ <close> = M.run(restore).
--- A caller changes the setting before, and only after its arguments have been checked.
---@param restore fun()
---@param fn? fun(...): any
---@param ... any
---@return any ...  fn's results, or the scope
function M.run(restore, fn, ...)
   local scope = setmetatable({}, {__close = function() restore() end})
   if fn == nil then return scope end
   local _ <close> = scope
   return fn(...)
end

return M
