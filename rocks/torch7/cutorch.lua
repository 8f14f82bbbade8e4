-- cutorch.lua - Torch7's package cutorch on tlua's devices: a GPU or the simulated device.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"

local M = {}

local function kind() return types.cuda_device() end
local function module() return tlua[kind()] end

function M.getDeviceCount() return module().device_count() end
function M.getDevice() return module().current_device() + 1 end
function M.setDevice(i) module().set_device(i - 1) end
function M.synchronize() module().synchronize() end
M.synchronizeAll = M.synchronize
function M.streamSynchronize() module().synchronize() end

--- Calls fn with device i, counted from 1, as the current device.
function M.withDevice(i, fn)
   local old = M.getDevice()
   M.setDevice(i)
   local results = table.pack(pcall(fn))
   M.setDevice(old)
   if not results[1] then error(results[2], 0) end
   return table.unpack(results, 2, results.n)
end

function M.manualSeed(seed) torch.manualSeed(seed) end
M.manualSeedAll = M.manualSeed
function M.seed() return torch.seed() end
M.seedAll = M.seed
function M.initialSeed() return torch.initialSeed() end

-- Returns the free and the total memory of the device in bytes.
function M.getMemoryUsage() return module().mem_get_info() end

M.hasHalf, M.hasFastHalf = true, true
M.isCachingAllocatorEnabled = function() return true end
M.createCudaTensor = function(...) return torch.CudaTensor(...) end

return M
