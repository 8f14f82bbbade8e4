--- Defines the device on which specs run. The environment variable TLUA_SPEC_DEVICE names the device, as in
--- TLUA_SPEC_DEVICE=sim make check.

local M = {}

--- The name of the device, or nil for the CPU.
M.name = os.getenv "TLUA_SPEC_DEVICE"

--- Waits for the device. If the device has found a fault in the data of earlier calls, returns the same message as an
--- error of the CPU has, otherwise nil.
---@return string?
function M.fault()
   if not M.name then return nil end
   local torch = require "tlua"
   local ok, message = pcall(function() return torch.zeros(1, {device = M.name}):item() end)
   if ok then return nil end
   local text, line = message:match "item: (.*) %(called at (.-)%)$"
   return line and line .. ": " .. text or message
end

--- Returns a copy of a recorded value whose tensors are on the device.
---@param value any  a tensor, a table or plain data
---@return any
function M.moved(value)
   if not M.name then return value end
   if require("tlua").is_tensor(value) then return value:to(M.name) end
   if type(value) ~= "table" then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = M.moved(item) end
   return copy
end

--- Waits until the device has done all its work, so that its memory, including cached pinned memory, is free again.
function M.synchronize()
   if not M.name then return end
   local functions = require("tlua")[M.name]
   functions.synchronize()
   functions.empty_host_cache()
end

--- Returns whether the CUDA device is emulated. Tests that set the emulator's variables, or count its calls, are
--- pending on a real GPU.
---@return boolean
function M.is_emulated()
   local cuda = require("tlua").cuda
   return cuda.is_available() and cuda.get_device_name(0):find("emulated", 1, true) ~= nil
end

return M
