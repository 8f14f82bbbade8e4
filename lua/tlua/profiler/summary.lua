-- summary.lua - describes where a program waited. Advice is given only if the measurements support
-- it.

local averages = require "tlua.profiler.averages"
local text = require "tlua.profiler.text"

local M = {}

-- with fewer garbage collections than this, their share of the time is not significant
local MANY_COLLECTIONS <const> = 5
local GROWTH <const> = 1 << 20 -- growth of memory by fewer bytes is not reported

-- Sums the times that events took, without the events inside them, by classes such as waiting for
-- data, the garbage collector or operators. An event inside a wait for data or inside the garbage
-- collector belongs to the class of the outermost of these.
local function shares_of(session)
   local state, event = session:state(), {}
   local class = {}
   local sums = {data = 0, collector = 0, ranks = 0, collections = 0, asked = 0, asked_count = 0,
      operators = 0, operator_count = 0}
   local device, device_of, steps, busy = 0, {}, 0, {}
   local function add(i)
      session:event(i, event)
      local kind, name, parent, thread = event.kind, event.name, event.parent, event.thread
      local took, device_time = event.duration, event.device_time
      if thread > 0 then
         if parent == 0 then
            busy[thread] = (busy[thread] or 0) + (kind == "kernel" and device_time or took)
         end
         return
      end
      local is = parent > 0 and class[parent] or nil
      if is ~= "data" and is ~= "collector" then
         is = (kind == "data" or kind == "collector") and kind
            or (kind == "operator" or kind == "backward") and "operators"
            or kind == "user" and name:find "^distributed%." and "ranks" or "lua"
      end
      class[i] = is
      if sums[is] then sums[is] = sums[is] + took - event.inside end
      if is == "operators" and kind == "operator" then
         sums.operator_count = sums.operator_count + 1
      end
      if name == "collector: collectgarbage" then
         sums.asked, sums.asked_count = sums.asked + took, sums.asked_count + 1
      elseif kind == "collector" then
         sums.collections = sums.collections + 1
      end
      if kind == "step" then steps = steps + 1 end
      if event.device_begin >= 0 then
         device_of[i] = true
         if not device_of[parent] then device = device + device_time end
      end
   end
   for i = 1, state.events do add(i) end
   sums.lua = math.max(state.duration - sums.data - sums.collector - sums.operators - sums.ranks, 0)
   return sums, state.duration, device, steps, busy
end

local function memory_growth(session)
   local live, most = 0, 0
   for i = 1, session:state().memory_events do
      local change = session:memory(i)
      if change.category == "unknown" then live = live + change.bytes end
      if live > most then most = live end
   end
   return live, most
end

-- Returns the fraction of time in which the busiest DataLoader worker was busy, or nil if there are
-- no workers.
local function busiest_worker(threads)
   local most
   for _, thread in ipairs(threads) do
      if thread.name:find "^DataLoader" then most = math.max(most or 0, thread.share) end
   end
   return most
end

