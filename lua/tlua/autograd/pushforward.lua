-- pushforward.lua - a mode for forward-mode derivatives. In this mode a backward pass is recorded
-- only to be differentiated with respect to its incoming gradients, in which it is linear: the
-- derivative of J^T u with respect to u gives J v. A Function with a method `jvp` then calls it
-- instead of `backward`.

local scopes = require "tlua.scope"

local M = {on = false}

return setmetatable(M, {__call = function() return scopes.with_field(M, "on", true) end})
