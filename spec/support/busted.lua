-- busted's command line, run by the interpreter under test: the `busted` command itself would run
-- this machine's `lua`.

-- busted uses lua-term to find out whether it writes to a terminal. Debian has that module in C for
-- one processor at a time, so an emulated program would lack it.
if os.getenv "SPEC_EMULATED" then
   package.preload.term = function()
      return {isatty = function() return false end}
   end
end

require "busted.runner"({standalone = false})
