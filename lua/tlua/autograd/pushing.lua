-- pushing.lua - whether a backward pass runs for its graph alone: what is linear in the gradients
-- that it begins with is then turned round, which gives J v. A Function with a `jvp` is asked for
-- that instead of its `backward`.

local closing = require "tlua.closing"

local M = {on = false}

return setmetatable(M, {__call = function()
   local before = M.on
   local scope = closing(function() M.on = before end)
   M.on = true
   return scope
end})
