-- Tests the errors of torch.trainer for wrong arguments, and what its functions leave behind after an error.

local torch = require "tlua"
local shell = require "spec.support.shell"

local trainer = torch.trainer

local function loader()
   local x = torch.ones(4, 1)
   return torch.data.DataLoader(torch.data.TensorDataset(x, x))
end

local function learner(options)
   return trainer.Learner(torch.nn.Linear(1, 1), torch.nn.MSELoss(), options or {})
end

local function make(options)
   local all = {max_epochs = 1, logger = false, enable_checkpointing = false, enable_model_summary = false,
      enable_progress_bar = false}
   for name, value in pairs(options or {}) do all[name] = value end
   return trainer.Trainer(all)
end

describe("a wrong argument of torch.trainer", function()
   for text, fn in pairs {
      ["trainer.Learner: optimizer: expected a class of torch.optim, or its name, got \"lr_scheduler\""] =
         function() learner {optimizer = "lr_scheduler"} end,
      ["trainer.Trainer: val_check_interval: expected an integer (batches) of at least 1, or a float (share) "
         .. "above 0.0 and at most 1.0, got 0"] = function() make {val_check_interval = 0} end,
      ["trainer.Trainer: num_nodes: expected a divisor of the number of ranks, which is 1, got 2"] =
         function() make {num_nodes = 2} end,
      ["trainer.Trainer: train_dataloader: expected one data loader, such as torch.data.DataLoader(dataset), got a "
         .. "table"] = function() make():fit(learner(), {loader(), loader()}) end,
      ["trainer.Trainer.predict: unknown option verbose"] =
         function() make():predict(learner(), loader(), {verbose = true}) end,
      ["trainer.Trainer.test: verbose: expected a boolean, got 5"] =
         function() make():test(learner(), loader(), {verbose = 5}) end,
      ["trainer.Module.load_from_checkpoint: overrides: expected a table of hyperparameters, got 5"] =
         function() trainer.Learner:load_from_checkpoint("missing.ckpt", 5) end,
      ["trainer.Module.clip_gradients: optimizer: expected an optimizer, got 5"] =
         function() learner():clip_gradients(5, 1.0) end,
      ["trainer.Module.clip_gradients: gradient_clip_algorithm: expected norm or value, got \"max\""] = function()
         local module = learner()
         module:clip_gradients(torch.optim.SGD(module:parameters(), {lr = 0.1}), 1.0, "max")
      end,
      ["trainer.ModelCheckpoint: filename: expected a number's format behind \"epoch:\", such as {epoch:.2f}, got "
         .. "\"{epoch:zz}\""] = function() trainer.ModelCheckpoint {filename = "{epoch:zz}"} end,
      ["trainer.ModelCheckpoint: filename: the format \"d\" does not fit loss = 0.5"] = function()
         trainer.ModelCheckpoint {filename = "{loss:d}"}:format_name(1, 2, {loss = 0.5})
      end,
      ["trainer.ModelCheckpoint.format_name: epoch: expected an integer, got \"a\""] =
         function() trainer.ModelCheckpoint():format_name("a", 2, {}) end,
      ["trainer.Timer: duration: expected seconds of at least 0, got -5"] = function() trainer.Timer(-5) end,
      ["trainer.CSVLogger.log_metrics: values: expected a table of values by name, got \"x\""] =
         function() trainer.CSVLogger("logs"):log_metrics("x", 1) end,
      ["trainer.CSVLogger.log_metrics: loss: expected a number or a tensor of one, got \"x\""] =
         function() trainer.CSVLogger("logs"):log_metrics({loss = "x"}, 1) end,
      ["trainer.TensorBoardLogger.log_metrics: values: expected a table of values by name, got 5"] =
         function() trainer.TensorBoardLogger("logs"):log_metrics(5, 1) end,
      ["trainer.StochasticWeightAveraging: swa_lrs: expected a number above 0, got -1"] =
         function() trainer.StochasticWeightAveraging(-1) end,
      ["trainer.GradientAccumulationScheduler.get_accumulate_grad_batches: epoch: expected a number, got \"x\""] =
         function() trainer.GradientAccumulationScheduler({[1] = 2}):get_accumulate_grad_batches("x") end,
      ["trainer.lr_find: min_lr: expected a number above 0, got 0"] =
         function() trainer.lr_find(learner(), loader(), {min_lr = 0}) end,
      ["trainer.lr_find: max_lr: expected a number above min_lr, which is 1, got 0.5"] =
         function() trainer.lr_find(learner(), loader(), {min_lr = 1, max_lr = 0.5}) end,
      ["trainer.scale_batch_size: max_trials: expected an integer of at least 1, got 0"] =
         function() trainer.scale_batch_size(learner(), loader, {max_trials = 0}) end,
   } do
      it("is named: " .. text, function() assert.raises(text, fn) end)
   end
end)

