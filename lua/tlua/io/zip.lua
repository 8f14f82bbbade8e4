-- zip.lua - reads zip files: the list at the end, then each file's bytes, stored or deflated. Files
-- that overlap, as in archives that are made to unpack to far more than they are, are refused.

local torch = require "tlua"
local source = require "tlua.io.source"

local M = {}

-- Where the list of files is: its position from 1, its length, and how many there are.
local function find_list(s)
   local tail = math.min(s.size, 65557)
   local text = torch.io.text(s.bytes, s.size - tail + 1, tail)
   local found, from = nil, 1
   while true do
      local at = text:find("PK\5\6", from, true)
      if not at then break end
      found, from = at, at + 1
   end
   if not found or tail - found + 1 < 22 then
      source.fail "no zip file, or a damaged one: its end is missing"
   end
   local count, length, offset = string.unpack("<I2I4I4", text, found + 10)
   if offset ~= 0xFFFFFFFF and count ~= 0xFFFF then return offset + 1, length, count end
   local locator = found - 20
   if locator < 1 or text:sub(locator, locator + 3) ~= "PK\6\7" then
      source.fail "the zip file's list cannot be found"
   end
   local at = string.unpack("<i8", text, locator + 8)
   if at < 0 or at > s.size - 56 then source.fail "the zip file's list lies outside of it" end
   s.at = at + 1
   if s:text(4) ~= "PK\6\6" then source.fail "the zip file's list cannot be found" end
   s.at = at + 33
   count = s:unpack "<i8"
   length = s:unpack "<i8"
   return s:unpack "<i8" + 1, length, count
end

-- What a large file has in its extra field in place of fields that are all ones.
local function read_large(extra, entry)
   local at = 1
   while at + 3 <= #extra do
      local id, length = string.unpack("<I2I2", extra, at)
      if id == 1 then
         local position = at + 4
         for _, field in ipairs {"size", "packed", "offset"} do
            if entry[field] == 0xFFFFFFFF and position + 7 <= math.min(#extra, at + 3 + length) then
               entry[field], position = string.unpack("<i8", extra, position)
            end
         end
         return
      end
      at = at + 4 + length
   end
end

local function read_entry(s)
   if s:text(4) ~= "PK\1\2" then source.fail("byte %d: no file's entry in the list", s.at - 4) end
   local flags, method, packed, size, n, extra, comment, offset =
      string.unpack("<I2I2 xxxxxxxx I4I4 I2I2I2 xxxxxxxx I4", s:text(42), 5)
   local name = s:text(n)
   local entry = {method = method, packed = packed, size = size, offset = offset, flags = flags}
   read_large(s:text(extra), entry)
   s:text(comment)
   return name, entry
end

--- The files of a zip file by name.
---@param bytes Tensor  (n) uint8
---@return table<string, table> entries
function M.open(bytes)
   local s, entries, packed = source.new(bytes), {}, 0
   local first, _, count = find_list(s)
   if first < 1 or first > s.size then source.fail "the zip file's list lies outside of it" end
   s.at = first
   for _ = 1, count do
      local name, entry = read_entry(s)
      packed = packed + math.max(0, entry.packed)
      if packed > s.size then source.fail "the files in the zip file overlap" end
      entries[name] = entry
   end
   return entries
end

--- A file's bytes.
---@param bytes Tensor  of the zip file
---@param entry table  of `open`
---@return Tensor  (n) uint8
function M.read(bytes, entry)
   local s = source.new(bytes)
   if entry.offset < 0 or entry.offset > s.size - 30 then
      source.fail("a file lies outside of the zip file's %d bytes", s.size)
   end
   s.at = entry.offset + 1
   if s:text(4) ~= "PK\3\4" then source.fail("byte %d: no file of a zip file", s.at - 4) end
   local n, extra = string.unpack("<I2I2", s:text(26), 23)
   local first = s.at + n + extra
   if entry.packed < 0 or first + entry.packed - 1 > s.size then
      source.fail("a file lies outside of the zip file's %d bytes", s.size)
   end
   if entry.flags & 1 ~= 0 then source.fail "the zip file is encrypted" end
   local packed = bytes:narrow(1, math.min(first, s.size), entry.packed)
   if entry.packed == 0 then packed = bytes:narrow(1, 1, 0) end
   if entry.method == 0 then
      if entry.size ~= entry.packed then source.fail "a stored file has two sizes" end
      return packed
   elseif entry.method ~= 8 then
      source.fail("packed by method %d; expected stored or deflated files", entry.method)
   end
   local unpacked, message = torch.io.inflate(packed, "raw", math.max(0, entry.size))
   return unpacked or source.fail("%s", message)
end

return M
