-- closing.lua - to-be-closed values of the library's own scopes, of what no mode of the C side
-- keeps. A debug hook that raises, as Ctrl-C does in the interactive mode, may strike at the call
-- of `__close`, which then does not run. So while a line of that mode runs, open scopes are noted,
-- and those that are still open after it was interrupted are closed then.

local open -- the scopes of a line that runs, in order; nil: none runs

local Scope = {}

function Scope.__close(self, fault)
   self.close(fault)
   self.done = true
end

local M = {}

--- Begins to note scopes.
function M.begin()
   open = {}
end

--- Forgets what was noted.
---@param close boolean  scopes that were not closed are, the newest first
function M.finish(close)
   local list = open or {}
   open = nil
   for i = close and #list or 0, 1, -1 do
      if not list[i].done then pcall(Scope.__close, list[i]) end
   end
end

--- A value for `local _ <close>`. It must be made before what it undoes is begun, and `close` must
--- bear to be called when that is half done, or a second time after it was interrupted.
---@param close fun(fault: any)
---@return table scope
return setmetatable(M, {__call = function(_, close)
   local scope = setmetatable({close = close, done = false}, Scope)
   if open then open[#open + 1] = scope end
   return scope
end})
