-- source.lua - reads a file's bytes as a tensor, and checks that reads stay within the file.
--
-- An error in a file's content is thrown as a table {file = message}, which distinguishes it from a
-- bug in this library; `protect` catches the table and returns nil and the message.

local torch = require "tlua"

local M = {}

-- Files of at least this many bytes are mapped by default, so that only the parts that are used are
-- read.
local map_from <const> = 1 << 24

--- Reports an error in a file's content: throws {file = message}, which `protect` catches.
---@param format string
---@param ... any
function M.fail(format, ...)
   error({file = format:format(...)}, 0)
end

--- Calls fn(...) and returns its results, or nil and the message if fn has reported an error in a
--- file's content with `fail`.
---@param fn function
---@param ... any
---@return any ...
function M.protect(fn, ...)
   local results = table.pack(pcall(fn, ...))
   if results[1] then return table.unpack(results, 2, results.n) end
   local failure = results[2]
   if type(failure) == "table" and failure.file then return nil, failure.file end
   error(failure, 0)
end

--- Returns all bytes of an open file as a mapped or read tensor, (n) uint8.
---@param file file*
---@param path string
---@param mmap? boolean  if nil, large files are mapped
---@return Tensor
---@return boolean mapped
function M.bytes(file, path, mmap)
   local size = file:seek "end"
   if not size or not file:seek "set" then M.fail "the file has no known length" end
   if mmap == nil then mmap = size >= map_from end
   local bytes, message
   if mmap then
      bytes, message = torch.io.map(path)
   else
      bytes, message = torch.io.read(file, {size}, "uint8")
   end
   return bytes or M.fail("%s", message), mmap
end

---@class io.Source
---@field bytes Tensor  (n) uint8
---@field size integer
---@field at integer  the position of the next byte, from 1
local Source = {}
Source.__index = Source

---@param bytes Tensor  (n) uint8
---@return io.Source
function M.new(bytes)
   return setmetatable({bytes = bytes, size = bytes:numel(), at = 1}, Source)
end

--- Returns the next n bytes as a string, and advances the position.
function Source:text(n)
   if n < 0 or n > self.size - self.at + 1 then
      M.fail("byte %d: expected %d more bytes, got %d", self.at, n, self.size - self.at + 1)
   end
   local text = torch.io.text(self.bytes, self.at, n)
   self.at = self.at + n
   return text
end

--- Reads the next value in a format of string.unpack, and advances the position.
function Source:unpack(format)
   return (string.unpack(format, self:text(string.packsize(format))))
end

--- Returns the elements that begin at byte `first`, as a view.
---@param first integer
---@param shape integer[]
---@param dtype string
---@return Tensor
function Source:elements(first, shape, dtype)
   if first < 1 or first > self.size + 1 then
      M.fail("byte %d lies outside of the file's %d", first, self.size)
   end
   local tensor, message = torch.io.bytes_as(self.bytes, first, shape, dtype)
   return tensor or M.fail("%s", message)
end

--- Returns big-endian elements that begin at byte `first`, as a copy in the machine's byte order.
function Source:big_endian(first, shape, dtype, size)
   local n = 1
   for _, length in ipairs(shape) do
      if length > 0 and n > self.size // length then
         M.fail("the shape {%s} is larger than the file", table.concat(shape, ", "))
      end
      n = n * length
   end
   if n * size > self.size - first + 1 then
      M.fail("expected %d bytes of data, got %d", n * size, math.max(0, self.size - first + 1))
   end
   local flipped = self.bytes:narrow(1, first, n * size):view(n, size):flip(2):contiguous():view(-1)
   return M.new(flipped):elements(1, shape, dtype)
end

return M
