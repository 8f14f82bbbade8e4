-- ranks_start.lua - the program that each rank runs for the last row of ranks.lua.
local dist = require("tlua").distributed
dist.init_process_group()
dist.barrier()
