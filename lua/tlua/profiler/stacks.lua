-- stacks.lua - writes the time spent in each stack, in the format of Brendan Gregg's flame graphs:
-- "outer;inner 123".

local torch = require "tlua"
local averages = require "tlua.profiler.averages"
local text = require "tlua.profiler.text"

local M = {}

local metrics = {self_cpu_time_total = true, self_device_time_total = true}

--- Returns a table from stacks to the microseconds spent in them. A stack consists of Lua lines,
--- outermost first, and the operator. In another thread's stacks, the thread's name comes first.
---@return table<string, number>
function M.sums(session, metric)
   local sums, heads, threads = {}, {}, session:threads()
   local event = {}
   for i = 1, session:state().events do
      session:event(i, event)
      local name, stack, thread = event.name, event.stack, event.thread
      if stack >= 0 then
         local head = heads[stack]
         if not head then
            local lines = averages.lines_of(session:text(stack), math.maxinteger)
            local outer_first = {}
            for k = #lines, 1, -1 do
               outer_first[#outer_first + 1] = lines[k]:gsub("[; ]+", " ")
            end
            head = table.concat(outer_first, ";")
            heads[stack] = head
         end
         local key = head == "" and name or head .. ";" .. name
         if thread > 0 then key = threads[thread] .. ";" .. key end
         local took = event.duration - event.inside
         if metric == "self_device_time_total" then
            took = event.device_begin >= 0 and event.device_time or 0
         end
         sums[key] = (sums[key] or 0) + took / 1e3
      end
   end
   return sums
end

---@param session any
---@param path string
---@param metric? string
---@param recorded boolean  whether there are stacks
function M.write(session, path, metric, recorded)
   metric = metric or "self_cpu_time_total"
   if not metrics[metric] then
      torch.raise(("export_stacks: metric: expected \"self_cpu_time_total\" or "
         .. "\"self_device_time_total\", got %s"):format(tostring(metric)))
   end
   if not recorded then
      torch.raise "export_stacks: no stacks were recorded; pass with_stack = true"
   end
   local sums, keys = M.sums(session, metric), {}
   for key, sum in pairs(sums) do
      if sum >= 1 then keys[#keys + 1] = key end
   end
   table.sort(keys)
   text.write_file("export_stacks", path, function(put)
      for _, key in ipairs(keys) do put(("%s %d\n"):format(key, math.floor(sums[key]))) end
   end)
end

return M
