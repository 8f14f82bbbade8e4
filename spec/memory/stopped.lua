-- Checks that if the program has stopped the collector, it stays stopped, even if the program allocates much memory.

local torch = require "tlua"

collectgarbage("stop")
local before = torch.memory_stats().live
for _ = 1, 2000 do torch.ones(128, 128) end
local piled = torch.memory_stats().live - before
assert(piled == 2000 * 128 * 128 * 4, piled)
assert(not collectgarbage("isrunning"))

collectgarbage("restart")
collectgarbage()
assert(torch.memory_stats().live <= before)
