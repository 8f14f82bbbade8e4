-- timing.lua - torch.Timer: measures elapsed time and processor time.

local torch = require "tlua"
local classes = require "tlua.torch7.classes"

local function now() return torch.io.clock(), os.clock() end

classes.newmetatable "torch.Timer"
local Timer = classes.getconstructortable "torch.Timer"

function Timer:__init() self:reset() end

--- Resets the time to 0 and starts measuring.
function Timer:reset()
   self.elapsed = {0, 0}
   self.since = {now()}
   return self
end

local function add_up(self)
   if not self.since then return end
   local real, cpu = now()
   self.elapsed = {self.elapsed[1] + real - self.since[1], self.elapsed[2] + cpu - self.since[2]}
   self.since = {real, cpu}
end

function Timer:stop()
   add_up(self)
   self.since = nil
   return self
end

function Timer:resume()
   self.since = self.since or {now()}
   return self
end

--- Returns the seconds that passed while the timer was running.
---@return {real: number, user: number, sys: number}
function Timer:time()
   add_up(self)
   return {real = self.elapsed[1], user = self.elapsed[2], sys = 0.0}
end

return {Timer = Timer}
