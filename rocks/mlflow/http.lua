-- http.lua - sends HTTP/1.1 requests, with a new connection for each request.

local torch = require "tlua"

local M = {}

local SECONDS <const> = 30 -- timeout in seconds for connecting, and for each part of a response
local MOST <const> = 1 << 24 -- largest number of bytes in a response
local LONGEST <const> = 1 << 16 -- largest number of bytes in a line of a response

--- Escapes a text for use in a URL's path or query. With `path`, slashes are not escaped.
---@param text string
---@param path? boolean
---@return string
function M.escape(text, path)
   return (text:gsub(path and "[^%w%-_.~/]" or "[^%w%-_.~]", function(c)
      return ("%%%02X"):format(c:byte())
   end))
end

-- Returns a reader of a socket. It reads a line, a number of bytes, or all bytes, up to a limit.
local function reader(socket)
   local waiting, at, ended, left = "", 1, false, MOST -- bytes before `at` are consumed
   local function more()
      if ended then error("the answer ends early", 0) end
      local part = socket:take(SECONDS)
      if part == "" then error("no answer in time", 0) end
      ended = part == nil
      left = left - #(part or "")
      if left < 0 then error("the answer is too long", 0) end
      return part or ""
   end
   local self = {}
   function self.line()
      while true do
         local stop = waiting:find("\n", at, true)
         if stop then
            local line = waiting:sub(at, stop - 1)
            at = stop + 1
            return (line:gsub("\r$", ""))
         end
         if #waiting - at + 1 > LONGEST then error("a damaged answer", 0) end
         waiting, at = waiting:sub(at) .. more(), 1
      end
   end
   function self.bytes(n)
      if #waiting - at + 1 < n then
         local parts, have = {waiting:sub(at)}, #waiting - at + 1
         while have < n do
            parts[#parts + 1] = more()
            have = have + #parts[#parts]
         end
         waiting, at = table.concat(parts), 1
      end
      at = at + n
      return waiting:sub(at - n, at - 1)
   end
   function self.all()
      local parts = {waiting:sub(at)}
      while not ended do parts[#parts + 1] = more() end
      return table.concat(parts)
   end
   return self
end

-- Parses a content length; returns nil if it is invalid.
local function length_of(text, base)
   local n = text and #text <= 12 and math.tointeger(tonumber(text, base))
   return n and n >= 0 and n or nil
end

local function chunks(from)
   local parts = {}
   while true do
      local n = length_of(from.line():match "^%x+", 16)
      if not n then error("a damaged answer", 0) end
      if n > MOST then error("the answer is too long", 0) end
      if n == 0 then return table.concat(parts) end
      parts[#parts + 1] = from.bytes(n)
      from.line()
   end
end

local function read_answer(socket)
   local from = reader(socket)
   local status = tonumber(from.line():match "^HTTP/1%.%d (%d%d%d)")
   if not status then error("the answer is not HTTP", 0) end
   local headers = {}
   for line in from.line do
      if line == "" then break end
      local name, value = line:match "^([^:]+):%s*(.-)%s*$"
      if name then headers[name:lower()] = value end
   end
   local length = headers["content-length"]
   local body
   if (headers["transfer-encoding"] or ""):lower():find "chunked" then
      body = chunks(from)
   elseif length then
      length = length_of(length, 10) or error("a damaged answer", 0)
      if length > MOST then error("the answer is too long", 0) end
      body = from.bytes(length)
   else
      body = from.all()
   end
   return {status = status, headers = headers, body = body}
end

--- Makes one request. Raises an error if there is no response.
---@param host string
---@param port integer
---@param method string
---@param path string
---@param body? string
---@param kind? string  the body's Content-Type
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
