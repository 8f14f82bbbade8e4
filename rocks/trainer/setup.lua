-- setup.lua - checks a trainer's options. Sets up devices, ranks, precision, callbacks and loggers.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local hooks = require "tlua.trainer.hooks"
local strategy = require "tlua.trainer.strategy"
local Callback = require "tlua.trainer.Callback"

local M = {}

local precisions <const> = {
   ["32-true"] = {}, ["32"] = {}, ["64-true"] = {dtype = "float64"}, ["64"] = {dtype = "float64"},
   ["bf16-mixed"] = {autocast = "bfloat16"}, ["bf16"] = {autocast = "bfloat16"},
   ["16-mixed"] = {autocast = "float16", scaler = true}, ["bf16-true"] = {dtype = "bfloat16"},
   ["16-true"] = {dtype = "float16"},
}

-- Options -----------------------------------------------------------------------------------------

local function check_limits(name, a)
   for _, option in ipairs {"limit_train_batches", "limit_val_batches", "limit_test_batches",
      "limit_predict_batches", "val_check_interval"} do
      a[option] = a[option] or 1.0
   end
   a.overfit_batches = a.overfit_batches or 0.0
   for _, option in ipairs {"limit_train_batches", "limit_val_batches", "limit_test_batches",
      "limit_predict_batches", "overfit_batches", "val_check_interval"} do
      local value = a[option]
      local fits = value >= 0 and (math.type(value) == "integer" or value <= 1)
      if option == "val_check_interval" then fits = fits and value > 0 end
      if not fits then
         args.refuse(name, option, option == "val_check_interval"
            and "an integer (batches) of at least 1, or a float (share) above 0.0 and at most 1.0"
            or "an integer (batches) of at least 0, or a float (share) from 0.0 to 1.0", value)
      end
   end
end

local function check_counts(name, a)
   for option, least in pairs {accumulate_grad_batches = 1, num_nodes = 1, log_every_n_steps = 1,
      max_epochs = -1, max_steps = -1, min_epochs = 0, min_steps = 0, num_sanity_val_steps = -1} do
      if a[option] and a[option] < least then
         args.refuse(name, option, "an integer of at least " .. least, a[option])
      end
   end
   local every = a.check_val_every_n_epoch
   if every == true or every and every < 1 then
      args.refuse(name, "check_val_every_n_epoch", "an integer of at least 1, or false", every)
   end
   if every == false and math.type(a.val_check_interval) ~= "integer" then
      args.refuse(name, "val_check_interval",
         "a number of batches (integer) with check_val_every_n_epoch = false", a.val_check_interval)
   end
   local clip, time = a.gradient_clip_val, a.max_time
   if clip and (clip < 0 or clip ~= clip) then
      args.refuse(name, "gradient_clip_val", "a number of at least 0", a.gradient_clip_val)
   end
   if time and (time < 0 or time ~= time) then
      args.refuse(name, "max_time", "seconds of at least 0", a.max_time)
   end
end

local function one_of(name, option, value, words)
   for word in words:gmatch "%S+" do
      if word == value then return end
   end
   args.refuse(name, option, words:gsub(" ", ", "), value)
end

--- Checks the values of the options, sets the defaults of limits, and applies fast_dev_run and
--- overfit_batches to them. Applies the options deterministic and benchmark to the whole program.
function M.check(name, a)
   check_limits(name, a)
   check_counts(name, a)
   a.precision = tostring(a.precision)
   if not precisions[a.precision] then
      args.refuse(name, "precision", "32-true, 64-true, bf16-mixed, 16-mixed, bf16-true or 16-true",
         a.precision)
   end
   one_of(name, "accelerator", a.accelerator, "auto cpu cuda gpu sim")
   a.strategy = strategy.check(name, a.strategy)
   if a.gradient_clip_algorithm then
      one_of(name, "gradient_clip_algorithm", a.gradient_clip_algorithm, "norm value")
   end
   if a.profiler then one_of(name, "profiler", a.profiler, "simple") end
   if type(a.deterministic) == "string" then
      one_of(name, "deterministic", a.deterministic, "warn")
   end
   local n = a.fast_dev_run
   n = n == true and 1 or n == false and 0 or n
   if n < 0 then args.refuse(name, "fast_dev_run", "a boolean or a number of batches", n) end
   if n > 0 then
      a.max_steps, a.num_sanity_val_steps, a.val_check_interval = n, 0, 1.0
      a.max_epochs, a.check_val_every_n_epoch, a.logger = 1, 1, false
      a.limit_train_batches, a.limit_val_batches = n, n
      a.limit_test_batches, a.limit_predict_batches = n, n
      a.enable_checkpointing = false
   end
   a.fast_dev_run = n > 0
   if a.overfit_batches ~= 0 then
      a.limit_train_batches, a.limit_val_batches = a.overfit_batches, a.overfit_batches
   end
   if not a.max_epochs then
      a.max_epochs = (a.max_steps >= 0 or a.max_time) and -1 or 1000
   end
   if a.deterministic ~= nil then
      torch.use_deterministic_algorithms(a.deterministic ~= false,
         {warn_only = a.deterministic == "warn"})
   end
   if a.benchmark ~= nil then torch.backends.cudnn.benchmark = a.benchmark end
