-- tensor.lua - the methods of Torch7's tensors that are not mathematical: sizes, views, indexing,
-- copies and types.

local torch = require "tlua"
local types = require "tlua.torch7.types"
local op = require "tlua.torch7.dispatch".op
local pointers = require "tlua.torch7.pointers"

local T, field, methods = torch, types.field, types.methods
local is_tensor = types.is_tensor
local set_metatable, get_metatable = debug.setmetatable, debug.getmetatable
local Tensor = types.Tensor

local function same(x, result) return set_metatable(result, get_metatable(x)) end

local function numel(x) return methods.numel(x) end

-- Returns the sizes of a tensor. In Torch7, a tensor without elements has no dimensions.
local function shape(x)
   return numel(x) == 0 and {} or field(x, "shape")
end

-- Sizes ------------------------------------------------------------------------------------------

function Tensor:dim() return #shape(self) end
Tensor.nDimension = Tensor.dim

local function check_dim(name, x, d)
   local n = #shape(x)
   local whole = math.tointeger(d)
   if not whole or whole < 1 or whole > n then
      torch.raise(("%s: expected a dimension from 1 to %d, got %s"):format(name, n, tostring(d)))
   end
   return whole
end

function Tensor:size(d)
   if d == nil then return types.longs(shape(self)) end
   return shape(self)[check_dim("size", self, d)]
end
Tensor.__len = function(x) return Tensor.size(x) end

function Tensor:stride(d)
   if d == nil then return types.longs(numel(self) == 0 and {} or methods.stride(self)) end
   return methods.stride(self)[check_dim("stride", self, d)]
end

Tensor.nElement, Tensor.numel = numel, numel

function Tensor:isContiguous() return methods.is_contiguous(self) end

local function equal_lists(a, b)
   if #a ~= #b then return false end
   for i = 1, #a do
      if a[i] ~= b[i] then return false end
   end
   return true
end

function Tensor:isSameSizeAs(other) return equal_lists(shape(self), shape(other)) end

function Tensor:isSize(storage) return equal_lists(shape(self), types.sizes("isSize", storage)) end

function Tensor:isSetTo(other)
   return types.storage_key(self) == types.storage_key(other)
      and methods.storage_offset(self) == methods.storage_offset(other)
      and equal_lists(shape(self), shape(other))
      and equal_lists(methods.stride(self), methods.stride(other))
end

-- Storage ----------------------------------------------------------------------------------------

function Tensor:storage()
   return types.storage(types.kind_of(self), T._storage_view(self, false))
end

function Tensor:storageOffset() return methods.storage_offset(self) + 1 end

function Tensor:elementSize() return methods.element_size(self) end

function Tensor:resize(first, ...)
   local sizes
   if types.is_storage(first) and types.is_storage((...)) then -- the arguments are (sizes, strides)
      sizes = types.sizes("resize", first)
      local strides, last = types.sizes("resize", (...)), 1
      for i, size in ipairs(sizes) do last = last + (size - 1) * strides[i] end
      methods.resize_(self, {last})
      methods.as_strided_(self, sizes, strides)
      return self
   end
   sizes = types.sizes("resize", first, ...)
   if #sizes == 0 then sizes = {0} end
   if not (methods.is_contiguous(self) and equal_lists(shape(self), sizes)) then
      methods.resize_(self, sizes)
   end
   return self
end

