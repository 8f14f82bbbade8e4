-- types.lua - Torch7's tensor types and storages. A Torch7 tensor is a tlua tensor with another
-- metatable, one for each dtype and device. So tlua's operators accept it without a copy. They
-- return results with tlua's metatable, and `tag` gives these Torch7's metatable.

local torch = require "tlua"
local classes = require "tlua.torch7.classes"

local M = {}

local native = debug.getmetatable(torch.empty(0))
local set_metatable, get_metatable = debug.setmetatable, debug.getmetatable

--- Returns the field or method that tlua defines for a tensor, whatever metatable the tensor has.
---@type fun(tensor: Tensor, name: string): any
local field = native.__index
M.field = field
M.native_newindex = native.__newindex
--- Frees a tensor that is no longer needed, without waiting for the garbage collector.
---@type fun(tensor: Tensor)
M.close = native.__close

local sample = torch.empty(0)
-- The methods of tlua's tensors, indexed by name.
M.methods = setmetatable({}, {__index = function(self, name)
   self[name] = field(sample, name)
   return self[name]
end})
local methods = M.methods

-- Kinds of types -----------------------------------------------------------------------------

--- A tensor type of Torch7.
---@class torch7.Kind
---@field name string  the short name, such as "Float"
---@field dtype string
---@field cuda boolean
---@field tensor table  the metatable of the type's tensors
---@field storage table  the metatable of the type's storages

--- `kinds` maps names to tensor types, which are called kinds in this file; `list` contains all
--- kinds.
M.kinds, M.list = {}, {}
local by_dtype = {[false] = {}, [true] = {}}

