--- The device on which specs run: that of TLUA_SPEC_DEVICE, as in TLUA_SPEC_DEVICE=sim make check.

local M = {}

--- The device's name; nil for the CPU.
M.name = os.getenv "TLUA_SPEC_DEVICE"

--- Waits for the device, and returns the fault that it has found in the data of earlier calls,
--- worded like the CPU's error, or nil.
---@return string?
function M.fault()
   if not M.name then return nil end
   local torch = require "tlua"
   local ok, message = pcall(function() return torch.zeros(1, {device = M.name}):item() end)
   if ok then return nil end
   local text, line = message:match "item: (.*) %(called at (.-)%)$"
   return line and line .. ": " .. text or message
end

--- Waits for all work of the device; then its memory is free again, and so is cached pinned memory.
function M.synchronize()
   if not M.name then return end
   local functions = require("tlua")[M.name]
   functions.synchronize()
   functions.empty_host_cache()
end

--- Returns whether CUDA's device is the emulated one: tests that set the emulator's variables, or count
--- its calls, are pending on a GPU.
---@return boolean
function M.is_emulated()
   local cuda = require("tlua").cuda
   return cuda.is_available() and cuda.get_device_name(0):find("emulated", 1, true) ~= nil
end

return M
