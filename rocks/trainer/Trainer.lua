-- Trainer.lua - trains, validates, tests and predicts with a module.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.trainer.Module"
local DataModule = require "tlua.trainer.DataModule"
local Results = require "tlua.trainer.results"
local checkpoint = require "tlua.trainer.checkpoint"
local dispatch = require "tlua.trainer.dispatch"
local evaluate = require "tlua.trainer.evaluate"
local fit_loop = require "tlua.trainer.fit_loop"
local hooks = require "tlua.trainer.hooks"
local optimizers = require "tlua.trainer.optimizers"
local setup = require "tlua.trainer.setup"
local strategy = require "tlua.trainer.strategy"
local notice = require "tlua.utils.notice"

local NAME <const> = "trainer.Trainer"

local signature = args.signature [[trainer.Trainer(accelerator: string = 'auto',
   strategy: any = 'auto', devices: integer|string = 'auto', num_nodes: integer = 1,
   precision: string|integer = '32-true', logger: any?, callbacks: any?,
   fast_dev_run: boolean|integer = false, max_epochs: integer?, min_epochs: integer?,
   max_steps: integer = -1, min_steps: integer?, max_time: number?,
   limit_train_batches: number?, limit_val_batches: number?,
   limit_test_batches: number?, limit_predict_batches: number?,
   overfit_batches: number?, val_check_interval: number?,
   check_val_every_n_epoch: integer|boolean = 1, num_sanity_val_steps: integer = 2,
   log_every_n_steps: integer = 50, enable_checkpointing: boolean = true,
   enable_progress_bar: boolean = true, enable_model_summary: boolean = true,
   accumulate_grad_batches: integer = 1, gradient_clip_val: number?,
   gradient_clip_algorithm: string?, deterministic: boolean|string?, benchmark: boolean?,
   profiler: string?, use_distributed_sampler: boolean = true, default_root_dir: string = '.')]]

--- Trains, validates, tests and predicts with a trainer.Module. The options, the methods and the
--- order of the hooks are those of Lightning's Trainer.
---
---     local trainer = torch.trainer
---     local x = torch.arange(8):view(8, 1) / 8
---     local loader = torch.data.DataLoader(torch.data.TensorDataset(x, 3 * x))
---     local model, loss = torch.nn.Linear(1, 1), torch.nn.MSELoss()
---     local learner = trainer.Learner(model, loss, {lr = 0.1})
---     local run = trainer.Trainer {max_epochs = 30, logger = false,
---        enable_checkpointing = false, enable_model_summary = false}
---     run:fit(learner, loader)
---     print(run.current_epoch, run.global_step)
---     --> 30	240
---@class trainer.Trainer
---@field current_epoch integer  the number of finished epochs
---@field global_step integer  the number of steps of optimizers
---@field callback_metrics table<string, number|Tensor>  the last value logged under each name
---@field logged_metrics table<string, number|Tensor>  the last values that loggers got
---@field progress_bar_metrics table<string, number|Tensor>  the values for the progress bar
---@field should_stop boolean  a callback sets it to end the training after this batch, or once
--- min_epochs and min_steps are reached
---@field callbacks table[]  the callbacks; those that save checkpoints come last
---@field loggers table[]  the loggers
---@field optimizers optim.Optimizer[]  the optimizers of the module
---@field num_training_batches number  the number of batches in an epoch, which
--- limit_train_batches reduces; math.huge for a loader without a length
---@field sanity_checking boolean  whether the validation before the training runs
---@overload fun(options?: table): trainer.Trainer
local Trainer = class.class(NAME)

