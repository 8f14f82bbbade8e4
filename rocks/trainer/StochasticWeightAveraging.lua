-- StochasticWeightAveraging.lua - averages the weights at the ends of a training's last epochs.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Callback = require "tlua.trainer.Callback"
local Results = require "tlua.trainer.results"
local evaluate = require "tlua.trainer.evaluate"

local NAME <const> = "trainer.StochasticWeightAveraging"

local signature = args.signature [[trainer.StochasticWeightAveraging(swa_lrs: number,
   swa_epoch_start: number = 0.8, annealing_epochs: count = 10,
   annealing_strategy: string = 'cos')]]

--- Averages the weights at the ends of the last epochs ("Averaging Weights Leads to Wider Optima",
--- Izmailov et al., 2018), during which the learning rate moves to swa_lrs. At the end of the
--- training, the module gets the averaged weights, and its batch norm layers get the statistics of
--- the training data.
---
---     local SWA = torch.trainer.StochasticWeightAveraging
---     local swa = SWA(0.01, {swa_epoch_start = 5})
---     print(swa.swa_lrs, swa.swa_epoch_start)
---     --> 0.01	5
---@class trainer.StochasticWeightAveraging: trainer.Callback
---@field n_averaged integer  the number of averaged epochs
---@overload fun(swa_lrs: number, options?: table): trainer.StochasticWeightAveraging
local SWA = class.class(NAME, Callback)

---@param swa_lrs number  the learning rate with which the averaged epochs are trained in the end
---@param options? {swa_epoch_start: number, annealing_epochs: integer, annealing_strategy: string}
--- swa_epoch_start: the number of epochs (integer) or the share of them (float) before the
--- averaging; annealing_strategy: how the rate moves to swa_lrs in annealing_epochs, "cos" or
--- "linear"
function SWA:__init(...)
   local a = signature(...)
   local start = a.swa_epoch_start
   if a.swa_lrs <= 0 or a.swa_lrs ~= a.swa_lrs then
      args.refuse(NAME, "swa_lrs", "a number above 0", a.swa_lrs)
   end
   if start < 0 or start ~= start or math.type(start) == "float" and start > 1 then
      args.refuse(NAME, "swa_epoch_start", "an integer, or a float from 0.0 to 1.0", start)
   end
   if a.annealing_strategy ~= "cos" and a.annealing_strategy ~= "linear" then
      args.refuse(NAME, "annealing_strategy", "cos or linear", a.annealing_strategy)
   end
   for name, value in pairs(a) do self[name] = value end
   self.n_averaged = 0
end

local function first_epoch(self, trainer)
   local start = self.swa_epoch_start
   if math.type(start) == "integer" then return start end
   return math.floor(trainer.max_epochs * start)
end

--- Runs before a training, and checks that the trainer has a limit of epochs above the first
--- averaged epoch, and one optimizer.
---@param trainer trainer.Trainer
function SWA:on_fit_start(trainer)
   if trainer.max_epochs < 1 then
      torch.raise(NAME .. ": expected a trainer with max_epochs, got none")
   elseif #trainer.optimizers ~= 1 then
      torch.raise(("%s: expected one optimizer, got %d"):format(NAME, #trainer.optimizers))
   elseif first_epoch(self, trainer) >= trainer.max_epochs then
      torch.raise(("%s: swa_epoch_start: expected less than the %d epochs of the trainer, got %s")
         :format(NAME, trainer.max_epochs, self.swa_epoch_start))
   end
end

-- Replaces the module's schedules by one that moves the learning rate to swa_lrs.
local function take_over(self, trainer)
   for _, entry in ipairs(trainer.schedules) do entry.paused = true end
   self.scheduler = torch.optim.swa_utils.SWALR(trainer.optimizers[1], self.swa_lrs,
      self.annealing_epochs, self.annealing_strategy)
end

--- Runs at the beginning of each training epoch. In the first averaged epoch, replaces the module's
--- schedules.
---@param trainer trainer.Trainer
function SWA:on_train_epoch_start(trainer)
   if trainer.current_epoch >= first_epoch(self, trainer) and not self.scheduler then
      take_over(self, trainer)
   end
end

--- Runs at the end of each training epoch, and adds the weights to the averages.
---@param trainer trainer.Trainer
---@param module trainer.Module
function SWA:on_train_epoch_end(_, module)
   if not self.scheduler then return end
   self.scheduler:step()
   local _ <close> = torch.no_grad()
   self.averages = self.averages or {}
   for i, parameter in ipairs(module:parameters()) do
      local average = self.averages[i]
      if average then
         average:lerp_(parameter:detach(), 1 / (self.n_averaged + 1))
      else
         self.averages[i] = parameter:detach():clone()
      end
   end
   self.n_averaged = self.n_averaged + 1
end

-- Runs the training data through the module with the averaged weights, without gradients, so that
-- its batch norm layers get the statistics of these data.
local function update_norms(trainer, module)
   local layers = {}
   for _, part in ipairs(module:modules()) do
      local is_norm = torch.type(part):find "^nn%.BatchNorm" and part.track_running_stats
      if is_norm then layers[part] = part.momentum end
   end
   if not next(layers) then return end
   for layer in pairs(layers) do
      layer:reset_running_stats()
      -- Without a momentum, the layer averages its statistics over all batches.
      layer.momentum = false
   end
   trainer.log_stage, trainer.logged = "train_batch", Results()
   torch.no_grad(function()
      local read = evaluate.iterate(trainer.train_loader)
      for number = 1, trainer.num_training_batches do
         local values = table.pack(read())
         if values[1] == nil then break end
         local batch = evaluate.transfer(trainer, values.n > 1 and values or values[1], 1)
         module:training_step(batch, number)
      end
   end)
   trainer.log_stage = nil
   for layer, momentum in pairs(layers) do layer.momentum = momentum end
end

--- Runs at the end of a training: gives the averaged weights to the module, and computes the
--- statistics of its batch norm layers anew.
---@param trainer trainer.Trainer
---@param module trainer.Module
function SWA:on_train_end(trainer, module)
   if self.n_averaged == 0 then return end
   torch.no_grad(function()
      for i, parameter in ipairs(module:parameters()) do parameter:copy_(self.averages[i]) end
   end)
   update_norms(trainer, module)
end

--- Returns the callback's state, as plain data for a checkpoint.
---@return table
function SWA:state_dict()
   return {n_averaged = self.n_averaged, averages = self.averages,
      scheduler = self.scheduler and self.scheduler:state_dict()}
end

--- Restores a state that state_dict has returned.
---@param state table  a result of state_dict
---@param trainer trainer.Trainer  the trainer, whose optimizer the restored schedule steps
function SWA:load_state_dict(state, trainer)
   self.n_averaged, self.averages = state.n_averaged, state.averages
   for i, average in ipairs(self.averages or {}) do
      self.averages[i] = average:to(trainer.device)
   end
   if not state.scheduler then return end
   local rates = {}
   for g, group in ipairs(trainer.optimizers[1].param_groups) do rates[g] = group.lr end
   take_over(self, trainer)
   self.scheduler:load_state_dict(state.scheduler)
   for g, group in ipairs(trainer.optimizers[1].param_groups) do group.lr = rates[g] end
end

return SWA
