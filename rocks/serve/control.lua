-- control.lua - the server's main loop: starts HTTP, loads models, answers all requests except
-- inference, and shuts down gracefully.

local torch = require "tlua"
local json = require "tlua.utils.json"
local Models = require "tlua.serve.models"
local counters = require "tlua.serve.counters"
local errors = require "tlua.serve.errors"
local library = require "tlua.serve.library"
local metrics = require "tlua.serve.metrics"
local page = require "tlua.serve.page"
local repository = require "tlua.serve.repository"

local M = {}

local version_text <const> = tostring(torch.__version__)

local function reply(request, value, status)
   return request:reply(status or 200, "application/json",
      type(value) == "string" and value or json.encode(value))
end

local function refuse(request, status, format, ...)
   return reply(request, {error = errors.text(format:format(...))}, status)
end

local function array(list) return json.as_array(list) end

-- Descriptions of models --------------------------------------------------------------------------

local function tensors(list)
   local out = {}
   for i, tensor in ipairs(list or {}) do
      out[i] = {name = tensor.name, datatype = tensor.datatype, shape = array {table.unpack(
         tensor.shape)}}
   end
   return array(out)
end

local function metadata(control, version)
   local versions = {}
   for _, other in ipairs(control.models:list()) do
      if other.name == version.name and other.state == "READY" then
         versions[#versions + 1] = tostring(other.number)
      end
   end
   return {name = version.name, versions = array(versions), platform = "tlua_" .. version.kind,
      inputs = tensors(version.about.inputs), outputs = tensors(version.about.outputs)}
end

local function config(_, version)
   local batch = version.about.max_batch_size or 0
   local function parts(list)
      local out = {}
      for i, tensor in ipairs(list or {}) do
         out[i] = {name = tensor.name, data_type = "TYPE_" .. tensor.datatype,
            dims = array {table.unpack(tensor.shape, batch > 0 and 2 or 1)}}
      end
      return array(out)
   end
   local options = version.options
   local result = {
      name = version.name, platform = "tlua_" .. version.kind, backend = "tlua",
      max_batch_size = batch, input = parts(version.about.inputs),
      output = parts(version.about.outputs),
      instance_group = array {{name = version.name, kind = "KIND_CPU", count = options.instances}},
      version_policy = options.versions == "all" and {all = {}} or {latest = {num_versions = 1}},
   }
   if batch > 0 then
      result.dynamic_batching = {
         max_queue_delay_microseconds = math.floor(options.max_queue_delay * 1e6),
      }
   end
   return result
end

local function statistics(control, version)
   local c = control.server:counters(version.queue)
   local function part(count, ns)
      return {count = c[counters[count]], ns = ns and c[counters[ns]] or 0}
   end
   return {
      name = version.name, version = tostring(version.number),
      last_inference = c[counters.last_ms], inference_count = c[counters.examples],
      execution_count = c[counters.runs],
      inference_stats = {
         success = part("answered", "total_ns"), fail = part("failed", "failed_ns"),
         queue = part("answered", "queue_ns"), compute_input = part("answered", "read_ns"),
         compute_infer = part("answered", "run_ns"), compute_output = part("answered", "write_ns"),
         cache_hit = {count = 0, ns = 0}, cache_miss = {count = 0, ns = 0},
      },
      batch_stats = array {},
   }
end

-- The Open Inference Protocol ---------------------------------------------------------------------

local function server_metadata()
   return {name = "tlua", version = version_text, extensions = array {"model_repository",
      "model_repository(unload_dependents)", "model_configuration", "statistics",
      "binary_tensor_data"}}
end

-- Returns the JSON object in a request's body. If the body is no JSON object, returns nil and a
-- message.
local function object_in(body)
   local value, message = json.decode(body)
   if type(value) ~= "table" or value == json.null or json.is_array(value) then
      return nil, "the body: expected a JSON object, got "
         .. (message and "none: " .. message or errors.kind(value))
   end
   return value
end

local function optional_object_in(body)
   if body == "" then return {} end
   return object_in(body)
end

local function repository_index(control, request)
   local body, why = optional_object_in(request:body())
   if not body then return refuse(request, 400, "%s", why) end
   local ready_only = body.ready == true
   local list = {}
   for _, version in ipairs(control.models:list()) do
      if version.state == "READY" or not ready_only then
         list[#list + 1] = {name = version.name, version = tostring(version.number),
            state = version.state, reason = version.reason or ""}
      end
   end
   for name, model in pairs(control.models.by_name) do
      if (model.unloaded or model.message) and not ready_only then
         list[#list + 1] = {name = name, version = "", state = "UNAVAILABLE",
            reason = model.message or "unloaded"}
      end
   end
   return reply(request, array(list))
end

local function unknown(request, name, number)
   return refuse(request, 404, "Request for unknown model: '%s'%s is not found", name,
      number and " version " .. number or "")
end

local queries <const> = {[""] = metadata, config = config}

local function about_model(control, request, method, name, number, what)
   if number and not number:find "^[1-9]%d*$" then
      return refuse(request, 400, "the version of model %s: expected a number, got %q", name,
         number)
   end
   -- A number that is no integer in Lua becomes -1, which matches no version.
   local version = control.models:find(name, number and (math.tointeger(tonumber(number)) or -1))
   if what == "infer" then
      if method ~= "POST" then
         return refuse(request, 405, "infer: expected POST, got %s", method)
      end
      if version and version.kind == "language" then
         return refuse(request, 400, "model %s is a language model: ask at /v1/completions", name)
      end
      -- The route did not exist when the request arrived, but has been added since then.
      if version then
         local ok, status = request:forward(version.queue)
         if not ok then refuse(request, status, "the queue of model %s is full", name) end
         return
      end
      return unknown(request, name, number)
   end
   if method ~= "GET" and method ~= "HEAD" then
      return refuse(request, 405, "expected GET, got %s", method)
   end
   if what == "ready" then
      if version then return request:reply(200, "application/json", "") end
      return refuse(request, 400, "model %s is not ready", name)
   end
   if not version then return unknown(request, name, number) end
   if what == "stats" then
      return reply(request, {model_stats = array {statistics(control, version)}})
   end
   local query = queries[what]
   if not query then return refuse(request, 404, "models have no %q", what) end
   return reply(request, query(control, version))
end

local function all_statistics(control, request)
   local list = {}
   for _, version in ipairs(control.models:list()) do
      if version.state == "READY" then list[#list + 1] = statistics(control, version) end
   end
   return reply(request, {model_stats = array(list)})
end

local function change_model(control, request, name, action)
   if control.settings.fixed then
      return refuse(request, 403, "this server does not let clients load and unload models")
   end
   if action == "load" then
      local value, why = optional_object_in(request:body())
      if not value then return refuse(request, 400, "load: %s", why) end
      local parameters = value.parameters
      if type(parameters) == "table" and next(parameters) ~= nil then
         return refuse(request, 400,
            "load: parameters are not supported; set options in config.json")
      end
      if not control.models:load(name, request) then
         return refuse(request, 400, "failed to load '%s': no such model in the repository", name)
      end
      return
   end
   if not control.models:unload(name) then return unknown(request, name) end
   return reply(request, "{}")
end

local function protocol(control, request, method, path)
   if path == "" or path == "/" then return reply(request, server_metadata()) end
   if path == "/models/stats" then return all_statistics(control, request) end
   if path == "/repository/index" then
      if method ~= "POST" then return refuse(request, 405, "expected POST, got %s", method) end
      return repository_index(control, request)
   end
   local name, action = path:match "^/repository/models/(.+)/(%l+)$"
   if name and (action == "load" or action == "unload") then
      if method ~= "POST" then return refuse(request, 405, "expected POST, got %s", method) end
      return change_model(control, request, name, action)
   end
   local rest
   name, rest = path:match "^/models/([^/]+)(.*)$"
   if name then
      local number, what = rest:match "^/versions/([^/]+)(.*)$"
      what = what or rest
      return about_model(control, request, method, name, number, (what:gsub("^/", "")))
   end
   return refuse(request, 404, "there is no /v2%s", path)
end

-- OpenAI's protocol -------------------------------------------------------------------------------

local function openai_error(request, status, message, code)
   return reply(request, {error = {message = errors.text(message), type = "invalid_request_error",
      param = json.null, code = code or json.null}}, status)
end

local function openai_models(control)
   local list, seen = {}, {}
   for _, version in ipairs(control.models:list()) do
      if version.kind == "language" and version.state == "READY" and not seen[version.name] then
         seen[version.name] = true
         list[#list + 1] = {id = version.name, object = "model", created = version.about.created,
            owned_by = "tlua"}
      end
   end
   return list
end

local tasks <const> = {
   ["/chat/completions"] = true, ["/completions"] = true, ["/embeddings"] = true,
}

local function openai(control, request, method, path)
   if path:find "^/models" then
      if method ~= "GET" and method ~= "HEAD" then
         return openai_error(request, 405, "expected GET, got " .. method)
      end
      local list = openai_models(control)
      local wanted = path:match "^/models/(.+)$"
      if not wanted then return reply(request, {object = "list", data = array(list)}) end
      for _, model in ipairs(list) do
         if model.id == wanted then return reply(request, model) end
      end
      return openai_error(request, 404, ("The model '%s' does not exist"):format(wanted),
         "model_not_found")
   end
   if not tasks[path] then return openai_error(request, 404, "there is no /v1" .. path) end
   if method ~= "POST" then return openai_error(request, 405, "expected POST, got " .. method) end
   local value, message = object_in(request:body())
   if not value then return openai_error(request, 400, message) end
   if type(value.model) ~= "string" then
      return openai_error(request, 400, "model: expected the name of a model, got "
         .. errors.kind(value.model))
   end
   local version = control.models:find(value.model)
   if not version or version.kind ~= "language" then
      return openai_error(request, 404, ("The model '%s' does not exist"):format(value.model),
         "model_not_found")
   end
   local ok, status = request:forward(version.queue)
   if not ok then openai_error(request, status, "the queue of the model is full") end
end

-- The loop ----------------------------------------------------------------------------------------

local function all_metrics(control)
   local list = {}
   for _, version in ipairs(control.models:list()) do
      if version.state == "READY" then
         local counts, waiting = control.server:counters(version.queue)
         list[#list + 1] = {name = version.name, version = version.number, counts = counts,
            waiting = waiting}
      end
   end
   return metrics.text(control.server:stats(), list)
end

local function handle(control, request)
   local method, path = request:method(), request:path()
   local rest = path:match "^/v2(.*)$"
   if rest and (rest == "" or rest:sub(1, 1) == "/") then
      return protocol(control, request, method, rest)
   end
   rest = path:match "^/v1(/.*)$"
   if rest then return openai(control, request, method, rest) end
   local reads = method == "GET" or method == "HEAD"
   if not reads and (path == "/metrics" or path == "/") then
      return refuse(request, 405, "expected GET, got %s", method)
   end
   if path == "/metrics" then
      return request:reply(200, "text/plain; version=0.0.4; charset=utf-8", all_metrics(control))
   end
   return refuse(request, 404, "there is nothing at %s", path)
end

-- Sets whether /v2/health/ready answers that the server is ready.
local function set_ready(control, ready)
   if control.ready == ready then return end
   control.ready = ready
   control.server:fixed("GET", "/v2/health/ready", ready and 200 or 503, "application/json",
      ready and "" or '{"error":"not ready"}')
end

local function read_file(title, path, what)
   if not path then return nil end
   local file <close>, message = io.open(path, "rb")
   local text
   if file then text, message = file:read "a" end
   if text == "" then message = path .. ": the file is empty" end
   if message then
      torch.raise(("%s: %s: cannot read %s"):format(title, what,
         message:find(path, 1, true) and message or path .. ": " .. message))
   end
   return text
end

--- Starts a server. Raises an error on failure.
---@param settings table  title (the beginning of error messages), path (of the models), log (a
--- function that logs a text), and the options of torch.serve.start
---@return table control
function M.start(settings)
   local title = settings.title
   local http, message = library.open()
   if not http then torch.raise(("%s: %s"):format(title, message)) end
   local found, problem = repository.scan(settings.path, settings.options)
   if not found then torch.raise(("%s: %s"):format(title, problem)) end
   if next(found) == nil then
      torch.raise(("%s: %s: expected models there, as NAME/VERSION/model.tlp"):format(title,
         settings.path))
   end
   local server, why = http.start {
      port = settings.port, address = settings.address, threads = settings.http_threads,
      body = settings.max_body, connections = settings.max_connections, log = settings.access_log,
      timeout = settings.idle_timeout, receive_timeout = settings.receive_timeout,
      tokens = settings.tokens,
      key = read_file(title, settings.key, "key"),
      certificate = read_file(title, settings.certificate, "certificate"),
   }
   if not server then torch.raise(("%s: %s"):format(title, why)) end
   settings.body = settings.max_body
   local control = {http = http, server = server, settings = settings,
      models = Models(http, server, settings)}
   server:fixed("GET", "/v2/health/live", 200, "application/json", "")
   set_ready(control, false)
   if settings.page ~= false then
      server:fixed("GET", "/", 200, "text/html; charset=utf-8", page)
   end
   control.models:scan()
   control.next_scan = torch.io.clock() + settings.poll
   control.next_sweep = 0
   return control
end

--- Runs the main loop once. It loads and retires models, and answers requests for about `seconds`
--- seconds.
---@param control table
---@param seconds number
function M.step(control, seconds)
   local now = torch.io.clock()
   control.models:listen()
   set_ready(control, not control.draining and control.models:ready())
   for _, request in ipairs(control.server:take(0, 64, seconds) or {}) do
      local ok, message = pcall(handle, control, request)
      if not ok then
         control.settings.log("serve: " .. tostring(message))
         refuse(request, 500, "an error in the server")
      end
   end
   if now >= control.next_sweep then
      control.server:sweep()
      control.next_sweep = now + 0.1
   end
   if now >= control.next_scan and not control.draining then
      local ok, fine, message = pcall(control.models.scan, control.models)
      local problem = not ok and tostring(fine) or not fine and message or nil
      if problem and problem ~= control.problem then control.settings.log(problem) end
      control.problem = problem
      control.next_scan = now + control.settings.poll
   end
end

--- Shuts down gracefully: accepts no more connections, answers the open requests for at most
--- `grace` seconds, and then ends.
---@param control table
function M.stop(control)
   control.draining = true
   set_ready(control, false)
   local last = torch.io.clock() + control.settings.grace
   local quiet = 0
   while torch.io.clock() < last and quiet < 3 do
      quiet = control.server:drain() == 0 and quiet + 1 or 0
      M.step(control, 0.03)
   end
   control.models:stop()
   control.server:stop()
end

return M
