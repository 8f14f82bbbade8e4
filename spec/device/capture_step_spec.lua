-- Tests training steps and modules that are captured once as a graph and then replayed. Their results are compared with
-- those of eager runs.

local torch = require "tlua"
local device = require "spec.support.device"
local sorted = require "spec.support.sorted"
local kind = device.name or "sim"
local nn, optim, sim, F = torch.nn, torch.optim, torch[kind], torch.nn.functional

local function model()
   torch.manual_seed(11)
   local net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 3))
   return net:to(kind)
end

local makers = {
   AdamW = function(p) return optim.AdamW(p, {lr = 0.01, capturable = true}) end,
   SGD = function(p) return optim.SGD(p, {lr = 0.05, momentum = 0.9}) end,
}

-- Makes n training steps on different inputs. Returns the bits of the losses, and the final parameters. With `folded`,
-- the scaler's step also clips the gradients.
local function train(n, captured, make, scaled, folded)
   local net = model()
   local optimizer = make(net:parameters())
   local scaler = scaled and torch.amp.GradScaler(kind, {init_scale = 2 ^ 12, growth_interval = 7})
   local function one(x, y)
      optimizer:zero_grad()
      local loss = torch.autocast({device = kind, enabled = scaled ~= nil, dtype = "float16"},
         function() return F.cross_entropy(net(x), y) end)
      if scaler then
         scaler:scale(loss):backward()
         if folded then
            scaler:step(optimizer, {max_norm = 1.0})
         else
            scaler:unscale_(optimizer)
            nn.utils.clip_grad_norm_(net:parameters(), 1.0)
            scaler:step(optimizer)
         end
         scaler:update()
      else
         loss:backward()
         optimizer:step()
      end
      return loss:detach()
   end
   local step = captured and sim.capture_step(one, {torch.zeros(8, 6), torch.ones(8, {dtype = "int64"})})
      or function(x, y) return one(x:to(kind), y:to(kind)) end
   local losses = {}
   local data = torch.Generator():manual_seed(5)
   for i = 1, n do
      local x = torch.randn(8, 6, {generator = data})
      if scaled and i == 20 then x[{1, 1}] = math.huge end
      losses[i] = step(x, torch.randint(1, 4, {8}, {generator = data})):item()
   end
   local parameters = {}
   for i, p in ipairs(net:parameters()) do parameters[i] = p:detach():cpu():tolist() end
   return {losses = losses, parameters = parameters, scale = scaler and scaler:get_scale()}, step
end

local function text(run) -- converts the results of a run to text for comparisons, because NaN is not equal to NaN
   return ("%s"):rep(3, "\n"):format(table.concat(run.losses, " "), run.scale, torch.tensor(run.parameters[1]))
end

