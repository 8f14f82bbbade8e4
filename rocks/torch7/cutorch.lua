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
function M.getRNGState() return torch.getRNGState() end
function M.setRNGState(state) return torch.setRNGState(state) end

--- Returns the properties of device i, counted from 1, with CUDA's names.
function M.getDeviceProperties(i)
   local properties = module().get_device_properties(i - 1)
   local free, total = module().mem_get_info(i - 1)
   return {name = properties.name, totalGlobalMem = total, freeGlobalMem = free,
      major = properties.major, minor = properties.minor,
      multiProcessorCount = properties.multi_processor_count}
end

-- The list `streams` has the streams that the program has reserved, numbered from 1. Stream 0 is
-- the default stream.
local streams, current = {}, 0

--- Creates user streams until there are n on the current device.
function M.reserveStreams(n)
   for i = #streams + 1, n do streams[i] = module().Stream() end
end
function M.getNumStreams() return #streams end
local function stream(i) return i == 0 and module().default_stream() or streams[i] end
local function checked_stream(name, i)
   local found = stream(i)
   if not found then
      tlua.raise(("cutorch.%s: expected a stream from 0 to %d, got %s"):format(name, #streams,
         tostring(i)))
   end
   return found
end
function M.setStream(i)
   module().set_stream(checked_stream("setStream", i))
   current = i
end
function M.getStream() return current end
function M.setDefaultStream() M.setStream(0) end
function M.streamSynchronize(i) checked_stream("streamSynchronize", i or 0):synchronize() end

-- Waits until the whole device is idle. Programs call the functions below to make one stream wait
-- for another; a wait for all streams serves the same purpose.
local function wait() module().synchronize() end
for name in ([[streamWaitFor streamWaitForMultiDevice streamBarrier streamBarrierMultiDevice]])
   :gmatch "%S+" do
   M[name] = wait
end

function M.getPeerToPeerAccess(device, other) return device == other end
function M.setPeerToPeerAccess() end
function M.getKernelPeerToPeerAccess() return false end
function M.setKernelPeerToPeerAccess() end

--- Returns the package's state, which has no fields here.
function M.getState() return {} end
function M.setHeapTracking() end

-- Returns the free and the total memory of device i, by default the current device, in bytes.
function M.getMemoryUsage(i) return module().mem_get_info(i and i - 1) end

M.hasHalf, M.hasFastHalf = true, true
function M.hasHalfInstructions() return true end
function M.hasFastHalfInstructions() return true end

-- Adds the method getDevice to tensors, which returns the number of their device, counted from 1.
for _, one in ipairs(types.list) do
   if one.cuda then
      rawset(one.tensor, "getDevice", function(self)
         return (types.field(self, "device").index or 0) + 1
      end)
   end
end
M.isCachingAllocatorEnabled = function() return true end
M.createCudaTensor = function(...) return torch.CudaTensor(...) end

return M
