-- Tests torch.export_step. A program that trains must equal eager training bit for bit, also after it is saved and
-- loaded. export_step_refusals_spec.lua tests code that a program cannot repeat.

local torch = require "tlua"
local saved = require("spec.support.programs").saved
local training_step = require "spec.support.training_step"
local nn, optim, F = torch.nn, torch.optim, torch.nn.functional
local mlp <const>, step_of <const> = training_step.mlp, training_step.of

local function convnet()
   return nn.Sequential(nn.Conv2d(1, 4, 3, {padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32, 4))
end

-- Trains for 20 steps in three ways and compares them: by a program, by the saved and reloaded program, and eagerly.
local function check(make, options)
   torch.manual_seed(1)
   local model, twin = make(), make()
   twin:load_state_dict(model:state_dict())
   local x = make == mlp and torch.randn(12, 8) or torch.randn(12, 1, 8, 8)
   local y = torch.randint(1, 5, {12})
   local step, parts = step_of(model, options)
   local eager = step_of(twin, options)
   local program = torch.export_step(step, {x, y}, parts)
   for name, value in pairs(model:state_dict()) do assert(value:equal(twin:state_dict()[name]), name) end
   local loaded = saved(program)
   local losses = {}
   for _, run in ipairs {eager, program, loaded} do
      torch.manual_seed(7)
      local list = {}
      for i = 1, 20 do list[i] = run(x, y):item() end
      losses[#losses + 1] = list
   end
   assert.same(losses[1], losses[2])
   assert.same(losses[1], losses[3])
   assert(losses[1][20] ~= losses[1][1])
   for name, value in pairs(twin:state_dict()) do
      assert(value:equal(model:state_dict()[name]), name)
      assert(value:equal(loaded:state_dict()[name]), name)
   end
   return program, loaded
end

-- on a device, a step with a scaler must not read values there
local capturable <const> = require("spec.support.device").name and true or nil
local sgd <const> = training_step.sgd
local function adamw(params) return optim.AdamW(params, {lr = 0.01, capturable = capturable}) end

describe("a training step as a program", function()
   it("has the bits of 20 eager steps", function()
      for _, make in ipairs {mlp, convnet} do
         check(make, {optimizer = sgd})
         check(make, {optimizer = adamw})
      end
   end)

   it("follows schedules of learning rates", function()
      local schedules = {
         function(o) return optim.lr_scheduler.CosineAnnealingLR(o, {T_max = 20}) end,
         function(o) return optim.lr_scheduler.StepLR(o, 5) end,
         function(o) return optim.lr_scheduler.OneCycleLR(o, 0.1, {total_steps = 60}) end,
         function(o) return optim.lr_scheduler.LambdaLR(o, function(epoch) return 0.95 ^ epoch end) end,
      }
      for _, scheduler in ipairs(schedules) do
         check(mlp, {optimizer = sgd, scheduler = scheduler, steps = 40})
         check(convnet, {optimizer = adamw, scheduler = scheduler, steps = 40})
      end
   end)

   it("has the steps of every optimizer of one kernel", function()
      for _, name in ipairs {"Adam", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "ASGD", "Rprop",
                             "Lion"} do
         check(mlp, {optimizer = function(params) return optim[name](params, {lr = 0.01}) end})
      end
      check(mlp, {optimizer = function(params) return optim.SGD(params, {lr = 0.1}) end})
   end)

   it("clips gradients and scales losses", function()
      check(mlp, {optimizer = adamw, clip = 0.1})
      check(mlp, {optimizer = adamw, scaler = {init_scale = 256, growth_interval = 3}})
      check(convnet, {optimizer = sgd, scaler = {init_scale = 256, growth_interval = 3}, clip = 0.5})
   end)

   it("trains layers with loops and attention", function()
      local function train(model, x)
         local optimizer = adamw(model:parameters())
         local function step(t)
            optimizer:zero_grad()
            local loss = (model(t)):square():mean()
            loss:backward()
            optimizer:step()
            return loss:detach()
         end
         local program = torch.export_step(step, {x}, {model = model, optimizer = optimizer})
         local loaded = saved(program)
         for _ = 1, 5 do assert.equal(step(x):item(), loaded(x):item()) end
      end
      train(nn.LSTM(4, 6, {batch_first = true}), torch.randn(3, 5, 4))
      train(nn.TransformerEncoderLayer(16, 4, {dim_feedforward = 32, batch_first = true, dropout = 0}),
            torch.randn(2, 5, 16))
      train(nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4), nn.BatchNorm1d(4)),
            torch.randn(6, 4))
   end)

   it("continues from a saved state", function()
      local program, loaded = check(mlp, {optimizer = adamw, steps = 60, scheduler = function(o)
         return optim.lr_scheduler.ExponentialLR(o, {gamma = 0.9})
      end})
      local path <const> = os.tmpname()
      torch.manual_seed(11)
      loaded:save(path)
      local again = torch.export.load(path)
      os.remove(path)
      local x, y = torch.randn(12, 8), torch.randint(1, 5, {12})
      for _ = 1, 5 do
         torch.manual_seed(3)
         local a = program(x, y)
         torch.manual_seed(3)
         assert(a:equal(again(x, y)))
      end
   end)

   it("changes parameters through .data, and casts a parameter once for two uses", function()
      local function train(cast)
         torch.manual_seed(2)
         local model = nn.Linear(4, 4)
         local optimizer = sgd(model:parameters())
         return function(t)
            optimizer:zero_grad()
            local loss
            do
               local _ <close> = cast and torch.autocast "cpu" or nil
               loss = model(model(t)):float():square():mean()
            end
            loss:backward()
            optimizer:step()
            model.weight.data:clamp_(-0.3, 0.3)
            model.weight.data:select(1, 2):mul_(0.5)
            return loss:detach()
         end, {model = model, optimizer = optimizer}
      end
      local data = torch.randn(5, 4)
      for _, cast in ipairs {false, true} do
         local eager, twin = train(cast)
         local step, parts = train(cast)
         local program = torch.export_step(step, {data}, parts)
         for _ = 1, 4 do assert(eager(data):equal(program(data))) end
         assert(twin.model.weight:equal(parts.model.weight))
         assert(parts.model.weight:detach():abs():max():item() < 0.301)
      end
   end)

   it("lets two optimizers take turns, where the gradients of one stay until its next turn", function()
      local function gan()
         torch.manual_seed(1)
         local maker, judge = nn.Linear(3, 4), nn.Linear(4, 1)
         local ones, zeros = torch.ones(5, 1), torch.zeros(5, 1)
         local a = optim.Adam(maker:parameters(), {lr = 0.01})
         local b = optim.RMSprop(judge:parameters(), {lr = 0.01})
         return function(noise, real)
            b:zero_grad()
            local fake = maker(noise)
            local loss = F.binary_cross_entropy_with_logits(judge(real), ones)
               + F.binary_cross_entropy_with_logits(judge(fake:detach()), zeros)
            loss:backward()
            b:step()
            a:zero_grad()
            F.binary_cross_entropy_with_logits(judge(fake), ones):backward()
            a:step()
            return loss:detach()
         end, {model = {maker, judge}, optimizer = {a, b}}
      end
      local eager, own = gan()
      local step, parts = gan()
      local noise, real = torch.randn(5, 3), torch.randn(5, 4)
      local program = torch.export_step(step, {noise, real}, parts)
      local loaded = saved(program)
      for _ = 1, 4 do
         local loss = eager(noise, real)
         assert(loss:equal(program(noise, real)))
         assert(loss:equal(loaded(noise, real)))
      end
      for i, model in ipairs(own.model) do assert(model.weight:equal(parts.model[i].weight)) end
   end)

   it("lets the steps of a GAN take turns, each exported by its own call", function()
      local function gan()
         torch.manual_seed(1)
         local D = nn.Sequential(nn.Conv2d(1, 4, 4, {stride = 2, padding = 1, bias = false}), nn.LeakyReLU(0.2),
            nn.Conv2d(4, 8, 4, {stride = 2, padding = 1, bias = false}), nn.BatchNorm2d(8), nn.LeakyReLU(0.2),
            nn.Conv2d(8, 1, 2, {bias = false}), nn.Sigmoid())
         local G = nn.Sequential(nn.ConvTranspose2d(6, 8, 2, {bias = false}), nn.BatchNorm2d(8), nn.ReLU(),
            nn.ConvTranspose2d(8, 4, 4, {stride = 2, padding = 1, bias = false}), nn.BatchNorm2d(4), nn.ReLU(),
            nn.ConvTranspose2d(4, 1, 4, {stride = 2, padding = 1, bias = false}), nn.Tanh())
         local criterion, options = nn.BCELoss(), {lr = 2e-3, betas = {0.5, 0.999}}
         local optimizer_d, optimizer_g = optim.Adam(D:parameters(), options), optim.Adam(G:parameters(), options)
         local function d_step(real)
            D:zero_grad()
            local label = torch.ones(real:size(1))
            local loss = criterion(D(real):view(-1), label)
            loss:backward()
            label:fill_(0)
            local fake = G(torch.randn(real:size(1), 6, 1, 1))
            local loss_fake = criterion(D(fake:detach()):view(-1), label)
            loss_fake:backward()
            optimizer_d:step()
            return (loss + loss_fake):detach()
         end
         local function g_step(noise)
            G:zero_grad()
            local loss = criterion(D(G(noise)):view(-1), torch.ones(noise:size(1)))
            loss:backward()
            optimizer_g:step()
            return loss:detach()
         end
         return d_step, g_step, {D, G}, optimizer_d, optimizer_g
      end
      local real, noise = torch.randn(5, 1, 8, 8), torch.randn(5, 6, 1, 1)
      local eager_d, eager_g, own = gan()
      local d_step, g_step, models, optimizer_d, optimizer_g = gan()
      local options = {model = models, optimizer = optimizer_g}
      g_step(noise)
      eager_g(noise)
      local program_g = torch.export_step(g_step, {noise}, options)
      local program_d = torch.export_step(d_step, {real}, {model = models, optimizer = optimizer_d})
      for i = 1, 4 do
         torch.manual_seed(i)
         local loss_d, loss_g = eager_d(real), eager_g(noise)
         torch.manual_seed(i)
         assert(loss_d:equal(program_d(real)) and loss_g:equal(program_g(noise)))
      end
      for i, model in ipairs(own) do
         local state = models[i]:state_dict()
         for name, value in pairs(model:state_dict()) do assert(value:equal(state[name]), name) end
      end

      local D, G = table.unpack(models)
      local loaded_d, loaded_g = saved(program_d), saved(program_g)
      loaded_d:share(loaded_g)
      loaded_g:share(loaded_d)
      for i = 1, 3 do
         torch.manual_seed(i)
         local loss_d, loss_g = eager_d(real), eager_g(noise)
         torch.manual_seed(i)
         assert(loss_d:equal(loaded_d(real)) and loss_g:equal(loaded_g(noise)))
      end
      assert.error_matches(function() program_d:share(loaded_g) end,
         "program.share: expected a loaded program; this one shares the script's tensors")
      assert.error_matches(function() loaded_d:share(D) end, "program.share: from: expected a program, got")
      assert.error_matches(function() loaded_d:share(saved(torch.export(nn.ReLU(), {noise}))) end,
         "expected programs with state of the same names")

      local function refused(operator, fn)
         assert.error_matches(function() torch.export_step(fn, {noise}, options) end,
            operator .. ": 1.1.weight has a gradient of an earlier step; begin the step with zero_grad")
      end
      d_step(real)
      refused("norm", function(t) return g_step(t), D[1].weight.grad:norm() end)
      refused("detach", function(t)
         local loss = g_step(t)
         nn.utils.clip_grad_norm_(D:parameters(), 1)
         return loss
      end)
      refused("export_step", function(t)
         D(G(t)):sum():backward {inputs = {D[1].weight}}
         optimizer_d:step()
         return t * 2
      end)
      refused("export_step", function(t) -- this step computes gradients that no optimizer of the program uses
         local loss = D(G(t)):mean()
         loss:backward()
         return loss:detach()
      end)
   end)

   it("takes batches of other sizes", function()
      local model = mlp()
      local step, parts = step_of(model, {optimizer = sgd})
      local twin = mlp()
      twin:load_state_dict(model:state_dict())
      local eager = step_of(twin, {optimizer = sgd})
      parts.dynamic = {x = {[1] = "n"}, y = {[1] = "n"}}
      local program = torch.export_step(step, {torch.randn(4, 8), torch.randint(1, 5, {4})}, parts)
      for n = 2, 9 do
         local x, y = torch.randn(n, 8), torch.randint(1, 5, {n})
         torch.manual_seed(n)
         local expected = eager(x, y)
         torch.manual_seed(n)
         assert(expected:equal(program:step(x, y)))
      end
   end)

   it("computes gradients without an optimizer", function()
      local w = torch.randn(3):requires_grad_()
      local program = torch.export_step(function(x)
         local loss = (w * x):square():sum()
         local grad = torch.autograd.grad(loss, w, {create_graph = true})
         local penalty = (grad * grad):sum()
         penalty:backward()
         local second = w.grad:clone()
         w.grad = nil
         return loss:detach(), grad:detach(), second
      end, {torch.randn(3)}, {state = {w = w}})
      local x = torch.tensor {1.0, 2.0, 3.0}
      local _, grad, second = program(x)
      assert(grad:allclose(2 * w:detach() * x:square()))
      assert(second:allclose(8 * w:detach() * x:pow(4)))
      assert.is_nil(w.grad)
   end)

   it("reads the gradient of a result for which retain_grad was called", function()
      local w = torch.randn(3):requires_grad_()
      local function step(x)
         w.grad = nil
         local y = w * x
         y:retain_grad()
         y:square():sum():backward()
         return y.grad * 1, w.grad * 1
      end
      local program = torch.export_step(step, {torch.randn(3)}, {state = {w = w}})
      local path <const> = os.tmpname()
      program:save(path)
      local loaded = torch.export.load(path)
      os.remove(path)
      for _ = 1, 3 do
         local x = torch.randn(3)
         for _, p in ipairs {program, loaded} do
            local of_y, of_w = p(x)
            assert(of_y:allclose(2 * w:detach() * x) and of_w:allclose(2 * w:detach() * x:square()))
         end
      end
   end)

   it("leaves everything as it was", function()
      local model = mlp()
      local step, parts = step_of(model, {optimizer = adamw, scheduler = function(o)
         return optim.lr_scheduler.StepLR(o, 2)
      end, steps = 10})
      model[1].weight.grad = torch.ones(16, 8)
      torch.manual_seed(4)
      local before, lr, last = torch.get_rng_state(), parts.optimizer.param_groups[1].lr, parts.scheduler.last_epoch
      torch.export_step(step, {torch.randn(4, 8), torch.randint(1, 5, {4})}, parts)
      torch.manual_seed(4)
      assert.same(before, torch.get_rng_state())
      assert.equal(lr, parts.optimizer.param_groups[1].lr)
      assert.equal(last, parts.scheduler.last_epoch)
      assert.same({1, 1}, model[1].weight.grad[{1, {1, 2}}]:tolist())
      assert.is_nil(model[4].weight.grad)
      assert.equal(0, parts.optimizer.state[1].step:item())
   end)
end)