describe("a captured step", function()
   for name, make in sorted(makers) do
      it("has the bits of 50 steps that are not: " .. name, function()
         local eager, replayed = train(50, false, make), train(50, true, make)
         assert.same(eager.losses, replayed.losses)
         assert.same(eager.parameters, replayed.parameters)
      end)

      for what, folded in sorted {
         ["has them with autocast, a scaler and clipping, and leaves out a step: "] = false,
         ["has the bits of separate calls if one step unscales and clips: "] = true,
      } do
         it(what .. name, function()
            local eager, replayed = train(50, false, make, true), train(50, true, make, true, folded)
            assert.equal(text(eager), text(replayed))
            assert.same(eager.parameters, replayed.parameters)
            assert.equal(eager.scale, replayed.scale)
            -- the loss of step 20 is NaN, so the scaler has skipped this step
            assert.is_true(eager.losses[20] ~= eager.losses[20])
         end)
      end
   end

   -- This test runs only on a device that counts waits, which is the simulated device.
   local counting = sim.waits and it or function() end
   counting("waits for nothing once it is captured", function()
      local _, step = train(4, true, makers.AdamW, true)
      assert.is_true(step.captured)
      local x, y = torch.randn(8, 6):to(kind), torch.ones(8, {dtype = "int64"}):to(kind)
      local before = sim.waits()
      for _ = 1, 5 do step(x, y) end
      assert.equal(before, sim.waits())
   end)

   it("refuses inputs that differ from the first ones, and continues", function()
      local _, step = train(5, true, makers.SGD)
      local x, y = torch.randn(8, 6), torch.ones(8, {dtype = "int64"})
      assert.raises(kind .. ".capture_step: input 1: expected a float32 tensor of shape (8, 6), as when it "
         .. "was captured, got a float32 tensor of shape (7, 6)", function() step(x[{{1, 7}}], y) end)
      assert.raises("input 2: expected an int64 tensor of shape (8)", function() step(x, y:float()) end)
      assert.raises("expected 2 inputs, got 1", function() step(x) end)
      step(x, y)
   end)

   -- Returns a model, its optimizer, a captured step, and the step's arguments.
   local function captured_training()
      local net = model()
      local adam = makers.AdamW(net:parameters())
      local step = sim.capture_step(function(x)
         adam:zero_grad()
         net(x):sum():backward()
         adam:step()
      end, {torch.zeros(2, 6)}, {warmup = 1})
      local x = torch.ones(2, 6)
      for _ = 1, 3 do step(x) end
      return net, adam, step, x
   end

   it("refuses an optimizer that was changed, and continues once it is restored", function()
      local net, adam, step, x = captured_training()
      local group, before = adam.param_groups[1], net[1].bias:tolist()
      group.lr = 0.5
      assert.raises("lr of group 1 was changed from 0.01 to 0.5 since the capture; to change the rate "
         .. "make it a tensor", function() step(x) end)
      group.lr = 0.01
      adam:add_param_group({params = {torch.zeros(1, {device = kind, requires_grad = true})}})
      assert.raises("optim.AdamW has another group since the capture", function() step(x) end)
      assert.same(before, net[1].bias:tolist())
      step:reset()
      step(x)
      assert.is_false(step.captured)
      step(x)
      assert.is_true(step.captured)
   end)

   it("refuses parameters or an optimizer whose memory has moved", function()
      local net, adam, step, x = captured_training()
      adam:load_state_dict(adam:state_dict())
      assert.raises(kind .. ".capture_step: optim.AdamW has another state since the capture", function() step(x) end)
      step:reset()
      for _ = 1, 3 do step(x) end
      adam:zero_grad()
      net[1].bias.data = net[1].bias:detach():clone()
      assert.raises("optim.AdamW: parameter 2 of group 1 has its values elsewhere", function() step(x) end)
   end)

   it("refuses a count that each call changes and reads, and allows one that has no effect", function()
      local n, log = 0, {}
      local function captured(count)
         local step = sim.capture_step(function(x)
            log[#log + 1] = n
            return count() > 50 and x * 2 or x + 1
         end, {torch.ones(2)}, {warmup = 1})
         step(torch.ones(2))
         return step
      end
      local counts = captured(function()
         local v = n + 1
         n = v
         return v
      end)
      for _ = 1, 2 do
         assert.error_matches(function() counts(torch.ones(2)) end, kind .. ".capture_step: the variable n has another "
            .. "value in each call of the function, which reads it; a replay would repeat the value of the example")
      end
      assert.is_false(counts.captured)
      local done, calls = captured(function() return 1 end), 0
      assert.same({1, 1}, done(torch.zeros(2)):tolist())
      assert.is_true(done.captured)
      done = captured(function()
         calls = calls + 1
         return 1
      end)
      assert.same({1, 1}, done(torch.zeros(2)):tolist())
      assert.is_true(done.captured)
   end)

   it("refuses functions whose results differ in each call, and counts of the optimizer", function()
      local function refused(pattern, fn)
         local w = torch.ones(2):to(kind):requires_grad_()
         local sgd = optim.SGD({w}, {lr = 0.1})
         local step = sim.capture_step(function(x) return fn(x, sgd) end, {torch.ones(2)}, {warmup = 1})
         step(torch.ones(2))
         assert.error_matches(function() step(torch.ones(2)) end, kind .. ".capture_step: " .. pattern)
         assert.is_false(step.captured)
      end
      local numbers = coroutine.wrap(function() for n = 1, 100 do coroutine.yield(n) end end)
      for name, advice in pairs {
         ["math.random"] = "use torch.rand, which gives other numbers each time, or ",
         ["os.time"] = "call it outside of the function, or ",
      } do
         local fn = load("return " .. name)()
         refused(".*capture_step_spec.lua:%d+: " .. name .. " is called, whose result or effect may differ next time, "
            .. "but a replay repeats only operators; " .. advice .. "pass its result as an input",
            function(x) return x * fn() end)
      end
      refused(".*: a coroutine is called", function(x) return x * numbers() end)
      refused("the function draws random numbers on the CPU, and a replay would use those of the capture; draw them on "
         .. "the device", function(x)
         return torch.rand(1, {device = "cpu"}):item() < 0.5 and x or x * 2
      end)
      local path <const> = os.tmpname()
      local file = assert(io.open(path, "w"))
      for i = 1, 9 do file:write(i, "\n") end
      file:close()
      file = assert(io.open(path))
      refused(".*: file:read is called", function(x) return x * file:read "n" end)
      file:close()
      local lines = io.lines(path)
      refused(".*: the iterator of io.lines is called", function(x) return x * tonumber(lines()) end)
      os.remove(path)
      local key = "part"
      for name, owner in pairs {
         ["optimizer.part"] = function(sgd) return sgd end,
         ["optimizer.param_groups%[1%].part"] = function(sgd) return sgd.param_groups[1] end,
         ["optimizer.state.part"] = function(sgd) return sgd.state end,
      } do
         local holder = {}
         refused(name .. " has another value in each call", function(x, sgd)
            holder.optimizer = sgd
            local of = owner(holder.optimizer)
            of[key] = (of[key] or 0) + 1
            return of[key] > 50 and x * 2 or x + 1
         end)
      end
   end)

   it("refuses a step that uses a tensor of an earlier call, and names the variable", function()
      local function captured(fn)
         local step = sim.capture_step(fn, {torch.ones(2)}, {warmup = 2})
         for _ = 1, 2 do step(torch.ones(2)) end
         return step
      end
      local total, state, net, last = nil, nil, nn.Linear(2, 2):to(kind), nil
      for name, fn in pairs {
         ["the variable total"] = function(x)
            total = (total or 0) + x
            return x * 2
         end,
         ["the variable state"] = function(x)
            state = {h = state and state.h * 0.5 + x or x}
            return state.h:sum()
         end,
         ["hidden of net"] = function(x)
            net.hidden = net.hidden and net(net.hidden):detach() + x or x * 1
            return net.hidden:sum()
         end,
         ["the variable last"] = function(x)
            local before = last or x
            last = x * 2
            return before
         end,
      } do
         local step = captured(fn)
         assert.error_matches(function() step(torch.ones(2)) end, kind .. ".capture_step: the function uses the tensor "
            .. "that an earlier call has left in " .. name .. ", but a replay would use the one of the capture; keep "
            .. "one tensor there, and change it in place, as copy_ does")
      end
   end)

   it("refuses a step that changes a tensor on the CPU", function()
      local net, count = nn.Linear(2, 2):to(kind), torch.zeros(1, {device = "cpu"})
      net.steps = torch.zeros(1, {device = "cpu"})
      local average = optim.swa_utils.AveragedModel(net)
      for name, fn in pairs {
         ["count"] = function() count:add_(1) end,
         ["steps of net"] = function() net.steps:add_(1) end,
         ["average.n_averaged"] = function() average:update_parameters(net) end,
      } do
         local step = sim.capture_step(function(x)
            fn()
            return net(x)
         end, {torch.ones(2)}, {warmup = 1})
         step(torch.ones(2))
         assert.error_matches(function() step(torch.ones(2)) end, kind .. ".capture_step: the function changes " .. name
            .. ", a tensor on the CPU, which a replay does not repeat; move it to the device, or change it outside")
      end
   end)

   it("allows tensors in variables that each call sets before it reads them, or changes in place", function()
      local sum, log, net = torch.zeros(2):to(kind), {}, nn.Linear(2, 2):to(kind)
      local step = sim.capture_step(function(x)
         net.output = net(x):detach()
         log.half = net.output * 0.5
         sum:add_(log.half)
         return log.half * 2
      end, {torch.ones(2)}, {warmup = 1})
      local expected = torch.zeros(2):to(kind)
      for i = 1, 4 do
         local x = torch.ones(2):mul(i):to(kind)
         local y = net(x):detach()
         expected:add_(y * 0.5)
         assert(step(x):equal(y) and net.output:equal(y) and log.half:equal(y * 0.5) and sum:equal(expected), i)
      end
   end)

   it("cannot be nested", function()
      local inner = sim.capture_step(function(x) return x * 2 end, {torch.ones(2)}, {warmup = 1})
      local outer = sim.capture_step(function(x) return inner(x) end, {torch.ones(2)}, {warmup = 1})
      outer(torch.ones(2))
      assert.raises(kind .. ".graph: a graph is captured already; captures do not nest",
         function() outer(torch.ones(2)) end)
   end)

   it("uses a learning rate in a tensor", function()
      local function run(captured)
         local p = torch.ones(2, {device = kind, requires_grad = true})
         local rate = torch.tensor(0.5):to(kind)
         local sgd = optim.SGD({p}, {lr = rate})
         local function one(x)
            sgd:zero_grad()
            x:mul(p):sum():backward()
            sgd:step()
         end
         local step = captured and sim.capture_step(one, {torch.ones(2):to(kind)}, {warmup = 1}) or one
         for i = 1, 6 do
            rate:fill_(1 / i)
            step(torch.full({2}, i, {device = kind}) * 0.5)
         end
         return p:tolist()
      end
      assert.same(run(false), run(true))
   end)

   it("names operations that cannot be captured, and leaves training unchanged", function()
      local net = model()
      local sgd = makers.SGD(net:parameters())
      local wait = true
      local step = sim.capture_step(function(x)
         sgd:zero_grad()
         local loss = net(x):sum()
         if wait and sim.is_current_stream_capturing() then loss:item() end
         loss:backward()
         sgd:step()
      end, {torch.zeros(2, 6)}, {warmup = 1})
      step(torch.ones(2, 6))
      local before = net[1].weight:tolist()
      local ok, message = pcall(step, torch.ones(2, 6))
      assert.is_false(ok)
      assert.matches("capture_step_spec.lua:%d+: item: .*while a graph is captured", message)
      assert.is_false(step.captured)
      assert.same(before, net[1].weight:tolist())
      wait = false
      step(torch.ones(2, 6))
      assert.is_true(step.captured)
      assert.is_false(torch.equal(torch.tensor(before), net[1].weight:detach():to(torch.get_default_device())))
   end)

   it("refuses optimizers that count on the host, and other bad input", function()
      local p = torch.ones(2, {device = kind, requires_grad = true})
      for make, message in pairs {
         [function() return optim.Adam({p}) end] = "make it with capturable = true",
         [function() return optim.Adafactor({p}) end] = "use an optimizer that takes `capturable`",
      } do
         local optimizer = make()
         local step = sim.capture_step(function()
            optimizer:zero_grad()
            p:sum():backward()
            optimizer:step()
         end, {}, {warmup = 1})
         step()
         local before = p:tolist()
         local ok, found = pcall(step)
         assert.is_false(ok)
         -- the message names the line that calls optimizer:step()
         assert.matches("capture_step_spec.lua:%d+: " .. kind .. "%.capture_step: ", found)
         assert.truthy(found:find(message, 1, true))
         assert.same(before, p:tolist())
      end
      assert.raises(kind .. ".capture_step: fn: expected a function, got 1", function() sim.capture_step(1, {}) end)
      assert.raises("unknown option warmups; did you mean warmup?",
         function() sim.capture_step(print, {}, {warmups = 1}) end)
   end)
end)

describe("make_graphed_callables", function()
   local function train_parts(graphed)
      torch.manual_seed(3)
      local first = nn.Sequential(nn.Linear(4, 8), nn.Tanh()):to(kind)
      local second = nn.Linear(8, 2):to(kind)
      if graphed then
         sim.make_graphed_callables({first, second},
            {{torch.zeros(5, 4):to(kind)}, {torch.zeros(5, 8):to(kind):requires_grad_()}})
      end
      local parameters = table.move(second:parameters(), 1, 2, 3, first:parameters())
      local sgd = optim.SGD(parameters, {lr = 0.1})
      local losses = {}
      torch.manual_seed(9)
      for i = 1, 10 do
         sgd:zero_grad()
         local hidden = first(torch.randn(5, 4):to(kind))
         local loss = second(hidden * 1):square():mean()
         loss:backward()
         sgd:step()
         losses[i] = loss:item()
      end
      return losses
   end

   it("gives the losses of modules that are not captured", function()
      assert.same(train_parts(false), train_parts(true))
   end)

   it("accepts a function, and computes gradients of its arguments", function()
      local x = torch.tensor({1.0, 2, 3}):to(kind):requires_grad_()
      local cube = sim.make_graphed_callables(function(v) return v * v * v end, {x})
      local y = cube(x * 2)
      assert.same({8, 64, 216}, y:tolist())
      y:sum():backward()
      assert.same({24, 96, 216}, x.grad:tolist())
   end)

   it("captures only one mode, and refuses arguments that differ from the sample", function()
      local net = nn.Linear(3, 2):to(kind)
      sim.make_graphed_callables(net, {torch.zeros(4, 3):to(kind)})
      assert.raises(kind .. ".make_graphed_callables: argument 1: expected one like the sample",
         function() net(torch.zeros(5, 3):to(kind)) end)
      net:evaluate()
      assert.same({5, 2}, net(torch.zeros(5, 3):to(kind)).shape)
      assert.raises("sample_args: expected a list of tensors for each callable",
         function() sim.make_graphed_callables(net, 3) end)
   end)

   it("refuses tensors on another device, and parameters that have moved", function()
      assert.raises("make_graphed_callables: sample_args 1: expected a tensor of " .. kind,
         function() sim.make_graphed_callables(nn.Linear(2, 2):to(kind), {torch.ones(1, 2):cpu()}) end)
      assert.raises("make_graphed_callables: parameter 1: expected a tensor of " .. kind,
         function() sim.make_graphed_callables(nn.Linear(2, 2):to "cpu", {torch.ones(1, 2):to(kind)}) end)
      local net = nn.Linear(2, 2):to(kind)
      sim.make_graphed_callables(net, {torch.ones(1, 2):to(kind)})
      net.weight.data = torch.zeros(2, 2):to(kind)
      assert.raises("parameter 1 has its values elsewhere since the capture",
         function() net(torch.ones(1, 2):to(kind)) end)
   end)

   it("returns results without a gradient if the captured ones have none", function()
      local pair = sim.make_graphed_callables(function(v) return v * 2, v:detach() * 3 end,
         {torch.ones(2):to(kind):requires_grad_()})
      local x = torch.tensor({1.0, 2}):to(kind):requires_grad_()
      local y, z = pair(x)
      assert.same({3, 6}, z:tolist())
      assert.is_false(z.requires_grad)
      y:sum():backward()
      assert.same({2, 2}, x.grad:tolist())
      local net = nn.Linear(2, 1):to(kind)
      torch.no_grad(function() sim.make_graphed_callables(net, {torch.ones(1, 2):to(kind)}) end)
      assert.is_false(net(torch.ones(1, 2):to(kind)).requires_grad)
   end)

   it("releases all memory", function()
      local function use()
         local net = nn.Linear(3, 3):to(kind)
         sim.make_graphed_callables(net, {torch.ones(2, 3):to(kind)})
         net(torch.ones(2, 3):to(kind)):sum():backward()
      end
      use()
      collectgarbage()
      collectgarbage()
      local before = sim.memory_allocated()
      use()
      collectgarbage()
      collectgarbage()
      assert.equal(before, sim.memory_allocated())
   end)

   it("refuses the backward pass of a call that another one has overwritten", function()
      local net = nn.Linear(2, 1):to(kind)
      sim.make_graphed_callables(net, {torch.ones(1, 2):to(kind)})
      local first = net(torch.ones(1, 2):to(kind)):sum()
      local second = net(torch.full({1, 2}, 3.0):to(kind)):sum()
      assert.raises("make_graphed_callables: backward of call 1, but call 2 has overwritten",
         function() first:backward() end)
      second:backward()
      assert.same({{3, 3}}, net.weight.grad:tolist())
   end)
end)
