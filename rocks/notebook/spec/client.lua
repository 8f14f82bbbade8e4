-- client.lua - a client that plays the role of a front end. It starts a kernel and exchanges messages with it.

local torch = require "tlua"
local json = require "tlua.utils.json"
local messages = require "tlua.notebook.messages"
local shell = require "spec.support.shell"

local kernel = torch._kernel
local kinds, options = messages.sockets, messages.options

local M = {}

local Client = {}
Client.__index = Client

--- Returns whether libzmq is installed. If it is not, also returns the reason.
function M.available()
   local socket, why = kernel.socket(kinds.PUB)
   if not socket then return false, why end
   socket:close()
   return true
end

-- Returns n ports that are not in use at the moment.
local function free_ports(n)
   local listeners, ports = {}, {}
   for i = 1, n do
      listeners[i] = assert(torch._listen "127.0.0.1")
      ports[i] = listeners[i]:port()
   end
   for _, listener in ipairs(listeners) do listener:close() end
   return ports
end

local channels <const> = {shell = kinds.DEALER, control = kinds.DEALER, stdin = kinds.DEALER, iopub = kinds.SUB,
   hb = kinds.REQ}

--- Starts a kernel. `given` may have the fields transport, key and parent. With `parent`, a separate process is the
--- kernel's parent, and the client's field `parent_pid` has its process id.
function M.start(given)
   given = given or {}
   local folder = shell.ok("mktemp -d"):match "[^\n]+"
   local self = setmetatable({folder = folder, key = given.key or "secret", session = messages.new_id()}, Client)
   local config = {key = self.key, signature_scheme = "hmac-sha256", transport = given.transport or "ipc"}
   config.ip = config.transport == "ipc" and folder .. "/kernel" or "127.0.0.1"
   local ports = config.transport == "ipc" and {1, 2, 3, 4, 5} or free_ports(5)
   local i = 0
   for _, name in ipairs {"shell", "control", "stdin", "iopub", "hb"} do
      i = i + 1
      config[name .. "_port"] = ports[i]
   end
   shell.write(folder .. "/connection.json", json.encode(config))
   local start = ("%s notebook kernel %s/connection.json >%s/out 2>&1 & echo $! >%s/pid"):format(shell.start(), folder,
      folder, folder)
   if given.parent then
      local command = ("(JPY_PARENT_PID=1 %s; exec sleep 200) >/dev/null 2>&1 & echo $!"):format(start)
      self.parent_pid = shell.ok(command):match "%d+"
      shell.ok(("while ! test -s %s/pid; do sleep 0.05; done"):format(folder))
   else
      shell.ok(start)
   end
   self.pid = shell.read(folder .. "/pid"):match "%d+"
   for name, kind in pairs(channels) do
      self[name] = assert(kernel.socket(kind))
      self[name]:set(options.LINGER, 0)
      if name == "iopub" then self.iopub:set(options.SUBSCRIBE, "") end
      if name == "shell" or name == "stdin" then self[name]:set(options.IDENTITY, "client") end
      local separator = config.transport == "ipc" and "-" or ":"
      assert(self[name]:connect(("%s://%s%s%d"):format(config.transport, config.ip, separator,
         config[name .. "_port"])))
   end
   -- The first messages of the iopub channel are lost until the channel is connected, so the request is repeated.
   for _ = 1, 100 do
      self:send("shell", "kernel_info_request", {})
      local reply = self:receive("shell", 60)
      assert(reply, "the kernel does not answer")
      self.info = reply.content
      if self:receive("iopub", 0.2) then break end
   end
   repeat until not self:receive("iopub", 0.1)
   return self
end

--- Sends a request and returns its id.
function Client:send(channel, kind, content, key)
   local frames = messages.pack(key or self.key, {type = kind, content = content, parent = self.parent}, self.session)
   self[channel]:send(frames)
   return json.decode(frames[3]).msg_id
end

--- Returns the next message of a channel, or nil after some seconds.
function Client:receive(channel, seconds)
   local ready = kernel.poll({self[channel]}, math.floor(1000 * (seconds or 30)))
   local frames = ready[1] and self[channel]:take()
   return frames and assert(messages.unpack(self.key, frames))
end

--- Returns the messages that the iopub channel publishes for a request, up to the state "idle".
function Client:outputs(id, seconds)
   local list = {}
   local ends = torch.io.clock() + (seconds or 60)
   while torch.io.clock() < ends do
      local message = self:receive("iopub", 1)
      if message and message.parent.msg_id == id then
         if message.type == "status" and message.content.execution_state == "idle" then return list end
         if message.type ~= "status" then list[#list + 1] = message end
      end
   end
   error "no end of the outputs"
end

--- Sends a request on the shell channel. Returns the content of the reply and the outputs.
function Client:request(kind, content)
   local id = self:send("shell", kind, content)
   local reply = self:receive("shell", 60)
   assert(reply and reply.parent.msg_id == id, "no reply")
   return reply.content, self:outputs(id)
end

--- Runs a cell. Returns its outputs as a table with stdout, stderr, result and displays (which are MIME bundles) and
--- error. Also returns the reply.
function Client:run(code, more)
   local content = {code = code, silent = false, store_history = true, allow_stdin = false, stop_on_error = true}
   for name, value in pairs(more or {}) do content[name] = value end
   return self.sort(self:request("execute_request", content))
end

function Client.sort(reply, outputs)
   local sorted = {stdout = "", stderr = "", displays = {}, updates = {}}
   for _, message in ipairs(outputs) do
      local c = message.content
      if message.type == "stream" then sorted[c.name] = sorted[c.name] .. c.text end
      if message.type == "execute_result" then sorted.result = c.data end
      if message.type == "display_data" then table.insert(sorted.displays, c) end
      if message.type == "update_display_data" then table.insert(sorted.updates, c) end
      if message.type == "error" then sorted.error = c end
   end
   return sorted, reply
end

--- Returns whether the kernel is running.
function Client:alive()
   local state = shell.run("ps -o stat= -p " .. self.pid)
   return state:find "%S" ~= nil and not state:find "^%s*Z"
end

--- Waits for the end of the kernel's process. Returns false if it has not ended after the given number of seconds.
function Client:ended(seconds)
   local ends = torch.io.clock() + seconds
   while self:alive() do
      if torch.io.clock() > ends then return false end
      os.execute "sleep 0.05"
   end
   return true
end

--- Stops the kernel and closes the client's sockets. Returns the text that the kernel has printed.
function Client:stop()
   if self:alive() then
      self:send("control", "shutdown_request", {restart = false})
      if not self:ended(20) then shell.run("kill -9 " .. self.pid) end
   end
   for name in pairs(channels) do self[name]:close() end
   local output = shell.read(self.folder .. "/out")
   shell.ok("rm -rf " .. shell.quote(self.folder))
   return output
end

return M
