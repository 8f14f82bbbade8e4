-- calls.lua - calls of a compiled function: the arguments and the current Lua state select a
-- program; if none fits, the original function is called.

local torch = require "tlua"
local class = require "tlua.class"
local arguments = require "tlua.compile.arguments"
local keep_random = require "tlua.export.random"
local states = require "tlua.compile.state"
local strided = require "tlua.export.strided"
local training = require "tlua.compile.training"
local watch = require "tlua.compile.watch"

-- The largest number of programs of one function, equal to PyTorch's recompile_limit.
local MOST_PROGRAMS <const> = 8
-- The largest number of kinds of calls for which programs are tried. Calls of one kind have
-- arguments with the same dtypes, shapes and so on (torch._call_key).
local MOST_KINDS <const> = 64
-- If this many calls of one kind were watched and gave no program, all later calls of this kind run
-- the original function.
local MOST_TRIES <const> = 16
-- A program is optimized again when the values of its constants change. This happens at most
-- MOST_UPDATES times, not counting changes that come after at least RUNS runs.
local MOST_UPDATES <const>, RUNS <const> = 4, 8
-- If the program of a short call was no faster than the function, this many calls go to the
-- function before another program is tried. After more than three such pauses, no other program is
-- tried for this kind of call, and the pauses get longer.
local PAUSE <const> = 1000

local NONE <const> = {n = 0}

local Compiled = class.class "compile.Compiled"

function Compiled:__init(fn, options)
   self.fn, self.options = fn, options
   self.slots, self.kinds, self.programs, self.pause = {}, 0, 0, 0
   self.reasons = {}
   -- The keys of calls for which no program with a dynamic size can be made. A key is for calls
   -- with any batch size, or for calls with one batch size.
   self.static = {}
end

-- Raises an error if the option `fullgraph` demands that each call runs a program.
local function check_fullgraph(self, why)
   if self.options.fullgraph then
      torch.raise(("compile: fullgraph: the call cannot be a program: %s"):format(why))
   end
end

