-- callbacks.lua - the smaller callbacks: LearningRateMonitor, GradientAccumulationScheduler, Timer,
-- ProgressBar and ModelSummary.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local placement = require "tlua.distributed.placement"
local Callback = require "tlua.trainer.Callback"

local M = {}

-- LearningRateMonitor -----------------------------------------------------------------------------

local take_monitor = args.signature [[trainer.LearningRateMonitor(logging_interval: string?,
   log_momentum: boolean = false, log_weight_decay: boolean = false)]]

--- Logs the learning rates of all parameter groups of the optimizers. Loggers get the rates, and
--- callback_metrics contains them.
---
---     local trainer = torch.trainer
---     local monitor = trainer.LearningRateMonitor {logging_interval = "epoch"}
---     print(monitor.logging_interval)
---     --> epoch
---@class trainer.LearningRateMonitor: trainer.Callback
---@field lrs table<string, number[]>  the rates, momenta and weight decays logged until now, by
--- name
---@overload fun(options?: table): trainer.LearningRateMonitor
local LearningRateMonitor = class.class("trainer.LearningRateMonitor", Callback)
M.LearningRateMonitor = LearningRateMonitor

---@param options? {logging_interval: string, log_momentum: boolean, log_weight_decay: boolean}
--- logging_interval: "step" or "epoch"; nil: the interval of the optimizer's schedule, or "epoch"
--- without a schedule
function LearningRateMonitor:__init(...)
   local a = take_monitor(...)
   if a.logging_interval and a.logging_interval ~= "step" and a.logging_interval ~= "epoch" then
      args.refuse("trainer.LearningRateMonitor", "logging_interval", "step or epoch",
         a.logging_interval)
   end
   for name, value in pairs(a) do self[name] = value end
   self.lrs = {}
end

