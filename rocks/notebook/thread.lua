-- thread.lua - what the kernel's second thread runs; the module is a function, as torch.workers
-- wants it.

local channels = require "tlua.notebook.channels"

return function(_, _, _, config) return channels.begin(config) end
