-- shapes.lua - constants, and operators that reshape or rearrange tensors.

local torch = require "tlua"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local F = torch.nn.functional
local integers <const>, shape_of <const> = support.integers, support.shape

local M = {}

function M.Constant(node)
   if node:has "value" then return node:tensor "value" end
   if node:has "sparse_value" then return node:sparse "sparse_value" end
   if node:has "value_float" then return support.scalar(node:float "value_float", "float32") end
   if node:has "value_int" then return support.scalar(node:int "value_int", "int64") end
   if node:has "value_ints" then return integers(node:ints "value_ints") end
   if node:has "value_floats" then
      local list = node:floats "value_floats"
      if #list == 0 then return torch.empty {0} end
      return torch.tensor(list, {dtype = "float32"})
   end
   if node:has "value_string" then return values.strings({node:text "value_string"}, {}) end
   if node:has "value_strings" then
      local list = node:texts "value_strings"
      return values.strings(list, {#list})
   end
   node:fail "attribute value is missing"
end

-- Raises an error if a tensor of these sizes would be too large for memory.
local function check_sizes(node, sizes)
   local n = 1
   for _, size in ipairs(sizes) do
      if size < 0 then
         node:fail("expected sizes of at least 0, got {%s}", table.concat(sizes, ", "))
      end
      if size > 0 and n > (1 << 40) // size then
         node:fail("{%s} has too many elements", table.concat(sizes, ", "))
      end
      n = n * size
   end
end

function M.ConstantOfShape(node, shape)
   local sizes = node:list(shape, nil, "shape")
   check_sizes(node, sizes)
   local value = node:tensor "value"
   if not value then return torch.zeros(sizes) end
   if values.is_strings(value) then
      return values.strings(support.fill(support.product(sizes), value[1]), sizes)
   end
   return torch.full(sizes, value:item(), {dtype = value.dtype})
end

function M.Shape(node, x)
   local shape = x.shape
   local n = #shape
   local function place(value)
      return math.max(0, math.min(n, value < 0 and value + n or value))
   end
   local first, last = place(node:int("start", 0)), place(node:int("end", n))
   return integers(table.move(shape, first + 1, last, 1, {}))
end

function M.Size(_, x)
   return support.scalar(support.product(x.shape), "int64")
end

local function reshape(x, shape)
   if values.is_strings(x) then return values.strings(x, shape) end
   return x:reshape(shape)
end

function M.Reshape(node, x, shape)
   local sizes = shape and node:list(shape, nil, "shape") or node:need("ints", "shape")
   local list, allow_zero, free, n = {}, node:int("allowzero", 0) ~= 0, nil, 1
   local old = x.shape
   for i, size in ipairs(sizes) do
      if size == 0 and not allow_zero then
         if i > #old then
            node:fail("shape: 0 at place %d keeps a size, but the input has %d", i - 1, #old)
         end
         size = old[i]
      end
      if size == -1 then
         if free then node:fail "shape: -1 stands twice" end
         free = i
      elseif size < 0 then
         node:fail("shape: a size of %d", size)
      else
         n = n * size
      end
      list[i] = size
   end
   local total = support.product(old)
   if free then
      if n == 0 and total ~= 0 or n ~= 0 and total % n ~= 0 then
         node:fail("the input {%s} does not fit into the shape {%s}", table.concat(old, ", "),
            table.concat(sizes, ", "))
      end
      list[free] = n == 0 and 0 or total // n
   elseif n ~= total then
      node:fail("the input {%s} does not fit into the shape {%s}", table.concat(old, ", "),
         table.concat(sizes, ", "))
   end
   return reshape(x, list)
end

function M.Flatten(node, x)
   local axis, shape = node:int("axis", 1), x.shape
   if axis < 0 then axis = axis + #shape end
   if axis < 0 or axis > #shape then node:fail("axis: expected 0 to %d, got %d", #shape, axis) end
   return reshape(x, {support.product(shape, 1, axis), support.product(shape, axis + 1)})
end

local function read_axes(node, axes)
   if axes then return node:list(axes, nil, "axes") end
   return node:ints "axes"
end

function M.Squeeze(node, x, axes)
   local shape, gone = x.shape, {}
   local list = read_axes(node, axes)
   for _, dim in ipairs(list and node:dims(list, #shape) or {}) do
      if shape[dim] ~= 1 then
         node:fail("axes: expected a size of 1, got {%s}", table.concat(shape, ", "))
      end
      gone[dim] = true
   end
   local kept = {}
   for i, size in ipairs(shape) do
      if not gone[i] and (list or size ~= 1) then kept[#kept + 1] = size end
   end
   return reshape(x, kept)
end

function M.Unsqueeze(node, x, axes)
   local list = read_axes(node, axes) or node:fail "axes are missing"
   local rank, new = #x.shape + #list, {}
   for _, dim in ipairs(node:dims(list, rank)) do
      if new[dim] then node:fail "axes: an axis stands twice" end
      new[dim] = true
   end
   local shape, next_old = {}, 1
   for i = 1, rank do
      if new[i] then
         shape[i] = 1
      else
         shape[i], next_old = x.shape[next_old], next_old + 1
      end
   end
   return reshape(x, shape)
end

function M.Concat(node, ...)
   local first = ...
   if values.is_strings(first) then
      return require "tlua.onnx.texts"._concat(node, ...)
   end
   local list = {...}
   local axis = node:int("axis", node.version < 4 and 1 or nil)
   if not axis then node:fail "attribute axis is missing" end
   local dim = node:dim(axis, first:dim())
   for _, x in ipairs(list) do
      node:same_dtype(first, x)
      if x:dim() ~= first:dim() then
         node:fail("expected inputs with %d dimensions, got %s", first:dim(), values.describe(x))
      end
      for i = 1, x:dim() do
         if i ~= dim and x:size(i) ~= first:size(i) then
            node:fail("sizes outside of axis %d differ: %s and %s", dim - 1,
               values.describe(first), values.describe(x))
         end
      end
   end
   return torch.cat(list, dim)
end

-- Returns the lengths of the parts into which an axis is split. They are `split` if this is given.
-- Otherwise the parts are equal, except that the last parts may be shorter or empty.
local function lengths_of(node, size, parts, split)
   if split then return split end
   local count = node:int("num_outputs", parts)
   local part = (size + count - 1) // count
   if node.version < 18 and size % parts ~= 0 then
      node:fail("a size of %d cannot be split into %d equal parts", size, parts)
   end
   local list = {}
   for i = 1, count do list[i] = math.max(0, math.min(part, size - part * (i - 1))) end
   return list
end

function M.Split(node, x, split)
   local dim = node:dim(node:int("axis", 0), x:dim())
   local given = split and node:list(split, nil, "split") or node:ints "split"
   local list = lengths_of(node, x:size(dim), #node.outputs, given)
   local sum = 0
   for _, n in ipairs(list) do sum = sum + n end
   if sum ~= x:size(dim) then
      node:fail("split: {%s} does not add up to %d", table.concat(list, ", "), x:size(dim))
   end
   return table.unpack(x:split(list, dim))
end

-- Returns the position of the first element of a slice and the number of its elements, after both
-- ends are clamped to the axis.
local function slice_range(node, size, first, last, step)
   if step == 0 then node:fail "steps: a step of 0" end
   if first < 0 then first = first + size end
   if last < 0 and last >= -size then
      last = last + size
   elseif last < -size then
      last = -1
   end
   if step > 0 then
      first, last = math.max(0, math.min(first, size)), math.max(0, math.min(last, size))
      return first, math.max(0, (last - first + step - 1) // step)
   end
   first, last = math.max(-1, math.min(first, size - 1)), math.max(-1, math.min(last, size - 1))
   return first, math.max(0, (first - last - step - 1) // -step)
end

local function take(x, dim, first, count, step)
   if count == 0 then return x:narrow(dim, 1, 0) end
   if step == 1 then return x:narrow(dim, first + 1, count) end
   if step < 0 then
      local last = first + (count - 1) * step
      x = x:narrow(dim, last + 1, first - last + 1):flip(dim)
      return step == -1 and x or x:slice(dim, 1, nil, -step)
   end
   return x:slice(dim, first + 1, first + (count - 1) * step + 1, step)
end

function M.Slice(node, x, starts, ends, axes, steps)
   starts = starts and node:list(starts, nil, "starts") or node:need("ints", "starts")
   ends = ends and node:list(ends, nil, "ends") or node:need("ints", "ends")
   axes = axes and node:list(axes, nil, "axes") or node:ints "axes"
   steps = node:list(steps, {}, "steps")
   if #starts ~= #ends then node:fail("%d starts and %d ends", #starts, #ends) end
   local strings = values.is_strings(x)
   if strings then return require "tlua.onnx.texts"._slice(node, x, starts, ends) end
   for i, first in ipairs(starts) do
      local dim = node:dim(axes and axes[i] or i - 1, x:dim())
      local step = steps[i] or 1
      local begin, count = slice_range(node, x:size(dim), first, ends[i], step)
      x = take(x, dim, begin, count, step)
   end
   return x
end

function M.Transpose(node, x)
   local order = node:ints "perm"
   local rank = x:dim()
   if not order then
      order = {}
      for i = 1, rank do order[i] = rank - i end
   end
   if #order ~= rank then
      node:fail("attribute perm: expected %d axes, got {%s}", rank, table.concat(order, ", "))
   end
   return rank == 0 and x or x:permute(node:dims(order, rank))
end

function M.Expand(node, x, shape)
   local sizes, old = node:list(shape, nil, "shape"), shape_of(x)
   check_sizes(node, sizes)
   local rank = math.max(#sizes, #old)
   local list = {}
   for i = 1, rank do
      local a, b = old[#old - rank + i] or 1, sizes[#sizes - rank + i] or 1
      if a ~= b and a ~= 1 and b ~= 1 then
         node:fail("{%s} cannot be expanded to {%s}", table.concat(old, ", "),
            table.concat(sizes, ", "))
      end
      list[i] = a == 1 and b or a
   end
   return x:expand(list)
end

function M.Tile(node, x, repeats, axis)
   local list = node:list(repeats, nil, "repeats")
   if node.version < 6 then -- in this version, the inputs after the first are `tiles` and `axis`
      local dim = node:dim(node:list(axis)[1], x:dim())
      local all = support.fill(x:dim(), 1)
      all[dim] = list[1]
      list = all
   end
   if #list ~= x:dim() then
      node:fail("repeats: expected %d numbers, got {%s}", x:dim(), table.concat(list, ", "))
   end
   check_sizes(node, list)
   return #list == 0 and x or x:tile(list)
end

-- Padding ----------------------------------------------------------------------------------------

-- Returns, for each position of a padded dimension, the position of the element that it copies.
local function padded_positions(node, size, before, after, mode)
   if size == 0 then node:fail("mode %s: a size of 0", mode) end
   local list = {}
   for i = -before, size + after - 1 do
      if mode == "wrap" then
         list[#list + 1] = i % size
      elseif mode == "edge" then
         list[#list + 1] = math.max(0, math.min(size - 1, i))
      else -- reflect
         local period = math.max(1, 2 * (size - 1))
         local k = i % period
         list[#list + 1] = k < size and k or period - k
      end
   end
   return integers(list) + 1
end

local function pad_dim(node, x, dim, before, after, mode)
   if before < 0 then x, before = x:narrow(dim, 1 - before, x:size(dim) + before), 0 end
   if after < 0 then x, after = x:narrow(dim, 1, x:size(dim) + after), 0 end
   if before == 0 and after == 0 then return x end
   return x:index_select(dim, padded_positions(node, x:size(dim), before, after, mode):to(x.device))
end

function M.Pad(node, x, pads, value, axes)
   local list, number
   if node.version < 11 then
      list, number = node:ints "pads" or node:need("ints", "paddings"), node:float("value", 0)
   else
      list = node:list(pads, nil, "pads")
      number = value and value:numel() > 0 and value:item() or 0
   end
   local dims = {}
   if axes then
      dims = node:dims(node:list(axes, nil, "axes"), x:dim())
   else
      for i = 1, x:dim() do dims[i] = i end
   end
   if #list ~= 2 * #dims then
      node:fail("pads: expected %d numbers, got {%s}", 2 * #dims, table.concat(list, ", "))
   end
   local mode = node:text("mode", "constant")
   if mode ~= "constant" then
      for i, dim in ipairs(dims) do
         x = pad_dim(node, x, dim, list[i], list[#dims + i], mode)
      end
      return x
   end
   local pad = support.fill(2 * x:dim(), 0)
   for i, dim in ipairs(dims) do
      pad[2 * (x:dim() - dim) + 1], pad[2 * (x:dim() - dim) + 2] = list[i], list[#dims + i]
   end
   if type(number) == "boolean" then
      return F.pad(x:to "uint8", pad, "constant", number and 1 or 0):to "bool"
   end
   return F.pad(x, pad, "constant", number)
end

-- Others -----------------------------------------------------------------------------------------

function M.Trilu(node, x, k)
   local diagonal = k and node:list(k)[1] or 0
   local upper = node:int("upper", 1) ~= 0
   return upper and x:triu(diagonal) or x:tril(diagonal)
end

function M.EyeLike(node, x)
   local number = node:int "dtype"
   local dtype = number and schema.dtypes[number] or x.dtype
   local rows = torch.arange(1, x:size(1) + 1, {device = x.device}):unsqueeze(2)
   local columns = torch.arange(1, x:size(2) + 1, {device = x.device}):unsqueeze(1)
   return (columns - rows):eq(node:int("k", 0)):to(dtype)
end

function M.Range(node, first, last, step)
   local a, b, c = first:item(), last:item(), step:item()
   if c == 0 then node:fail "delta is 0" end
   local n = math.max(0, math.ceil((b - a) / c))
   check_sizes(node, {n})
   local exact = first:is_floating_point() and "float64" or "int64"
   return (torch.arange(0, n, {dtype = exact}) * c + a):to(first.dtype)
end

function M.DepthToSpace(node, x)
   local size, mode = node:need("int", "blocksize"), node:text("mode", "DCR")
   local n, c, h, w = table.unpack(x.shape)
   if size < 1 or c % (size * size) ~= 0 then
      node:fail("attribute blocksize: %d does not divide %d channels", size, c)
   end
   local depth = c // (size * size)
   if mode == "DCR" then
      return x:reshape(n, size, size, depth, h, w):permute(1, 4, 5, 2, 6, 3)
         :reshape(n, depth, h * size, w * size)
   end
   return x:reshape(n, depth, size, size, h, w):permute(1, 2, 5, 3, 6, 4)
      :reshape(n, depth, h * size, w * size)
end

function M.SpaceToDepth(node, x)
   local size, mode = node:need("int", "blocksize"), node:text("mode", "DCR")
   local n, c, h, w = table.unpack(x.shape)
   if size < 1 or h % size ~= 0 or w % size ~= 0 then
      node:fail("attribute blocksize: %d does not divide %s", size, values.describe(x))
   end
   local parts = x:reshape(n, c, h // size, size, w // size, size)
   local order = mode == "CRD" and {1, 2, 4, 6, 3, 5} or {1, 4, 6, 2, 3, 5}
   return parts:permute(order):reshape(n, c * size * size, h // size, w // size)
end

function M.ReverseSequence(node, x, lengths)
   local time = node:dim(node:int("time_axis", 0), x:dim())
   local batch = node:dim(node:int("batch_axis", 1), x:dim())
   local n = x:size(time)
   local counts = lengths:to "int64":to(x.device)
   local positions = torch.arange(0, n, {dtype = "int64", device = x.device}):unsqueeze(2)
   local row = counts:unsqueeze(1)
   -- `index` has the shape {time, batch} and the positions, counted from 1, of the elements to
   -- copy.
   local index = torch.where(positions:lt(row), row - 1 - positions, positions) + 1
   if time > batch then index = index:t() end
   local shape = support.fill(x:dim(), 1)
   shape[time], shape[batch] = x:size(time), x:size(batch)
   return x:gather(time, index:reshape(shape):expand(shape_of(x)):contiguous())
end

function M.CenterCropPad(node, x, shape)
   local sizes = node:list(shape, nil, "shape")
   local dims
   if node:has "axes" then
      dims = node:dims(node:ints "axes", x:dim())
   else
      dims = {}
      for i = 1, x:dim() do dims[i] = i end
   end
   for i, dim in ipairs(dims) do
      local old, new = x:size(dim), sizes[i]
      if new < old then
         x = x:narrow(dim, (old - new) // 2 + 1, new)
      elseif new > old then
         local pad = support.fill(2 * x:dim(), 0)
         local before = (new - old) // 2
         pad[2 * (x:dim() - dim) + 1] = before
         pad[2 * (x:dim() - dim) + 2] = new - old - before
         x = F.pad(x, pad)
      end
   end
   return x
end

return M
