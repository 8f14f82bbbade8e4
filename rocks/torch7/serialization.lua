-- serialization.lua - Torch7's .t7 format, for values, tables, tensors and objects of classes. An
-- object that occurs several times is written once, and later occurrences are written as its
-- number. Reading runs no code from a file: a stored function becomes a function that raises an
-- error. An object of an unknown class becomes a table whose __typename is the name of the class.

local torch = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local files = require "tlua.torch7.files"

local field, methods = types.field, types.methods
local File = files.File

local M = {}

-- The tag in front of each value in a file gives the kind of the value.
local NIL <const>, NUMBER <const>, STRING <const>, TABLE <const> = 0, 1, 2, 3
local OBJECT <const>, BOOLEAN <const>, FUNCTION <const> = 4, 5, 8
local old_functions <const> = {[6] = true, [7] = true, [8] = true}

-- the largest number of values within one another that a file may have
local deepest <const> = 2000

local function raise(self, format, ...)
   torch.raise(("%s: %s"):format(self.name, format:format(...)))
end

-- Strings -----------------------------------------------------------------------------------------

local function write_text(self, text)
   self:writeInt(#text)
   self:writeString(text)
end

local function read_text(self)
   return files.read_bytes(self, self:readInt())
end

-- Tensors and storages ----------------------------------------------------------------------------

-- Returns the name of a CPU type with the same elements: for example, "Float" for "Cuda" and "Long"
-- for "CudaLong". For a CPU type, returns its own name.
local function element_name(kind)
   if not kind.cuda then return kind.name end
   local rest = kind.name:match "^Cuda(.*)$"
   return rest == "" and "Float" or rest
end

local function write_storage(self, storage)
   self:writeLong(storage:size())
   local name = element_name(types.kind_of_meta[getmetatable(storage)])
   self["write" .. name](self, types.storage(types.kinds[name],
      methods.to(storage.elements, "cpu")))
end

local function write_tensor(self, x)
   local empty = methods.numel(x) == 0
   local shape = empty and {} or field(x, "shape")
   self:writeInt(#shape)
   self:writeLong(types.longs(shape))
   self:writeLong(types.longs(empty and {} or methods.stride(x)))
   self:writeLong(empty and 1 or methods.storage_offset(x) + 1)
   self:writeObject(not empty and x.storage(x) or nil)
end

local function read_storage(self, storage, kind)
   local name, n = element_name(kind), self:readLong()
   local elements = self["read" .. name](self, n).elements
   storage.elements = kind.cuda and methods.to(elements, types.place(kind)) or elements
end

local function read_longs(self, n) return n == 0 and {} or self:readLong(n):totable() end

-- Makes a tensor a view of a storage, after checking that the view lies inside the storage.
local function read_tensor(self, x, kind)
   local n = self:readInt()
   if n < 0 or n > 16 then raise(self, "a tensor of %d dimensions", n) end
   local sizes, strides = read_longs(self, n), read_longs(self, n)
   local offset, storage = self:readLong(), self:readObject()
   if #sizes < n or #strides < n then raise(self, "a tensor without its sizes") end
   if n == 0 or storage == nil then return end
   if not types.is_storage(storage) or types.kind_of_meta[getmetatable(storage)] ~= kind then
      raise(self, "a %sTensor with a storage of type %s", kind.name, classes.type(storage))
   end
   local last, total = offset + 0.0, 1.0
   for d = 1, n do
      if sizes[d] < 0 or strides[d] < 0 then
         raise(self, "a tensor with negative sizes or strides")
      end
      last = last + (sizes[d] - 1.0) * strides[d]
      total = total * sizes[d]
   end
   if total == 0 then return end
   if offset < 1 or last > storage:size() then
      raise(self, "a tensor that ends at element %.0f of a storage of %d", last, storage:size())
   end
   methods.set_(x, types.over_storage(kind, storage, offset, types.longs(sizes),
      types.longs(strides)))
end

-- Writing -----------------------------------------------------------------------------------------

-- Returns the number of an object in the file, and whether the object has been written before.
-- Gives a new object the next number.
local function number_for(self, object)
   self.written = self.written or {n = 0}
   local key = object
   if types.is_storage(object) then key = types.storage_key(object) end
   local known = self.written[key]
   if known then return known.number, true end
   self.written.n = self.written.n + 1
   self.written[key] = {number = self.written.n, keeps = object}
   return self.written.n, false
end

-- Writes an object's tag and its number in the file. Returns true if the object's content must
-- follow, and false if the file already contains the object.
local function write_head(self, tag, object)
   self:writeInt(tag)
   if not self.is_referenced then return true end
   local number, known = number_for(self, object)
   self:writeInt(number)
   return not known
end

local function write_pairs(self, object)
   local n = 0
   for _ in next, object do n = n + 1 end
   self:writeInt(n)
   for key, value in next, object do
      self:writeObject(key)
      self:writeObject(value)
   end
end

local function write_function(self, fn)
   if not write_head(self, FUNCTION, fn) then return end
   local dumped, code = pcall(string.dump, fn)
   if not dumped then raise(self, "a C function cannot be written") end
   local upvalues = {}
   for i = 1, math.huge do
      local name, value = debug.getupvalue(fn, i)
      if not name then break end
      upvalues[i] = {name = name, value = name ~= "_ENV" and value or nil}
   end
   write_text(self, code)
   self:writeObject(upvalues)
end

-- Returns an object's fields as a plain table.
local function fields_of(object)
   local fields = {}
   for key, value in next, object do fields[key] = value end
   return fields
end

local function write_content(self, object, kind)
   if types.is_tensor(object) then
      write_tensor(self, object)
   elseif kind then
      write_storage(self, object)
   elseif object.write then
      object:write(self)
   else
      self:writeObject(fields_of(object))
   end
end

--- Writes a value: nil, a boolean, number, string, table, tensor, object or function.
function File:writeObject(object)
   local kind = type(object)
   local name = kind ~= "string" and classes.typename(object) or nil
   if object == nil then
      self:writeInt(NIL)
   elseif kind == "number" then
      self:writeInt(NUMBER)
      self:writeDouble(object)
   elseif kind == "boolean" then
      self:writeInt(BOOLEAN)
      self:writeBool(object)
   elseif kind == "string" then
      self:writeInt(STRING)
      write_text(self, object)
   elseif kind == "function" then
      write_function(self, object)
   elseif name then
      if write_head(self, OBJECT, object) then
         write_text(self, "V " .. (object.__version or 1))
         write_text(self, name)
         write_content(self, object, types.kind_of_meta[debug.getmetatable(object)])
      end
   elseif kind == "table" then
      if write_head(self, TABLE, object) then write_pairs(self, object) end
   elseif types.is_tensor(object) then
      self:writeObject(types.tag(torch.detach(object)))
   else
      raise(self, "a value of type %s cannot be written", kind)
   end
end

-- Reading -----------------------------------------------------------------------------------------

-- Reads the number of an object. Returns the number, and the object itself if it has been read
-- before; otherwise the second result is nil.
local function read_head(self)
   if not self.is_referenced then return nil end
   self.loaded = self.loaded or {}
   local number = self:readInt()
   return number, self.loaded[number]
end

local function remember(self, number, object)
   if number then self.loaded[number] = object end
   return object
end

local function read_pairs(self, into)
   local n = self:readInt()
   if n < 0 or n > self.stream:left() then raise(self, "a table of %d fields", n) end
   for _ = 1, n do
      local key, value = self:readObject(), self:readObject()
      if key == nil or key ~= key then raise(self, "a table's field without a name") end
      rawset(into, key, value)
   end
   return into
end

local function read_function(self, tag)
   local number, known
   if tag ~= 6 then number, known = read_head(self) end
   if known then return known end
   local stub = function()
      torch.raise "this function was saved as code, which is not run when a file is loaded"
   end
   remember(self, number, stub)
   read_text(self)
   self:readObject()
   return stub
end

-- Returns the class with the name that a file contains. If a class of cudnn is missing, returns the
-- class of nn with the same name. Without a device, returns types of the CPU for Cuda types.
local function class_named(name)
   local meta = classes.getmetatable(name)
   if not meta and name:find "^cudnn%." then
      meta = classes.getmetatable("nn" .. name:match "%..*$")
   end
   local kind = types.kind_of_meta[meta]
   if kind and kind.cuda and not pcall(types.cuda_device) then
      local plain = types.kinds[element_name(kind)]
      meta = kind.storage == meta and plain.storage or plain.tensor
      kind = plain
   end
   return meta, kind
end

local function read_new(self, number, name, version)
   local meta, kind = class_named(name)
   if kind and kind.storage == meta then
      local storage = types.storage(kind, torch.empty(0, types.place(kind)))
      remember(self, number, storage)
      read_storage(self, storage, kind)
      return storage
   elseif kind then
      local x = remember(self, number, types.new(kind))
      read_tensor(self, x, kind)
      return x
   end
   local object = remember(self, number, meta and classes.factory(meta.__typename)()
      or {__typename = name})
   if meta and meta.read then
      object:read(self, version)
      return object
   end
   local fields = self:readObject()
   if type(fields) ~= "table" or fields == object then
      raise(self, "an object of class %s without fields", name)
   end
   for key, value in next, fields do rawset(object, key, value) end
   return object
end

local function read_object(self)
   local number, known = read_head(self)
   if known ~= nil then return known end
   local name, version = read_text(self), 0
   if name:match "^V %d+$" then
      version = math.tointeger(tonumber(name:match "%d+")) or 0
      name = read_text(self)
   end
   return read_new(self, number, name, version)
end

local function read_table(self)
   local number, known = read_head(self)
   if known ~= nil then return known end
   return read_pairs(self, remember(self, number, {}))
end

local function read_value(self, tag)
   if tag == NIL then return nil end
   if tag == NUMBER then
      local value = self:readDouble()
      return math.tointeger(value) or value
   elseif tag == BOOLEAN then
      return self:readBool()
   elseif tag == STRING then
      return read_text(self)
   elseif tag == TABLE then
      return read_table(self)
   elseif tag == OBJECT then
      return read_object(self)
   elseif old_functions[tag] then
      return read_function(self, tag)
   end
   raise(self, "an object of the unknown type %d", tag)
end

--- Reads a value that writeObject has written.
function File:readObject()
   local depth = (self.depth or 0) + 1
   if depth > deepest then raise(self, "more than %d values within one another", deepest) end
   self.depth = depth
   local tag = self:readInt()
   if self.failed then raise(self, "the file ends within an object") end
   local value = read_value(self, tag)
   self.depth = depth - 1
   return value
end

-- Functions ---------------------------------------------------------------------------------------

-- Configures a file for a format: "ascii", "binary", "b32" or "b64". The last two are binary, with
-- longs of 32 or 64 bits.
local function set_format(file, format, referenced)
   format = format or "binary"
   if format == "ascii" then
      file:ascii()
   elseif format == "binary" or format == "b32" or format == "b64" then
      file:binary()
      if format ~= "binary" then file:longSize(format == "b32" and 4 or 8) end
   else
      torch.raise("torch: expected the format 'binary', 'ascii', 'b32' or 'b64', got "
         .. tostring(format))
   end
   if referenced ~= nil then file:referenced(referenced) end
   return file
end

--- Writes an object to a file. An existing file is replaced only when the new file is complete.
---@param path string
---@param object any
---@param format? string  "binary" (the default), "ascii", "b32", "b64"
---@param referenced? boolean
function M.save(path, object, format, referenced)
   local text = M.serialize(object, format, referenced)
   local problem = require "tlua.io.replace"(path, function(file)
      local done, why = file:write(text)
      return not done and why or nil
   end)
   if problem then torch.raise(("torch.save: %s: %s"):format(tostring(path), problem)) end
end

--- Reads an object from a file. No code from the file runs.
---@param path string
---@param format? string
---@param referenced? boolean
---@return any
function M.load(path, format, referenced)
   local file = set_format(files.DiskFile(path, "r"), format, referenced)
   local object = file:readObject()
   file:close()
   return object
end

--- Returns the bytes of an object in a format.
---@param object any
---@param format? string
---@param referenced? boolean
---@return string
function M.serialize(object, format, referenced)
   local file = set_format(files.MemoryFile "rw", format, referenced)
   file:writeObject(object)
   return file:text()
end

--- Rebuilds an object from `text`, a string that `serialize` returned.
---@param text string
---@param format? string
---@param referenced? boolean
---@return any
function M.deserialize(text, format, referenced)
   if type(text) ~= "string" then
      torch.raise("torch.deserialize: expected a string, got " .. type(text))
   end
   local file = set_format(files.MemoryFile "rw", format, referenced)
   file.stream:write(text)
   file.stream:seek(1)
   return file:readObject()
end

--- Does the same as serialize, but returns a CharStorage instead of a string.
function M.serializeToStorage(object, format)
   return types.new(types.kinds.Char):storage():string(M.serialize(object, format))
end

function M.deserializeFromStorage(storage, format)
   if types.is_tensor(storage) or not types.is_storage(storage)
      or types.kind_of_meta[getmetatable(storage)] ~= types.kinds.Char then
      torch.raise("torch.deserializeFromStorage: expected a CharStorage, got "
         .. classes.type(storage))
   end
   return M.deserialize(storage:string(), format)
end

M.saveobj, M.loadobj = M.save, M.load

return M
