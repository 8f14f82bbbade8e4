-- Learner.lua - makes a trainable module from a model and a loss function, like fast.ai's Learner.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local NN = require "tlua.nn.modules.Module"
local Module = require "tlua.trainer.Module"

local signature = args.signature [[trainer.Learner(model: any, loss: callable,
   optimizer: string|callable = 'Adam', lr: number = 1e-3, metrics: table?, schedule: callable?,
   interval: string = 'epoch')]]

--- Makes a trainable module from a model and a loss function. Each batch is a list {input, target}.
--- The module logs `train_loss`, `val_loss` and `test_loss`, and each metric with the prefixes
--- `train_`, `val_` and `test_`.
---
---     local model = torch.nn.Linear(1, 1)
---     local learner = torch.trainer.Learner(model, torch.nn.MSELoss(), {lr = 0.1})
---     print(torch.type(learner:configure_optimizers()))
---     --> optim.Adam
---@class trainer.Learner: trainer.Module
---@field model nn.Module  the model
local Learner = class.class("trainer.Learner", Module)

---@param model nn.Module
---@param loss fun(output: Tensor, target: Tensor): Tensor  the loss, such as nn.CrossEntropyLoss()
---@param options? {optimizer: string|function, lr: number, metrics: table<string, function>,
--- schedule: function, interval: string}  optimizer: a class of torch.optim, its name, or a
--- function(parameters, {lr =}) that returns an optimizer; metrics: functions of output and target
--- by name; schedule(optimizer) returns a schedule of learning rates, which moves on after each
--- "epoch" or "step" (interval)
function Learner:__init(...)
   local a = signature(...)
   if not class.isinstance(a.model, NN) then
      args.refuse("trainer.Learner", "model", "a module", a.model)
   end
   local chosen = a.optimizer
   if type(chosen) == "string" then a.optimizer = torch.optim[chosen] end
   local is_class = type(a.optimizer) == "table" and rawget(a.optimizer, "__name")
   if type(chosen) == "string" and not is_class
      or is_class and not class.issubclass(a.optimizer, torch.optim.Optimizer) then
      args.refuse("trainer.Learner", "optimizer", "a class of torch.optim, or its name", chosen)
   end
   for name, metric in pairs(a.metrics or {}) do
      if type(name) ~= "string" or not args.is_callable(metric) then
         args.refuse("trainer.Learner", "metrics", "functions by name", metric)
      end
   end
   if a.interval ~= "epoch" and a.interval ~= "step" then
      args.refuse("trainer.Learner", "interval", "epoch or step", a.interval)
   end
   self.model = a.model
   -- A loss with weights is a module. As a field of this module, it moves to the same device as the
   -- model.
   self.loss = a.loss
   for _, name in ipairs {"optimizer", "lr", "metrics", "schedule", "interval"} do
      rawset(self, name, a[name] or false)
   end
end

function Learner:forward(...) return self.model(...) end

local function log_metrics(self, output, target, stage)
   local _ <close> = torch.no_grad()
   for name, metric in pairs(self.metrics) do
      local value = metric(output, target)
      if type(value) ~= "number" and not (torch.is_tensor(value) and value:numel() == 1) then
         args.refuse("trainer.Learner", "metrics." .. name,
            "a number or a tensor of one element as its result", value)
      end
      self:log(stage .. "_" .. name, value)
   end
end

local loss_names <const> = {train = "train_loss", val = "val_loss", test = "test_loss"}

local function step(self, batch, stage)
   local input, target
   if type(batch) == "table" then input, target = batch[1], batch[2] end
   if target == nil then
      args.refuse("trainer.Learner", "batch", "a list of input and target", batch)
   end
   local output = self.model(input)
   local loss = self.loss(output, target)
   local trainer = self.trainer
   -- If `postpones` is true, the trainer itself logs the loss, and only where other code can read
   -- the logged value.
   if not (trainer and trainer.logged.postpones) then self:log(loss_names[stage], loss) end
   if self.metrics then log_metrics(self, output:detach(), target, stage) end
   return loss
end

--- Computes the loss and metrics of a training batch, logs them, and returns the loss.
---@param batch any  the batch
---@return any
function Learner:training_step(batch) return step(self, batch, "train") end

--- Computes the loss and metrics of a validation batch, logs them, and returns the loss.
---@param batch any  the batch
---@return any
function Learner:validation_step(batch) return step(self, batch, "val") end

--- Computes the loss and metrics of a test batch, logs them, and returns the loss.
---@param batch any  the batch
---@return any
function Learner:test_step(batch) return step(self, batch, "test") end

--- Computes the prediction for a batch: the model's result for the batch or, if the batch is a
--- list, for the list's first value.
---@param batch any  the batch
---@return any
function Learner:predict_step(batch)
   return self.model(type(batch) == "table" and batch[1] or batch)
end

--- Returns the optimizer. If there is a schedule of its learning rate, returns a table with the
--- fields optimizer and lr_scheduler.
---@return optim.Optimizer|table
function Learner:configure_optimizers()
   local optimizer = self.optimizer(self:parameters(), {lr = self.lr})
   if not self.schedule then return optimizer end
   return {optimizer = optimizer,
      lr_scheduler = {scheduler = self.schedule(optimizer), interval = self.interval}}
end

return Learner
