-- checkpoint.lua - saves a training and continues it. A checkpoint has everything that later steps
-- depend on: weights, gradients that are being accumulated, optimizers, schedules, the gradient
-- scaler, callbacks, the loop's progress, the values logged in the epoch, the random states of each
-- rank, and the position of the training loader.

local torch = require "tlua"
local args = require "tlua.args"
local fields = require "tlua.trainer.checkpoint_fields"
local ranks = require "tlua.trainer.ranks"
local Results = require "tlua.trainer.results"
local setup = require "tlua.trainer.setup"
local strategy = require "tlua.trainer.strategy"
local notice = require "tlua.utils.notice"

local M = {}

local VERSION <const> = 1

local function loader_state(self)
   local loader = self.train_loader
   if type(loader) ~= "table" or not loader.state_dict then return nil end
   local state = loader:state_dict()
   if self.read_ahead and state.position then
      state.position = math.max(state.position - self.read_ahead, 0)
   end
   return state
end

local function gradients(self)
   if self.progress.accumulated == 0 then return nil end
   local list = {}
   for name, parameter in self.module:named_parameters() do
      if parameter.grad then list[name] = parameter.grad end
   end
   return list
end

-- Returns the module's buffers on this rank, or nil if there is only one rank. The buffers of batch
-- norm differ between ranks. With DDP they become equal in the next forward pass; with sharded
-- parameters they always differ.
local function buffers(self)
   if self.world_size == 1 then return nil end
   local list = {}
   for name, buffer in self.module:named_buffers() do list[name] = buffer end
   return list
end

local function dump(self, weights_only, in_folder)
   local module = self.module
   local state = {
      trainer_version = VERSION, epoch = self.current_epoch, global_step = self.global_step,
      state_dict = in_folder and {} or strategy.module_state(self),
      hyper_parameters = rawget(module, "hparams"),
   }
   if weights_only then return state end
   local progress = {}
   for name, value in pairs(self.progress) do progress[name] = value end
   progress.accumulate, progress.should_stop = self.accumulate, self.should_stop
   state.loops = progress
   state.optimizer_states, state.lr_schedulers, state.callbacks = {}, {}, {}
   for i, optimizer in ipairs(self.optimizers) do
      state.optimizer_states[i] = in_folder and {} or strategy.optimizer_state(self, optimizer)
   end
   for i, entry in ipairs(self.schedules) do
      state.lr_schedulers[i] = entry.scheduler:state_dict()
   end
   for _, callback in ipairs(self.callbacks) do
      if callback.state_dict then
         state.callbacks[setup.key_of(callback)] = callback:state_dict(self, module)
      end
   end
   state.scaler = self.scaler and self.scaler:state_dict() or nil
   state.gradients = gradients(self)
   state.results = self.train_results and self.train_results:state_dict() or nil
   state.metrics = {callback = self.callback_metrics, logged = self.logged_metrics,
      bar = self.progress_bar_metrics}
   local data = self.datamodule
   state.data = data and data.state_dict and data:state_dict() or nil
   return state
end

--- Saves a checkpoint. Either the first rank writes it as a file, or all ranks together write it as
--- a folder.
function M.save(self, path, weights_only)
   local in_folder = strategy.saves_folders(self)
   local state = dump(self, weights_only, in_folder)
   if not weights_only then
      state.ranks = ranks.gather(self, {random = torch.random.get_states(),
         loader = loader_state(self), gradients = state.gradients, results = state.results,
         buffers = buffers(self)})
      for _, callback in ipairs(self.callbacks) do
         if callback.on_save_checkpoint then
            callback:on_save_checkpoint(self, self.module, state)
         end
      end
      if self.module.on_save_checkpoint then self.module:on_save_checkpoint(state) end
   end
   if self.is_global_zero then
      local folder = path:match "^(.*)/[^/]*$"
      if folder and folder ~= "" then
         local made, message = torch.io.make_folder(folder)
         if not made then torch.raise(("trainer: %s: %s"):format(folder, message)) end
      end
      if not in_folder then torch.save(state, path) end
   end
   if in_folder then strategy.save_folder(self, path, state, weights_only) end
   if self.world_size > 1 then torch.distributed.barrier() end
