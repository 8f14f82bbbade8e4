-- kernel.lua - the Jupyter kernel. The main thread answers the requests of the shell channel one
-- after another. channels.lua handles output, heartbeat and control.

local torch = require "tlua"
local channels = require "tlua.notebook.channels"
local json = require "tlua.utils.json"
local messages = require "tlua.notebook.messages"
local notebook = require "tlua.notebook"
local session = require "tlua.notebook.session"

local kernel = torch._kernel
local kinds, options = messages.sockets, messages.options

local M = {}

---@class notebook.Kernel
local Kernel = {}
Kernel.__index = Kernel

local ports <const> = {"shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"}

--- Reads a connection file. Returns nil and a message if the file is not valid.
---@param path string
---@return table? config
---@return string? message
function M.read_connection(path)
   local file <close>, why = io.open(path, "rb")
   if not file then return nil, why end
   local text = file:read "a"
   local config, problem = json.decode(text or "")
   if problem then return nil, ("%s: %s"):format(path, problem) end
   if type(config) ~= "table" then return nil, path .. ": expected a JSON object" end
   for _, name in ipairs(ports) do
      if math.type(config[name]) ~= "integer" or config[name] < 1 or config[name] > 65535 then
         return nil, ("%s: %s: expected a port"):format(path, name)
      end
   end
   if config.transport ~= "tcp" and config.transport ~= "ipc" then
      return nil, path .. ': transport: expected "tcp" or "ipc"'
   end
   if type(config.ip) ~= "string" then return nil, path .. ": ip: expected an address" end
   if type(config.key) ~= "string" then config.key = "" end
   local scheme = config.signature_scheme
   if config.key ~= "" and scheme ~= nil and scheme ~= "hmac-sha256" then
      return nil, ('%s: signature_scheme: expected "hmac-sha256", got "%s"'):format(path,
         tostring(scheme))
   end
   return config
end

local function info()
   return {
      status = "ok", protocol_version = messages.version, implementation = "tlua",
      implementation_version = torch.version.__version__,
      language_info = {
         name = "lua", version = "5.4", mimetype = "text/x-lua",
         file_extension = ".lua", pygments_lexer = "lua", codemirror_mode = "lua",
         nbconvert_exporter = "script",
      },
      banner = "tlua: Lua 5.4 with tensors. help() tells how to begin.",
      help_links = json.as_array {}, debugger = false,
   }
end

-- Output -------------------------------------------------------------------------------------

function Kernel:pack(message)
   return messages.pack(self.config.key, message, self.config.session)
end