local function note(self, why)
   self.reasons[#self.reasons + 1] = why
   if #self.reasons > 32 then table.remove(self.reasons, 1) end
end

-- Gives up on a slot, which holds the programs for one kind of call: all later calls of this kind
-- run the original function. Stores the reason.
local function leave(self, slot, why)
   slot.eager = why
   slot.pending = nil
   note(self, why)
   check_fullgraph(self, why)
end

-- Calls the function itself, because no program can make the call.
local function call_function(self, why, ...)
   check_fullgraph(self, why)
   return self.fn(...)
end

local OCCURS_TWICE <const> = "an argument occurs twice"

-- Running -----------------------------------------------------------------------------------------

-- Returns the program to run for an entry, which has the recorded program and perhaps an optimized
-- one. If its constants were computed from tensors whose values have changed since, first optimizes
-- it again.
local function program_of(entry)
   if not entry.better then return entry.handle end
   if not entry.versions or torch._note_holds(entry.versions) then
      return entry.better
   end
   entry.updates = entry.updates + (entry.runs < RUNS and 1 or 0)
   entry.runs = 0
   if entry.updates > MOST_UPDATES then
      entry.better, entry.versions = nil, nil
   else
      local record = require "tlua.compile.record"
      local _ <close> = torch.no_grad()
      record.update(entry)
   end
   return entry.better or entry.handle
end

local function results_of(entry, outputs)
   if entry.plain then return table.unpack(outputs) end
   local leaves = arguments.with_results(entry.leaves, entry.places, outputs)
   local values = arguments.unflatten(entry.template, leaves)
   return table.unpack(values, 1, values.n)
end

-- Runs a program through the function that the user's backend makes of its graph.
local function run_backend(self, entry, handle, tensors)
   local made = entry.made_by_backend
   if not made or made.handle ~= handle then
      local graph = require "tlua.export.graph"(handle)
      made = {handle = handle, fn = self.options.backend(graph, {table.unpack(tensors)})}
      entry.made_by_backend = made
   end
   return {made.fn(table.unpack(tensors))}
end

-- Runs the program of an entry. If the program fails, calls the function instead, which fails as
-- well and raises an error that names the user's line.
local function run(self, entry, tensors, ...)
   entry.runs = entry.runs + 1
   local handle = program_of(entry)
   if type(self.options.backend) == "function" then
      return results_of(entry, run_backend(self, entry, handle, tensors))
   end
   local fine, outputs = pcall(handle.run, handle, strided.lines(entry.strided, tensors))
   if not fine then
      -- The program may already have changed the buffers, and a call of the function would change
      -- them again.
      if entry.written and #entry.written > 0 then error(outputs, 0) end
      return self.fn(...)
   end
   return results_of(entry, outputs)
end

-- Searches the entries of a slot, each of which has a program and the state for which the program
-- is valid. Returns the entry whose state equals the current state. Returns nil if there is none,
-- or if an argument of the call is also in that state.
local function find(slot, tensors, tables)
   for i = 1, #slot do
      local entry = slot[i]
      if torch._note_holds(entry.note) then
         local seen = entry.state.seen
         for k = 1, #tensors do
            if seen[tensors[k]] then return nil end
         end
         for value in next, tables or NONE do
            if seen[value] then return nil end
         end
         if i > 1 then table.insert(slot, 1, table.remove(slot, i)) end
         return entry
      end
   end
end

-- Compiling ---------------------------------------------------------------------------------------

-- Calls fn up to 20 times, and returns the time of the fastest call in seconds.
local function time(fn, limit)
   local best, begun = math.huge, os.clock()
   for _ = 1, 20 do
      local start = os.clock()
      fn()
      local seconds = os.clock() - start
      best = math.min(best, seconds)
      if os.clock() - begun > limit then break end
   end
   return best
end

-- Returns whether the program of an entry, including the checks before each run, is at most 2 %
-- slower than the function.
local function is_faster(self, slot, entry, values)
   local restore_random = keep_random()
   local repeats = 1
   local function eager()
      for _ = 1, repeats do self.fn(table.unpack(values, 1, values.n)) end
   end
   local function compiled()
      for _ = 1, repeats do self:__call(table.unpack(values, 1, values.n)) end
   end
   slot[1] = entry
   compiled()
   repeats = time(eager, 0) < 1e-4 and 50 or 1
   local a, b = math.huge, math.huge
   for _ = 1, 3 do a, b = math.min(a, time(eager, 0.01)), math.min(b, time(compiled, 0.01)) end
   slot[1] = nil
   restore_random()
   self.times = {a / repeats, b / repeats}
   return b <= a * 1.02
end

-- Drops the optimized program of an entry if the program as it was recorded is faster.
local function choose(entry)
   local restore_random = keep_random()
   local function run_handle() entry.handle:run(entry.example) end
   local function run_better() entry.better:run(entry.example) end
   local a, b = math.huge, math.huge
   for _ = 1, 5 do
      a, b = math.min(a, time(run_handle, 0.05)), math.min(b, time(run_better, 0.05))
   end
   restore_random()
   if a < b then entry.better, entry.versions = nil, nil end
end

-- Makes a program from a call that was watched twice, and adds an entry with the program to the
-- slot.
local function compile(self, slot, call, values)
   local record = require "tlua.compile.record"
   local restore_random <const> = keep_random()
   local restore = call.live and training.put_copies(call.written)
   local fine, entry = pcall(record.record, call)
   restore_random()
   if restore then restore() end
   if not fine then
      local why = type(entry) == "table" and entry.why or tostring(entry)
      if not call.batch or not why:find "^dynamic: " then return leave(self, slot, why) end
      self.static[slot.key] = true
      return note(self, why)
   end
   local loose = call.live and states.without_versions(call.state.tensors)
   if states.difference(call.state, loose) then
      return leave(self, slot, states.difference(call.state, loose) .. " while it was recorded")
   end
   entry.state, entry.runs, entry.updates = call.state, 0, 0
   entry.note = states.note(call.state, entry.fixed and call.state.tensors
      or states.without_versions(call.state.tensors))
   entry.written = call.written
   self.made = entry
   local backend = self.options.backend
   local may_leave = call.on_cpu and type(backend) ~= "function" and not self.options.fullgraph
   local faster = call.live and training.is_faster or is_faster
   if may_leave and not faster(self, slot, entry, values) then
      slot.slow = self.times[1] < 2e-5 and "short" or "long"
      if slot.slow == "long" then return leave(self, slot, "the program is no faster") end
      self.reasons[#self.reasons + 1] = "the program is no faster"
      self.pause = PAUSE
      slot.pauses = (slot.pauses or 0) + 1
      return
   end
   local mode = self.options.mode or "default"
   if entry.better and mode:find "^max%-autotune" then choose(entry) end
   self.programs = self.programs + 1
   table.insert(slot, 1, entry)
end

local function holds_argument(state, leaves, tables)
   for i = 1, leaves.n do
      local leaf = leaves[i]
      if type(leaf) == "userdata" and state.seen[leaf] then return true end
   end
   for value in next, tables do
      if state.seen[value] then return true end
   end
   return false
end

local function batch_of(leaves)
   local _, _, batch = torch._dynamic_key(table.unpack(leaves, 1, leaves.n))
   return batch
end

local function count_loaded()
   local count = 0
   for _ in next, package.loaded do count = count + 1 end
   return count
end

-- Calls the function and watches the call, that is, records the values on which the call depends.
-- Makes a program if an earlier call had the same state.
local function watched_call(self, slot, ...)
   local values = table.pack(...)
   local template, leaves, tables = arguments.flatten(values)
   local before = slot.pending
   local restore_random = keep_random()
   local records = before and before.live
   local loose = records and states.without_versions(before.state.tensors)
   local ready = before and not states.difference(before.state, loose)
   local written = records and training.versions(before.state)
   local loaded = count_loaded()
   local results = table.pack(watch.call(self.fn, ...))
   local seen = results[1]
   local function give() return table.unpack(results, 2, results.n) end
   slot.tries = slot.tries + 1
   if seen.refusal then
      -- If the call has loaded a file of the library, it has done more than later calls will do. So
      -- its refusal is not final.
      if count_loaded() == loaded then leave(self, slot, seen.refusal) end
      self.reason = seen.refusal
      return give()
   end
   local changed = ready and states.difference(before.state, loose)
   self.reason = before
      and (states.difference(before.state, loose) or "other functions are called than before")
   if written then written = written() end
   for _, tensor in ipairs(written or {}) do
      if tensor.requires_grad then
         leave(self, slot, "the function changes a tensor that requires a gradient")
         return give()
      end
   end
   local same, common
   if ready and not changed then same, common = watch.same_functions(seen, before.watch) end
   local state = same and states.of(self.fn, common, true)
   if same and state.refusal then
      leave(self, slot, state.refusal)
      return give()
   end
   if same and not holds_argument(state, leaves, tables) then
      local again, others = arguments.flatten(values)
      if not again or arguments.text(again) ~= arguments.text(template) then
         leave(self, slot, "the function changes an argument")
         return give()
      end
      for i = 1, leaves.n do
         if not rawequal(leaves[i], others[i]) then
            leave(self, slot, "the function changes an argument")
            return give()
         end
      end
      slot.pending = nil
      local on_cpu = true
      for i = 1, leaves.n do
         if torch.is_tensor(leaves[i]) and leaves[i].device.type ~= "cpu" then on_cpu = false end
      end
      compile(self, slot, {
         fn = self.fn, template = template, leaves = leaves, state = state, watch = seen,
         results = {n = results.n - 1, table.unpack(results, 2, results.n)},
         restore_random = restore_random,
         on_cpu = on_cpu, tables = tables, batch = slot.dynamic and batch_of(leaves),
         live = records, written = written, backend = type(self.options.backend) == "function",
      }, values)
      return give()
   end
   if changed and slot.tries > 2 then
      leave(self, slot, changed .. " in the call")
      return give()
   end
   state = states.of(self.fn, seen)
   if state.refusal then
      leave(self, slot, state.refusal)
   elseif slot.tries >= MOST_TRIES then
      leave(self, slot, "the state differs in each call")
   else
      local gradients = state.requires_grad or training.takes_gradient(leaves)
      local live = torch.is_grad_enabled() and gradients
      slot.pending = {watch = seen, state = state, live = live}
      if live and type(self.options.backend) == "function" then
         leave(self, slot, "gradients are recorded, and a graph for a backend has none")
      end
   end
   return give()
end

-- Calls -------------------------------------------------------------------------------------------

local function miss(self, key, batch, slot, ...)
   if not slot then
      if self.kinds >= MOST_KINDS then
         return call_function(self, ("there are %d kinds of calls already"):format(MOST_KINDS), ...)
      end
      slot = {tries = 0, key = key, dynamic = batch ~= nil}
      self.slots[key], self.kinds = slot, self.kinds + 1
   end
   if self.programs >= MOST_PROGRAMS then
      leave(self, slot, ("the function already has %d programs"):format(MOST_PROGRAMS))
   end
   if slot.eager then return self.fn(...) end
   if not watch.can() then return call_function(self, "calls cannot be watched", ...) end
   return watched_call(self, slot, ...)
end

-- Runs a call that has tables among its arguments.
local function nested_call(self, why, ...)
   local template, leaves, tables = arguments.flatten(table.pack(...))
   if not template then return call_function(self, why, ...) end
   local key, recording = torch._call_key(table.unpack(leaves, 1, leaves.n))
   if not key then
      self.reason = recording or why
      return call_function(self, self.reason, ...)
   end
   key = key .. arguments.text(template)
   local slot = self.slots[key]
   if slot and slot.eager then return call_function(self, slot.eager, ...) end
   local tensors = arguments.tensors(leaves)
   for i, tensor in ipairs(tensors) do
      for k = i + 1, #tensors do
         if rawequal(tensor, tensors[k]) then return call_function(self, OCCURS_TWICE, ...) end
      end
   end
   local entry = slot and find(slot, tensors, tables)
   if entry then return run(self, entry, tensors, ...) end
   return miss(self, key, nil, slot, ...)
end

-- Returns the key of a call. With the option `dynamic`, calls that differ only in the batch size
-- have the same key; the batch size is the third result. A size of 0 or 1 is not dynamic, because
-- operators treat these sizes specially.
local function key_of(self, ...)
   if self.options.dynamic then
      local key, recording, batch = torch._dynamic_key(...)
      if key and batch >= 2 and not self.static[key] and not self.static[key .. batch] then
         return key, recording, batch
      end
   end
   local key, recording = torch._call_key(...)
   return key, recording, nil
end

-- Runs the program of an entry for a batch size. The first call with a batch size is recorded, to
-- find out whether the function then calls the same operators.
local function run_dynamic(self, entry, key, batch, tensors, ...)
   if not entry.sizes[batch] then
      if not watch.can() then return call_function(self, "calls cannot be watched", ...) end
      local fits, why = require "tlua.compile.record".fits(entry, tensors, batch)
      if not fits then
         self.static[key .. batch] = true
         note(self, ("dynamic: %s"):format(type(why) == "table" and why.why or why))
         return self:__call(...)
      end
      entry.sizes[batch] = true
   end
   return run(self, entry, tensors, ...)
end

function Compiled:__call(...)
   if self.pause > 0 then
      self.pause = self.pause - 1
      return self.fn(...)
   end
   if watch.running() then return self.fn(...) end
   local key, recording, batch = key_of(self, ...)
   if not key then return nested_call(self, recording, ...) end
   local slot = self.slots[key]
   if slot then
      if slot.eager then return call_function(self, slot.eager, ...) end
      if slot.slow and slot.pauses > 3 then
         self.pause = PAUSE << math.min(slot.pauses, 10)
         slot.pauses = slot.pauses + 1
         return self.fn(...)
      end
   end
   local tensors, n = {}, 0
   for i = 1, select("#", ...) do
      local value = select(i, ...)
      if type(value) == "userdata" then
         for k = 1, n do
            if rawequal(tensors[k], value) then return call_function(self, OCCURS_TWICE, ...) end
         end
         n = n + 1
         tensors[n] = value
      end
   end
   local entry = slot and find(slot, tensors)
   if entry and entry.sizes then return run_dynamic(self, entry, key, batch, tensors, ...) end
   if entry then return run(self, entry, tensors, ...) end
   return miss(self, key, batch, slot, ...)
end

return Compiled
