-- tuner.lua - finds a learning rate and a batch size.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.trainer.Module"

local M = {}

-- Saves the module's weights and the random states. Returns a function that restores them.
local function keep(module)
   local saved, states = {}, torch.random.get_states()
   for name, tensor in pairs(module:state_dict()) do
      saved[name] = torch.is_tensor(tensor) and tensor:clone() or tensor
   end
   return function()
      module:load_state_dict(saved)
      torch.random.set_states(states)
   end
end

local function trainer_of(steps, options)
   return require "tlua.trainer.Trainer" {max_steps = steps, max_epochs = -1, logger = false,
      enable_checkpointing = false, enable_progress_bar = false, enable_model_summary = false,
      num_sanity_val_steps = 0, limit_val_batches = 0, accelerator = options.accelerator,
      callbacks = options.callbacks}
end

local function check_module(who, module)
   if not class.isinstance(module, Module) then
      args.refuse(who, "module", "a trainer.Module or a trainer.Learner", module)
   end
end

-- Returns the table that has the given attribute, such as a learning rate. It is the module or the
-- module's `hparams`.
local function holder_of(who, module, attribute)
   if rawget(module, attribute) ~= nil then return module end
   local hparams = rawget(module, "hparams")
   if hparams and hparams[attribute] ~= nil then return hparams end
   torch.raise(("%s: attr_name: expected a field of the module or of its hparams, got %q, which it "
      .. "lacks"):format(who, attribute))
end

local take_find = args.signature [[trainer.lr_find(module: any, train_dataloaders: any,
   min_lr: number = 1e-8, max_lr: number = 1.0, num_training: count = 100,
   mode: string = 'exponential', early_stop_threshold: number = 4.0, update_attr: boolean = false,
   attr_name: string = 'lr', accelerator: string = 'auto')]]

