-- schedule.lua - selects the steps of a loop that are profiled.

local args = require "tlua.args"

local signature = args.signature [[profiler.schedule(wait: integer = 0, warmup: integer = 0,
   active: integer, repeat: integer = 0, skip_first: integer = 0)]]

--- Skips `skip_first` steps, then repeats cycles: `wait` steps without recording, `warmup` steps
--- that are recorded and discarded, and `active` steps that are recorded. `repeat` is the number of
--- cycles, 0 for no limit. Because `repeat` is a keyword of Lua, write `["repeat"] = 2`.
---@param wait? integer
---@param warmup? integer
---@param active integer
---@param repeat? integer
---@param skip_first? integer
---@return fun(step: integer): "none"|"warmup"|"record"|"record_and_save"
return function(...)
   local a = signature(...)
   for _, name in ipairs {"wait", "warmup", "repeat", "skip_first"} do
      if a[name] < 0 then
         args.refuse("profiler.schedule", name, "an integer of at least 0", a[name])
      end
   end
   if a.active < 1 then
      args.refuse("profiler.schedule", "active", "an integer of at least 1", a.active)
   end
   local cycle = a.wait + a.warmup + a.active
   return function(step)
      step = step - a.skip_first
      if step < 0 or a["repeat"] > 0 and step // cycle >= a["repeat"] then return "none" end
      local at = step % cycle
      if at < a.wait then return "none" end
      if at < a.wait + a.warmup then return "warmup" end
      return at < cycle - 1 and "record" or "record_and_save"
   end
end
