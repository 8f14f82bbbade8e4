-- server.lua - an HTTP server for the specs: tlua server.lua FOLDER LOG. It prints its port, writes each request to
-- LOG, and serves one connection after another for at most ten minutes.
--
-- /NAME is a file of FOLDER. The server sends it with an ETag and supports ranges. A prefix of the path changes the
-- answer: /cut/N/... breaks each connection after N bytes, /drip/N/... sends N bytes every 50 ms, /silent/... never
-- sends the body, /status/N/... answers with status N, /flaky/N/... answers 503 to the first N requests, /hop/N/...
-- redirects N times, /loop/... redirects for ever, /plain/... ignores ranges, /notag/... sends no ETag, /packed/...
-- claims gzip, /liar/... announces too many bytes, /endless/... does not send the length, /swap/... sends another ETag
-- each time, and /wrong/... answers a range with other bytes. /OWNER/NAME/resolve/REVISION/FILE is Hugging Face's
-- layout. A file with "lfs" in its name is redirected to /cdn, with a checksum.

local torch = require "tlua"
local folder, log = arg[1], assert(io.open(arg[2], "a"))
local listener = assert(torch._listen "127.0.0.1")
print(listener:port())
io.stdout:flush()

local COMMIT <const> = ("0123456789"):rep(4)
local counts, swaps = {}, 0

local function read(path)
   local file <close> = io.open(folder .. "/" .. path, "rb")
   return file and file:read "a"
end

local words <const> = {[200] = "OK", [206] = "Partial Content", [302] = "Found"}

local function head(socket, status, headers)
   local lines = {("HTTP/1.1 %d %s"):format(status, words[status] or "Error")}
   for name, value in pairs(headers) do lines[#lines + 1] = name .. ": " .. value end
   return socket:send(table.concat(lines, "\r\n") .. "\r\n\r\n", 5)
end

local function send_body(socket, text, mode)
   if mode.cut then return socket:send(text:sub(1, mode.cut), 5) end
   if mode.drip then
      for first = 1, #text, mode.drip do
         if not socket:send(text:sub(first, first + mode.drip - 1), 5) then return end
         torch.distributed._sleep(0.05)
      end
   elseif not mode.silent then
      socket:send(text, 60)
   else
      torch.distributed._sleep(mode.silent)
   end
end

-- Reads the prefixes of a path. Returns a table of the modes that the prefixes select, and the name of the file.
local function modes(path)
   local mode = {}
   while true do
      local name, n, rest = path:match "^(%l+)/(%d+)/(.*)$"
      if not name or not ({cut = 1, drip = 1, status = 1, flaky = 1, hop = 1, silent = 1})[name] then
         name, rest = path:match "^(%l+)/(.*)$"
         n = 1
         if not ({loop = 1, plain = 1, notag = 1, packed = 1, liar = 1, swap = 1, wrong = 1,
            endless = 1})[name] then
            return mode, path
         end
      end
      mode[name], path = math.tointeger(n), rest
   end
end

local function serve(socket, method, target, headers)
   local mode, name = modes(target:gsub("^/", ""))
   local function fail(status, more)
      more = more or {}
      more["Content-Length"] = 0
      return head(socket, status, more)
   end
   if mode.loop then return fail(302, {Location = target}) end
   if mode.hop and mode.hop > 0 then
      return fail(302, {Location = (target:gsub("/hop/%d+", "/hop/" .. mode.hop - 1))})
   end
   if mode.status then return fail(mode.status) end
   if mode.flaky then
      counts[target] = (counts[target] or 0) + 1
      if counts[target] <= mode.flaky then return fail(503) end
   end
   local extra = {}
   local owner, repo, revision, file = name:match "^([^/]+)/([^/]+)/resolve/([^/]+)/(.+)$"
   if owner then
      if owner == "private" and headers.authorization ~= "Bearer secret" then
         return fail(401, {["X-Error-Code"] = "GatedRepo"})
      elseif revision ~= "main" and revision ~= COMMIT then
         return fail(404, {["X-Error-Code"] = "RevisionNotFound"})
      end
      name = owner .. "/" .. repo .. "/" .. file
      extra["X-Repo-Commit"] = COMMIT
      if not read(name) then
         extra["X-Error-Code"] = "EntryNotFound"
         return fail(404, extra)
      elseif file:find "lfs" then
         extra["X-Linked-Etag"] = '"' .. torch.io._sha256(file:find "bad" and "" or read(name)) .. '"'
         extra.Location = ("http://localhost:%d/%s"):format(listener:port(), name)
         return fail(302, extra)
      end
   end
   local text = read(name)
   if not text then return fail(404) end
   if mode.swap then
      swaps = swaps + 1
      extra.ETag = ('"v%d"'):format(swaps)
   elseif not mode.notag then
      extra.ETag = '"' .. torch.io._sha256(text):sub(1, 16) .. '"'
   end
   local status, first = 200, tonumber((headers.range or ""):match "^bytes=(%d+)%-$")
   local fits = headers["if-range"] == nil or headers["if-range"] == extra.ETag
   if first and fits and not mode.plain then
      if first >= #text then
         extra["Content-Range"] = "bytes */" .. #text
         return fail(416, extra)
      end
      if mode.wrong then first = 0 end
      status, extra["Content-Range"] = 206, ("bytes %d-%d/%d"):format(first, #text - 1, #text)
      text = text:sub(first + 1)
   end
   if mode.packed then extra["Content-Encoding"] = "gzip" end
   if not mode.endless then extra["Content-Length"] = #text + (mode.liar and 10 or 0) end
   head(socket, status, extra)
   if method ~= "HEAD" then send_body(socket, text, mode) end
end

local finish = torch.io.clock() + 600
while torch.io.clock() < finish do
   local socket = listener:accept(5)
   if socket then
      local text = ""
      repeat
         local part = socket:take(5)
         text = text .. (part or "")
      until not part or part == "" or text:find "\r\n\r\n"
      local method, target = text:match "^(%u+) (%S+)"
      local headers = {}
      for name, value in text:gmatch "\r\n([^:\r\n]+): ([^\r\n]*)" do headers[name:lower()] = value end
      if method then
         log:write(method, " ", target, " ", headers.range or "-", " ",
            headers.authorization or "-", "\n")
         log:flush()
         if target == "/stop" then os.exit(0) end
         serve(socket, method, target, headers)
      end
      socket:close()
   end
end
