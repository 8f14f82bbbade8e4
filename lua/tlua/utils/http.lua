-- http.lua - sends HTTP/1.1 requests, with a new connection for each request. Connections to https
-- URLs and to the proxy that http_proxy names go through libcurl, other connections through tlua's
-- own sockets.

local torch = require "tlua"

local M = {}

local SECONDS <const> = 30 -- timeout in seconds for connecting, and for each part of a response
local MOST <const> = 1 << 24 -- largest number of bytes in a response that is kept in memory
local LONGEST <const> = 1 << 16 -- largest number of bytes in a line of a response
local MOST_HEADERS <const> = 1 << 20 -- largest number of bytes before a response's body
local MOST_REDIRECTS <const> = 10

--- Escapes a text for use in a URL's path or query. With `path`, slashes are not escaped.
---@param text string
---@param path? boolean
---@return string
function M.escape(text, path)
   return (text:gsub(path and "[^%w%-_.~/]" or "[^%w%-_.~]", function(c)
      return ("%%%02X"):format(c:byte())
   end))
end

--- Splits a URL into its parts.
---@param url string
---@return {scheme: string, host: string, port: integer, path: string, server: string}?  `server`:
--- the URL up to its path; nil on failure
---@return string? message
function M.parse(url)
   local scheme, rest = url:match "^(%a+)://(.*)$"
   scheme = scheme and scheme:lower()
   if scheme ~= "http" and scheme ~= "https" then return nil, "expected http:// or https://" end
   if rest:find "[%c ]" then return nil, "expected a URL without spaces" end
   local place, path = rest:match "^([^/?#]*)([^#]*)"
   if place:find "@" then return nil, "expected a URL without a user's name" end
   local host, port = place:match "^(%[[%x:.]+%]):?(%d*)$"
   if not host then host, port = place:match "^([^%[%]:\\]+):?(%d*)$" end
   local number = port == "" and (scheme == "http" and 80 or 443)
      or math.tointeger(tonumber(port))
   if not host or not number or number < 1 or number > 65535 then
      return nil, "expected a host, and a port from 1 to 65535"
   end
   if path:sub(1, 1) ~= "/" then path = "/" .. path end
   return {scheme = scheme, host = host, port = number, path = path,
      server = ("%s://%s:%d"):format(scheme, host, number)}
end

local function too_long(most)
   error(("the answer is too long: more than the allowed %d bytes"):format(most), 0)
end

-- Returns a reader of a socket, with methods that read a line, a number of bytes, or as much as is
-- available. They raise an error at the timeout, and after `most` bytes.
local function reader(socket, seconds, most)
   -- the bytes of `waiting` before position `at` were consumed
   local waiting, at, ended, left = "", 1, false, most
   local limit, taken = most, 0
   local function more()
      if ended then error(("the answer ends early, after %d bytes"):format(taken), 0) end
      local part, message = socket:take(seconds)
      if part == "" then error(("no answer in time, which is %g seconds"):format(seconds), 0) end
      if not part and message then error(message, 0) end
      ended = part == nil
      taken, left = taken + #(part or ""), left - #(part or "")
      if left < 0 then too_long(limit) end
      return part or ""
   end
   local self = {}
   function self.limit(bytes) limit, left = bytes, bytes end
   function self.line()
      while true do
         local stop = waiting:find("\n", at, true)
         if stop then
            local line = waiting:sub(at, stop - 1)
            at = stop + 1
            return (line:gsub("\r$", ""))
         end
         if #waiting - at + 1 > LONGEST then
            error(("a damaged answer: a line has more than %d bytes"):format(LONGEST), 0)
         end
         waiting, at = waiting:sub(at) .. more(), 1
      end
   end
   -- Returns at most n of the next bytes, but at least one.
   function self.some(n)
      if at > #waiting then waiting, at = more(), 1 end
      local part = waiting:sub(at, at + n - 1)
      at = at + #part
      return part
   end
   -- Returns the bytes that have arrived, or waits for some. Returns nil at the end of the
   -- connection.
   function self.rest()
      if at > #waiting then
         if ended then return nil end
         waiting, at = more(), 1
      end
      local part = waiting:sub(at)
      at = #waiting + 1
      return part
   end
   return self