function Tensor:resizeAs(other)
   local sizes = shape(other)
   if not equal_lists(sizes, shape(self)) then
      methods.resize_(self, #sizes > 0 and sizes or {0})
   end
   return self
end

function Tensor:set(source, ...)
   if source == nil then
      methods.set_(self, T.empty(0, {dtype = field(self, "dtype"), device = field(self, "device")}))
   elseif is_tensor(source) then
      methods.set_(self, source)
   else
      methods.set_(self, types.over_storage(types.kind_of(self), source, ...))
   end
   return self
end

-- Copies and types --------------------------------------------------------------------------------

function Tensor:clone() return same(self, T.clone(self)) end

function Tensor:contiguous()
   if methods.is_contiguous(self) then return self end
   return same(self, methods.contiguous(self))
end

-- Copies the elements of `source` to this tensor. The type, shape and device may differ, but not
-- the number of elements.
function Tensor:copy(source)
   if is_tensor(source) and not equal_lists(field(self, "shape"), field(source, "shape")) then
      if numel(source) ~= numel(self) then
         torch.raise(("copy: expected %d elements, got %d"):format(numel(self), numel(source)))
      end
      source = methods.reshape(source, field(self, "shape"))
   end
   methods.copy_(self, source)
   return self
end

function Tensor:fill(value)
   methods.fill_(self, value)
   return self
end

function Tensor:zero()
   methods.zero_(self)
   return self
end

-- Converts a tensor to a kind. If the tensor already has this kind, returns it without a copy.
local function convert(x, kind)
   if types.kind_of(x) == kind then return x end
   return set_metatable(methods.to(T.detach(x), types.place(kind)), kind.tensor)
end

function Tensor:type(name)
   if name == nil then return types.kind_of(self).tensor.__typename end
   local kind = types.kind_named(name)
   if not kind then torch.raise("type: there is no tensor type " .. tostring(name)) end
   return convert(self, kind)
end

function Tensor:typeAs(other) return convert(self, types.kind_of(other)) end

for name in ([[Double Float Half Byte Char Short Int Long]]):gmatch "%a+" do
   local method = name:lower()
   Tensor[method] = function(self) return convert(self, types.kinds[name]) end
   Tensor["cuda" .. name] = function(self)
      return convert(self, types.kinds[name == "Float" and "Cuda" or "Cuda" .. name])
   end
end

function Tensor:cuda() return convert(self, types.kinds.Cuda) end

function Tensor:totable() return numel(self) == 0 and {} or methods.tolist(self) end

function Tensor:retain() end
function Tensor:free() end

function Tensor:cdata() return types.storage_key(self) end

--- Returns a pointer to the first element. Its elements count from 0, as with LuaJIT's pointers.
function Tensor:data() return pointers.to(self, methods.storage_offset(self)) end

for _, kind in ipairs(types.list) do
   kind.storage.data = function(self)
      return pointers.to(self.elements, methods.storage_offset(self.elements))
   end
end

-- Views ------------------------------------------------------------------------------------------

-- Declares an operator that returns a view of its argument. Torch7 also had forms such as
-- x:narrow([res,] ...), in which a tensor receives the result; this operator has no such form.
local function view_op(name, patterns) op(name, patterns, {results = 0}) end

function Tensor:narrow(d, first, size)
   d = check_dim("narrow", self, d)
   return same(self, T.narrow(self, d, first, size))
end

function Tensor:select(d, i)
   d = check_dim("select", self, d)
   local part = T.select(self, d, i)
   if #field(part, "shape") == 0 then return methods.item(part) end
   return same(self, part)
end

-- Returns a view of the range from `first` to `last` in each dimension: x:sub(first1, last1,
-- first2, last2, ...).
function Tensor:sub(...)
   local bounds, x = {...}, self
   for d = 1, #bounds // 2 do
      local first, last = bounds[2 * d - 1], bounds[2 * d]
      local size = shape(self)[check_dim("sub", self, d)]
      if first < 0 then first = size + first + 1 end
      if last < 0 then last = size + last + 1 end
      x = T.narrow(x, d, first, last - first + 1)
   end
   return same(self, x == self and T.detach(x) or x)
end

view_op("t", {T = function(x)
   if #shape(x) ~= 2 then
      torch.raise(("t: expected a matrix, got %d dimensions"):format(#shape(x)))
   end
   return T.t(x)
end})
view_op("transpose", {Tnn = T.transpose})
view_op("permute", {["Tn Tnn Tnnn Tnnnn Tnnnnn Tnnnnnn"] = function(x, ...) return T.permute(x,
   {...}) end})
view_op("unfold", {Tnnn = methods.unfold})

local function at_least_one(x) return #field(x, "shape") == 0 and T.unsqueeze(x, 1) or x end

local function squeeze(x, d)
   if d then return at_least_one(T.squeeze(x, d)) end
   return at_least_one(T.squeeze(x))
end
op("squeeze", {["T Tn"] = function(x, d)
   local result = squeeze(x, d)
   if not d and numel(x) == 1 then return methods.item(result) end
   return result
end})
op("unsqueeze", {Tn = T.unsqueeze})

local function view(x, ...) return methods.view(x, types.sizes("view", ...)) end

-- x:view(sizes) returns a view of x; result:view(x, sizes) makes `result` a view of x.
function Tensor:view(first, ...)
   if is_tensor(first) then
      methods.set_(self, view(first, ...))
      return self
   end
   return same(self, view(self, first, ...))
end

function Tensor:viewAs(first, second)
   if second then return Tensor.view(self, first, shape(second)) end
   return Tensor.view(self, shape(first))
end

local function expand(x, ...) return methods.expand(x, types.sizes("expand", ...)) end

function Tensor:expand(first, ...)
   if is_tensor(first) then
      methods.set_(self, expand(first, ...))
      return self
   end
   return same(self, expand(self, first, ...))
end

function Tensor:expandAs(first, second)
   if second then return Tensor.expand(self, first, shape(second)) end
   return Tensor.expand(self, shape(first))
end

local function tile(x, ...)
   local times = types.sizes("repeatTensor", ...)
   return methods["repeat"](x, times)
end
function Tensor:repeatTensor(first, ...)
   if is_tensor(first) then return require "tlua.torch7.dispatch".store(self, tile(first, ...)) end
   return same(self, tile(self, first, ...))
end

local function tag_list(x, list)
   for _, part in ipairs(list) do same(x, part) end
   return list
end

-- Copies a list into `target`, the table that the caller has given for results. If there is no such
-- table, returns the list itself.
local function into(target, list)
   if not target then return list end
   for i = 1, math.max(#target, #list) do target[i] = list[i] end
   return target
end

local function parts(divide)
   return function(first, ...)
      if type(first) == "table" then return into(first, divide(...)) end
      return divide(first, ...)
   end
end

Tensor.split = parts(function(x, size, d)
   return tag_list(x, T.split(x, size, d or 1))
end)
Tensor.chunk = parts(function(x, n, d) return tag_list(x, T.chunk(x, n, d or 1)) end)

-- Elements by position ----------------------------------------------------------------------------

-- Returns positions as a tensor on the device of `like`, because cutorch also accepted positions on
-- the CPU.
local function index_of(positions, like)
   local place = {dtype = "int64", device = field(like, "device")}
   if is_tensor(positions) then return methods.to(positions, place) end
   return T.tensor(positions, place)
end

op("index", {TnT = function(x, d, positions)
   return T.index_select(x, d, index_of(positions, x))
end})
op("gather", {TnT = function(x, d, positions)
   return T.gather(x, d, index_of(positions, x))
end})

function Tensor:indexCopy(d, positions, source)
   methods.index_copy_(self, d, index_of(positions, self), source)
   return self
end

function Tensor:indexAdd(d, positions, source)
   methods.index_add_(self, d, index_of(positions, self), source)
   return self
end

function Tensor:indexFill(d, positions, value)
   methods.index_fill_(self, d, index_of(positions, self), value)
   return self
end

function Tensor:scatter(d, positions, source)
   methods.scatter_(self, d, index_of(positions, self), source)
   return self
end

function Tensor:scatterAdd(d, positions, source)
   methods.scatter_add_(self, d, index_of(positions, self), source)
   return self
end

local function mask_of(x, mask)
   if not is_tensor(mask) then
      torch.raise("mask: expected a ByteTensor, got " .. type(mask))
   end
   if numel(mask) == numel(x) then mask = T.reshape(mask, field(x, "shape")) end
   return methods.to(mask, {dtype = "bool", device = field(x, "device")})
end

op("maskedSelect", {TT = function(x, mask) return T.masked_select(x, mask_of(x, mask)) end})

function Tensor:maskedFill(mask, value)
   methods.masked_fill_(self, mask_of(self, mask), value)
   return self
end

function Tensor:maskedCopy(mask, source)
   methods.masked_scatter_(self, mask_of(self, mask), methods.to(source, field(self, "dtype")))
   return self
end

op("nonzero", {T = function(x) return T.nonzero(x) end})

-- Functions of elements ---------------------------------------------------------------------------

-- Calls fn with each element of self and the elements at the same position of the other tensors.
-- Stores the results of fn in self.
local function map(self, fn, ...)
   local flat, others = methods.tolist(T.flatten(self)), {}
   if type(fn) ~= "function" then
      torch.raise(("%s: expected a function, got %s"):format(select("#", ...) == 0 and "apply"
         or "map", type(fn)))
   end
   for i = 1, select("#", ...) do
      local other = select(i, ...)
      if not is_tensor(other) or numel(other) ~= #flat then
         torch.raise(("map: expected a tensor of %d elements"):format(#flat))
      end
      others[i] = methods.tolist(T.flatten(other))
   end
   local a, b = others[1], others[2]
   for i = 1, #flat do
      local value = fn(flat[i], a and a[i], b and b[i])
      if value ~= nil then flat[i] = value end
   end
   if #flat > 0 then
      local values = T.tensor(flat, {dtype = "float64", device = "cpu"})
      methods.copy_(self, T.reshape(values, field(self, "shape")))
   end
   return self
end

function Tensor:apply(fn) return map(self, fn) end
function Tensor:map(other, fn) return map(self, fn, other) end
function Tensor:map2(one, two, fn) return map(self, fn, one, two) end

-- Indexing ----------------------------------------------------------------------------------------

-- Returns the part of x that x[{...}] selects. The key has one item for each dimension.
local function part_of(x, key)
   local part, d = x, 1
   local n = #shape(x)
   if #key > n then
      torch.raise(("index: expected at most %d items, got %d"):format(n, #key))
   end
   for _, item in ipairs(key) do
      if type(item) == "number" then
         part = T.select(part, d, item)
      else
         local size = field(part, "shape")[d]
         local first = item[1] or 1
         local last = item[2] or item[1] or -1
         if first < 0 then first = size + first + 1 end
         if last < 0 then last = size + last + 1 end
         part = T.narrow(part, d, first, last - first + 1)
         d = d + 1
      end
   end
   return part
end

local function value_of(x, part)
   if #field(part, "shape") == 0 then return methods.item(part) end
   return same(x, rawequal(part, x) and T.detach(part) or part)
end

local function index(x, key)
   local kind = type(key)
   if kind == "number" then
      if numel(x) == 0 then torch.raise "index: the tensor has no dimensions" end
      return value_of(x, T.select(x, 1, key))
   elseif kind == "table" then
      return value_of(x, part_of(x, key.elements and methods.tolist(key.elements) or key))
   elseif is_tensor(key) then
      return Tensor.maskedSelect(x, key)
   end
   return nil
end

function Tensor.__index(x, key)
   local method = get_metatable(x)[key]
   if method ~= nil then return method end
   return index(x, key)
end

local function assign(x, part, value)
   if is_tensor(value) then
      if #field(part, "shape") == 0 then value = methods.item(value) else
         return Tensor.copy(part, value)
      end
   end
   if type(value) ~= "number" then
      torch.raise("index: expected a number or a tensor to assign, got " .. type(value))
   end
   methods.fill_(part, value)
   return x
end

function Tensor.__newindex(x, key, value)
   local kind = type(key)
   if kind == "number" then
      assign(x, T.select(x, 1, key), value)
   elseif kind == "table" then
      assign(x, part_of(x, key.elements and methods.tolist(key.elements) or key), value)
   elseif is_tensor(key) then
      if is_tensor(value) then
         Tensor.maskedCopy(x, key, value)
      else
         Tensor.maskedFill(x, key, value)
      end
   else
      torch.raise(("a tensor has no field %s to set"):format(tostring(key)))
   end
end

-- Operators ---------------------------------------------------------------------------------------

local function number_first(a) return type(a) == "number" end

local function cast(x, result)
   if field(result, "dtype") ~= field(x, "dtype") then
      result = methods.to(result, field(x, "dtype"))
   end
   return same(x, result)
end

-- The function `op` adds functions to this table, which must exist before this file is loaded.
local torch7 = require "tlua.torch7.torch"

function Tensor.__add(a, b)
   if number_first(a) then a, b = b, a end
   return torch7.add(a, b)
end
function Tensor.__sub(a, b)
   if number_first(a) then return cast(b, T.rsub(b, a)) end
   return torch7.csub(a, b)
end
function Tensor.__unm(a) return same(a, T.neg(a)) end

-- x * y is the matrix product of two tensors; for two vectors, it is the dot product
function Tensor.__mul(a, b)
   if type(b) == "number" then return cast(a, T.mul(a, b)) end
   if number_first(a) then return cast(b, T.mul(b, a)) end
   local n, m = #shape(a), #shape(b)
   if n == 1 and m == 1 then return methods.item(T.dot(a, b)) end
   if n == 2 and m == 1 then return same(a, T.mv(a, b)) end
   if n == 2 and m == 2 then return same(a, T.mm(a, b)) end
   torch.raise(("*: expected vectors or matrices, got tensors of %d and %d dimensions"):format(n,
      m))
end

function Tensor.__div(a, b)
   if number_first(a) then return cast(b, T.div(T.full_like(b, a), b)) end
   return (type(b) == "number" and torch7.div or torch7.cdiv)(a, b)
end

function Tensor.__mod(a, b) return cast(a, T.remainder(a, b)) end
function Tensor.__pow(a, b) return cast(a, T.pow(a, b)) end
function Tensor.__idiv(a, b) return cast(a, T.div(a, b, {rounding_mode = "floor"})) end
function Tensor.__eq(a, b) return rawequal(a, b) end

return Tensor
