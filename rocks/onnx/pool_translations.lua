-- pool_translations.lua - translates pools to ONNX. See translations.lua.

local torch = require "tlua"
local support = require "tlua.onnx.support"
local base = require "tlua.onnx.translations"
local shapes = require "tlua.onnx.shape_translations"
local wire = require "tlua.onnx.wire"

local op <const>, zero_based <const> = base._op, shapes._zero_based

local M = {}

-- Adds a batch dimension to x if x has none. Returns x and a function that removes this dimension
-- from a result again.
function M._batched(b, x, n)
   if b:rank(x) == n + 2 then return x, function(y) return y end end
   return b:unsqueeze(x, {0}), function(y) return b:squeeze(y, {0}) end
end

-- Returns the list twice in a row: ONNX's padding has the amounts at the beginnings of all
-- dimensions, and then those at their ends.
function M._twice(list)
   local pads = table.move(list, 1, #list, 1, {})
   return table.move(list, 1, #list, #list + 1, pads)
end

local batched <const>, twice <const> = M._batched, M._twice

-- Returns the number of elements of a window.
local function volume(sizes)
   local count = 1
   for _, size in ipairs(sizes) do count = count * size end
   return count
end

for n = 1, 3 do
   -- Converts the positions of maxima. tlua's positions count from 1 within each plane, and ONNX's
   -- positions count from 0 over all planes.
   local function positions(b, x, places)
      local plane
      for i = 1, n do
         local size = b:size(x, 2 + i)
         plane = plane and op(b, "Mul", plane, size) or size
      end
      local inner = b:node("Mod", {places, plane})
      return op(b, "Add", inner, b:number(1, "int64"))
   end
   M[("max_pool%dd"):format(n)] = function(b, a)
      local x, undo = batched(b, a.input, n)
      local attributes = {kernel_shape = a.kernel_size, strides = a.stride or a.kernel_size,
         pads = twice(a.padding), dilations = a.dilation, ceil_mode = a.ceil_mode and 1 or 0}
      if not a.wanted[2] then return undo(b:node("MaxPool", {x}, attributes)) end
      local y, places = b:node("MaxPool", {x}, attributes, 2)
      return undo(y), undo(positions(b, x, places))
   end
   M[("max_pool%dd_with_indices"):format(n)] = M[("max_pool%dd"):format(n)]
   M[("avg_pool%dd"):format(n)] = function(b, a)
      local divisor = a.divisor_override
      if a.ceil_mode and b.opset < 19 then wire.fail "ceil_mode needs opset_version 19" end
      if a.ceil_mode and divisor then
         wire.fail "divisor_override with ceil_mode cannot be exported"
      end
      local x, undo = batched(b, a.input, n)
      local y = b:node("AveragePool", {x}, {kernel_shape = a.kernel_size,
         strides = a.stride or a.kernel_size, pads = twice(a.padding),
         ceil_mode = a.ceil_mode and 1 or 0,
         count_include_pad = (a.count_include_pad or divisor) and 1 or 0})
      if divisor then
         y = op(b, "Mul", y, b:number(volume(a.kernel_size) / divisor, b:dtype(y)))
      end
      return undo(y)
   end
   -- Computes a norm pool whose last windows extend beyond the input. PyTorch takes the mean of a
   -- window's elements inside the input, times the number of all elements of the window.
   local function lp_pool_beyond(b, a)
      local dtype = b:dtype(a.input)
      local mean = M[("avg_pool%dd"):format(n)](b, {ceil_mode = true, count_include_pad = true,
         input = op(b, "Pow", a.input, b:number(a.norm_type, dtype)),
         kernel_size = a.kernel_size, stride = a.stride, padding = support.fill(n, 0)})
      local sum = op(b, "Mul", op(b, "Relu", mean), b:number(volume(a.kernel_size), dtype))
      return op(b, "Pow", sum, b:number(1 / a.norm_type, dtype))
   end
   M[("lp_pool%dd"):format(n)] = function(b, a)
      if a.ceil_mode then return lp_pool_beyond(b, a) end
      local x, undo = batched(b, a.input, n)
      local p = math.tointeger(a.norm_type) or wire.fail "norm_type: expected an integer"
      return undo(b:node("LpPool", {x}, {kernel_shape = a.kernel_size, p = p,
         strides = a.stride or a.kernel_size}))
   end

   -- Computes the means of an adaptive pool by one matrix product along each dimension. Column j of
   -- a matrix has the weights of the input's elements in window j.
   local function means(b, x, output_size)
      for i, size in ipairs(output_size) do
         local old = b:known(x, 2 + i) or wire.fail "an adaptive pool of a dynamic size"
         if size ~= -1 then
            local weights = torch.zeros(old, size)
            for j = 1, size do
               local first, last = (j - 1) * old // size + 1, (j * old + size - 1) // size
               weights[{{first, last}, j}] = 1 / (last - first + 1)
            end
            local kept = ("ncdhw"):sub(1, 2 + n)
            local axis = kept:sub(2 + i, 2 + i)
            x = b:node("Einsum", {x, b:initializer(weights:to(b:dtype(x)))},
               {equation = ("%s,%sz->%s"):format(kept, axis, (kept:gsub(axis, "z")))})
         end
      end
      return x
   end

   local function adaptive(pool)
      return function(b, a)
         local x, undo = batched(b, a.input, n)
         local ones, kernel, strides = true, {}, {}
         for i, size in ipairs(a.output_size) do
            ones = ones and size == 1
            local old = b:known(x, 2 + i)
            if size == -1 then size = old end
            if old and old % size == 0 then
               kernel[#kernel + 1], strides[#strides + 1] = old // size, old // size
            end
         end
         if ones and not a.wanted[2] then
            return undo(b:node("Global" .. pool, {x}))
         end
         if #kernel < n then
            if pool == "AveragePool" then return undo(means(b, x, a.output_size)) end
            wire.fail "an adaptive max pool whose sizes do not divide the input's"
         end
         local attributes = {kernel_shape = kernel, strides = strides}
         if not a.wanted[2] then return undo(b:node(pool, {x}, attributes)) end
         local y, places = b:node(pool, {x}, attributes, 2)
         return undo(y), undo(positions(b, x, places))
      end
   end
   M[("adaptive_avg_pool%dd"):format(n)] = adaptive "AveragePool"
   M[("adaptive_max_pool%dd"):format(n)] = adaptive "MaxPool"
   M[("adaptive_max_pool%dd_with_indices"):format(n)] = adaptive "MaxPool"

   M[("max_unpool%dd"):format(n)] = function(b, a)
      local x, places = a.input, zero_based(b, a.indices)
      local sizes, inner = {}, 1
      for i = 1, n do
         local old = b:known(x, 2 + i) or wire.fail "max_unpool of a dynamic size"
         local given = a.output_size and a.output_size[#a.output_size - n + i]
         sizes[i] = given or (old - 1) * (a.stride or a.kernel_size)[i] - 2 * a.padding[i]
            + a.kernel_size[i]
         inner = inner * sizes[i]
      end
      local flat = {b:known(x, 1) or b:size(x, 1), b:known(x, 2), -1}
      local zeros = b:node("ConstantOfShape", {b:ints {flat[1], flat[2], inner}},
         {value = torch.tensor({0}, {dtype = b:dtype(x)})})
      local y = b:node("ScatterElements", {zeros, b:reshape(places, flat), b:reshape(x, flat)},
         {axis = 2})
      return b:reshape(y, {flat[1], flat[2], table.unpack(sizes)})
   end
end

return M
