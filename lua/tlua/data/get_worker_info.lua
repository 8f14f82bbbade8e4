-- get_worker_info.lua - tells a dataset which DataLoader worker is reading it.

local checked = require "tlua.checked"

local M = {}

--- Describes the worker whose interpreter calls this function: {id, num_workers, seed, dataset}.
--- The id counts from 0, as ranks do. Returns nil in the program's own interpreter.
---@return {id: integer, num_workers: integer, seed: integer, dataset: any}?
function M.get_worker_info()
   return M.info
end

checked.queries(M, "data.", "get_worker_info")

return M