-- Publishes a message on the iopub channel. `what` tells channels.lua how to treat the message:
-- "publish" (the default) only publishes it, and "busy" also makes its request the owner of later
-- output.
function Kernel:publish(kind, content, what)
   local message = {type = kind, identities = {kind}, parent = self.parent, content = content}
   local packed = self:pack(message)
   local frames = {what or "publish", json.encode(self.parent)}
   self.output:send(table.move(packed, 1, #packed, 3, frames))
end

function Kernel:reply(request, kind, content)
   self.shell:send(self:pack {type = kind, identities = request.identities,
      parent = request.header, content = content})
end

-- Input --------------------------------------------------------------------------------------

-- Asks the front end for a line of input from the user.
function Kernel:ask(prompt)
   if not self.allow_stdin then
      error("io.read: this front end has no input (allow_stdin is false)", 0)
   end
   io.stdout:flush()
   -- Old answers, which belong to cells that were interrupted, are discarded.
   while self.stdin:take() do end
   self.stdin:send(self:pack {type = "input_request", identities = self.request.identities,
      parent = self.parent, content = {prompt = prompt or "", password = false}})
   while true do
      kernel.poll({self.stdin}, 200)
      local frames = self.stdin:take()
      if frames then
         local message = messages.unpack(self.config.key, frames)
         if message and message.type == "input_reply" then
            local value = message.content.value
            return type(value) == "string" and value or ""
         end
      end
      if self.ending then error("interrupted!", 0) end
   end
end

-- Requests -----------------------------------------------------------------------------------

local handlers = {}

function handlers.kernel_info_request(self, request)
   self:reply(request, "kernel_info_reply", info())
end

local function string_of(content, name)
   local value = content[name]
   if type(value) ~= "string" then
      error(("%s: expected a string, got %s"):format(name, type(value)), 0)
   end
   return value
end

local function position_of(content, code)
   local at = content.cursor_pos
   return math.type(at) == "integer" and at or utf8.len(code) or #code
end

function handlers.execute_request(self, request)
   local content = request.content
   local code = string_of(content, "code")
   local silent = content.silent == true
   local store = content.store_history ~= false and not silent
   self.allow_stdin = content.allow_stdin == true
   if not silent then
      local number = self.session.count + (store and code:find "%S" and 1 or 0)
      self:publish("execute_input", {code = messages.clean(code), execution_count = number})
   end
   self.output:send {"running"}
   repeat until self:take_word(-1) or self.ending
   local ok, failure = pcall(function()
      if self.ending then error("the kernel is being shut down", 0) end
      return self.session:execute(code, silent, store)
   end)
   self.output:send {"resting"}
   if not ok then -- the interrupt did not arrive within the cell's own code
      failure = {ename = "Interrupted", evalue = tostring(failure),
         traceback = json.as_array {tostring(failure)}}
      self:publish("error", failure)
   end
   local reply = {status = "ok", execution_count = self.session.count,
      payload = json.as_array {}, user_expressions = {}}
   if failure then
      for name, value in pairs(failure) do reply[name] = value end
      reply.status = "error"
   elseif type(content.user_expressions) == "table" then
      for name, text in pairs(content.user_expressions) do
         local bundle, problem = self.session:evaluate(tostring(text))
         local entry = problem or {data = bundle, metadata = {}}
         entry.status = problem and "error" or "ok"
         reply.user_expressions[tostring(name)] = entry
      end
   end
   -- The requests that have already arrived were sent before the client knew that the cell failed.
   local waiting = failure and content.stop_on_error ~= false and self:take_waiting() or {}
   self:reply(request, "execute_reply", reply)
   self:abort(waiting)
end

-- Returns the requests that have already arrived on the shell channel.
function Kernel:take_waiting()
   local waiting = {}
   while kernel.poll({self.shell}, 20)[1] do waiting[#waiting + 1] = self.shell:take() end
   return waiting
end

-- Answers the requests that were waiting when a cell failed. Requests to execute a cell get the
-- status "aborted".
function Kernel:abort(waiting)
   for _, frames in ipairs(waiting) do
      local request, why = messages.unpack(self.config.key, frames)
      if not request then
         self:refused(why)
      elseif request.type == "execute_request" then
         self:under(request, function()
            self:reply(request, "execute_reply",
               {status = "aborted", execution_count = self.session.count})
         end)
      else
         self:answer(request)
      end
   end
end

function handlers.complete_request(self, request)
   local code = string_of(request.content, "code")
   local matches, first, last = self.session:complete(code, position_of(request.content, code))
   self:reply(request, "complete_reply", {status = "ok", matches = json.as_array(matches),
      cursor_start = first, cursor_end = last, metadata = {}})
end

function handlers.inspect_request(self, request)
   local code = string_of(request.content, "code")
   local text = self.session:inspect(code, position_of(request.content, code))
   self:reply(request, "inspect_reply", {status = "ok", found = text ~= nil,
      data = text and {["text/plain"] = text} or {}, metadata = {}})
end

function handlers.is_complete_request(self, request)
   local status, indent = self.session:is_complete(string_of(request.content, "code"))
   self:reply(request, "is_complete_reply",
      {status = status, indent = status == "incomplete" and indent or nil})
end

-- Returns whether a text matches a pattern, in which * and ? are wildcards.
local function matches(text, pattern)
   local lua = pattern:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
   return text:find("^" .. lua .. "$") ~= nil
end

function handlers.history_request(self, request)
   local content, list = request.content, json.as_array {}
   local access = content.hist_access_type
   local n = math.type(content.n) == "integer" and content.n or math.huge
   local seen = {}
   for i, entry in ipairs(self.session.history) do
      local takes = access == "tail"
      if access == "range" then
         takes = i >= math.max(1, content.start or 1) and i < (content.stop or math.huge)
      elseif access == "search" then
         takes = matches(entry[2], string_of(content, "pattern"))
            and not (content.unique == true and seen[entry[2]])
      end
      if takes then
         seen[entry[2]] = true
         local input = messages.clean(entry[2])
         list[#list + 1] = json.as_array {1, entry[1], content.output == true
            and json.as_array {input, entry[3] or json.null} or input}
      end
   end
   if access ~= "range" then
      while #list > n do table.remove(list, 1) end
   end
   self:reply(request, "history_reply", {status = "ok", history = list})
end

function handlers.connect_request(self, request)
   local content = {status = "ok"}
   for _, name in ipairs(ports) do content[name] = self.config[name] end
   self:reply(request, "connect_reply", content)
end

function handlers.comm_info_request(self, request)
   self:reply(request, "comm_info_reply", {status = "ok", comms = {}})
end

-- The kernel supports no comm targets, so it closes each comm at once.
function handlers.comm_open(self, request)
   local id = request.content.comm_id
   if type(id) == "string" then self:publish("comm_close", {comm_id = id, data = {}}) end
end

function handlers.comm_msg() end
function handlers.comm_close() end

function handlers.shutdown_request(self, request)
   local content = {status = "ok", restart = request.content.restart == true}
   self:reply(request, "shutdown_reply", content)
   self:publish("shutdown_reply", content)
   self.ending = true
end

-- The loop -----------------------------------------------------------------------------------

function Kernel:note(text)
   kernel.put(self.config.log, "tlua notebook: " .. text .. "\n")
end

function Kernel:refused(why)
   self:note("refused a message on the shell channel: " .. why)
end

-- Calls fn to handle a request. Publishes the state "busy" before the call and the state "idle"
-- after it.
function Kernel:under(request, fn)
   self.parent, self.request = request.header, request
   self:publish("status", {execution_state = "busy"}, "busy")
   local ok, why = pcall(fn)
   self.parent, self.request = request.header, request
   self:publish("status", {execution_state = "idle"})
   return ok, why
end

function Kernel:answer(request)
   local handler = handlers[request.type]
   if not handler then
      self:refused("its type is unknown: " .. messages.clean(request.type))
      return
   end
   local ok, why = self:under(request, function() handler(self, request) end)
   if not ok and request.type:find "_request$" then
      self.parent = request.header
      local text = messages.clean(tostring(why))
      self:reply(request, request.type:gsub("request$", "reply"), {status = "error",
         ename = "Error", evalue = text, traceback = json.as_array {text},
         execution_count = self.session.count})
   end
end

-- Receives a message from the second thread. Waits at most `ms` milliseconds for it. Returns
-- whether the message was "go".
function Kernel:take_word(ms)
   kernel.poll({self.work}, ms)
   local word = self.work:take()
   self.ending = word and word[1] == "shutdown" or self.ending
   return word and word[1] == "go"
end

function Kernel:step()
   if not self.waiting then
      kernel.poll({self.shell, self.work}, -1)
      self:take_word(0)
      if self.ending then return end
      self.waiting = self.shell:take()
   end
   local frames = self.waiting
   self.waiting = nil
   if not frames then return end
   local request, why = messages.unpack(self.config.key, frames)
   if request then self:answer(request) else self:refused(why) end
end

function Kernel:loop()
   self.parent = {}
   self:publish("status", {execution_state = "starting"}, "busy")
   while not self.ending do
      local ok, why = pcall(self.step, self)
      -- Between two cells, Ctrl-C has no effect.
      if not ok and not tostring(why):find "interrupted!" then
         self:note(tostring(why))
      end
   end
end

-- Starts the second thread, and waits until its sockets are open.
local function start_thread(self)
   self.work = channels.bind(kinds.PULL, channels.work)
   local pool = torch.workers.start("notebook", 1, "tlua.notebook.thread", self.config)
   pool:send(0, 1)
   while not self.work:take() do
      local worker, _, ok, why = pool:take(0.02)
      if worker and not ok then error(tostring(why):match "^[^\n]*", 0) end
   end
   self.output = channels.socket(kinds.PUSH)
   assert(self.output:connect(channels.output))
   return pool
end

-- Redirects stdout and stderr to pipes. Returns three results: the ends of the pipes from which the
-- output is read, a descriptor of the previous stderr, and a function that ends the redirection.
local function capture()
   local previous, pipes = {}, {}
   local function restore()
      for fd, old in pairs(previous) do kernel.release(fd, old) end
      previous = {}
   end
   for fd = 1, 2 do
      local old, pipe = kernel.capture(fd)
      if not old then
         restore()
         error("notebook: " .. pipe, 0)
      end
      previous[fd], pipes[fd] = old, pipe
   end
   io.stdout:setvbuf "line"
   return pipes, previous[2], restore
end

--- Runs the kernel until it is shut down.
---@param config table  the content of the connection file
function M.run(config)
   local restore
   config.session = messages.new_id()
   config.info = info()
   config.parent = os.getenv "JPY_PARENT_PID" and channels.parent_of() or nil
   config.pipes, config.log, restore = capture()
   local self = setmetatable({config = config}, Kernel)
   local ok, why = pcall(function()
      self.shell = channels.bind(kinds.ROUTER, channels.address(config, "shell"))
      self.shell:set(options.ROUTER_HANDOVER, 1)
      self.stdin = channels.bind(kinds.ROUTER, channels.address(config, "stdin"))
      self.stdin:set(options.ROUTER_HANDOVER, 1)
      local pool = start_thread(self)
      self.session = session.new(function(kind, content) self:publish(kind, content) end)
      notebook._open(function(prompt) return self:ask(prompt) end)
      self:loop()
      self.output:send {"leave"}
      self.ended = pool:take(5) ~= nil
   end)
   for _, name in ipairs {"shell", "stdin", "output", "work"} do
      if self[name] then self[name]:close() end
   end
   restore()
   if not ok then error(why, 0) end
   if self.ended then kernel.finish() end
end

return M
