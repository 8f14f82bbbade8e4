-- unavailable.lua - torch.mps and torch.xpu: the modules of devices that tlua does not support.
-- They report that there is no such device, so a program that looks for the best device tries the
-- next one.

local checked = require "tlua.checked"

local M = {}

--- Returns false: tlua does not support this kind of device.
---@names mps.is_available mps.is_built mps.is_initialized
---@names xpu.is_available xpu.is_built xpu.is_initialized
---@return boolean
local function no() return false end

--- Returns 0: tlua does not support this kind of device.
---@names mps.device_count xpu.device_count
---@return integer
local function none() return 0 end

--- Does nothing: tlua does not support this kind of device.
---@names mps.empty_cache mps.manual_seed mps.manual_seed_all
---@names xpu.empty_cache xpu.manual_seed xpu.manual_seed_all
---@param ... any
local function nothing() end

local function unavailable(prefix)
   local module = {
      is_available = no, is_built = no, is_initialized = no, device_count = none,
      empty_cache = nothing, manual_seed = nothing, manual_seed_all = nothing,
   }
   checked.queries(module, prefix, "is_available is_built is_initialized device_count empty_cache")
   return module
end

--- The module of Apple's GPUs, which tlua does not support: is_available() is false.
M.mps = unavailable "mps."
--- The module of Intel's GPUs, which tlua does not support: is_available() is false.
M.xpu = unavailable "xpu."

return M
