-- ranks_start.lua - the program of every rank in the last row of ranks.lua.
local dist = require("tlua").distributed
dist.init_process_group()
dist.barrier()
