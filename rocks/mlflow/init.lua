-- init.lua - torch.utils.mlflow: logs runs with their parameters, metrics and files for MLflow:
--
--    local mlflow = torch.utils.mlflow
--    mlflow.set_tracking_uri "http://127.0.0.1:5000"
--    mlflow.set_experiment "digits"
--    local run <close> = mlflow.start_run {run_name = "first"}
--    run:log_params {lr = 0.1, batch = 64}
--    run:log_metric("loss", loss:item(), step)
--
-- The tracking URI names a server or a folder. By default it is the value of the environment
-- variable MLFLOW_TRACKING_URI, or else the folder mlruns. An unreachable server does not end a
-- training: the run continues in the folder mlruns, in MLflow's own format, which `mlflow ui`
-- shows. Names are those of MLflow's Python client.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local Run = require "tlua.mlflow.Run"
local files = require "tlua.mlflow.files"
local rest = require "tlua.mlflow.rest"

local M = {Run = Run}

local current = {experiment = "Default"}

--- Returns the store, a server or a folder, for a tracking URI.
local function store_of(uri)
   if uri:find "^https?://" then return rest(uri) end
   if uri:find "^%a[%w+.-]*:" and not uri:find "^file:" then
      torch.raise(("mlflow: expected http://host:port, file:///folder or a folder, got %q")
         :format(uri))
   end
   return files((uri:gsub("^file://", "")))
end

local take_uri = args.signature "mlflow.set_tracking_uri(uri: string)"
local take_name = args.signature "mlflow.set_experiment(experiment_name: string)"

--- Sets the tracking URI of runs that begin from now on.
---@param uri string  "http://host:port", "file:///folder" or a folder
function M.set_tracking_uri(...)
   local uri = take_uri(...).uri
   store_of(uri)
   current.uri = uri
end

--- Returns the tracking URI.
---@return string
function M.get_tracking_uri()
   local uri = current.uri or os.getenv "MLFLOW_TRACKING_URI"
   return uri and uri ~= "" and uri or "mlruns"
end

checked.queries(M, "utils.mlflow.", "get_tracking_uri")

--- Sets the experiment of runs that begin from now on. The first run creates the experiment.
---@param experiment_name string
function M.set_experiment(...)
   local name = take_name(...).experiment_name
   if name == "" then args.refuse("mlflow.set_experiment", "experiment_name", "a name", name) end
   current.experiment = name
end

local start = args.signature [[mlflow.start_run(run_name: string?, tags: table?)]]

--- Begins a run. The caller must end the run, with `<close>` or `finish`; otherwise its status
--- stays "RUNNING".
---@param options? {run_name: string, tags: table<string, string>}
---@return utils.mlflow.Run
function M.start_run(...)
   local a = start(...)
   local tags = {}
   for key, value in pairs(a.tags or {}) do tags[key] = tostring(value) end
   return Run(store_of(M.get_tracking_uri()), current.experiment, a.run_name, tags)
end

return M
