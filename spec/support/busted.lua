-- Implements busted's command line, for the interpreter under test: the command `busted` would run this machine's `lua`
-- instead.

-- busted uses lua-term to find out whether its output is a terminal. Debian installs lua-term's C module for only one
-- processor at a time, so the module would be missing in an emulated program.
if os.getenv "SPEC_EMULATED" then
   package.preload.term = function() return {isatty = function() return false end} end
end

-- In a spec, busted searches each global name in all blocks around the running test, at every access. Lua's own
-- names, which nobody assigns, are put into the specs' environment, so that `pairs` costs what it costs in a program.
-- `assert` is busted's own.
local names <const> = {
   "coroutine", "debug", "getmetatable", "io", "ipairs", "load", "math", "next", "os", "pairs",
   "pcall", "print", "rawequal", "rawget", "rawlen", "rawset", "require", "select", "setmetatable", "string", "table",
   "tonumber", "tostring", "type", "utf8", "xpcall",
}

-- Returns the environment of a function; nil if it uses no globals.
local function environment_in(fn)
   local i = 0
   repeat
      i = i + 1
      local name, value = debug.getupvalue(fn, i)
      if name == "_ENV" then return value end
   until name == nil
end

local environment_of = require "busted.environment"
package.loaded["busted.environment"] = function(context)
   local environment = environment_of(context)
   local wrap = environment.wrap
   function environment.wrap(fn)
      wrap(fn)
      local env = environment_in(fn)
      if env and rawget(env, "pairs") == nil then
         for _, name in ipairs(names) do rawset(env, name, _G[name]) end
      end
      return fn
   end
   return environment
end

require "busted.runner"({standalone = false})
