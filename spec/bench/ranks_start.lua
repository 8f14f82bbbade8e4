-- ranks_start.lua - the program that each rank runs for the last row of ranks.lua, which measures how long starting
-- ranks takes.
local dist = require("tlua").distributed
dist.init_process_group()
dist.barrier()
