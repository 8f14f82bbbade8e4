-- channels.lua - the kernel's second thread, which handles the heartbeat, the control channel and
-- all output. It has its own interpreter, so it works while a cell runs, even inside a single long
-- operator.
--
-- The main thread sends it messages whose first frame names their kind:
--
--    publish  PARENT frames...   a message for the iopub channel
--    busy     PARENT frames...   like publish; from now on, captured output belongs to PARENT
--    running                     a cell begins. The answer is "go": the cell waits for it, so that
--                                this thread knows to which request the output belongs
--    resting                     the cell has ended. An interrupt may stop a cell only between
--                                "running" and "resting"
--    leave                       ends this thread
--
-- and receives "ready", "go" and "shutdown".

local torch = require "tlua"
local json = require "tlua.utils.json"
local messages = require "tlua.notebook.messages"

local kernel = torch._kernel
local kinds, options = messages.sockets, messages.options

--- The addresses of the sockets between the two threads.
local M = {output = "inproc://tlua-output", work = "inproc://tlua-work"}

-- After a shutdown request, a running cell may continue for this many seconds. Then the process is
-- killed.
local grace <const> = 4
local most_text <const> = 1 << 16

---@class notebook.Channels
local Channels = {}
Channels.__index = Channels

--- Creates a socket with the options that all sockets of the kernel share.
---@param kind integer
---@return any socket
function M.socket(kind)
   local socket, why = kernel.socket(kind)
   if not socket then error(("notebook: %s"):format(why), 0) end
   socket:set(options.LINGER, 1000)
   return socket
end

--- Returns a socket of the given kind that listens at an address. Throws an error if that fails.
---@param kind string
---@param address string
function M.bind(kind, address)
   local socket = M.socket(kind)
   local ok, why = socket:bind(address)
   if not ok then error(("notebook: %s: %s"):format(address, why), 0) end
   return socket
end

--- Returns the address of a channel, such as "shell".
---@param config table  the connection file
---@param channel string
---@return string
function M.address(config, channel)
   local separator = config.transport == "ipc" and "-" or ":"
   return ("%s://%s%s%d"):format(config.transport, config.ip, separator,
      config[channel .. "_port"])
end

local function open(config)
   local self = setmetatable({config = config, parent = {}, running = false, tails = {"", ""}},
      Channels)
   self.output = M.bind(kinds.PULL, M.output)
   self.control = M.bind(kinds.ROUTER, M.address(config, "control"))
   self.control:set(options.ROUTER_HANDOVER, 1)
   self.heartbeat = M.bind(kinds.ROUTER, M.address(config, "hb"))
   self.iopub = M.bind(kinds.PUB, M.address(config, "iopub"))
   self.iopub:set(options.SNDHWM, 0)
   self.work = M.socket(kinds.PUSH)
   assert(self.work:connect(M.work))
   return self
end

function Channels:note(...)
   kernel.put(self.config.log, "tlua notebook: " .. table.concat {...} .. "\n")
end

function Channels:pack(message)
   return messages.pack(self.config.key, message, self.config.session)
end

-- Streams ------------------------------------------------------------------------------------

-- Publishes captured text of stdout or stderr. If it ends with an incomplete UTF-8 character, this
-- character waits for the next call.
function Channels:publish_text(which, text)
   text = self.tails[which] .. text
   local cut = #text
   local lead = text:match "()[\xC2-\xF4][\x80-\xBF]*$"
   if lead and not utf8.len(text, lead) and #text - lead < 3 then cut = lead - 1 end
   self.tails[which] = text:sub(cut + 1)
   if cut == 0 then return end
   self.iopub:send(self:pack {type = "stream", identities = {"stream"}, parent = self.parent,
      content = {name = which == 1 and "stdout" or "stderr", text = messages.clean(
         text:sub(1, cut))}})
end

