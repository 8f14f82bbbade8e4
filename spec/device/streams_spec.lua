-- Tests devices and streams: which ones are current, and how streams wait for each other. All tests run on the
-- simulated device.

local torch = require "tlua"
local shell = require "spec.support.shell"
local sim = torch.sim

local function on(index) return {device = "sim:" .. index} end

describe("the devices of a kind", function()
   it("are counted and described", function()
      assert.is_true(sim.is_available())
      assert.is_true(sim.device_count() >= 2)
      assert.matches("simulated device 1", sim.get_device_name(1))
      assert.equal(sim.get_device_name("sim:0"), sim.get_device_properties(0).name)
      assert.is_true(sim.get_device_properties().total_memory > 0)
   end)

   it("are an empty list, without an error, if there is no plugin", function()
      local run = io.popen(("TLUA_PLUGINS=/nowhere %s -e 'print(torch.sim.is_available(), " ..
         "torch.sim.device_count(), torch.sim.empty_cache())' 2>&1"):format(shell.start()))
      local text = run:read "a"
      run:close()
      assert.equal("false\t0\n", text)
   end)

   it("include a current one, which the name of the kind refers to", function()
      assert.equal(0, sim.current_device())
      sim.set_device(1)
      assert.equal(1, sim.current_device())
      assert.equal(torch.device "sim:1", torch.ones(2, {device = "sim"}).device)
      assert.equal(torch.device "sim:1", torch.ones(2, {device = "cpu"}):sim().device)
      sim.set_device("sim:0")
      assert.equal(torch.device "sim:0", torch.ones(2, {device = "sim"}).device)
   end)

   it("can be made current for a function or a scope", function()
      local inside, sum = sim.device(1, function(a, b) return sim.current_device(), a + b end, 2, 3)
      assert.equal(1, inside)
      assert.equal(5, sum)
      do
         local _ <close> = sim.device("sim:1")
         assert.equal(1, sim.current_device())
      end
      assert.is_false(pcall(sim.device, 1, error))
      assert.equal(0, sim.current_device())
   end)

   it("are named in errors", function()
      assert.raises("sim.set_device: device sim:31:", "expected sim:0 to sim:1",
                    function() sim.set_device("sim:31") end)
      assert.raises("sim.set_device: device:", "got string 'cpu'", function() sim.set_device("cpu") end)
      assert.raises("sim.device: device:", "got -1", function() sim.device(-1, print) end)
      assert.raises("sim.synchronize: device:", "got true", function() sim.synchronize(true) end)
   end)

   it("have numbers", function()
      assert.equal(1, sim.get_device_index "sim:1")
      assert.equal(1, sim.get_device_index(1))
      assert.equal(0, sim.get_device_index "sim")
      assert.equal(0, sim.get_device_index(nil, true))
      assert.equal(-1, sim.get_device_index("cpu", {allow_cpu = true}))
      assert.equal(1, sim.device(1, sim.get_device_index, nil, {optional = true}))
      assert.raises("sim.get_device_index: device: expected a number from 0 or a device such as " ..
         '"sim:0", got nil', function() sim.get_device_index() end)
      assert.raises("sim.get_device_index: device: expected", "got string 'cpu'",
         function() sim.get_device_index "cpu" end)
      assert.same({}, sim.get_arch_list())
      assert.raises("sim.ExternalStream: sim:0 has no streams of other libraries",
         function() sim.ExternalStream(1) end)
   end)

   it("have generators", function()
      local generators = sim.default_generators
      assert.equal(sim.device_count(), #generators)
      torch.manual_seed(5)
      assert.equal(5, generators[2]:initial_seed())
      generators[2]:manual_seed(7)
      assert.equal(7, sim.initial_seed(1))
      assert.equal(5, sim.initial_seed(0))
      assert.equal(5, torch.default_generator:initial_seed())
      local x = torch.rand(3, {device = "sim:1"})
      generators[2]:set_state {7, 0}
      assert.same(x:tolist(), torch.rand(3, {device = "sim:1", generator = generators[2]}):tolist())
      assert.not_same(x:tolist(), torch.rand(3, {device = "sim:1"}):tolist())
      torch.default_generator:manual_seed(7)
      assert.same(x:tolist(), torch.rand(3, {device = "cpu"}):tolist())
      torch.manual_seed(1)
   end)

   it("are shown by tensors", function()
      local x = torch.ones(2, {device = "sim"})
      assert.same({false, true, false}, {x.is_cuda, x.is_sim, x.is_cpu})
      assert.is_true(x:cpu().is_cpu)
      assert.equal(torch.device "sim:1", x:sim(1).device)
      assert.raises("sim: device:", "got cpu", function() x:sim("cpu") end)
   end)
end)

describe("a stream", function()
   it("is current for a function, a scope, or from now on", function()
      local s = sim.Stream()
      assert.equal(sim.default_stream(), sim.current_stream())
      assert.not_equal(s, sim.current_stream())
      sim.stream(s, function() assert.equal(s, sim.current_stream()) end)
      do
         local _ <close> = sim.stream(s)
         assert.equal(s, sim.current_stream())
      end
      sim.set_stream(s)
      assert.equal(s, sim.current_stream())
      sim.set_stream(sim.default_stream())
      assert.equal(sim.default_stream(), sim.current_stream())
   end)

   it("makes its device current", function()
      local s = sim.Stream {device = 1}
      assert.equal(torch.device "sim:1", s.device)
      sim.stream(s, function()
         assert.equal(1, sim.current_device())
         assert.equal(sim.default_stream(0), sim.current_stream(0))
      end)
      assert.equal(0, sim.current_device())
      assert.matches("torch%.sim%.Stream%(device=sim:1, id=%d+%)", tostring(s))
   end)

   it("belongs to the coroutine that has made it current", function()
      local s = sim.Stream()
      local co = coroutine.create(function()
         local _ <close> = sim.stream(s)
         coroutine.yield(sim.current_stream())
         return sim.current_stream()
      end)
      assert.equal(s, select(2, coroutine.resume(co)))
      assert.equal(sim.default_stream(), sim.current_stream())
      assert.equal(s, select(2, coroutine.resume(co)))
      assert.equal(sim.default_stream(), sim.current_stream())
      local _ <close> = sim.stream(s)
      assert.equal(s, coroutine.wrap(function() return sim.current_stream() end)())
   end)

   it("does not wait for other streams by itself", function()
      local s = sim.Stream()
      local x = torch.ones(100, on(0))
      s:wait_stream(sim.current_stream())
      local y = sim.stream(s, function() return x * 2 end)
      local waits = sim.waits()
      assert.is_false(s:query())
      assert.equal(waits, sim.waits()) -- the calls above have not made the host wait
      s:synchronize()
      assert.equal(waits + 1, sim.waits())
      assert.is_true(s:query())
      assert.equal(200, y:sum():item())
   end)

   it("reads wrong numbers without a wait, for some seed", function()
      local wrong = 0
      for seed = 1, 20 do
         sim.configure {seed = seed}
         local s = sim.Stream()
         local x = torch.zeros(64, on(0))
         sim.synchronize()
         for _ = 1, 5 do x:add_(1) end
         local y = sim.stream(s, function() return x + 0 end) -- deliberately does not wait for the additions to x
         if sim.stream(s, function() return y:sum():item() end) ~= 5 * 64 then wrong = wrong + 1 end
         sim.synchronize()
      end
      assert.is_true(wrong > 0)
      sim.configure {seed = 1}
   end)

   it("is refused on another device", function()
      assert.raises("sim.stream: stream: expected a Stream", "got 1", function() sim.stream(1, print) end)
      assert.raises("sim.Stream: unknown option 'prioritie'; did you mean 'priority'?",
         function() sim.Stream {prioritie = 1} end)
      assert.raises("sim.Stream.wait_stream: stream:", "got nothing", function() sim.Stream():wait_stream() end)
      assert.raises("record_stream:", "sim:1", "got sim:0",
         function() torch.ones(2, on(1)):record_stream(sim.Stream()) end)
   end)
end)

describe("memory that another stream uses", function()
   -- Releases a tensor while another stream still uses it. If its memory is reused in the order of the tensor's own
   -- stream, the tensor is overwritten at once.
   local function use(record)
      local wrong = 0
      for seed = 1, 20 do
         sim.configure {seed = seed}
         local s = sim.Stream()
         local x = torch.ones(64, on(0))
         s:wait_stream(sim.current_stream())
         local y = sim.stream(s, function() return x + 1 end)
         if record then x:record_stream(s) end
         x:release()
         local z = torch.full({64}, 7, on(0))
         sim.synchronize()
         if y:sum():item() ~= 2 * 64 then wrong = wrong + 1 end
         z:release()
      end
      sim.configure {seed = 1}
      return wrong
   end

   it("is kept for that stream after record_stream", function() assert.equal(0, use(true)) end)
   it("is not kept without record_stream", function() assert.is_true(use(false) > 0) end)
end)