---@param options? {accelerator: string, strategy: any, devices: integer|string,
--- num_nodes: integer, precision: string|integer, logger: any, callbacks: any,
--- fast_dev_run: boolean|integer, max_epochs: integer, min_epochs: integer, max_steps: integer,
--- min_steps: integer, max_time: number, limit_train_batches: number, limit_val_batches: number,
--- limit_test_batches: number, limit_predict_batches: number, overfit_batches: number,
--- val_check_interval: number, check_val_every_n_epoch: integer|boolean,
--- num_sanity_val_steps: integer, log_every_n_steps: integer, enable_checkpointing: boolean,
--- enable_progress_bar: boolean, enable_model_summary: boolean, accumulate_grad_batches: integer,
--- gradient_clip_val: number, gradient_clip_algorithm: string, deterministic: boolean|string,
--- benchmark: boolean, profiler: string, use_distributed_sampler: boolean,
--- default_root_dir: string}  max_epochs is 1000 unless max_steps or max_time is given; -1: no
--- limit. max_time: in seconds. A limit_ is a number of batches
--- (integer) or a share (float, 1.0 by default).
--- val_check_interval: validates after this number of batches (integer) or share of an epoch
--- (float, 1.0 by default). precision: "32-true", "64-true", "bf16-mixed", "16-mixed", "bf16-true"
--- or "16-true". devices: with `tlua run -n N`, N or "auto". strategy: how several ranks share the
--- work: "ddp" (also "auto"), "fsdp", a trainer.FSDPStrategy, or a mesh of
--- torch.distributed.init_device_mesh. With a mesh, parameters are sharded along its dimensions,
--- except one named "tp", "tensor" or "tensor_parallel", whose ranks get the same batches; the
--- module's configure_model splits layers along this dimension by
--- torch.distributed.tensor.parallel. logger: false, a logger or a list of them; nil makes event
--- files for TensorBoard below default_root_dir or, without the package tensorboard, a CSV file.
--- profiler: "simple" prints the time of each hook. check_val_every_n_epoch: false counts the
--- batches of val_check_interval over all epochs
function Trainer:__init(...)
   local a = signature(...)
   setup.check(NAME, a)
   for name, value in pairs(a) do self[name] = value end
   self.accumulate = a.accumulate_grad_batches
   self.sanity_checking, self.should_stop = false, false
   self.current_epoch, self.global_step = 0, 0
   self.callback_metrics, self.logged_metrics, self.progress_bar_metrics = {}, {}, {}
   self.optimizers, self.schedules, self.times = {}, {}, {}
   -- The batch that is being processed and the result of its step. They change often, so they have
   -- a small table of their own, which Lua's collector then scans instead of the trainer.
   self.current = {}
   -- The steps of these optimizers are counted by a hook of count_steps.
   self.counted = setmetatable({}, {__mode = "k"})
   self.progress = {batch = 0, stepped = 0, total_batches = 0, accumulated = 0,
      steps_plateau = false}
   self.fire, self.fire_savers, self.fire_monitors =
      dispatch.fire, dispatch.fire_savers, dispatch.fire_monitors
   setup.place(NAME, self)
   setup.callbacks(NAME, self)
   self.loggers = setup.loggers(self)
   self.logger = self.loggers[1]
end

-- Functions that the loops call -------------------------------------------------------------------

function Trainer:_autocast(fn)
   if not self.autocast then return fn() end
   return torch.autocast(self.autocast, fn)
end

function Trainer:_backward(loss)
   if self.scaler then loss = self.scaler:scale(loss) end
   self.module:backward(loss)
end

function Trainer:_log_metrics(values)
   local plain = {}
   for name, value in pairs(values) do
      plain[name] = torch.is_tensor(value) and value:item() or value
      self.logged_metrics[name] = value
   end
   if not self.is_global_zero then return end
   for _, logger in ipairs(self.loggers) do
      logger:log_metrics(plain, math.max(self.progress.stepped - 1, 0))
   end
end