describe("torch.trainer", function()
   it("refuses a checkpoint whose fields have other types", function()
      shell.with_folder(function(folder)
         local path = folder .. "/odd.ckpt"
         for _, state in ipairs {{state_dict = 5}, {state_dict = {}, hyper_parameters = 7}} do
            torch.save(state, path)
            assert.raises("odd.ckpt: expected a trainer's checkpoint",
               function() trainer.Learner:load_from_checkpoint(path) end)
         end
      end)
   end)

   it("restores the weights if a search for a learning rate fails", function()
      local module = learner {optimizer = "SGD"}
      local before = module.model.weight:detach():clone()
      local count = 0
      function module:training_step(batch)
         count = count + 1
         if count == 3 then error "the third batch is bad" end
         return trainer.Learner.training_step(self, batch)
      end
      local ok, message = pcall(trainer.lr_find, module, loader(), {min_lr = 0.1, num_training = 4})
      assert.is_false(ok)
      assert.matches("the third batch is bad", message)
      assert.is_true(torch.equal(before:cpu(), module.model.weight:cpu()))
   end)

   it("names checkpoints although values called epoch, step and metrics are logged", function()
      local checkpoint = trainer.ModelCheckpoint {filename = "{epoch}-{step}-{metrics:.1f}"}
      local name = checkpoint:format_name(3, 10.0, {epoch = 7, step = 8, metrics = 0.5})
      assert.equal("epoch=3-step=10-metrics=0.5", name)
   end)

   it("logs a boolean as 1 or 0", function()
      local module = learner()
      function module:on_train_batch_end() self:log("seen", true) end
      local run = make()
      run:fit(module, loader())
      assert.equal(1.0, run.callback_metrics.seen + 0.0)
   end)

   it("weights a mean by the alphabetically first named field of a batch", function()
      local module = learner()
      function module:training_step(batch)
         self:log("value", batch.first:sum(), {on_epoch = true})
         return self.model(batch.first):sum()
      end
      local batches = {}
      for i, n in ipairs {1, 3} do
         batches[i] = {first = torch.full({n, 1}, i / n)}
         for _, name in ipairs {"second", "third", "fourth", "zeroth"} do batches[i][name] = torch.ones(7 - n) end
      end
      local run = make()
      run:fit(module, batches)
      assert.near((1 * 1 + 3 * 2) / 4, run.callback_metrics.value_epoch:item(), 1e-6)
   end)

   it("names the folder of a run by a version that is a string of digits", function()
      assert.equal("logs/tlua_logs/7", trainer.CSVLogger("logs", {version = "7"}).log_dir)
   end)

   it("prints a configuration as Lua that gives the same values", function()
      local configs = require "tlua.trainer.config"
      local values = {["end"] = 1, text = "{ a,\n }", list = {1, {2, "{ b"}}, most = math.huge, least = -math.huge}
      local read = assert(load(configs.text {model = values}))().model
      assert.same(values, read)
      assert.same(values.list, configs.value_of(configs.text_of(values.list)))
   end)

   it("keeps a callback of a sweep's configuration that is a plain table of hooks", function()
      local sweep = require "tlua.trainer.sweep"
      shell.with_folder(function(folder)
         local hooks = {on_train_end = function() end}
         local config = {trainer = {callbacks = hooks}}
         sweep.prepare_trial(config, folder .. "/trial:2")
         sweep.lock:close()
         assert.equal(hooks, config.trainer.callbacks[1])
         assert.equal(2, #config.trainer.callbacks)
      end)
   end)
end)
