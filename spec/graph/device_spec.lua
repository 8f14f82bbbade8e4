-- Tests programs on devices that have memory of their own: the simulated device, and the device that TLUA_SPEC_DEVICE
-- names. The expected values come from eager calls on the same device. If the device uses the CPU's kernels, eager
-- calls on the CPU must give the same values.

local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local device <const> = require("spec.support.device").name or "sim"
local saved = require("spec.support.programs").saved

local function convnet()
   return nn.Sequential(nn.Conv2d(1, 4, 3, {padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
      nn.Linear(64, 5))
end

local function on(place, ...) return torch.randn(...):to(place) end

describe("a program on a device", function()
   before_each(function() torch.manual_seed(1) end)

   it("is exported from a model there, and has its bits", function()
      local model, x = convnet():to(device):eval(), on(device, 3, 1, 8, 8)
      local program = torch.export(model, {x}, {dynamic = {input = {[1] = {max = 6}}}})
      assert.equal(device .. ":0", tostring(program.device))
      for n = 1, 6 do
         local y = on(device, n, 1, 8, 8)
         for _ = 1, 3 do
            local result = program(y)
            assert.equal(device .. ":0", tostring(result.device))
            assert(result:equal(model(y)))
            assert(program(y:cpu()):equal(model(y))) -- the input may be on the host
         end
      end
   end)

   it("is moved to a device and back, and a file has no device", function()
      local model, x = convnet():to "cpu":eval(), on("cpu", 2, 1, 8, 8)
      local program = torch.export(model, {x})
      local there = program:to(device)
      assert.equal("cpu", tostring(program.device))
      local expected = convnet():to "cpu":eval()
      expected:load_state_dict(model:state_dict())
      expected = expected:to(device)(x:to(device))
      assert(there(x):equal(expected))
      assert(there:to "cpu"(x):equal(program(x)))
      local loaded = saved(there):to "cpu"
      assert.equal("cpu", tostring(loaded.device))
      assert(loaded(x):equal(program(x)))
      assert(loaded:to(device)(x):equal(expected))
      assert(there:graph():program()(x):equal(expected))
      local copy, before = there:to(device), there(x)
      local weights = there:graph():program() -- this program shares its weights with the first one
      for _, pair in ipairs(weights.graph_:constants()) do pair[2]:zero_() end
      assert(not there(x):equal(before))
      assert(copy(x):equal(before))
   end)

   it("reads conditions there, and keeps plans of its branches", function()
      local function f(x)
         local y = torch.cond(x:sum():gt(0), function(u) return u:exp() * 2 end,
            function(u) return u:sin() - 1 end, {x})
         return torch.while_loop(function(u) return u:sum():lt(100) end, function(u) return u * u + 1 end, {y})
      end
      local program = torch.export(f, {on(device, 4)})
      for _ = 1, 20 do
         local x = on(device, 4)
         assert(program(x):equal(f(x)))
      end
   end)

   it("plans its memory: later runs ask the device's allocator for their outputs and kernels' scratch alone", function()
      local model, x = convnet():to(device):eval(), on(device, 3, 1, 8, 8)
      local program = torch.export(model, {x})
      for _ = 1, 2 do program(x) end
      local function allocations(run)
         local statistics = torch[device].memory_stats
         local before = statistics()["allocation.all.allocated"]
         for _ = 1, 10 do run(x) end
         return statistics()["allocation.all.allocated"] - before
      end
      -- on a GPU, each convolution also allocates scratch memory for im2col
      local scratch = device == "cuda" and 10 or 0
      assert.equal(10 + scratch, allocations(program))
      assert(allocations(model) >= 50 + scratch)
      assert(program:memory() > 0)
   end)

   it("runs on the caller's stream, with memory for each stream", function()
      local module = torch[device]
      local model, x = convnet():to(device):eval(), on(device, 3, 1, 8, 8)
      local program, expected = torch.export(model, {x}), model(x)
      module.synchronize()
      local streams, results = {module.Stream(), module.Stream()}, {}
      for round = 1, 6 do
         module.stream(streams[round % 2 + 1], function() results[round] = program(x) end)
      end
      module.synchronize()
      for _, result in ipairs(results) do assert(result:equal(expected)) end
   end)

   it("reuses no block that another value still uses, when only some runs copy their input", function()
      local function f(x)
         local a = x * 2
         local b = a + 1
         local c = b * 3
         return c * 5 + b
      end
      local x = on(device, 100)
      local program, apart = torch.export(f, {x}), on(device, 100, 2):select(2, 1)
      for _, y in ipairs {x:cpu(), x, x, apart, x, x:cpu()} do assert(program(y):equal(f(y:to(device)))) end
   end)

   it("takes the device of a tensor for calls without one", function()
      local function f(x)
         return torch.zeros_like(x) + torch.full_like(x, 3) * x:new_ones({3}) + x:to("float64"):to("float32")
      end
      local x = on(device, 3)
      local program = torch.export(f, {x})
      assert(program(x):equal(f(x)))
      assert.equal("cpu", tostring(program:to "cpu"(x:cpu()).device))
      assert(program:to "cpu"(x:cpu()):equal(f(x:cpu())))
   end)

   it("takes patterns that were exported on the CPU", function()
      local three, x = torch.tensor({3, 3}, {dtype = "float32", device = "cpu"}), torch.ones(2, {device = "cpu"})
      local function graph_of(fn, y) return torch.export(fn, {y}):graph() end
      local there = three:to(device)
      local graph = graph_of(function(y) return y * there + 1 end, x:to(device))
      assert.equal(1, graph:replace_pattern(graph_of(function(y) return y * three end, x),
         graph_of(function(y) return y + three end, x)))
      assert(graph:program()(x:to(device)):cpu():equal(torch.tensor({5, 5}, {dtype = "float32", device = "cpu"})))
   end)

   it("makes training steps with eager's bits, and goes on from a file elsewhere", function()
      local function make(place)
         torch.manual_seed(3)
         local model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3)):to(place)
         local optimizer = optim.AdamW(model:parameters(), {lr = 0.05})
         local scheduler = optim.lr_scheduler.StepLR(optimizer, 3)
         local function step(x, y)
            optimizer:zero_grad()
            local loss = nn.functional.cross_entropy(model(x), y)
            loss:backward()
            optimizer:step()
            scheduler:step()
            return loss:detach()
         end
         return step, {model = model, optimizer = optimizer, scheduler = scheduler, steps = 20}, model
      end
      local x, y = on(device, 12, 6), torch.randint(1, 4, {12}):to(device)
      local eager, _, twin = make(device)
      local step, parts, model = make(device)
      local program = torch.export_step(step, {x, y}, parts)
      torch.manual_seed(7)
      local expected = {}
      for i = 1, 8 do expected[i] = eager(x, y):item() end
      torch.manual_seed(7)
      for i = 1, 4 do assert.equal(expected[i], program(x, y):item()) end
      local random = torch.get_rng_state()
      local loaded = saved(program):to(device)
      for i = 5, 8 do assert.equal(expected[i], program(x, y):item()) end
      assert(model[1].weight:equal(twin[1].weight))
      torch.set_rng_state(random)
      for i = 5, 8 do assert.equal(expected[i], loaded(x, y):item()) end
      assert(loaded:state_dict()["1.weight"]:equal(twin[1].weight))
   end)

   it("refuses tensors and operators of other devices", function()
      local function refused(text, fn) assert.raises(text, fn) end
      local model = nn.Linear(2, 2):to(device)
      refused("expected a tensor on cpu, as the others, got one on " .. device, function()
         torch.export(model, {on("cpu", 1, 2)})
      end)
      refused("it uses another device than the model's tensors", function()
         torch.export(function(x) return x:to "cpu" end, {on(device, 2)})
      end)
      local program = torch.export(nn.ReLU(), {on("cpu", 2)})
      refused("program: input: expected a tensor on the CPU, got one on " .. device, function()
         program(on(device, 2))
      end)
      refused("program.to: device: expected a device, got \"gpu\"", function() program:to "gpu" end)
      refused("program: expected a device that computes", function() program:to "meta" end)
      assert.equal(0.5, torch.export(function(x) return x * torch.tensor(0.5, {device = "cpu"}) end,
         {on(device, 1)})(torch.ones(1, {device = "cpu"})):item())
   end)
end)