local function names_of(trainer)
   local list = {}
   for i, optimizer in ipairs(trainer.optimizers) do
      local interval = "epoch"
      for _, entry in ipairs(trainer.schedules) do
         if entry.scheduler.optimizer == optimizer then interval = entry.interval end
      end
      local base = "lr-" .. torch.type(optimizer):match "[%w_]+$"
      if #trainer.optimizers > 1 then base = base .. "-" .. i end
      for g, group in ipairs(optimizer.param_groups) do
         local name = #optimizer.param_groups > 1 and ("%s/pg%d"):format(base, g) or base
         list[#list + 1] = {name = name, group = group, interval = interval}
      end
   end
   return list
end

local function log_rates(self, trainer, interval)
   local values = {}
   for _, entry in ipairs(names_of(trainer)) do
      if (self.logging_interval or entry.interval) == interval then
         local function put(name, value)
            if torch.is_tensor(value) then value = value:item() end
            values[name] = value
            trainer.callback_metrics[name] = value
            self.lrs[name] = self.lrs[name] or {}
            table.insert(self.lrs[name], value)
         end
         put(entry.name, entry.group.lr)
         local group = entry.group
         if self.log_momentum then
            put(entry.name .. "-momentum", group.momentum or group.betas and group.betas[1] or 0)
         end
         if self.log_weight_decay then
            put(entry.name .. "-weight_decay", group.weight_decay or 0)
         end
      end
   end
   if next(values) then trainer:_log_metrics(values) end
end

--- Checks at the beginning of a training that the trainer has a logger.
---@param trainer trainer.Trainer
function LearningRateMonitor:on_train_start(trainer)
   if #trainer.loggers == 0 then
      torch.raise("trainer.LearningRateMonitor: expected a trainer with a logger, got none")
   end
end

--- Logs learning rates before a training batch, every log_every_n_steps steps.
---@param trainer trainer.Trainer
function LearningRateMonitor:on_train_batch_start(trainer)
   if trainer.progress.stepped % trainer.log_every_n_steps == 0 then
      log_rates(self, trainer, "step")
   end
end

--- Logs learning rates at the beginning of a training epoch.
---@param trainer trainer.Trainer
function LearningRateMonitor:on_train_epoch_start(trainer) log_rates(self, trainer, "epoch") end

-- GradientAccumulationScheduler -------------------------------------------------------------------

--- At the start of given epochs, changes the number of batches over which gradients are accumulated
--- before each optimizer step.
---
---     local trainer = torch.trainer
---     local scheduler = trainer.GradientAccumulationScheduler {[0] = 8, [4] = 4}
---     print(scheduler:get_accumulate_grad_batches(2))
---     --> 8
---@class trainer.GradientAccumulationScheduler: trainer.Callback
---@overload fun(scheduling: table<integer, integer>): trainer.GradientAccumulationScheduler
local Accumulation = class.class("trainer.GradientAccumulationScheduler", Callback)
M.GradientAccumulationScheduler = Accumulation

---@param scheduling table<integer, integer>  maps a number of finished epochs to the number of
--- batches that are accumulated from then on; it is 1 before the first of these epochs
function Accumulation:__init(scheduling)
   local name = "trainer.GradientAccumulationScheduler"
   if type(scheduling) ~= "table" or not next(scheduling) then
      args.refuse(name, "scheduling", "a table from epochs to numbers of batches", scheduling)
   end
   for epoch, count in pairs(scheduling) do
      if math.type(epoch) ~= "integer" or epoch < 0 then
         args.refuse(name, "scheduling", "epochs, integers of at least 0", epoch)
      elseif math.type(count) ~= "integer" or count < 1 then
         args.refuse(name, "scheduling", "numbers of batches of at least 1", count)
      end
   end
   self.scheduling = scheduling
end

--- Returns the number of batches that are accumulated in an epoch.
---@param epoch integer  the number of finished epochs
---@return integer
function Accumulation:get_accumulate_grad_batches(epoch)
   if type(epoch) ~= "number" then
      args.refuse("trainer.GradientAccumulationScheduler.get_accumulate_grad_batches", "epoch",
         "a number", epoch)
   end
   local best, count = -1, 1
   for from, n in pairs(self.scheduling) do
      if from <= epoch and from > best then best, count = from, n end
   end
   return count
end

--- Checks the trainer's options at the beginning of a training.
---@param trainer trainer.Trainer
function Accumulation:on_train_start(trainer)
   if trainer.accumulate_grad_batches ~= 1 then
      torch.raise("trainer.GradientAccumulationScheduler: accumulate_grad_batches: expected 1 "
         .. "with this callback, got " .. trainer.accumulate_grad_batches)
   elseif not trainer.module.automatic_optimization then
      torch.raise("trainer.GradientAccumulationScheduler: expected automatic_optimization = true")
   end
end

--- Runs at the beginning of each training epoch, and sets the number of batches to accumulate in
--- this epoch.
---@param trainer trainer.Trainer
function Accumulation:on_train_epoch_start(trainer)
   trainer.accumulate = self:get_accumulate_grad_batches(trainer.current_epoch)
end

-- Timer -------------------------------------------------------------------------------------------

local take_timer = args.signature [[trainer.Timer(duration: number?, interval: string = 'step',
   verbose: boolean = true)]]

--- Measures the duration of training, validation and test, and stops the training when its time is
--- used up.
---
---     print(torch.trainer.Timer(3600):time_remaining())
---     --> 3600.0
---@class trainer.Timer: trainer.Callback
---@overload fun(duration?: number, options?: table): trainer.Timer
local Timer = class.class("trainer.Timer", Callback)
M.Timer = Timer

---@param duration? number  the time in seconds after which the training stops; nil: no limit
---@param options? {interval: string, verbose: boolean}  interval: whether the training can stop
--- after each "step" or only after an "epoch"; verbose: whether a message is printed when the timer
--- stops the training
function Timer:__init(...)
   local a = take_timer(...)
   if a.duration and (a.duration < 0 or a.duration ~= a.duration) then
      args.refuse("trainer.Timer", "duration", "seconds of at least 0", a.duration)
   end
   if a.interval ~= "step" and a.interval ~= "epoch" then
      args.refuse("trainer.Timer", "interval", "step or epoch", a.interval)
   end
   for name, value in pairs(a) do self[name] = value end
   self.offset, self.begun, self.ended = 0.0, {}, {}
end

--- Returns the seconds that a stage has taken. Of several validations or tests, only the last one
--- counts. The time of a training includes the parts before it was resumed.
---@param stage? "train"|"validate"|"test"  "train" by default
---@return number
function Timer:time_elapsed(stage)
   stage = stage or "train"
   if stage ~= "train" and stage ~= "validate" and stage ~= "test" then
      args.refuse("trainer.Timer.time_elapsed", "stage", "train, validate or test", stage)
   end
   local before = stage == "train" and self.offset or 0.0
   local begun = self.begun[stage]
   if not begun then return before end
   return before + (self.ended[stage] or torch.io.clock()) - begun
end

--- Returns the seconds that remain of the timer's duration. Returns nil if the timer has no
--- duration.
---@return number?
function Timer:time_remaining()
   return self.duration and self.duration + 0.0 - self:time_elapsed() or nil
end

local function check_time(self, trainer)
   if self.duration and self:time_elapsed() >= self.duration and not trainer.should_stop then
      trainer.should_stop = true
      if self.verbose and trainer.is_global_zero then
         print(("Timer: %g seconds are over"):format(self.duration))
      end
   end
end

--- These hooks start and stop the clocks of the stages.
---@names trainer.Timer:on_train_start trainer.Timer:on_train_end trainer.Timer:on_validation_start
---@names trainer.Timer:on_validation_end trainer.Timer:on_test_start trainer.Timer:on_test_end
for hook, stage in pairs {train = "train", validation = "validate", test = "test"} do
   Timer["on_" .. hook .. "_start"] = function(self)
      self.begun[stage], self.ended[stage] = torch.io.clock(), nil
   end
   Timer["on_" .. hook .. "_end"] = function(self) self.ended[stage] = torch.io.clock() end
end

--- Runs after each training batch. If `interval` is "step", stops the training once the time is
--- used up.
---@param trainer trainer.Trainer
function Timer:on_train_batch_end(trainer)
   if self.interval == "step" then check_time(self, trainer) end
end

--- Runs at the end of each training epoch. If `interval` is "epoch", stops the training once the
--- time is used up.
---@param trainer trainer.Trainer
function Timer:on_train_epoch_end(trainer)
   if self.interval == "epoch" then check_time(self, trainer) end
end

--- Returns the callback's state, as plain data for a checkpoint.
---@return table
function Timer:state_dict() return {time_elapsed = self:time_elapsed()} end

--- Restores a state that state_dict has returned.
---@param state table  a result of state_dict
function Timer:load_state_dict(state) self.offset = state.time_elapsed end

-- ProgressBar -------------------------------------------------------------------------------------

--- Shows the progress of an epoch on a terminal, with the values that are logged with prog_bar =
--- true.
---
---     print(torch.type(torch.trainer.ProgressBar()))
---     --> trainer.ProgressBar
---@class trainer.ProgressBar: trainer.Callback
---@overload fun(): trainer.ProgressBar
local ProgressBar = class.class("trainer.ProgressBar", Callback)
M.ProgressBar = ProgressBar

--- Creates the bar at the beginning of a training epoch, if the output is a terminal.
---@param trainer trainer.Trainer
function ProgressBar:on_train_epoch_start(trainer)
   if not trainer.is_global_zero or not torch.io.is_terminal(io.stdout) then return end
   local total = trainer.num_training_batches
   self.bar = torch.utils.Progress {label = "epoch " .. trainer.current_epoch, unit = "batches",
      total = total ~= math.huge and total or nil}
end

local function text_of(trainer)
   local names, parts = {}, {}
   for name in pairs(trainer.progress_bar_metrics) do names[#names + 1] = name end
   table.sort(names)
   for i, name in ipairs(names) do
      parts[i] = ("%s %.4g"):format(name, args.to_number("trainer", name,
         trainer.progress_bar_metrics[name]))
   end
   return table.concat(parts, ", ")
end

--- Advances the bar after a training batch.
---@param trainer trainer.Trainer
function ProgressBar:on_train_batch_end(trainer)
   if self.bar then self.bar:step(1, text_of(trainer)) end
end

--- Finishes the bar at the end of a training epoch.
---@param trainer trainer.Trainer
function ProgressBar:on_train_epoch_end(trainer)
   if self.bar then
      self.bar:finish(("epoch %d: %s"):format(trainer.current_epoch, text_of(trainer)))
      self.bar = nil
   end
end

function ProgressBar:_ignores(hook, trainer)
   return hook == "on_train_batch_end" and self[hook] == ProgressBar[hook]
      and (not trainer.is_global_zero or not torch.io.is_terminal(io.stdout))
end

-- ModelSummary ------------------------------------------------------------------------------------

--- Prints the direct children of a module and their numbers of parameters before a training.
---
---     local summary = torch.trainer.ModelSummary()
---     print(summary:text(torch.nn.Sequential(torch.nn.Linear(2, 3))))
---     --> name  type      parameters
---     --> 1     nn.Linear          9
---     --> 9 trainable parameters, 0 others
---@class trainer.ModelSummary: trainer.Callback
---@overload fun(): trainer.ModelSummary
local ModelSummary = class.class("trainer.ModelSummary", Callback)
M.ModelSummary = ModelSummary

local function count(module, trainable)
   local n = 0
   for _, parameter in ipairs(module:parameters()) do
      if trainable == nil or parameter.requires_grad == trainable then
         -- All elements of a parameter are counted, even if the parameter is sharded over ranks.
         local whole = 1
         for _, size in ipairs(placement.of(parameter).shape) do whole = whole * size end
         n = n + whole
      end
   end
   return n
end

--- Returns the summary of a module.
---@param module nn.Module
---@return string
function ModelSummary:text(module)
   if not class.isinstance(module, torch.nn.Module) then
      args.refuse("trainer.ModelSummary.text", "module", "a module", module)
   end
   local rows = {{"name", "type", "parameters"}}
   for name, child in module:named_children() do
      rows[#rows + 1] = {tostring(name), torch.type(child), tostring(count(child))}
   end
   local widths = {0, 0, 0}
   for _, row in ipairs(rows) do
      for i = 1, 3 do widths[i] = math.max(widths[i], #row[i]) end
   end
   local lines = {}
   for i, row in ipairs(rows) do
      lines[i] = ("%-" .. widths[1] .. "s  %-" .. widths[2] .. "s %" .. widths[3] .. "s"):format(
         row[1], row[2], row[3])
   end
   lines[#lines + 1] = ("%d trainable parameters, %d others"):format(count(module, true),
      count(module, false))
   return table.concat(lines, "\n")
end

--- Runs before a training, and prints the summary.
---@param trainer trainer.Trainer
---@param module trainer.Module
function ModelSummary:on_fit_start(trainer, module)
   if trainer.is_global_zero then print(self:text(module)) end
end

return M
