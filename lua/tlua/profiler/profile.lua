-- profile.lua - torch.profiler.profile: records the events of a part of a program.
--
--    local prof = torch.profiler.profile({record_shapes = true}, function(prof)
--       for input, target in loader:iter() do
--          step(input, target)
--          prof:step()
--       end
--    end)
--    print(prof:key_averages():table {sort_by = "self_cpu_time_total", row_limit = 10})
--
-- Times are in microseconds since recording began.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local scopes = require "tlua.scope"
local watch = require "tlua.profiler.watch"

local signature = args.signature [[profiler.profile(record_shapes: boolean = false,
   profile_memory: boolean = false, with_stack: boolean = false, with_flops: boolean = false,
   with_modules: boolean = false, activities: table?, schedule: callable?,
   on_trace_ready: callable?)]]

--- A profile: the result of torch.profiler.profile, during and after the recording.
---
---     local profile = torch.profiler.profile({}, function()
---        torch.relu(torch.ones(2))
---     end)
---     print(torch.type(profile), profile:key_averages():row("relu").count)
---     --> profiler.Profile	1
---@class profiler.Profile
---@field session any  the last recorded events; nil if there are none
---@field step_num integer  from 0
local Profile = class.class("profiler.Profile")

-- The profile that is running in this interpreter. The reference is weak, so the garbage collector
-- can end a profile whose coroutine was abandoned.
local open = setmetatable({}, {__mode = "v"})

local function check_activities(list)
   local known = {cpu = true, cuda = true, sim = true}
   for _, name in ipairs(list) do
      if not known[name] then
         args.refuse("profiler.profile", "activities", '"cpu", "cuda" or "sim"', name)
      end
   end
   return list
end

function Profile:__init(...)
   local a = signature(...)
   local activities = check_activities(a.activities or {"cpu", "cuda", "sim"})
   local devices = false
   for _, name in ipairs(activities) do devices = devices or name ~= "cpu" end
   self.recorded = {
      shapes = a.record_shapes, memory = a.profile_memory, stacks = a.with_stack,
      flops = a.with_flops, devices = devices,
   }
   self.with_modules = a.with_modules
   self.schedule = a.schedule or function() return "record" end
   self.scheduled = a.schedule ~= nil
   self.on_trace_ready = a.on_trace_ready
   self.step_num, self.running = 0, false
end

-- Ends the span of the last step, and opens the span of the next one. Only profiles with a schedule
-- have such spans.
local function next_step(self)
   if not self.scheduled then return end
   if self.step_span then torch._span_close(table.unpack(self.step_span)) end
   self.step_span = {torch._span_open("step", "ProfilerStep#" .. self.step_num)}
end

local function begin_session(self)
   self.session, self.step_span = torch._profile_start(self.recorded), nil
   next_step(self)
   self.watching = watch.set(true, self.with_modules)
end

-- Ends the recording. If `keep` is true, the function calls on_trace_ready, and returns an error of
-- that function as {error}.
local function end_session(self, keep)
   watch.set(false)
   self.session:stop()
   if not keep then
      self.session = nil
   elseif self.on_trace_ready then
      self.reporting = true
      local ok, fault = pcall(self.on_trace_ready, self)
      self.reporting = false
      if not ok then return {fault} end
   end
end

-- Raises an error if on_trace_ready is running, because that function may read the profile, but may
-- not step or end the profile.
local function check_not_reporting(self, name)
   if self.reporting then
      torch.raise(("profiler.profile: %s: on_trace_ready cannot call it"):format(name))
   end
end

local function is_record(action) return action == "record" or action == "record_and_save" end

-- Switches from the schedule's action `from` of one step to the action `to` of the next step. nil
-- means that no profile is running before, or after, the step.
local function change(self, from, to)
   local was, is = from and from ~= "none", to and to ~= "none"
   local fresh = from == "record_and_save" or from == "warmup" and is_record(to)
   local failure
   if was and (fresh or not is) then failure = end_session(self, is_record(from)) end
   if is and (fresh or not was) then
      begin_session(self)
   elseif is then
      next_step(self)
   end
   if failure then error(failure[1], 0) end
end

local function action_of(self)
   local action = self.schedule(self.step_num)
   if action ~= "none" and action ~= "warmup" and not is_record(action) then
      args.refuse("profiler.profile", "schedule's result",
         '"none", "warmup", "record" or "record_and_save"', action)
   end
   return action
