-- rest.lua - stores runs in an MLflow server, through its REST API
-- (https://mlflow.org/docs/latest/api_reference/rest-api.html).

local torch = require "tlua"
local http = require "tlua.utils.http"
local json = require "tlua.utils.json"

local Rest = {remote = true}
Rest.__index = Rest

-- Raises an error for a request that the server has refused. It is marked, because all other errors
-- are treated as failures of the network.
local function refuse(path, answer)
   local ok, told = pcall(json.decode, answer.body)
   local message = ok and type(told) == "table" and told.message
      or ("the server answers %s with %d"):format(path, answer.status)
   error({refused = tostring(message), code = ok and type(told) == "table" and told.error_code}, 0)
end

-- Returns the headers of a request whose body has the Content-Type `kind`.
function Rest:headers(kind)
   return {["Content-Type"] = kind, Authorization = self.authorization}
end

-- Calls an endpoint of the API. Returns the response, decoded from JSON.
function Rest:call(method, path, content)
   local body = content and json.encode(content)
   local answer = http.request(method, self.address .. "/api/2.0/mlflow/" .. path, {body = body,
      headers = self:headers(body and "application/json")})
   if answer.status >= 500 then
      error(("%s: the server answers %d"):format(self.uri, answer.status), 0)
   elseif answer.status ~= 200 then
      refuse(path, answer)
   end
   local ok, value = pcall(json.decode, answer.body)
   if not ok or type(value) ~= "table" then
      error(self.uri .. ": the answer is not from an MLflow server", 0)
   end
   return value
end

local function find(self, name)
   return self:call("GET", "experiments/get-by-name?experiment_name=" .. http.escape(name))
      .experiment.experiment_id
end

-- Returns the number of an experiment. If it does not exist, it is created. If another client
-- creates the same experiment meanwhile, its number is returned.
function Rest:experiment(name)
   local ok, id = pcall(find, self, name)
   if ok then return id end
   if type(id) ~= "table" or id.code ~= "RESOURCE_DOES_NOT_EXIST" then error(id, 0) end
   local made
   ok, made = pcall(self.call, self, "POST", "experiments/create", {name = name})
   if ok then return made.experiment_id end
   if type(made) ~= "table" or made.code ~= "RESOURCE_ALREADY_EXISTS" then error(made, 0) end
   return find(self, name)
end

--- Creates a run.
function Rest:begin(about)
   local id = self:experiment(about.experiment)
   local tags = json.as_array {{key = "mlflow.user", value = about.user}}
   for key, value in pairs(about.tags) do tags[#tags + 1] = {key = key, value = value} end
   local info = self:call("POST", "runs/create", {experiment_id = id, run_name = about.name,
      user_id = about.user, start_time = about.start_time, tags = tags}).run.info
   return {run_id = info.run_id, experiment_id = id, artifact_uri = info.artifact_uri}
end

-- Returns the API's word for a number that is NaN or infinite, since JSON has no such numbers.
local function word(x)
   if x ~= x then return "NaN" end
   return x == math.huge and "Infinity" or x == -math.huge and "-Infinity" or x
end

--- Sends a run's entries to the server. Splits them into requests, since the API limits the number
--- of entries in a request.
function Rest:log(run, entries)
   for kind, most in pairs {metrics = 1000, params = 100, tags = 100} do
      local list = entries[kind] or {}
      for first = 1, #list, most do
         local part = json.as_array {}
         for i = first, math.min(first + most - 1, #list) do
            local entry = {}
            for key, value in pairs(list[i]) do entry[key] = value end
            if kind == "metrics" then entry.value = word(entry.value) end
            part[#part + 1] = entry
         end
         self:call("POST", "runs/log-batch", {run_id = run.run_id, [kind] = part})
      end
   end
end

--- Stores a file of the run. If the server itself stores files, the file is sent to it. Otherwise
--- the file is written to the location that the server has named.
function Rest:put(run, path, contents)
   local uri = run.artifact_uri
   local below = uri:match "^mlflow%-artifacts:/+(.*)$"
   if below then
      local full = below .. "/" .. path
      local answer = http.request("PUT", self.address .. "/api/2.0/mlflow-artifacts/artifacts/"
         .. http.escape(full, true), {body = contents,
         headers = self:headers "application/octet-stream"})
      if answer.status ~= 200 then refuse("artifacts", answer) end
      return
   end
   local folder = uri:gsub("^file://", "")
   if not folder:find "^/" then
      error({refused = ("log_artifact: the server keeps files at %s, which can be written by its "
         .. "own clients only; start it with --serve-artifacts"):format(uri)}, 0)
   end
   local place = folder .. "/" .. path
   local made, problem = torch.io.make_folder(place:match "^(.*)/")
   if not made then error({refused = ("log_artifact: %s: %s"):format(place, problem)}, 0) end
   local failure = require "tlua.io.replace"(place, function(file)
      return select(2, file:write(contents))
   end)
   if failure then error({refused = ("log_artifact: %s: %s"):format(place, failure)}, 0) end
end

function Rest:finish(run, status, time)
   self:call("POST", "runs/update", {run_id = run.run_id, status = status, end_time = time})
end

---@param uri string
return function(uri)
   local place, message = http.parse(uri)
   if not place then torch.raise(("mlflow: %s, got %q"):format(message, uri)) end
   local token = os.getenv "MLFLOW_TRACKING_TOKEN"
   return setmetatable({uri = uri, address = place.server .. place.path:gsub("/*$", ""),
      authorization = token and "Bearer " .. token}, Rest)
end
