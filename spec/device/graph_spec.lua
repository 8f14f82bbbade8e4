-- Work that is captured once and replayed.

local torch = require "tlua"
local sim = torch.sim

local function ones(...) return torch.ones(..., {device = "sim"}) end

describe("a graph", function()
   it("records what a function does and runs it at each replay", function()
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

   it("holds a training step", function()
      local function train(replays)
         torch.manual_seed(3)
         local net = torch.nn.Linear(6, 2):to("sim")
         local x, target = torch.randn(5, 6):sim(), torch.randn(5, 2):sim()
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

   it("refuses an operator that waits, by its name, and is closed then", function()
      local x = ones(4)
      for name, fn in pairs {item = function() return x:sum():item() end,
                             nonzero = function() return x:nonzero() end,
                             tolist = function() return x:tolist() end} do
         local g = sim.Graph()
         local ok, message = pcall(sim.graph, g, fn)
         assert.is_false(ok)
         assert.matches("graph_spec.*" .. name .. ": .*while a graph is captured", message)
         assert.is_false(sim.is_current_stream_capturing())
         assert.raises("sim.CUDAGraph.replay: nothing was captured", function() g:replay() end)
         assert.equal(4, x:sum():item()) -- nothing is open
         local y = sim.graph(g, function() return x + 1 end) -- and it may be captured after all
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

   it("is captured once", function()
      local g, x = sim.Graph(), ones(2)
      sim.graph(g, function() return x + 1 end)
      assert.raises("sim.CUDAGraph.capture_begin", "captured already", function() sim.graph(g, print) end)
      assert.raises("sim.CUDAGraph.capture_end: no capture was begun", function() g:capture_end() end)
      assert.raises("sim.graph: fn: expected a function, got nil", function() sim.graph(sim.Graph()) end)
   end)

   it("leaves alone what was released while it was captured", function()
      local g, x, before = sim.Graph(), ones(64), ones(64)
      sim.graph(g, function()
         before:release()
         return x + 1
      end)
      local after = ones(64) -- where `before` was
      g:replay()
      assert.equal(64, after:sum():item())
   end)
end)