end

-- Parses a content length, whose digits are in the given base. Returns nil if it is invalid.
local function length_of(text, base)
   local n = text and #text <= 15 and not text:find "[^%x]" and math.tointeger(tonumber(text, base))
   return n and n >= 0 and n or nil
end

-- Each of these functions returns an iterator over the parts of a response's body. There is one
-- function for each way in which a response tells where its body ends.

local function parts_of_length(from, length)
   return function()
      if length == 0 then return nil end
      local part = from.some(length)
      length = length - #part
      return part
   end
end

local function parts_of_chunks(from, most)
   local left, first, ended = 0, true, false
   return function()
      if ended then return nil end
      if left == 0 then
         if not first then from.line() end
         first = false
         local line = from.line()
         left = length_of(line:match "^%x+", 16)
         if not left then
            error(("a damaged answer: expected the length of a chunk, got %q"):format(
               line:sub(1, 40)), 0)
         end
         if left > most then too_long(most) end
         if left == 0 then
            ended = true
            return nil
         end
      end
      local part = from.some(left)
      left = left - #part
      return part
   end
end

local function read_headers(from)
   local first = from.line()
   local status = tonumber(first:match "^HTTP/1%.%d (%d%d%d)")
   if not status then
      error(("the answer is not HTTP: it begins with %q"):format(first:sub(1, 40)), 0)
   end
   local headers = {}
   for line in from.line do
      if line == "" then break end
      local name, value = line:match "^([^:]+):%s*(.-)%s*$"
      if name then headers[name:lower()] = value end
   end
   return status, headers
end

-- Reads the status and the headers of a response, and returns the response. Each call of its
-- function `parts` returns the next part of the body.
local function read_answer(socket, method, seconds, most)
   local from = reader(socket, seconds, math.min(most, MOST_HEADERS))
   local status, headers
   repeat status, headers = read_headers(from) until status >= 200
   from.limit(most)
   local answer = {status = status, headers = headers}
   local length = headers["content-length"]
   if method == "HEAD" or status == 204 or status == 304 then
      answer.parts = function() return nil end
   elseif (headers["transfer-encoding"] or ""):lower():find "chunked" then
      answer.parts = parts_of_chunks(from, most)
   elseif length then
      length = length_of(length, 10)
         or error(("a damaged answer: Content-Length: expected a number of bytes, got %q"):format(
            length:sub(1, 40)), 0)
      if length > most then too_long(most) end
      answer.length, answer.parts = length, parts_of_length(from, length)
   else
      answer.parts = from.rest
   end
   return answer
end

-- Returns whether a host name means this machine. Requests to this machine do not go through a
-- proxy.
local function is_near(host)
   return host == "localhost" or host:find "^127%." or host == "[::1]"
end

local function connect(place, seconds)
   local proxy = place.scheme == "http" and not is_near(place.host) and os.getenv "http_proxy"
   if place.scheme == "https" or proxy and proxy ~= "" then
      local authorities = os.getenv "SSL_CERT_FILE"
      return torch._connect_tls(place.server, seconds, authorities ~= "" and authorities or nil)
   end
   return torch._connect(place.host:match "^%[(.*)%]$" or place.host, place.port,
      math.min(seconds, 5))
end

