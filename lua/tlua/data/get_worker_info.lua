-- get_worker_info.lua - what a dataset may ask while a worker of a DataLoader reads it.

local M = {}

--- Of a worker's interpreter: {id, num_workers, seed, dataset}, the id from 0 as ranks are; nil in
--- the program's own.
---@return {id: integer, num_workers: integer, seed: integer, dataset: any}?
function M.get_worker_info()
   return M.info
end

return M
