-- download.lua - downloads files over HTTP. An unfinished file is stored as `<path>.part`. The
-- process that writes it holds a lock; a second process that needs the same file waits. If a
-- process is killed, it leaves the unfinished file. The next call then requests only the missing
-- bytes, if the checksum is known or the server still has the same version. The version (an ETag or
-- a date) is stored in `<path>.part.tag`.

local torch = require "tlua"
local http = require "tlua.utils.http"
local notice = require "tlua.utils.notice"
local read_file = require "tlua.utils.read_file"

local M = {}

-- A download fails after this many attempts in a row that have brought no new byte.
local TRIES <const> = 5
local MOST <const> = 1 << 44 -- the largest size of a file in bytes
-- The largest size in bytes of a file whose size the server does not announce.
local UNTOLD <const> = 1 << 34
-- The default timeout: an attempt ends after this many seconds without a byte.
local SECONDS <const> = 30

-- After these HTTP status codes, another attempt may succeed.
local passing <const> = {[408] = true, [425] = true, [429] = true, [500] = true, [502] = true,
   [503] = true, [504] = true}

local function exists(path)
   local file = io.open(path, "rb")
   if file then file:close() end
   return file ~= nil
end

M.exists = exists

--- Returns a file's size in bytes, or nil if the file cannot be read.
---@param path string
---@return integer?
function M.size(path)
   local file <close> = io.open(path, "rb")
   return file and file:seek "end"
end

--- Returns a file's SHA-256 checksum as hexadecimal digits, or nil and a message.
---@param path string
---@return string? sum
---@return string? message
function M.sha256(path)
   local bytes, message = torch.io.map(path)
   if not bytes then return nil, message end
   return torch.io._sha256(bytes)
end

-- Opens `path` for appending and locks the file. While another process holds the lock and the file
-- grows, the function waits. If the file `done` exists, the other process has finished the
-- download, and nil is returned.
local function hold(a, path, done)
   local before, since, told = nil, torch.io.clock(), false
   while true do
      local file, message = io.open(path, "ab")
      if not file then a.fail(message) end
      if torch.io._hold(file, path) then
         if not (done and exists(done)) then return file end
         os.remove(path)
         file:close()
         return nil
      end
      local size = file:seek "end"
      file:close()
      if done and exists(done) then return nil end
      if size ~= before then before, since = size, torch.io.clock() end
      if torch.io.clock() - since > 2 * a.timeout + 5 then
         a.fail(path .. ": another process holds this file and makes no progress, or it is a link")
      end
      if not told and a.progress and torch.io.is_terminal(io.stderr) then
         notice("%s: another process fetches this file; waiting", a.title)
      end
      told = true
      torch.distributed._sleep(0.1)
   end
end

-- Empties an unfinished file that this process has locked, and removes the file that has its
-- version.
local function empty(a, path)
   local file, message = io.open(path, "wb")
   if not file then a.fail(message) end
   file:close()
   os.remove(path .. ".tag")
end

-- Returns a text that identifies the version of the file in a response: the ETag if it is a strong
-- one, or else the date.
local function tag_of(headers)
   local tag = headers.etag
   if tag and tag:find '^"[^"]+"$' then return tag end
   return headers["last-modified"]
end

-- Empties an unfinished file because it is too large, and returns an error message.
local function too_large(a, file, most)
   file:flush()
   empty(a, a.part)
   return ("%s: the file has more than %d bytes%s; the option max_bytes allows more"):format(a.url,
      most, a.max_bytes and "" or ", and the server does not tell how many")
end

