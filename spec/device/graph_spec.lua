-- Tests graphs, which capture a device's work once and replay it many times.

local torch = require "tlua"
local device = require "spec.support.device"
local sorted = require "spec.support.sorted"
local kind = device.name or "sim"
local sim = torch[kind]

local function ones(...) return torch.ones(..., {device = kind}) end

-- Returns a text with the name of the device's module in front, such as "sim.Graph".
local function named(text) return kind .. "." .. text end

describe("a graph", function()
   it("records a function's work and runs it at each replay", function()
      local g, x = sim.Graph(), ones(4)
      local y, name = sim.graph(g, function(by) return (x * by + 1):sum(), "sum" end, 2)
      assert.equal("sum", name)
      g:replay()
      assert.equal(12, y:item())
      x:fill_(5)
      g:replay()
      assert.equal(44, y:item())
      assert.equal(sim.default_stream(), sim.current_stream())
   end)

   it("is not left open by a coroutine that is closed, nor by another stream at the end", function()
      local g, x, side = sim.Graph(), ones(4), sim.Stream()
      local co = coroutine.create(function() sim.graph(g, coroutine.yield) end)
      assert.is_true(coroutine.resume(co))
      assert.is_true(coroutine.close(co))
      sim.synchronize()
      assert.raises(named "CUDAGraph.capture_end", "a capture ends on the stream", function()
         sim.graph(g, function() sim.set_stream(side) end)
      end)
      sim.synchronize()
      sim.graph(g, function() x:add_(1) end)
      g:replay()
      assert.equal(8, x:sum():item())
   end)

   it("runs nothing while it is captured", function()
      local g, x = sim.Graph(), ones(4)
      sim.graph(g, function()
         assert.is_true(sim.is_current_stream_capturing())
         x:add_(1)
      end)
      assert.is_false(sim.is_current_stream_capturing())
      assert.equal(4, x:sum():item())
      g:replay()
      g:replay()
      assert.equal(12, x:sum():item())
   end)

   it("has PyTorch's other form, too", function()
      local g, x = sim.CUDAGraph(), ones(4)
      local y
      sim.stream(sim.Stream(), function()
         sim.current_stream():wait_stream(sim.default_stream())
         g:capture_begin()
         y = x * 3
         g:capture_end()
      end)
      g:replay()
      assert.equal(12, y:sum():item())
   end)

   it("can contain a training step", function()
      local function train(replays)
         torch.manual_seed(3)
         local net = torch.nn.Linear(6, 2):to(kind)
         local x, target = torch.randn(5, 6):to(kind), torch.randn(5, 2):to(kind)
         local function step()
            local loss = torch.nn.functional.mse_loss(net(x), target)
            local grads = {torch.autograd.grad(loss, net:parameters())}
            if type(grads[1]) == "table" then grads = grads[1] end
            torch.no_grad(function()
               for i, p in ipairs(net:parameters()) do p:sub_(grads[i] * 0.1) end
            end)
         end
         if replays then
            local g = sim.Graph()
            sim.graph(g, step)
            for _ = 1, 5 do g:replay() end
         else
            for _ = 1, 5 do step() end
         end
         return net.weight:detach():cpu():tolist()
      end
      assert.same(train(false), train(true))
   end)

   it("refuses an operator that waits, by its name, and ends the capture", function()
      local x = ones(4)
      for name, fn in sorted {item = function() return x:sum():item() end,
                             nonzero = function() return x:nonzero() end,
                             tolist = function() return x:tolist() end} do
         local g = sim.Graph()
         local ok, message = pcall(sim.graph, g, fn)
         assert.is_false(ok)
         assert.matches("graph_spec.*" .. name .. ": .*while a graph is captured", message)
         assert.is_false(sim.is_current_stream_capturing())
         assert.raises(named "CUDAGraph.replay: nothing was captured", function() g:replay() end)
         assert.equal(4, x:sum():item()) -- the error has ended the capture, so the device works normally
         -- the failed capture has left the graph empty, so it can be captured now
         local y = sim.graph(g, function() return x + 1 end)
         g:replay()
         assert.equal(8, y:sum():item())
      end
   end)

   it("closes when it is collected or its scope ends", function()
      local x = ones(4)
      local s = sim.Stream()
      sim.stream(s, function()
         do
            local g <close> = sim.Graph()
            g:capture_begin()
            assert.is_true(sim.is_current_stream_capturing())
         end
         assert.is_false(sim.is_current_stream_capturing())
      end)
      assert.equal(4, x:sum():item())
   end)

   it("can be captured only once", function()
      local g, x = sim.Graph(), ones(2)
      sim.graph(g, function() return x + 1 end)
      assert.raises(named "CUDAGraph.capture_begin", "captured already", function() sim.graph(g, print) end)
      assert.raises(named "CUDAGraph.capture_end: no capture was begun", function() g:capture_end() end)
      assert.raises(named "graph: fn: expected a function, got nil", function() sim.graph(sim.Graph()) end)
   end)

   it("does not write to memory that was released during the capture", function()
      local g, x, before = sim.Graph(), ones(64), ones(64)
      sim.graph(g, function()
         before:release()
         return x + 1
      end)
      local after = ones(64) -- outside of the graph, `after` gets the address of `before`, which the capture released
      g:replay()
      assert.equal(64, after:sum():item())
   end)

   it("keeps the memory that it reads and writes, even if all other owners release it", function()
      local g, x, sum = sim.Graph(), ones(64), ones(64)
      local pinned = torch.ones(64, {device = "cpu"}):pin_memory()
      local collected = setmetatable({sum, ones(64)}, {__mode = "v"})
      local function step()
         local other = collected[2]
         sum:add_(x):add_(other):add_(pinned:to(kind, {non_blocking = true}))
         return sum * 1
      end
      local y = sim.graph(g, step)
      x:release()
      pinned:release()
      sum = nil -- luacheck: ignore
      step = nil -- luacheck: ignore
      for _ = 1, 3 do collectgarbage() end
      assert.same({}, collected)
      local others = {}
      for i = 1, 32 do
         others[i] = torch.full({64}, 100, {device = kind})
         others[-i] = torch.full({64}, 100, {device = "cpu"}):pin_memory()
      end
      g:replay()
      assert.equal(4 * 64, y:sum():item())
      g:replay()
      assert.equal(7 * 64, y:sum():item())
      for i = 1, 32 do assert.equal(6400, others[i]:sum():item()) end
   end)

   it("releases that memory when it is freed and its last replay is complete", function()
      local function settle()
         collectgarbage()
         collectgarbage()
         sim.synchronize()
         return sim.memory_allocated()
      end
      local before = settle()
      local g, x = sim.Graph(), ones(1 << 20)
      local sum = ones(1 << 20)
      sim.graph(g, function() sum:add_(x) end)
      x:release()
      assert.equal(8 << 20, (settle() - before) // (1 << 20) << 20)
      local s = sim.Stream()
      sim.stream(s, function() g:replay() end)
      g:reset()
      -- this tensor must not get the address of x, because a replay may still read x
      local other = ones(1 << 20):mul_(50)
      sim.current_stream():wait_stream(s)
      assert.equal(2 << 20, sum:sum():item())
      assert.equal(50 << 20, other:sum():item())
      other, sum = other:release(), sum:release() -- luacheck: ignore
      assert.equal(before, settle())
   end)
end)

describe("random numbers in a graph", function()
   it("are the same although the graph has used other memory before", function()
      local x, g, y = ones(64), sim.CUDAGraph(), nil
      sim.graph(g, function()
         local temporary = {}
         for n = 1, 4 do temporary[n] = x[{{1, n}}] * 2 end
         for n = 1, 4 do temporary[n]:release() end
         y = torch.rand(64, {device = kind})
      end)
      torch.manual_seed(1)
      local expected = torch.rand(128, {device = kind})
      torch.manual_seed(1)
      g:replay()
      assert.same(expected[{{1, 64}}]:tolist(), y:tolist())
      g:replay()
      assert.same(expected[{{65, 128}}]:tolist(), y:tolist())
   end)

   it("come from at most eight generators", function()
      local all = {}
      for i = 1, 9 do all[i] = torch.Generator(kind):manual_seed(i) end
      local function draw(n)
         local g, sum = sim.CUDAGraph(), nil
         sim.graph(g, function()
            sum = torch.zeros(3, {device = kind})
            for i = 1, n do sum = sum + torch.rand(3, {device = kind, generator = all[i]}) end
         end)
         return g, sum
      end
      local g, sum = draw(8)
      g:replay()
      local expected = torch.zeros(3, {device = kind})
      for i = 1, 8 do
         local same = torch.Generator(kind):manual_seed(i)
         expected = expected + torch.rand(3, {device = kind, generator = same})
      end
      assert.same(expected:tolist(), sum:tolist())
      local ok, message = pcall(draw, 9)
      assert.is_false(ok)
      assert.matches("rand: a graph draws from at most 8 generators", message)
   end)

   local function list(t) return t:cpu():tolist() end

   it("are different at each replay, and equal those of the calls without a graph", function()
      local functional = torch.nn.functional
      local x, q = torch.full({8}, 0.5, {device = kind}), torch.randn(1, 2, 5, 4):to(kind)
      local draws = {
         randn = function() return torch.randn(5, {device = kind}) end,
         randint = function() return torch.randint(1, 1000, {5}, {device = kind}) end,
         uniform_ = function() return torch.empty(5, {device = kind}):uniform_(2, 3) end,
         float64 = function() return torch.rand(5, {device = kind, dtype = "float64"}) end,
         bernoulli = function() return torch.cat {x, x, x, x}:bernoulli() end,
         exponential_ = function() return torch.empty(5, {device = kind}):exponential_() end,
         geometric_ = function() return torch.empty(9, {device = kind}):geometric_(0.1) end,
         normal = function() return torch.normal(x, 1) end,
         dropout = function() return functional.dropout(torch.cat {x, x, x, x}, 0.5) end,
         attention = function() return functional.scaled_dot_product_attention(q, q, q, {dropout_p = 0.5}) end,
         two = function() return torch.rand(3, {device = kind}) + torch.rand(3, {device = kind}) end,
      }
      for name, draw in sorted(draws) do
         local g = sim.Graph()
         torch.manual_seed(99) -- seeding the generator before the capture does not change the replays' random numbers
         local y = sim.graph(g, draw)
         torch.manual_seed(5)
         g:replay()
         local first = list(y)
         g:replay()
         local second = list(y)
         local after = torch.rand(2):tolist() -- the generator has advanced by the graph's random numbers
         torch.manual_seed(5)
         assert.same(list(draw()), first, name)
         assert.same(list(draw()), second, name)
         assert.same(torch.rand(2):tolist(), after, name)
         assert.not_same(first, second, name)
      end
   end)

   it("come from a generator that was given, which the graph keeps", function()
      local g, gen = sim.Graph(), torch.Generator()
      local y = sim.graph(g, function() return torch.rand(4, {device = kind, generator = gen}) end)
      gen:manual_seed(3)
      g:replay()
      local first = list(y)
      gen = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      g:replay()
      local same = torch.Generator():manual_seed(3)
      assert.same(list(torch.rand(4, {device = kind, generator = same})), first)
      assert.same(list(torch.rand(4, {device = kind, generator = same})), list(y))
   end)

   it("are the same for a forward pass and its gradient", function()
      local g = sim.Graph()
      local x = ones(64):requires_grad_()
      local y, dx = sim.graph(g, function()
         local y = torch.nn.functional.dropout(x, 0.5)
         return y, torch.autograd.grad(y:sum(), x)
      end)
      for _ = 1, 3 do
         g:replay()
         assert.same(list(y:detach()), list(dx))
      end
   end)

   it("remain available for a gradient that is computed after the graph is freed", function()
      local g, size = sim.Graph(), {1, 2, 16, 8}
      local query, key, value = ones(size), ones(size), ones(size):requires_grad_()
      local y = sim.graph(g,
         function() return torch.nn.functional.scaled_dot_product_attention(query, key, value, nil, 0.5) end)
      g:replay()
      local before = torch.autograd.grad(y:sum(), value, {retain_graph = true})
      g:reset()
      sim.empty_cache()
      local others = {}
      -- these tensors reuse the memory that the graph has freed
      for i = 1, 64 do others[i] = ones(2) end
      assert.same(list(before), list(torch.autograd.grad(y:sum(), value)))
      assert.equal(2, others[64]:sum():item())
   end)
end)

describe("streams in a graph", function()
   it("take part from their first wait for its work until it waits for them", function()
      local g, x = sim.Graph(), ones(1000)
      local side, third = sim.Stream(), sim.Stream()
      local y = sim.graph(g, function()
         local a = x * 2
         local fork = sim.current_stream():record_event()
         local b, c
         sim.stream(side, function()
            assert.is_false(sim.is_current_stream_capturing())
            side:wait_event(fork)
            assert.is_true(sim.is_current_stream_capturing())
            b = a + 1
            sim.stream(third, function() -- a third stream, which waits for the second stream
               third:wait_stream(side)
               c = b * 10
            end)
            side:wait_stream(third)
         end)
         local d = a * 3
         sim.current_stream():wait_stream(side)
         return b + c + d
      end)
      for _, s in ipairs {side, third} do
         sim.stream(s, function() assert.is_false(sim.is_current_stream_capturing()) end)
      end
      for i = 1, 10 do
         x:fill_(i)
         g:replay()
         assert.equal(1000 * (11 * (2 * i + 1) + 6 * i), y:sum():item())
      end
   end)

   it("must be joined; otherwise the capture fails and is closed", function()
      local g, x, side = sim.Graph(), ones(10), sim.Stream()
      local function fork(joined)
         return function()
            side:wait_stream(sim.current_stream())
            sim.stream(side, function() x:add_(1) end)
            if joined then sim.current_stream():wait_stream(side) end
         end
      end
      assert.raises(named "CUDAGraph.capture_end", "joined", function() sim.graph(g, fork(false)) end)
      sim.stream(side, function()
         assert.is_false(sim.is_current_stream_capturing())
         assert.equal(20, (x + 1):sum():item())
      end)
      sim.graph(g, fork(true))
      g:replay()
      assert.equal(20, x:sum():item())
   end)

   it("cannot wait for an event that was recorded elsewhere; the capture continues", function()
      local g, x, side = sim.Graph(), ones(10), sim.Stream()
      local before, within = sim.Event(), sim.Event()
      before:record(side)
      sim.graph(g, function()
         assert.raises("wait_event", "recorded outside of the graph that is captured",
            function() sim.current_stream():wait_event(before) end)
         assert.raises("query", "not possible while a graph is captured", function() sim.current_stream():query() end)
         assert.raises("synchronize", "not possible while a graph is captured",
            function() sim.current_stream():synchronize() end)
         within:record()
         x:add_(1)
      end)
      g:replay()
      assert.equal(20, x:sum():item())
      assert.raises("wait_event", "in a capture that has ended; record it again",
         function() side:wait_event(within) end)
      for _, method in ipairs {"query", "synchronize"} do
         assert.raises(method, "the event was recorded while a graph was captured",
            function() within[method](within) end)
      end
      within:record(side) -- outside of the graph, the event can be recorded again
      within:synchronize()
      assert.is_true(within:query())
   end)

   it("are refused if they belong to another graph's capture", function()
      local g, other, x = sim.Graph(), sim.Graph(), ones(10)
      local s, t, e = sim.Stream(), sim.Stream(), sim.Event()
      sim.stream(s, function()
         g:capture_begin {capture_error_mode = "relaxed"}
         x:add_(1)
         e:record()
      end)
      sim.stream(t, function()
         other:capture_begin {capture_error_mode = "relaxed"}
         assert.raises("wait_event", "recorded in another capture", function() t:wait_event(e) end)
         x:mul_(3)
         other:capture_end()
      end)
      sim.stream(s, function() g:capture_end() end)
      g:replay()
      other:replay()
      assert.equal(60, x:sum():item())
   end)
end)

describe("a capture", function()
   it("ends on the stream that it was begun on, and stays open elsewhere", function()
      local g, x, s = sim.Graph(), ones(10), sim.Stream()
      sim.stream(s, function()
         g:capture_begin()
         x:add_(1)
      end)
      assert.raises(named "CUDAGraph.capture_end: a capture ends on the stream that it was begun on",
         function() g:capture_end() end)
      sim.stream(s, function()
         assert.is_true(sim.is_current_stream_capturing())
         g:capture_end()
      end)
      g:replay()
      assert.equal(20, x:sum():item())
   end)

   it("cannot be begun within another, and a graph cannot be replayed there", function()
      local g, other, x = sim.Graph(), sim.Graph(), ones(10)
      sim.graph(g, function()
         assert.raises(named "CUDAGraph.capture_begin", "not possible while a graph is captured",
            function() other:capture_begin() end)
         assert.raises(named "CUDAGraph.replay", "the capture has not been ended", function() g:replay() end)
         x:add_(1)
      end)
      assert.raises(named "CUDAGraph.replay", "not possible while a graph is captured", function()
         sim.graph(other, function() g:replay() end)
      end)
      g:replay()
      assert.equal(20, x:sum():item())
   end)

   it("that was not ended is closed with its graph, and never runs", function()
      local x, s = ones(10), sim.Stream()
      local g = sim.Graph()
      sim.stream(s, function()
         g:capture_begin()
         x:add_(1)
      end)
      assert.raises(named "synchronize", "not possible while a graph is captured", function() sim.synchronize() end)
      g = nil -- luacheck: ignore (the collector may take the graph from here on)
      collectgarbage()
      collectgarbage()
      sim.synchronize()
      assert.equal(10, x:sum():item())
      sim.stream(s, function() assert.equal(20, (x + 1):sum():item()) end)
   end)

   it("takes a stream, a pool and a mode by name", function()
      local x, s, pool = ones(10), sim.Stream(), sim.graph_pool_handle()
      local g = sim.Graph()
      local y = sim.graph(g, {stream = s, pool = pool, capture_error_mode = "thread_local"},
         function(by)
            assert.is_true(sim.current_stream() == s)
            return x * by
         end, 3)
      g:replay()
      assert.equal(30, y:sum():item())
      assert.equal(pool, g:pool())
      assert.raises(named "graph: unknown option strem; did you mean stream?",
         function() sim.graph(sim.Graph(), {strem = s}, print) end)
      assert.raises(named "graph: graph: expected a result of Graph(), got 3", function() sim.graph(3, print) end)
      assert.raises("a graph is captured on a stream other than the default one",
         function() sim.graph(sim.Graph(), {stream = sim.default_stream()}, print) end)
      assert.raises("pool: expected a result of graph_pool_handle() or g:pool(), got -1",
         function() sim.graph(sim.Graph(), {pool = -1}, print) end)
      assert.is_false(sim.is_current_stream_capturing())
   end)
end)

describe("memory of graphs", function()
   local MIB = 1 << 20

   local function settle()
      collectgarbage()
      collectgarbage()
      sim.synchronize()
      sim.empty_cache()
      return sim.memory_reserved()
   end

   -- Captures a graph that computes a number and needs two blocks of 16 MiB for it. Returns the graph and the number.
   local function captured(pool, x)
      local g = sim.Graph()
      local y = sim.graph(g, {pool = pool}, function()
         local a <close> = x * 2
         local b <close> = a + 1
         return b:sum()
      end)
      return g, y
   end

   it("is not reused while the graph may be replayed", function()
      local x = ones(4 * MIB)
      local g, y = captured(nil, x)
      local others = {}
      for i = 1, 8 do others[i] = torch.zeros(4 * MIB, {device = kind}) end
      for i = 1, 3 do
         x:fill_(i)
         g:replay()
         assert.equal(4 * MIB * (2 * i + 1), y:item())
      end
      for i = 1, 8 do assert.equal(0, others[i]:sum():item()) end
      others, x = nil, nil -- luacheck: ignore
      local with = settle()
      g:reset()
      y = nil -- luacheck: ignore
      assert.is_true(with - settle() >= 32 * MIB)
   end)

   it("is shared by graphs that name one pool", function()
      local x = ones(4 * MIB)
      local other = captured(nil, x) -- the generator states of all graphs are in one memory segment
      local base = settle()
      local first, y = captured(nil, x)
      local once = settle() - base
      local second, z = captured(first:pool(), x)
      assert.equal(once, settle() - base)
      assert.equal(first:pool(), second:pool())
      local third = captured(nil, x)
      assert.equal(2 * once, settle() - base)
      assert.not_equal(first:pool(), third:pool())
      third:reset()
      first:replay()
      assert.equal(12 * MIB, y:item())
      second:replay()
      assert.equal(12 * MIB, z:item())
      first:reset()
      assert.equal(once, settle() - base) -- the other graph still uses the segment
      second:replay()
      assert.equal(12 * MIB, z:item())
      second:reset()
      y, z = nil, nil -- luacheck: ignore
      assert.equal(0, settle() - base)
      other:reset()
   end)
end)
