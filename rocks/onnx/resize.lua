-- resize.lua - resizes images, or any other dimensions. In nearest mode, elements are selected. In
-- the other modes, each dimension is multiplied by a matrix. A row of the matrix has the weights of
-- the old elements in one new element.

local torch = require "tlua"
local support = require "tlua.onnx.support"

local M = {}

-- Returns the position of the new element i among the old elements. Positions count from 0 and may
-- be fractions.
local function source(mode, i, old, new, scale, roi)
   if mode == "asymmetric" then return i / scale end
   if mode == "align_corners" then
      local length = scale * old
      return length == 1 and 0 or i * (old - 1) / (length - 1)
   elseif mode == "tf_crop_and_resize" then
      local length = scale * old
      if length == 1 then return (roi[2] - roi[1]) * (old - 1) / 2 + roi[1] * (old - 1) end
      return i * (roi[2] - roi[1]) * (old - 1) / (length - 1) + roi[1] * (old - 1)
   elseif mode == "pytorch_half_pixel" then
      return scale * old == 1 and -0.5 or (i + 0.5) / scale - 0.5
   elseif mode == "half_pixel_symmetric" then
      local adjustment = new / (scale * old)
      return old / 2 * (1 - adjustment) + (i + 0.5) / scale - 0.5
   elseif mode == "tf_half_pixel_for_nn" then
      return (i + 0.5) / scale
   elseif mode == "half_pixel" then
      return (i + 0.5) / scale - 0.5
   end
end

local function nearest(x, how)
   local below = math.floor(x)
   local rest = x - below
   if how == "floor" then return below end
   if how == "ceil" then return math.ceil(x) end
   if how == "round_prefer_ceil" then return rest >= 0.5 and below + 1 or below end
   return rest > 0.5 and below + 1 or below -- round_prefer_floor
end

-- Interpolation kernels are functions of the distance d from an element. A kernel has a number
-- `reach`: it is 0 for distances of `reach` and more.
local function linear(d) return math.max(0, 1 - math.abs(d)) end

local function cubic(a)
   return function(d)
      d = math.abs(d)
      if d <= 1 then return ((a + 2) * d - (a + 3)) * d * d + 1 end
      if d < 2 then return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a end
      return 0
   end
end

-- Returns the weights of the old elements in the new element at position x, as a table that maps
-- positions to weights.
local function weights(x, old, kernel, reach, stretch, options)
   local first, last = math.floor(x - reach / stretch) + 1, math.ceil(x + reach / stretch) - 1
   local row, sum = {}, 0
   for place = first, last do
      local weight = kernel((place - x) * stretch)
      local outside = place < 0 or place >= old
      if not (outside and options.exclude_outside) then
         local inside = math.max(0, math.min(old - 1, place))
         row[inside] = (row[inside] or 0) + weight
         sum = sum + weight
      end
   end
   if sum ~= 0 and (options.exclude_outside or stretch < 1) then
      for place, weight in pairs(row) do row[place] = weight / sum end
   end
   return row
end

-- These limits protect against damaged files, which could ask for too much memory: the largest new
-- size of a dimension, the farthest position outside the old elements (as a multiple of the old
-- size), and the largest number of weights of a matrix.
local LARGEST <const>, FARTHEST <const>, MOST_WEIGHTS <const> = 1 << 24, 1 << 24, 1 << 30

