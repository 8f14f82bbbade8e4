-- thread.lua - the start function of the kernel's second thread. The module returns the function,
-- because torch.workers expects this.

local channels = require "tlua.notebook.channels"

return function(_, _, _, config) return channels.begin(config) end