end

-- Ends a recording whose beginning or end was interrupted.
local function abandon(self)
   if self.running then
      self:stop()
   elseif torch._profiling() and not open[1] then
      watch.set(false)
      if self.session then self.session:stop() end
   end
end

--- Begins to record; raises an error if another profile is running. torch.profiler.profile calls
--- this method, so a call before the first step changes nothing.
---@return profiler.Profile self
function Profile:start()
   check_not_reporting(self, "start")
   if self.running and self.step_num == 0 then return self end
   if self.running then
      torch.raise "profiler.profile: start: the profile runs already; stop it before"
   end
   if open[1] or torch._profiling() then collectgarbage() end
   if open[1] and open[1].of_script then
      -- the profile of `tlua --profile` gives way to the script's own profile
      open[1].gave_way = true
      open[1]:stop()
   end
   if open[1] then torch.raise "profiler.profile: another one runs; profiles do not nest" end
   self.step_num = 0
   local action = action_of(self)
   scopes.new(function() abandon(self) end)
   change(self, nil, action)
   open[1], self.running, self.action = self, true, action
   return self
end

--- Marks the beginning of the loop's next step.
function Profile:step()
   check_not_reporting(self, "step")
   if not self.running then
      torch.raise "profiler.profile: step: the profile does not run; call it between start and stop"
   end
   self.step_num = self.step_num + 1
   local before = self.action
   self.action = action_of(self)
   change(self, before, self.action)
end

--- Ends the recording and keeps the recorded events, unless they belong to a warmup step. A second
--- call has no effect.
function Profile:stop()
   check_not_reporting(self, "stop")
   if not self.running then return end
   open[1], self.running = nil, false
   local action = self.action
   self.action = nil
   local failure
   if action == "warmup" or is_record(action) then
      failure = end_session(self, is_record(action))
   end
   if failure then error(failure[1], 0) end
end

Profile.__close = Profile.stop

-- Stops watching modules and optimizers for a profile that was abandoned, for example with its
-- coroutine. The recording itself ends when the session is collected.
function Profile:__gc()
   watch.leave(self.watching)
end

-- Results -----------------------------------------------------------------------------------------

local function session_of(self, name)
   if self.running and self.action ~= "none" and not self.session then
      torch.raise(("profiler.profile: %s: nothing was recorded yet"):format(name))
   end
   if not self.session then
      torch.raise(("profiler.profile: %s: nothing was recorded%s"):format(name,
         self.scheduled and "; the schedule has not come to the end of an active step" or ""))
   end
   if self.session:state().active then
      torch.raise(("profiler.profile: %s: it still records; call stop first"):format(name))
   end
   return self.session
end

--- Returns the number of events.
---@return integer
function Profile:__len()
   return session_of(self, "#"):state().events
end

--- Iterates over positions and events. Outer events come before the events inside them. An event is
--- a table, with times in microseconds. Events of other threads that worked for this thread follow
--- this thread's events; their `thread` is the other thread's name.
---@return fun(): integer?, table?
function Profile:events()
   local session, i = session_of(self, "events"), 0
   local n, threads = session:state().events, session:threads()
   return function()
      i = i + 1
      if i > n then return nil end
      local e = session:event(i)
      local on_device = e.device_begin >= 0
      return i, {
         kind = e.kind, name = e.name, parent = e.parent > 0 and e.parent or nil,
         start = e.begin / 1e3, cpu_time = e.duration / 1e3,
         self_cpu_time = (e.duration - e.inside) / 1e3,
         cpu_memory_usage = e.bytes, self_cpu_memory_usage = e.own_bytes, flops = e.flops,
         device_start = on_device and e.device_begin / 1e3 or nil,
         device_time = on_device and e.device_time / 1e3 or nil,
         sequence = e.sequence > 0 and e.sequence or nil,
         input_shapes = e.shapes >= 0 and session:shapes(e.shapes) or nil,
         stack = e.stack >= 0 and session:text(e.stack) or nil, thread = threads[e.thread],
      }
   end
end