end

-- Devices and ranks -------------------------------------------------------------------------------

local function accelerator_of(name, self)
   local kind = self.accelerator
   if kind == "auto" then return torch.cuda.is_available() and "cuda" or "cpu" end
   kind = kind == "gpu" and "cuda" or kind
   if kind ~= "cpu" and not torch[kind].is_available() then
      torch.raise(("%s: accelerator: expected an available device, got %s"):format(name, kind))
   end
   return kind
end

--- Finds the number of ranks, the number of this rank, its device and its share of the data. If the
--- program was started with several ranks, initializes the process group.
function M.place(name, self)
   local dist = torch.distributed
   local size = tonumber(os.getenv "WORLD_SIZE" or "1")
   if dist.is_initialized() then size = dist.get_world_size() end
   local devices = self.devices
   if size % self.num_nodes ~= 0 then
      torch.raise(("%s: num_nodes: expected a divisor of the number of ranks, which is %d, got %d")
         :format(name, size, self.num_nodes))
   end
   if type(devices) == "string" then
      devices = devices == "auto" and size // self.num_nodes or math.tointeger(tonumber(devices))
   end
   if not devices or devices < 1 then
      args.refuse(name, "devices", "an integer of at least 1, or auto", self.devices)
   end
   if devices * self.num_nodes ~= size then
      torch.raise(("%s: devices: expected as many as ranks, got %d on %d machine%s with %d rank%s; "
         .. "start the program by `tlua run -n %d script.lua`"):format(name, devices,
         self.num_nodes, self.num_nodes == 1 and "" or "s", size, size == 1 and "" or "s", devices))
   end
   if size > 1 and not dist.is_initialized() then dist.init_process_group() end
   self.world_size = size
   self.global_rank = size > 1 and dist.get_rank() or 0
   self.local_rank = size > 1 and dist.get_node_local_rank(0) or 0
   self.is_first_on_machine = self.local_rank == 0
   self.is_global_zero = self.global_rank == 0
   strategy.place(name, self)
   local kind = accelerator_of(name, self)
   self.device = kind
   if kind == "cuda" then
      self.device = "cuda:" .. self.local_rank % torch.cuda.device_count()
      torch.cuda.set_device(self.device)
   end
   -- This field is true if no tensor can be on a device other than the trainer's.
   self.has_one_device = kind == "cpu" and not torch.cuda.is_available()
      and not torch.sim.is_available()
   local precision = precisions[self.precision]
   self.autocast = precision.autocast
      and {device = kind, dtype = precision.autocast} or nil
end

function M.barrier(self)
   if self.world_size > 1 then torch.distributed.barrier() end
end

function M.scaler(self)
   local wants = precisions[self.precision].scaler
   if not wants then return nil end
   local default = require "tlua.trainer.Module".optimizer_step
   if self.module.optimizer_step ~= default then
      torch.raise(("trainer.Trainer: precision: %s.optimizer_step is not called with 16-mixed, "
         .. "whose scaler steps the optimizer; use bf16-mixed"):format(torch.type(self.module)))
   end
   return torch.GradScaler((self.device:gsub(":.*", "")))
end

--- Moves the module to the device and the dtype, and prepares it for training by several ranks.
function M.module(self, module)
   local precision = precisions[self.precision]
   module:to(self.device)
   if precision.dtype then module:to(precision.dtype) end
   if self.stage == "fit" and not module.automatic_optimization then
      for option, none in pairs {gradient_clip_val = 0, accumulate_grad_batches = 1} do
         local value = self[option]
         if value and value ~= none then
            torch.raise(("trainer.Trainer.fit: %s: has no effect with automatic_optimization = "
               .. "false; do this in training_step"):format(option))
         end
      end
   end
   strategy.wrap(self, module)
