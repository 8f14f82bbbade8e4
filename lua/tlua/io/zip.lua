-- zip.lua - reads and writes zip files, in the format of PKWARE's APPNOTE.TXT. The reader reads the
-- central directory at the end of the zip file, and then the bytes of each file inside, which may
-- be stored or deflated; it refuses files that overlap, as in zip bombs. The writer stores files
-- uncompressed by default.

local torch = require "tlua"
local source = require "tlua.io.source"

local M = {}

-- Finds the central directory, and returns its position (from 1), its length, and the number of
-- files.
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

-- Reads the sizes and the offset of a large file inside the zip file. If all bits of one of these
-- fields of the entry are set, its value is in the entry's extra field.
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
   local flags, method, crc, packed, size, n, extra, comment, offset =
      string.unpack("<I2I2 xxxx I4I4I4 I2I2I2 xxxxxxxx I4", s:text(42), 5)
   local name = s:text(n)
   local entry = {method = method, crc = crc, packed = packed, size = size, offset = offset,
      flags = flags}
   read_large(s:text(extra), entry)
   s:text(comment)
   return name, entry
end

--- Returns a table from names to the files inside a zip file.
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

local function compare(unpacked, entry)
   if torch.io.crc32(unpacked) ~= entry.crc then
      source.fail "a file in the zip file is damaged: its checksum is another"
   end
   return unpacked
end

--- Returns a file's bytes. The bytes of a deflated file are always verified by the checksum.
---@param bytes Tensor  the bytes of the zip file
---@param entry table  an entry that `open` has returned
---@param check? boolean  whether to verify stored files too, which reads them completely
---@return Tensor  (n) uint8
function M.read(bytes, entry, check)
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
      return check and compare(packed, entry) or packed
   elseif entry.method ~= 8 then
      source.fail("packed by method %d; expected stored or deflated files", entry.method)
   end
   local unpacked, message = torch.io.inflate(packed, "raw", math.max(0, entry.size))
   return compare(unpacked or source.fail("%s", message), entry)
end

-- Writing ------------------------------------------------------------------------------------

local large <const> = 0xFFFFFFFF

---@class io.ZipWriter
---@field file file*
---@field at integer  bytes written
---@field entries table[]
---@field alignment integer?  the alignment of each file's content
local Writer = {}
Writer.__index = Writer

---@param file file*  open for writing, at its beginning
---@param alignment? integer  each file's content begins at a multiple of this
---@return io.ZipWriter
function M.new(file, alignment)
   return setmetatable({file = file, at = 0, entries = {}, alignment = alignment}, Writer)
end

function Writer:put(text)
   local ok, message = self.file:write(text)
   if not ok then return message end
   self.at = self.at + #text
end

-- Returns the 26 bytes of fields that a local header and its central directory entry share. If a
-- size does not fit into 4 bytes, both sizes have all bits set here, and their values are stored in
-- the extra field.
local function common_fields(entry, extra)
   local long = entry.size >= large or entry.packed >= large
   return ("<I2I2I2I2I2I4I4I4I2I2"):pack(45, 0x0800, entry.method, 0, 0x21, entry.crc,
      long and large or entry.packed, long and large or entry.size, #entry.name, #extra)
end

-- Returns the sizes for the extra field. If either size does not fit into 4 bytes, both are stored
-- there, as readers expect; otherwise the result is empty.
local function long_sizes(entry)
   if entry.size < large and entry.packed < large then return "" end
   return ("<i8i8"):pack(entry.size, entry.packed)
end

--- Adds a file whose content is a text, followed by the bytes that torch.io.write would write for a
--- tensor.
---@param name string
---@param text string
---@param tensor Tensor  a tensor on the CPU
---@param compress? boolean  deflate it if that makes it smaller
---@return string? failure
function Writer:add(name, text, tensor, compress)
   if #name > 0xFFFF then return "the name is too long" end
   local size = #text + tensor.nbytes
   local entry = {name = name, offset = self.at, size = size, packed = size, method = 0,
      crc = torch.io.crc32(tensor, torch.io.crc32(text))}
   if compress then
      local packed, message = torch.io.deflate(text, tensor:contiguous())
      if not packed then return message end
      if packed.nbytes < size then
         entry.packed, entry.method, text, tensor = packed.nbytes, 8, "", packed
      end
   end
   local extra = long_sizes(entry)
   if extra ~= "" then extra = ("<I2s2"):pack(1, extra) end
   if self.alignment then -- an extra field "FB" aligns the file's bytes, as in PyTorch
      local begin = self.at + 30 + #name + #extra + 4
      extra = extra .. ("<c2s2"):pack("FB", ("Z"):rep(-begin % self.alignment))
   end
   local why = self:put("PK\3\4" .. common_fields(entry, extra) .. name .. extra .. text)
   if why then return why end
   local ok, message = torch.io.write(self.file, tensor)
   if not ok then return message end
   self.at = self.at + tensor.nbytes
   self.entries[#self.entries + 1] = entry
end

local function list_entry(entry)
   local extra = long_sizes(entry)
   if entry.offset >= large then extra = extra .. ("<i8"):pack(entry.offset) end
   if extra ~= "" then extra = ("<I2s2"):pack(1, extra) end
   return "PK\1\2" .. ("<I2"):pack(45) .. common_fields(entry, extra)
      .. ("<I2I2I2I4I4"):pack(0, 0, 0, 0, math.min(entry.offset, large)) .. entry.name .. extra
end

--- Writes the list of the files.
---@return string? failure
function Writer:finish()
   local first, count = self.at, #self.entries
   for _, entry in ipairs(self.entries) do
      local why = self:put(list_entry(entry))
      if why then return why end
   end
   local length, tail = self.at - first, ""
   if count >= 0xFFFF or first >= large or length >= large then
      tail = "PK\6\6" .. ("<i8I2I2I4I4i8i8i8i8"):pack(44, 45, 45, 0, 0, count, count, length, first)
         .. "PK\6\7" .. ("<I4i8I4"):pack(0, self.at, 1)
   end
   local few = math.min(count, 0xFFFF)
   return self:put(tail .. "PK\5\6" .. ("<I2I2I2I2I4I4I2"):pack(0, 0, few, few,
      math.min(length, large), math.min(first, large), 0))
end

return M
