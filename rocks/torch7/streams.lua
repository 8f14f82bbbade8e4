-- streams.lua - byte streams for Torch7's files. The bytes of a stream are in memory: opening a
-- file reads all its bytes, and closing or flushing it writes them back. Only a file that is opened
-- with "w" is written directly. Positions count from 1.

local M = {}

---@class torch7.Stream
---@field at integer  the position of the next byte
local Memory = {}
Memory.__index = Memory

--- Returns a stream over the bytes of a string.
---@param text string
---@return torch7.Stream
function M.memory(text)
   return setmetatable({text = text, pieces = {}, length = #text, at = 1}, Memory)
end

--- Returns all bytes.
---@return string
function Memory:all()
   if #self.pieces > 0 then
      self.text = self.text .. table.concat(self.pieces)
      self.pieces = {}
   end
   return self.text
end

--- Returns the next n bytes, or fewer if the stream ends before that.
function Memory:read(n)
   local part = self:all():sub(self.at, self.at + n - 1)
   self.at = self.at + #part
   return part
end

--- Returns the number of bytes after the current position.
function Memory:left() return self.length - self.at + 1 end

--- Matches a pattern at the current position. The pattern must begin with ^ and end with ().
--- Returns the match and moves the position behind it. If nothing matches, returns nil and leaves
--- the position unchanged.
function Memory:scan(pattern)
   local found, after = self:all():match(pattern, self.at)
   if found then self.at = after end
   return found
end

function Memory:write(text)
   if self.at == self.length + 1 then
      self.pieces[#self.pieces + 1] = text
   else
      local all = self:all()
      self.text = all:sub(1, self.at - 1) .. text .. all:sub(self.at + #text)
   end
   self.at = self.at + #text
   self.length = math.max(self.length, self.at - 1)
   return true
end

function Memory:seek(at) self.at = at end

function Memory:flush() return true end
function Memory:close() return true end

local Disk = setmetatable({}, {__index = Memory})
Disk.__index = Disk

-- Writes the bytes in memory to the file.
function Disk:flush()
   local failure = require "tlua.io.replace"(self.path, function(handle)
      return select(2, handle:write(self:all()))
   end)
   return not failure or nil, failure and ("%s: %s"):format(self.path, failure)
end
Disk.close = Disk.flush

local Writer = {}
Writer.__index = Writer

function Writer:write(text)
   self.at, self.length = self.at + #text, math.max(self.length, self.at + #text - 1)
   return self.handle:write(text)
end

function Writer:seek(at)
   self.at = at
   return self.handle:seek("set", at - 1)
end

function Writer:flush() return self.handle:flush() end
-- At the end of a program, Lua may have closed the handle already.
function Writer:close()
   if io.type(self.handle) == "closed file" then return true end
   return self.handle:close()
end

--- Opens a file. The mode "r" reads, "w" writes a new file, and "rw" changes an existing one.
--- Returns nil and a message on failure.
---@param path string
---@param mode string
---@return torch7.Stream?
---@return string? problem
function M.disk(path, mode)
   if mode == "w" then
      local handle, problem = io.open(path, "wb")
      if not handle then return nil, problem end
      return setmetatable({handle = handle, at = 1, length = 0}, Writer)
   end
   local handle, problem = io.open(path, "rb")
   if not handle then return nil, problem end
   local text, why = handle:read "a"
   handle:close()
   if not text then return nil, why end
   local stream = M.memory(text)
   stream.path = path
   return mode == "rw" and setmetatable(stream, Disk) or stream
end

--- Runs a command, to read its output or write its input.
function M.pipe(command, mode)
   local handle, problem = io.popen(command, mode)
   if not handle then return nil, problem end
   if mode == "w" then return setmetatable({handle = handle, at = 1, length = 0}, Writer) end
   local text = handle:read "a"
   handle:close()
   return M.memory(text)
end

return M
