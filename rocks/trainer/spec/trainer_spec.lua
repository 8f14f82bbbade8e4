-- Tests the trainer: results, logs, callbacks, loggers, the tuner, and messages about misuse.

local torch = require "tlua"
local trainer = require "tlua.trainer"
local shell = require "spec.support.shell"
local nn = torch.nn

local x = torch.randn(12, 3, {generator = torch.Generator():manual_seed(1)})
local set = torch.data.TensorDataset(x, x:sum(2, {keepdim = true}))

local function loader(size, shuffle) return torch.data.DataLoader(set, {batch_size = size or 4, shuffle = shuffle}) end

local function quiet(options)
   for name, value in pairs {logger = false, enable_checkpointing = false, enable_progress_bar = false,
      enable_model_summary = false, max_epochs = 1} do
      if options[name] == nil then options[name] = value end
   end
   return trainer.Trainer(options)
end

local function net(methods)
   local Net = torch.class("Net", trainer.Module)
   function Net:__init() self.layer = nn.Linear(3, 1) end
   function Net:training_step(batch)
      local loss = nn.functional.mse_loss(self.layer(batch[1]), batch[2])
      self:log("loss", loss)
      return loss
   end
   function Net:configure_optimizers() return torch.optim.SGD(self:parameters(), {lr = 0.1}) end
   for name, method in pairs(methods or {}) do Net[name] = method end
   return Net()
