-- thread.lua - the start function of the kernel's second thread. The module returns a function, as
-- torch.workers expects.

local channels = require "tlua.notebook.channels"

return function(_, _, _, config) return channels.begin(config) end
