-- rebuild.lua - the complete list of classes and functions that a checkpoint of PyTorch may name,
-- each with a function that builds its tensor or plain data. No other name is ever looked up.
--
-- Each function gets the machine of pickle.lua, and the arguments from the pickle, in which
-- rebuild.none stands for None.

local torch = require "tlua"
local quantized = require "tlua.io.quantized"
local source = require "tlua.io.source"

local M = {}

--- The metatable of the machine's own objects: classes, storages, None and marks.
M.Special = {__name = "pickle.Special"}

--- Represents Python's None.
M.none = setmetatable({}, M.Special)

--- Maps dtypes to the names of PyTorch's storage classes.
M.storages = {
   float32 = "FloatStorage", float64 = "DoubleStorage", float16 = "HalfStorage",
   bfloat16 = "BFloat16Storage", int64 = "LongStorage", int32 = "IntStorage",
   int16 = "ShortStorage", int8 = "CharStorage", uint8 = "ByteStorage", bool = "BoolStorage",
   complex64 = "ComplexFloatStorage", complex128 = "ComplexDoubleStorage",
}

-- Maps dtypes for which PyTorch has no storage class to the widths of their elements in bytes.
-- Their storages have bytes as elements.
local untyped <const> = {
   float8_e4m3fn = 1, float8_e5m2 = 1, float8_e4m3fnuz = 1, float8_e5m2fnuz = 1,
   float8_e8m0fnu = 1, uint16 = 2, uint32 = 4, uint64 = 8,
   complex32 = 4,
}

--- Returns an object of the pickle machine that represents a storage.
---@param tensor Tensor  all of the storage's elements, (n)
---@param dtype? string  the dtype of the quantized tensor whose integers the storage contains
---@return table
function M.storage(tensor, dtype)
   return setmetatable({storage = tensor, quantized = dtype}, M.Special)
end

local function is_storage(value)
   return getmetatable(value) == M.Special and value.storage ~= nil
end

-- Tensors ------------------------------------------------------------------------------------

local max_dims <const> = 16

-- Checks a tuple of sizes or strides, and returns a copy of it as a list.
local function check_sizes(m, tuple, what)
   local n = m.kind[tuple] and m.length[tuple] or #(m.kind[tuple] and tuple or {})
   if not m.kind[tuple] or n > max_dims then source.fail("a tensor's %s is no tuple", what) end
   local sizes = {}
   for i = 1, n do
      local size = tuple[i]
      if math.type(size) ~= "integer" or size < 0 or size > 1 << 53 then
         source.fail("a tensor's %s has an impossible number", what)
      end
      sizes[i] = size
   end
   return sizes
end

-- Raises an error unless all elements lie in a storage of n elements. Returns whether the tensor is
-- empty.
local function check_extent(offset, size, stride, n)
   local last, elements = offset, 1
   for i = 1, #size do
      if size[i] == 0 then return true end
   end
   for i = 1, #size do
      local far = stride[i] > 0 and size[i] - 1 > n // stride[i]
      last = far and n or last + (size[i] - 1) * stride[i]
      if last >= n then
         source.fail("a tensor of size {%s} lies outside of its storage of %d elements",
            table.concat(size, ", "), n)
      end
      if elements > (1 << 53) // size[i] then source.fail "a tensor is too large" end
      elements = elements * size[i]
   end
   if last >= n then source.fail "a tensor lies outside of its storage, which is empty" end
   return false
end

local function with_gradient(tensor, requires_grad)
   if requires_grad ~= true then return tensor end
   if not tensor:is_floating_point() then
      source.fail("a tensor of %s requires a gradient", tensor.dtype)
   end
   return tensor:requires_grad_(true)
end

local known = {} -- maps "module name" to function(machine, arguments...)

known["torch._utils _rebuild_tensor"] = function(m, storage, offset, size, stride)
   if not is_storage(storage) then source.fail "a tensor has no storage" end
   size, stride = check_sizes(m, size, "size"), check_sizes(m, stride, "stride")
   if math.type(offset) ~= "integer" or offset < 0 or #size ~= #stride then
      source.fail "a tensor's geometry makes no sense"
   end
   local all = storage.storage
   if check_extent(offset, size, stride, all:numel()) then
      return all:narrow(1, 1, 0):reshape(size)
   end
   return all:as_strided(size, stride, all:storage_offset() + offset)
