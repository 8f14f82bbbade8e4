-- ModelCheckpoint.lua - a callback that saves checkpoints of a training: those with the best logged
-- value, the last one, or one every n steps.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local io_folder = require "tlua.io.folder"
local strategy = require "tlua.trainer.strategy"
local Callback = require "tlua.trainer.Callback"
local notice = require "tlua.utils.notice"

local NAME <const> = "trainer.ModelCheckpoint"

-- Matches the place of a value in the option `filename`, such as {epoch} or {val_loss:.2f}. The
-- captures are the value's name and the format after the colon.
local FIELD <const> = "{([%w_/%-]+):?([^{}]*)}"

local signature = args.signature [[trainer.ModelCheckpoint(dirpath: string?, filename: string?,
   monitor: string?, verbose: boolean = false, save_last: boolean = false, save_top_k: integer = 1,
   save_weights_only: boolean = false, mode: string = 'min', every_n_train_steps: count?,
   auto_insert_metric_name: boolean = true, every_n_epochs: count?,
   save_on_train_epoch_end: boolean?)]]

--- Saves checkpoints during a training: those with the best logged value, the last one, or one
--- every n steps.
---
---     local trainer = torch.trainer
---     local checkpoint = trainer.ModelCheckpoint {monitor = "val_loss"}
---     print(checkpoint:format_name(3, 400, {val_loss = 0.25}))
---     --> epoch=3-step=400
---@class trainer.ModelCheckpoint: trainer.Callback
---@field best_model_path string  the path of the best checkpoint; "" before there is one
---@field best_model_score number?  the value of the best checkpoint
---@field last_model_path string  the path of the last checkpoint, with save_last
---@field best_k_models table<string, number>  with monitor, the values of the kept checkpoints by
--- path
---@overload fun(options?: table): trainer.ModelCheckpoint
local ModelCheckpoint = class.class(NAME, Callback)

ModelCheckpoint.is_checkpoint = true

---@param options? {dirpath: string, filename: string, monitor: string, verbose: boolean,
--- save_last: boolean, save_top_k: integer, save_weights_only: boolean, mode: string,
--- auto_insert_metric_name: boolean, every_n_train_steps: integer, every_n_epochs: integer,
--- save_on_train_epoch_end: boolean}  dirpath: the folder, by default the folder "checkpoints" in
--- the logger's folder or in default_root_dir. filename: such as "{epoch}-{val_loss:.2f}". monitor:
--- the name of a logged value; without it the newest checkpoint is the best. mode: "min" or "max".
--- save_top_k: how many checkpoints are kept; -1: all. save_last: whether the newest is also kept
--- as last.ckpt. every_n_epochs: 1 by default unless every_n_train_steps is given.
--- save_on_train_epoch_end: whether a checkpoint is saved at the end of a training epoch instead of
--- after the validation; nil: true if there are no validation data, or if there is no monitor and
--- not every epoch has a validation
function ModelCheckpoint:__init(...)
   local a = signature(...)
   for name, value in pairs(a) do self[name] = value end
   if a.mode ~= "min" and a.mode ~= "max" then args.refuse(NAME, "mode", "min or max", a.mode) end
   if a.save_top_k < -1 then
      args.refuse(NAME, "save_top_k", "an integer of at least -1", a.save_top_k)
   end
   if not a.monitor and a.save_top_k > 1 then
      args.refuse(NAME, "save_top_k", "-1, 0 or 1 without a value to monitor", a.save_top_k)
   end
   for name, form in (a.filename or ""):gmatch(FIELD) do
      if form ~= "" and not pcall(string.format, "%" .. form, 1) then
         args.refuse(NAME, "filename", ("a number's format behind %q, such as {%s:.2f}"):format(
            name .. ":", name), a.filename)
      end
   end
   if a.every_n_train_steps and a.every_n_epochs then
      torch.raise(NAME .. ": expected every_n_train_steps or every_n_epochs, got both")
   end
   if not a.every_n_train_steps and not a.every_n_epochs then self.every_n_epochs = 1 end
   self.every_n_train_steps, self.every_n_epochs =
      self.every_n_train_steps or 0, self.every_n_epochs or 0
   self.best_k_models, self.best_model_path, self.last_model_path = {}, "", ""
   self.newest_path, self.last_step_saved = "", 0
