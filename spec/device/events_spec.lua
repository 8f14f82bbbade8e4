-- Tests events. An event marks a point in a stream's work. Other streams can wait for it, and the time between two
-- events can be measured.

local torch = require "tlua"
local sim = torch.sim

describe("an event", function()
   it("may be waited for without having been recorded", function()
      local e = sim.Event()
      assert.is_true(e:query())
      e:wait()
      e:synchronize()
      assert.matches("not recorded", tostring(e))
   end)

   it("makes another stream wait, for any seed", function()
      for seed = 1, 20 do
         sim.configure {seed = seed}
         local s, done = sim.Stream(), sim.Event()
         local x = torch.zeros(64, {device = "sim"})
         for _ = 1, 5 do x:add_(1) end
         done:record()
         local y = sim.stream(s, function()
            done:wait()
            return x + 0
         end)
         sim.current_stream():wait_event(s:record_event())
         assert.equal(5 * 64, y:sum():item())
      end
      sim.configure {seed = 1}
   end)

   it("works between devices", function()
      local there = sim.Stream {device = 1}
      local y = sim.stream(there, function() return torch.ones(8, {device = "sim"}) * 3 end)
      local e = there:record_event()
      sim.current_stream(0):wait_event(e)
      assert.equal(24, y:to("sim:0"):sum():item())
      assert.raises("sim.Event.record: expected a stream of sim:1", "got one of sim:0",
         function() e:record(sim.Stream {device = 0}) end)
   end)

   it("is complete once its stream was waited for", function()
      local e = sim.Event()
      local x = torch.ones(10, {device = "sim"}) + 1
      e:record()
      local asked = 0
      while not e:query() do asked = asked + 1 end -- the simulated device does some work at each query
      e:synchronize()
      assert.is_true(e:query())
      assert.equal(20, x:sum():item())
   end)

   it("measures the time between two of them", function()
      local a, b = sim.Event {enable_timing = true}, sim.Event {enable_timing = true}
      a:record()
      local x = torch.ones(1000, {device = "sim"})
      for _ = 1, 20 do x = x * 1.5 end
      b:record()
      assert.raises("elapsed_time: both events must have been completed", "synchronize first",
                    function() a:elapsed_time(b) end)
      b:synchronize()
      assert.is_true(a:elapsed_time(b) > 0)
   end)

   it("measures no time if it was made without timing, or not recorded", function()
      local a, b = sim.Event(), sim.Event()
      assert.raises("sim.Event.elapsed_time: both events must have been recorded", function() a:elapsed_time(b) end)
      a:record()
      b:record()
      assert.raises("elapsed_time", "enable_timing", function() a:elapsed_time(b) end)
      assert.raises("sim.Event.elapsed_time: event:", "got 1", function() a:elapsed_time(1) end)
      assert.raises("sim.Event: enable_timing: expected true or false, got 1",
         function() sim.Event {enable_timing = 1} end)
   end)
end)