-- Sends one request and returns the response, without following redirects.
local function send(place, method, options)
   local seconds = options.timeout or SECONDS
   local function fail(message)
      error(("%s: %s"):format(place.server, tostring(message)), 0)
   end
   local socket, message = connect(place, seconds)
   if not socket then fail(message) end
   local lines = {("%s %s HTTP/1.1"):format(method, place.path),
      ("Host: %s:%d"):format(place.host, place.port), "Connection: close", "Accept: */*",
      "User-Agent: tlua"}
   for name, value in pairs(options.headers or {}) do
      lines[#lines + 1] = ("%s: %s"):format(name, (value:gsub("%c", " ")))
   end
   if options.body then lines[#lines + 1] = "Content-Length: " .. #options.body end
   local ok
   ok, message = socket:send(table.concat(lines, "\r\n") .. "\r\n\r\n" .. (options.body or ""),
      seconds)
   if not ok then
      socket:close()
      fail(message)
   end
   local answer
   ok, answer = pcall(read_answer, socket, method, seconds, options.most or MOST)
   if not ok then
      socket:close()
      fail(answer)
   end
   local parts = answer.parts
   function answer.parts()
      local fine, part = pcall(parts)
      if not fine then fail(part) end
      return part
   end
   return setmetatable(answer, {__close = function() socket:close() end})
end

-- Returns the URL to which a redirect leads. `location` may be relative to the URL of the request,
-- `place`.
local function target(place, location)
   if location:find "^%a+://" then return location end
   if location:find "^//" then return place.scheme .. ":" .. location end
   if location:find "^/" then return place.server .. location end
   return place.server .. place.path:gsub("%?.*", ""):gsub("[^/]*$", "") .. location
end

local redirects <const> = {[301] = true, [302] = true, [303] = true, [307] = true, [308] = true}

--- Makes a request, and reads the response's headers. The caller reads the body by calls of
--- `parts`, which returns the next part or, at the end, nil, and then closes the response. Raises
--- an error if there is no response. Redirects of GET and HEAD are followed; one from https to http
--- raises an error. A header named Authorization is sent to the first server only.
---@param method string
---@param url string
---@param options? {body: string, headers: table<string, string>, timeout: number, most: integer,
--- near: boolean}  timeout: seconds without a byte, 30 by default; most: the largest number of
--- bytes, 2^24 by default; near: whether a redirect to another server is returned instead of
--- followed
---@return {status: integer, headers: table<string, string>, parts: (fun(): string?), url: string,
---length: integer?}
function M.open(method, url, options)
   options = options or {}
   local sent = {}
   for name, value in pairs(options.headers or {}) do sent[name] = value end
   local first
   for _ = 0, MOST_REDIRECTS do
      local place, message = M.parse(url)
      if not place then error(("%s: %s"):format(url, message), 0) end
      first = first or place
      if place.server ~= first.server then
         for name in pairs(options.headers or {}) do
            if name:lower() == "authorization" then sent[name] = nil end
         end
      end
      local answer = send(place, method, {body = options.body, headers = sent,
         timeout = options.timeout, most = options.most})
      local location = answer.headers.location
      if not (redirects[answer.status] and location and (method == "GET" or method == "HEAD")) then
         answer.url = url
         return answer
      end
      local next_url = target(place, location)
      local next_place = M.parse(next_url) or {}
      if options.near and next_place.server ~= place.server then
         answer.url = url
         return answer
      end
      getmetatable(answer).__close()
      url = next_url
      if place.scheme == "https" and not url:find "^[hH][tT][tT][pP][sS]://" then
         error(("%s: redirects to %s, which is not encrypted"):format(place.server, url), 0)
      end
   end
   error(("%s: more than %d redirects"):format(first.server, MOST_REDIRECTS), 0)
end

--- Makes a request. Raises an error if there is no response.
---@param method string
---@param url string
---@param options? {body: string, headers: table<string, string>, timeout: number}
---@return {status: integer, headers: table<string, string>, body: string}
function M.request(method, url, options)
   local answer <close> = M.open(method, url, options)
   local parts = {}
   for part in answer.parts do parts[#parts + 1] = part end
   return {status = answer.status, headers = answer.headers, body = table.concat(parts)}
end

return M