end

--- Returns the loaders with samplers that give each rank its own share of the data. With the option
--- overfit_batches, training data are not shuffled.
function M.distributed_loaders(self, loaders, training)
   local data, list = torch.data, {}
   for i, loader in ipairs(loaders) do
      list[i] = loader
      local is_ours = class.isinstance(loader, data.DataLoader) and loader.sampler
      local shuffles = is_ours and class.isinstance(loader.sampler, data.RandomSampler)
      local sampler
      if training and self.overfit_batches ~= 0 and shuffles then
         sampler = data.SequentialSampler(loader.dataset)
      end
      local plain = is_ours and (shuffles
         or class.isinstance(loader.sampler, data.SequentialSampler))
      if self.data_shares > 1 and self.use_distributed_sampler and is_ours then
         if plain then
            sampler = data.DistributedSampler(loader.dataset, {num_replicas = self.data_shares,
               rank = self.data_share, shuffle = shuffles and not sampler, drop_last = false})
         elseif not class.isinstance(loader.sampler, data.DistributedSampler) then
            torch.raise("trainer.Trainer: use_distributed_sampler: expected a loader with the "
               .. "order of positions or a random one, got the sampler "
               .. torch.type(loader.sampler) .. "; set use_distributed_sampler = false if it gives "
               .. "each rank its own share")
         end
      end
      if sampler then
         local options = {batch_size = loader.batch_size, sampler = sampler,
            num_workers = loader.num_workers, collate_fn = loader.collate_fn,
            drop_last = loader.drop_last, worker_init_fn = loader.worker_init_fn,
            generator = loader.generator, pin_memory = loader.pin_memory,
            in_order = loader.in_order}
         if loader.num_workers > 0 then
            options.prefetch_factor, options.timeout = loader.prefetch_factor, loader.timeout
            options.persistent_workers = loader.persistent_workers
         end
         list[i] = data.DataLoader(loader.dataset, options)
      end
   end
   return list
end

-- Callbacks and loggers ---------------------------------------------------------------------------

local function check_callback(name, callback)
   if type(callback) ~= "table" then
      args.refuse(name, "callbacks", "objects or tables with hooks", callback)
   end
   if rawget(callback, "__name") then
      args.refuse(name, "callbacks", "an instance", callback)
   end
   if hooks.check(callback, Callback, "callback") == 0 then
      torch.raise(("%s: callbacks: expected hooks such as on_train_end, got %s without any"):format(
         name, args.describe(callback)))
   end
end

--- Returns whether a value is a list of callbacks or loggers. A plain table with hooks is a
--- callback itself.
---@param value any
---@return boolean
function M.is_list(value)
   return type(value) == "table" and not getmetatable(value)
      and (value[1] ~= nil or not next(value))
end

local is_list <const> = M.is_list

