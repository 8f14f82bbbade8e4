-- files.lua - Torch7's torch.File: torch.DiskFile, torch.MemoryFile and torch.PipeFile, which read
-- and write numbers, storages and strings as text or as binary data.

local torch = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local streams = require "tlua.torch7.streams"

local field, methods = types.field, types.methods

-- The byte order of this machine, as a format for string.pack.
local native <const> = string.pack("=i2", 1) == "\1\0" and "<" or ">"

local M = {}

classes.newmetatable "torch.File"
local File = classes.getconstructortable "torch.File"
M.File = File

-- Options -----------------------------------------------------------------------------------------

local function begin(self, stream, name, readable, writable)
   self.stream, self.name = stream, name
   self.readable, self.writable = readable, writable
   self.is_quiet, self.failed, self.is_binary, self.spaces = false, false, false, true
   self.order, self.long_size, self.is_referenced = "<", 8, true
end

local function setter(field_name, value)
   return function(self)
      self[field_name] = value
      return self
   end
end

File.ascii, File.binary = setter("is_binary", false), setter("is_binary", true)
File.autoSpacing, File.noAutoSpacing = setter("spaces", true), setter("spaces", false)
File.quiet, File.pedantic = setter("is_quiet", true), setter("is_quiet", false)
File.clearError = setter("failed", false)
File.littleEndianEncoding, File.bigEndianEncoding = setter("order", "<"), setter("order", ">")
File.nativeEndianEncoding = setter("order", native)

function File.isLittleEndianCPU() return native == "<" end
function File.isBigEndianCPU() return not File.isLittleEndianCPU() end

function File:longSize(size)
   if size ~= 0 and size ~= 4 and size ~= 8 then
      torch.raise("longSize: expected 0, 4 or 8, got " .. tostring(size))
   end
   self.long_size = size == 0 and 8 or size
   return self
end

function File:referenced(value)
   self.is_referenced = value
   self.written, self.loaded = nil, nil
   return self
end

function File:isReferenced() return self.is_referenced end
function File:isQuiet() return self.is_quiet end
function File:isBinary() return self.is_binary end
function File:isAutoSpacing() return self.spaces end
function File:isReadable() return self.readable end
function File:isWritable() return self.writable end
function File:isOpened() return self.stream ~= nil end
function File:hasError() return self.failed end

-- Reports that a read or write has failed: raises an error or, in quiet mode, only sets the field
-- `failed`.
local function fail(self, format, ...)
   self.failed = true
   if not self.is_quiet then
      torch.raise(("%s: %s"):format(self.name, format:format(...)))
   end
end

local function check(self, which)
   if not self.stream then torch.raise(self.name .. ": the file is closed") end
   if not self[which] then torch.raise(("%s: the file is not %s"):format(self.name, which)) end
end

-- Numbers
-- ------------------------------------------------------------------------------------------

local formats = {
   Byte = {"B", "%d"}, Char = {"b", "%d"}, Short = {"i2", "%d"}, Int = {"i4", "%d"},
   Long = {"i8", "%d"}, Float = {"f", "%.9g"}, Double = {"d", "%.17g"}, Half = {"I2", "%.9g"},
}
local sizes = {Byte = 1, Char = 1, Short = 2, Int = 4, Long = 8, Float = 4, Double = 8, Half = 2}

local function size_of(self, name) return name == "Long" and self.long_size or sizes[name] end

local special = {nan = 0 / 0, ["-nan"] = 0 / 0, inf = math.huge, ["-inf"] = -math.huge}

local function number_of(word) return tonumber(word) or special[word:lower()] end

-- Reads up to n numbers that are written as text. Returns the numbers as a list.
local function read_words(self, n)
   local list, stream = {}, self.stream
   for i = 1, n do
      local at = stream.at
      local word = stream:scan "^%s*([%+%-%.%w]+)()"
      local value = word and number_of(word)
      if not value then
         stream.at = at
         break
      end
      list[i] = value
   end
   if self.spaces and n > 0 then stream:scan "^(\n)()" end
   return list
end

-- Swaps the bytes of each element if the file's byte order is not `order`.
local function swap(self, text, size, order)
   if self.order == order or size == 1 then return text end
   return (text:gsub(("."):rep(size), string.reverse))
end

local dtypes = {}
for name in pairs(formats) do dtypes[name] = types.kinds[name].dtype end

-- Decodes a string of binary data to a vector of elements.
local function decode(self, name, text, size)
   if #text == 0 then return torch.empty(0, {dtype = dtypes[name], device = "cpu"}) end
   text = swap(self, text, size, "<") -- frombuffer reads little-endian elements
   if name == "Long" and size == 4 then
      return methods.to(torch.frombuffer(text, {dtype = "int32"}), "int64")
   end
   return torch.frombuffer(text, {dtype = dtypes[name]})
end

