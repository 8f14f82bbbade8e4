-- random.lua - saves the states of the random generators before torch.export or torch.compile calls
-- a function, so that more calls draw the same numbers, and the script continues with the numbers
-- that it would have drawn without them.

local torch = require "tlua"

local function same(a, b) return a[1] == b[1] and a[2] == b[2] end

--- Returns a function that restores the states that the default generators have now. A device
--- without a generator of its own continues to draw from the CPU's.
---@return function
return function()
   local cpu, devices = torch.get_rng_state(), {}
   for _, kind in ipairs {"cuda", "sim"} do
      local module = torch[kind]
      for i, state in ipairs(module.is_initialized() and module.get_rng_state_all() or {}) do
         if not same(state, cpu) then
            devices[#devices + 1] = {module, state, ("%s:%d"):format(kind, i - 1)}
         end
      end
   end
   return function()
      torch.set_rng_state(cpu)
      for _, entry in ipairs(devices) do entry[1].set_rng_state(entry[2], entry[3]) end
   end
end
