-- busted's command line, to be run by the interpreter under test: the `busted`
-- command itself starts whatever is called `lua` on this machine.
require "busted.runner"({standalone = false})
