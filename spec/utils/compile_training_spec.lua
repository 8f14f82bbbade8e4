-- Tests torch.compile with calls that record gradients. It must notice every change between calls, and give the bits of
-- the original function.
local torch = require "tlua"
local nested = require "tlua.export.nested"
local device = require "spec.support.device"
local nn, F = torch.nn, torch.nn.functional

local function same(a, b, what)
   if a == nil or b == nil then return assert.is_true(a == nil and b == nil, what) end
   assert.is_true(a.dtype == b.dtype and a:dim() == b:dim() and nested.same_bits(a:detach(), b:detach()), what)
end

-- Checks that two models have equal parameters, gradients and buffers.
local function same_models(a, b, step)
   local others = {}
   for name, p in b:named_parameters() do others[name] = p end
   for name, p in a:named_parameters() do
      same(p, others[name], ("%s in step %d"):format(name, step))
      same(p.grad, others[name].grad, ("%s.grad in step %d"):format(name, step))
      assert.equal(p.requires_grad, others[name].requires_grad)
   end
   for name, buffer in b:named_buffers() do others[name] = buffer end
   for name, buffer in a:named_buffers() do same(buffer, others[name], ("%s in step %d"):format(name, step)) end
end

local function mlp()
   return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.4), nn.Linear(8, 3))
end

local function sgd(model) return torch.optim.SGD(model:parameters(), {lr = 0.1, momentum = 0.9}) end

-- With these options, the compiled program runs even if it is no faster. On devices other than the CPU, such calls run
-- the original function instead.
local options <const> = device.name and {} or {fullgraph = true}

-- Computes the loss of one call, and its gradients.
local function plain_step(run, optimizer, x)
   optimizer:zero_grad()
   local out = run(x)
   out:square():sum():backward()
   optimizer:step()
   return out
end

-- Trains two equal models, one of them compiled, and compares them. After the fourth step, change(model, optimizer)
-- changes both models. It may return another step function and another optimizer. `given` may replace the step
-- function, the model, the input and the options of torch.compile.
local function follows(change, given)
   given = given or {}
   local step, input = given.step or plain_step, given.input or function() return torch.randn(4, 6) end
   local sides = {}
   for i = 1, 2 do
      torch.manual_seed(3)
      local model = (given.make or mlp)()
      local run = i == 2 and torch.compile(model, given.options or options) or model
      sides[i] = {model = model, run = run, optimizer = (given.optimizer or sgd)(model), step = step}
   end
   for k = 1, 10 do
      torch.manual_seed(100 + k)
      local x = input(k)
      local random, results = torch.get_rng_state(), {}
      for i, side in ipairs(sides) do
         torch.set_rng_state(random)
         local own = torch.is_tensor(x) and x:detach():clone() or x
         if torch.is_tensor(x) and x.requires_grad then own:requires_grad_() end
         results[i] = {side.step(side.run, side.optimizer, own, k, side.model), torch.get_rng_state(), own}
      end
      same(results[1][1], results[2][1], ("result in step %d"):format(k))
      assert.same(results[1][2], results[2][2])
      if torch.is_tensor(x) then same(results[1][3].grad, results[2][3].grad, ("x.grad in step %d"):format(k)) end
      same_models(sides[1].model, sides[2].model, k)
      for _, side in ipairs(k == 5 and sides or {}) do
         torch.manual_seed(7)
         local other, optimizer = change(side.model, side.optimizer, side.run)
         side.step, side.optimizer = other or side.step, optimizer or side.optimizer
      end
   end
end

local function none() end

local function explain(fn, ...) return torch.compiler.explain(fn, ...) end

-- without the option fullgraph, torch.compile runs the function itself if no program fits a call
local loose <const> = {options = {}}