end
describe("Trainer.fit", function()
   it("takes the steps of a hand-written loop", function()
      torch.manual_seed(4)
      local module = net()
      local hand = nn.Linear(3, 1)
      hand:load_state_dict(module.layer:state_dict())
      local optimizer = torch.optim.SGD(hand:parameters(), {lr = 0.1})
      for _ = 1, 3 do
         for input, target in loader():iter() do
            optimizer:zero_grad()
            nn.functional.mse_loss(hand(input), target):backward()
            torch.nn.utils.clip_grad_norm_(hand:parameters(), 0.7)
            optimizer:step()
         end
      end
      local run = quiet {max_epochs = 3, gradient_clip_val = 0.7}
      run:fit(module, loader())
      assert.same(hand.weight:tolist(), module.layer.weight:tolist())
      assert.equal(9, run.global_step)
      assert.equal(3, run.current_epoch)
   end)

   it("does the same whether or not a callback hears of each batch", function()
      local results = {}
      for i, callbacks in ipairs {{}, {{on_train_batch_end = function() end}}} do
         torch.manual_seed(4)
         local module = net {validation_step = function(self, batch) self:log("val", self.layer(batch[1]):sum()) end}
         local run = quiet {max_epochs = 3, callbacks = callbacks, limit_train_batches = 5, val_check_interval = 2}
         run:fit(module, loader(2), loader())
         results[i] = {module.layer.weight:tolist(), run.global_step, run.progress, run.callback_metrics.loss:item(),
            run.callback_metrics.val:item()}
      end
      assert.same(results[1], results[2])
      assert.equal(15, results[1][2])
   end)

   it("calls what a class replaces in each step", function()
      for _, name in ipairs {"backward", "optimizer_zero_grad", "optimizer_step", "clip_gradients",
         "configure_gradient_clipping", "transfer_batch_to_device", "on_after_backward", "on_before_zero_grad",
         "on_before_backward", "on_before_optimizer_step", "on_train_batch_start", "on_train_batch_end",
         "on_before_batch_transfer", "on_after_batch_transfer"} do
         local count = 0
         local old = trainer.Module[name]
         quiet({max_epochs = 1}):fit(net {[name] = function(self, ...)
            count = count + 1
            if old then return old(self, ...) end
            if name:find "batch_transfer" then return (...) end
         end}, loader())
         assert.equal(3, count, name)
      end
   end)

   it("ends when training_step sets should_stop, and saves what it asks for at the batch's end", function()
      shell.with_folder(function(folder)
         local path = folder .. "/asked.ckpt"
         local module = net {}
         local step = module.training_step
         function module:training_step(batch, number)
            if number == 2 then self.trainer:save_checkpoint(path) end
            if self.trainer.current_epoch == 1 and number == 2 then self.trainer.should_stop = true end
            return step(self, batch)
         end
         local run = quiet {max_epochs = 9}
         run:fit(module, loader())
         assert.equal(5, run.global_step)
         assert.equal(5, torch.load(path).global_step)
      end)
   end)

   it("has a Learner's last training loss in callback_metrics wherever other code can read it", function()
      local losses, rows, seen = {}, {}, {}
      local function loss_of(output, target)
         if #losses == 10 then error "the eleventh loss" end
         local loss = nn.functional.mse_loss(output, target)
         if loss.requires_grad then losses[#losses + 1] = loss:item() end
         return loss
      end
      local function look(_, run) seen[#seen + 1] = {#losses, run.callback_metrics.train_loss:item()} end
      local logger = {log_metrics = function(_, values, step) rows[step] = values.train_loss or rows[step] end}
      local module = trainer.Learner(nn.Linear(3, 1), loss_of)
      local run = quiet {max_epochs = 3, logger = logger, log_every_n_steps = 3, val_check_interval = 3,
         callbacks = {{on_validation_start = look, on_train_epoch_end = look, on_exception = look}},
         num_sanity_val_steps = 0}
      assert.has_error(function() run:fit(module, loader(3), loader()) end)
      assert.same({{3, losses[3]}, {4, losses[4]}, {7, losses[7]}, {8, losses[8]}, {10, losses[10]}}, seen)
      assert.same({[2] = losses[3], [5] = losses[6], [8] = losses[9]}, rows)
   end)

   it("moves a batch that is elsewhere, and its fields", function()
      local seen = {}
      local function batches() return {{x = torch.ones(2, 3), y = {torch.ones(2, 1)}}, {x = torch.ones(2, 3)}} end
      quiet({accelerator = "sim"}):fit(net {training_step = function(self, batch)
         seen[#seen + 1] = tostring(batch.x.device)
         if batch.y then seen[#seen + 1] = tostring(batch.y[1].device) end
         return self.layer(batch.x):sum()
      end}, batches())
      assert.same({"sim:0", "sim:0", "sim:0"}, seen)
   end)

   it("accumulates gradients to those of a larger batch", function()
      local one, two = net(), net()
      two:load_state_dict(one:state_dict())
      quiet({max_epochs = 2}):fit(one, loader(4))
      local run = quiet {max_epochs = 2, accumulate_grad_batches = 2}
      run:fit(two, loader(2))
      assert.equal(6, run.global_step)
      assert.is_true(torch.allclose(one.layer.weight, two.layer.weight, {atol = 1e-6}))
   end)

   it("skips a batch for which training_step returns nil, as Lightning does", function()
      local module = net {training_step = function() end}
      local before = module.layer.weight:tolist()
      local run = quiet {}
      run:fit(module, loader())
      assert.same(before, module.layer.weight:tolist())
      assert.equal(3, run.global_step)
   end)

   it("keeps steps, epochs, limits and fast_dev_run", function()
      local run = quiet {max_steps = 5, max_epochs = -1}
      run:fit(net(), loader())
      assert.equal(5, run.global_step)
      run = quiet {limit_train_batches = 0.5, max_epochs = 4}
      run:fit(net(), loader(2))
      assert.equal(12, run.global_step)
      run = quiet {fast_dev_run = 2, max_epochs = 9}
      run:fit(net(), loader())
      assert.equal(2, run.global_step)
   end)

   it("does not shuffle with overfit_batches", function()
      local seen = {}
      local module = net {on_train_batch_start = function(_, batch) seen[#seen + 1] = batch[1][{1, 1}]:item() end}
      quiet({overfit_batches = 1, max_epochs = 3}):fit(module, loader(4, true))
      assert.same({seen[1], seen[1], seen[1]}, seen)
      assert.equal(x[{1, 1}]:item(), seen[1])
   end)

   it("trains with several optimizers that training_step steps itself", function()
      local module = net {automatic_optimization = false}
      function module:configure_optimizers()
         return torch.optim.SGD({self.layer.weight}, {lr = 0.1}), torch.optim.SGD({self.layer.bias}, {lr = 0.01})
      end
      function module:training_step(batch)
         local first, second = self:optimizers()
         local loss = nn.functional.mse_loss(self.layer(batch[1]), batch[2])
         first:zero_grad()
         second:zero_grad()
         self:manual_backward(loss)
         first:step()
         second:step()
      end
      local run = quiet {}
      run:fit(module, loader())
      assert.equal(6, run.global_step)
      local first, second = table.unpack(run.optimizers)
      function module.configure_optimizers() return {first, second} end
      run.max_epochs = 2
      run:fit(module, loader())
      assert.equal(12, run.global_step)
   end)

   it("follows a step that changes how later batches are used", function()
      local function train(change, expected_steps, hooks)
         local count, seen = 0, {}
         local module = net(hooks)
         local plain = module.training_step
         function module:training_step(batch)
            count = count + 1
            if count == 1 then change(self, seen, plain) end
            return plain(self, batch)
         end
         local run = quiet {}
         run:fit(module, loader(2))
         assert.equal(expected_steps, run.global_step)
         return seen, module, run
      end
      -- Without a hook for batches, plain_batches processes the batches; with a hook, watched_batches does.
      for _, hooks in ipairs {{}, {on_train_batch_end = function() end}} do
         local _, module = train(function(self)
            self.automatic_optimization = false
            self.kept = self.layer.weight:clone()
         end, 1, hooks)
         assert.is_false(module.kept:equal(module.layer.weight))
         local weight = module.layer.weight:tolist()
         local _, other = train(function(self, _, plain)
            self.automatic_optimization = false
            function self.training_step(owner, batch)
               local optimizer = owner:optimizers()
               optimizer:zero_grad()
               owner:manual_backward(plain(owner, batch))
               optimizer:step()
            end
         end, 6, hooks)
         assert.is_false(torch.tensor(weight):equal(other.layer.weight))
         local seen = train(function(self, seen, plain)
            function self.training_step(owner, batch)
               seen[#seen + 1] = #seen + 1
               return plain(owner, batch)
            end
         end, 6, hooks)
         assert.same({1, 2, 3, 4, 5}, seen)
         for _, class in ipairs {"SGD", "LBFGS"} do
            local steps = 0
            train(function(self)
               local optimizer = torch.optim[class](self:parameters(), {lr = 1e-3})
               optimizer:register_step_post_hook(function() steps = steps + 1 end)
               if class == "SGD" then self.trainer.optimizers[1] = optimizer
               else self.trainer.optimizers = {optimizer} end
            end, 6, hooks)
            -- The fast loop goes on stepping the optimizer with which the batch began.
            assert.is_true(steps >= 5)
         end
         assert.error_matches(function()
            train(function(self)
               local optimizers = self.trainer.optimizers
               optimizers[2] = torch.optim.SGD(self:parameters(), {lr = 1e-3})
            end, 6, hooks)
         end, "Trainer.fit: expected one optimizer, got 2; with several, set automatic_optimization = false")
      end
   end)

   it("trains a nested parameter", function()
      local module = net()
      module.layer = nn.Module()
      module.layer.w = nn.Parameter(torch.nested.nested_tensor {torch.ones(2), torch.ones(1)})
      function module:training_step() return (self.layer.w * self.layer.w):sum() end
      quiet({}):fit(module, loader())
      local expected = 1 * 0.8 ^ 3
      assert.is_true((module.layer.w:values() - expected):abs():max():item() < 1e-6)
   end)

   it("moves schedules on by their interval", function()
      local steps = {}
      for _, interval in ipairs {"step", "epoch"} do
         local schedule
         local module = net {configure_optimizers = function(self)
            local optimizer = torch.optim.SGD(self:parameters(), {lr = 1e-3})
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            return {optimizer = optimizer, lr_scheduler = {scheduler = schedule, interval = interval}}
         end}
         quiet({max_epochs = 2}):fit(module, loader())
         steps[interval] = schedule.last_epoch
      end
      assert.same({step = 6, epoch = 2}, steps)
   end)
end)

describe("values that are logged", function()
   it("are means over an epoch, weighted by the sizes of batches", function()
      local module = net {validation_step = function(self, batch) self:log("mean", batch[1]:sum() / #batch[1]) end}
      local result = quiet({}):validate(module, loader(5), {verbose = false})
      assert.is_true(math.abs(x:sum():item() / 12 - result[1].mean) < 1e-6)
   end)

   it("have the names of steps and epochs", function()
      local module = net {training_step = function(self, batch, number)
         self:log("number", number, {on_step = true, on_epoch = true, batch_size = 1})
         return self.layer(batch[1]):sum()
      end}
      local run = quiet {}
      run:fit(module, loader())
      local m = run.callback_metrics
      assert.equal(3, m.number_step)
      assert.equal(2, m.number_epoch)
      assert.equal(2, m.number)
   end)

   it("reach a CSV file at every n-th step", function()
      shell.with_folder(function(folder)
         local logger = trainer.CSVLogger(folder)
         local run = quiet {logger = logger, log_every_n_steps = 2, max_epochs = 2}
         run:fit(net(), loader())
         local text = shell.read(logger.log_dir .. "/metrics.csv")
         assert.matches("^loss,step\n[%d.e-]+,1\n[%d.e-]+,3\n[%d.e-]+,5\n$", text)
         assert.equal(folder .. "/tlua_logs/version_1", trainer.CSVLogger(folder).log_dir)
      end)
   end)

   it("reach TensorBoard's files and MLflow", function()
      if not (torch.has "utils.tensorboard" and torch.has "utils.mlflow") then
         return pending "needs the packages tensorboard and mlflow"
      end
      shell.with_folder(function(folder)
         local board = trainer.TensorBoardLogger(folder)
         local flow = trainer.MLFlowLogger("digits", {tracking_uri = folder .. "/runs"})
         local module = net()
         module:save_hyperparameters {width = 3}
         quiet({logger = {board, flow}, log_every_n_steps = 1}):fit(module, loader())
         flow:finish()
         local count = 0
         local path = shell.ok("ls " .. board.log_dir .. "/*tfevents*"):match "[^\n]+"
         for _, event in ipairs(torch.utils.tensorboard.read(path)) do
            for _, value in ipairs(event.values) do if value.tag == "loss" then count = count + 1 end end
         end
         assert.equal(3, count)
         assert.matches("3", shell.ok("wc -l " .. folder .. "/runs/*/*/metrics/loss"))
      end)
   end)

   it("are written as runs of W&B, and a logger with the same version continues the run", function()
      if not torch.has "utils.wandb" then return pending "needs the package wandb" end
      shell.with_folder(function(folder)
         for i = 1, 2 do
            local logger = trainer.WandbLogger {save_dir = folder, project = "digits", version = "abc"}
            local module = net()
            module:save_hyperparameters {width = 3}
            quiet({logger = logger, log_every_n_steps = 1}):fit(module, loader())
            assert.equal(3 * i, logger.run.step)
            assert.equal(2, logger.run.summary["trainer/global_step"])
            assert.is_number(logger.run.summary.loss)
            assert.equal(3, logger.run.config.width)
            logger:finish()
         end
         assert.equal("1\n", shell.ok("ls " .. folder .. "/wandb | wc -l"))
      end)
   end)
end)

describe("callbacks", function()
   it("save the best checkpoints and load the best one", function()
      shell.with_folder(function(folder)
         local values = {5, 3, 4, 1, 2}
         local module = net {validation_step = function(self)
            self:log("score", values[self.trainer.current_epoch + 1])
         end}
         local checkpoint = trainer.ModelCheckpoint {dirpath = folder, monitor = "score", save_top_k = 2,
            save_last = true, filename = "{epoch}-{score:.1f}"}
         quiet({max_epochs = 5, callbacks = {checkpoint}, enable_checkpointing = true})
            :fit(module, loader(), loader())
         assert.equal("epoch=3-score=1.0.ckpt\nepoch=4-score=2.0.ckpt\nlast.ckpt\n", shell.ok("ls " .. folder))
         assert.equal(folder .. "/epoch=3-score=1.0.ckpt", checkpoint.best_model_path)
         local loaded = getmetatable(module):load_from_checkpoint(checkpoint.last_model_path)
         assert.same(module.layer.weight:tolist(), loaded.layer.weight:tolist())
      end)
   end)

   it("stop early, and do not before min_epochs", function()
      local module = net {validation_step = function(self) self:log("score", 1.0) end}
      local stopping = trainer.EarlyStopping("score", {patience = 2})
      local run = quiet {max_epochs = 20, callbacks = {stopping}}
      run:fit(module, loader(), loader())
      assert.equal(3, run.current_epoch)
      run = quiet {max_epochs = 20, min_epochs = 6, callbacks = {trainer.EarlyStopping("score", {patience = 2})}}
      run:fit(module, loader(), loader())
      assert.equal(6, run.current_epoch)
   end)

   it("log learning rates", function()
      local monitor = trainer.LearningRateMonitor()
      local learner = trainer.Learner(nn.Linear(3, 1), nn.MSELoss(), {lr = 1, schedule = function(optimizer)
         return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
      end})
      local logger = {log_metrics = function() end}
      quiet({max_epochs = 3, callbacks = {monitor}, logger = logger}):fit(learner, loader())
      assert.same({1, 0.5, 0.25}, monitor.lrs["lr-Adam"])
   end)

   it("average weights", function()
      local weights = {}
      local module = net {on_train_epoch_end = function(self)
         weights[#weights + 1] = self.layer.weight:detach():clone()
      end}
      local swa = trainer.StochasticWeightAveraging(0.05, {swa_epoch_start = 2})
      quiet({max_epochs = 4, callbacks = {swa}}):fit(module, loader())
      assert.is_true(torch.allclose(module.layer.weight, (weights[3] + weights[4]) / 2))
   end)

   it("end a training after a time", function()
      local timer = trainer.Timer(0.0, {verbose = false})
      local run = quiet {max_epochs = 50, callbacks = {timer}}
      run:fit(net(), loader())
      assert.equal(1, run.global_step)
   end)
end)

describe("the callbacks of configure_callbacks", function()
   it("replace those of the same class, and are not there twice after a second fit", function()
      local count, own = 0, nil
      local module = net {configure_callbacks = function()
         own = trainer.EarlyStopping("loss", {patience = 7})
         return {own, {on_train_start = function() count = count + 1 end}}
      end}
      local run = quiet {max_epochs = 1, callbacks = {trainer.EarlyStopping "loss"}}
      for i = 1, 2 do
         run.max_epochs = i
         run:fit(module, loader())
         assert.equal(i, count)
         assert.equal(2, #run.callbacks)
         assert.equal(own, run.callbacks[1])
      end
   end)
end)

describe("test and predict", function()
   it("return values and results", function()
      local module = trainer.Learner(nn.Linear(3, 1), nn.MSELoss())
      local run = quiet {}
      local result = run:test(module, loader(), {verbose = false})
      assert.is_true(result[1].test_loss > 0)
      local list = run:predict(module, loader())
      assert.equal(3, #list)
      assert.same({4, 1}, {table.unpack(list[1].shape)})
      assert.is_true(module.training)
   end)

   it("keep the place of a batch for which predict_step returns nil", function()
      local module = net {predict_step = function(_, _, number) return number ~= 2 and number or nil end}
      local list = quiet({}):predict(module, loader())
      assert.same({1, nil, 3, n = 3}, list)
      list = quiet({}):predict(net {predict_step = function() end}, {loader(), loader(6)})
      assert.same({{n = 3}, {n = 2}, n = nil}, {list[1], list[2]})
   end)

   it("keep the values of several loaders apart", function()
      local module = trainer.Learner(nn.Linear(3, 1), nn.MSELoss())
      local result = quiet({}):validate(module, {loader(), loader(6)}, {verbose = false})
      assert.truthy(result[1]["val_loss/dataloader_idx_1"])
      assert.truthy(result[2]["val_loss/dataloader_idx_2"])
   end)
end)

describe("the tuner", function()
   it("suggests a learning rate and leaves the weights", function()
      local learner = trainer.Learner(nn.Linear(3, 1), nn.MSELoss())
      local before = learner.model.weight:tolist()
      local found = trainer.lr_find(learner, loader(12), {update_attr = true})
      assert.same(before, learner.model.weight:tolist())
      assert.equal(found.suggestion, learner.lr)
      assert.is_true(found.suggestion > 1e-6 and found.suggestion < 1)
   end)

   it("doubles a batch until memory is out, and searches between", function()
      local learner = trainer.Learner(nn.Linear(3, 1), nn.MSELoss())
      local function make(size)
         if size > 11 then return {{torch.ones(1, 3), {}}} end
         return loader(size)
      end
      local step = learner.training_step
      learner.training_step = function(self, batch)
         if type(batch[2]) == "table" then error "out of memory: tried to allocate 9 GB" end
         return step(self, batch)
      end
      assert.equal(8, trainer.scale_batch_size(learner, make))
      assert.equal(11, trainer.scale_batch_size(learner, make, {mode = "binsearch"}))
   end)
end)

describe("a mistake", function()
   local function refuses(text, fn) assert.raises(text, fn) end

   it("in a name is told", function()
      refuses("trainer.Trainer: unknown option max_epoch; did you mean max_epochs?",
         function() trainer.Trainer {max_epoch = 3} end)
      refuses("trainer: Net.on_train_epoch_ends: there is no such hook; did you mean on_train_epoch_end?",
         function() quiet({}):fit(net {on_train_epoch_ends = function() end}, loader()) end)
      for wrong, right in pairs {
         validation_epoch_end = "on_validation_epoch_end", training_step_end = "on_train_batch_end",
         train_start = "on_train_start", setUp = "setup", tear_down = "teardown", train_step = "training_step",
         val_step = "validation_step", train_loader = "train_dataloader",
      } do
         refuses(("trainer: Net.%s: there is no such hook; did you mean %s?"):format(wrong, right),
            function() quiet {}:fit(net {[wrong] = function() end}, loader()) end)
      end
      refuses("trainer: Net.trainning_step: there is no such hook; did you mean training_step?",
         function() quiet({}):fit(net {trainning_step = function() end}, loader()) end)
      refuses("there is no such hook; did you mean on_train_end?",
         function() quiet {callbacks = {{on_train_ended = function() end}}} end)
      refuses("callbacks: expected hooks such as on_train_end, got a table without any",
         function() quiet {callbacks = {{patience = 3}}} end)
      local twice = {on_train_end = function() end}
      refuses("callbacks: expected each callback once, got one table twice",
         function() quiet {callbacks = {twice, twice}} end)
      local function stateful() return {on_train_end = twice.on_train_end, state_dict = function() return {} end} end
      refuses("expected a state_key of its own for each callback with a state, got two with \"table\"",
         function() quiet {callbacks = {stateful(), stateful()}} end)
      refuses("callbacks: expected an instance, got the class trainer.ModelSummary",
         function() quiet {callbacks = {trainer.ModelSummary}} end)
   end)

   it("in a module is told", function()
      local Bare = torch.class("Bare", trainer.Module)
      function Bare:__init() self.layer = nn.Linear(1, 1) end
      refuses("trainer.Trainer.fit: Bare has no training_step", function() quiet({}):fit(Bare(), loader()) end)
      function Bare:training_step() end
      refuses("trainer.Trainer.fit: Bare has no configure_optimizers",
         function() quiet({}):fit(Bare(), loader()) end)
      refuses("trainer.Trainer.fit: module: expected a trainer.Module, or trainer.Learner(model, loss) for a plain "
         .. "module, got an instance of nn.Linear", function() quiet({}):fit(nn.Linear(1, 1), loader()) end)
      refuses("Net.training_step: loss: expected a tensor of one element, got a float32 tensor of shape (4, 1)",
         function()
            quiet({}):fit(net {training_step = function(self, batch) return self.layer(batch[1]) end}, loader())
         end)
      refuses("Net.training_step: loss: expected a tensor of one element, got 0.5",
         function() quiet({}):fit(net {training_step = function() return 0.5 end}, loader()) end)
      refuses("expected a tensor with a graph, got one that needs no gradient", function()
         quiet({}):fit(net {training_step = function() return torch.ones({}) end}, loader())
      end)
      refuses("there are validation data, but Net has no validation_step",
         function() quiet({}):fit(net(), loader(), loader()) end)
      refuses("configure_optimizers: the optimizer has none of the module's parameters", function()
         quiet({}):fit(net {configure_optimizers = function()
            return torch.optim.SGD({torch.ones(1):requires_grad_()}, {lr = 1})
         end}, loader())
      end)
      refuses("expected one optimizer, got 2; with several, set automatic_optimization = false", function()
         quiet({}):fit(net {configure_optimizers = function(self)
            return {torch.optim.SGD(self:parameters()), torch.optim.SGD(self:parameters())}
         end}, loader())
      end)
      refuses("Net.configure_optimizers: expected one optimizer, got 2; with several, set automatic_optimization = ",
         function()
            quiet({}):fit(net {configure_optimizers = function(self)
               return torch.optim.SGD(self:parameters()), torch.optim.Adam(self:parameters())
            end}, loader())
         end)
      refuses("optimizer_step: the closure was not called",
         function() quiet({}):fit(net {optimizer_step = function() end}, loader()) end)
   end)

   it("in what a metric returns is told", function()
      for _, value in ipairs {false, "0.5", torch.ones(2)} do
         local learner = trainer.Learner(nn.Linear(3, 1), nn.MSELoss(),
            {metrics = {accuracy = function() return value or nil end}})
         refuses("trainer.Learner: metrics.accuracy: expected a number or a tensor of one element as its result, got ",
            function() quiet({}):fit(learner, loader()) end)
      end
   end)

   it("in what configure_callbacks returns is told", function()
      local function fit(result) quiet({}):fit(net {configure_callbacks = function() return result end}, loader()) end
      local stop = trainer.EarlyStopping "loss"
      fit(nil)
      fit {}
      for _, case in ipairs {
         {5, "Net.configure_callbacks: result: expected a callback, a list of callbacks, or nil, got 5"},
         {{5}, "Net.configure_callbacks: callbacks: expected objects or tables with hooks, got 5"},
         {trainer.EarlyStopping, "Net.configure_callbacks: callbacks: expected an instance"},
         {{{on_train_ends = function() end}}, "on_train_ends: there is no such hook; did you mean on_train_end?"},
         {{stop, stop}, "expected each callback once, got one trainer.EarlyStopping twice"},
      } do
         refuses(case[2], function()
            quiet({}):fit(net {configure_callbacks = function() return case[1] end}, loader())
         end)
      end
   end)

   it("in what is passed as data is told", function()
      local expected <const> = "train_dataloader: expected a data loader, such as torch.data.DataLoader(dataset), or a "
         .. "list of them, got "
      refuses(expected .. "an instance of data.TensorDataset", function() quiet({}):fit(net(), set) end)
      refuses(expected .. "3", function() quiet({}):fit(net(), 3) end)
      local Data = torch.class("Data", trainer.DataModule)
      refuses(expected .. "the class Data", function() quiet({}):fit(net(), Data) end)
      refuses("train_dataloaders: expected a data loader, as an argument", function() quiet({}):fit(net()) end)
      refuses("trainer.Trainer.fit: expected a call as a method, trainer:fit(...)",
         function() quiet({}).fit(net(), loader()) end)
   end)

   it("in what is monitored is told", function()
      refuses('trainer.EarlyStopping: monitor: "val_los" was not logged; there are loss',
         function() quiet({callbacks = {trainer.EarlyStopping "val_los"}}):fit(net(), loader()) end)
      refuses('trainer.ModelCheckpoint: monitor: "acc" was not logged; there are loss', function()
         quiet({callbacks = {trainer.ModelCheckpoint {monitor = "acc"}}, enable_checkpointing = true})
            :fit(net(), loader())
      end)
      refuses('ReduceLROnPlateau monitors "v", which was not logged', function()
         quiet({}):fit(net {configure_optimizers = function(self)
            local optimizer = torch.optim.SGD(self:parameters())
            return {optimizer = optimizer, lr_scheduler = {monitor = "v",
               scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)}}
         end}, loader())
      end)
      refuses("Net.log: loss: values are logged in steps and in hooks of batches and epochs, not in on_fit_start",
         function() quiet({}):fit(net {on_fit_start = function(self) self:log("loss", 1) end}, loader()) end)
      refuses("log_dict takes a table of them", function()
         quiet({}):fit(net {training_step = function(self) self:log {loss = 1} end}, loader())
      end)
      refuses("Net.log: the module is not attached to a trainer", function() net():log("loss", 1) end)
   end)

   it("in devices, checkpoints and limits is told", function()
      refuses("devices: expected as many as ranks, got 2 on 1 machine with 1 rank; start the program by "
         .. "`tlua run -n 2 script.lua`", function() quiet {devices = 2} end)
      refuses("limit_train_batches: expected an integer (batches) of at least 0, or a float (share) from 0.0 to 1.0, "
         .. "got 1.5", function() quiet {limit_train_batches = 1.5} end)
      refuses("ckpt_path: nowhere.ckpt: No such file or directory",
         function() quiet({}):fit(net(), loader(), {ckpt_path = "nowhere.ckpt"}) end)
      shell.with_folder(function(folder)
         local run, module = quiet {}, net()
         run:fit(module, loader())
         run:save_checkpoint(folder .. "/w.ckpt", true)
         run:save_checkpoint(folder .. "/a.ckpt")
         refuses("has only weights", function() quiet({}):fit(net(), loader(), {ckpt_path = folder .. "/w.ckpt"}) end)
         refuses("the checkpoint has 0 schedules, the module has 1", function()
            quiet({max_epochs = 2}):fit(net {configure_optimizers = function(self)
               local optimizer = torch.optim.SGD(self:parameters())
               return {optimizer}, {torch.optim.lr_scheduler.StepLR(optimizer, 1)}
            end}, loader(), {ckpt_path = folder .. "/a.ckpt"})
         end)
         refuses("precision: the checkpoint lacks a scaler's state", function()
            quiet({max_epochs = 2, precision = "16-mixed"}):fit(net(), loader(), {ckpt_path = folder .. "/a.ckpt"})
         end)
      end)
   end)
end)

describe("on two ranks", function()
   it("gives the gradients of the whole batch, and the same weights on each", function()
      local program = [[
         local torch = require "tlua"
         local trainer, nn = torch.trainer, torch.nn
         torch.manual_seed(1)
         local x = torch.randn(16, 3)
         local set = torch.data.TensorDataset(x, x:sum(2, {keepdim = true}))
         local learner = trainer.Learner(nn.Linear(3, 1), nn.MSELoss(), {optimizer = "SGD", lr = 0.1})
         local size = tonumber(os.getenv "WORLD_SIZE" or "1")
         local run = trainer.Trainer {max_epochs = 2, logger = false, enable_checkpointing = false,
            enable_model_summary = false, accumulate_grad_batches = 2}
         run:fit(learner, torch.data.DataLoader(set, {batch_size = 4 // size}))
         local list = {}
         for _, w in ipairs(learner.model.weight:view(-1):tolist()) do list[#list + 1] = ("%.5f"):format(w) end
         print(run.global_step .. " " .. table.concat(list, " "))]]
      shell.with_folder(function(folder)
         local file <close> = assert(io.open(folder .. "/p.lua", "w"))
         file:write(program)
         file:flush()
         local tlua = shell.start()
         local one = shell.ok(("%s %s/p.lua"):format(tlua, folder))
         local two = shell.ok(("%s run -n 2 %s/p.lua"):format(shell.quote(shell.build .. "/tlua"), folder))
         for line in two:gmatch "[^\n]+" do
            assert.equal(one, line:gsub("^%[%d%] ", "") .. "\n")
         end
      end)
   end)
end)

describe("tlua fit", function()
   local tlua = shell.start()
   local config <const> = [[
      local torch = require "tlua"
      return {
         build = function(model, data)
            local x = torch.randn(data.count, 3)
            local set = torch.data.TensorDataset(x, x:sum(2, {keepdim = true}))
            local net = torch.nn.Sequential(torch.nn.Linear(3, model.width), torch.nn.Linear(model.width, 1))
            return torch.trainer.Learner(net, torch.nn.MSELoss(), {lr = model.lr}),
               torch.data.DataLoader(set, {batch_size = data.batch})
         end,
         model = {width = 4, lr = 0.01}, data = {count = 8, batch = 4}, seed = 1,
         trainer = {max_epochs = 2, logger = false, enable_checkpointing = false},
      }]]

   local function fit(words)
      return shell.with_folder(function(folder)
         local file <close> = assert(io.open(folder .. "/config.lua", "w"))
         file:write(config)
         file:flush()
         return shell.run(("%s fit %s/config.lua %s 2>&1"):format(tlua, folder, words))
      end)
   end

   it("trains with values of the command line", function()
      local said = fit "--trainer.max_epochs 3 --model.width=64 --data.batch 2"
      assert.matches("nn.Sequential +321\n", said)
      assert.matches("\n3 epochs, 12 steps\n   train_loss +[%d.e-]+\n$", said)
   end)

   it("prints the configuration as Lua", function()
      local said = fit "--print-config --model.lr 0.5 --trainer.precision bf16-mixed"
      local read = assert(load(said))()
      assert.same({width = 4, lr = 0.5}, read.model)
      assert.equal("bf16-mixed", read.trainer.precision)
      assert.equal(50, read.trainer.log_every_n_steps)
   end)

   it("names a wrong option", function()
      for words, text in pairs {
         ["--trainer.max_epoch 3"] = "unknown option --trainer.max_epoch; did you mean max_epochs?",
         ["--model.widht 3"] = "the configuration's table model has no such field; did you mean width?",
         ["--model.width 3.5"] = "--model.width: expected an integer, got 3.5",
         ["--model.width wide"] = "--model.width: expected a number, got wide",
         ["--modell.width 3"] = "expected --trainer., --model. or --data.",
         ["--model=3"] = "--model: expected the name of one option, such as --model.width=64; got --model",
         ["--data 3"] = "--data: expected the name of one option",
         ["--trainer=3"] = "--trainer: expected the name of one option, such as --trainer.max_epochs=3; got --trainer",
         ["--print-config=yes"] = "--print-config: expected no value, got yes",
         ["more"] = "unexpected argument 'more'",
      } do
         local said, status = fit(words)
         assert.equal(1, status)
         assert.matches("tlua fit: ", said, 1, true)
         assert.matches(text, said, 1, true)
      end
      assert.matches("usage: tlua fit", shell.ok(tlua .. " fit --help"))
   end)
end)

describe("what would be ignored", function()
   local function refuses(text, options, methods, resume)
      local ok, message = pcall(function() quiet(options):fit(net(methods), loader(), nil, nil, resume) end)
      assert.is_false(ok)
      assert.matches(text, message, 1, true)
   end

   it("is an error: options of a manual optimisation, other options of one name, a batch size of 0", function()
      local manual = {automatic_optimization = false}
      refuses("gradient_clip_val: has no effect with automatic_optimization = false", {gradient_clip_val = 1}, manual)
      refuses("accumulate_grad_batches: has no effect", {accumulate_grad_batches = 2}, manual)
      local function step(self, batch, number)
         self:log("a", number, {reduce_fx = number == 1 and "mean" or "sum"})
         return nn.functional.mse_loss(self.layer(batch[1]), batch[2])
      end
      refuses("Net.log: a: was logged with reduce_fx = mean before, and with sum now", {}, {training_step = step})
      refuses("batch_size: expected a number above 0", {},
         {training_step = function(self) self:log("a", 1, {batch_size = 0}) end})
   end)

   it("is an error: a checkpoint beyond max_epochs", function()
      shell.with_folder(function(folder)
         local path = folder .. "/state.ckpt"
         local first = quiet {max_epochs = 3}
         first:fit(net(), loader())
         first:save_checkpoint(path)
         refuses("the checkpoint is at epoch 3, but max_epochs is 1", {max_epochs = 1}, nil, path)
      end)
   end)

   it("is not: a tensor of a sum that changes in place later", function()
      local run, count, batches = quiet {}, torch.zeros(1), 0
      run:fit(net {training_step = function(self, batch, number)
         batches = number
         self:log("n", count:add_(1), {reduce_fx = "sum", on_step = false, on_epoch = true})
         return nn.functional.mse_loss(self.layer(batch[1]), batch[2])
      end}, loader())
      assert.is_true(batches > 1)
      assert.equal(batches * (batches + 1) / 2, run.callback_metrics.n:item())
   end)

   it("is not: NaN in a maximum, wherever it comes", function()
      for _, values in ipairs {{1, 0 / 0, 3}, {0 / 0, 2, 3}} do
         local run = quiet {}
         run:fit(net {training_step = function(self, batch, number)
            self:log("most", values[number], {reduce_fx = "max", on_step = false, on_epoch = true})
            return nn.functional.mse_loss(self.layer(batch[1]), batch[2])
         end}, loader())
         local most = run.callback_metrics.most
         assert.is_true(most ~= nil and tonumber(tostring(torch.is_tensor(most) and most:item() or most)) ~= 3)
      end
   end)
end)

it("a checkpoint's states go to the callbacks with their keys, or to none", function()
   local function counting(key, n)
      return {state_key = key, on_train_start = function() end, state_dict = function() return {n = n} end,
         load_state_dict = function(self, state) self.loaded = state.n end}
   end
   shell.with_folder(function(folder)
      local path = folder .. "/state.ckpt"
      local first = quiet {callbacks = {counting("a", 2), counting("b", 20)}}
      first:fit(net(), loader())
      first:save_checkpoint(path)
      local a, b, c = counting("a", 0), counting("b", 0), counting("c", 0)
      quiet {max_epochs = 2, callbacks = {b, a, c}}:fit(net(), loader(), nil, nil, path)
      assert.same({2, 20}, {a.loaded, b.loaded})
      assert.is_nil(c.loaded)
   end)
end)
