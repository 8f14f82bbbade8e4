-- http.lua - requests by HTTP/1.1, one a connection.

local torch = require "tlua"

local M = {}

local SECONDS <const> = 30 -- for a connection, and for each part of an answer
local MOST <const> = 1 << 28

--- A text as a part of a path or query; with `path` slashes stay.
---@param text string
---@param path? boolean
---@return string
function M.escape(text, path)
   return (text:gsub(path and "[^%w%-_.~/]" or "[^%w%-_.~]", function(c)
      return ("%%%02X"):format(c:byte())
   end))
end

-- Reads from a socket: lines, so many bytes, or all.
local function reader(socket)
   local waiting, ended = "", false
   local function more()
      if ended then error("the answer ends early", 0) end
      local part = socket:take(SECONDS)
      if part == "" then error("no answer in time", 0) end
      ended = part == nil
      if #waiting > MOST then error("the answer is too long", 0) end
      waiting = waiting .. (part or "")
      return part ~= nil
   end
   local self = {}
   function self.line()
      while true do
         local line, rest = waiting:match "^(.-)\r?\n(.*)$"
         if line then
            waiting = rest
            return line
         end
         more()
      end
   end
   function self.bytes(n)
      while #waiting < n do more() end
      local bytes = waiting:sub(1, n)
      waiting = waiting:sub(n + 1)
      return bytes
   end
   function self.all()
      while not ended do more() end
      return waiting
   end
   return self
end

local function chunks(from)
   local parts = {}
   while true do
      local n = tonumber(from.line():match "^%x+" or "", 16)
      if not n or n > MOST then error("a damaged answer", 0) end
      if n == 0 then return table.concat(parts) end
      parts[#parts + 1] = from.bytes(n)
      from.line()
   end
end

local function read_answer(socket)
   local from = reader(socket)
   local status = tonumber(from.line():match "^HTTP/1%.%d (%d%d%d)")
   if not status then error("what answers does not speak HTTP", 0) end
   local headers = {}
   for line in from.line do
      if line == "" then break end
      local name, value = line:match "^([^:]+):%s*(.-)%s*$"
      if name then headers[name:lower()] = value end
   end
   local length = tonumber(headers["content-length"])
   local body
   if (headers["transfer-encoding"] or ""):lower():find "chunked" then
      body = chunks(from)
   elseif length then
      if length > MOST then error("the answer is too long", 0) end
      body = from.bytes(length)
   else
      body = from.all()
   end
   return {status = status, headers = headers, body = body}
end

--- One request. Raises a message where no answer comes.
---@param host string
---@param port integer
---@param method string
---@param path string
---@param body? string
---@param kind? string  the body's type
---@param authorization? string
---@return {status: integer, headers: table<string, string>, body: string}
function M.request(host, port, method, path, body, kind, authorization)
   local function fail(message)
      error(("http://%s:%d: %s"):format(host, port, tostring(message)), 0)
   end
   local socket <close>, message = torch._connect(host, port, 5)
   if not socket then fail(message) end
   local lines = {("%s %s HTTP/1.1"):format(method, path), ("Host: %s:%d"):format(host, port),
      "Connection: close", "Accept: */*", "User-Agent: tlua"}
   if body then
      lines[#lines + 1] = "Content-Type: " .. kind
      lines[#lines + 1] = "Content-Length: " .. #body
   end
   if authorization then lines[#lines + 1] = "Authorization: " .. authorization end
   local ok
   ok, message = socket:send(table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or ""), SECONDS)
   if not ok then fail(message) end
   local answer
   ok, answer = pcall(read_answer, socket)
   if not ok then fail(answer) end
   return answer
end

return M
