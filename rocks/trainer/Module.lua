-- Module.lua - the base class of modules that define how they are trained.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local NN = require "tlua.nn.modules.Module"
local strategy = require "tlua.trainer.strategy"

--- A module that defines how it is trained. A derived class defines training_step(batch, number),
--- which returns the loss, and configure_optimizers. It may define validation_step, test_step,
--- predict_step and the hooks of Lightning's LightningModule. A batch of several values is a list.
---
---     local Line = torch.class("Line", torch.trainer.Module)
---     function Line:__init() self.layer = torch.nn.Linear(1, 1) end
---     function Line:training_step(batch)
---        local loss = (self.layer(batch[1]) - batch[2]):pow(2):mean()
---        self:log("loss", loss)
---        return loss
---     end
---     function Line:configure_optimizers()
---        return torch.optim.SGD(self:parameters(), {lr = 0.1})
---     end
---     local x = torch.ones(8, 1)
---     local loader = torch.data.DataLoader(torch.data.TensorDataset(x, 2 * x))
---     local run = torch.trainer.Trainer {max_epochs = 1, logger = false,
---        enable_checkpointing = false, enable_model_summary = false}
---     run:fit(Line(), loader)
---     print(run.global_step)
---     --> 8
---@class trainer.Module: nn.Module
---@field automatic_optimization boolean  false if training_step steps the optimizers itself
---@field hparams table  the options that save_hyperparameters has stored
local Module = class.class("trainer.Module", NN)

Module.automatic_optimization = true

local function trainer_of(self, method)
   local trainer = rawget(self, "trainer")
   if not trainer then
      torch.raise(("%s.%s: the module is not attached to a trainer; Trainer:fit, validate, test "
         .. "and predict attach it"):format(torch.type(self), method))
   end
   return trainer
end

local take_log = args.signature [[trainer.Module.log(name: string, value: any,
   prog_bar: boolean = false, logger: boolean = true, on_step: boolean?, on_epoch: boolean?,
   reduce_fx: string = 'mean', sync_dist: boolean = false, batch_size: count?)]]

--- Logs a value under a name. Loggers get it unless the option `logger` is false, the progress bar
--- shows it if `prog_bar` is true, and callbacks that monitor the name read it.
---@param name string  the name of the value
---@param value number|boolean|Tensor  a number, a boolean (1 or 0), or a tensor of one element
---@param options? {prog_bar: boolean, logger: boolean, on_step: boolean, on_epoch: boolean,
--- reduce_fx: string, sync_dist: boolean, batch_size: integer}  on_step is true by default in
--- training_step and the hooks of training batches, on_epoch elsewhere. reduce_fx ("mean", "sum",
--- "min", "max") reduces the values to one for the epoch; the mean weights each batch by its size.
--- sync_dist also reduces over the ranks
function Module:log(name, value, ...)
   local trainer = rawget(self, "trainer") or trainer_of(self, "log")
   local logged, plain = trainer.logged, select("#", ...) == 0
   if plain and logged:add_again(trainer, name, value) then return end
   if type(name) == "table" and not getmetatable(name) and name.name == nil then
      torch.raise(("%s.log: name: expected a name and a value; log_dict takes a table of them")
         :format(torch.type(self)))
   end
   logged:add(trainer, plain and value ~= nil and {name = name, value = value}
      or take_log(name, value, ...))
end

