-- storage.lua - x:untyped_storage() and x:storage(): the memory that a tensor and its views share,
-- as a list of bytes or of elements. Positions count from 1.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"

local M = {}

--- The bytes of a tensor's memory.
---
---     local bytes = torch.tensor({1, 2}, {dtype = "int16"}):untyped_storage()
---     print(bytes.dtype, bytes:nbytes(), bytes[1])
---     --> uint8	4	1
---@class torch.UntypedStorage
---@field dtype string  the elements' dtype; "uint8" for bytes
---@field device torch.device  the device whose memory contains the bytes
---@field is_cuda boolean  whether that is a CUDA device
local UntypedStorage = class.class "torch.UntypedStorage"

--- The elements of a tensor's memory.
---
---     local x = torch.tensor {1.5, 2.5}
---     local elements = x:storage()
---     elements[1] = 7
---     print(#elements, elements.dtype, x)
---     --> 2	float32	tensor([7.0000, 2.5000])
---@class torch.TypedStorage: torch.UntypedStorage
local TypedStorage = class.class("torch.TypedStorage", UntypedStorage)

M.UntypedStorage, M.TypedStorage = UntypedStorage, TypedStorage

local function adopt(kind, elements)
   local self = setmetatable({}, kind)
   self._elements = elements -- a vector of the elements of the whole storage
   self.dtype, self.device, self.is_cuda = elements.dtype, elements.device, elements.is_cuda
   return self
end

-- Returns the storage of a tensor: as bytes if `untyped` is true, otherwise as elements.
local function of(tensor, untyped)
   return adopt(untyped and UntypedStorage or TypedStorage,
      torch._storage_view(tensor, untyped))
end

--- Returns the storage of a tensor as bytes. All views of a tensor have the same storage.
---@param tensor Tensor
---@return torch.UntypedStorage
function M.untyped_storage(tensor) return of(tensor, true) end

--- Returns the storage of a tensor as elements of the tensor's dtype.
---@param tensor Tensor
---@return torch.TypedStorage
function M.storage(tensor) return of(tensor, false) end

--- Returns whether a value is a storage.
---@param value any
---@return boolean
function M.is_storage(value) return torch.isinstance(value, UntypedStorage) end

-- Returns whether two tensors share memory and have the same sizes and strides.
function M.is_set_to(self, tensor)
   local function same(a, b)
      for i = 1, #a do
         if a[i] ~= b[i] then return false end
      end
      return #a == #b
   end
   return self.dtype == tensor.dtype and self:storage_offset() == tensor:storage_offset()
      and M.untyped_storage(self):data_ptr() == M.untyped_storage(tensor):data_ptr()
      and same(self.shape, tensor.shape) and same(self:stride(), tensor:stride())
end

-- Returns -1 if dimension a is inner to dimension b in memory, 1 if b is inner to a, and 0 if the
-- strides do not determine the order.
local function compare(shape, strides, a, b)
   local first, second = strides[a], strides[b]
   if first == 0 or second == 0 then return 0 end
   if first ~= second then return first < second and -1 or 1 end
   return shape[a] > shape[b] and 1 or 0
end

-- Returns the dimensions from the outermost to the innermost in memory. Dimensions whose strides do
-- not determine their order stay in the order of the shape, as in PyTorch.
function M.dim_order(self)
   -- `order` begins with the innermost dimension until it is reversed at the end.
   local shape, strides, order = self.shape, self:stride(), {}
   local n = #shape
   local is_contiguous = self:is_contiguous()
   for i = 1, n do order[i] = is_contiguous and i or n + 1 - i end
   if is_contiguous then return order end
   for i = 2, n do
      local at = i
      for j = i - 1, 1, -1 do
         local which = compare(shape, strides, order[j], order[at])
         if which == 1 then
            order[j], order[at] = order[at], order[j]
            at = j
         elseif which == -1 then
            break
         end
      end
   end
   for i = 1, n // 2 do order[i], order[n + 1 - i] = order[n + 1 - i], order[i] end
   return order
end

checked.functions(M, "", [[untyped_storage(tensor: tensor) storage(tensor: tensor)
   is_storage(value: any?) is_set_to(self: tensor, tensor: tensor) dim_order(self: tensor)]])

local function title(self) return self.__name:gsub("^torch%.", "") end

local function make(kind, dtype, name, given, ...)
   for i = 1, select("#", ...) do
      local more = select(i, ...)
      if more ~= nil then args.refuse(name, "further argument", "none", more) end
   end
   if given == nil then given = 0 end
   if type(given) == "table" and not getmetatable(given) then
      local ok, made = pcall(torch.tensor, given, {dtype = dtype, device = "cpu"})
      if not ok then
         torch.raise(("%s: %s"):format(name, tostring(made):gsub("^.-tensor: ", "")))
      end
      return adopt(kind, made:flatten())
   end
   if math.type(given) ~= "integer" or given < 0 then
      args.refuse(name, "size", "an integer of at least 0, or a list of elements", given)
   end
   return adopt(kind, torch.zeros(given, {dtype = dtype, device = "cpu"}))
end

function UntypedStorage:__init(...)
   local made = make(UntypedStorage, "uint8", "UntypedStorage", ...)
   for key, value in pairs(made) do self[key] = value end
end

function TypedStorage:__init()
   torch.raise "TypedStorage: expected x:storage(), or torch.FloatStorage(size) and the like"
end

-- Returns a value such as torch.FloatStorage: it can be called with a size or a list to make a
-- storage, and torch.isinstance accepts it as a class.
local function of_dtype(name, dtype)
   return setmetatable({}, {
      __call = function(_, ...) return make(TypedStorage, dtype, name, ...) end,
      __tostring = function() return "torch." .. name end,
      holds = function(value)
         return torch.isinstance(value, TypedStorage) and value.dtype == dtype
      end,
   })
end

--- Makes a storage of the dtype in the function's name from a number of elements, which are all 0,
--- or from a list of elements.
---@names torch.FloatStorage torch.DoubleStorage torch.HalfStorage torch.BFloat16Storage
---@names torch.CharStorage torch.ByteStorage torch.ShortStorage torch.IntStorage torch.LongStorage
---@names torch.BoolStorage
---@param given integer|number[]
---@return torch.TypedStorage
for name, dtype in pairs {
   Float = "float32", Double = "float64", Half = "float16", BFloat16 = "bfloat16", Char = "int8",
   Byte = "uint8", Short = "int16", Int = "int32", Long = "int64", Bool = "bool",
} do
   M[name .. "Storage"] = of_dtype(name .. "Storage", dtype)
end

-- Questions -----------------------------------------------------------------------------------

--- Returns the storage's size in bytes.
---@return integer
function UntypedStorage:nbytes() return self._elements.nbytes end

--- Returns the number of elements in the storage; the elements of an untyped storage are bytes.
---@return integer
function UntypedStorage:size() return self._elements:numel() end
UntypedStorage.__len = UntypedStorage.size

--- Returns the size of an element in bytes.
---@return integer
function UntypedStorage:element_size() return self._elements:element_size() end

--- Returns the address of the first element.
---@return integer
function UntypedStorage:data_ptr() return self._elements:data_ptr() end

--- Returns whether the storage is in page-locked memory.
---@return boolean
function UntypedStorage:is_pinned() return self._elements:is_pinned() end

--- Returns the device's index; -1 for the CPU.
---@return integer
function UntypedStorage:get_device() return self._elements:get_device() end

--- Returns whether two values are the same storage. If they are, both see every change of an
--- element.
function UntypedStorage:__eq(other)
   return M.is_storage(self) and M.is_storage(other)
      and torch._storage_key(self._elements) == torch._storage_key(other._elements)
end

function UntypedStorage:__tostring()
   local typed = self.__name ~= "torch.UntypedStorage"
   return ("[torch.storage.%s(%sdevice=%s) of size %d]"):format(title(self),
      typed and "dtype=torch." .. self.dtype .. ", " or "", self.device, self:size())
end

--- Returns the elements as a list of numbers.
---@return number[]
function UntypedStorage:tolist() return self._elements:tolist() end

--- Returns the untyped storage of the same memory.
---@return torch.UntypedStorage
function TypedStorage:untyped() return of(self._elements, true) end

-- Elements ------------------------------------------------------------------------------------

local function check_position(self, at)
   if math.type(at) ~= "integer" or at < 1 or at > self:size() then
      args.refuse(title(self), "position", ("an integer from 1 to %d"):format(self:size()), at)
   end
end

local function index_of(kind)
   local methods = kind.__index
   return function(self, key)
      if type(key) ~= "number" then
         if type(methods) == "function" then return methods(self, key) end
         return methods[key]
      end
      check_position(self, key)
      return self._elements[key]:item()
   end
end

for _, kind in ipairs {UntypedStorage, TypedStorage} do
   kind.__index = index_of(kind)
   kind.__len, kind.__eq = UntypedStorage.__len, UntypedStorage.__eq
   kind.__tostring = UntypedStorage.__tostring
   function kind:__newindex(key, value)
      if type(key) ~= "number" then return rawset(self, key, value) end
      check_position(self, key)
      self._elements[key] = value
   end
end

--- Sets all elements to a number.
---@param value number
---@return torch.UntypedStorage self
function UntypedStorage:fill_(value)
   self._elements:fill_(value)
   return self
end

--- Copies another storage of the same number of elements into this one.
---@param source torch.UntypedStorage
---@return torch.UntypedStorage self
function UntypedStorage:copy_(source)
   if not M.is_storage(source) or source:size() ~= self:size() then
      args.refuse(title(self) .. ":copy_", "source", ("a storage of %d elements"):format(
         self:size()), source)
   end
   self._elements:copy_(source._elements)
   return self
end

--- Returns a separate storage with the same values.
---@return torch.UntypedStorage
function UntypedStorage:clone() return adopt(getmetatable(self), self._elements:clone()) end

--- Returns a copy of the storage on a device; the storage itself is returned if it is already
--- there.
---@param device string|torch.device
---@return torch.UntypedStorage
function UntypedStorage:to(device)
   local device_of = torch._to_device(device)
   if not device_of then args.refuse(title(self) .. ":to", "device", "a device", device) end
   if device_of == self.device then return self end
   return adopt(getmetatable(self), self._elements:to(device))
end

--- Returns a copy of the storage in the CPU's memory; the storage itself is returned if it is
--- already there.
---@return torch.UntypedStorage
function UntypedStorage:cpu() return self:to "cpu" end

--- Returns a copy of the storage on a CUDA device; the storage itself is returned if it is already
--- there.
---@return torch.UntypedStorage
function UntypedStorage:cuda() return self:to "cuda" end

--- Raises an error, because tensors rely on the size of their memory.
function UntypedStorage:resize_()
   torch.raise(title(self) .. ":resize_: the size of a tensor's memory does not change; "
      .. "x:resize_(...) gives a tensor other memory, and x.data = torch.empty(0) lets go of it")
end

return M
