-- pushforward.lua - a mode for forward-mode derivatives. In this mode a backward pass is recorded
-- for one purpose: to be differentiated with respect to its incoming gradients u. The results J^T u
-- of the pass are linear functions of u, and their derivative with respect to u gives J v. A
-- Function then calls its method `jvp`, if it has one, instead of `backward`.

local scopes = require "tlua.scope"

local M = {on = false}

return setmetatable(M, {__call = function() return scopes.with_field(M, "on", true) end})
