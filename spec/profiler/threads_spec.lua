-- Tests the events of threads that work on behalf of the profiled thread.

local torch = require "tlua"
local json = torch.utils.json
local profiler = torch.profiler
local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"

local sanitized <const> = os.getenv "SPEC_SANITIZED" == "1"

local data = torch.data.TensorDataset(torch.arange(24, {device = "cpu"}):float():view(12, 2))

local function load_all(n)
   local sum = 0
   for x in torch.data.DataLoader(data, {batch_size = 3, num_workers = n}):iter() do sum = sum + x:sum():item() end
   return sum
end

-- Returns the events of all threads except the profiled one, keyed by the threads' names.
local function by_thread(prof)
   local found = {}
   for i, event in prof:events() do
      local thread = event.thread
      if thread then
         found[thread] = found[thread] or {}
         found[thread][i] = event
      end
   end
   return found
end

describe("a loader's workers", function()
   it("have rows for their work, each in its own thread", function()
      local prof, sum = profiler.profile({record_shapes = true, profile_memory = true},
         function() return load_all(2) end)
      assert.equal(23 * 24 / 2, sum)
      local threads = by_thread(prof)
      local jobs, operators = 0, 0
      for name, events in pairs(threads) do
         assert.matches("^DataLoader worker [01]$", name)
         for i, event in pairs(events) do
            if event.parent then
               local outer = assert(events[event.parent], "a parent of another thread")
               assert.is_true(event.parent < i)
               assert.is_true(event.start >= outer.start)
               assert.is_true(event.start + event.cpu_time <= outer.start + outer.cpu_time + 0.002)
            else
               assert.equal("DataLoader.fetch", event.name)
               jobs = jobs + 1
            end
            if event.kind == "operator" then operators = operators + 1 end
         end
      end
      assert.equal(4, jobs) -- The loader runs one job for each batch of 3.
      assert.is_true(operators >= 4)
      assert.equal(4, prof:key_averages():row("DataLoader.fetch").count)
   end)

   it("are recorded only for jobs that were given while the profile recorded", function()
      local loader = torch.data.DataLoader(data, {batch_size = 3, num_workers = 1, persistent_workers = true})
      local function epoch() for _ in loader:iter() do end end
      epoch()
      local prof = profiler.profile({}, epoch)
      assert.equal(4, prof:key_averages():row("DataLoader.fetch").count)
      epoch()
      assert.equal(4, prof:key_averages():row("DataLoader.fetch").count)
      prof = profiler.profile({}, epoch)
      assert.equal(4, prof:key_averages():row("DataLoader.fetch").count)
   end)

   it("have their stacks, their share in the summary, and a track in a trace", function()
      local prof = profiler.profile({with_stack = true}, function() load_all(1) end)
      assert.matches("meanwhile, the DataLoader worker 0 was at work", prof:summary())
      shell.with_folder(function(folder)
         prof:export_chrome_trace(folder .. "/t.json")
         local tid, seen
         for _, e in ipairs(json.decode(shell.read(folder .. "/t.json")).traceEvents) do
            if e.ph == "M" and e.args.name == "DataLoader worker 0" then tid = e.tid end
            if e.ph == "X" and e.name == "DataLoader.fetch" then seen = e.tid end
         end
         assert.equal(2, tid)
         assert.equal(tid, seen)
         prof:export_stacks(folder .. "/s")
         assert.matches("DataLoader worker 0;DataLoader.fetch %d+\n", shell.read(folder .. "/s"))
         prof:export_html(folder .. "/a.html")
         assert.matches('"DataLoader worker 0"', shell.read(folder .. "/a.html"))
      end)
   end)

   it("do not change the shares of the thread that waits for them", function()
      local figures = require("tlua.profiler.summary").figures
      local prof = profiler.profile({}, function() load_all(2) end)
      local f = figures(prof.session)
      local sum = f.lua + f.operators + f.data + f.collector
      assert.is_true(math.abs(sum - 1) < 1e-9, sum)
   end)
end)

describe("a process group", function()
   it("has rows for all its calls, and for its thread", ranks:case(2, [[
      local rank = dist.get_rank()
      local prof = torch.profiler.profile({}, function()
         dist.barrier()
         dist.all_reduce(torch.ones(4), {async_op = true}):wait()
         if rank == 0 then dist.send(torch.ones(2), 1) else dist.recv(torch.ones(2), 0) end
         local list = {}
         dist.all_gather_object(list, {rank = rank})
         dist.broadcast_object_list({rank}, 0)
      end)
      local own, others = {}, {}
      for _, event in prof:events() do
         assert(event.thread == nil or event.thread == "process group")
         local counts = event.thread and others or own
         local name = event.name:match "^distributed%.(.*)" or ""
         counts[name] = (counts[name] or 0) + 1
      end
      assert(own.barrier == 1 and own.wait == 1 and own.all_reduce == 1)
      assert(own[rank == 0 and "send" or "recv"] == 1)
      assert(own.all_gather_object == 1 and own.all_gather == 2)
      assert(own.broadcast_object_list == 1 and own.broadcast == 2)
      assert(others.all_reduce == 1)
      -- While a rank waits, the time must not count as Lua's time.
      local figures, calls = require("tlua.profiler.summary").figures(prof.session), 0
      for _, event in prof:events() do
         if not event.thread and event.name:find "^distributed%." then
            calls = calls + event.self_cpu_time / 1e6
         end
      end
      near(torch.tensor(figures.ranks * figures.seconds), torch.tensor(calls), 1e-6)
      assert(figures.ranks > 0 and figures.lua <= 1 - figures.ranks)
      assert(prof:summary():find "calls of process groups, and waiting for other ranks")
   ]]))
end)

it("the memory timeline has the memory that the allocator caches", function()
   if sanitized then return pending "a sanitizer gets blocks back at once" end
   local size = 4 << 20
   local prof = profiler.profile({profile_memory = true}, function()
      for _ = 1, 3 do
         local t = torch.empty(size / 4)
         t:release()
         torch.empty(2048) -- this allocation triggers another sample
      end
   end)
   local timeline = require "tlua.profiler.timeline"
   local points, most = timeline.points(prof.session, 1000), 0
   assert.equal("cached", timeline.categories[6])
   for _, point in ipairs(points) do
      assert.is_true(point.bytes[6] >= 0)
      most = math.max(most, point.bytes[6])
   end
   -- with sanitizers, freed memory is not cached, because they could not detect uses of it after the free
   assert.is_true(most >= size or os.getenv "SPEC_SANITIZED" == "1", most)
end)