-- Publishes all captured output that is still in the pipes.
function Channels:drain()
   for which = 1, 2 do
      local parts, size = {}, 0
      repeat
         local part = kernel.read(self.config.pipes[which])
         parts[#parts + 1] = part
         size = size + #part
      until part == "" or size > most_text * 16
      if size > 0 then self:publish_text(which, table.concat(parts)) end
   end
end

-- Messages of the main thread ----------------------------------------------------------------

function Channels:take_output(frames)
   local what = frames[1]
   if what == "running" or what == "resting" then
      self.running = what == "running"
      if self.running then self.work:send {"go"} end
      return
   end
   self:drain()
   if what == "leave" then
      self.left = true
      return
   end
   if what == "busy" then
      self.parent = json.decode(frames[2]) or {}
      self.tails = {"", ""}
   end
   self.iopub:send(table.move(frames, 3, #frames, 1, {}))
end

-- Control ------------------------------------------------------------------------------------

function Channels:status(state, parent)
   self.iopub:send(self:pack {type = "status", identities = {"status"}, parent = parent,
      content = {execution_state = state}})
end

function Channels:shutdown(message)
   local restart = message.content.restart == true
   local content = {status = "ok", restart = restart}
   local reply = {type = "shutdown_reply", identities = message.identities,
      parent = message.header, content = content}
   self.control:send(self:pack(reply))
   reply.identities = {"shutdown"}
   self.iopub:send(self:pack(reply))
   self.ends = torch.io.clock() + grace
   if self.running then kernel.interrupt() end
   self.work:send {"shutdown"}
end

function Channels:take_control(frames)
   local message, why = messages.unpack(self.config.key, frames)
   if not message then
      self:note("refused a message on the control channel: ", why)
      return
   end
   if message.type == "interrupt_request" then
      self:status("busy", message.header)
      if self.running then kernel.interrupt() end
      self.control:send(self:pack {type = "interrupt_reply", identities = message.identities,
         parent = message.header, content = {status = "ok"}})
      self:status("idle", message.header)
   elseif message.type == "shutdown_request" then
      self:status("busy", message.header)
      self:shutdown(message)
      self:status("idle", message.header)
   elseif message.type == "kernel_info_request" then
      self:status("busy", message.header)
      self.control:send(self:pack {type = "kernel_info_reply", identities = message.identities,
         parent = message.header, content = self.config.info})
      self:status("idle", message.header)
   else
      self:note("no answer on the control channel to ", message.type)
   end
end

-- The loop -----------------------------------------------------------------------------------

-- Returns the process id of the parent as a string, or nil without /proc. The id changes when the
-- parent process ends, because Linux then gives this process another parent.
local function parent_of()
   local file <close> = io.open "/proc/self/stat"
   return file and file:read("a"):match "^.*%) %S+ (%d+)"
end

function Channels:watch()
   local now = torch.io.clock()
   if now < (self.next_look or 0) then return end
   self.next_look = now + 1
   if self.config.parent and parent_of() ~= self.config.parent then
      self:note "the process that has started the kernel has ended"
      self.config.parent = nil
      self.ends = now + grace
      if self.running then kernel.interrupt() end
      self.work:send {"shutdown"}
   end
   if self.ends and now > self.ends then
      self:drain()
      os.execute "kill -9 $PPID"
   end
end

function Channels:step()
   local pipes = self.config.pipes
   local ready = kernel.poll({self.output, self.control, self.heartbeat, pipes[1], pipes[2]}, 1000)
   local frames = self.output:take()
   while frames and not self.left do
      self:take_output(frames)
      frames = not self.left and self.output:take() or nil
   end
   if ready[4] or ready[5] then self:drain() end
   if ready[3] then
      local beat = self.heartbeat:take()
      if beat then self.heartbeat:send(beat) end
   end
   if ready[2] then
      local request = self.control:take()
      if request then self:take_control(request) end
   end
   self:watch()
end

function Channels:loop()
   while not self.left do
      local ok, why = pcall(self.step, self)
      if not ok then self:note(tostring(why)) end
   end
   for _, name in ipairs {"output", "control", "heartbeat", "iopub", "work"} do
      self[name]:close()
   end
end

--- Begins the second thread. torch.workers calls this function once, and then calls the function
--- that it returns.
---@param config table  the connection file, with session, pipes, log, parent and info
---@return fun()
function M.begin(config)
   local ok, channels = pcall(open, config)
   return function()
      if not ok then error(channels, 0) end
      channels.work:send {"ready"}
      channels:loop()
   end
end

M.parent_of = parent_of

return M