end

--- Returns the path of the checkpoint that the option ckpt_path denotes. `path` is the value of
--- this option: a path, "best", "last" or nil. Returns nil if `path` is nil, or if it is "last" and
--- there is no checkpoint yet. Raises an error if a path cannot be opened, or if `path` is "best"
--- and no checkpoint has been saved.
function M.find(self, path)
   if path == nil then return nil end
   if path ~= "last" and path ~= "best" then
      local file <close>, message = io.open(path, "rb")
      if not file then
         torch.raise(("trainer.Trainer: ckpt_path: %s"):format(message))
      end
      return path
   end
   local found
   for _, callback in ipairs(self.callbacks) do
      if callback.is_checkpoint then
         found = found or (path == "best" and callback.best_model_path or nil)
         if path == "last" then found = found or callback:find_last(self) end
      end
   end
   if found == "" then found = nil end
   if not found and path == "best" then
      torch.raise('trainer.Trainer: ckpt_path: "best": no ModelCheckpoint has saved a checkpoint')
   end
   if not found then
      notice 'trainer: ckpt_path = "last": there is no checkpoint yet; it begins anew'
   end
   return found
end

--- Reads a checkpoint from its file or folder.
function M.read(self, path)
   local state = strategy.read(path)
   if type(state) ~= "table" or not state.state_dict
         or math.type(state.trainer_version) ~= "integer" then
      torch.raise(("trainer.Trainer: ckpt_path: %s: expected a trainer's checkpoint"):format(path))
   elseif state.trainer_version > VERSION then
      torch.raise(("trainer.Trainer: ckpt_path: %s: was written by a newer version (%d, this one "
         .. "reads %d)"):format(path, state.trainer_version, VERSION))
   end
   fields.check(("trainer.Trainer: ckpt_path: %s"):format(path), state)
   if self.stage == "fit" and not state.loops then
      torch.raise(("trainer.Trainer.fit: ckpt_path: %s has only weights; load them by "
         .. "load_from_checkpoint"):format(path))
   end
   return state
end

--- Loads the weights of a checkpoint into the module.
function M.load_module(self, state)
   if self.module.on_load_checkpoint then self.module:on_load_checkpoint(state) end
   if state.folder then
      strategy.load_folder(self, state.folder, true)
   else
      strategy.load_module(self, state.state_dict)
   end
   if state.loops then
      for _, callback in ipairs(self.callbacks) do
         if callback.on_load_checkpoint then
            callback:on_load_checkpoint(self, self.module, state)
         end
      end
   end
end

local function check_count(what, expected, got)
   if expected == got then return end
   torch.raise(("trainer.Trainer.fit: ckpt_path: the checkpoint has %d %s, the module has "
      .. "%d"):format(
      expected, what, got))
end

-- Returns whether a training was saved between two epochs. The last hooks of the first of these
-- epochs may not have run yet.
local function is_between_epochs(loops)
   return loops.place == "epoch" or loops.place == "done" or loops.place == nil
      or loops.is_last == true
end

-- Raises an error if the training was saved within an epoch by another number of ranks. Each rank
-- has already used its own share of the epoch's batches, so a new number of ranks could not
-- continue the epoch.
local function check_ranks(self, state)
   local count = #state.ranks
   if count == 0 then
      torch.raise "trainer.Trainer.fit: ckpt_path: the checkpoint has no states of ranks"
   elseif count ~= self.world_size and not is_between_epochs(state.loops) then
      torch.raise(("trainer.Trainer.fit: ckpt_path: the checkpoint was saved by %d rank%s within "
         .. "an epoch, after batch %d, and there %s %d now; only a checkpoint from an epoch's end "
         .. "goes on with another number of ranks, and weights can be loaded by "
         .. "load_from_checkpoint"):format(count, count == 1 and "" or "s", state.loops.batch,
         self.world_size == 1 and "is" or "are", self.world_size))
   end
end

