-- others.lua - what PyTorch has for devices that tlua has not got: torch.mps and torch.xpu say that
-- there is none, so that a program that looks for the best device goes on.

local M = {}

local function no() return false end
local function none() return 0 end
local function nothing() end

local function absent()
   return {
      is_available = no, is_built = no, is_initialized = no, device_count = none,
      empty_cache = nothing, manual_seed = nothing, manual_seed_all = nothing,
   }
end

--- Apple's GPUs: is_available() is false.
M.mps = absent()
--- Intel's GPUs: is_available() is false.
M.xpu = absent()

return M
