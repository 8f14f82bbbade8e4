-- settings.lua - PyTorch's older names for the settings of torch.autocast, each for one kind of
-- device.

local torch = require "tlua"

local M = {}

--- torch.get_autocast_dtype "cpu"
---@return string
function M.get_autocast_cpu_dtype() return torch.get_autocast_dtype "cpu" end

--- torch.get_autocast_dtype "cuda"
---@return string
function M.get_autocast_gpu_dtype() return torch.get_autocast_dtype "cuda" end

--- torch.set_autocast_dtype("cpu", dtype)
---@param dtype "bfloat16"|"float16"
function M.set_autocast_cpu_dtype(dtype) torch.set_autocast_dtype("cpu", dtype) end

--- torch.set_autocast_dtype("cuda", dtype)
---@param dtype "bfloat16"|"float16"
function M.set_autocast_gpu_dtype(dtype) torch.set_autocast_dtype("cuda", dtype) end

--- torch.is_autocast_enabled "cpu"
---@return boolean
function M.is_autocast_cpu_enabled() return torch.is_autocast_enabled "cpu" end

--- torch.set_autocast_enabled("cpu", enabled)
---@param enabled boolean
function M.set_autocast_cpu_enabled(enabled) torch.set_autocast_enabled("cpu", enabled) end

return M