-- Returns the part of a checkpoint that belongs to this rank. If the number of ranks has changed,
-- the rank gets the buffers of the first rank and a share of the logged values. A rank that did not
-- exist before draws new random numbers.
local function own_part(self, state)
   local count = #state.ranks
   local own = state.ranks[self.global_rank + 1]
   if count == self.world_size then return own end
   local lists = {}
   for i, part in ipairs(state.ranks) do lists[i] = part.results or {} end
   return {random = (own or state.ranks[self.global_rank % count + 1]).random,
      is_new = own == nil, buffers = state.ranks[1].buffers,
      results = Results.divide(lists, self.global_rank)}
end

--- Loads the state of a training, except the weights and the position of the loader.
function M.load_rest(self, state)
   check_count("optimizers", #state.optimizer_states, #self.optimizers)
   check_count("schedules", #state.lr_schedulers, #self.schedules)
   check_ranks(self, state)
   for i, optimizer in ipairs(state.folder and {} or self.optimizers) do
      strategy.load_optimizer(self, optimizer, state.optimizer_states[i])
   end
   for i, entry in ipairs(self.schedules) do
      entry.scheduler:load_state_dict(state.lr_schedulers[i])
   end
   if (state.scaler ~= nil) ~= (self.scaler ~= nil) then
      torch.raise(("trainer.Trainer.fit: ckpt_path: precision: the checkpoint %s a scaler's state"
         ):format(state.scaler and "has" or "lacks"))
   end
   if self.scaler then self.scaler:load_state_dict(state.scaler) end
   local used = {}
   for _, callback in ipairs(self.callbacks) do
      local key = setup.key_of(callback)
      if state.callbacks[key] ~= nil and callback.load_state_dict then
         callback:load_state_dict(state.callbacks[key], self)
         used[key] = true
      end
   end
   for key in pairs(state.callbacks) do
      if not used[key] then
         notice("trainer: the checkpoint has the state of the callback %q, which this trainer "
            .. "lacks", key)
      end
   end
   local own = own_part(self, state)
   self.progress = state.loops
   self.accumulate = self.progress.accumulate
   self.should_stop = self.progress.place ~= "done" and self.progress.should_stop
   self.progress.accumulate, self.progress.should_stop = nil, nil
   self.current_epoch, self.global_step = state.epoch, state.global_step
   if self.max_epochs and self.max_epochs >= 0 and state.epoch > self.max_epochs then
      torch.raise(("trainer.Trainer.fit: ckpt_path: the checkpoint is at epoch %d, but max_epochs "
         .. "is %d"):format(state.epoch, self.max_epochs))
   end
   self.random_states = own.random
   self.random_shift = own.is_new and self.global_rank or nil
   if own.results then self.train_results:load_state_dict(own.results) end
   self.callback_metrics, self.logged_metrics = state.metrics.callback, state.metrics.logged
   self.progress_bar_metrics = state.metrics.bar
   if own.gradients then
      for name, parameter in self.module:named_parameters() do
         local gradient = own.gradients[name]
         parameter.grad = gradient and gradient:to(parameter.device) or nil
      end
   end
   if own.buffers then
      local _ <close> = torch.no_grad()
      for name, buffer in self.module:named_buffers() do
         if own.buffers[name] then buffer:copy_(own.buffers[name]) end
      end
   end
   local data = self.datamodule
   if data and data.load_state_dict and state.data then data:load_state_dict(state.data) end
   if self.progress.place == "done" then self.progress.place = nil end
end

--- Moves the training loader to its saved position.
function M.load_loader(self, state)
   local own = state.ranks[self.global_rank + 1] or {}
   local loader = self.train_loader
   local place = self.progress.place
   self.loader_continues = false
   local within = (place == "batch" or place == "validated") and not self.progress.is_last
      and self.progress.batch < self.num_training_batches
   if within and own.loader then
      if type(loader) ~= "table" or not loader.load_state_dict then
         args.refuse("trainer.Trainer.fit", "train_dataloaders",
            "a loader that load_state_dict can put where it was", loader)
      end
      loader:load_state_dict(own.loader)
      self.loader_continues = own.loader.generators ~= nil
   end
end

return M
