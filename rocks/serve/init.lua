-- init.lua - torch.serve: serves models over HTTP.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local lazy = require "tlua.lazy"
local library = require "tlua.serve.library"
local settings_of = require "tlua.serve.settings"
local notice = require "tlua.utils.notice"

local M = {}

local take_none = args.signature "serve.available()"

-- Sources of models -------------------------------------------------------------------------------

local function is_program(value)
   return torch.type(value) == "export.Program"
end

-- Saves programs in a temporary folder with the layout of a folder of models. Returns the folder
-- and a function that removes the folder.
local function save_programs(title, programs)
   for name in pairs(programs) do
      if type(name) ~= "string" or not name:find "^[%w_][%w._-]*$" then
         args.refuse(title, "models",
            "names of letters, digits and . _ -, which do not begin with . or -", name)
      end
   end
   local base = os.tmpname()
   os.remove(base)
   local files, folders = {}, {}
   local function folder(path)
      assert(torch.io.make_folder(path))
      table.insert(folders, 1, path)
      return path
   end
   folder(base)
   for name, program in pairs(programs) do
      local path = folder(folder(base .. "/" .. name) .. "/1") .. "/model.tlp"
      program:save(path)
      files[#files + 1] = path
   end
   return base, function()
      for _, path in ipairs(files) do os.remove(path) end
      for _, path in ipairs(folders) do os.remove(path) end
   end
end

local function source(title, models)
   if type(models) == "string" then return models, function() end end
   if is_program(models) then return save_programs(title, {model = models}) end
   local fine = type(models) == "table" and next(models) ~= nil
   for _, program in pairs(fine and models or {}) do fine = fine and is_program(program) end
   if not fine then
      args.refuse(title, "models", "a path, a program of torch.export, or a table from at least "
         .. "one name to its program", models)
   end
   return save_programs(title, models)
end

-- Servers -----------------------------------------------------------------------------------------

--- A server that runs in its own thread; torch.serve.start returns it.
---
---     local program = torch.export(nn.Linear(2, 3), {torch.ones(1, 2)})
---     local there, options = torch.serve.available(), {port = 0, quiet = true}
---     local server = there and torch.serve.start(program, options)
---     print(not there or server.port > 0)
---     --> true
---     if there then server:stop() end
---@class serve.Server
---@field port integer  the port on which the server listens
---@field id integer  the server's number in this process
local Server = class.class("serve.Server")

function Server:__init() -- luacheck: ignore self
   torch.raise "serve.Server: use torch.serve.start(models)"
end

--- Shuts the server down gracefully: it accepts no new connections and answers all open requests. A
--- second call does nothing.
function Server:stop()
   if not self.pool then return end
   local http = library.open()
   local server = http.attach(self.id)
   if server then server:count(0, 1, 1) end
   local pool = self.pool
   self.pool = nil
   pool:take()
   pool:stop()
   self.remove()
end
Server.__close = Server.stop
Server.__gc = Server.stop -- a server that is collected stops and removes its copies of programs

function Server:__tostring()
   return ("serve.Server(port %d%s)"):format(self.port, self.pool and "" or ", stopped")
end

--- Returns whether this installation can serve. Serving needs the package's C module and
--- libmicrohttpd.
---@return boolean
---@return string? message  a message that says which part is missing
function M.available(...)
   take_none(...)
   local http, message = library.open()
   return http ~= nil, message
end

-- Returns three results: a server's settings, a function that removes the server's copies of
-- programs, and the C module.
local function prepare(title, models, options)
   if options ~= nil and type(options) ~= "table" then
      args.refuse(title, "options", "a table", options)
   end
   local settings = settings_of.read(title, options or {})
   local http, message = library.open()
   if not http then torch.raise(("%s: %s"):format(title, message)) end
   local path, remove = source(title, models)
   settings.path, settings.title = path, title
   return settings, remove, http
end

--- Starts a server in its own thread and returns at once. The server answers requests once its
--- models are loaded; then `/v2/health/ready` returns status 200. Programs are copied, so changing
--- them later does not affect the server.
---@param models string|export.Program|table<string, export.Program>  a folder of models
--- (NAME/VERSION/model.tlp), a file with a program (.tlp), a language model (.gguf) or a model in
--- Lua (.lua), a language model's folder, a program (its name is "model"), or programs by name
---@param options? {port: integer, address: string, http_threads: integer, max_body: integer,
--- max_connections: integer, idle_timeout: integer, receive_timeout: integer, access_log: string,
--- tokens: string[], key: string, certificate: string, poll: number, grace: number, page: boolean,
--- fixed: boolean, quiet: boolean, max_batch_size: integer, max_queue_delay: number,
--- queue: integer, timeout: number, instances: integer, threads: integer,
--- versions: string|integer[], outputs: string[], device: string,
--- cache_type: string, draft_model: string}  described in the package's README
---@return serve.Server
function M.start(models, options)
   local title <const> = "serve.start"
   local settings, remove = prepare(title, models, options)
   local pool = torch.workers.start(title, 1, "tlua.serve.thread")
   pool:send(0, 1, "start", settings)
   local _, _, fine, id, port = pool:take()
   if not fine then
      pool:stop()
      remove()
      torch.raise(id:match "(serve%.start: [^\n]*)" or ("%s: %s"):format(title, id))
   end
   pool:send(0, 2, "serve")
   local server = setmetatable({}, Server)
   server.pool, server.id, server.port, server.remove = pool, id, port, remove
   return server
end

-- Serves models until the process gets a signal to stop.
local function run(settings, http)
   local control = require "tlua.serve.control"
   local running = control.start(settings)
   settings.log(("listening on %s port %d"):format(settings.address, running.server:port()))
   while true do
      local signal = http.signalled()
      if signal == "stop" then break end
      if signal == "reload" then running.next_scan = 0 end
      control.step(running, 0.05)
   end
   settings.log "stopping"
   control.stop(running)
end

--- Serves models until the process gets SIGTERM or SIGINT, as `tlua serve` does;
--- torch.serve(models, options) is the same. On SIGHUP the server checks for new versions at once.
---@param models string|export.Program|table<string, export.Program>
---@param options? table  the options of torch.serve.start
function M.run(models, options)
   local title <const> = "serve.run"
   local settings, remove, http = prepare(title, models, options)
   settings.log = function(text)
      if not settings.quiet then notice("serve: %s", text) end
   end
   http.catch()
   local ok, problem = pcall(run, settings, http)
   http.release()
   remove()
   if not ok then error(problem, 0) end
   settings.log "stopped"
end

lazy.load(M, {})
M.Server = Server
getmetatable(M).__call = function(_, ...) return M.run(...) end

return M
