-- init.lua - tlua.torch7: Torch7's layers and methods, for ported programs. If this package is
-- installed, the layers are fields of torch.nn (nn.View, nn.ConcatTable, ...), and modules have
-- Torch7's methods (getParameters, findModules, ...).

require "tlua" -- This call loads the core, so that `require` finds its modules.
local lazy = require "tlua.lazy"

return lazy.load({}, {mode = "tlua.torch7.mode"})