--- Logs several values.
---@param values table<string, number|boolean|Tensor>
---@param options? table  the options of Module:log
function Module:log_dict(values, options)
   if type(values) ~= "table" then
      args.refuse("trainer.Module.log_dict", "values", "a table of values by name", values)
   end
   local names = {}
   for name in pairs(values) do names[#names + 1] = name end
   table.sort(names)
   for _, name in ipairs(names) do self:log(name, values[name], options or {}) end
end

--- Stores options in `hparams`; they are also saved in checkpoints and passed to loggers.
---@param values table<string, any>
function Module:save_hyperparameters(values)
   if type(values) ~= "table" then
      args.refuse("trainer.Module.save_hyperparameters", "values", "a table of options", values)
   end
   local kept = rawget(self, "hparams") or {}
   for name, value in pairs(values) do kept[name] = value end
   rawset(self, "hparams", kept)
end

--- Creates a module of this class from a checkpoint: calls the class with the saved
--- hyperparameters, and loads the weights.
---@param path string  a file or a folder that a trainer has saved
---@param overrides? table<string, any>  hyperparameters that replace saved ones
---@return trainer.Module
function Module:load_from_checkpoint(path, overrides)
   if type(path) ~= "string" then
      args.refuse("trainer.Module.load_from_checkpoint", "path", "a file's path", path)
   elseif overrides ~= nil and type(overrides) ~= "table" then
      args.refuse("trainer.Module.load_from_checkpoint", "overrides", "a table of hyperparameters",
         overrides)
   end
   local checkpoint = strategy.read(path)
   if type(checkpoint) ~= "table" or type(checkpoint.state_dict) ~= "table"
      or checkpoint.hyper_parameters ~= nil and type(checkpoint.hyper_parameters) ~= "table" then
      torch.raise(("trainer.Module.load_from_checkpoint: %s: expected a trainer's checkpoint")
         :format(path))
   end
   local options = checkpoint.hyper_parameters or {}
   for name, value in pairs(overrides or {}) do options[name] = value end
   local cls = rawget(self, "__name") and self or getmetatable(self)
   local module = cls(next(options) and options or nil)
   if checkpoint.folder then
      strategy.load_folder({module = module}, checkpoint.folder, true)
   else
      module:load_state_dict(checkpoint.state_dict)
   end
   return module
end

--- Returns the optimizers. A training_step needs them if it steps them itself
--- (automatic_optimization = false).
---@return optim.Optimizer ...
function Module:optimizers() return table.unpack(trainer_of(self, "optimizers").optimizers) end

--- Returns the schedules of learning rates that configure_optimizers has returned.
---@return optim.LRScheduler ...
function Module:lr_schedulers()
   local list = {}
   for i, entry in ipairs(trainer_of(self, "lr_schedulers").schedules) do
      list[i] = entry.scheduler
   end
   return table.unpack(list)
end

--- Computes the gradients of a loss, which is scaled if the precision needs it. A training_step
--- calls this method if it steps the optimizers itself (automatic_optimization = false).
---@param loss Tensor
function Module:manual_backward(loss)
   if self.automatic_optimization then
      torch.raise(torch.type(self) .. ".manual_backward: expected automatic_optimization = false")
   end
   trainer_of(self, "manual_backward"):_backward(loss)
end

-- The steps that a class may replace --------------------------------------------------------------

--- Computes the gradients of a loss. A derived class may replace this method.
---@param loss Tensor
function Module:backward(loss) loss:backward() end

--- Steps an optimizer. The closure computes the loss and its gradients. A derived class may replace
--- this method.
---@param epoch integer  the number of finished epochs
---@param batch_idx integer  the number of the batch, from 1
---@param optimizer optim.Optimizer
---@param closure fun(): Tensor?
function Module:optimizer_step(epoch, batch_idx, optimizer, closure) -- luacheck: no unused args
   optimizer:step(closure)
end

--- Clears the gradients of an optimizer's parameters. A derived class may replace this method.
---@param epoch integer  the number of finished epochs
---@param batch_idx integer  the number of the batch, from 1
---@param optimizer optim.Optimizer
function Module:optimizer_zero_grad(epoch, batch_idx, optimizer) -- luacheck: no unused args
   optimizer:zero_grad()
end

--- Steps a schedule of learning rates. A derived class may replace this method.
---@param scheduler optim.LRScheduler
---@param metric number?  the value that the schedule monitors
function Module:lr_scheduler_step(scheduler, metric)
   if metric ~= nil then scheduler:step(metric) else scheduler:step() end
end

--- Clips gradients before a step. A derived class may replace this method and call clip_gradients
--- in it.
---@param optimizer optim.Optimizer
---@param gradient_clip_val number?  the trainer's option
---@param gradient_clip_algorithm string?  "norm" or "value"
function Module:configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)
   self:clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
end

--- Clips the gradients of an optimizer's parameters.
---@param optimizer optim.Optimizer
---@param gradient_clip_val number?  the highest norm or value; nil or 0 leaves the gradients as
--- they are
---@param gradient_clip_algorithm string?  "norm" or "value"; nil: "norm"
function Module:clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
   local who <const> = "trainer.Module.clip_gradients"
   if not class.isinstance(optimizer, torch.optim.Optimizer) then
      args.refuse(who, "optimizer", "an optimizer", optimizer)
   elseif gradient_clip_val ~= nil and type(gradient_clip_val) ~= "number" then
      args.refuse(who, "gradient_clip_val", "a number", gradient_clip_val)
   elseif gradient_clip_algorithm ~= nil and gradient_clip_algorithm ~= "norm"
      and gradient_clip_algorithm ~= "value" then
      args.refuse(who, "gradient_clip_algorithm", "norm or value", gradient_clip_algorithm)
   end
   if not gradient_clip_val or gradient_clip_val <= 0 then return end
   local parameters = {}
   for _, group in ipairs(optimizer.param_groups) do
      table.move(group.params, 1, #group.params, #parameters + 1, parameters)
   end
   if gradient_clip_algorithm == "value" then
      torch.nn.utils.clip_grad_value_(parameters, gradient_clip_val)
   else
      torch.nn.utils.clip_grad_norm_(parameters, gradient_clip_val)
   end
end

local is_tensor <const> = torch.is_tensor

-- Moves the tensors in a value, such as a table of tensors, to a device. Tensors that are already
-- there are not copied. Objects (tables with a metatable) are returned as they are.
local function move(value, device)
   if is_tensor(value) then return value.device == device and value or value:to(device) end
   if type(value) ~= "table" or getmetatable(value) then return value end
   local moved
   for key, item in next, value do
      if not is_tensor(item) or item.device ~= device then
         local there = move(item, device)
         if there ~= item then
            moved = moved or {}
            moved[key] = there
         end
      end
   end
   if not moved then return value end
   for key, item in next, value do
      if moved[key] == nil then moved[key] = item end
   end
   return moved
end

-- Maps the names of devices to device objects. A tensor's device can only be compared with an
-- object; comparing it with a name gives false.
local devices <const> = setmetatable({}, {__index = function(known, name)
   known[name] = torch.device(name)
   return known[name]
end})

--- Moves a batch to the trainer's device. A derived class may replace this method.
---@param batch any
---@param device string
---@param dataloader_idx integer  the number of the data loader, from 1
---@return any batch
function Module:transfer_batch_to_device(batch, device, dataloader_idx) -- luacheck: no unused args
   return move(batch, devices[device])
end

--- Computes the prediction for a batch, by default the result of forward. A derived class may
--- replace this method.
---@param batch any
---@param batch_idx integer  the number of the batch, from 1
---@return any
function Module:predict_step(batch, batch_idx) -- luacheck: no unused args
   return self(batch)
end

return Module
