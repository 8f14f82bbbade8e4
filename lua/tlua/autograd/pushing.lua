-- pushing.lua - whether a backward pass runs for its graph alone: what is linear in the gradients
-- that it begins with is then turned round, which gives J v. A Function with a `jvp` is asked for
-- that instead of its `backward`.

local scopes = require "tlua.scope"

local M = {on = false}

return setmetatable(M, {__call = function() return scopes.with_field(M, "on", true) end})
