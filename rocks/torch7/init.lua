-- init.lua - tlua.torch7: Torch7's layers and calls, for programs that come from there. The layers
-- are fields of torch.nn (nn.View, nn.ConcatTable, ...), and modules have Torch7's methods
-- (getParameters, findModules, ...), where this package is installed.

require "tlua" -- makes the modules of the core known to `require`
local lazy = require "tlua.lazy"

return lazy.load({}, {mode = "tlua.torch7.mode"})