-- Appends a response's body to the file. `from` is the size of the file before. Returns true if the
-- file is then complete. Otherwise returns false, a message, and whether the file is too large.
local function append(a, file, answer, from)
   local total = answer.length and from + answer.length
   local most = a.max_bytes or total or UNTOLD
   if total and total > most then return false, too_large(a, file, most), true end
   local bar = a.progress and torch.io.is_terminal(io.stderr)
      and torch.utils.Progress {total = total, unit = "bytes", stream = io.stderr, label = a.label}
   while true do
      local ok, part = pcall(answer.parts)
      if not ok then
         file:flush()
         return false, part
      end
      if not part then break end
      if from + #part > most then return false, too_large(a, file, most), true end
      local written, message = file:write(part)
      if not written then a.fail(("%s: %s"):format(a.part, message)) end
      from = from + #part
      if bar then bar:step(#part) end
   end
   local flushed, message = file:flush()
   if not flushed then a.fail(("%s: %s"):format(a.part, message)) end
   if bar then bar:finish(("%s: %d bytes"):format(a.label, from)) end
   return true
end

-- Requests the missing bytes once. Returns true if the file is then complete. Otherwise returns
-- false, whether another attempt may succeed, a message, and whether the server has sent no answer
-- at all.
local function attempt(a, file)
   local size = file:seek "end"
   local tag = size > 0 and read_file(a.part .. ".tag")
   if size > 0 and not tag and not a.sum then
      empty(a, a.part)
      size = 0
   end
   local headers = {}
   for name, value in pairs(a.headers or {}) do headers[name] = value end
   if size > 0 then
      headers.Range, headers["If-Range"] = ("bytes=%d-"):format(size), tag or nil
   end
   local ok, answer = pcall(http.open, "GET", a.url, {headers = headers, timeout = a.timeout,
      most = MOST})
   if not ok then return false, true, answer, true end
   local _ <close> = answer
   if answer.status == 416 and size > 0 then
      -- `same` is true if the file on the server has exactly the size of the local file. If it is
      -- false, the server has another version.
      local same = answer.headers["content-range"] == ("bytes */%d"):format(size)
      if same and (a.sum or tag and tag_of(answer.headers) == tag) then return true end
      empty(a, a.part)
      return false, true, "the server has other bytes than before"
   elseif answer.status == 206 and size > 0 then
      local first = answer.headers["content-range"]
      if not (first and first:find("^bytes " .. size .. "%-")) then
         empty(a, a.part)
         return false, true, ("expected bytes from %d on, got %s"):format(size,
            first or "others")
      end
   elseif answer.status == 200 then
      if size > 0 then empty(a, a.part) end
      size, tag = 0, tag_of(answer.headers)
      if tag then
         local note <close> = io.open(a.part .. ".tag", "wb")
         if note then note:write(tag) end
      end
   else
      return false, passing[answer.status] or false, ("%s: the server answers %d%s"):format(a.url,
         answer.status, answer.headers["x-error-message"] and ": "
            .. answer.headers["x-error-message"] or "")
   end
   local encoding = answer.headers["content-encoding"]
   if encoding and encoding ~= "identity" then
      return false, false, ("%s: the server answers with the encoding %s"):format(a.url, encoding)
   end
   local whole, message, large = append(a, file, answer, size)
   return whole, not large, message
end

-- Requests the missing bytes until the file is complete. Raises an error if too many attempts fail.
local function fetch(a, file)
   -- `most` is the largest size so far, even if the download has begun again since then.
   local left, most = TRIES, file:seek "end"
   while true do
      local whole, again, message, silent = attempt(a, file)
      if whole then return end
      local size = file:seek "end"
      -- An attempt without any answer counts as three attempts, because it has already waited long.
      left = size > most and TRIES or math.max(0, left - (silent and 3 or 1))
      most = math.max(most, size)
      if not again or left == 0 then
         if size == 0 then
            os.remove(a.part)
            os.remove(a.part .. ".tag")
         end
         a.fail(message)
      end
      torch.distributed._sleep(a.pause * 2 ^ (TRIES - left))
   end
end

-- Compares the checksum of the complete file with the expected one, and returns the checksum if
-- they are equal. If they differ and the download was resumed, returns nil, because the old bytes
-- may be wrong. If it was not resumed, raises an error.
local function check(a, resumed)
   local sum, message = M.sha256(a.part)
   if not sum then a.fail(("%s: %s"):format(a.part, message)) end
   if not a.sum or sum:sub(1, #a.sum) == a.sum then return sum end
   if resumed then return nil end
   os.remove(a.part)
   os.remove(a.part .. ".tag")
   a.fail(("%s: SHA-256: expected %s, got %s"):format(a.url, a.sum, sum:sub(1, #a.sum)))
end

--- Downloads a file. If this fails, it raises an error and keeps the bytes that have arrived; the
--- next call requests the missing bytes.
---@param a {title: string, url: string, path: string, sum: string?, keep: boolean?, note: boolean?,
---headers: table<string, string>?, timeout: number?, progress: boolean?, label: string?,
---pause: number?, max_bytes: integer?}  sum: the beginning of the file's SHA-256 checksum; keep:
--- whether a file that another process has written to `path` meanwhile is accepted; note: whether
--- the checksum is written to `<path>.sha256`
---@return string? sum  the file's SHA-256 checksum; nil if another process has fetched the file
function M.fetch(a)
   a.timeout, a.pause, a.part = a.timeout or SECONDS, a.pause or 0.1, a.path .. ".part"
   a.label = a.label or a.path:match "[^/]+$"
   function a.fail(message) torch.raise(("%s: %s"):format(a.title, message)) end
   local folder = a.path:match "^(.*)/"
   if folder and folder ~= "" then
      local made, message = torch.io.make_folder(folder)
      if not made then a.fail(("%s: %s"):format(folder, message)) end
   end
   local file <close> = hold(a, a.part, a.keep and a.path)
   if not file then return nil end
   local resumed = file:seek "end" > 0
   fetch(a, file)
   local sum = check(a, resumed)
   -- The bytes from an earlier process are damaged or belong to another version, so the download
   -- begins again.
   if not sum then
      empty(a, a.part)
      fetch(a, file)
      sum = check(a, false)
   end
   if a.note then
      local failure = require "tlua.io.replace"(a.path .. ".sha256", function(note)
         return select(2, note:write(("%s  %s\n"):format(sum, a.path:match "[^/]+$")))
      end)
      if failure then a.fail(("%s.sha256: %s"):format(a.path, failure)) end
   end
   local moved, message = os.rename(a.part, a.path)
   if not moved then a.fail(message) end
   os.remove(a.part .. ".tag")
   return sum
end

--- Compares a file with the checksum in `<path>.sha256`, if there is one. Returns nil if they
--- match, and otherwise a message.
---@param path string
---@return string? failure
function M.check(path)
   for try = 1, 2 do
      local note = read_file(path .. ".sha256")
      local expected = note and note:match "^(%x+)"
      if not expected then
         return note and path .. ".sha256: expected a SHA-256 checksum" or nil
      end
      local sum, message = M.sha256(path)
      if sum == expected then return nil end
      if try == 2 then
         return ("%s: SHA-256: expected %s, got %s"):format(path, expected, sum or message)
      end
      -- Another process may be replacing both files at this moment, so the comparison is repeated.
      torch.distributed._sleep(0.3)
   end
end

return M
