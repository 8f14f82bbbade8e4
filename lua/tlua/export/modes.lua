-- modes.lua - compares the modes of the running thread, such as grad mode and autocast, with the
-- modes in which a training step was exported.

local torch = require "tlua"

local M = {}

-- The names of the bytes of torch._mode_bytes() (add_modes in src/lua/guards.c). For each device
-- type two more bytes follow: the dtype of autocast, or 0 while autocast is off; the dtype that was
-- chosen for autocast.
local SWITCHES <const> = {
   "grad mode", "inference mode", "anomaly detection", "packing of saved tensors by hooks",
   "a level of forward-mode derivatives", "vmap", "portable arithmetic",
}
local SETTINGS <const> = {"the default dtype", "the default device", "the default device"}

-- Returns how a byte of the modes has changed.
local function describe(i, before, devices)
   local setting = i - #SWITCHES
   local cast = setting - #SETTINGS
   local name = SWITCHES[i] or cast > 0 and cast <= devices and "autocast"
   if name and (before == 0 or SWITCHES[i] or torch._mode_bytes():byte(i) == 0) then
      return ("expected %s to be %s, as in the export"):format(name, before == 0 and "off" or "on")
   end
   return (SETTINGS[setting] or "the dtype of autocast") .. " has changed since the export"
end

--- Returns a text that says how the present modes differ from `before`, an earlier result of
--- torch._mode_bytes(). Returns nil if they do not differ.
---@param before string
---@return string?
function M.difference(before)
   local now = torch._mode_bytes()
   if now == before then return nil end
   for i = 1, #now do
      if now:byte(i) ~= before:byte(i) then
         return describe(i, before:byte(i), (#now - #SWITCHES - #SETTINGS) // 2)
      end
   end
end

return M