for name, dtype in ([[Double=float64 Float=float32 Half=float16 Byte=uint8 Char=int8 Short=int16
   Int=int32 Long=int64]]):gmatch "(%w+)=(%w+)" do
   for _, cuda in ipairs {false, true} do
      local full = cuda and "Cuda" .. (name ~= "Float" and name or "") or name
      local kind = {name = full, dtype = dtype, cuda = cuda}
      M.kinds[full] = kind
      M.list[#M.list + 1] = kind
      by_dtype[cuda][dtype] = kind
   end
end
by_dtype[false].bool, by_dtype[true].bool = M.kinds.Byte, M.kinds.CudaByte
by_dtype[false].bfloat16 = M.kinds.Half

--- Maps the metatables of tensors and storages to the kind of their type.
M.kind_of_meta = {}

--- Returns the device for Torch7's Cuda types: the GPU, or the simulated device if there is no GPU.
---@return string
function M.cuda_device()
   if torch.cuda.is_available() then return "cuda" end
   if torch.sim.is_available() then return "sim" end
   torch.raise("torch7: Cuda types need a GPU, or the simulated device (make sim)")
end

--- Returns tlua's options for creating a tensor of a kind.
function M.place(kind)
   return {dtype = kind.dtype, device = kind.cuda and M.cuda_device() or "cpu"}
end

local is_tensor = torch.is_tensor
M.is_tensor = is_tensor

local function is_cpu(tensor) return field(tensor, "is_cpu") end

--- Returns the kind of a tensor.
---@param tensor Tensor
---@return torch7.Kind
function M.kind_of(tensor)
   return M.kind_of_meta[get_metatable(tensor)]
      or by_dtype[not is_cpu(tensor)][field(tensor, "dtype")]
end

-- tagged_by[is on the CPU][dtype] is the metatable of the tensors with this dtype.
local tagged_by = {[true] = {}, [false] = {}}

--- Gives a tensor the metatable of its type, and returns the tensor.
---@param tensor Tensor
---@return Tensor
function M.tag(tensor)
   local dtype = field(tensor, "dtype")
   local known = tagged_by[field(tensor, "is_cpu")][dtype]
   if known then return set_metatable(tensor, known) end
   if dtype == "bool" or dtype == "bfloat16" then
      tensor = methods.to(tensor, dtype == "bool" and "uint8" or "float32")
      dtype = field(tensor, "dtype")
   end
   local kind = by_dtype[not is_cpu(tensor)][dtype]
   if not kind then torch.raise(("torch7: there is no type for %s"):format(dtype)) end
   return set_metatable(tensor, kind.tensor)
end

--- Returns a tlua tensor that shares the elements of a Torch7 tensor and has no autograd history,
--- for code that calls tlua's methods.
---@param tensor Tensor
---@return Tensor
function M.untag(tensor) return torch.detach(tensor) end

-- Sizes --------------------------------------------------------------------------------------

local function whole(value, name)
   local n = math.tointeger(value)
   if not n then
      torch.raise(("torch.%s: expected sizes as integers, got %s"):format(name, tostring(value)))
   end
   return n
end

--- Returns sizes as a list. The caller gives them one by one, as a table or as a LongStorage.
function M.sizes(name, first, ...)
   local list = {}
   if type(first) == "table" then
      if first.elements then return methods.tolist(first.elements) end
      for i, size in ipairs(first) do list[i] = whole(size, name) end
      return list
   end
   for i = 1, select("#", first, ...) do list[i] = whole((select(i, first, ...)), name) end
   return list
end

-- Storages -----------------------------------------------------------------------------------

local function check_position(self, at, name)
   local n = field(self.elements, "shape")[1]
   local i = math.tointeger(at)
   if not i or i < 1 or i > n then
      torch.raise(("%s: %s: expected a position from 1 to %d, got %s"):format(self.__typename,
         name, n,
         tostring(at)))
   end
   return i
end

--- Creates a storage. `elements` is a vector with all its elements.
---@param kind torch7.Kind
---@param elements Tensor
---@return table
function M.storage(kind, elements) return setmetatable({elements = elements}, kind.storage) end

--- Returns a LongStorage with the integers of a list.
function M.longs(list) return M.storage(M.kinds.Long, torch.tensor(list, {dtype = "int64"})) end

local function new_storage(kind, first, second, third)
   local place = M.place(kind)
   -- The arguments are a storage, an offset and a size: the new storage is a part of the given
   -- storage.
   if type(first) == "table" and first.elements then
      local n = field(first.elements, "shape")[1]
      local offset = second or 1
      return M.storage(kind, torch.narrow(first.elements, 1, offset, third or n - offset + 1))
   elseif type(first) == "table" then
      return M.storage(kind, methods.to(torch.tensor(first, {dtype = "float64"}), kind.dtype))
   -- The argument is the name of a file. Torch7 would map the file into memory; here it is read.
   elseif type(first) == "string" then
      local file <close> = assert(io.open(first, "rb"))
      return M.storage(kind, torch.frombuffer(file:read "a", {dtype = kind.dtype}))
   end
   return M.storage(kind, torch.zeros(whole(first or 0, kind.name .. "Storage"), place))
end

local Storage = {}

function Storage:size() return field(self.elements, "shape")[1] end

function Storage:fill(value)
   methods.fill_(self.elements, value)
   return self
end

function Storage:copy(other)
   methods.copy_(self.elements, other.elements)
   return self
end

--- Moves the storage to new memory with another number of elements. Existing tensors over the
--- storage keep the old memory.
function Storage:resize(size)
   local n, old = whole(size, "Storage:resize"), self.elements
   local count = math.min(n, field(old, "shape")[1])
   self.elements = torch.empty(n, {dtype = field(old, "dtype"), device = field(old, "device")})
   methods.copy_(torch.narrow(self.elements, 1, 1, count), torch.narrow(old, 1, 1, count))
   return self
end

function Storage:totable() return methods.tolist(self.elements) end

function Storage:elementSize() return methods.element_size(self.elements) end

function Storage:type(name)
   if not name then return self.__typename end
   local kind = M.kinds[(name:match "^torch%.(%a+)Storage$" or "")]
   if not kind then torch.raise("Storage:type: there is no type " .. tostring(name)) end
   if kind.storage == getmetatable(self) then return self end
   return M.storage(kind, methods.to(torch.clone(self.elements), M.place(kind)))
end

function Storage:new(...) return new_storage(M.kind_of_meta[getmetatable(self)], ...) end

--- Returns the storage's bytes as a string. If a string is given, replaces the elements by its
--- bytes.
function Storage:string(text)
   if text then
      local bytes = #text > 0 and torch.io.bytes(text) or torch.empty(0, {dtype = "uint8"})
      self.elements = methods.to(bytes, field(self.elements, "dtype"))
      return self
   end
   local n = self:size()
   if n == 0 then return "" end
   return torch.io.text(methods.contiguous(methods.to(self.elements, "uint8")), 1, n)
end

function Storage:retain() end
function Storage:free() end

for name in ([[Double Float Half Byte Char Short Int Long]]):gmatch "%a+" do
   Storage[name:lower()] = function(self) return self:type("torch." .. name .. "Storage") end
end
Storage.cuda = function(self) return self:type("torch.CudaStorage") end

local function describe_storage(self)
   local lines = {}
   for i, value in ipairs(self:totable()) do lines[i] = (" %s"):format(value) end
   lines[#lines + 1] = ("[%s of size %d]\n"):format(self.__typename, self:size())
   return table.concat(lines, "\n")
end

local function define_storage(kind)
   local meta = classes.newmetatable("torch." .. kind.name .. "Storage", nil, function(...)
      return new_storage(kind, ...)
   end)
   for name, method in pairs(Storage) do meta[name] = method end
   meta.__index = function(self, key)
      if type(key) ~= "number" then return meta[key] end
      return methods.item(self.elements[check_position(self, key, "index")])
   end
   meta.__newindex = function(self, key, value)
      if type(key) ~= "number" then return rawset(self, key, value) end
      self.elements[check_position(self, key, "index")] = value
   end
   meta.__len, meta.__tostring = Storage.size, describe_storage
   meta.__eq = function(a, b)
      return M.storage_key(a) == M.storage_key(b)
   end
   kind.storage, M.kind_of_meta[meta] = meta, kind
end

--- Returns a key that identifies the memory: storages and tensors that share memory have equal
--- keys.
function M.storage_key(value)
   return torch._storage_key(is_tensor(value) and value or value.elements)
end

--- Returns whether a value is a Torch7 storage.
function M.is_storage(value)
   local meta = type(value) == "table" and getmetatable(value)
   local kind = meta and M.kind_of_meta[meta]
   return kind ~= nil and kind ~= false and kind.storage == meta
end

-- Tensors ------------------------------------------------------------------------------------

-- Returns a tensor that is a view of a storage. The arguments are (storage, offset, sizes, strides)
-- or (storage, offset, size 1, stride 1, ...).
local function over_storage(kind, storage, offset, sizes, strides, ...)
   local elements = storage.elements
   if offset == nil then offset = 1 end
   if sizes == nil then
      sizes, strides = {field(elements, "shape")[1] - offset + 1}, {1}
   elseif type(sizes) == "number" then
      local rest = {sizes, strides or -1, ...}
      sizes, strides = {}, {}
      for i = 1, #rest, 2 do
         sizes[#sizes + 1], strides[#strides + 1] = rest[i], rest[i + 1] or -1
      end
   else
      sizes = M.sizes("Tensor", sizes)
      strides = strides and M.sizes("Tensor", strides) or nil
   end
   local full, step = {}, 1
   for i = #sizes, 1, -1 do
      full[i] = strides and strides[i] >= 0 and strides[i] or step
      step = full[i] * sizes[i]
   end
   local made = torch.empty(0, {dtype = kind.dtype, device = field(elements, "device")})
   -- the storage may itself be a part of another storage, created by new_storage
   methods.set_(made, elements, methods.storage_offset(elements) + whole(offset, "Tensor") - 1,
      sizes, full)
   return made
end
M.over_storage = over_storage

local function of_table(kind, list)
   if #list == 0 and next(list) == nil then return torch.empty(0, M.place(kind)) end
   local made = torch.tensor(list, {dtype = kind.dtype == "int64" and "int64" or "float64"})
   return methods.to(made, M.place(kind))
end

-- Returns a new tensor of the given sizes. If `strides` is given, the tensor has these strides;
-- otherwise it is contiguous.
local function of_sizes(kind, sizes, strides)
   if not strides then return torch.empty(sizes, M.place(kind)) end
   local given, count = M.sizes("Tensor", strides), 1
   for d = 1, #sizes do
      count = given[d] < 0 and count * sizes[d] or count + (sizes[d] - 1) * given[d]
   end
   local storage = M.storage(kind, torch.empty({count}, M.place(kind)))
   return over_storage(kind, storage, 1, M.longs(sizes), M.longs(given))
end

--- Creates a tensor of the given kind. The arguments are those of Torch7's constructors: sizes, a
--- table of elements, a tensor (whose memory is shared) or a storage.
---@param kind torch7.Kind
---@param ... any
---@return Tensor
function M.new(kind, first, ...)
   local made
   if first == nil then
      made = torch.empty(0, M.place(kind))
   elseif is_tensor(first) then
      if field(first, "dtype") ~= kind.dtype then
         torch.raise(("torch.%sTensor: expected a tensor of this type, got one of %s"):format(
            kind.name, field(first, "dtype")))
      end
      made = torch.detach(first)
   elseif M.is_storage(first) then
      if kind.name ~= "Long" and M.kind_of_meta[getmetatable(first)].name == "Long" then
         made = of_sizes(kind, M.sizes("Tensor", first), ...)
      else
         made = over_storage(kind, first, ...)
      end
   elseif type(first) == "table" then
      made = of_table(kind, first)
   else
      made = torch.empty(M.sizes(kind.name .. "Tensor", first, ...), M.place(kind))
   end
   return set_metatable(made, kind.tensor)
end

--- The methods of all Torch7 tensors. Other files add methods to this table before `install` is
--- called.
M.Tensor = {}

local function define_tensor(kind)
   local meta = classes.newmetatable("torch." .. kind.name .. "Tensor", nil, function(...)
      return M.new(kind, ...)
   end)
   meta.__gc, meta.__close = native.__gc, native.__close
   meta.__name = meta.__typename
   kind.tensor, M.kind_of_meta[meta] = meta, kind
   tagged_by[not kind.cuda][kind.dtype] = meta
end

for _, kind in ipairs(M.list) do
   define_storage(kind)
   define_tensor(kind)
end

--- Gives all types the methods of M.Tensor. Names with two leading underscores are metamethods.
function M.install()
   for _, kind in ipairs(M.list) do
      for name, method in pairs(M.Tensor) do rawset(kind.tensor, name, method) end
      rawset(kind.tensor, "new", function(first, ...)
         -- x:new() returns another tensor that shares the elements of x, and x:new(2, 3) returns a
         -- new tensor of these sizes.
         if is_tensor(first) and select("#", ...) > 0 then return M.new(kind, ...) end
         return M.new(kind, first, ...)
      end)
   end
end

-- Default type -------------------------------------------------------------------------------

M.default = M.kinds.Double

--- Returns the kind for a type's name, such as "torch.FloatTensor".
---@param name string
---@return torch7.Kind?
function M.kind_named(name)
   return type(name) == "string" and M.kinds[name:match "^torch%.(%a+)Tensor$" or ""] or nil
end

return M
