-- Run.lua - a training run, which is recorded in an MLflow server or in a folder.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local files = require "tlua.mlflow.files"
local notice = require "tlua.utils.notice"

---     local mlflow = torch.utils.mlflow
---     mlflow.set_tracking_uri "runs"
---     local run = mlflow.start_run {run_name = "first"}
---     run:log_metric("loss", 0.5, 1)
---     print(run.run_name, run.status)
---     run:finish()
---     --> first	RUNNING
---@class utils.mlflow.Run
---@field run_id string  the run's id in the store
---@field experiment_id string  the id of the experiment that has the run
---@field run_name string  the name that user interfaces show
---@field artifact_uri string  the location of the run's files
---@field status "RUNNING"|"FINISHED"|"FAILED"|"KILLED"  the state of the run
local Run = class.class("utils.mlflow.Run")

local FALLBACK <const> = "mlruns"

-- Continues the run in the folder FALLBACK, because the store has failed and a failure must not end
-- the training. Prints the message.
local function fall_back(self, message)
   notice("mlflow: %s; the run goes on in %s", message, FALLBACK)
   self.store = files(FALLBACK)
   local ok, info = pcall(self.store.begin, self.store, self.about)
   if ok then
      self.run_id, self.experiment_id = info.run_id, info.experiment_id
      self.artifact_uri = info.artifact_uri
   else
      notice("mlflow: %s; nothing is kept", info)
      self.store = nil
   end
end

-- Calls a method of the run's store. Raises an error if the store refuses the request. If a call of
-- a server fails for another reason, a folder replaces the server, and the folder's method is
-- called. If the call of a folder fails, the run has no store from then on, and this function
-- returns nil.
local function ask(self, method, ...)
   if not self.store then return nil end
   local ok, result = pcall(self.store[method], self.store, ...)
   if ok then return result end
   if type(result) == "table" and result.refused then torch.raise("mlflow: " .. result.refused) end
   if self.store.remote then
      fall_back(self, result)
      return self.store and ask(self, method, ...)
   end
   notice("mlflow: %s; no further values are logged", result)
   self.store = nil
end

local function now() return math.floor(torch.io.time() * 1000) end

function Run:__init(store, experiment, name, tags)
   if type(store) ~= "table" or not store.begin then
      args.refuse("utils.mlflow.Run", "store", "a store, as start_run gives it", store)
   end
   self.about = {experiment = experiment, name = name or os.date "run-%Y%m%d-%H%M%S", tags = tags,
      start_time = now(), user = os.getenv "USER" or "unknown"}
   self.store, self.run_name, self.status = store, self.about.name, "RUNNING"
   local ok, info = pcall(store.begin, store, self.about)
   if ok then
      self.run_id, self.experiment_id = info.run_id, info.experiment_id
      self.artifact_uri = info.artifact_uri
   elseif store.remote and not (type(info) == "table" and info.refused) then
      fall_back(self, info)
   else
      torch.raise("mlflow: " .. (type(info) == "table" and info.refused or tostring(info)))
   end
end

-- Checks that a key follows MLflow's rule for names of parameters, metrics and tags. These names
-- are also used as file names.
local function check_key(who, key)
   local bad = type(key) ~= "string" or key == "" or #key > 250 or key:find "[^%w_%-%. :/]"
      or key:find "^/" or key:find "/$" or key:find "//"
   for part in tostring(key):gmatch "[^/]+" do bad = bad or part == "." or part == ".." end
   if bad then
      args.refuse(who, "key", "a name of letters, digits, _ - . / : and spaces", key)
   end
   return key
end

local function check_open(self, who)
   if self.status ~= "RUNNING" then
      torch.raise(("%s: the run has ended: %s"):format(who, self.status))
   end
end

