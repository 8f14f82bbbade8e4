-- cpu.lua - torch.cpu: the functions of torch.cuda for the CPU, for programs written for any kind
-- of device.

local args = require "tlua.args"
local checked = require "tlua.checked"

local M = {}

--- Returns true: there is a CPU.
---@return boolean
function M.is_available() return true end

--- Returns 1, the number of CPU devices.
---@return integer
function M.device_count() return 1 end

--- Returns "cpu", the only device of this kind.
---@return string
function M.current_device() return "cpu" end

--- Has no effect, since there is only one CPU device.
---@param device? string|torch.device  "cpu"
function M.set_device(device)
   if device and tostring(device):match "^[^:]*" ~= "cpu" then
      args.refuse("cpu.set_device", "device", '"cpu"', tostring(device))
   end
end

--- Does nothing, because operators on the CPU are complete when they return.
function M.synchronize() end

--- Returns true: the CPU is always ready.
---@return boolean
function M.is_initialized() return true end

checked.functions(M, "cpu.", "set_device(device: device?)")
checked.queries(M, "cpu.", [[is_available device_count current_device is_initialized
   synchronize]])

return M
