--- The device that specs run on: that of TLUA_SPEC_DEVICE, as in TLUA_SPEC_DEVICE=sim make check.

local M = {}

--- Its name; nil for the CPU.
M.name = os.getenv "TLUA_SPEC_DEVICE"

--- What the device has found wrong in the data of calls that it was given, as the CPU would have told
--- it, or nil. It finds it when it comes to them, and tells at the next wait, which this is.
---@return string?
function M.fault()
   if not M.name then return nil end
   local torch = require "tlua"
   local ok, message = pcall(function() return torch.zeros(1, {device = M.name}):item() end)
   if ok then return nil end
   local text, line = message:match "item: (.*) %(called at (.-)%)$"
   return line and line .. ": " .. text or message
end

--- Waits for all work given to the device; what that needed is free again, and the pinned memory
--- that is kept for other copies, too.
function M.synchronize()
   if not M.name then return end
   local functions = require("tlua")[M.name]
   functions.synchronize()
   functions.empty_host_cache()
end

return M
