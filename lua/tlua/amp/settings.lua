-- settings.lua - PyTorch's older names for the settings of torch.autocast, each for one kind of
-- device.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"

local M = {}

local function check_dtype(name, dtype)
   if dtype == "bfloat16" or dtype == "float16" then return dtype end
   args.refuse(name, "dtype", '"bfloat16" or "float16"', dtype)
end

--- Returns autocast's dtype for the CPU: torch.get_autocast_dtype "cpu".
---@return string
function M.get_autocast_cpu_dtype() return torch.get_autocast_dtype "cpu" end

--- Returns autocast's dtype for GPUs: torch.get_autocast_dtype "cuda".
---@return string
function M.get_autocast_gpu_dtype() return torch.get_autocast_dtype "cuda" end

--- Sets autocast's dtype for the CPU: torch.set_autocast_dtype("cpu", dtype).
---@param dtype "bfloat16"|"float16"
function M.set_autocast_cpu_dtype(dtype)
   torch.set_autocast_dtype("cpu", check_dtype("set_autocast_cpu_dtype", dtype))
end

--- Sets autocast's dtype for GPUs: torch.set_autocast_dtype("cuda", dtype).
---@param dtype "bfloat16"|"float16"
function M.set_autocast_gpu_dtype(dtype)
   torch.set_autocast_dtype("cuda", check_dtype("set_autocast_gpu_dtype", dtype))
end

--- Returns whether autocast is on for the CPU: torch.is_autocast_enabled "cpu".
---@return boolean
function M.is_autocast_cpu_enabled() return torch.is_autocast_enabled "cpu" end

--- Turns autocast on or off for the CPU: torch.set_autocast_enabled("cpu", enabled).
---@param enabled boolean
function M.set_autocast_cpu_enabled(enabled)
   if type(enabled) ~= "boolean" then
      args.refuse("set_autocast_cpu_enabled", "enabled", "true or false", enabled)
   end
   torch.set_autocast_enabled("cpu", enabled)
end

checked.functions(M, "", [[set_autocast_cpu_enabled(enabled: any?)
   set_autocast_cpu_dtype(dtype: any?) set_autocast_gpu_dtype(dtype: any?)]])
checked.queries(M, "", "get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cpu_enabled")

return M
