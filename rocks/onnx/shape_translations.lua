-- shape_translations.lua - translates operators that change shapes, that read or write at
-- positions, or that create tensors. See translations.lua.

local torch = require "tlua"
local wire = require "tlua.onnx.wire"
local base = require "tlua.onnx.translations"

local op <const>, axes_of <const>, one <const> = base._op, base._axes_of, base._one

local M = {}

-- Shapes ------------------------------------------------------------------------------------------

function M.view(b, a)
   local list, zeros = a.size or a.shape, false
   for _, size in ipairs(list) do zeros = zeros or size == 0 end
   return b:reshape(a.self, list, zeros)
end
M.reshape = M.view

function M.flatten(b, a)
   local x = a.self
   local rank = b:rank(x)
   if rank == 0 then return b:reshape(x, {1}) end
   local first, last = b:axis(x, a.start_dim or 1), b:axis(x, a.end_dim or -1)
   if first == last then return x end
   local list = {}
   for i = 1, first do list[i] = b:known(x, i) or 0 end -- a size of 0 keeps the input's size
   list[first + 1] = -1
   local free = true
   for i = last + 2, rank do
      list[#list + 1] = b:known(x, i) or b:size(x, i)
   end
   return free and b:reshape(x, list)
end
M.ravel = function(b, a) return b:reshape(a.self, {-1}) end

function M.unflatten(b, a)
   local x, list = a.self, {}
   local axis = b:axis(x, a.dim)
   for i = 1, b:rank(x) do
      if i == axis + 1 then
         table.move(a.sizes, 1, #a.sizes, #list + 1, list)
      else
         list[#list + 1] = b:known(x, i) or b:size(x, i)
      end
   end
   return b:reshape(x, list)
end

function M.permute(b, a)
   local perm = axes_of(b, a.self, a.dims) or {}
   return b:view(b:transpose(a.self, perm), a.self)
end
function M.transpose(b, a)
   local perm = {}
   for i = 1, b:rank(a.self) do perm[i] = i - 1 end
   if #perm == 0 then return a.self end
   local i, j = b:axis(a.self, a.dim0) + 1, b:axis(a.self, a.dim1) + 1
   perm[i], perm[j] = perm[j], perm[i]
   return b:view(b:node("Transpose", {a.self}, {perm = perm}), a.self)
end
function M.t(b, a)
   if b:rank(a.self) < 2 then return a.self end
   return M.transpose(b, {self = a.self, dim0 = 1, dim1 = 2})
end
function M.adjoint(b, a) return M.transpose(b, {self = a.self, dim0 = -2, dim1 = -1}) end
function M.movedim(b, a)
   local rank, to = b:rank(a.self), {}
   local from_axes, to_axes = axes_of(b, a.self, a.source), axes_of(b, a.self, a.destination)
   local used, perm = {}, {}
   for i, axis in ipairs(from_axes) do
      to[to_axes[i] + 1], used[axis] = axis, true
   end
   local rest = 0
   for i = 1, rank do
      if to[i] then
         perm[i] = to[i]
      else
         while used[rest] do rest = rest + 1 end
         perm[i], rest = rest, rest + 1
      end
   end
   return b:view(b:transpose(a.self, perm), a.self)
end

function M.squeeze(b, a)
   local axes = axes_of(b, a.self, a.dim)
   local kept = {}
   for i = 1, b:rank(a.self) do
      local chosen = axes == nil
      for _, axis in ipairs(axes or {}) do chosen = chosen or axis == i - 1 end
      if chosen and b:known(a.self, i) == 1 then kept[#kept + 1] = i - 1 end
   end
   if #kept == 0 then return a.self end
   return b:view(b:squeeze(a.self, kept), a.self)
end
function M.unsqueeze(b, a)
   local axis = a.dim < 0 and a.dim + b:rank(a.self) + 1 or a.dim - 1
   return b:view(b:unsqueeze(a.self, {axis}), a.self)
end

function M.expand(b, a)
   local list, x = {}, a.self
   local more = #a.size - b:rank(x)
   for i, size in ipairs(a.size) do list[i] = size == -1 and (b:known(x, i - more) or 1) or size end
   return b:view(b:node("Expand", {x, b:ints(list)}), x)
end
M.broadcast_to = M.expand
M.expand_as = function(b, a)
   return b:view(b:node("Expand", {a.self, b:node("Shape", {a.other})}), a.self)
end

M["repeat"] = function(b, a)
   local x = a.self
   local more = #(a.sizes or a.dims) - b:rank(x)
   if more > 0 then
      local axes = {}
      for i = 1, more do axes[i] = i - 1 end
      x = b:unsqueeze(x, axes)
   end
   return b:node("Tile", {x, b:ints(a.sizes or a.dims)})
end
M.tile = function(b, a)
   local dims, rank = a.dims, b:rank(a.self)
   local list = {}
   for _ = #dims + 1, rank do list[#list + 1] = 1 end
   table.move(dims, 1, #dims, #list + 1, list)
   return M["repeat"](b, {self = a.self, sizes = list})
end
M.repeat_interleave = function(b, a)
   local x = a.self
   if a.dim == nil then x = b:reshape(x, {-1}) end
   local axis = b:axis(x, a.dim or 1)
   local wide, sizes, shape = b:unsqueeze(x, {axis + 1}), {}, {}
   for i = 1, b:rank(x) + 1 do sizes[i] = i == axis + 2 and a.repeats or 1 end
   for i = 1, b:rank(x) do shape[i] = i == axis + 1 and -1 or b:known(x, i) or b:size(x, i) end
   return b:reshape(b:node("Tile", {wide, b:ints(sizes)}), shape)
end

function M.cat(b, a)
   local list, dtype = {}, nil
   for _, x in ipairs(a.tensors) do
      dtype = dtype and torch.promote_types(dtype, b:dtype(x)) or b:dtype(x)
   end
   for i, x in ipairs(a.tensors) do list[i] = b:cast(x, dtype) end
   return b:node("Concat", list, {axis = b:axis(a.tensors[1], a.dim or 1)})
end
function M.stack(b, a)
   local dim, list = a.dim or 1, {}
   local axis = dim < 0 and dim + b:rank(a.tensors[1]) + 1 or dim - 1
   for i, x in ipairs(a.tensors) do list[i] = b:unsqueeze(x, {axis}) end
   return b:node("Concat", list, {axis = axis})
end

-- Splits an axis into parts with the given lengths. The parts are recorded as views of x.
local function parts(b, x, axis, lengths)
   local list = #lengths == 1 and {x} or b:split(x, axis, lengths)
   for _, part in ipairs(list) do
      if part ~= x then b:view(part, x) end
   end
   return table.unpack(list)
end
local function need_known(b, x, axis)
   return b:known(x, axis + 1) or wire.fail("parts of axis %d, whose size is dynamic", axis)
end
local function in_parts_of(b, x, axis, length)
   local size, lengths = need_known(b, x, axis), {}
   for first = 0, size - 1, length do lengths[#lengths + 1] = math.min(length, size - first) end
   return parts(b, x, axis, lengths)
end
function M.split(b, a)
   return in_parts_of(b, a.self, b:axis(a.self, a.dim or 1), b:fixed(a.split_size, "split_size"))
end
function M.split_sizes(b, a)
   local lengths = {}
   for i, n in ipairs(a.split_sizes) do lengths[i] = b:fixed(n, "split_sizes") end
   return parts(b, a.self, b:axis(a.self, a.dim or 1), lengths)
end
M.split_with_sizes = M.split_sizes
function M.chunk(b, a)
   local axis = b:axis(a.self, a.dim or 1)
   local size = need_known(b, a.self, axis)
   return in_parts_of(b, a.self, axis, (size + a.chunks - 1) // a.chunks)
end
function M.unbind(b, a)
   local axis, list = b:axis(a.self, a.dim or 1), {}
   for i = 1, need_known(b, a.self, axis) do
      list[i] = b:view(b:node("Gather", {a.self, b:const(i - 1, "int64")}, {axis = axis}), a.self)
   end
   return table.unpack(list)
end

-- Converts a position that counts from 1 to a position that counts from 0. A negative position,
-- which counts from the end, stays unchanged.
local function from_zero(position)
   if type(position) == "table" then
      return {base = position.base, factors = position.factors, terms = position.terms}
   end
   return position > 0 and position - 1 or position
end

function M.select(b, a)
   local index = from_zero(a.index)
   index = type(index) == "table" and b:squeeze(b:integer(index), {0}) or b:const(index, "int64")
   return b:view(b:node("Gather", {a.self, index}, {axis = b:axis(a.self, a.dim)}), a.self)
end
function M.narrow(b, a)
   local axis, first = b:axis(a.self, a.dim), from_zero(a.start)
   local last
   if type(first) == "table" or type(a.length) == "table" then
      local x, y = type(first) == "table" and first or {base = first, factors = {}},
         type(a.length) == "table" and a.length or {base = a.length, factors = {}}
      last = {base = x.base + y.base, factors = {}, terms = {}}
      for i = 1, math.max(#x.factors, #y.factors) do
         last.factors[i] = (x.factors[i] or 0) + (y.factors[i] or 0)
      end
      for _, one_of in ipairs {x, y} do
         for _, term in ipairs(one_of.terms or {}) do last.terms[#last.terms + 1] = term end
      end
   else
      if first < 0 then first = first + need_known(b, a.self, axis) end
      last = first + a.length
   end
   return b:view(b:slice(a.self, axis, first, last), a.self)
end
M.narrow_copy = M.narrow
function M.slice(b, a) -- the positions come from the C core, so they count from 0
   return b:view(b:slice(a.self, b:axis(a.self, a.dim), a.start, a.stop, a.step), a.self)
end
function M.slice_range(b, a)
   return b:view(b:slice(a.self, b:axis(a.self, a.dim or 1), a.start and from_zero(a.start) or 0,
      a.stop, a.step), a.self)
end

-- Returns the strides of a row-major shape.
local function strides_of(shape)
   local strides, n = {}, 1
   for i = #shape, 1, -1 do strides[i], n = n, n * shape[i] end
   return strides
end

-- Tries to express a view of row-major memory as slices along the axes, for one example. Returns a
-- list with {axis, first, size, step} for each axis that remains, a list with the first position on
-- each axis, and a table that maps the remaining axes to their items in the first list. Returns nil
-- if no slices give the view.
local function find_parts(b, root, a, example)
   local shape = root.examples[example].shape
   local strides, starts = strides_of(shape), {}
   local rest = b:example_integer(a.storage_offset or 0, example)
   for i = 1, #shape do
      starts[i] = shape[i] == 1 and 0 or rest // strides[i]
      if shape[i] ~= 1 then rest = rest % strides[i] end
   end
   if rest ~= 0 then return nil end
   local list, axis = {}, 0
   for k = 1, #a.size do
      local size = b:example_integer(a.size[k], example)
      local stride = b:example_integer(a.stride[k], example)
      local found
      for i = axis + 1, #shape do
         local step = strides[i] > 0 and stride % strides[i] == 0 and stride // strides[i] or 0
         local fits = step >= 1 and starts[i] + (size - 1) * step < shape[i]
         if fits and (step == 1 or shape[i] > step) then
            found = {axis = i, first = starts[i], size = size, step = step,
               whole = step == 1 and starts[i] + size == shape[i]}
            break
         end
      end
      if not found then return nil end
      list[k], axis = found, found.axis
   end
   local kept = {}
   for _, part in ipairs(list) do kept[part.axis] = part end
   for i = 1, #shape do
      if starts[i] >= shape[i] and not kept[i] then return nil end
   end
   return list, starts, kept
end

-- Returns whether two examples have the same slices, so that one node serves both.
local function same_parts(list, starts, others, other_starts)
   for i, start in ipairs(starts) do
      if start ~= other_starts[i] then return false end
   end
   for k, part in ipairs(list) do
      local other = others[k]
      if part.axis ~= other.axis or part.step ~= other.step or part.whole ~= other.whole
         or not part.whole and part.size ~= other.size then
         return false
      end
   end
   return true
end

-- Tries to write a view as slices. This succeeds if the same slices give the view in all examples;
-- otherwise returns nil.
local function by_slices(b, root, a)
   local list, starts, kept = find_parts(b, root, a, 1)
   if not list then return nil end
   for example = 2, b.examples do
      local others, other_starts = find_parts(b, root, a, example)
      if not (others and same_parts(list, starts, others, other_starts)) then return nil end
   end
   local y, gone = root, {}
   for i, start in ipairs(starts) do
      local part = kept[i]
      if not part then
         if root.examples[1]:size(i) ~= 1 or b:known(root, i) ~= 1 then
            y = b:slice(y, i - 1, start, start + 1)
         end
         gone[#gone + 1] = i - 1
      elseif not (part.whole and start == 0) then
         y = b:slice(y, i - 1, start, part.whole and math.maxinteger
            or start + (part.size - 1) * part.step + 1, part.step)
      end
   end
   return #gone > 0 and b:squeeze(y, gone) or y
end

-- Writes a view with any strides, by gathering the elements at computed positions.
local function by_places(b, root, a)
   local n = #a.size
   local places = b:const(0, "int64")
   local offset = a.storage_offset or 0
   if type(offset) == "table" or offset ~= 0 then
      places = b:squeeze(b:ints {offset}, {0})
   end
   for k = 1, n do
      local size = b:squeeze(b:ints {a.size[k]}, {0})
      local range = b:node("Range", {b:const(0, "int64"), size, b:const(1, "int64")})
      range = b:node("Mul", {range, b:ints {a.stride[k]}})
      local axes = {}
      for i = k + 1, n do axes[#axes + 1] = i - k end
      if #axes > 0 then range = b:unsqueeze(range, axes) end
      places = b:node("Add", {places, range})
   end
   return b:node("Gather", {b:reshape(root, {-1}), places}, {axis = 0})
end

function M.as_strided(b, a)
   local root = a.self.root or a.self
   return b:view(by_slices(b, root, a) or by_places(b, root, a), root)
end

-- Indices -----------------------------------------------------------------------------------------

-- A position that is larger than any tensor, so that ONNX raises an error for it.
local NOWHERE <const> = (1 << 31) - 1

-- Converts positions that count from 1 to positions that count from 0. 0 would become -1, which in
-- ONNX means the last element. So 0 becomes a position that ONNX refuses. Negative positions become
-- this position too, unless `from_end` is set.
local function zero_based(b, index, from_end)
   if index.constant then -- constant positions are valid, since the program has run with them
      local x = index.constant:to "int64"
      return b:const(torch.where(x:gt(0), x - 1, x))
   end
   index = b:cast(index, "int64")
   local zero, rest = b:number(0, "int64"), b:number(NOWHERE, "int64")
   if from_end then rest = op(b, "Where", op(b, "Equal", index, zero), rest, index) end
   return op(b, "Where", op(b, "Greater", index, zero), op(b, "Sub", index, one(b)), rest)
end

function M.index_select(b, a)
   return b:node("Gather", {a.self, zero_based(b, a.index)}, {axis = b:axis(a.self, a.dim)})
end
local function gather(b, x, index, dim)
   return b:node("GatherElements", {x, index}, {axis = b:axis(x, dim)})
end
function M.gather(b, a) return gather(b, a.self, zero_based(b, a.index), a.dim) end

-- Broadcasts a value to another value's sizes in all axes except one.
local function broadcast_except(b, x, other, axis)
   local sizes, same = {}, true
   for i = 1, b:rank(other) do
      local size = i == axis + 1 and 1 or b:known(other, i) or b:size(other, i)
      same = same and (i == axis + 1 or size == b:known(x, i))
      sizes[i] = size
   end
   return same and x or b:node("Expand", {x, b:ints(sizes)})
end
M.take_along_dim = function(b, a)
   if a.dim == nil then wire.fail "take_along_dim without dim" end
   local index, axis = zero_based(b, a.indices, true), b:axis(a.self, a.dim)
   return gather(b, broadcast_except(b, a.self, index, axis),
      broadcast_except(b, index, a.self, axis), a.dim)
end
local function scatter(how)
   return function(b, a)
      local index, src = a.index, a.src
      for i = 1, b:rank(index) do -- ONNX needs a source element for each index
         local size = b:known(index, i)
         if not size or size ~= b:known(src, i) then
            src = b:slice(src, i - 1, 0, size or b:size(index, i))
         end
      end
      return b:node("ScatterElements", {a.self, zero_based(b, index), src},
         {axis = b:axis(a.self, a.dim), reduction = how})
   end
end
M.scatter, M.scatter_add = scatter(), scatter "add"

-- Gathers elements along the first axes. There is an index tensor for each of these axes, and the
-- index tensors are broadcast to one another.
local function gather_first(b, x, indices)
   local shape, list = nil, {}
   for i, index in ipairs(indices) do
      list[i] = zero_based(b, index, true)
      shape = shape and op(b, "Add", shape, list[i]) or list[i]
   end
   local rank = b:rank(shape)
   for i, index in ipairs(list) do
      index = b:node("Expand", {index, b:node("Shape", {shape})})
      list[i] = b:unsqueeze(index, {rank})
   end
   return b:node("GatherND", {x, b:node("Concat", list, {axis = rank})}), rank
end

function M.index(b, a)
   local x, last, indices, axes = a.self, 0, {}, {}
   for i in pairs(a.indices) do last = math.max(last, i) end
   for i = 1, last do
      if a.indices[i] then indices[#indices + 1], axes[#axes + 1] = a.indices[i], i - 1 end
   end
   if #axes == 1 then
      return b:node("Gather", {x, zero_based(b, indices[1], true)}, {axis = axes[1]})
   end
   local perm = table.move(axes, 1, #axes, 1, {})
   for axis = 0, b:rank(x) - 1 do
      if axis >= last or not a.indices[axis + 1] then perm[#perm + 1] = axis end
   end
   local y, n = gather_first(b, b:transpose(x, perm), indices)
   local together = axes[#axes] - axes[1] == #axes - 1
   if not together or axes[1] == 0 then return y end
   -- This permutation puts the dimensions of the indices where the indexed axes were.
   local order = {}
   for axis = n, n + axes[1] - 1 do order[#order + 1] = axis end
   for axis = 0, n - 1 do order[#order + 1] = axis end
   for axis = n + axes[1], b:rank(y) - 1 do order[#order + 1] = axis end
   return b:transpose(y, order)
end
function M.flip(b, a)
   local y = a.self
   for _, axis in ipairs(axes_of(b, y, a.dims) or {}) do
      y = b:slice(y, axis, -1, math.mininteger, -1)
   end
   return y
end
function M.unfold(b, a)
   local x, axis = a.self, b:axis(a.self, a.dimension)
   local size = need_known(b, x, axis)
   local count_of = (size - a.size) // a.step + 1
   local places = torch.arange(0, count_of, {dtype = "int64"}):unsqueeze(2) * a.step
      + torch.arange(0, a.size, {dtype = "int64"})
   local y, perm = b:node("Gather", {x, b:const(places)}, {axis = axis}), {}
   for i = 0, b:rank(y) - 1 do -- the elements of a window become the last axis
      if i ~= axis + 1 then perm[#perm + 1] = i end
   end
   perm[#perm + 1] = axis + 1
   return b:transpose(y, perm)
end
function M.roll(b, a)
   local y = a.self
   if not a.dims then wire.fail "roll without dims" end
   for i, axis in ipairs(axes_of(b, y, a.dims)) do
      local size = need_known(b, y, axis)
      local shift = a.shifts[i] % size
      if shift > 0 then
         y = b:node("Concat", {b:slice(y, axis, size - shift), b:slice(y, axis, 0, size - shift)},
            {axis = axis})
      end
   end
   return y
end
function M.one_hot(b, a)
   local hot, n = b:const({0, 1}, "int64"), b:fixed(a.num_classes, "num_classes")
   -- OneHot returns zeros for labels that are out of range, whereas Gather raises an error. So
   -- Gather comes first.
   local labels = b:const(torch.arange(0, n, {dtype = "int64"}))
   labels = b:node("Gather", {labels, zero_based(b, a.self)}, {axis = 0})
   return b:node("OneHot", {labels, b:const({n}, "int64"), hot}, {axis = -1})
end
local function triangle(upper)
   return function(b, a)
      return b:node("Trilu", {a.self, b:const(a.diagonal or 0, "int64")}, {upper = upper})
   end
end
M.tril, M.triu = triangle(0), triangle(1)

-- New tensors -------------------------------------------------------------------------------------

local function filled(b, sizes, value, dtype)
   dtype = dtype or "float32"
   local cell = torch.tensor({value}, {dtype = dtype})
   return b:node("ConstantOfShape", {b:ints(sizes)}, {value = cell})
end
function M.full(b, a)
   local dtype = a.dtype or math.type(a.fill_value) == "integer" and "int64" or "float32"
   return filled(b, a.size, a.fill_value, dtype)
end
function M.zeros(b, a) return filled(b, a.size, 0, a.dtype) end
function M.ones(b, a) return filled(b, a.size, 1, a.dtype) end
M.empty = M.zeros
local function like(value)
   return function(b, a)
      local dtype = a.dtype or b:dtype(a.self)
      local cell = torch.tensor({value or a.fill_value}, {dtype = dtype})
      return b:node("ConstantOfShape", {b:node("Shape", {a.self})}, {value = cell})
   end
end
M.full_like, M.zeros_like, M.ones_like, M.empty_like = like(), like(0), like(1), like(0)
M.new_zeros = function(b, a) return filled(b, a.size, 0, a.dtype or b:dtype(a.self)) end
M.new_ones = function(b, a) return filled(b, a.size, 1, a.dtype or b:dtype(a.self)) end
M.new_full = function(b, a) return filled(b, a.size, a.fill_value, a.dtype or b:dtype(a.self)) end
function M.eye(b, a)
   local n, m = b:fixed(a.n, "eye"), b:fixed(a.m or a.n, "eye")
   return b:const(torch.eye(n, m, {dtype = a.dtype or "float32"}))
end
function M.scalar_tensor(b, a) return b:number(a.s, a.dtype or "float32") end

function M.arange(b, a)
   local first, last, step = a.start, a["end"] or a.end_, a.step or 1
   if last == nil then first, last = 0, first end
   local dtype = a.dtype
   if not dtype then
      local real = math.type(first) == "float" or math.type(last) == "float"
         or math.type(step) == "float"
      dtype = real and "float32" or "int64"
   end
   local function scalar(x)
      if type(x) == "table" then return b:squeeze(b:integer(x), {0}) end
      return b:number(x, "int64")
   end
   if type(first) ~= "table" and type(last) ~= "table" then
      return b:const(torch.arange(first, last, step, {dtype = dtype}))
   end
   return b:cast(b:node("Range", {scalar(first), scalar(last), scalar(step)}), dtype)
end


M._zero_based = zero_based

return M
