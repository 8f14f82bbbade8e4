-- schedule.lua - which steps of a loop are profiled.

local args = require "tlua.args"

local signature = args.signature [[profiler.schedule(wait: integer = 0, warmup: integer = 0,
   active: integer, repeat: integer = 0, skip_first: integer = 0)]]

--- Skips `skip_first` steps, then goes through cycles: `wait` steps nothing happens, `warmup` steps
--- are recorded and thrown away, `active` steps are recorded; `repeat` cycles, 0: without end. In a
--- table, `repeat` is written `["repeat"] = 2`, since it is a word of Lua's own.
---@param wait integer
---@param warmup integer
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