end

-- Builds a view of a storage. `bits` is a dictionary that marks a view with a changed sign, such as
-- the imaginary part of a conjugate.
known["torch._utils _rebuild_tensor_v2"] = function(m, storage, offset, size, stride, grad, _, bits)
   local tensor = known["torch._utils _rebuild_tensor"](m, storage, offset, size, stride)
   if m.kind[bits] == "dict" and bits.neg == true then tensor = tensor:neg() end
   return with_gradient(tensor, grad)
end

-- Builds a view of a storage that is named without a dtype.
known["torch._utils _rebuild_tensor_v3"] = function(m, storage, offset, size, stride, grad, _, of)
   local bytes = getmetatable(storage) == M.Special and storage.bytes
   local width = untyped[of]
   if not bytes or not width then source.fail "a tensor has no storage of bytes, or no dtype" end
   local all = M.storage(bytes(of, width))
   return known["torch._utils _rebuild_tensor_v2"](m, all, offset, size, stride, grad)
end

known["torch._utils _rebuild_parameter"] = function(_, data, requires_grad)
   if not torch.is_tensor(data) then source.fail "a parameter is not a tensor" end
   if requires_grad == true and not data:is_floating_point() then
      source.fail("a parameter of %s requires a gradient", data.dtype)
   end
   return torch.nn.Parameter(data, requires_grad == true)
end

known["torch.serialization _get_layout"] = function(_, name)
   local layout = type(name) == "string" and name:match "^torch%.(sparse_%l+)$"
   return layout or source.fail "a tensor of an unknown layout"
end

known["torch._utils _rebuild_sparse_tensor"] = function(m, layout, data)
   local kind = m.kind[data]
   if kind ~= "tuple" and kind ~= "inner" then source.fail "a sparse tensor is made of no tuple" end
   m:charge(m.length[data])
   local s, why = require "tlua.io.sparse".rebuild(layout, data)
   return s or source.fail(why)
end

known["torch.nested._internal.nested_tensor _rebuild_njt"] = function(m, given)
   if m.kind[given] ~= "dict" then source.fail "a nested tensor is made of no dictionary" end
   local x, why = require "tlua.io.nested".rebuild(given)
   return x or source.fail(why)
end

-- Builds a quantized tensor. `parameters` is a tuple: (scheme, scale, zero point), or for channels
-- (scheme, scales, zero points, axis), where the axis counts from 0.
known["torch._utils _rebuild_qtensor"] = function(m, storage, offset, size, stride, parameters)
   local dtype = is_storage(storage) and storage.quantized
   local scheme = m.kind[parameters] and parameters[1]
   local channels = scheme == "per_channel_affine"
   if not dtype or not channels and scheme ~= "per_tensor_affine" then
      source.fail "a quantized tensor of an unknown kind"
   end
   local axis = parameters[4]
   if channels and (math.type(axis) ~= "integer" or axis < 0) then
      source.fail "a quantized tensor has no axis"
   end
   local x, why = require "tlua.io.quantized".rebuild {
      integers = known["torch._utils _rebuild_tensor"](m, storage, offset, size, stride),
      dtype = dtype, scale = parameters[2], zero_point = parameters[3],
      axis = channels and axis + 1 or nil,
   }
   return x or source.fail(why)
end

-- Builds a tensor that has attributes or belongs to a class derived from Tensor; the result is a
-- plain tensor.
known["torch._tensor _rebuild_from_type_v2"] = function(m, class, _, arguments)
   local kind = m.kind[arguments]
   local fits = getmetatable(class) == M.Special and class.tensor
   if not fits or kind ~= "tuple" and kind ~= "inner" then
      source.fail "a tensor of no known kind"
   end
   return class.call(m, table.unpack(arguments, 1, math.min(m.length[arguments], 8)))
end

-- Plain data ---------------------------------------------------------------------------------