--- Returns the figures for the text: the shares of the recorded time, from 0 to 1, and advice.
---@return table  {seconds =, lua =, operators =, collector =, data =, ranks =, device =,
--- threads = {{name =, share =}, ...}, advice = {...}}
function M.figures(session)
   local sums, duration, device, steps, busy = shares_of(session)
   local whole = math.max(duration, 1)
   local f = {
      seconds = duration / 1e9, lua = sums.lua / whole, operators = sums.operators / whole,
      collector = sums.collector / whole, data = sums.data / whole, ranks = sums.ranks / whole,
      device = device / whole,
      operator_count = sums.operator_count, steps = steps, threads = {}, advice = {},
      operator_average = sums.operators / math.max(sums.operator_count, 1) / 1e3,
   }
   for i, name in ipairs(session:threads()) do
      f.threads[i] = {name = name, share = (busy[i] or 0) / whole}
   end
   table.sort(f.threads, function(a, b) return a.name < b.name end)
   local function advise(format, ...) f.advice[#f.advice + 1] = format:format(...) end
   local worker = busiest_worker(f.threads)
   if f.data > 0.2 and worker and worker < f.data / 2 then
      advise("%.0f %% of the time the program waits for data, but its workers are at work for "
         .. "%.0f %% at most: starting them takes the rest. persistent_workers = true keeps them "
         .. "from one epoch to the next.", 100 * f.data, 100 * worker)
   elseif f.data > 0.2 then
      advise("%.0f %% of the time the program waits for data: raise the DataLoader's num_workers, "
         .. "or do less for each item.", 100 * f.data)
   end
   if f.operator_count >= 1000 and f.operator_average < 10 and f.lua + f.operators > 0.5 then
      advise("%d operators take %.1f us each on average: calls cost as much as the arithmetic. "
         .. "Larger batches, fused layers or a captured graph have fewer of them.",
         f.operator_count, f.operator_average)
   end
   if sums.asked / whole > 0.05 and sums.asked_count > 1 then
      advise("the program calls collectgarbage itself, %d times, which takes %.0f %% of the time: "
         .. "leave that to the collector, which also sees to the memory of tensors.",
         sums.asked_count, 100 * sums.asked / whole)
   end
   if f.collector > 0.05 and sums.collections >= MANY_COLLECTIONS then
      local live, most = memory_growth(session)
      if most > 0 and live < GROWTH then
         advise("%.0f %% of the time goes to the collector, and nothing keeps growing: it is for "
            .. "tensors and tables that are made and dropped again. Fewer of them, by operators in "
            .. "place, fused layers or a captured graph, cost less.", 100 * f.collector)
      else
         advise("%.0f %% of the time goes to the collector%s: look for what keeps growing, such as "
            .. "a list of losses that were not turned into numbers by item().", 100 * f.collector,
            most > 0 and (", with %s more alive at the end than at the beginning"):format(
               text.bytes(live)) or "")
      end
   end
   if f.device > 0 and f.device < 0.5 then
      advise("the device works %.0f %% of the time: it waits for the host, whose operators and Lua "
         .. "code are what to look at.", 100 * f.device)
   end
   return f
end

--- Returns the figures and the advice as text.
---@return string
function M.text(session)
   local f = M.figures(session)
   local lines = {("%.3f s were recorded%s. What the program did in that time:"):format(
      f.seconds, f.steps > 1 and (", %d steps"):format(f.steps) or "")}
   local function line(share, what)
      lines[#lines + 1] = ("  %5.1f %%  %s"):format(100 * share, what)
   end
   line(f.operators, ("operators, forward and backward (%d calls)"):format(f.operator_count))
   line(f.lua, "Lua between them")
   line(f.data, "waiting for data")
   if f.ranks > 0 then line(f.ranks, "calls of process groups, and waiting for other ranks") end
   line(f.collector, "the garbage collector")
   if f.device > 0 then line(f.device, "meanwhile, the device was at work") end
   for _, thread in ipairs(f.threads) do
      line(thread.share, ("meanwhile, the %s was at work"):format(thread.name))
   end
   local modules = averages.by_module(session)
   table.sort(modules, function(x, y)
      local tx, ty = x.self_cpu_time_total + x.backward_time_total,
         y.self_cpu_time_total + y.backward_time_total
      if tx ~= ty then return tx > ty end
      return x.key < y.key
   end)
   if #modules > 0 then
      lines[#lines + 1] = "The most expensive modules, forward + backward:"
   end
   for i = 1, math.min(3, #modules) do
      local row = modules[i]
      lines[#lines + 1] = ("  %s + %s  %s"):format(text.time(row.self_cpu_time_total),
         text.time(row.backward_time_total), row.key)
   end
   for _, advice in ipairs(f.advice) do lines[#lines + 1] = "=> " .. advice end
   local dropped = session:state().dropped
   if dropped > 0 then
      lines[#lines + 1] = ("%d events are missing: there was no memory for them."):format(dropped)
   end
   return table.concat(lines, "\n") .. "\n"
end

return M
