-- EarlyStopping.lua - ends a training when a logged value has stopped improving.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Callback = require "tlua.trainer.Callback"
local notice = require "tlua.utils.notice"

local NAME <const> = "trainer.EarlyStopping"

local signature = args.signature [[trainer.EarlyStopping(monitor: string, min_delta: number = 0.0,
   patience: count = 3, verbose: boolean = false, mode: string = 'min', strict: boolean = true,
   check_finite: boolean = true, stopping_threshold: number?, divergence_threshold: number?,
   check_on_train_epoch_end: boolean?)]]

--- Ends a training when a logged value has not improved for `patience` checks.
---
---     local stopping = torch.trainer.EarlyStopping("val_loss", {patience = 5})
---     print(stopping.monitor, stopping.patience)
---     --> val_loss	5
---@class trainer.EarlyStopping: trainer.Callback
---@field best_score number  the best value so far
---@field wait_count integer  the number of checks since the best value
---@field stopped_epoch integer  the number of finished epochs when this callback ended the
--- training; 0 if it has not ended the training
---@overload fun(monitor: string, options?: table): trainer.EarlyStopping
local EarlyStopping = class.class(NAME, Callback)

EarlyStopping.is_monitor = true

---@param monitor string  the name of the logged value
---@param options? {min_delta: number, patience: integer, verbose: boolean, mode: string,
--- strict: boolean, check_finite: boolean, stopping_threshold: number, divergence_threshold:
--- number, check_on_train_epoch_end: boolean}  min_delta: a value is better if it improves the best
--- one by more than this. mode: "min" or "max". strict: whether a value that was not logged is an
--- error; otherwise a notice is printed. check_finite: whether NaN and infinity end the training.
--- stopping_threshold: a better value than this one ends the training as good enough;
--- divergence_threshold: a worse value than this one ends the training as hopeless.
--- check_on_train_epoch_end: whether the check is at the end of a training epoch instead of after
--- the validation; nil: true if there are no validation data
function EarlyStopping:__init(...)
   local a = signature(...)
   if a.mode ~= "min" and a.mode ~= "max" then args.refuse(NAME, "mode", "min or max", a.mode) end
   for name, value in pairs(a) do self[name] = value end
   self.best_score = a.mode == "min" and math.huge or -math.huge
   self.wait_count, self.stopped_epoch = 0, 0
end

local function beats(self, a, b)
   if self.mode == "min" then return a < b end
   return a > b
end

-- Compares a new value with the best one. Returns the reason why the training must end, or nil if
-- it continues.
local function reason(self, value)
   if self.check_finite and (value ~= value or math.abs(value) == math.huge) then
      return ("%s = %s is not finite"):format(self.monitor, value)
   elseif self.stopping_threshold and beats(self, value, self.stopping_threshold) then
      return ("%s = %g has reached %g"):format(self.monitor, value, self.stopping_threshold)
   elseif self.divergence_threshold and beats(self, self.divergence_threshold, value) then
      return ("%s = %g is beyond %g"):format(self.monitor, value, self.divergence_threshold)
   end
   local delta = self.mode == "min" and -math.abs(self.min_delta) or math.abs(self.min_delta)
   if beats(self, value, self.best_score + delta) then
      self.best_score, self.wait_count = value, 0
      return nil
   end
   self.wait_count = self.wait_count + 1
   if self.wait_count >= self.patience then
      return ("%s has not improved for %d checks; the best was %g"):format(self.monitor,
         self.wait_count, self.best_score)
   end
end

local function check(self, trainer)
   if trainer.fast_dev_run then return end
   local value = trainer.callback_metrics[self.monitor]
   if value == nil then
      local text = ("%s: monitor: %q was not logged%s"):format(NAME, self.monitor,
         trainer:_logged_names())
      if self.strict then torch.raise(text) end
      notice("%s", text)
      return
   end
   local why = reason(self, args.to_number(NAME, self.monitor, value))
   if why then
      trainer.should_stop, self.stopped_epoch = true, trainer.current_epoch
      if self.verbose and trainer.is_global_zero then print("EarlyStopping: " .. why) end
   end
end

local function at_training(self, trainer)
   if self.check_on_train_epoch_end ~= nil then return self.check_on_train_epoch_end end
   return not trainer.val_loaders
end

--- Runs after each validation, and checks the value unless it is checked at the end of the epoch.
---@param trainer trainer.Trainer
function EarlyStopping:on_validation_end(trainer)
   if trainer.sanity_checking or trainer.stage ~= "fit" or at_training(self,
      trainer) then return end
   check(self, trainer)
end

--- Runs at the end of each training epoch, and checks the value if check_on_train_epoch_end is
--- true, or if this option is nil and there are no validation data.
---@param trainer trainer.Trainer
function EarlyStopping:on_train_epoch_end(trainer)
   if at_training(self, trainer) then check(self, trainer) end
end

--- Returns the key of this callback's state in a checkpoint.
---@return string
function EarlyStopping:state_key()
   return ("EarlyStopping %s %s"):format(self.monitor, self.mode)
end

--- Returns the callback's state, as plain data for a checkpoint.
---@return table
function EarlyStopping:state_dict()
   return {wait_count = self.wait_count, stopped_epoch = self.stopped_epoch,
      best_score = self.best_score, patience = self.patience}
end

--- Restores a state that state_dict has returned.
---@param state table  a result of state_dict
function EarlyStopping:load_state_dict(state)
   self.wait_count, self.stopped_epoch = state.wait_count, state.stopped_epoch
   self.best_score = state.best_score
end

return EarlyStopping
