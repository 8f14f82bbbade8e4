-- Tests failing calls of the device's driver. In a training step, each call in turn fails once. Each failure must raise
-- a clear error, leak nothing, and leave the next step working.

local torch = require "tlua"
local sim, nn = torch.sim, torch.nn

local function settle()
   collectgarbage()
   collectgarbage()
   pcall(sim.synchronize)
   return sim.memory_allocated()
end

describe("a training step whose n-th call of the device fails", function()
   it("is an error, leaves nothing behind, and the next one works", function()
      torch.manual_seed(1)
      local net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)):to("sim")
      local optimizer = torch.optim.SGD(net:parameters(), {lr = 0.01, momentum = 0.9})
      local data = torch.randn(5, 6)
      local labels = torch.tensor({1, 2, 3, 1, 2}):sim()

      local function step()
         local loss = nn.functional.cross_entropy(net(data:sim()), labels)
         optimizer:zero_grad()
         loss:backward()
         optimizer:step()
         return loss:item()
      end

      step()
      -- When memory runs out, the library collects garbage and repeats the call, so a failed allocation does not fail
      -- the step.
      local used, failures, last = nil, 0, 0
      for n = 1, 600 do
         sim.configure {fail_at = n}
         local ok, message = pcall(step)
         sim.configure {fail_at = 0}
         if not ok then
            failures, last = failures + 1, n
            assert.matches("failed on request", message)
            assert.matches("fail_spec%.lua:%d+: ", message)
         end
         local loss = step()
         assert.is_true(loss > 0 and loss < 10, n)
         local now = settle()
         used = used or now
         assert.equal(used, now, "after failure " .. n)
      end
      assert.is_true(failures >= 8, failures)
      assert.is_true(last < 550, last) -- a step makes fewer than 550 calls, so all were tested
   end)

   it("leaves streams, events and graphs usable", function()
      local x = torch.ones(8, {device = "sim"})
      for n = 1, 30 do
         sim.configure {fail_at = n}
         local ok = pcall(function()
            local s = sim.Stream()
            s:wait_stream(sim.current_stream())
            local g = sim.Graph()
            local y = sim.graph(g, function() return x * 2 end)
            g:replay()
            sim.stream(s, function() return (y + 1):sum():item() end)
         end)
         sim.configure {fail_at = 0}
         assert.is_false(sim.is_current_stream_capturing())
         assert.equal(8, x:sum():item())
         if n > 25 then assert.is_true(ok) end
      end
   end)
end)
