-- loggers.lua - loggers, which write the values that a module logs: to a CSV file, or for
-- TensorBoard, MLflow or Weights & Biases. A user's own logger is an object with
-- log_metrics(values, step). It may also have log_hyperparams(values), flush() and the field
-- log_dir.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local io_folder = require "tlua.io.folder"
local replace_file = require "tlua.io.replace"
local notice = require "tlua.utils.notice"

local M = {}

-- Returns the folder of a run, save_dir/name/version_n. n is the given version or, by default, the
-- number after the highest one in use. A version that is a string is itself the folder's name.
local function folder_of(save_dir, name, version)
   local base = name ~= "" and save_dir .. "/" .. name or save_dir
   if version then
      if math.type(version) == "integer" then version = "version_" .. version end
      return base .. "/" .. version
   end
   local next_version = 0
   local folders = io_folder.list(base)
   for _, folder in ipairs(folders or {}) do
      local n = tonumber(folder:match "^version_(%d+)$")
      if n and n >= next_version then next_version = n + 1 end
   end
   return ("%s/version_%d"):format(base, next_version)
end

local function make_folder(who, path)
   local made, message = torch.io.make_folder(path)
   if not made then torch.raise(("%s: %s: %s"):format(who, path, message)) end
end

-- Writes a file. If this fails, prints a message instead of raising an error, because a failure
-- must not end the training.
local function write_text(path, text)
   local message = replace_file(path, function(file)
      local ok, why = file:write(text)
      return not ok and why or nil
   end)
   if message then notice("trainer.CSVLogger: %s: %s", path, message) end
end

local function check_values(who, values)
   if type(values) == "table" then return end
   args.refuse(who, "values", "a table of values by name", values)
end