-- Returns an eager training step, the program of a second step with equal weights, and the models and optimizers of
-- both.
local function twins(options, make)
   torch.manual_seed(1)
   local model, twin = (make or mlp)(), (make or mlp)()
   twin:load_state_dict(model:state_dict())
   local eager, own = step_of(twin, options)
   local step, parts = step_of(model, options)
   local x, y = torch.randn(6, 8), torch.randint(1, 5, {6})
   return eager, torch.export_step(step, {x, y}, parts), own, parts, x, y, step
end

describe("a program and the objects of the script", function()
   local exponential = {optimizer = sgd, steps = 12, scheduler = function(o)
      return optim.lr_scheduler.ExponentialLR(o, {gamma = 0.9})
   end}

   local function same_steps(n, eager, program, x, y)
      for i = 1, n do
         torch.manual_seed(i)
         local expected = eager(x, y)
         torch.manual_seed(i)
         assert(expected:equal(program(x, y)), "step " .. i)
      end
   end

   it("advance together", function()
      local eager, program, own, parts, x, y, step = twins(exponential)
      same_steps(3, eager, program, x, y)
      assert.equal(own.scheduler.last_epoch, parts.scheduler.last_epoch)
      assert.equal(own.optimizer.param_groups[1].lr, parts.optimizer.param_groups[1].lr)
      same_steps(2, eager, step, x, y)
      same_steps(3, eager, program, x, y)
      assert.equal(8, parts.scheduler.last_epoch)
      local loaded = saved(program)
      same_steps(2, eager, loaded, x, y)
      assert.equal(8, parts.scheduler.last_epoch)
   end)

   it("share options that the script changes", function()
      for _, make in ipairs {sgd, adamw, function(p) return optim.SGD(p, {lr = 0.1, momentum = 0.5}) end} do
         local eager, program, own, parts, x, y = twins {optimizer = make}
         same_steps(2, eager, program, x, y)
         for _, o in ipairs {own.optimizer, parts.optimizer} do
            o.param_groups[1].lr, o.param_groups[1].weight_decay = 0.02, 0.125
         end
         same_steps(3, eager, program, x, y)
         local loaded = saved(program)
         same_steps(2, eager, loaded, x, y)
      end
      local eager, program, own, parts, x, y = twins {optimizer = adamw}
      same_steps(2, eager, program, x, y)
      for _, o in ipairs {own.optimizer, parts.optimizer} do o.param_groups[1].betas[1] = 0.5 end
      same_steps(2, eager, program, x, y)
      -- the factor is an upvalue of a function of the script, so the program cannot know when it changes
      local factor = 1
      for _, o in ipairs {own.optimizer, parts.optimizer} do
         o.rule = function(self, group)
            local name, names, numbers = optim.AdamW.rule(self, group)
            numbers[1] = numbers[1] * factor
            return name, names, numbers
         end
      end
      for i = 1, 3 do
         factor = i
         same_steps(2, eager, program, x, y)
      end
   end)

   it("refuse to run after changes that they cannot follow", function()
      local function refused(pattern, change, options)
         local _, program, _, parts, x, y = twins(options or {optimizer = adamw})
         program(x, y)
         change(parts)
         assert.error_matches(function() program(x, y) end, pattern)
      end
      refused("program: option 1 of optim.SGD is 1, but the schedule of the export has 0.045; export the step again",
         function(parts) parts.optimizer.param_groups[1].lr = 1 end, exponential)
      refused("program: the model's training mode has changed since the export",
         function(parts) parts.model:eval() end)
      refused("program: the optimizer's state has changed since the export", function(parts)
         parts.optimizer:load_state_dict(parts.optimizer:state_dict())
      end)
      refused("program: 1.weight has another memory or dtype than in the export", function(parts)
         parts.model[1].weight.data = torch.zeros(16, 8)
      end)
      refused("program: the optimizer has other parameters than in the export", function(parts)
         parts.optimizer:add_param_group {params = {torch.ones(2):requires_grad_()}}
      end)
      refused("program: the rule of the optimizer has changed since the export", function(parts)
         parts.optimizer.param_groups[1].momentum = 0.9
      end, {optimizer = function(params) return optim.SGD(params, {lr = 0.1}) end})
      refused("program: the requires_grad of 1.weight has changed since the export", function(parts)
         parts.model[1].weight:requires_grad_(false)
      end)
      refused("program: the model's training mode has changed since the export",
         function(parts) parts.model[3]:eval() end)
      refused("program: 1.weight has changed since the export", function(parts)
         parts.model[1].weight = nn.Parameter(torch.zeros(16, 8))
      end)
      refused("program: 4 has changed since the export", function(parts) parts.model[4] = nn.Linear(16, 4) end)
      refused("program: group 1 of the optimizer has changed", function(parts)
         parts.optimizer.param_groups[1] = {params = parts.optimizer.param_groups[1].params, lr = 5}
      end)
      refused("program: the optimizer's list of groups has changed", function(parts)
         parts.optimizer.param_groups = {table.unpack(parts.optimizer.param_groups)}
      end)
      refused("program: parameter 1 of group 1 of the optimizer has changed", function(parts)
         local params = parts.optimizer.param_groups[1].params
         params[1], params[2] = params[2], params[1]
      end)
      refused("program: maximize of the optimizer has changed", function(parts)
         parts.optimizer.param_groups[1].maximize = true
      end)
      refused("program: the scaler's growth_factor has changed", function(parts)
         parts.scaler:set_growth_factor(4)
      end, {optimizer = sgd, scaler = {init_scale = 256}})
   end)

   it("refuse to run after other layers, methods, hooks and modes than in the export", function()
      local function made(options)
         return twins(options or {optimizer = sgd}, function()
            return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
         end)
      end
      local eager, program, _, parts, x, y, step = made()
      local model, optimizer = parts.model, parts.optimizer
      -- Checks that the program refuses to run after an object is changed, and runs again after the change is undone.
      local function refused(pattern, change)
         same_steps(1, eager, program, x, y)
         local restore = change()
         assert.error_matches(function() program(x, y) end, "program: " .. pattern)
         restore()
         same_steps(2, eager, program, x, y)
      end
      local function set(object, key, value)
         local old = rawget(object, key)
         object[key] = value
         return function() object[key] = old end
      end
      local function nothing() end
      local function hook(object, kind)
         return function()
            local handle = object[kind and "register_" .. kind .. "_hook" or "register_hook"](object, nothing)
            return function() handle:remove() end
         end
      end
      for _, case in ipairs {
         {"2.eps has changed since the export; export the step again", model[2], "eps", 1},
         {"2.momentum has changed", model[2], "momentum", 0.5},
         {"2.track_running_stats has changed", model[2], "track_running_stats", false},
         {"3.forward has changed", model[3], "forward", nothing},
         {"1.forward has changed", nn.Linear, "forward", nothing},
         {"4 has changed", model, 4, nn.ReLU()},
         {"the optimizer's step has changed", optimizer, "step", nothing},
         {"zero_grad of the optimizer has changed", optimizer, "zero_grad", nothing},
         {"update_group of the optimizer has changed", optimizer, "update_group", nothing},
      } do
         refused(case[1], function() return set(table.unpack(case, 2)) end)
      end
      refused("the list of hooks of 1 has changed", hook(model[1], "forward"))
      refused("the list of hooks of 1 has changed", hook(model[1], "forward_pre"))
      refused("the list of hooks of the model has changed", hook(model, "full_backward"))
      -- the second time, the optimizer already has a list of hooks
      for _, kind in ipairs {"step_pre", "step_pre", "step_post"} do
         refused("the hooks of the optimizer's steps have changed", hook(optimizer, kind))
      end
      optimizer:register_state_dict_pre_hook(nothing)
      refused("the list of hooks of 1.weight has changed", hook(model[1].weight, nil))
      refused("the list of hooks of 1.weight has changed", hook(model[1].weight, "post_accumulate_grad"))
      for _, case in ipairs {
         {"expected autocast to be off, as in the export", torch.set_autocast_cpu_enabled, true, false},
         {"the dtype of autocast has changed", torch.set_autocast_cpu_dtype, "float16", "bfloat16"},
         {"expected grad mode to be on", torch.set_grad_enabled, false, true},
         {"expected anomaly detection to be off", torch.set_anomaly_enabled, true, false},
         {"the default dtype has changed", torch.set_default_dtype, "float64", "float32"},
         {"the default device has changed", torch.set_default_device, "meta", torch.get_default_device()},
      } do
         refused(case[1], function()
            case[2](case[3])
            return function() case[2](case[4]) end
         end)
      end

      same_steps(2, eager, step, x, y)
      model.last_loss = 1
      same_steps(2, eager, program, x, y)
   end)

   it("refuse to run after changes of variables, fields and methods that the step reads", function()
      local Net = torch.class("Net", nn.Module)
      function Net:__init()
         nn.Module.__init(self)
         self.layer, self.options = nn.Linear(4, 3), {gain = 2}
      end
      function Net:scaled(x) return x * self.options.gain end
      function Net:forward(x) return self:scaled(self.layer(x)) end
      local Trainer = torch.class "Trainer"
      local factor, env = 2, setmetatable({weight = 1}, {__index = _G})
      local weighted = load("return function(x) return x * weight end", "script", "t", env)()
      function Trainer:__init()
         self.model, self.loss, self.settings = Net(), nn.CrossEntropyLoss(), {smooth = 0.1, parts = {F.relu}}
         self.optimizer, self.step, self.count = optim.SGD(self.model:parameters(), {lr = 0.1}), 0, 0
      end
      function Trainer:penalty() return self.model.layer.bias:square():sum() * self.settings.smooth end
      function Trainer:train(x, y)
         self.optimizer:zero_grad()
         local out = self.model(x)
         for _, part in ipairs(self.settings.parts) do out = part(out) end
         local loss = weighted(self.loss(out, y)) * factor + self:penalty()
         if self.settings.double then loss = loss * 2 end
         loss:backward()
         self.optimizer:step()
         self.count = self.count + 1
         return loss:detach()
      end
      local trainer = Trainer()
      local x, y = torch.randn(5, 4), torch.randint(1, 4, {5})
      local settings, model = trainer.settings, trainer.model
      local program = torch.export_step(function(...)
         return settings.off and x or trainer:train(...)
      end, {x, y}, {model = model, optimizer = trainer.optimizer})
      local function refused(name, change, restore)
         program(x, y)
         change()
         assert.error_matches(function() program(x, y) end, "program: " .. name .. " has changed since the export")
         restore()
         program(x, y)
      end
      local function set(name, object, key, value)
         local old = rawget(object, key)
         refused(name, function() object[key] = value end, function() object[key] = old end)
      end
      refused("the variable factor", function() factor = 3 end, function() factor = 2 end)
      set("the variable weight", env, "weight", 2)
      set("settings.smooth", settings, "smooth", 0.2)
      set("settings.off", settings, "off", true)
      set("settings.parts%[1%]", settings.parts, 1, F.gelu)
      set("settings.parts%[2%]", settings.parts, 2, F.gelu)
      set("reduction of trainer.loss", trainer.loss, "reduction", "sum")
      set("trainer.loss", trainer, "loss", nn.NLLLoss())
      set("trainer.penalty", trainer, "penalty", trainer.train)
      set("trainer.penalty", Trainer, "penalty", trainer.train)
      set("scaled", model, "scaled", Net.forward)
      set("scaled", Net, "scaled", Net.forward)
      set("options.gain", model.options, "gain", 3)
      -- The code calls optimizer:step(), a method with the name of the first field. Each step changes trainer.count. A
      -- change of these fields does not matter.
      trainer.step, trainer.count, trainer.epoch = 5, 10, 1
      program(x, y)
   end)

   it("refuse to run after changes of fields that the step misses, inherits or finds by computed keys", function()
      local Net, Trainer = torch.class("Net", nn.Sequential), torch.class "Trainer"
      Net.gain, Trainer.factor = 2, 1
      function Net:forward(x)
         local function scaled(y) return y * self.gain * (self.more or 1) end
         local y = scaled(self[1](x))
         if not self.training then self.calls = (self.calls or 0) + 1 end
         return self.shift and y + self.shift or y
      end
      local parts, weights, order, settings = {{1, 2}}, {a = 1, b = 0.5}, {"x", "y"}, {inner = {}, bias = 0}
      local scales = {x = 1, y = 2}
      for i = 3, 20 do parts[1][i] = i end
      local class = {zero = 0} -- this table is its own metatable and its own __index
      class.__index = setmetatable(class, class)
      function class:value() return self.zero end
      local own = setmetatable({}, class)
      local function shifted(loss) return loss + (settings.more or settings.bias) + own:value() end
      function Trainer:__init()
         self.model, self.options = Net(nn.Linear(4, 3)), {}
         self.optimizer = optim.SGD(self.model:parameters(), {lr = 0.1})
      end
      function Trainer:train(x, y)
         self.optimizer:zero_grad()
         local loss = F.cross_entropy(self.model(x), y, self.options.loss) * self.factor
         loss = loss + (settings.inner.bias or settings.bias)
         if self.double then loss = loss * 2 end
         local sum = shifted(loss)
         for _, weight in pairs(weights) do sum = sum + loss * weight end
         for _, part in ipairs(parts[1]) do sum = sum + loss / part end
         for _, name in ipairs(order) do sum = sum * scales[name] end
         sum:backward()
         self.optimizer:step()
         return sum:detach()
      end
      local trainer = Trainer()
      local model, x, y = trainer.model, torch.randn(5, 4), torch.randint(1, 4, {5})
      local program = torch.export_step(function(...) return trainer:train(...) end, {x, y},
         {model = model, optimizer = trainer.optimizer})
      local function refused(name, object, key, value)
         program(x, y)
         local old = rawget(object, key)
         object[key] = value
         assert.error_matches(function() program(x, y) end, "program: " .. name .. " has changed since the export")
         object[key] = old
         program(x, y)
      end
      refused("more", model, "more", 3)
      refused("shift", model, "shift", 1)
      refused("gain", model, "gain", 3)
      refused("gain", Net, "gain", 3)
      refused("trainer.double", trainer, "double", true)
      refused("trainer.factor", trainer, "factor", 2)
      refused("trainer.options.loss", trainer.options, "loss", {reduction = "sum"})
      refused("own.zero", own, "zero", 1)
      refused("own.zero", class, "zero", 1)
      refused("settings.more", settings, "more", 1)
      refused("settings.inner.bias", settings.inner, "bias", 1)
      refused("weights.a", weights, "a", 2)
      refused("parts%[1%]%[20%]", parts[1], 20, 1)
      refused("scales.y", scales, "y", 3)
      model:eval()
      model(x)
      model:train()
      trainer.epoch, trainer.best, trainer.loss, settings.last, model.name = 1, 2, 3, 4, "net"
      program(x, y)
   end)

   it("advance together if the step itself changes fields of the model", function()
      local Counter = torch.class("Counter", nn.Module)
      function Counter:__init()
         nn.Module.__init(self)
         self.layer, self.calls = nn.Linear(8, 4), 0
      end
      function Counter:forward(x)
         self.calls = self.calls + 1
         return self.layer(x)
      end
      local eager, program, _, parts, x, y, step = twins({optimizer = sgd}, Counter)
      same_steps(2, eager, program, x, y)
      same_steps(2, eager, step, x, y)
      same_steps(2, eager, program, x, y)
      Counter.forward = function(self, input) return self.layer(input) end
      assert.error_matches(function() program(x, y) end, "program: forward has changed since the export")
      assert(parts.model.calls > 2)
   end)
end)
