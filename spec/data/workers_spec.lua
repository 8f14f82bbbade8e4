-- Tests DataLoader with num_workers. Each program is a string that a new process runs, so that a worker receives only
-- the values of that program, and not the values of the running specs.

local torch = require "tlua"
local shell = require "spec.support.shell"

local function program(text, ...)
   return assert(load("local torch = require 'tlua'\nlocal data = torch.data\n" .. text, "=program"))(...)
end

-- Checks that fn raises an error that contains the text.
local function fails(text, fn)
   local ok, message = pcall(fn)
   assert.is_false(ok)
   assert.truthy(tostring(message):find(text, 1, true), message)
end

-- Waits until all workers that were told to stop have ended.
local function wait_until_gone()
   local start = torch.io.clock()
   while torch.workers.running() > 0 and torch.io.clock() - start < 120 do torch.ones(1) end
   return torch.workers.running()
end

after_each(function()
   collectgarbage()
   collectgarbage()
   wait_until_gone()
end)

describe("data.DataLoader with workers", function()
   it("sends a class once even if its field lists the classes derived from it", function()
      assert.same({true, true}, program [[
         local Base = torch.class("Base")
         local Derived = torch.class("Derived", Base)
         Base.registry = {Derived}
         local function make()
            local object = Derived()
            object.same = Base.registry[1] == Derived
            return object
         end
         for object in data.DataLoader({1}, {num_workers = 1, collate_fn = make}):iter() do
            return {getmetatable(object) == Derived, object.same}
         end]])
   end)

   it("does not confuse classes of a global that is not sent", function()
      assert.same({true, 7}, program [[
         local Sent, Other = torch.class("Sent"), torch.class("Other")
         function Sent:value() return 7 end
         function Other:value() return 8 end
         rawset(_G, "classes_of_spec", {Sent, io.stdout})
         local function make(batch)
            local _ = function() return classes_of_spec end
            local position = batch[1][1]
            return position
         end
         local Items = torch.class("Items", data.Dataset)
         function Items:__len() return 1 end
         function Items:get(position) return position:value() + Other.value() - 8 end
         local order = {iter = function()
            local ended = false
            return function()
               if ended then return nil end
               ended = true
               return {Sent()}
            end
         end}
         local loader = data.DataLoader(Items(),
            {num_workers = 1, batch_sampler = order, collate_fn = make})
         local ok, value = pcall(loader:iter())
         rawset(_G, "classes_of_spec", nil)
         return {ok, value}]])
   end)

   it("shortens a long path to a value that cannot be sent", function()
      local list = {}
      local at = list
      for _ = 1, 1000 do
         at.n = {}
         at = at.n
      end
      local ok, message = pcall(function() torch.data.DataLoader({list}, {num_workers = 1}):iter() end)
      assert.is_false(ok)
      assert.truthy(message:find("'n' of ... of field 'n' of field [1] of field 'dataset' is nested",
         1, true), message)
      assert.truthy(#message < 300)
   end)

   it("accepts an infinite timeout, but not NaN", function()
      for x in torch.data.DataLoader({1}, {num_workers = 1, timeout = math.huge}):iter() do
         assert.equal(1, x:item())
      end
      fails("timeout: expected seconds, at least 0",
         function() torch.data.DataLoader({1}, {num_workers = 1, timeout = 0 / 0}) end)
   end)

   it("reports the position of a nil batch, which would end the loop", function()
      local function go(dataset, options)
         for _ in torch.data.DataLoader(dataset, options):iter() do end
      end
      local function nothing() end
      for _, workers in ipairs {0, 2} do
         fails("collate_fn returned nil, which would end the loop",
            function() go({1, 2}, {num_workers = workers, collate_fn = nothing}) end)
         fails("the item at position 2 is nil", function()
            program([[
               local dataset, workers = ...
               local Gap = torch.class("Gap", data.Dataset)
               function Gap:__len() return 3 end
               function Gap:get(i) if i ~= 2 then return i end end
               for _ in data.DataLoader(Gap(), {num_workers = workers, batch_size = false}):iter() do
               end]], nil, workers)
         end)
      end
      fails("item 1 of the batch is nil", function() torch.data.default_collate {{}, {1}} end)
   end)

   it("returns the same batches as without workers, in order, also random ones", function()
      local epochs = program [[
         local function noise(x) return x + torch.rand(2) end
         local Noisy = torch.class("Noisy", data.Dataset)
         function Noisy:__len() return 23 end
         function Noisy:get(i) return noise(torch.tensor {i, -i}), i end
         local epochs = {}
         for workers = 0, 3 do
            torch.manual_seed(7)
            local loader = data.DataLoader(Noisy(), {batch_size = 4, shuffle = true,
               num_workers = workers})
            local epoch = {}
            for _ = 1, 2 do
               for x, i in loader:iter() do epoch[#epoch + 1] = {x:tolist(), i:tolist()} end
            end
            epochs[workers] = {epoch, torch.rand(1):item()}
         end
         return epochs]]
      assert.equal(12, #epochs[0][1])
      for workers = 1, 3 do assert.same(epochs[0], epochs[workers]) end
   end)

   it("sends tensors without a copy", function()
      local x = torch.arange(0, 12):view(6, 2)
      local seen = 0
      for rows in torch.data.DataLoader(x, {batch_size = false, num_workers = 2}):iter() do
         rows:fill_(-1) -- This changes the dataset's memory only if the batch is a view of it.
         seen = seen + 1
      end
      assert.equal(6, seen)
      assert.equal(-12, x:sum():item())
   end)

   it("sends functions with upvalues, shared upvalues and globals, and classes of the program", function()
      local list, same = program [[
         local count, Point = 10, torch.class "Point"
         function Point:__init(x) self.x = x end
         local shared = {n = 0}
         function helper_of_spec(x) return x * other_of_spec end
         other_of_spec = 2
         local function up() shared.n = shared.n + 1; count = count + 1 end
         local items = setmetatable({}, {__len = function() return 3 end, __index = {
            get = function(_, i) up(); return Point(helper_of_spec(i) + shared.n * 100 + count) end}})
         local loader = data.DataLoader(items, {batch_size = false, num_workers = 1})
         local list, same = {}, true
         for point in loader:iter() do
            list[#list + 1] = point.x
            same = same and torch.isinstance(point, Point)
         end
         helper_of_spec, other_of_spec = nil, nil
         return list, same and count == 10 and shared.n == 0]]
      assert.same({113, 216, 319}, list)
      assert.is_true(same)
   end)

   it("names a value that cannot be sent", function()
      local file = io.tmpfile()
      fails("upvalue 'file' of field 'collate_fn' is a file", function()
         program([[
            local file = ...
            data.DataLoader({1}, {num_workers = 1, collate_fn = function() return file end}):iter()]],
            file)
      end)
      fails("field 'co' of field [1] of field 'dataset' is a coroutine",
         function() torch.data.DataLoader({{co = coroutine.create(print)}}, {num_workers = 1}):iter() end)
      fails("belongs to a graph; detach", function()
         local x = torch.ones(2, {requires_grad = true}) * 2
         torch.data.DataLoader({{x}}, {num_workers = 1}):iter()
      end)
      file:close()
      assert.equal(0, wait_until_gone())
   end)

   it("raises an error when a worker reads a global that could not be sent", function()
      fails("the global 'log_of_spec' is a file", function()
         program [[
            log_of_spec = io.stdout
            local items = setmetatable({}, {__len = function() return 1 end, __index = {
               get = function() log_of_spec:write("x") end}})
            local next_batch = data.DataLoader(items, {num_workers = 1}):iter()
            log_of_spec = nil
            next_batch()]]
      end)
   end)

   it("raises a worker's error with its traceback, at the user's line", function()
      local ok, message = pcall(program, [[
         local Bad = torch.class("Bad", data.Dataset)
         function Bad:__len() return 8 end
         function Bad:get(i)
            if i == 5 then error("item 5 is broken") end
            return i
         end
         for _ in data.DataLoader(Bad(), {batch_size = 2, num_workers = 2}):iter() do end]])
      assert.is_false(ok)
      assert.matches("^program:%d+: data.DataLoader: worker %d of 2: program:%d+: item 5 is broken", message)
      assert.matches("stack traceback:.*program:6: in function", message)
      assert.equal(0, wait_until_gone())
   end)

   it("shows the fields of an error that is a table", function()
      local function fails_with(fault)
         local ok, message = pcall(program, ([[
            local Bad = torch.class("Bad", data.Dataset)
            function Bad:__len() return 2 end
            function Bad:get() error(%s) end
            data.DataLoader(Bad(), {num_workers = 1}):iter()()]]):format(fault))
         assert.is_false(ok)
         return message
      end
      assert.matches("worker 0 of 1: an error table {code = 7}", fails_with "{code = 7}", 1, true)
      assert.matches('worker 0 of 1: an error table {why = "no disk"}',
         fails_with '{why = "no disk", {}, print, 3}', 1, true)
      assert.matches("worker 0 of 1: told by itself",
         fails_with 'setmetatable({}, {__tostring = function() return "told by itself" end})', 1, true)
   end)

   it("has separate threads and a separate deterministic mode", function()
      local threads = torch.get_num_threads()
      local sum = program [[
         local items, sum = {}, 0
         for i = 1, 4 do items[i] = torch.tensor(i) end
         local loader = data.DataLoader(items, {num_workers = 2, worker_init_fn = function()
            local own = require "tlua"
            local function expect(threads, deterministic)
               if own.get_num_threads() ~= threads
                  or own.are_deterministic_algorithms_enabled() ~= deterministic then
                  error "the worker has other threads or another mode"
               end
            end
            expect(1, false)
            own.set_num_threads(3)
            own.use_deterministic_algorithms(true)
            expect(3, true)
            own.ones(100, 100):matmul(own.ones(100, 100))
         end})
         for x in loader:iter() do sum = sum + x:sum():item() end
         return sum]]
      assert.equal(10, sum)
      assert.equal(threads, torch.get_num_threads())
      assert.is_false(torch.are_deterministic_algorithms_enabled())
   end)

   it("raises errors of worker_init_fn, and of a module that a worker cannot load", function()
      fails("worker 0 of 1: program:4: no licence 0", function()
         program [[
            data.DataLoader({1}, {num_workers = 1,
               worker_init_fn = function(id) error("no licence " .. id) end}):iter()()]]
      end)
      package.loaded["only.here"] = {f = function(x) return x end}
      fails("module 'only.here' not found", function()
         program [[
            local f = require "only.here".f
            data.DataLoader({1}, {num_workers = 1, collate_fn = function(b) return f(b) end}):iter()()]]
      end)
      package.loaded["only.here"] = nil
   end)

   it("abandons a hanging worker after the timeout", function()
      -- The timeout is long enough that the first batch arrives even on a busy machine.
      fails("batch 2 did not arrive within the timeout of 3 s; still at work: worker", function()
         program [[
            local Slow = torch.class("Slow", data.Dataset)
            function Slow:__len() return 4 end
            function Slow:get(i)
               while i == 2 do torch.distributed._sleep(0.01) end
               return i
            end
            for _ in data.DataLoader(Slow(), {num_workers = 2, timeout = 3}):iter() do end]]
      end)
      assert.equal(0, wait_until_gone())
   end)

   it("stops the workers of a loop that was left early", function()
      local loader = torch.data.DataLoader(torch.arange(0, 100), {num_workers = 2})
      loader:iter()()
      local ok = pcall(function() for _ in loader:iter() do error "x" end end)
      assert.is_false(ok)
      collectgarbage()
      assert.equal(0, wait_until_gone())
      do
         local batches <close> = loader:iter()
         assert.same({0}, batches():tolist())
         assert.equal(2, torch.workers.running())
      end
      assert.equal(0, wait_until_gone())
   end)

   it("ends endless loops in workers that are stopped", function()
      assert.same({}, program [[
         local endless <const> = {
            ["in an item"] = function() while true do end end,
            ["that makes values"] = function() while true do local _ = {} end end,
            ["that catches errors"] = function() while true do pcall(error, {}) end end,
            ["in torch"] = function() while true do torch.ones(3):sum() end end,
            ["in a coroutine"] = function()
               coroutine.resume(coroutine.create(function() while true do end end))
            end,
            ["in one within another"] = function()
               coroutine.wrap(function()
                  coroutine.wrap(function() while true do pcall(error, {}) end end)()
               end)()
            end,
            ["that makes values in coroutines"] = function()
               while true do coroutine.wrap(function() while true do local _ = {} end end)() end
            end,
         }
         local Set = torch.class("Set", data.Dataset)
         function Set:__len() return 8 end
         function Set:get(i) return i > 2 and self.loop() or i end
         local left = {}
         for what, loop in pairs(endless) do
            local set = Set()
            set.loop = loop
            do
               local loader = data.DataLoader(set, {num_workers = 2, prefetch_factor = 4})
               local batches <close> = loader:iter()
               batches()
            end
            local start = torch.io.clock()
            while torch.workers.running() > 0 and torch.io.clock() - start < 120 do torch.ones(1) end
            if torch.workers.running() > 0 then left[#left + 1] = what end
         end
         return left]])
      fails("timeout of 0.2 s", function()
         local loader = torch.data.DataLoader(torch.arange(0, 8), {num_workers = 2, timeout = 0.2,
            worker_init_fn = function() while true do end end})
         loader:iter()()
      end)
      assert.equal(0, wait_until_gone())
   end)

   it("keeps persistent workers from epoch to epoch", function()
      local starts, sums = program [[
         local Count = torch.class("Count", data.Dataset)
         function Count:__len() return 6 end
         function Count:get(i)
            self.n = (self.n or 0) + 1
            return torch.tensor {i, self.n}
         end
         local loader = data.DataLoader(Count(), {num_workers = 1, persistent_workers = true,
            batch_size = 6})
         local last, sums = {}, {}
         for _ = 1, 3 do
            for x in loader:iter() do
               last[#last + 1] = x[{6, 2}]:item()
               sums[#sums + 1] = x:sum(1)[1]:item()
            end
         end
         return last, sums]]
      assert.same({6, 12, 18}, starts)
      assert.same({21, 21, 21}, sums)
   end)

   it("ends an abandoned loop of persistent workers", function()
      local loader = torch.data.DataLoader(torch.arange(1, 9), {num_workers = 2, persistent_workers = true})
      local old = loader:iter()
      assert.same({1}, old():tolist())
      local list = {}
      for x in loader:iter() do list[#list + 1] = x:item() end
      assert.same({1, 2, 3, 4, 5, 6, 7, 8}, list)
      fails("another loop has begun", function() old() end)
   end)

   it("reads a stream in each worker, and distinguishes workers by get_worker_info", function()
      assert.is_nil(torch.data.get_worker_info())
      local list = program [[
         local Range = torch.class("Range", data.IterableDataset)
         function Range:iter()
            local info = data.get_worker_info()
            local i = info.id - info.num_workers
            return function()
               i = i + info.num_workers
               if i < 7 then return i end
            end
         end
         local list = {}
         for x in data.DataLoader(Range(), {batch_size = 2, num_workers = 2}):iter() do
            list[#list + 1] = x:tolist()
         end
         return list]]
      assert.same({{0, 2}, {1, 3}, {4, 6}, {5}}, list)
   end)

   it("returns batches as soon as they are ready with in_order = false", function()
      local seen = {}
      local loader = torch.data.DataLoader(torch.arange(1, 21), {num_workers = 3, in_order = false,
         prefetch_factor = 1})
      for x in loader:iter() do seen[#seen + 1] = x:item() end
      table.sort(seen)
      for i = 1, 20 do assert.equal(i, seen[i]) end
      assert.equal(20, #seen)
   end)

   it("needs no more memory for more epochs", function()
      local loader = torch.data.DataLoader(torch.randn(64, 256, 16), {batch_size = 16,
         num_workers = 2, shuffle = true})
      local function epoch()
         for x in loader:iter() do assert(x:numel() == 16 * 256 * 16) end
      end
      for _ = 1, 5 do epoch() end
      collectgarbage()
      local before = torch.memory_stats().used
      for _ = 1, 40 do epoch() end
      collectgarbage()
      wait_until_gone()
      assert.truthy(torch.memory_stats().used < before + (4 << 20),
         ("%d after %d bytes"):format(torch.memory_stats().used, before))
   end)

   it("gives workers no library that the program lacks, and no function that ends it", function()
      local output = shell.ok(shell.start() .. [[ -e '
         os.execute, io.open = nil, nil
         local items = {1}
         local f = function() return tostring(os.execute), tostring(io.open), tostring(io.read) ~= "nil" end
         print(torch.data.DataLoader(items, {num_workers = 1, collate_fn = f}):iter()())
         print(pcall(torch.data.DataLoader(items, {num_workers = 1,
            collate_fn = function() os.exit() end}):iter()))']])
      assert.matches("^nil\tnil\ttrue\nfalse\t.*os.exit: a worker cannot end the program", output)
   end)

   it("ends with the program, whatever the workers do", function()
      local output = shell.ok(shell.start() .. [[ -e '
         local loader = torch.data.DataLoader(torch.arange(0, 1000), {num_workers = 4})
         local batches = loader:iter()
         print(batches():item())']])
      assert.equal("0\n", output)
   end)

   it("refuses options that make no sense", function()
      local function try(options) return function() torch.data.DataLoader({1, 2}, options) end end
      fails("prefetch_factor: expected num_workers of at least 1 with it, got 0", try {prefetch_factor = 2})
      fails("persistent_workers: expected num_workers", try {persistent_workers = true})
      fails("timeout: expected seconds, at least 0, got -1", try {timeout = -1})
      fails("num_workers: expected an integer of at least 0, got -1", try {num_workers = -1})
      fails("num_workers: expected 1 to 1024 threads, got 5000",
         function() torch.data.DataLoader({1}, {num_workers = 5000}):iter() end)
      fails("unknown option num_worker; did you mean", try {num_worker = 1})
      fails("shuffle: expected a dataset with items", function() torch.data.DataLoader({}, {shuffle = true}) end)
   end)
end)

it("a DataLoader's state continues in the middle of an epoch, with and without workers", function()
   for _, workers in ipairs {0, 2} do
      local whole, rest = program([[
            local workers = ...
            local Noisy = torch.class("Noisy", data.Dataset)
            function Noisy:__len() return 10 end
            function Noisy:get(i) return torch.rand(1) + i end
            local function make()
               return data.DataLoader(Noisy(), {batch_size = 2, shuffle = true, num_workers = workers})
            end
            torch.manual_seed(3)
            local loader, whole = make(), {}
            local state, rng
            for x in loader:iter() do
               whole[#whole + 1] = x:sum():item() + torch.rand(1):item()
               if #whole == 2 then state, rng = loader:state_dict(), torch.get_rng_state() end
            end
            for x in loader:iter() do whole[#whole + 1] = x:sum():item() end
            torch.manual_seed(99)
            torch.set_rng_state(rng)
            local again, rest = make():load_state_dict(state), {}
            for x in again:iter() do rest[#rest + 1] = x:sum():item() + torch.rand(1):item() end
            for x in again:iter() do rest[#rest + 1] = x:sum():item() end
            return whole, rest]], workers)
      assert.same({table.unpack(whole, 3)}, rest)
      assert.equal(10, #whole)
   end
end)

it("pin_memory puts batches, also those of workers, into pinned memory", function()
   for _, workers in ipairs {0, 2} do
      program([[
            local x = torch.arange(1, 11):float():view(10, 1)
            local set = data.TensorDataset(x, -x)
            local loader = data.DataLoader(set, {batch_size = 4, num_workers = ..., pin_memory = true,
               pin_memory_device = "sim"})
            local rows = {}
            for a, b in loader:iter() do
               assert(a:is_pinned() and b:is_pinned())
               local there = a:to("sim", {non_blocking = true})
               for _, row in ipairs(there:cpu():tolist()) do rows[#rows + 1] = row[1] end
               assert(b:equal(-a))
            end
            assert(table.concat(rows, " ") == "1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0")
            for batch in data.DataLoader({{a = x, n = "text"}}, {batch_size = false, num_workers = ...,
               pin_memory = true, pin_memory_device = "sim"}):iter() do
               assert(batch.a:is_pinned() and batch.n == "text")
            end
         ]], workers)
   end
end)

it("workers have the program's default device and dtype", function()
   local device, dtype = torch.get_default_device(), torch.get_default_dtype()
   local _ <close> = setmetatable({}, {__close = function()
      torch.set_default_device(device)
      torch.set_default_dtype(dtype)
   end})
   torch.set_default_device "sim"
   torch.set_default_dtype "float64"
   local seen = program [[
         local Places = torch.class("Places", data.Dataset)
         function Places.__len() return 2 end
         function Places.get()
            local x = torch.ones(1)
            return tostring(x.device) .. " " .. x.dtype
         end
         local seen = {}
         for batch in data.DataLoader(Places(), {num_workers = 1}):iter() do
            seen[#seen + 1] = batch[1]
         end
         return seen
      ]]
   assert.same({"sim:0 float64", "sim:0 float64"}, seen)
end)
