-- busted's command line, which the interpreter under test runs: the `busted` command would run this
-- machine's `lua`.

-- busted uses lua-term to find out whether it writes to a terminal. Debian has lua-term's C module
-- for one processor at a time, so an emulated program would lack the module.
if os.getenv "SPEC_EMULATED" then
   package.preload.term = function() return {isatty = function() return false end} end
end

require "busted.runner"({standalone = false})