local function sorted(values)
   local names = {}
   for name in pairs(values) do names[#names + 1] = name end
   table.sort(names)
   return names
end

-- CSV ---------------------------------------------------------------------------------------------

local take_csv = args.signature [[trainer.CSVLogger(save_dir: string = '.',
   name: string = 'tlua_logs', version: integer|string?, flush_logs_every_n_steps: count = 100)]]

--- Writes logged values to the file metrics.csv of a folder.
---
---     local logger = torch.trainer.CSVLogger("logs", {version = 3})
---     print(logger.log_dir)
---     --> logs/tlua_logs/version_3
---@class trainer.CSVLogger
---@field log_dir string  the folder
---@overload fun(save_dir?: string, options?: table): trainer.CSVLogger
local CSVLogger = class.class("trainer.CSVLogger")
M.CSVLogger = CSVLogger

---@param save_dir? string  the folder of all runs
---@param options? {name: string, version: integer|string, flush_logs_every_n_steps: integer}  the
--- file is written after this many new rows, and at the end
function CSVLogger:__init(...)
   local a = take_csv(...)
   self.log_dir = folder_of(a.save_dir, a.name, a.version)
   self.every, self.rows, self.waiting = a.flush_logs_every_n_steps, {}, 0
end

--- Adds a row with the values of a step.
---@param values table<string, number>
---@param step integer  the number of the step, from 0
function CSVLogger:log_metrics(values, step)
   local who <const> = "trainer.CSVLogger.log_metrics"
   check_values(who, values)
   local row = {step = step}
   for name, value in pairs(values) do row[name] = args.to_number(who, name, value) end
   self.rows[#self.rows + 1] = row
   self.waiting = self.waiting + 1
   if self.waiting >= self.every then self:flush() end
end

local function quoted(text)
   if not text:find '[",\n]' then return text end
   return '"' .. text:gsub('"', '""') .. '"'
end

--- Writes the file.
function CSVLogger:flush()
   if self.waiting == 0 then return end
   self.waiting = 0
   make_folder("trainer.CSVLogger", self.log_dir)
   local columns = {}
   for _, row in ipairs(self.rows) do
      for name in pairs(row) do columns[name] = true end
   end
   local names = sorted(columns)
   local lines, head = {}, {}
   for i, name in ipairs(names) do head[i] = quoted(name) end
   lines[1] = table.concat(head, ",")
   for _, row in ipairs(self.rows) do
      local fields = {}
      for i, name in ipairs(names) do
         local value = row[name]
         fields[i] = value == nil and ""
            or math.type(value) == "integer" and tostring(value) or ("%.9g"):format(value)
      end
      lines[#lines + 1] = table.concat(fields, ",")
   end
   write_text(self.log_dir .. "/metrics.csv", table.concat(lines, "\n") .. "\n")
end

--- Writes hyperparameters to the file hparams.json.
---@param values table<string, any>
function CSVLogger:log_hyperparams(values)
   check_values("trainer.CSVLogger.log_hyperparams", values)
   make_folder("trainer.CSVLogger", self.log_dir)
   local plain = {}
   for name, value in pairs(values) do
      local kind = type(value)
      plain[name] = (kind == "number" or kind == "string" or kind == "boolean") and value
         or tostring(value)
   end
   write_text(self.log_dir .. "/hparams.json", torch.utils.json.encode(plain))
end

-- TensorBoard -------------------------------------------------------------------------------------

local take_tensorboard = args.signature [[trainer.TensorBoardLogger(save_dir: string = '.',
   name: string = 'tlua_logs', version: integer|string?)]]

--- Writes logged values to event files for TensorBoard, which `tlua top` can show as well.
---
---     print(torch.trainer.TensorBoardLogger("logs", {version = "first"}).log_dir)
---     --> logs/tlua_logs/first
---@class trainer.TensorBoardLogger
---@field log_dir string  the folder
---@overload fun(save_dir?: string, options?: table): trainer.TensorBoardLogger
local TensorBoardLogger = class.class("trainer.TensorBoardLogger")
M.TensorBoardLogger = TensorBoardLogger

---@param save_dir? string  the folder of all runs
---@param options? {name: string, version: integer|string}
function TensorBoardLogger:__init(...)
   local a = take_tensorboard(...)
   self.log_dir = folder_of(a.save_dir, a.name, a.version)
end

-- Returns the writer, which is created when it is first needed.
local function writer_of(self)
   self.writer = self.writer or torch.utils.tensorboard.SummaryWriter(self.log_dir)
   return self.writer
end

--- Adds a point to the curve of each value.
---@param values table<string, number>
---@param step integer  the number of the step, from 0
function TensorBoardLogger:log_metrics(values, step)
   check_values("trainer.TensorBoardLogger.log_metrics", values)
   local writer = writer_of(self)
   for _, name in ipairs(sorted(values)) do writer:add_scalar(name, values[name], step) end
end

--- Logs the hyperparameters as a text.
---@param values table<string, any>
function TensorBoardLogger:log_hyperparams(values)
   check_values("trainer.TensorBoardLogger.log_hyperparams", values)
   local lines = {}
   for i, name in ipairs(sorted(values)) do
      lines[i] = ("    %s: %s"):format(name, tostring(values[name]))
   end
   writer_of(self):add_text("hparams", table.concat(lines, "\n"))
end

--- Writes the buffered events.
function TensorBoardLogger:flush()
   if self.writer then self.writer:flush() end
end

-- MLflow ------------------------------------------------------------------------------------------

local take_mlflow = args.signature [[trainer.MLFlowLogger(experiment_name: string = 'tlua_logs',
   run_name: string?, tracking_uri: string?, tags: table?)]]

--- Logs values as a run of MLflow.
---
---     local logger = torch.trainer.MLFlowLogger("digits", {tracking_uri = "runs"})
---     logger:log_metrics({loss = 0.5}, 1)
---     print(logger.run.status)
---     logger:finish()
---     --> RUNNING
---@class trainer.MLFlowLogger
---@field run utils.mlflow.Run?  the run; nil until the first value is logged
---@overload fun(experiment_name?: string, options?: table): trainer.MLFlowLogger
local MLFlowLogger = class.class("trainer.MLFlowLogger")
M.MLFlowLogger = MLFlowLogger

---@param experiment_name? string
---@param options? {run_name: string, tracking_uri: string, tags: table}  tracking_uri: a server or
--- a folder
function MLFlowLogger:__init(...)
   self.options = take_mlflow(...)
end

local function run_of(self)
   if not self.run then
      local mlflow, a = torch.utils.mlflow, self.options
      if a.tracking_uri then mlflow.set_tracking_uri(a.tracking_uri) end
      mlflow.set_experiment(a.experiment_name)
      self.run = mlflow.start_run {run_name = a.run_name, tags = a.tags}
   end
   return self.run
end

--- Logs the values of a step.
---@param values table<string, number>
---@param step integer  the number of the step, from 0
function MLFlowLogger:log_metrics(values, step)
   check_values("trainer.MLFlowLogger.log_metrics", values)
   local run = run_of(self)
   for _, name in ipairs(sorted(values)) do run:log_metric(name, values[name], step) end
end

--- Logs hyperparameters.
---@param values table<string, any>
function MLFlowLogger:log_hyperparams(values)
   check_values("trainer.MLFlowLogger.log_hyperparams", values)
   local texts = {}
   for name, value in pairs(values) do texts[name] = tostring(value) end
   run_of(self):log_params(texts)
end

--- Ends the run.
---@param status? "FINISHED"|"FAILED"|"KILLED"  FINISHED by default
function MLFlowLogger:finish(status)
   if self.run then self.run:finish(status or "FINISHED") end
end

-- W&B ---------------------------------------------------------------------------------------------

local take_wandb = args.signature [[trainer.WandbLogger(name: string?, save_dir: string = '.',
   version: string?, project: string = 'tlua_logs', group: string?, tags: table?)]]

--- Logs values as a run of Weights & Biases, which `wandb sync` uploads.
---
---     local options = {save_dir = "/tmp", project = "digits"}
---     local logger = torch.trainer.WandbLogger(options)
---     logger:log_metrics({loss = 0.5}, 1)
---     print(logger.run.project, logger.run.step)
---     logger:finish()
---     --> digits	1
---@class trainer.WandbLogger
---@field run utils.wandb.Run?  the run; nil until the first value is logged
---@overload fun(options?: table): trainer.WandbLogger
local WandbLogger = class.class("trainer.WandbLogger")
M.WandbLogger = WandbLogger

---@param name? string  the run's name
---@param options? {save_dir: string, version: string, project: string, group: string,
--- tags: string[]}  save_dir: the folder in which the folder wandb is made; version: the run's id;
--- an existing run with this id is continued
function WandbLogger:__init(...)
   self.options = take_wandb(...)
end

local function wandb_run(self)
   if not self.run then
      local a = self.options
      self.run = torch.utils.wandb.init {name = a.name, dir = a.save_dir, id = a.version,
         resume = a.version ~= nil, project = a.project, group = a.group, tags = a.tags}
   end
   return self.run
end

--- Logs values as a row; the row's "trainer/global_step" is `step`.
---@param values table<string, number>
---@param step integer  the number of the step, from 0
function WandbLogger:log_metrics(values, step)
   check_values("trainer.WandbLogger.log_metrics", values)
   local row = {["trainer/global_step"] = step}
   for name, value in pairs(values) do row[name] = value end
   wandb_run(self):log(row)
end

--- Records hyperparameters as the config of the run.
---@param values table<string, any>
function WandbLogger:log_hyperparams(values)
   check_values("trainer.WandbLogger.log_hyperparams", values)
   local run = wandb_run(self)
   for _, name in ipairs(sorted(values)) do
      local value = values[name]
      local kind = type(value)
      local fits = kind == "number" or kind == "string" or kind == "boolean"
      run.config[name] = fits and value or tostring(value)
   end
end

--- Ends the run.
---@param exit_code? integer  0 by default
function WandbLogger:finish(exit_code)
   if self.run then self.run:finish(exit_code or 0) end
end

return M