-- Returns the entries of a table as a list sorted by key. `name` is the name of the argument.
local function sorted(entries, who, convert, name)
   if torch.type(entries) ~= "table" then
      args.refuse(who, name, "a table", entries)
   end
   local list = {}
   for key, value in pairs(entries) do
      list[#list + 1] = {key = check_key(who, key), value = convert(who, value)}
   end
   table.sort(list, function(a, b) return a.key < b.key end)
   return list
end

local function text(_, value)
   return torch.is_tensor(value) and value:numel() == 1 and tostring(value:item())
      or tostring(value)
end

local function number(who, value)
   return args.to_number(who, "value", value)
end

--- Logs parameters of the run. Each parameter may be set only once.
---@param params table<string, any>
function Run:log_params(params)
   check_open(self, "log_params")
   ask(self, "log", self, {params = sorted(params, "log_params", text, "params")})
end

--- Logs a parameter of the run. Its value cannot change afterwards.
---@param key string
---@param value any
function Run:log_param(key, value)
   check_open(self, "log_param")
   ask(self, "log", self, {params = sorted({[check_key("log_param", key)] = value}, "log_param",
      text)})
end

--- Logs several metrics. Each value becomes a point of its metric's curve.
---@param metrics table<string, number|Tensor>
---@param step? integer
function Run:log_metrics(metrics, step) self:_points("log_metrics", metrics, step) end

function Run:_points(who, metrics, step)
   check_open(self, who)
   if step ~= nil and math.tointeger(step) == nil then
      args.refuse(who, "step", "an integer", step)
   end
   local list, time = sorted(metrics, who, number, "metrics"), now()
   for _, entry in ipairs(list) do
      entry.timestamp, entry.step = time, math.tointeger(step or 0)
   end
   ask(self, "log", self, {metrics = list})
end

--- Logs a value of a metric, which becomes a point of the metric's curve.
---@param key string
---@param value number|Tensor
---@param step? integer
function Run:log_metric(key, value, step)
   self:_points("log_metric", {[check_key("log_metric", key)] = number("log_metric", value)}, step)
end

--- Sets several tags of the run.
---@param tags table<string, any>
function Run:set_tags(tags)
   check_open(self, "set_tags")
   ask(self, "log", self, {tags = sorted(tags, "set_tags", text, "tags")})
end

--- Sets a tag of the run.
---@param key string
---@param value any
function Run:set_tag(key, value) self:set_tags {[check_key("set_tag", key)] = value} end

local function check_path(who, path)
   if type(path) ~= "string" or path == "" or path:find "^/" or ("/" .. path .. "/"):find "/%.%./"
      or path:find "\\" then
      args.refuse(who, "artifact_file", "a path below the run's folder", path)
   end
   return path
end

--- Stores a text as a file of the run.
---@param contents string
---@param artifact_file string  the file's path among the run's files, such as "notes/model.txt"
function Run:log_text(contents, artifact_file)
   check_open(self, "log_text")
   if type(contents) ~= "string" then
      args.refuse("log_text", "contents", "a string", contents)
   end
   ask(self, "put", self, check_path("log_text", artifact_file), contents)
end

--- Stores a local file among the run's files.
---@param local_path string
---@param artifact_path? string  the destination folder among the run's files
function Run:log_artifact(local_path, artifact_path)
   check_open(self, "log_artifact")
   if type(local_path) ~= "string" then
      args.refuse("log_artifact", "local_path", "a path", local_path)
   end
   if artifact_path ~= nil and type(artifact_path) ~= "string" then
      args.refuse("log_artifact", "artifact_path", "a folder", artifact_path)
   end
   local file, message = io.open(local_path, "rb")
   local contents = file and file:read "a"
   if file then file:close() end
   if not contents then torch.raise("log_artifact: " .. (message or local_path .. ": no file")) end
   local name = local_path:match "[^/\\]+$"
   ask(self, "put", self, check_path("log_artifact",
      artifact_path and artifact_path .. "/" .. name or name), contents)
end

local ends <const> = {FINISHED = true, FAILED = true, KILLED = true}

--- Ends the run.
---@param status? "FINISHED"|"FAILED"|"KILLED"
function Run:finish(status)
   status = status or "FINISHED"
   if not ends[status] then
      args.refuse("finish", "status", '"FINISHED", "FAILED" or "KILLED"', status)
   end
   if self.status ~= "RUNNING" then return end
   self.status = status
   ask(self, "finish", self, status, now())
end

Run.__close = function(self, problem) self:finish(problem ~= nil and "FAILED" or "FINISHED") end

return Run