-- Returns the end of an error message, which lists the names of the logged values.
function Trainer:_logged_names()
   local names = {}
   for name in pairs(self.callback_metrics) do names[#names + 1] = name end
   table.sort(names)
   if #names == 0 then return "; nothing was" end
   return "; there are " .. table.concat(names, ", ")
end

function Trainer:_restore_random()
   if self.random_states then
      torch.random.set_states(self.random_states)
      -- Only a rank that did not exist in the saved training has a random_shift: its number.
      local shift = self.random_shift
      if shift then torch.manual_seed(torch.randint(0, 1 << 53, {1}):item() ~ shift) end
      self.random_states, self.random_shift = nil, nil
   end
end

function Trainer:_save_pending()
   local path = self.pending_save
   self.pending_save = nil
   if path then checkpoint.save(self, path) end
end

--- Returns whether this is the first of all ranks.
---@return boolean
function Trainer:is_first_rank() return self.is_global_zero end

-- Checkpoints -------------------------------------------------------------------------------------

--- Saves a checkpoint: weights, optimizers, schedules, callbacks, loops, random states and the
--- position of the data loader. During a batch, a validation or the end of an epoch, the file is
--- written only when this part of the training is over. So a training that is resumed from the file
--- gives the same results as this training. With weights_only, the file is written at once.
---@param path string  the file
---@param weights_only? boolean  whether only the weights and hyperparameters are saved
function Trainer:save_checkpoint(path, weights_only)
   if type(path) ~= "string" or path == "" then
      args.refuse(NAME .. ".save_checkpoint", "path", "a file's path", path)
   end
   if not self.module then
      torch.raise(NAME .. ".save_checkpoint: there is no module yet; fit, validate or test "
         .. "attach one")
   end
   if self.in_batch and not weights_only then
      self.pending_save = path
   else
      checkpoint.save(self, path, weights_only)
   end
end

-- Entries -----------------------------------------------------------------------------------------

-- Raises an error unless `loader` is a data loader. A frequent mistake is to pass a dataset, which
-- would give single items instead of batches.
local function check_loader(name, loader)
   local is_loader = type(loader) == "function"
      or type(loader) == "table" and rawget(loader, "__name") == nil
   if is_loader and not class.isinstance(loader, torch.data.Dataset) then return end
   args.refuse(NAME, name,
      "a data loader, such as torch.data.DataLoader(dataset), or a list of them", loader)
end

local function loaders_of(self, kind, given)
   local loaders = given
   local name = kind .. "_dataloader"
   if loaders == nil then
      local owner = self.datamodule and self.datamodule[name] and self.datamodule or self.module
      if owner[name] then loaders = owner[name](owner) end
   end
   if loaders == nil then return nil end
   check_loader(name, loaders)
   if kind == "train" and type(loaders) == "table" and not getmetatable(loaders)
      and type(loaders[1]) == "table" and class.isinstance(loaders[1], torch.data.DataLoader) then
      args.refuse(NAME, name, "one data loader, such as torch.data.DataLoader(dataset)", loaders)
   end
   local is_one = type(loaders) == "function" or loaders.iter or kind == "train"
      or type(loaders[1]) ~= "table" or not (loaders[1].iter)
   if is_one then return {loaders} end
   for _, loader in ipairs(loaders) do check_loader(name, loader) end
   return loaders
end

local function limits_of(loaders, limit)
   local list = {}
   for i, loader in ipairs(loaders) do
      list[i] = fit_loop.limited(fit_loop.length_of(loader), limit)
   end
   return list
end

local function detach(module)
   rawset(module, "trainer", nil)
   rawset(module, "device_mesh", nil)
end

-- Attaches the module and the data to the trainer, and calls the hooks that prepare them.
local function begin(self, stage, module, datamodule)
   local who = ("%s.%s"):format(NAME, stage)
   if not class.isinstance(module, Module) then
      args.refuse(who, "module",
         "a trainer.Module, or trainer.Learner(model, loss) for a plain module", module)
   end
   hooks.check(module, Module, "module")
   self.module, self.datamodule, self.stage = module, datamodule, stage
   rawset(module, "trainer", self)
   rawset(module, "device_mesh", type(self.strategy) == "table" and self.strategy.mesh or nil)
   self.log_stage, self.log_place = nil, "setup"
   self.logged = Results()
   setup.module_callbacks(self, module)
   dispatch.prepare(self)
   evaluate.prepare(self)
   if self.is_first_on_machine then
      if datamodule and datamodule.prepare_data then datamodule:prepare_data() end
      if module.prepare_data then module:prepare_data() end
   end
   setup.barrier(self)
   if datamodule and datamodule.setup then datamodule:setup(stage) end
   self.fire(self, "setup", stage)
   if module.configure_model then module:configure_model() end
   setup.module(self, module)
end

local function finish(self)
   if self.datamodule and self.datamodule.teardown then self.datamodule:teardown(self.stage) end
   self.fire(self, "teardown", self.stage)
   for _, logger in ipairs(self.loggers) do
      if self.is_global_zero and logger.flush then logger:flush() end
   end
   if self.profiler then setup.print_times(self) end
   detach(self.module)
end

local function nothing() end

-- Calls the hook on_exception of all callbacks and of the DataModule. If such a call raises an
-- error itself, this error is only printed, because the training ends with the first error.
local function tell_callbacks(self, message)
   local function try(object, ...)
      local ok, why = pcall(object.on_exception or nothing, object, ...)
      if not ok then notice("trainer: %s.on_exception: %s", torch.type(object), why) end
   end
   for _, callback in ipairs(self.callbacks) do try(callback, self, self.module, message) end
   if self.datamodule then try(self.datamodule, message) end
end

-- Runs fn for the method `stage`, such as "fit". If fn raises an error, calls the hook on_exception
-- and raises the error again.
local function guarded(self, stage, fn)
   if self.running then
      torch.raise(("%s.%s: this trainer is running %s; a hook needs another trainer and another "
         .. "module"):format(NAME, stage, self.running))
   end
   self.running = stage
   local ok, message = pcall(fn)
   if ok then
      self.running = nil
      return
   end
   self.in_batch, self.pending_save = false, nil
   tell_callbacks(self, message)
   for _, logger in ipairs(self.loggers) do
      if self.is_global_zero and logger.flush then logger:flush() end
   end
   if self.module then detach(self.module) end
   self.running = nil
   error(message, 0)
end

-- Prints a warning for each loader without batches. Such a loader produces no values to log, which
-- callbacks may expect.
local function tell_empty(self, kind, limits)
   for i, n in ipairs(limits) do
      if n == 0 and self.is_global_zero then
         local which = #limits > 1 and " " .. i or ""
         notice("trainer: the %s loader%s gives no batches, so it has no values", kind, which)
      end
   end
end

local function find_val_loaders(self, given)
   if self.val_loaders or self.limit_val_batches == 0 then return end
   local loaders = loaders_of(self, "val", given)
   if not loaders then return end
   if not self.module.validation_step then
      torch.raise(("%s.fit: there are validation data, but %s has no validation_step"):format(NAME,
         torch.type(self.module)))
   end
   self.val_loaders = setup.distributed_loaders(self, loaders, false)
   self.num_val_batches = limits_of(self.val_loaders, self.limit_val_batches)
   tell_empty(self, "validation", self.num_val_batches)
end

-- Validates on a few batches before the training, so that a mistake in the validation shows early.
local function sanity_check(self, given)
   local n = self.num_sanity_val_steps
   local data = self.datamodule
   local has_data = given or data and data.val_dataloader or self.module.val_dataloader
   if n == 0 or self.resumed or not has_data or self.limit_val_batches == 0 then return end
   local states, metrics = torch.random.get_states(), self.callback_metrics
   self.sanity_checking, self.callback_metrics = true, {}
   self.fire(self, "on_sanity_check_start")
   find_val_loaders(self, given)
   local limits = {}
   for i, limit in ipairs(self.num_val_batches or {}) do
      limits[i] = n < 0 and limit or math.min(limit, n)
   end
   if self.val_loaders then evaluate.run(self, "validation", self.val_loaders, limits) end
   self.fire(self, "on_sanity_check_end")
   self.sanity_checking, self.callback_metrics = false, metrics
   self.progress_bar_metrics = {}
   torch.random.set_states(states)
end

local function find_train_loader(self, given)
   local loaders = loaders_of(self, "train", given)
   if not loaders then
      torch.raise(NAME .. ".fit: train_dataloaders: expected a data loader, as an argument, or "
         .. "as the result of train_dataloader of the module or the data module; got none")
   end
   self.train_loader = setup.distributed_loaders(self, loaders, true)[1]
   self.num_training_batches = fit_loop.limited(fit_loop.length_of(self.train_loader),
      self.limit_train_batches)
   if self.num_training_batches == 0 and self.limit_train_batches ~= 0 then
      notice("trainer: the training loader has %s batches, and limit_train_batches = %s leaves "
         .. "none", fit_loop.length_of(self.train_loader), self.limit_train_batches)
   end
   local interval = self.val_check_interval
   if math.type(interval) == "integer" then
      if self.check_val_every_n_epoch and interval > self.num_training_batches then
         torch.raise(("%s.fit: val_check_interval: expected at most the %d batches of an epoch, "
            .. "got %d; check_val_every_n_epoch = false counts over epochs"):format(NAME,
            self.num_training_batches, interval))
      end
      self.val_check_batch = interval
   elseif self.num_training_batches == math.huge then
      if interval ~= 1.0 then
         torch.raise(NAME .. ".fit: val_check_interval: expected 1.0 or an integer for a loader "
            .. "without a length")
      end
      self.val_check_batch = math.huge
   else
      self.val_check_batch = math.max(1, math.floor(self.num_training_batches * interval))
   end
end

local function split(who, first, datamodule)
   if datamodule ~= nil and not class.isinstance(datamodule, DataModule) then
      args.refuse(who, "datamodule", "a trainer.DataModule", datamodule)
   end
   if class.isinstance(first, DataModule) then first, datamodule = nil, first end
   if first ~= nil and datamodule then
      torch.raise(who .. ": expected data loaders or a datamodule, got both")
   end
   if datamodule then hooks.check(datamodule, DataModule, "data") end
   return first, datamodule
end

-- Raises an error if a method was called with a point instead of a colon.
local function check_self(self, method)
   if class.isinstance(self, Trainer) then return end
   torch.raise(("%s.%s: expected a call as a method, trainer:%s(...), of an instance"):format(NAME,
      method, method))
end

local take_fit = args.signature [[trainer.Trainer.fit(module: any, train_dataloaders: any?,
   val_dataloaders: any?, datamodule: any?, ckpt_path: string?)]]

--- Trains a module.
---@param module trainer.Module
---@param train_dataloaders? any  a data loader, or a trainer.DataModule; nil: the result of
--- train_dataloader() of the datamodule or, if it has none, of the module
---@param val_dataloaders? any  a data loader or a list of them; nil: the result of
--- val_dataloader(), in the same order; without one, nothing is validated
---@param options? {datamodule: trainer.DataModule, ckpt_path: string}  ckpt_path: the checkpoint
--- from which the training continues; "last": the newest one in the folders of ModelCheckpoint, if
--- any; "best": the one with the best value that a ModelCheckpoint of this trainer has saved
function Trainer:fit(...)
   check_self(self, "fit")
   local a = take_fit(...)
   local train, datamodule = split(NAME .. ".fit", a.train_dataloaders, a.datamodule)
   guarded(self, "fit", function()
      local path = checkpoint.find(self, a.ckpt_path)
      begin(self, "fit", a.module, datamodule)
      local module = self.module
      if not module.training_step then
         torch.raise(("%s.fit: %s has no training_step"):format(NAME, torch.type(module)))
      elseif not module.configure_optimizers then
         torch.raise(("%s.fit: %s has no configure_optimizers"):format(NAME, torch.type(module)))
      end
      path = path or checkpoint.find(self, a.ckpt_path)
      local state = path and checkpoint.read(self, path)
      if state then checkpoint.load_module(self, state) end
      self.val_loaders = nil
      optimizers.configure(self)
      if state and state.folder then strategy.load_folder(self, state.folder, false) end
      self.scaler = setup.scaler(self)
      self.fire(self, "on_fit_start")
      self.train_results = self.train_results or Results()
      if state then
         checkpoint.load_rest(self, state)
      elseif self.progress.place == "done" then
         self.progress.place = nil
      end
      self.resumed = state ~= nil
      for _, logger in ipairs(self.loggers) do
         if self.is_global_zero and logger.log_hyperparams and rawget(module, "hparams") then
            logger:log_hyperparams(module.hparams)
         end
      end
      sanity_check(self, a.val_dataloaders)
      find_train_loader(self, train)
      find_val_loaders(self, a.val_dataloaders)
      if state then checkpoint.load_loader(self, state) end
      module:train()
      self.logged = self.train_results
      fit_loop.run(self)
      self.fire(self, "on_fit_end")
      finish(self)
   end)
end

local function print_metrics(self, title, list)
   if not self.is_global_zero then return end
   for i, metrics in ipairs(list) do
      local names = {}
      for name in pairs(metrics) do names[#names + 1] = name end
      table.sort(names)
      if #list > 1 then print(("%s, loader %d"):format(title, i)) else print(title) end
      for _, name in ipairs(names) do print(("   %-24s %.6g"):format(name, metrics[name])) end
   end
end

local take = {
   validate = args.signature [[trainer.Trainer.validate(module: any, dataloaders: any?,
      datamodule: any?, ckpt_path: string?, verbose: boolean = true)]],
   test = args.signature [[trainer.Trainer.test(module: any, dataloaders: any?,
      datamodule: any?, ckpt_path: string?, verbose: boolean = true)]],
   predict = args.signature [[trainer.Trainer.predict(module: any, dataloaders: any?,
      datamodule: any?, ckpt_path: string?)]],
}

local function run_eval(self, stage, kind, short, ...)
   check_self(self, stage)
   local a = take[stage](...)
   local who = ("%s.%s"):format(NAME, stage)
   local given, datamodule = split(who, a.dataloaders, a.datamodule)
   local result
   guarded(self, stage, function()
      local path = checkpoint.find(self, a.ckpt_path)
      begin(self, stage, a.module, datamodule)
      if not self.module[kind .. "_step"] then
         torch.raise(("%s: %s has no %s_step"):format(who, torch.type(self.module), kind))
      end
      if path then checkpoint.load_module(self, checkpoint.read(self, path)) end
      local loaders = loaders_of(self, short, given)
      if not loaders then
         torch.raise(("%s: dataloaders: expected a data loader, as an argument, or as the result "
            .. "of %s_dataloader; got none"):format(who, short))
      end
      loaders = setup.distributed_loaders(self, loaders, false)
      local limits = limits_of(loaders, self[("limit_%s_batches"):format(short)])
      tell_empty(self, kind, limits)
      result = evaluate.run(self, kind, loaders, limits)
      finish(self)
   end)
   if stage ~= "predict" and a.verbose then print_metrics(self, stage, result) end
   return result
end

--- Validates a module; returns the logged values of each data loader.
---@param module trainer.Module
---@param dataloaders? any  a data loader, a list of them, or a trainer.DataModule; nil: the result
--- of val_dataloader() of the datamodule or, if it has none, of the module
---@param options? {datamodule: trainer.DataModule, ckpt_path: string, verbose: boolean}
--- ckpt_path: a checkpoint whose weights are used, "best" or "last"; verbose: whether the values
--- are printed
---@return table<string, number>[]
function Trainer:validate(...) return run_eval(self, "validate", "validation", "val", ...) end

--- Tests a module; returns the logged values of each data loader.
---@param module trainer.Module
---@param dataloaders? any  a data loader, a list of them, or a trainer.DataModule; nil: the result
--- of test_dataloader() of the datamodule or, if it has none, of the module
---@param options? {datamodule: trainer.DataModule, ckpt_path: string, verbose: boolean}
--- ckpt_path: a checkpoint whose weights are used, "best" or "last"; verbose: whether the values
--- are printed
---@return table<string, number>[]
function Trainer:test(...) return run_eval(self, "test", "test", "test", ...) end

--- Predicts: returns the results of predict_step for all batches. The field `n` of the result is
--- the number of batches. If predict_step returned nil for a batch, its entry is nil.
---@param module trainer.Module
---@param dataloaders? any  a data loader, a list of them, or a trainer.DataModule; nil: the result
--- of predict_dataloader() of the datamodule or, if it has none, of the module
---@param options? {datamodule: trainer.DataModule, ckpt_path: string}  ckpt_path: a checkpoint
--- whose weights are used, "best" or "last"
---@return any[] results  the results; with several data loaders, a list for each of them
function Trainer:predict(...) return run_eval(self, "predict", "predict", "predict", ...) end


return Trainer
