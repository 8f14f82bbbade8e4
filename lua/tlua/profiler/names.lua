-- names.lua - constants of PyTorch's profiler, which are strings in tlua.

local torch = require "tlua"
local checked = require "tlua.checked"

local M = {}

--- The values of torch.profiler.profile's option `activities`, which selects the devices to
--- measure.
---@names profiler.ProfilerActivity
---@enum profiler.ProfilerActivity
M.ProfilerActivity = {CPU = "cpu", CUDA = "cuda", SIM = "sim"}

--- The values that torch.profiler.schedule's function returns for a step of the loop.
---@names profiler.ProfilerAction
---@enum profiler.ProfilerAction
M.ProfilerAction = {
   NONE = "none", WARMUP = "warmup", RECORD = "record", RECORD_AND_SAVE = "record_and_save",
}

--- Returns the activities that can be measured on this machine.
---@return string[]
function M.supported_activities()
   local list = {"cpu"}
   for _, kind in ipairs {"cuda", "sim"} do
      if torch[kind].is_available() then list[#list + 1] = kind end
   end
   return list
end

--- Returns whether the profiler can be used: always true.
---@return boolean
function M.kineto_available() return true end

checked.queries(M, "profiler.", "supported_activities kineto_available")

return M