-- Builds OrderedDict(pairs), which is usually called without pairs and filled afterwards.
known["collections OrderedDict"] = function(m, pairs_of)
   local dictionary = {}
   m.kind[dictionary] = "dict"
   if pairs_of == nil then return dictionary end
   if m.kind[pairs_of] ~= "list" then source.fail "a dictionary is made of no list" end
   local n = m.length[pairs_of] or 0
   m:charge(n)
   for i = 1, n do
      local pair = pairs_of[i]
      if m.kind[pair] ~= "tuple" and m.kind[pair] ~= "list" then
         source.fail "a dictionary is made of values that are not pairs"
      end
      if pair[1] ~= nil then m:set(dictionary, pair[1], pair[2]) end
   end
   return dictionary
end

-- Returns a function that returns its argument, which must be a container of the given kind, or a
-- new container without an argument. It is used for Counter(dict) and set(list).
local function itself(kind)
   return function(m, value)
      if value == nil then
         value = {}
         m.kind[value] = kind
      end
      if m.kind[value] ~= kind then source.fail("a %s is made of another value", kind) end
      return value
   end
end
known["collections Counter"] = itself "dict"
known["builtins set"] = itself "list"
known["__builtin__ set"] = known["builtins set"]

known["torch Size"] = function(m, sizes)
   if m.kind[sizes] == "tuple" or m.kind[sizes] == "list" then return sizes end
   source.fail "a size is made of no tuple"
end

known["torch device"] = function(_, kind, index)
   if type(kind) ~= "string" then source.fail "a device has no name" end
   local name = math.type(index) == "integer" and ("%s:%d"):format(kind, index) or kind
   return torch._to_device(name) or name
end

-- Builds bytes, which protocol 2 stores as text with the same code points.
known["_codecs encode"] = function(m, text)
   if type(text) ~= "string" or not utf8.len(text) then source.fail "bytes are made of no text" end
   m:charge(#text)
   return (text:gsub(utf8.charpattern, function(letter)
      local byte = utf8.codepoint(letter)
      if byte > 255 then source.fail "bytes are made of a text of other letters" end
      return string.char(byte)
   end))
end
known["builtins bytearray"] = function(m, text)
   return text and known["_codecs encode"](m, text) or ""
end
known["__builtin__ bytearray"] = known["builtins bytearray"]
known["builtins bytes"] = known["builtins bytearray"]
known["__builtin__ bytes"] = known["builtins bytearray"]

-- Names ----------------------------------------------------------------------------------------

local specials = {}
for name, call in pairs(known) do
   local makes_tensor = name:find "_rebuild_tensor" ~= nil or name:find "_rebuild_njt" ~= nil
   specials[name] = setmetatable({call = call, tensor = makes_tensor}, M.Special)
end
for dtype, name in pairs(M.storages) do
   specials["torch " .. name] = setmetatable({dtype = dtype}, M.Special)
end
for dtype, name in pairs(quantized.storages) do
   local integers = quantized.integers_dtype(dtype)
   specials["torch " .. name] = setmetatable({dtype = integers, quantized = dtype}, M.Special)
end
-- These classes occur only as arguments of the call that builds an object of the class.
for _, name in ipairs {"torch Tensor", "torch.nn.parameter Parameter",
   "torch.nested._internal.nested_tensor NestedTensor"} do
   specials[name] = setmetatable({}, M.Special)
end

specials["torch.storage UntypedStorage"] = setmetatable({untyped = true}, M.Special)

local dtypes <const> = {
   ["torch per_tensor_affine"] = "per_tensor_affine",
   ["torch per_channel_affine"] = "per_channel_affine",
}
for dtype in pairs(quantized.storages) do dtypes["torch " .. dtype] = dtype end
for dtype in pairs(M.storages) do dtypes["torch " .. dtype] = dtype end
for dtype in pairs(untyped) do dtypes["torch " .. dtype] = dtype end

--- Returns the machine's object for a class or function that the pickle names, or the name of a
--- dtype or of a scheme of quantization.
---@param module string
---@param name string
---@return table|string
function M.find(module, name)
   local key = module .. " " .. name
   return specials[key] or dtypes[key]
      or source.fail("the class %s.%s is refused: only tensors and plain data are read", module,
         name)
end

return M
