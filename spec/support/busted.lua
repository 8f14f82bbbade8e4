-- Implements busted's command line, for the interpreter under test: the command `busted` would run this machine's `lua`
-- instead.

-- busted uses lua-term to find out whether its output is a terminal. Debian installs lua-term's C module for only one
-- processor at a time, so the module would be missing in an emulated program.
if os.getenv "SPEC_EMULATED" then
   package.preload.term = function() return {isatty = function() return false end} end
end

require "busted.runner"({standalone = false})