--- Trains for some steps with a growing learning rate, and suggests the rate at which the smoothed
--- loss falls fastest (Smith, 2015). Afterwards the weights and the random states are as before,
--- also if the training raises an error.
---
---     torch.manual_seed(1)
---     local x = torch.randn(64, 1)
---     local set = torch.data.TensorDataset(x, 3 * x)
---     local loader = torch.data.DataLoader(set, {batch_size = 64})
---     local model, loss = torch.nn.Linear(1, 1), torch.nn.MSELoss()
---     local learner = torch.trainer.Learner(model, loss)
---     local found = torch.trainer.lr_find(learner, loader, {num_training = 50})
---     print(#found.lr == #found.loss, found.suggestion > 1e-6)
---     --> true	true
---@param module trainer.Module
---@param train_dataloaders any  a data loader
---@param options? {min_lr: number, max_lr: number, num_training: integer, mode: string,
--- early_stop_threshold: number, update_attr: boolean, attr_name: string, accelerator: string}
--- mode: "exponential" or "linear"; early_stop_threshold: the search ends when the loss exceeds the
--- lowest loss by this factor; update_attr: whether the field attr_name of the module or, if the
--- module has no such field, of its hparams is set to the suggestion
---@return {lr: number[], loss: number[], suggestion: number?}  loss: the smoothed losses
function M.lr_find(...)
   local a = take_find(...)
   local who <const> = "trainer.lr_find"
   check_module(who, a.module)
   if a.mode ~= "exponential" and a.mode ~= "linear" then
      args.refuse(who, "mode", "exponential or linear", a.mode)
   elseif a.min_lr <= 0 or a.min_lr ~= a.min_lr then
      args.refuse(who, "min_lr", "a number above 0", a.min_lr)
   elseif a.max_lr <= a.min_lr or a.max_lr ~= a.max_lr then
      args.refuse(who, "max_lr", ("a number above min_lr, which is %g"):format(a.min_lr), a.max_lr)
   elseif a.num_training < 2 then
      args.refuse(who, "num_training", "at least 2", a.num_training)
   end
   local holder = a.update_attr and holder_of(who, a.module, a.attr_name)
   local restore = keep(a.module)
   local lrs, losses, smooth, best = {}, {}, 0.0, math.huge
   local finder = {}
   function finder:on_train_start(trainer)
      if #trainer.optimizers ~= 1 then torch.raise(who .. ": expected a module with one "
         .. "optimizer") end
      for _, entry in ipairs(trainer.schedules) do entry.paused = true end
   end
   function finder:on_train_batch_start(trainer)
      local t = trainer.global_step / (a.num_training - 1)
      local lr = a.mode == "linear" and a.min_lr + t * (a.max_lr - a.min_lr)
         or a.min_lr * (a.max_lr / a.min_lr) ^ t
      for _, group in ipairs(trainer.optimizers[1].param_groups) do group.lr = lr end
      lrs[#lrs + 1] = lr
   end
   function finder:on_train_batch_end(trainer, _, result)
      local loss = type(result) == "table" and not torch.is_tensor(result) and result.loss or result
      if loss == nil then
         lrs[#lrs] = nil
         return
      end
      local n = #losses + 1
      smooth = 0.98 * smooth + 0.02 * loss:item()
      losses[n] = smooth / (1 - 0.98 ^ n)
      if n > 1 and losses[n] > a.early_stop_threshold * best then trainer.should_stop = true end
      if n == 1 or losses[n] < best then best = losses[n] end
      if losses[n] ~= losses[n] then trainer.should_stop = true end
   end
   local run = trainer_of(a.num_training, {accelerator = a.accelerator, callbacks = {finder}})
   local ok, message = pcall(run.fit, run, a.module, a.train_dataloaders)
   restore()
   if not ok then error(message, 0) end
   -- This loop finds the steepest descent. It leaves out the last value and the first one or, of
   -- more than 20 values, the first ten, which are unreliable.
   local suggestion, steepest = nil, math.huge
   local skip = #losses > 20 and 10 or 1
   for i = skip + 1, #losses - 1 do
      local slope = (losses[i + 1] - losses[i - 1]) / 2
      if slope < steepest then suggestion, steepest = lrs[i], slope end
   end
   if a.update_attr and suggestion then holder[a.attr_name] = suggestion end
   return {lr = lrs, loss = losses, suggestion = suggestion}
end

local take_scale = args.signature [[trainer.scale_batch_size(module: any, make_loader: callable,
   mode: string = 'power', steps_per_trial: count = 3, init_val: count = 2, max_trials: count = 25,
   accelerator: string = 'auto')]]

-- Returns whether an error message says that memory has run out.
local function is_memory(message)
   local text = tostring(message):lower()
   return text:find("out of memory", 1, true) ~= nil
      or text:find("not enough memory", 1, true) ~= nil
end

--- Finds the largest of the tried batch sizes with which a few steps fit into memory. The sizes
--- start at init_val and double at most max_trials - 1 times. Afterwards the weights and the random
--- states are as before.
---
---     local set = torch.data.TensorDataset(torch.ones(16, 1), torch.ones(16, 1))
---     local model, loss = torch.nn.Linear(1, 1), torch.nn.MSELoss()
---     local learner = torch.trainer.Learner(model, loss)
---     print(torch.trainer.scale_batch_size(learner, function(size)
---        return torch.data.DataLoader(set, {batch_size = size})
---     end, {max_trials = 3}))
---     --> 8
---@param module trainer.Module
---@param make_loader fun(batch_size: integer): any  makes the data loader for a batch size
---@param options? {mode: string, steps_per_trial: integer, init_val: integer, max_trials: integer,
--- accelerator: string}  mode: "power" doubles the size until memory runs out; "binsearch" does so
--- too, and then searches between the last two sizes
---@return integer batch_size
function M.scale_batch_size(...)
   local a = take_scale(...)
   local who <const> = "trainer.scale_batch_size"
   check_module(who, a.module)
   if a.mode ~= "power" and a.mode ~= "binsearch" then
      args.refuse(who, "mode", "power or binsearch", a.mode)
   elseif a.max_trials < 1 then
      args.refuse(who, "max_trials", "an integer of at least 1", a.max_trials)
   end
   local restore = keep(a.module)
   local function fits(size)
      local loader = a.make_loader(size)
      local ok, message = pcall(function()
         trainer_of(a.steps_per_trial, {accelerator = a.accelerator}):fit(a.module, loader)
      end)
      restore()
      if not ok then
         collectgarbage()
         a.module:zero_grad()
         if not is_memory(message) then error(message, 0) end
      end
      return ok
   end
   local best, size = nil, math.max(a.init_val, 1)
   local failed
   for _ = 1, a.max_trials do
      if not fits(size) then
         failed = size
         break
      end
      best, size = size, size * 2
   end
   if not best then
      torch.raise(("%s: init_val: not even a batch of %d fits into memory"):format(who, size))
   end
   while a.mode == "binsearch" and failed and failed - best > 1 do
      local middle = (best + failed) // 2
      if fits(middle) then best = middle else failed = middle end
   end
   return best
end

return M