describe("torch.compile of calls that record gradients", function()
   it("makes programs, with running statistics and dropout", function()
      local found = explain(mlp(), torch.randn(4, 6))
      if device.name then
         assert.equal("gradients are recorded on another device than the CPU", found.reason)
      else
         assert.truthy(found.program, tostring(found.reason))
      end
      follows(none)
      follows(none, {optimizer = function(m) return torch.optim.AdamW(m:parameters(), {lr = 0.01}) end})
   end)

   it("trains convnets, recurrent networks and transformers", function()
      follows(none, {
         make = function()
            return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
               nn.Linear(36, 3))
         end,
         input = function() return torch.randn(4, 2, 8, 8) end,
      })
      local Last = torch.class("compile_spec.Last", nn.Module)
      function Last:__init() nn.Module.__init(self); self.rnn, self.head = nn.LSTM(6, 5), nn.Linear(5, 2) end
      function Last:forward(x) return self.head((self.rnn(x))) end
      follows(none, {make = Last, input = function() return torch.randn(7, 3, 6) end})
      follows(none, {
         make = function() return nn.TransformerEncoderLayer(8, 2, 16, {batch_first = true}) end,
         input = function() return torch.randn(2, 5, 8) end,
      })
      follows(none, {
         make = function() return nn.Sequential(nn.Embedding(9, 4), nn.LayerNorm(4), nn.Linear(4, 2)) end,
         input = function() return torch.randint(1, 10, {3, 5}) end,
      })
   end)

   it("has the function's bits for large elementwise operators, in place too", function()
      local function make()
         local model = nn.Module()
         model.a, model.b = nn.Parameter(torch.randn(200)), nn.Parameter(torch.randn(300, 1))
         function model:forward(x)
            local y = x * self.a + self.b
            y:mul_(self.b * 2)
            return (F.gelu(y) * x + self.a):tanh() * 0.5
         end
         return model
      end
      follows(none, {make = make, input = function() return torch.randn(300, 200) end})
      follows(none, {make = make, input = function() return torch.randn(300, 200):requires_grad_() end})
   end)

   it("adds gradients up, keeps graphs, and takes zero_grad of both kinds", function()
      follows(none, {step = function(run, optimizer, x, k)
         if k % 3 == 0 then optimizer:step() optimizer:zero_grad {set_to_none = false} end
         local out = run(x)
         out:sum():backward()
         return out
      end})
      follows(none, {step = function(run, optimizer, x)
         optimizer:zero_grad()
         local out = run(x)
         out:sum():backward(nil, {retain_graph = true})
         out:square():sum():backward()
         optimizer:step()
         return out
      end})
      follows(none, {step = function(run, optimizer, x)
         optimizer:zero_grad()
         local one, two = run(x), run(x * 2)
         local product = one * two
         product:sum():backward()
         optimizer:step()
         return two
      end})
   end)

   it("differentiates twice, and by torch.autograd.grad", function()
      local function smooth() return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)) end
      local function needed() return torch.randn(4, 6):requires_grad_() end
      follows(none, {make = smooth, input = needed, step = function(run, optimizer, x)
         optimizer:zero_grad()
         local out = run(x)
         local gradient = torch.autograd.grad(out:sum(), x, {create_graph = true})
         local loss = gradient:square():sum() + out:sum()
         loss:backward()
         optimizer:step()
         return out
      end})
   end)

   it("runs hooks of tensors on the results and the parameters", function()
      local calls = {}
      follows(function(model)
         model[1].weight:register_hook(function(g) calls[#calls + 1] = 1 return g * 2 end)
         model[5].weight:register_post_accumulate_grad_hook(function(p) p.grad:mul_(3) end)
      end)
      assert.equal(10, #calls)
      follows(none, {step = function(run, optimizer, x)
         optimizer:zero_grad()
         local out = run(x)
         out:register_hook(function(g) return g * 0.5 end)
         out:retain_grad()
         out:sum():backward()
         optimizer:step()
         return out.grad
      end})
   end)

   it("raises the error for tensors that change before the backward pass", function()
      local model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
      local run, x = torch.compile(model, options), torch.randn(4, 6)
      for _ = 1, 4 do run(x):sum():backward() end
      local out = run(x):sum()
      torch.no_grad(function() model[3].weight:add_(1) end)
      assert.raises("changed", "add_", function() out:backward() end)
      local input = torch.randn(4, 6)
      out = run(input):sum()
      input:mul_(2)
      assert.raises("changed", "mul_", function() out:backward() end)
      out = run(x):sum()
      out:backward()
      assert.raises("backward", "retain_graph", function() out:backward() end)
   end)
end)

describe("a compiled call that records gradients follows", function()
   it("parameters that are replaced or get other memory", function()
      follows(function(model, optimizer)
         model[1].weight = nn.Parameter(torch.randn(8, 6))
         optimizer.param_groups[1].params[1] = model[1].weight
      end)
      follows(function(model, optimizer)
         optimizer:zero_grad()
         model[1].weight.data = torch.randn(8, 6)
      end)
      follows(function(model, optimizer)
         optimizer:zero_grad()
         model[5].bias.data = torch.zeros(3)
      end)
      follows(function(model) torch.no_grad(function() model[1].weight:zero_() end) end)
      follows(function(model) model:load_state_dict(mlp():state_dict()) end)
      follows(function(model) model[5].bias = nil end)
   end)

   it("requires_grad of parameters and inputs", function()
      follows(function(model) model[1].weight:requires_grad_(false) end)
      follows(function(model) model[1]:requires_grad_(false) end)
      follows(none, {input = function(k)
         local x = torch.randn(4, 6)
         return k > 5 and x:requires_grad_() or x
      end})
      follows(none, {input = function(k)
         local x = torch.randn(4, 6)
         return k < 5 and x:requires_grad_() or x
      end})
   end)

   it("modes of modules and of the thread", function()
      follows(function(model) model:eval() end)
      follows(function(model) model[2]:eval() end)
      follows(function(model) model[4]:eval() end)
      follows(none, {step = function(run, optimizer, x, k)
         if k ~= 6 then return plain_step(run, optimizer, x) end
         local _ <close> = torch.no_grad()
         return run(x)
      end})
      follows(none, {options = {}, step = function(run, optimizer, x, k)
         if k ~= 6 then return plain_step(run, optimizer, x) end
         optimizer:zero_grad()
         local out
         torch.autocast("cpu", {dtype = torch.bfloat16}, function() out = run(x) end)
         out:sum():backward()
         return out
      end})
   end)

   it("numbers and buffers of modules", function()
      follows(function(model) model[4].p = 0.1 end)
      follows(function(model) model[2].momentum = 0.5 end)
      follows(function(model) model[2].eps = 0.1 end)
      follows(function(model) model[2]:reset_running_stats() end)
      follows(function(model) model[2].running_mean = torch.ones(8) end)
      follows(function(model) model[2].running_mean.data = torch.ones(8) end)
      follows(function(model) model[2].track_running_stats = false end)
   end)

   it("modules that are replaced, added and hooked", function()
      follows(function(model) model[3] = nn.ReLU() end)
      follows(function(model) model:append(nn.Tanh()) end)
      follows(function(model) model[1]:register_forward_hook(function(_, _, out) return out * 2 end) end)
      follows(function(model) model[1]:register_forward_pre_hook(function(_, x) return x * 2 end) end)
      follows(function(model)
         model[1]:register_full_backward_hook(function(_, grads) return {grads[1] and grads[1] * 2} end)
      end, loose)
      follows(function(model) model[1].forward = function(self, x) return F.linear(x, self.weight) end end)
   end)

   it("inputs of other sizes, dtypes, strides and histories", function()
      follows(none, {input = function(k) return torch.randn(k > 5 and 5 or 4, 6) end})
      follows(none, {input = function(k) return k > 5 and torch.randn(6, 4):t() or torch.randn(4, 6) end})
      follows(function(model) model:double() end, {
         optimizer = function(m) return torch.optim.SGD(m:parameters(), {lr = 0.1}) end,
         step = function(run, optimizer, x, _, model)
            return plain_step(run, optimizer, x:to(model[1].weight.dtype))
         end,
      })
      follows(none, {input = function() return torch.randn(4, 6):requires_grad_() end, step = function(run, o, x, k)
         o:zero_grad()
         local out = run(k > 5 and x * 2 + 1 or x)
         out:square():sum():backward()
         o:step()
         return out
      end})
   end)

   it("variables, functions and the data of closures", function()
      local scale, act = 2, F.relu
      local function make()
         local model = nn.Linear(6, 3)
         model.forward = function(self, x) return act(F.linear(x, self.weight, self.bias)) * scale end
         return model
      end
      follows(function() scale = 3 end, {make = make})
      follows(function() scale = torch.tensor {1, 2, 3} end, {make = make})
      follows(function() act = torch.tanh end, {make = make})
      local relu = F.relu
      local function named() return nn.Sequential(nn.Linear(6, 3), nn.ReLU()) end
      follows(function() F.relu = torch.tanh end, {make = named})
      F.relu = relu
   end)

   it("optimizers, schedules and clipped gradients", function()
      follows(function(_, optimizer) optimizer.param_groups[1].lr = 0.01 end)
      follows(function(model) return nil, torch.optim.Adam(model:parameters(), {lr = 0.01}) end)
      follows(none, {step = function(run, optimizer, x, _, model)
         optimizer:zero_grad()
         local out = run(x)
         out:square():sum():backward()
         nn.utils.clip_grad_norm_(model:parameters(), 0.5)
         optimizer:step()
         return out
      end})
   end)
end)

describe("a call that records gradients stays with the function", function()
   local x <const> = torch.randn(4, 6)

   local function stays(text, fn, ...)
      local found = explain(fn, ...)
      assert.is_nil(found.program)
      assert.truthy(found.reason:find(text, 1, true), text .. ": " .. found.reason)
   end

   it("if a derivative is a function of Lua, or a hook is set", function()
      local Double = torch.class("compile_spec.Double", torch.autograd.Function)
      function Double.forward(_, a) return a * 2 end
      function Double.backward(_, g) return g * 5 end
      local weight = torch.randn(6):requires_grad_()
      local function fn(a) return Double:apply(a * weight) end
      assert.is_nil(explain(fn, x).program)
      local fast = torch.compile(fn)
      for _ = 1, 5 do
         weight.grad = nil
         fast(x):sum():backward()
         assert.is_true(torch.allclose(weight.grad, 5 * x:sum(1)))
      end
      stays("register_hook is called", function(a)
         local b = a * weight
         b:register_hook(function(g) return g * 2 end)
         return b
      end, x)
   end)

   it("if it changes a parameter, a variable or whether a tensor has a gradient", function()
      local weight, n = torch.randn(6):requires_grad_(), 0
      stays("requires a gradient", function(a)
         torch.no_grad(function() weight:add_(0) end)
         return a * weight
      end, x)
      stays("variable n has changed", function(a) n = n + 1 return a * weight * n end, x)
      stays("requires_grad", function(a) return (a * 1):requires_grad_() * weight end, x)
      stays("backward is called", function(a)
         local loss = (a * weight):sum()
         loss:backward()
         return loss
      end, x)
   end)

   it("if it reads a parameter's values, or a batch norm has no momentum", function()
      local weight = torch.randn(6):requires_grad_()
      stays("data of Lua", function(a) return a * weight * weight[1]:item() end, x)
      stays("values", nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3, {momentum = false})), x)
   end)

   it("through cond, with saved tensors that are packed, and while anomalies are detected", function()
      local weight = torch.randn(6):requires_grad_()
      local function times(b) return b * weight end
      local function minus(b) return b - weight end
      assert.is_nil(explain(function(a) return torch.cond(a:sum():gt(0), times, minus, {a}) end, x).program)
      if device.name then return end -- on a device, these calls are not compiled
      local fast = torch.compile(function(a) return (a * weight):sin() end, options)
      for _ = 1, 4 do fast(x):sum():backward() end
      assert.raises("fullgraph", "pack", function()
         local function keep(t) return t end
         torch.autograd.graph.saved_tensors_hooks(keep, keep, function() fast(x) end)
      end)
      torch.autograd.set_detect_anomaly(true)
      local fine, message = pcall(fast, x)
      torch.autograd.set_detect_anomaly(false)
      assert.is_false(fine)
      assert.truthy(message:find "anomalies")
   end)

   it("if a backend was given", function()
      local weight, graphs = torch.randn(6):requires_grad_(), 0
      local fast = torch.compile(function(a) return a * weight end, {backend = function(graph)
         graphs = graphs + 1
         return graph:program()
      end})
      for _ = 1, 5 do
         weight.grad = nil
         fast(x):sum():backward()
         assert.is_true(torch.allclose(weight.grad, x:sum(1)))
      end
      assert.equal(0, graphs)
   end)
end)
