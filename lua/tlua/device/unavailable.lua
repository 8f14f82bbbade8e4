-- unavailable.lua - torch.mps and torch.xpu: the modules of devices that tlua does not support.
-- They report that there is no such device, so a program that looks for the best device tries the
-- next one.

local M = {}

local function no() return false end
local function none() return 0 end
local function nothing() end

local function unavailable()
   return {
      is_available = no, is_built = no, is_initialized = no, device_count = none,
      empty_cache = nothing, manual_seed = nothing, manual_seed_all = nothing,
   }
end

--- Apple's GPUs: is_available() is false.
M.mps = unavailable()
--- Intel's GPUs: is_available() is false.
M.xpu = unavailable()

return M