local function encode(self, name, vector, size)
   if field(vector, "shape")[1] == 0 then return "" end
   vector = methods.to(torch.clone(vector), "cpu")
   if name == "Long" and size == 4 then vector = methods.to(vector, "int32") end
   local bytes = torch._storage_view(vector, true)
   return swap(self, torch.io.text(bytes, 1, field(bytes, "shape")[1]), size, native)
end

-- Reads up to n elements and returns them as a vector.
local function read_vector(self, name, n)
   check(self, "readable")
   local size = size_of(self, name)
   local raw = self.is_binary or name == "Byte" or name == "Char"
   local left = self.stream:left()
   if n < 0 or n > (raw and left // size or left) then
      fail(self, "expected %d numbers, but the file has %d more bytes", n, left)
      n = math.max(raw and left // size or 0, 0)
   end
   if raw then
      local vector = decode(self, name, self.stream:read(n * size), size)
      if not self.is_binary and self.spaces and n > 0 then self.stream:scan "^(\n)()" end
      return vector
   end
   local list = read_words(self, n)
   if #list < n then fail(self, "expected %d numbers, got %d", n, #list) end
   if #list == 0 then return torch.empty(0, {dtype = dtypes[name], device = "cpu"}) end
   return torch.tensor(list, {dtype = dtypes[name], device = "cpu"})
end

local function put(self, text)
   local done, problem = self.stream:write(text)
   if not done then fail(self, "%s", problem) end
end

local function write_vector(self, name, vector)
   check(self, "writable")
   local n = field(vector, "shape")[1]
   if self.is_binary or name == "Byte" or name == "Char" then
      put(self, encode(self, name, vector, size_of(self, name)))
   else
      local words, format = {}, formats[name][2]
      for i, value in ipairs(n > 0 and methods.tolist(vector)
         or {}) do words[i] = format:format(value) end
      put(self, table.concat(words, self.spaces and " " or ""))
   end
   if not self.is_binary and self.spaces and n > 0 then put(self, "\n") end
end

local function read_one(self, name)
   if self.is_binary and self.readable and name ~= "Half" then
      local size = size_of(self, name)
      local text = self.stream:read(size)
      if #text == size then
         return (string.unpack(self.order .. (name == "Long" and "i" .. size or formats[name][1]),
            text))
      end
      self.stream.at = self.stream.at - #text
   end
   local vector = read_vector(self, name, 1)
   if field(vector, "shape")[1] == 0 then return 0 end
   return methods.item(vector)
end

local function write_one(self, name, value)
   if not (self.is_binary and self.writable and name ~= "Half") then
      return write_vector(self, name, torch.tensor({value}, {dtype = dtypes[name]}))
   end
   if name ~= "Float" and name ~= "Double" then
      local size = size_of(self, name)
      local low = name == "Byte" and 0 or -(1 << 8 * size - 1)
      local high = name == "Byte" and 255 or -(low + 1)
      local whole = math.tointeger(value) or value == value and math.tointeger(value // 1)
      if not whole or whole < low or whole > high then
         torch.raise(("write%s: expected a number from %d to %d, got %s"):format(name, low, high,
            tostring(value)))
      end
      value = whole
   end
   put(self, string.pack(self.order .. (name == "Long" and "i" .. self.long_size
      or formats[name][1]),
      value))
end

for name in pairs(formats) do
   local storage = types.kinds[name].storage
   File["read" .. name] = function(self, wanted)
      check(self, "readable")
      if wanted == nil then return read_one(self, name) end
      if type(wanted) == "number" then
         return types.storage(types.kinds[name],
            read_vector(self, name, math.tointeger(wanted) or -1))
      end
      if types.is_tensor(wanted) or not types.is_storage(wanted) then
         torch.raise(("read%s: expected a number or a storage, got %s"):format(name,
            classes.type(wanted)))
      end
      local vector = read_vector(self, name, wanted:size())
      local n = field(vector, "shape")[1]
      if n > 0 then methods.copy_(torch.narrow(wanted.elements, 1, 1, n), vector) end
      return n
   end
   File["write" .. name] = function(self, value)
      check(self, "writable")
      if type(value) == "number" then return write_one(self, name, value) end
      if types.is_tensor(value) or not types.is_storage(value)
         or getmetatable(value) ~= storage then
         torch.raise(("write%s: expected a number or a %sStorage, got %s"):format(name, name,
            classes.type(value)))
      end
      write_vector(self, name, value.elements)
      return value:size()
   end
end

function File:readBool() return self:readInt() ~= 0 end
function File:writeBool(value) self:writeInt(value and 1 or 0) end

--- Reads text. The format "*a" reads all remaining text, and "*l" reads a line.
function File:readString(format)
   check(self, "readable")
   if format == "*a" or format == "a" then return self.stream:read(self.stream:left()) end
   if format ~= "*l" and format ~= "l" then
      torch.raise("readString: expected '*a' or '*l', got " .. tostring(format))
   end
   if self.stream:left() <= 0 then
      fail(self, "expected a line, but the file has ended")
      return ""
   end
   local line = self.stream:scan "^([^\n]*)()"
   self.stream:scan "^(\n)()"
   return line
end

function File:writeString(text)
   check(self, "writable")
   if type(text) == "number" then text = tostring(text) end
   if type(text) ~= "string" then
      torch.raise("writeString: expected a string, got " .. classes.type(text))
   end
   put(self, text)
   if not self.is_binary and self.spaces and #text > 0 then put(self, "\n") end
   return #text
end

--- Reads a string of n bytes. The file contains only the bytes, not the string's length.
function M.read_bytes(self, n)
   check(self, "readable")
   if n < 0 or n > self.stream:left() then
      fail(self, "expected %d bytes, but the file has %d more", n, self.stream:left())
      return ""
   end
   local text = self.stream:read(n)
   if not self.is_binary and self.spaces and n > 0 then self.stream:scan "^(\n)()" end
   return text
end

-- Positions
-- ------------------------------------------------------------------------------------------

function File:position()
   if not self.stream then torch.raise(self.name .. ": the file is closed") end
   return self.stream.at
end

function File:seek(position)
   if not self.stream then torch.raise(self.name .. ": the file is closed") end
   local at = math.tointeger(position)
   if not at or at < 1 or at > self.stream.length + 1 then
      fail(self, "seek: expected a position from 1 to %d, got %s", self.stream.length + 1,
         tostring(position))
   else
      self.stream:seek(at)
   end
   return self
end

function File:seekEnd() return self:seek(self.stream and self.stream.length + 1) end

function File:synchronize()
   if not self.stream then torch.raise(self.name .. ": the file is closed") end
   self.stream:flush()
   return self
end

function File:close()
   if not self.stream then torch.raise(self.name .. ": the file is closed") end
   local done, problem = self.stream:close()
   self.stream = nil
   if not done then fail(self, "%s", tostring(problem)) end
end

-- Kinds of files
-- --------------------------------------------------------------------------------------

local modes = {r = {true, false}, w = {false, true}, rw = {true, true}}

local function check_mode(name, mode)
   mode = mode or "r"
   if not modes[mode] then
      torch.raise(("%s: expected the mode 'r', 'w' or 'rw', got '%s'"):format(name, tostring(mode)))
   end
   return mode, modes[mode][1], modes[mode][2]
end

local function file_class(name)
   classes.newmetatable("torch." .. name, "torch.File")
   local class = classes.getconstructortable("torch." .. name)
   M[name] = class
   classes.getmetatable("torch." .. name).__gc = function(self)
      if rawget(self, "stream") then self.stream:close() end
   end
   return class
end

-- Opens a file or a pipe. If `quiet` is true, the constructor returns nil on failure.
local function opened(self, open, title, path, mode, quiet)
   local readable, writable
   mode, readable, writable = check_mode(title, mode)
   if type(path) ~= "string" then torch.raise(title .. ": expected a file's name, got "
      .. type(path)) end
   local stream, problem = open(path, mode)
   begin(self, stream, ("%s <%s>"):format(title, path), readable, writable)
   if stream then return end
   if not quiet then torch.raise(("%s: %s"):format(title, problem)) end
   return classes.none
end

local DiskFile, MemoryFile, PipeFile = file_class "DiskFile", file_class "MemoryFile",
   file_class "PipeFile"

--- Opens a file. The arguments are (name [, mode [, quiet]]).
function DiskFile:__init(path, mode, quiet)
   return opened(self, streams.disk, "DiskFile", path, mode, quiet)
end

function DiskFile:noBuffer() return self end

--- Runs a command and opens its input or output. The arguments are (command [, mode [, quiet]]).
function PipeFile:__init(command, mode, quiet)
   return opened(self, streams.pipe, "PipeFile", command, mode, quiet)
end

--- Opens a block of memory, or a storage of chars, as a file. The arguments are ([storage,]
--- [mode]).
function MemoryFile:__init(first, second)
   local storage = types.is_storage(first) and first or nil
   local mode, readable, writable = check_mode("MemoryFile", storage and second or first or "rw")
   local text = storage and storage:string() or ""
   if storage and text:sub(-1) == "\0" then text = text:sub(1, -2) end
   if mode == "w" then text = "" end
   begin(self, streams.memory(text), "MemoryFile", readable, writable)
   self.given = storage
end

-- Writes the data back to the storage that was opened as a file.
local function write_back(self)
   if self.given and self.writable and self.stream then
      self.given:string(self.stream:all() .. "\0")
   end
end
for _, name in ipairs {"close", "synchronize"} do
   local parent = File[name]
   MemoryFile[name] = function(self)
      write_back(self)
      return parent(self)
   end
end

--- Returns all data, followed by a zero byte, as a CharStorage. If the file was opened on a
--- storage, the data is in this storage; otherwise the storage is new.
function MemoryFile:storage()
   write_back(self)
   return self.given or types.new(types.kinds.Char):storage():string(self.stream:all() .. "\0")
end

function MemoryFile:text() return self.stream:all() end

return M
