-- messages.lua - encodes and decodes Jupyter's messages. A message consists of libzmq frames: the
-- identities, a delimiter, the signature, and four JSON objects (header, parent header, metadata,
-- content).

local torch = require "tlua"
local json = require "tlua.utils.json"

-- The functions are copied here, because cells may change the table torch.
local hmac, clock = torch._kernel.hmac, torch.io.clock

local M = {}

local delimiter <const> = "<IDS|MSG>"

--- The version of Jupyter's messaging protocol.
M.version = "5.3"

--- The numbers that zmq.h gives to kinds of sockets.
M.sockets = {PUB = 1, SUB = 2, REQ = 3, REP = 4, DEALER = 5, ROUTER = 6, PULL = 7, PUSH = 8}
--- The numbers that zmq.h gives to options of sockets.
M.options = {IDENTITY = 5, SUBSCRIBE = 6, LINGER = 17, SNDHWM = 23, RCVHWM = 24, LAST_ENDPOINT = 32,
   ROUTER_HANDOVER = 56}

--- Returns a text in which invalid UTF-8 bytes are replaced by U+FFFD.
---@param text string
---@return string
function M.clean(text)
   local _, bad = utf8.len(text)
   if not bad then return text end
   local parts, at = {}, 1
   while bad do
      parts[#parts + 1] = text:sub(at, bad - 1) .. "\u{FFFD}"
      at = bad + 1
      _, bad = utf8.len(text, at)
   end
   parts[#parts + 1] = text:sub(at)
   return table.concat(parts)
end

local count = 0
local random -- the random digits of this session; the ids of its messages begin with them

--- Returns a new identifier. Its random digits come from the operating system, so that math.random
--- is not disturbed for the user's code.
---@return string
function M.new_id()
   if not random then
      local file <close> = io.open("/dev/urandom", "rb")
      local bytes = file and file:read(16) or string.format("%016x", clock() * 1e9 // 1 | 0)
      random = string.gsub(bytes, ".", function(c) return string.format("%02x", string.byte(c)) end)
   end
   count = count + 1
   return string.format("%s-%d", random, count)
end

--- Encodes a message as frames.
---@param key string  the key that signs messages; "" leaves them unsigned
---@param message table  with the fields type and content, and optionally identities, parent and
--- metadata
---@param session string
---@return string[] frames
function M.pack(key, message, session)
   local header = {
      msg_id = M.new_id(), session = session, username = "kernel", version = M.version,
      date = os.date "!%Y-%m-%dT%H:%M:%S.000000Z", msg_type = message.type,
   }
   local parts = {}
   for i, part in ipairs {header, message.parent or {}, message.metadata or {}, message.content} do
      parts[i] = json.encode(part)
   end
   local frames = {}
   for _, identity in ipairs(message.identities or {}) do frames[#frames + 1] = identity end
   frames[#frames + 1] = delimiter
   frames[#frames + 1] = key == "" and "" or hmac(key, table.concat(parts))
   return table.move(parts, 1, 4, #frames + 1, frames)
end

-- Compares two strings. The time does not depend on where they differ, so an attacker cannot guess
-- a signature byte by byte.
local function same(a, b)
   if #a ~= #b then return false end
   local difference = 0
   for i = 1, #a do difference = difference | (a:byte(i) ~ b:byte(i)) end
   return difference == 0
end

--- Decodes the frames of a message. Returns nil and the reason if the frames are malformed, or if
--- they are not signed with the key.
---@param key string
---@param frames string[]
---@return {type: string, identities: string[], header: table, parent: table, metadata: table,
--- content: table}? message
---@return string? why
function M.unpack(key, frames)
   local at
   for i = 1, #frames do
      if frames[i] == delimiter then
         at = i
         break
      end
   end
   if not at then return nil, "it has no delimiter" end
   if #frames < at + 5 then return nil, "it has too few frames" end
   if key ~= "" and not same(hmac(key, table.concat(frames, "", at + 2, at + 5)),
         frames[at + 1]:lower()) then
      return nil, "its signature is wrong"
   end
   local parts = {}
   for i = 1, 4 do
      local part, why = json.decode(frames[at + 1 + i])
      if why then return nil, "its JSON is damaged, " .. why end
      if type(part) ~= "table" or json.is_array(part) or part == json.null then
         return nil, "a part is not a JSON object"
      end
      parts[i] = part
   end
   local header = parts[1]
   if type(header.msg_type) ~= "string" then return nil, "its header has no msg_type" end
   return {
      type = header.msg_type, identities = table.move(frames, 1, at - 1, 1, {}), header = header,
      parent = parts[2], metadata = parts[3], content = parts[4],
   }
end

return M