-- Returns the matrix {new, old} whose row i has the weights of the old elements in the new element
-- at the position places[i].
local function weight_matrix(node, places, old, stretch, dtype, options)
   if #places * old > MOST_WEIGHTS then
      node:fail("sizes: expected at most %d weights from %d to %d elements", MOST_WEIGHTS, old,
         #places)
   end
   local cells, numbers = {}, {}
   for i, place in ipairs(places) do
      local row = weights(place, old, options.kernel, options.reach, stretch, options)
      for at, weight in pairs(row) do
         cells[#cells + 1], numbers[#numbers + 1] = (i - 1) * old + at + 1, weight
      end
   end
   local matrix = torch.zeros({#places * old}, {dtype = dtype})
   if #cells > 0 then
      matrix:index_copy_(1, support.integers(cells), torch.tensor(numbers, {dtype = dtype}))
   end
   return matrix:reshape(#places, old)
end

-- Resizes one dimension.
local function resize_dim(node, x, dim, new, scale, options)
   local old = x:size(dim)
   if old == new and scale == 1 and options.mode ~= "tf_crop_and_resize" then return x end
   if old == 0 then node:fail "a dimension of size 0" end
   local places, outside = {}, {}
   for i = 0, new - 1 do
      local place = source(options.mode, i, old, new, scale, options.roi)
         or node:fail("attribute coordinate_transformation_mode: %q is unknown", options.mode)
      if place ~= place or math.abs(place) > FARTHEST * old then
         node:fail("roi: dimension %d: the place %g of an element lies too far outside", dim, place)
      end
      places[i + 1] = place
      outside[i + 1] = options.mode == "tf_crop_and_resize" and (place < 0 or place > old - 1)
   end
   local y
   if not options.kernel then
      local index = {}
      for i, place in ipairs(places) do
         index[i] = math.max(0, math.min(old - 1, nearest(place, options.nearest)))
      end
      y = x:index_select(dim, (support.integers(index) + 1):to(x.device))
   else
      local stretch = options.antialias and math.min(scale, 1) or 1
      local exact = x:is_floating_point() and x.dtype or "float32"
      local rows = weight_matrix(node, places, old, stretch, exact, options):to(x.device)
      local moved = support.cast(x, exact):movedim(dim, -1)
      y = torch.matmul(moved, rows:t()):movedim(-1, dim)
   end
   local none = false
   for _, flag in ipairs(outside) do none = none or flag end
   if not none then return y end
   local shape = support.fill(x:dim(), 1)
   shape[dim] = new
   return y:masked_fill(torch.tensor(outside):reshape(shape):to(x.device), options.extrapolation)
end

-- Checks that a value is a valid size, and returns it.
local function check_size(node, name, size)
   if not (size >= 0 and size <= LARGEST) then
      node:fail("%s: expected new sizes of 0 to %d, got %.14g", name, LARGEST, size)
   end
   return math.tointeger(size)
end

-- Returns the new sizes and the scales of the dimensions `dims`, as the attribute
-- keep_aspect_ratio_policy requires.
local function read_sizes(node, x, scales, sizes, dims)
   local new, factors = {}, {}
   if sizes then
      local policy = node:text("keep_aspect_ratio_policy", "stretch")
      local least, most = math.huge, 0
      for i, dim in ipairs(dims) do
         local size = check_size(node, "sizes", sizes[i])
         factors[i] = size == x:size(dim) and 1 or size / x:size(dim)
         least, most = math.min(least, factors[i]), math.max(most, factors[i])
      end
      for i, dim in ipairs(dims) do
         if policy == "stretch" then
            new[i] = sizes[i]
         else
            factors[i] = policy == "not_larger" and least or most
            new[i] = check_size(node, "sizes", math.floor(factors[i] * x:size(dim) + 0.5))
         end
      end
      return new, factors
   end
   for i, dim in ipairs(dims) do
      if scales[i] ~= scales[i] or scales[i] <= 0 then
         node:fail("scales: expected more than 0, got %g", scales[i])
      end
      local size = math.floor(x:size(dim) * scales[i] + 1e-6)
      new[i], factors[i] = check_size(node, "scales", size), scales[i]
   end
   return new, factors
end

local function resize(node, x, roi, scales, sizes)
   local mode = node:text("mode", "nearest")
   local options = {
      mode = node:text("coordinate_transformation_mode",
         node.version < 11 and "asymmetric" or "half_pixel"),
      nearest = node:text("nearest_mode", node.version < 11 and "floor" or "round_prefer_floor"),
      antialias = node:int("antialias", 0) ~= 0,
      exclude_outside = node:int("exclude_outside", 0) ~= 0,
      extrapolation = node:float("extrapolation_value", 0),
   }
   if mode == "linear" or mode == "bilinear" then
      options.kernel, options.reach = linear, 1
   elseif mode == "cubic" then
      options.kernel, options.reach = cubic(node:float("cubic_coeff_a", -0.75)), 2
   elseif mode ~= "nearest" then
      node:fail("attribute mode: %q is unknown", mode)
   end
   local dims = {}
   for i = 1, x:dim() do dims[i] = i end
   if node:has "axes" then dims = node:dims(node:ints "axes", x:dim()) end
   if #(sizes or scales) ~= #dims then
      node:fail("expected %d %s, got %d", #dims, sizes and "sizes" or "scales", #(sizes or scales))
   end
   local new, factors = read_sizes(node, x, scales, sizes, dims)
   local y = x
   for i, dim in ipairs(dims) do
      if roi and #roi == 2 * #dims then options.roi = {roi[i], roi[#dims + i]} end
      if options.mode == "tf_crop_and_resize" and not options.roi then
         node:fail "roi is missing"
      end
      y = resize_dim(node, y, dim, new[i], factors[i], options)
   end
   if y.dtype == x.dtype then return y end
   local low, high = support.limit(x.dtype, false), support.limit(x.dtype, true)
   return y:round():clamp(low, high):to(x.dtype)
end

local function floats(node, tensor, name)
   if not tensor or tensor:numel() == 0 then return nil end
   return node:list(tensor, nil, name == "sizes" and name or "floats")
end

function M.Resize(node, x, roi, scales, sizes)
   if node.version < 11 then return resize(node, x, nil, floats(node, roi, "scales")) end
   scales, sizes = floats(node, scales, "scales"), floats(node, sizes, "sizes")
   if (scales == nil) == (sizes == nil) then node:fail "expected either scales or sizes" end
   return resize(node, x, floats(node, roi, "roi"), scales, sizes)
end

function M.Upsample(node, x, scales)
   local list = scales and floats(node, scales, "scales") or node:floats "scales"
   if not list then node:fail "scales are missing" end
   return resize(node, x, nil, list)
end

return M
