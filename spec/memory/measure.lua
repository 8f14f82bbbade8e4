-- measure.lua - measures a program's peak of resident memory, for the scripts in this folder. A script fails if it
-- needs more memory than its limit. If the system does not report memory, as in some sandboxes, the scripts run without
-- a check. pacer_spec.lua runs the scripts with `tlua` and with plain `lua5.4`, and spec/embed/memory.c runs them in a
-- host's own Lua state.

local measure = {}

local function status(field)
   local file <close> = io.open("/proc/self/status")
   for line in file and file:lines() or function() end do
      local kb = line:match("^" .. field .. ":%s*(%d+) kB")
      if kb then return tonumber(kb) / 1024 end
   end
end

--- Calls fn. Fails if the largest resident size grows by more than `most` MB during the call.
---@param most number
---@param fn fun()
function measure.grows_at_most(most, fn)
   local before = status("VmHWM")
   fn()
   local growth = before and status("VmHWM") - before
   if growth and growth > most then
      error(("resident memory grew by %.1f MB, which may be %d at most"):format(growth, most), 2)
   end
end

return measure