--- Adds callbacks to the trainer's list. Callbacks that save go to the end of the list. With
--- fast_dev_run, callbacks that save and callbacks that monitor a value are left out.
function M.add_callbacks(name, self, given)
   if not is_list(given) then given = {given} end
   for _, callback in ipairs(given) do
      check_callback(name, callback)
      local drop = self.fast_dev_run and (callback.is_checkpoint or callback.is_monitor)
      if not drop then self.callbacks[#self.callbacks + 1] = callback end
   end
   local first, last = {}, {}
   for _, callback in ipairs(self.callbacks) do
      table.insert(callback.is_checkpoint and last or first, callback)
   end
   self.callbacks = table.move(last, 1, #last, #first + 1, first)
end

local function has(self, kind)
   for _, callback in ipairs(self.callbacks) do
      if class.isinstance(callback, kind) then return true end
   end
   return false
end

--- Returns the key under which a checkpoint stores the state of a callback. It is the callback's
--- state_key, which is a method or a string. If the callback has none, the key is its type.
function M.key_of(callback)
   local key = callback.state_key
   if type(key) == "function" then key = key(callback) end
   return key or torch.type(callback)
end

-- Raises an error if a callback is in the list twice, or if the states of two callbacks have the
-- same key.
local function check_unique(name, callbacks)
   local seen, keys = {}, {}
   for _, callback in ipairs(callbacks) do
      if seen[callback] then
         torch.raise(("%s: callbacks: expected each callback once, got one %s twice"):format(name,
            torch.type(callback)))
      end
      seen[callback] = true
      local key = callback.state_dict and M.key_of(callback)
      if key and keys[key] then
         torch.raise(("%s: callbacks: expected a state_key of its own for each callback with a "
            .. "state, got two with %q"):format(name, key))
      end
      if key then keys[key] = true end
   end
end

--- Adds the callbacks that the module's method configure_callbacks returns. The callbacks that it
--- returned for an earlier run are removed. A new callback replaces the trainer's callbacks of the
--- same class, as in Lightning.
function M.module_callbacks(self, module)
   local old = self.from_module or {}
   local kept = {}
   for _, callback in ipairs(self.callbacks) do
      if not old[callback] then kept[#kept + 1] = callback end
   end
   self.callbacks, self.from_module = kept, {}
   if not module.configure_callbacks then return end
   local who, given = torch.type(module) .. ".configure_callbacks", module:configure_callbacks()
   if given == nil then return end
   if type(given) ~= "table" then
      args.refuse(who, "result", "a callback, a list of callbacks, or nil", given)
   end
   if not is_list(given) then given = {given} end
   for _, callback in ipairs(given) do check_callback(who, callback) end
   local replaced = {}
   for _, callback in ipairs(given) do
      self.from_module[callback] = true
      local meta = getmetatable(callback)
      if meta then replaced[meta] = true end
   end
   kept = {}
   for _, callback in ipairs(self.callbacks) do
      if not replaced[getmetatable(callback) or false] then kept[#kept + 1] = callback end
   end
   self.callbacks = kept
   M.add_callbacks(who, self, given)
   check_unique(who, self.callbacks)
end

--- Makes the list of callbacks: those that the user has given, and those that the options ask for,
--- such as a progress bar.
function M.callbacks(name, self)
   local callbacks = require "tlua.trainer.callbacks"
   local ModelCheckpoint = require "tlua.trainer.ModelCheckpoint"
   local given = self.callbacks or {}
   self.callbacks = {}
   M.add_callbacks(name, self, given)
   check_unique(name, self.callbacks)
   if has(self, ModelCheckpoint) and not self.enable_checkpointing then
      torch.raise(name .. ": enable_checkpointing: expected true with a ModelCheckpoint, got false")
   end
   local added = {}
   if self.enable_checkpointing and not self.fast_dev_run and not has(self, ModelCheckpoint) then
      added[#added + 1] = ModelCheckpoint()
   end
   if self.enable_progress_bar and not has(self, callbacks.ProgressBar) then
      added[#added + 1] = callbacks.ProgressBar()
   end
   if self.enable_model_summary and not has(self, callbacks.ModelSummary) then
      added[#added + 1] = callbacks.ModelSummary()
   end
   if self.max_time and not has(self, callbacks.Timer) then
      added[#added + 1] = callbacks.Timer(self.max_time)
   end
   M.add_callbacks(name, self, added)
end

--- Makes the list of loggers. The default is a logger for TensorBoard or, if the package
--- tensorboard is not installed, for CSV files.
function M.loggers(self)
   local given = self.logger
   if given == false or self.fast_dev_run then return {} end
   if given == nil or given == true then
      local loggers = require "tlua.trainer.loggers"
      local there = require "tlua.packages".has "tlua.tensorboard"
      return {(there and loggers.TensorBoardLogger or loggers.CSVLogger)(self.default_root_dir)}
   end
   if not is_list(given) then given = {given} end
   for _, logger in ipairs(given) do
      if type(logger) ~= "table" or not logger.log_metrics then
         args.refuse("trainer.Trainer", "logger", "objects with the method log_metrics", logger)
      end
   end
   return given
end

--- Prints the time spent in each hook, for profiler = "simple".
function M.print_times(self)
   local names = {}
   for name in pairs(self.times) do names[#names + 1] = name end
   table.sort(names, function(a, b) return self.times[a].seconds > self.times[b].seconds end)
   print(("%-28s %8s %12s"):format("hook", "calls", "seconds"))
   for _, name in ipairs(names) do
      local entry = self.times[name]
      print(("%-28s %8d %12.6f"):format(name, entry.count, entry.seconds))
   end
end

return M