end

local function folder_of(self, trainer)
   if self.dirpath then return self.dirpath end
   local logger = trainer.loggers[1]
   return (logger and logger.log_dir or trainer.default_root_dir) .. "/checkpoints"
end

--- Runs at the beginning of fit, validate, test and predict, and finds the folder in which
--- checkpoints are saved.
---@param trainer trainer.Trainer
function ModelCheckpoint:setup(trainer) self.folder = folder_of(self, trainer) end

-- Returns the names of the files and folders in a folder, since a checkpoint can be either.
local function names_in(path)
   local folders, files = io_folder.list(path)
   if not folders then return {} end
   return table.move(folders, 1, #folders, #files + 1, files)
end

local function has_checkpoint(files)
   for _, file in ipairs(files) do
      if file:find "%.ckpt$" then return true end
   end
   return false
end

-- Returns two numbers by which checkpoints are compared: the number of steps after which a
-- checkpoint was saved, and the number of finished epochs. A fraction is added to the latter after
-- a validation (0.25) and at the end of an epoch (0.5), because no step lies between these places.
-- Returns nil if the file is no checkpoint of a training. The weights are not read.
local function age_of(path)
   local ok, state = pcall(strategy.read, path, true)
   if not ok then
      notice("trainer: a checkpoint that cannot be read is passed over: %s",
         (tostring(state):gsub("^[^\n]-:%d+: ", "")))
      return nil
   end
   if type(state) ~= "table" then return nil end
   local step, epoch, loops = state.global_step, state.epoch, state.loops
   if type(step) ~= "number" or type(epoch) ~= "number" or type(loops) ~= "table" then
      return nil
   end
   local places <const> = {epoch = 0.5, validated = 0.25}
   return step, epoch + (places[loops.place] or 0)
end

--- Returns the path of the newest checkpoint, which is last.ckpt or the checkpoint that was saved
--- last. Returns nil if there is none.
---@param trainer trainer.Trainer
---@return string? path
function ModelCheckpoint:find_last(trainer)
   local folder = folder_of(self, trainer)
   local found, best_step, best_epoch = nil, -1, -1
   local files = names_in(folder)
   -- Each run of a program has its own folder. If this run's folder has no checkpoints yet, the
   -- newest folder with checkpoints is searched.
   local base, version = folder:match "^(.*/version_)(%d+)/checkpoints$"
   while not self.dirpath and version and not has_checkpoint(files) and tonumber(version) > 0 do
      version = tonumber(version) - 1
      folder = ("%s%d/checkpoints"):format(base, version)
      files = names_in(folder)
   end
   for _, file in ipairs(files) do
      if file:find "%.ckpt$" then
         local step, epoch = age_of(folder .. "/" .. file)
         if step and (step > best_step or step == best_step and epoch > best_epoch) then
            found, best_step, best_epoch = folder .. "/" .. file, step, epoch
         end
      end
   end
   return found
end

local function check_name_arguments(epoch, step, metrics)
   local who <const> = "trainer.ModelCheckpoint.format_name"
   for name, value in pairs {epoch = epoch or false, step = step or false} do
      if not (math.type(value) and math.tointeger(value)) then
         args.refuse(who, name, "an integer", value or nil)
      end
   end
   if type(metrics) ~= "table" then args.refuse(who, "metrics", "a table", metrics) end
end

--- Returns the name of a checkpoint without folder and extension.
---@param epoch integer  the number of finished epochs
---@param step integer  the number of steps
---@param metrics table<string, number>  the logged values
---@return string
function ModelCheckpoint:format_name(epoch, step, metrics)
   -- A signature would take `metrics` for a table of options if a value named "epoch" was logged.
   check_name_arguments(epoch, step, metrics)
   epoch, step = math.tointeger(epoch), math.tointeger(step)
   local function value_of(name)
      if name == "epoch" then return epoch end
      if name == "step" then return step end
      local value = metrics[name]
      if value == nil then
         torch.raise(("%s: filename: %q was not logged"):format(NAME, name))
      end
      return args.to_number(NAME, name, value)
   end
   local text = self.filename or "{epoch}-{step}"
   return (text:gsub(FIELD, function(name, form)
      local value = value_of(name)
      local shown
      if form ~= "" then
         local ok, result = pcall(string.format, "%" .. form, value)
         if not ok then
            torch.raise(("%s: filename: the format %q does not fit %s = %s"):format(NAME, form,
               name, value))
         end
         shown = result
      elseif math.type(value) == "integer" then
         shown = tostring(value)
      else
         shown = ("%g"):format(value)
      end
      name = name:gsub("/", "_")
      return self.auto_insert_metric_name and name .. "=" .. shown or shown
   end))
end

local function better(self, a, b)
   if a ~= a then return false end
   if b ~= b then return true end
   if self.mode == "min" then return a < b end
   return a > b
end

-- Returns the path of the kept checkpoint with the worst value if `worst` is true, and otherwise
-- with the best value.
local function extreme(self, worst)
   local found
   local paths = {}
   for path in pairs(self.best_k_models) do paths[#paths + 1] = path end
   table.sort(paths)
   for _, path in ipairs(paths) do
      local value = self.best_k_models[path]
      local other = found and self.best_k_models[found]
      if not found or worst and better(self, other, value)
         or not worst and better(self, value, other) then
         found = path
      end
   end
   return found
end

local function remove(trainer, path)
   if path and path ~= "" and trainer.is_global_zero then strategy.remove(path) end
end

local function exists(path)
   local file <close> = io.open(path, "rb")
   return file ~= nil
end

-- Returns the path for a new checkpoint. A file that this run has not written never has this path;
-- a number is then added to the name.
local function path_of(self, trainer)
   local name = self:format_name(trainer.current_epoch, trainer.global_step,
      trainer.callback_metrics)
   local path, version = ("%s/%s.ckpt"):format(self.folder, name), 0
   while exists(path) and self.written and not self.written[path] do
      version = version + 1
      path = ("%s/%s-v%d.ckpt"):format(self.folder, name, version)
   end
   if trainer.world_size > 1 then
      local list = {path}
      torch.distributed.broadcast_object_list(list, 0)
      path = list[1]
   end
   return path
end

local function monitored(self, trainer)
   local value = trainer.callback_metrics[self.monitor]
   if value == nil then
      torch.raise(("%s: monitor: %q was not logged%s"):format(NAME, self.monitor,
         trainer:_logged_names()))
   end
   return args.to_number(NAME, self.monitor, value)
end

local function note(self, trainer, text)
   if self.verbose and trainer.is_global_zero then print(text) end
end

local function save_top(self, trainer)
   if self.save_top_k == 0 then return end
   local dropped
   local path
   if not self.monitor then
      path = path_of(self, trainer)
      if self.save_top_k == 1 and self.newest_path ~= path then dropped = self.newest_path end
      self.best_model_path, self.newest_path = path, path
   else
      local value = monitored(self, trainer)
      local count = 0
      for _ in pairs(self.best_k_models) do count = count + 1 end
      local worst = count == self.save_top_k and extreme(self, true)
      if worst and not better(self, value, self.best_k_models[worst]) then
         note(self, trainer, ("epoch %d, step %d: %s = %g was not among the best %d"):format(
            trainer.current_epoch, trainer.global_step, self.monitor, value, self.save_top_k))
         return
      end
      path = path_of(self, trainer)
      if worst then
         self.best_k_models[worst] = nil
         if worst ~= path then dropped = worst end
      end
      self.best_k_models[path] = value
      self.best_model_path = extreme(self, false)
      self.best_model_score = self.best_k_models[self.best_model_path]
   end
   self.written = self.written or {}
   self.written[path] = true
   trainer:save_checkpoint(path, self.save_weights_only)
   note(self, trainer, ("epoch %d, step %d: saved %s"):format(trainer.current_epoch,
      trainer.global_step, path))
   remove(trainer, dropped)
end

local function save(self, trainer)
   self.written = self.written or {}
   self.last_step_saved = trainer.global_step
   save_top(self, trainer)
   if self.save_last then
      self.last_model_path = self.folder .. "/last.ckpt"
      trainer:save_checkpoint(self.last_model_path, self.save_weights_only)
   end
end

local function skips(self, trainer)
   return trainer.sanity_checking or trainer.stage ~= "fit"
      or self.last_step_saved == trainer.global_step
end

-- Returns whether checkpoints are saved at the end of a training epoch instead of after the
-- validation.
local function at_training(self, trainer)
   if self.save_on_train_epoch_end ~= nil then return self.save_on_train_epoch_end end
   if not trainer.val_loaders then return true end
   return trainer.check_val_every_n_epoch ~= 1 and self.monitor == nil
end

local function is_epoch(self, trainer)
   return self.every_n_epochs > 0 and (trainer.current_epoch + 1) % self.every_n_epochs == 0
end

--- Runs after each training batch, and saves a checkpoint every every_n_train_steps steps.
---@param trainer trainer.Trainer
function ModelCheckpoint:on_train_batch_end(trainer)
   local n = self.every_n_train_steps
   if n < 1 or trainer.global_step == 0 or trainer.global_step % n ~= 0
      or trainer.progress.accumulated > 0 or skips(self, trainer) then
      return
   end
   save(self, trainer)
end

function ModelCheckpoint:_ignores(hook)
   return hook == "on_train_batch_end" and self[hook] == ModelCheckpoint[hook]
      and self.every_n_train_steps < 1
end

--- Runs after each validation, and saves a checkpoint unless it is saved at the end of the epoch.
---@param trainer trainer.Trainer
function ModelCheckpoint:on_validation_end(trainer)
   if skips(self, trainer) or at_training(self, trainer) or not is_epoch(self, trainer) then
      return
   end
   save(self, trainer)
end

--- Runs at the end of each training epoch, and saves a checkpoint if it is not saved after the
--- validation.
---@param trainer trainer.Trainer
function ModelCheckpoint:on_train_epoch_end(trainer)
   if skips(self, trainer) or not at_training(self, trainer) or not is_epoch(self, trainer) then
      return
   end
   save(self, trainer)
end

--- Returns the key of this callback's state in a checkpoint.
---@return string
function ModelCheckpoint:state_key()
   return ("ModelCheckpoint %s %s %d %d"):format(self.monitor, self.mode, self.every_n_train_steps,
      self.every_n_epochs)
end

--- Returns the callback's state, as plain data for a checkpoint.
---@return table
function ModelCheckpoint:state_dict()
   local written = {}
   for path in pairs(self.written or {}) do written[#written + 1] = path end
   table.sort(written)
   return {monitor = self.monitor, best_k_models = self.best_k_models, written = written,
      best_model_path = self.best_model_path, best_model_score = self.best_model_score,
      newest_path = self.newest_path, last_model_path = self.last_model_path,
      last_step_saved = self.last_step_saved, dirpath = self.folder}
end

--- Restores a state that state_dict has returned.
---@param state table  a result of state_dict
function ModelCheckpoint:load_state_dict(state)
   self.last_step_saved = state.last_step_saved
   -- A new run gets a new folder. A training that is resumed continues in the folder of the old
   -- run.
   if not self.dirpath and io_folder.list(state.dirpath) then self.folder = state.dirpath end
   if state.dirpath ~= self.folder then
      notice("trainer: ModelCheckpoint: the folder was %s and is %s: checkpoints in the old "
         .. "folder are not removed", state.dirpath, self.folder)
      return
   end
   self.best_k_models, self.best_model_path = state.best_k_models, state.best_model_path
   self.best_model_score, self.newest_path = state.best_model_score, state.newest_path
   self.last_model_path = state.last_model_path
   self.written = {}
   for _, path in ipairs(state.written) do self.written[path] = true end
end

return ModelCheckpoint