--- Returns sums over the events of the same name.
---@param options? {group_by_input_shape: boolean, group_by_stack_n: integer}
--- group_by_input_shape: whether events of different shapes have separate rows; group_by_stack_n:
--- events whose stacks differ in this number of innermost lines have separate rows, 0 by default
---@return profiler.Averages
function Profile:key_averages(...)
   return require "tlua.profiler.averages".by_name(session_of(self, "key_averages"), ...)
end

--- Returns sums of forward and backward times by module path; needs with_modules.
---@return profiler.Averages
function Profile:module_averages()
   if not self.with_modules then
      torch.raise("profiler.profile: module_averages: modules were not recorded; pass "
         .. "with_modules = true")
   end
   return require "tlua.profiler.averages".by_module(session_of(self, "module_averages"))
end

--- Describes in words where the program spent its time waiting.
---@return string
function Profile:summary()
   return require "tlua.profiler.summary".text(session_of(self, "summary"))
end

--- Writes the events for chrome://tracing, Perfetto or TensorBoard. Raises an error if the file
--- cannot be written; an older file of that name is then unchanged.
---@param path string  the file to write
function Profile:export_chrome_trace(path)
   local session = session_of(self, "export_chrome_trace")
   require "tlua.profiler.trace".write(session, path)
end

--- Writes a line for each stack, "outer;inner 123", with the microseconds spent in it, in the form
--- that flame graph tools read. Needs with_stack.
---@param path string  the file to write
---@param metric? "self_cpu_time_total"|"self_device_time_total"  the time to write, the first by
--- default
function Profile:export_stacks(path, metric)
   local session = session_of(self, "export_stacks")
   require "tlua.profiler.stacks".write(session, path, metric, self.recorded.stacks)
end

--- Writes a flame graph as a single HTML file that loads nothing from elsewhere.
---@param path string  the file to write
function Profile:export_flame_graph(path)
   require "tlua.profiler.report".write_flame(session_of(self, "export_flame_graph"), path)
end

--- Writes an HTML file that shows the memory in use over time, by purpose; needs profile_memory.
---@param path string  the file to write
function Profile:export_memory_timeline(path)
   if not self.recorded.memory then
      torch.raise "profiler.profile: export_memory_timeline: pass profile_memory = true"
   end
   local session = session_of(self, "export_memory_timeline")
   require "tlua.profiler.report".write_memory(session, path)
end

--- Writes summary, tables, flame graph, timeline and memory as one HTML file.
---@param path string  the file to write
---@param title? string  the heading of the page
function Profile:export_html(path, title)
   require "tlua.profiler.report".write(self, session_of(self, "export_html"), path, title)
end

--- Records until `stop` is called or the variable's block ends. With a function, records while fn
--- runs; fn gets the profile, and the profile is returned before fn's results. Options:
---
--- * `activities`: the devices to time, a list of "cpu", "cuda" and "sim"; all by default.
--- * `schedule`: selects the steps to record (torch.profiler.schedule); `on_trace_ready(prof)` is
--- called when a cycle is complete, or at the end.
--- * `record_shapes`, `profile_memory`, `with_stack` (the Lua lines), `with_flops`, `with_modules`.
---
--- Other threads that work for the calling one are recorded with it: a DataLoader's workers, for
--- batches that were requested and arrived meanwhile, and a process group's thread, which runs
--- calls with async_op. Backward passes run in the calling thread. The kernels of devices get rows
--- as well: kernels of the simulated device, and those of a GPU if CUPTI is installed, for one
--- profile at a time.
---
--- Results are bitwise the same as without a profile. Profiles do not nest, except that the profile
--- of `tlua --profile` ends when the script begins one.
---@param options? {activities: string[], schedule: function, on_trace_ready: function,
--- record_shapes: boolean, profile_memory: boolean, with_stack: boolean, with_flops: boolean,
--- with_modules: boolean}
---@param fn? fun(prof: profiler.Profile): any
---@return profiler.Profile prof
---@return any ...
return function(options, fn)
   if type(options) == "function" and fn == nil then options, fn = {}, options end
   if options ~= nil and type(options) ~= "table" then
      args.refuse("profiler.profile", "options", "a table", options)
   end
   if fn ~= nil and type(fn) ~= "function" then
      args.refuse("profiler.profile", "fn", "a function", fn)
   end
   local prof = Profile(options or {}):start()
   if not fn then return prof end
   local function run(...)
      prof:stop()
      return prof, ...
   end
   local _ <close> = prof
   return run(fn(prof))
end
