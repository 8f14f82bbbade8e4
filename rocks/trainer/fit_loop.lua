-- fit_loop.lua - the loop of training: epochs, batches, optimizers and validation, in the order of
-- Lightning's hooks.
--
-- The table `progress` records what has been done, so that a saved training continues from there.
-- Its field `batch` is the number of batches done in the epoch. Its field `place` is "batch" after
-- a batch, "validated" after the validation that follows the batch, "epoch" after the hooks at the
-- end of an epoch, "done" after the training, and nil before an epoch's first batch. At the places
-- "batch", "validated" and "epoch", callbacks that save are called last, so that
-- checkpoints contain the effects of all other hooks.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local evaluate = require "tlua.trainer.evaluate"
local Learner = require "tlua.trainer.Learner"
local Module = require "tlua.trainer.Module"
local optimizers = require "tlua.trainer.optimizers"

local M = {}

local is_tensor <const> = torch.is_tensor

-- Returns the number of batches in an epoch. For a loader without a length it is math.huge.
local function length_of(loader)
   local ok, n = pcall(function() return #loader end)
   return ok and n or math.huge
end

-- Returns how many of n batches a limit allows. A limit that is an integer is a number of batches;
-- a limit that is a float is a share of n. If n is math.huge, each share but 0.0 allows all
-- batches.
local function limited(n, limit)
   if math.type(limit) == "integer" then return math.min(n, limit) end
   if n == math.huge then return limit == 0.0 and 0 or n end
   return math.floor(n * limit)
end

M.length_of, M.limited = length_of, limited

-- Steps -------------------------------------------------------------------------------------------

-- Returns the loss from a result of training_step, or nil if the result has none. Checks the
-- result.
local function loss_of(self, result)
   if torch.is_tensor(result) and result.requires_grad and result:numel() == 1 or result == nil then
      return result
   end
   local name = torch.type(self.module) .. ".training_step"
   local loss = result
   if type(result) == "table" and not torch.is_tensor(result) then
      loss = result.loss
      if loss == nil then
         torch.raise(name .. ": expected a loss, a table with the field loss, or nil; got a table "
            .. "without it")
      end
   end
   if not torch.is_tensor(loss) then args.refuse(name, "loss", "a tensor of one element", loss) end
   if loss:numel() ~= 1 then args.refuse(name, "loss", "a tensor of one element", loss) end
   if self.module.automatic_optimization and not loss.requires_grad then
      torch.raise(name .. ": loss: expected a tensor with a graph, got one that needs no gradient; "
         .. "was it detached, or computed without gradients?")
   end
   return loss
end

local function training_step(self, batch, number)
   local result
   if self.autocast or self.wrapped then
      result = self:_autocast(function()
         if self.wrapped then return self.wrapped("training_step", batch, number) end
         return self.module:training_step(batch, number)
      end)
   else
      result = self.module:training_step(batch, number)
   end
   self.current.result = result
   return loss_of(self, result)
end

-- Computes the loss of a batch and its gradients. If `first` is true, the gradients of earlier
-- batches are cleared before.
local function compute(self, batch, number, first)
   local heard, plan = self.heard, self.plan
   local loss = training_step(self, batch, number)
   if first then
      for i = 1, #self.optimizers do
         local optimizer = self.optimizers[i]
         if heard.on_before_zero_grad then self.fire(self, "on_before_zero_grad", optimizer) end
         if plan.zeroes_plainly then
            optimizer:zero_grad()
         else
            self.module:optimizer_zero_grad(self.current_epoch, number, optimizer)
         end
      end
   end
   if loss == nil then
      if self.world_size > 1 then
         torch.raise(("%s.training_step: returned nil, but all ranks must average gradients in "
            .. "each step"):format(torch.type(self.module)))
      end
      return nil
   end
   if self.accumulate > 1 then loss = loss / self.accumulate end
   if heard.on_before_backward then self.fire(self, "on_before_backward", loss) end
   if plan.computes_plainly then loss:backward() else self:_backward(loss) end
   if heard.on_after_backward then self.fire(self, "on_after_backward") end
   return loss
end

-- Computes the gradients for an optimizer's step, undoes the scaling of a gradient scaler, and
-- clips the gradients. Returns the loss.
local function prepare_step(self, optimizer, batch, number, first)
   local loss, scaler = compute(self, batch, number, first), self.scaler
   if scaler and loss ~= nil then scaler:unscale_(optimizer) end
   if self.heard.on_before_optimizer_step then
      self.fire(self, "on_before_optimizer_step", optimizer)
   end
   if self.plan.clips then
      self.module:configure_gradient_clipping(optimizer, self.gradient_clip_val,
         self.gradient_clip_algorithm)
   end
   return loss
end

local function optimizer_step(self, optimizer, batch, number, first)
   local scaler = self.scaler
   -- A scaler inspects the gradients and then decides whether the optimizer makes the step.
   if scaler then
      if prepare_step(self, optimizer, batch, number, first) ~= nil then
         scaler:step(optimizer)
         scaler:update()
      end
   elseif self.plan.steps_plainly then
      prepare_step(self, optimizer, batch, number, first)
      optimizer:step()
   else
      local ran, module = false, self.module
      module:optimizer_step(self.current_epoch, number, optimizer, function()
         ran = true
         return prepare_step(self, optimizer, batch, number, first)
      end)
      if not ran then
         torch.raise(torch.type(module) .. ".optimizer_step: the closure was not called, so the "
            .. "batch was not used; call optimizer:step(closure), or closure()")
      end
   end
end

-- Returns whether hooks or callbacks that save need to be called for each batch. If not, only the
-- module's step is called.
local function is_watched(self)
   for _, hook in ipairs {"on_train_batch_start", "on_before_zero_grad", "on_before_backward",
      "on_after_backward", "on_before_optimizer_step", "on_train_batch_end"} do
      if self.heard[hook] then return true end
   end
   return #self.hook_lists.on_train_batch_end.savers > 0 or self.before_transfer
      or self.after_transfer
end

-- Makes `self.plan`, which records the methods of the module that are the defaults, so that a step
-- need not call them. This function runs at the beginning of an epoch and when a step has changed
-- the optimizers or one of the methods. If the field `is_plain` of the plan is true, plain_batches
-- processes the batches.
local function make_plan(self)
   local module, optimizer = self.module, self.optimizers[1]
   local clips_plainly = module.configure_gradient_clipping == Module.configure_gradient_clipping
      and module.clip_gradients == Module.clip_gradients
   local clip = self.gradient_clip_val
   local plan = {
      optimizer = optimizer,
      -- A step without a closure is faster. Only LBFGS needs a closure.
      steps_plainly = module.optimizer_step == Module.optimizer_step and #self.optimizers == 1
         and not class.isinstance(optimizer, torch.optim.LBFGS),
      zeroes_plainly = module.optimizer_zero_grad == Module.optimizer_zero_grad,
      computes_plainly = module.backward == Module.backward and not self.scaler,
      clips = not clips_plainly or clip ~= nil and clip > 0,
      savers = #self.hook_lists.on_train_batch_end.savers > 0,
   }
   plan.moves_plainly = self.mover == module
      and module.transfer_batch_to_device == Module.transfer_batch_to_device
   plan.is_plain = plan.zeroes_plainly and plan.computes_plainly and not plan.clips
      and plan.steps_plainly and module.automatic_optimization and self.accumulate == 1
      and not self.autocast and not self.wrapped and #self.schedules == 0 and not is_watched(self)
   self.plan = plan
end

local function manual_step(self, batch, number)
   optimizers.count_steps(self)
   training_step(self, batch, number)
end

-- Schedules ---------------------------------------------------------------------------------------

local function monitored(self, entry)
   local value = self.callback_metrics[entry.monitor]
   if value == nil then
      if not entry.strict then return nil end
      torch.raise(("trainer: the schedule %s monitors %q, which was not logged%s"):format(
         entry.name, entry.monitor, self:_logged_names()))
   end
   return args.to_number("trainer", entry.monitor, value)
end

-- Steps the schedules whose interval is `interval` ("step" or "epoch") and whose frequency divides
-- `count`, the number of steps or epochs. If `plateau` is true, steps only those that monitor a
-- logged value, and otherwise only the others.
local function move_schedules(self, interval, count, plateau)
   for _, entry in ipairs(self.schedules) do
      if entry.interval == interval and entry.reduce_on_plateau == plateau and not entry.paused
         and count % entry.frequency == 0 then
         local metric
         if plateau then metric = monitored(self, entry) end
         if not plateau or metric ~= nil then
            self.module:lr_scheduler_step(entry.scheduler, metric)
         end
      end
   end
end

-- Logs --------------------------------------------------------------------------------------------

-- Passes a value that was logged with options on: to the progress bar, and to `values`, which the
-- loggers get. If the value is logged both for the step and for the epoch, it also goes to
-- callback_metrics under the name that ends in "_step".
local function show_value(self, entry, value, values)
   local name = entry.name
   if entry.prog_bar then self.progress_bar_metrics[name] = value end
   if not entry.forked then
      if values and entry.logger then values[name] = value end
      return
   end
   if values and entry.logger then values[entry.step_name] = value end
   self.callback_metrics[entry.step_name] = value
   if entry.prog_bar then self.progress_bar_metrics[entry.step_name] = value end
end

local function log_step(self)
   local results, progress = self.train_results, self.progress
   if not results.is_fresh then return end
   results.is_fresh = false
   local due = progress.stepped % self.log_every_n_steps == 0 and progress.accumulated == 0
   local values, metrics, order = due and {}, self.callback_metrics, results.order
   for i = 1, #order do
      local entry = order[i]
      if entry.fresh and entry.on_step then
         entry.fresh = false
         local value = entry.value
         if entry.sync_dist then value = results:step_value(self, entry) end
         metrics[entry.name] = value
         if due or entry.prog_bar or entry.forked then show_value(self, entry, value, values) end
      end
   end
   if due and next(values) then self:_log_metrics(values) end
end

local function log_epoch(self)
   local values = {}
   self.train_results:each_epoch(self, function(name, value, entry, forked)
      self.callback_metrics[name] = value
      if entry.prog_bar then self.progress_bar_metrics[name] = value end
      if entry.logger and (forked or not entry.forked) then values[name] = value end
   end)
   if next(values) then
      values.epoch = self.current_epoch
      self:_log_metrics(values)
   end
end

-- The loop ----------------------------------------------------------------------------------------

local function can_stop(self)
   local enough = not self.min_epochs or self.current_epoch >= self.min_epochs
   return enough and (not self.min_steps or self.global_step >= self.min_steps)
end

local function steps_done(self)
   return self.max_steps >= 0 and self.global_step >= self.max_steps
end

local function stops(self) return self.should_stop and can_stop(self) end

-- Returns whether a validation must follow the batch with this number.
local function is_due(self, number, is_last)
   if not self.val_loaders or self.progress.place == "validated" then return false end
   local every = self.check_val_every_n_epoch
   if every then
      if (self.current_epoch + 1) % every ~= 0 then return false end
      if self.val_check_batch == math.huge then return is_last end
      if is_last and self.val_check_batch == self.num_training_batches then return true end
      return number % self.val_check_batch == 0
   end
   return self.progress.total_batches % self.val_check_batch == 0
end

-- Steps the schedules that monitor a logged value. They move after a step, and after the validation
-- that follows it, which may log the value.
local function move_plateaus(self)
   if self.progress.steps_plateau then
      move_schedules(self, "step", self.progress.stepped, true)
      self.progress.steps_plateau = false
   end
end

local function validate(self)
   self.in_batch = true
   evaluate.run(self, "validation", self.val_loaders, self.num_val_batches)
   move_plateaus(self)
   self.progress.place, self.in_batch = "validated", false
   self.fire_savers(self, "on_validation_end")
   self:_save_pending()
end

local function run_batch(self, batch, number, is_last)
   local heard, progress = self.heard, self.progress
   local automatic = self.module.automatic_optimization
   self.current.batch, self.log_stage = nil, "train_batch"
   self.in_batch = true
   batch = evaluate.transfer(self, batch, 1)
   self.current.batch, self.current.result = batch, nil
   if heard.on_train_batch_start
         and self.fire(self, "on_train_batch_start", batch, number) == -1 then
      self.in_batch = false
      return "skip"
   end
   if self.optimizers[1] ~= self.plan.optimizer then make_plan(self) end
   if not automatic then
      manual_step(self, batch, number)
   else
      optimizers.check_count(self, "trainer.Trainer.fit", #self.optimizers)
      local first = progress.accumulated == 0
      progress.accumulated = progress.accumulated + 1
      if progress.accumulated < self.accumulate and not is_last then
         if self.ddp then
            self.ddp:no_sync(function() return compute(self, batch, number, first) end)
         else
            compute(self, batch, number, first)
         end
      else
         local optimizer = self.optimizers[1]
         if optimizer then
            optimizer_step(self, optimizer, batch, number, first)
         else
            compute(self, batch, number, first)
         end
         progress.accumulated = 0
         self.global_step = self.global_step + 1
      end
   end
   local stepped, scheduled = progress.accumulated == 0, automatic and #self.schedules > 0
   if stepped then
      progress.stepped = progress.stepped + 1
      if scheduled then move_schedules(self, "step", progress.stepped, false) end
   end
   progress.batch, progress.total_batches, progress.place = number, progress.total_batches + 1,
      "batch"
   progress.steps_plateau = stepped and scheduled
   if is_last and scheduled then move_schedules(self, "epoch", self.current_epoch + 1, false) end
   log_step(self)
   if progress.steps_plateau and not is_due(self, number, is_last) then move_plateaus(self) end
   if heard.on_train_batch_end then
      self.fire(self, "on_train_batch_end", self.current.result, batch, number)
      log_step(self)
   end
   self.in_batch = false
   if self.plan.savers then
      self.fire_savers(self, "on_train_batch_end", self.current.result, batch, number)
   end
   if self.pending_save then self:_save_pending() end
   self.current.batch = nil
end

-- Returns a batch from the values that a loader has returned. Several values become a list, and the
-- third result is then true.
local function pack(first, second, ...)
   if first == nil then return nil end
   if second == nil and select("#", ...) == 0 then return first end
   return {first, second, ...}, nil, true
end

-- Returns an iterator over batches; a batch of several values becomes a list. If the loader has no
-- length, one batch is read ahead, so that the last batch is recognised. The first `skip` batches
-- are read and dropped, unless the loader itself continues from its saved position.
local function batches_of(self, loader, skip)
   local epoch = evaluate.iterate(loader)
   local function read() return pack(epoch()) end
   if not self.loader_continues then
      for _ = 1, skip do read() end
   end
   self.loader_continues = false
   self.read_ahead = 0
   if self.num_training_batches ~= math.huge then return read, epoch end
   local ahead = read()
   self.read_ahead = ahead ~= nil and 1 or 0
   return function()
      local batch = ahead
      if batch == nil then return nil end
      ahead = read()
      self.read_ahead = ahead ~= nil and 1 or 0
      return batch, ahead == nil
   end, epoch
end

local function set_epoch(self, loader)
   local sampler = type(loader) == "table" and (rawget(loader, "sampler")
      or rawget(loader, "batch_sampler"))
   if type(sampler) == "table" and sampler.set_epoch then sampler:set_epoch(self.current_epoch) end
end

-- Returns whether the epoch ends after the batches that have been processed: there are no more, or
-- a limit or a callback ends it.
local function finished(self)
   local progress = self.progress
   return progress.is_last or progress.batch >= self.num_training_batches
      or self.max_steps >= 0 and steps_done(self) or self.should_stop and stops(self)
end

-- Processes batches until the epoch ends. Returns true if the loader returned no further batch, and
-- otherwise false.
local function watched_batches(self, read)
   local progress = self.progress
   repeat
      local batch, is_last = read()
      if batch == nil then return true end
      local number = progress.batch + 1
      progress.is_last = is_last or number == self.num_training_batches
      if run_batch(self, batch, number, progress.is_last) == "skip" then return false end
      if self.val_loaders and is_due(self, number, progress.is_last) then validate(self) end
   until finished(self)
   return false
end

-- Returns whether the losses of a Learner may be logged by the loop instead of its training_step,
-- and only where other code can read them. This is so if the loss of this epoch's first batch was
-- logged with the default options, and the methods are Learner's own.
local function may_postpone(self)
   local module, entry = self.module, self.train_results.entries.train_loss
   return entry ~= nil and entry.is_silent and entry.plain_place == self.log_place
      and module.training_step == Learner.training_step and module.log == Module.log
end

-- Logs the loss of the last step if a Learner's training_step has left the logging to the loop.
local function log_postponed(self)
   local results, loss = self.train_results, self.current.result
   if not results.postpones then return end
   results.postpones = false
   if loss then results:add_again(self, "train_loss", loss) end
end

-- Processes batches for plain_batches. If no batch is read ahead, `epoch` is the loader's iterator,
-- and otherwise nil.
local function compute_batches(self, read, epoch)
   local module, list, progress = self.module, self.optimizers, self.progress
   local optimizer, current = list[1], self.current
   local method = optimizer.zero_grad
   local zero_grad = checked.origin(method)
   local results, limit, every = self.train_results, self.num_training_batches,
      self.log_every_n_steps
   local moves = not self.plan.moves_plainly or not self.has_one_device
   local device = self.plan.moves_plainly and torch.device(self.device)
   local number, total, stepped = progress.batch, progress.total_batches, progress.stepped
   local global_step = self.global_step
   local learns, postpones = class.isinstance(module, Learner), false
   repeat
      local batch, is_last, is_list
      if epoch then
         batch, is_last, is_list = pack(epoch())
      else
         batch, is_last, is_list = read()
      end
      if batch == nil then return true end
      number, total, stepped, global_step = number + 1, total + 1, stepped + 1, global_step + 1
      if is_last or number == limit then is_last, progress.is_last = true, true end
      if moves then
         local first = is_list and device and batch[1]
         local second = first and batch[2]
         -- Most batches are lists of two tensors that are already on the device. Such a batch need
         -- not be moved.
         if not first or batch[3] ~= nil or not is_tensor(first) or not is_tensor(second)
               or first.device ~= device or second.device ~= device then
            batch = self.mover:transfer_batch_to_device(batch, self.device, 1)
         end
      end
      local defers = stepped % every ~= 0
      if not defers then log_postponed(self) end
      current.batch, results.defers, results.postpones = batch, defers, defers and postpones
      local loss = module:training_step(batch, number)
      if not is_tensor(loss) then loss = loss_of(self, loss) end
      current.result = loss
      zero_grad(optimizer, true)
      if loss then loss:backward() end
      optimizer:step()
      self.global_step = global_step
      progress.batch, progress.total_batches = number, total
      progress.stepped, progress.place = stepped, "batch"
      if results.is_fresh then log_step(self) end
      if self.pending_save then
         log_postponed(self)
         self:_save_pending()
      end
      if learns and not postpones then
         postpones = may_postpone(self)
         learns = postpones
      end
      if self.val_loaders and is_due(self, number, is_last) then
         log_postponed(self)
         current.batch = nil
         validate(self)
         self.in_batch = true
      end
      if is_last or self.should_stop and stops(self)
            or self.max_steps >= 0 and steps_done(self) then
         return false
      end
   until not module.automatic_optimization or self.optimizers ~= list or list[1] ~= optimizer
      or list[2] or optimizer.zero_grad ~= method
      or postpones and module.training_step ~= Learner.training_step
   return "changed"
end

-- Does the work of watched_batches in less time, if no hook needs to be called for each batch.
-- Returns "changed" if a step has replaced the optimizers, their method zero_grad or a Learner's
-- training_step, or has set automatic_optimization to false, since the batches must then be
-- processed in another way. Otherwise the result is that of watched_batches.
local function plain_batches(self, read, epoch)
   local current = self.current
   self.log_stage, self.in_batch, current.result = "train_batch", true, nil
   local ok, ended = pcall(compute_batches, self, read, epoch)
   log_postponed(self)
   self.train_results.defers = false
   if not ok then
      -- For a loss without a graph or with several elements, loss_of raises a better error than
      -- loss:backward().
      loss_of(self, current.result)
      error(ended, 0)
   end
   self.in_batch, current.batch, current.result = false, nil, nil
   return ended
end

local function run_epoch(self)
   local progress, fire = self.progress, self.fire
   if progress.place == "epoch" then return end
   local loader = self.train_loader
   local begins = progress.place == nil
   if begins then
      progress.batch, progress.accumulated = 0, 0
      self.train_results:reset()
      set_epoch(self, loader)
      self.log_stage = "train_epoch"
      fire(self, "on_train_epoch_start")
   else
      set_epoch(self, loader)
   end
   self.logged = self.train_results
   make_plan(self)
   local resumed = not begins
   if resumed and is_due(self, progress.batch, progress.is_last) then validate(self) end
   if not finished(self) then
      local now = resumed and torch.random.get_states()
      local read, epoch = batches_of(self, loader, resumed and progress.batch or 0)
      local direct = self.num_training_batches ~= math.huge and epoch or nil
      if now then torch.random.set_states(now) end
      local ended
      repeat
         local use = self.plan.is_plain and progress.accumulated == 0 and plain_batches
            or watched_batches
         ended = use(self, read, direct)
         if ended == "changed" then make_plan(self) end
      until ended ~= "changed"
      if ended and progress.batch == 0 and self.num_training_batches ~= math.huge then
         torch.raise "trainer: the training loader gave no batch"
      end
      if type(epoch) == "table" and epoch.close then epoch:close() end
   end
   self.log_stage = "train_epoch"
   self.logged = self.train_results
   self.in_batch = true
   fire(self, "on_train_epoch_end")
   log_epoch(self)
   if self.module.automatic_optimization then
      move_schedules(self, "epoch", self.current_epoch + 1, true)
   end
   progress.place, self.in_batch = "epoch", false
   self.fire_monitors(self, "on_train_epoch_end")
   self:_save_pending()
end

--- Trains until the limit of epochs, steps or time is reached or a callback ends the training.
function M.run(self)
   local progress = self.progress
   self.log_stage, self.log_place = nil, "on_train_start"
   self.fire(self, "on_train_start")
   self:_restore_random()
   local function ended()
      return self.max_epochs >= 0 and self.current_epoch >= self.max_epochs or steps_done(self)
         or stops(self)
   end
   if progress.place == "epoch" then
      progress.place = nil
      self.current_epoch = self.current_epoch + 1
   end
   progress.is_last = progress.place ~= nil and progress.is_last or false
   while self.num_training_batches > 0 and (progress.place ~= nil or not ended()) do
      run_epoch(self)
      progress.place, progress.is_last = nil, false
      self.current_epoch = self.current_epoch + 1
   end
   progress.place = "done"
   self.log_stage, self.log_place = nil, "on_train_end"
   self.fire(self, "on_train_end")
end

return M
