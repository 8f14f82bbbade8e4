-- get_worker_info.lua - tells a dataset which worker of a DataLoader is reading it.

local M = {}

--- Describes the worker in whose interpreter it is called: {id, num_workers, seed, dataset}. The id
--- counts from 0, as ranks do. Returns nil in the program's own interpreter.
---@return {id: integer, num_workers: integer, seed: integer, dataset: any}?
function M.get_worker_info()
   return M.info
end

return M
