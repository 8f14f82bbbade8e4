-- client.lua - a simple HTTP client for specs, which lets them choose and see every byte.

local torch = require "tlua"

local Client = {}
Client.__index = Client

--- Connects to a server on this machine.
---@param port integer
---@return table
function Client.new(port)
   return setmetatable({port = port, socket = assert(torch._connect("127.0.0.1", port, 10)), rest = ""}, Client)
end

function Client:close() if self.socket then self.socket:close() end self.socket = nil end
Client.__close = Client.close

function Client:send(text) return self.socket:send(text, 10) end

-- Waits for more bytes from the server. Returns whether any have come.
local function more(self, seconds)
   local part = self.socket:take(seconds or 20)
   if part == nil then return false, "closed" end
   if part == "" then return false, "timeout" end
   self.rest = self.rest .. part
   return true
end

local function take(self, n)
   while #self.rest < n do
      local ok, why = more(self)
      if not ok then error("the answer ends early: " .. why) end
   end
   local part = self.rest:sub(1, n)
   self.rest = self.rest:sub(n + 1)
   return part
end

local function line(self)
   while not self.rest:find "\r\n" do
      local ok, why = more(self)
      if not ok then error("the answer ends early: " .. why) end
   end
   local first, after = self.rest:match "^(.-)\r\n()"
   self.rest = self.rest:sub(after)
   return first
end

--- Reads one answer. Returns its status, its body and its headers, whose names are in lower case.
---@return integer status
---@return string body
---@return table<string, string> headers
function Client:answer(no_body)
   local status = tonumber(line(self):match "^HTTP/1%.1 (%d+)")
   local headers = {}
   while true do
      local text = line(self)
      if text == "" then break end
      local name, value = text:match "^([^:]+):%s*(.*)$"
      headers[name:lower()] = value
   end
   if status == 100 then return self:answer() end
   if no_body then return status, "", headers end
   if headers["transfer-encoding"] == "chunked" then
      local pieces = {}
      while true do
         local n = tonumber(line(self):match "^%x+", 16)
         if n == 0 then break end
         pieces[#pieces + 1] = take(self, n)
         take(self, 2)
      end
      line(self)
      return status, table.concat(pieces), headers
   end
   return status, take(self, tonumber(headers["content-length"] or 0)), headers
end

--- Sends a request without reading the answer.
function Client:start(method, path, body, headers)
   local lines = {("%s %s HTTP/1.1"):format(method, path), "Host: localhost"}
   for name, value in pairs(headers or {}) do lines[#lines + 1] = name .. ": " .. value end
   if body then lines[#lines + 1] = "Content-Length: " .. #body end
   self:send(table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or ""))
end

--- Sends a request and reads the answer.
function Client:ask(method, path, body, headers)
   self:start(method, path, body, headers)
   return self:answer(method == "HEAD")
end

--- Returns whether the server closes the connection within the given number of seconds.
function Client:closes(seconds)
   local last = torch.io.clock() + seconds
   while torch.io.clock() < last do
      local ok, why = more(self, 0.1)
      if not ok and why == "closed" then return true end
   end
   return false
end

--- Sends one request on a new connection and returns the answer.
function Client.once(port, ...)
   local client <close> = Client.new(port)
   return client:ask(...)
end

--- Waits until the server's models are ready.
function Client.wait(port, seconds)
   local last = torch.io.clock() + (seconds or 60)
   repeat
      if Client.once(port, "GET", "/v2/health/ready") == 200 then return true end
      torch._connect("127.0.0.1", port, 1):take(0.05) -- a pause
   until torch.io.clock() > last
   return false
end

return Client
