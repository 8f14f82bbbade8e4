-- roi.lua - cuts regions of interest out of feature maps and brings them to one size. roi_align
-- averages interpolated values, and roi_pool takes maxima of whole pixels. ps_roi_align and
-- ps_roi_pool are position-sensitive: each cell of the result is computed from its own channels of
-- the input. ps_roi_pool takes means instead of maxima.
--
-- An aligned region is computed as the product of a sparse matrix with the feature map. A row of
-- the matrix belongs to a cell, and has the weight of each pixel in this cell.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn

local M = {}

-- Arguments ---------------------------------------------------------------------------------------

local function pair(title, name, value)
   local list = args.expand(title, name, value, 2)
   if list[1] < 1 or list[2] < 1 then args.refuse(title, name, "sizes of at least 1", value) end
   return list[1], list[2]
end

-- Returns a list with {positions, boxes} for each image, where `positions` are the numbers of the
-- image's boxes among all boxes. Boxes are given as a list with a tensor (n, 4) for each image, or
-- as one tensor (n, 5), whose first column has the positions of the images.
local function by_image(title, input, boxes)
   local count, parts, first = input:size(1), {}, 1
   if torch.is_tensor(boxes) then
      if boxes:dim() ~= 2 or boxes:size(2) ~= 5 then
         args.refuse(title, "boxes", "a tensor of shape (n, 5) or a list of tensors (n, 4)", boxes)
      end
      local images = boxes:select(2, 1)
      if boxes:size(1) > 0 then
         local low, high = images:min():item(), images:max():item()
         if low < 1 or high > count then
            torch.raise(("%s: boxes: expected images from 1 to %d in the first column, got %g")
               :format(title, count, low < 1 and low or high))
         end
      end
      if not images:eq(images:round()):all():item() then
         torch.raise(title .. ": boxes: expected whole numbers in the first column")
      end
      for i = 1, count do
         local own = images:eq(i):nonzero():squeeze(2)
         parts[i] = {own, boxes:index_select(1, own):narrow(2, 2, 4)}
      end
      return parts, boxes:size(1)
   end
   if type(boxes) ~= "table" or #boxes ~= count then
      args.refuse(title, "boxes",
         ("a tensor (n, 5), or a list of tensors for %d images"):format(count),
         type(boxes) == "table" and #boxes .. " of them" or boxes)
   end
   for i, own in ipairs(boxes) do
      if not torch.is_tensor(own) or own:dim() ~= 2 or own:size(2) ~= 4 then
         args.refuse(title, ("boxes[%d]"):format(i), "a tensor of shape (n, 4)", own)
      end
      local n = own:size(1)
      parts[i] = {torch.arange(first, first + n, {dtype = "int64", device = own.device}), own}
      first = first + n
   end
   return parts, first - 1
end

local function check_input(title, input)
   if input:dim() ~= 4 or not input:is_floating_point() then
      args.refuse(title, "input", "floating numbers of shape (N, C, H, W)", input)
   end
   if input:numel() == 0 then args.refuse(title, "input", "at least one value", input) end
end

-- Concatenates the pieces of a result, and puts the regions into the order of their boxes. Each
-- piece is {positions, result}.
local function in_order(pieces, input, shape)
   if #pieces == 0 then return input:new_zeros(shape) + input:sum() * 0 end
   if #pieces == 1 then return pieces[1][2]:contiguous() end
   local positions, results = {}, {}
   for i, piece in ipairs(pieces) do positions[i], results[i] = piece[1], piece[2] end
   local order = select(2, torch.cat(positions):sort())
   return torch.cat(results):index_select(1, order)
end

-- Aligned regions ---------------------------------------------------------------------------------

-- Returns the two pixels next to each sample along one side, counted from 0, and their weights in
-- the average of a cell, both as (2 * per_cell, cells, n). `low` (n) has the first coordinate of
-- each region, and `cell` (n) the size of its cells. The regions are the last dimension, since long
-- rows are added and multiplied faster. A sample that is more than one pixel outside the map has
-- weight 0.
local function samples(low, cell, cells, per_cell, size)
   local like = {dtype = low.dtype, device = low.device}
   local function times(numbers, ...) return cell * numbers:view(...) end
   -- The terms are added in torchvision's order, since rounding decides whether a sample at an edge
   -- is outside.
   local starts = low + times(torch.arange(cells, like), 1, -1, 1)
   local at = starts + times(torch.arange(per_cell, like) + 0.5, -1, 1, 1) / per_cell
   local inside = at:ge(-1):logical_and(at:le(size))
   at = at:masked_fill(inside:logical_not(), 0):clamp(0, size - 1)
   local first = at:floor()
   local part, weight = at - first, inside:to(low.dtype) / per_cell
   return torch.cat({first, (first + 1):clamp_max(size - 1)}, 1):long(),
      torch.cat({(1 - part) * weight, part * weight}, 1)
end

-- Returns an image (C, H, W) as a matrix with a row for each pixel and a column for each channel.
local function rows_of(image) return image:flatten(2):t():contiguous() end

-- The largest number of channels in each cell for which each channel is handled by itself.
local few_channels <const> = 6

-- Returns the product (count, C) of a sparse matrix with an image in which each cell has its own
-- channels. The `count` rows of the matrix are cells of regions. Its columns are the pixels of the
-- first cell's channel, then those of the second cell's channel, and so on.
local function product_by_cell(image, pointers, pixels, weights, count, cells)
   local size = image:size(2) * image:size(3)
   local channels = image:size(1) // cells
   local maps = image:reshape(channels, cells * size)
   if channels > few_channels then
      return torch._csr_mm(pointers, pixels, weights, maps:t(), count)
   end
   local results = {}
   for c = 1, channels do
      results[c] = torch._csr_mm(pointers, pixels, weights, maps[c]:unsqueeze(2), count)
   end
   return torch.cat(results, 2)
end

-- Returns the weighted sums of samples for n regions of an image in which each cell has its own
-- channels: (n, channels, height, width). `y` and `x` are the positions of the samples' pixels
-- along the sides, (count, height or width, n), and the other two are their weights.
local function sum_of_few(image, y, x, y_weights, x_weights)
   local height, width, n = y:size(2), x:size(2), y:size(3)
   local function along_y(values) return values:view(-1, 1, height, 1, n) end
   local function along_x(values) return values:view(1, -1, 1, width, n) end
   local maps = image:reshape(-1, height * width * image:size(2) * image:size(3))
   local weights = (along_y(y_weights) * along_x(x_weights)):to(maps.dtype)
   local values = maps:index_select(2, (along_y(y) + along_x(x)):flatten())
   local terms = values:view(-1, y:size(1) * x:size(1), height * width * n)
      :mul_(weights:view(-1, height * width * n))
   return terms:sum(2):view(-1, height, width, n):permute {4, 1, 2, 3}
end

-- Returns the sums of the cells of n regions, (n, channels, height, width). Each sum is the product
-- of the image with a row of a sparse matrix: the elements of the row are in the columns `pixels`
-- and have the values `weights`, both (n, height, width, count).
local function sum_of_cells(image, pixels, weights, is_ps)
   local n, height, width, count = table.unpack(pixels.shape)
   local cells = n * height * width
   local pointers = torch.arange(1, cells * count + 2, count,
      {dtype = "int64", device = image.device})
   pixels, weights = pixels:flatten(), weights:flatten():to(image.dtype)
   local sums = is_ps
      and product_by_cell(image, pointers, pixels, weights, cells, height * width)
      or torch._csr_mm(pointers, pixels, weights, rows_of(image), cells)
   return sums:view(n, height, width, -1):permute {1, 4, 2, 3}
end

-- The smallest number of regions for which sum_of_few is faster than a sparse product.
local enough_regions <const> = 8

-- Returns the averages of the samples in each cell of n regions of one image: (n, channels, height,
-- width). A cell has ny rows and nx columns of samples.
local function average(image, boxes, height, width, ny, nx, is_aligned, is_ps)
   local n = boxes:size(1)
   local rows, columns = image:size(2), image:size(3)
   local x1, y1, x2, y2 = table.unpack(boxes:unbind(2))
   local w, h = x2 - x1, y2 - y1
   if not is_aligned then w, h = w:clamp_min(1), h:clamp_min(1) end
   local y, y_weights = samples(y1, h / height, height, ny, rows)
   local x, x_weights = samples(x1, w / width, width, nx, columns)
   y = y * columns + 1
   if is_ps then
      -- Each cell reads its own channel, so the pixels of the channels of all earlier cells are
      -- skipped.
      local size, like = rows * columns, {dtype = "int64", device = image.device}
      y = y + torch.arange(0, height, like):view(height, 1) * (width * size)
      x = x + torch.arange(0, width, like):view(width, 1) * size
      if n >= enough_regions and image:size(1) <= few_channels * height * width then
         return sum_of_few(image, y, x, y_weights, x_weights)
      end
   end
   -- Before y and x are combined, the elements of each cell are made contiguous, since the
   -- combination is then faster.
   local function along_y(values)
      return values:permute {3, 2, 1}:reshape(n, height, 1, 2 * ny, 1)
         :expand(n, height, 1, 2 * ny, 2 * nx):reshape(n, height, 1, -1)
   end
   local function along_x(values)
      return values:permute {3, 2, 1}:reshape(n, 1, width, 1, 2 * nx)
         :expand(n, 1, width, 2 * ny, 2 * nx):reshape(n, 1, width, -1)
   end
   local pixels = along_y(y) + along_x(x)
   local weights = along_y(y_weights) * along_x(x_weights)
   return sum_of_cells(image, pixels, weights, is_ps)
end

local most_samples <const> = 1 << 26 -- the largest number of samples of a region

-- Groups boxes that need the same numbers of samples. `sides` (n, 2) has their widths and heights.
-- Returns a list of {ny, nx, positions, is_flat}. If the sampling ratio is not above 0, a cell has
-- about one sample for each pixel. Flat boxes, which have a side of at most 0, get one sample in
-- each cell.
local function by_samples(title, sides, height, width, ratio)
   if ratio > 0 then return {{ratio, ratio}} end
   local groups, list = {}, {}
   for i, side in ipairs(sides:double():tolist()) do
      local across, down = side[1], side[2]
      local nx = math.max(1, math.ceil(across / width))
      local ny = math.max(1, math.ceil(down / height))
      -- The product is computed in floating-point numbers because a product of integers could wrap
      -- around.
      if 1.0 * ny * nx * height * width > most_samples then
         torch.raise(("%s: boxes: expected at most %d samples for a box, got %s x %s of them; a "
            .. "sampling_ratio limits them"):format(title, most_samples, nx * width, ny * height))
      end
      local is_flat = across <= 0 or down <= 0
      local key = is_flat and 0 or ny * 65536 + nx
      if not groups[key] then
         groups[key] = {is_flat and 1 or ny, is_flat and 1 or nx, {}, is_flat}
         list[#list + 1] = groups[key]
      end
      table.insert(groups[key][3], i)
   end
   return list
end

-- Computes the function roi_align for the boxes of all images, or ps_roi_align if is_ps is true.
local function align(title, input, boxes, height, width, scale, ratio, is_aligned, is_ps)
   check_input(title, input)
   local pieces = {}
   local parts = by_image(title, input, boxes)
   for i, part in ipairs(parts) do
      local positions, own = part[1], part[2]
      if own:size(1) > 0 then
         if not own:isfinite():all():item() then
            torch.raise(title .. ": boxes: expected finite numbers, got nan or inf")
         end
         own = own:detach():to(input.dtype) * scale - (is_aligned and 0.5 or 0)
         local image = input[i]
         local sides = own:narrow(2, 3, 2) - own:narrow(2, 1, 2)
         if not is_aligned then sides = sides:clamp_min(1) end
         for _, group in ipairs(by_samples(title, sides, height, width, ratio)) do
            local which = group[3] and torch.tensor(group[3], {device = own.device})
            local chosen = which and own:index_select(1, which) or own
            local means = average(image, chosen, height, width, group[1], group[2], is_aligned,
               is_ps)
            -- As in torchvision, flat boxes have no samples in roi_align, so their cells are 0.
            if group[4] and not is_ps then
               means = means:masked_fill(torch.ones_like(means, {dtype = "bool"}), 0)
            end
            pieces[#pieces + 1] = {which and positions:index_select(1, which) or positions, means}
         end
      end
   end
   local channels = input:size(2) // (is_ps and height * width or 1)
   return in_order(pieces, input, {0, channels, height, width})
end

local take_align = args.signature [[vision.ops.roi_align(input: tensor, boxes: any,
   output_size: integers, spatial_scale: number = 1, sampling_ratio: integer = -1,
   aligned: boolean = false)]]

--- Returns regions of feature maps as cells. A cell is the average of values that are interpolated
--- at `sampling_ratio`^2 points. If this ratio is not above 0, a cell has about one point for each
--- pixel. `aligned` shifts boxes by half a pixel, so that the centres of pixels are at integers.
--- Only `input` gets a gradient.
---
---     local x = torch.arange(0, 16, {dtype = "float32"}):view(1, 1, 4, 4)
---     local boxes = {torch.tensor {{0.0, 0, 2, 2}}}
---     print(torch.vision.ops.roi_align(x, boxes, 1, {sampling_ratio = 2}))
---     --> tensor([[[[5.]]]])
---@param input Tensor  (N, C, H, W)
---@param boxes Tensor|Tensor[]  a tensor (n, 4) x1, y1, x2, y2 for each image, or (n, 5) with the
--- image's position, from 1, in the first column
---@param output_size integer|integer[]  the numbers of cells of a result
---@param options? {spatial_scale: number, sampling_ratio: integer, aligned: boolean}
--- spatial_scale: multiplies the boxes, 1 by default; sampling_ratio: -1 by default; aligned: false
--- by default
---@return Tensor  (n, C, *output_size)
function M.roi_align(...)
   local title, a = "vision.ops.roi_align", take_align(...)
   local height, width = pair(title, "output_size", a.output_size)
   return align(title, a.input, a.boxes, height, width, a.spatial_scale, a.sampling_ratio,
      a.aligned)
end

-- Raises an error if the number of the input's channels is not a multiple of the number of cells.
local function check_channels(title, input, height, width)
   local channels = input:size(2)
   if channels % (height * width) ~= 0 then
      torch.raise(("%s: input: expected a multiple of %d x %d channels, got %d"):format(title,
         height, width, channels))
   end
end

local take_ps_align = args.signature [[vision.ops.ps_roi_align(input: tensor, boxes: any,
   output_size: integers, spatial_scale: number = 1, sampling_ratio: integer = -1)]]

--- Pools regions like roi_align with `aligned`, but each cell has its own channels: cell (i, j) of
--- channel c is computed from the input's channel (c * height + i) * width + j, all counted from 0.
---
---     local x = torch.arange(0, 4, {dtype = "float32"}):view(1, 4, 1, 1)
---     local boxes = {torch.tensor {{0.0, 0, 1, 1}}}
---     local cells = torch.vision.ops.ps_roi_align(x:expand(1, 4, 3, 3), boxes, 2)
---     print(cells:flatten())
---     --> tensor([0., 1., 2., 3.])
---@param input Tensor  (N, C * height * width, H, W)
---@param boxes Tensor|Tensor[]  boxes in the form that roi_align takes
---@param output_size integer|integer[]  the numbers of cells of a result
---@param options? {spatial_scale: number, sampling_ratio: integer}  spatial_scale: multiplies the
--- boxes, 1 by default; sampling_ratio: as in roi_align
---@return Tensor  (n, C, *output_size)
function M.ps_roi_align(...)
   local title, a = "vision.ops.ps_roi_align", take_ps_align(...)
   local height, width = pair(title, "output_size", a.output_size)
   check_input(title, a.input)
   check_channels(title, a.input, height, width)
   return align(title, a.input, a.boxes, height, width, a.spatial_scale, a.sampling_ratio, true,
      true)
end

-- Pooled regions ----------------------------------------------------------------------------------

-- Returns two tensors (cells, n) for n regions along one side: the first pixel of each cell, and
-- the pixel after its last, both counted from 0. Coordinates are rounded. They are computed in
-- float32, as in torchvision, so that pixels at the borders of cells belong to the same cells.
local function cells_of(low, high, cells, size, is_ps)
   local function round(x) return torch.where(x:ge(0), (x + 0.5):floor(), (x - 0.5):ceil()) end
   local first = round(low)
   local extent = (round(high) - first + (is_ps and 0 or 1)):clamp_min(1)
   local steps = torch.arange(cells + 1, {dtype = low.dtype, device = low.device}):unsqueeze(2)
   local edges = extent / cells * steps
   local last = is_ps and size - 1 or size
   local from = (edges:narrow(1, 1, cells):floor() + first):clamp(0, last)
   local to = (edges:narrow(1, 2, cells):ceil() + first):clamp(0, last)
   return from:double(), to:double()
end

local most_values <const> = 1 << 22 -- the largest number of values that one reduction reads

-- Calls reduce(image, cells) for groups of regions. Returns the concatenated results, (n, channels,
-- height, width). `cells` has three float64 tensors (height * width, n) with an element for each
-- cell: `first`, the position of its first pixel, counted from 1; `columns`, the number of its
-- columns; and `count`, the number of its pixels. The regions are the last dimension, since long
-- rows are added faster. `reduce` returns a tensor (n, channels, height * width).
local function pool(title, input, boxes, sizes, channels, is_ps, reduce)
   local height, width, scale = table.unpack(sizes)
   local rows, columns = input:size(3), input:size(4)
   local pieces = {}
   local function add(image, positions, own)
      local n = own:size(1)
      local x1, y1, x2, y2 = table.unpack(own:unbind(2))
      local top, bottom = cells_of(y1, y2, height, rows, is_ps)
      local left, right = cells_of(x1, x2, width, columns, is_ps)
      local across = (right - left):clamp_min_(0)
      local down = (bottom - top):clamp_min_(0)
      local cells = {
         first = ((top * columns + 1):unsqueeze(2) + left):flatten(1, 2),
         columns = across:expand(height, width, n):flatten(1, 2),
         count = (down:unsqueeze(2) * across):flatten(1, 2),
      }
      pieces[#pieces + 1] = {positions, reduce(image, cells):unflatten(3, {height, width})}
   end
   for number, part in ipairs(by_image(title, input, boxes)) do
      local own = part[2]:detach():to(input.dtype == "float64" and "float64" or "float32") * scale
      local n = own:size(1)
      if n > 0 then
         local sides = own:narrow(2, 3, 2) - own:narrow(2, 1, 2) + 2
         local least = sides:clamp(2, rows + columns):prod(2):max():item()
            + (channels + 4) * height * width
         if not own:isfinite():all():item() then
            torch.raise(title .. ": boxes: expected finite numbers, got nan or inf")
         end
         local step = math.max(1, most_values // math.tointeger(least // 1))
         for first = 1, n, step do
            local count = math.min(step, n - first + 1)
            add(input[number], part[1]:narrow(1, first, count), own:narrow(1, first, count))
         end
      end
   end
   return in_order(pieces, input, {0, channels, height, width})
end

-- Returns the largest values of cells, (cells, channels). `maps` has a row of channels for each
-- pixel. `pixels` is a list of tensors: the first pixels of the cells, their second pixels, and so
-- on. The cells have descending numbers of pixels, so that each tensor belongs to the first cells.
-- Cells without pixels, which come last among the `number` cells, are 0.
local function largest_of(maps, pixels, number)
   local values, best = maps:detach(), maps:new_zeros(number, maps:size(2))
   local has_grad = torch.is_grad_enabled() and maps.requires_grad
   local at = has_grad and torch.ones(best.shape, {dtype = "int32", device = maps.device})
   local has_nan = has_grad and values:isnan():any():item()
   local buffer = torch.empty_like(best)
   for step, own in ipairs(pixels) do
      local n = own:size(1)
      local new, own_best = buffer:narrow(1, 1, n), best:narrow(1, 1, n)
      torch.index_select(values, 1, own, {out = new})
      local own_at = has_grad and at:narrow(1, 1, n)
      if step == 1 then
         own_best:copy_(new)
         if has_grad then own_at:copy_(own:unsqueeze(2):expand(own_at.shape)) end
      elseif has_grad then
         local is_larger = new:gt(own_best)
         if has_nan then is_larger = is_larger | own_best:isnan() end
         torch.where(is_larger, own:unsqueeze(2), own_at, {out = own_at})
         torch.where(is_larger, new, own_best, {out = own_best})
      else
         torch.fmax(own_best, new, {out = own_best})
      end
   end
   if not has_grad then return best end
   best = maps:gather(1, at:long())
   local filled = pixels[1] and pixels[1]:size(1) or 0
   if filled == number then return best end
   return torch.cat {best:narrow(1, 1, filled), maps:new_zeros(number - filled, maps:size(2))}
end

-- Returns the largest value of each cell of an image (C, H, W), as (n, C, cells). A cell without
-- pixels gives 0, and a cell gives NaN only if all of its pixels are NaN. If the largest value
-- occurs several times, its first occurrence gets the gradient.
local function largest_values(image, cells)
   -- The cells are sorted by their numbers of pixels, so that the cells with at least k pixels are
   -- at the beginning.
   local counts, order = cells.count:flatten():sort(1, true)
   local number, most = counts:size(1), math.tointeger(counts[1]:item())
   local having = number - torch.bincount(counts:long() + 1, nil, most + 1):cumsum(1)
   local first = cells.first:flatten():index_select(1, order)
   local columns = cells.columns:flatten():index_select(1, order)
   local gap, pixels = image:size(3) - columns, {}
   for k, n in ipairs(having:narrow(1, 1, most):tolist()) do
      -- Pixel k - 1, counted from 0, is in row (k - 1) // columns of its cell. Quotients of such
      -- integers are rounded down correctly in float64.
      local row = ((k - 1) / columns:narrow(1, 1, n)):floor_()
      pixels[k] = row:mul_(gap:narrow(1, 1, n)):add_(first:narrow(1, 1, n)):add_(k - 1):int()
   end
   -- Only a few channels are processed at a time, so that the rows stay in the cache.
   local size = math.max(image:size(2) * image:size(3), number)
   local channels, results = math.max(16, (1 << 16) // size), {}
   local place, n = order:argsort():view(cells.count.shape):t():flatten(), cells.count:size(2)
   for _, part in ipairs(image:split(channels, 1)) do
      results[#results + 1] = largest_of(rows_of(part), pixels, number):index_select(1, place)
         :view(n, number // n, -1):transpose(2, 3)
   end
   return torch.cat(results, 2)
end

-- Returns the mean of each cell over its own channels of the image, as (n, C, cells). A cell
-- without pixels gives 0.
local function mean_values(image, cells)
   local number, n = cells.count:size(1), cells.count:size(2)
   local rows, columns = image:size(2), image:size(3)
   local like = {dtype = "float64", device = image.device}
   local before = torch.arange(0, number * rows * columns, rows * columns, like):unsqueeze(2)
   local count = cells.count:flatten()
   local ends = count:cumsum(1)
   local begins = ends - count
   local cell = torch.arange(1, number * n + 1, {dtype = "int64", device = image.device})
      :repeat_interleave(count:long())
   local function by_pixel(values) return values:flatten():index_select(1, cell) end
   -- Pixel k, counted from 0, is in row k // columns of its cell, as in largest_values.
   local k = torch.arange(cell:size(1), like):sub_(by_pixel(begins))
   local row = (k / by_pixel(cells.columns)):floor_()
   local pixels = row:mul_(by_pixel(columns - cells.columns)):add_(k)
      :add_(by_pixel(cells.first + before)):long()
   local pointers = torch.cat({torch.zeros(1, like), ends}):add_(1):long()
   local sums = product_by_cell(image, pointers, pixels, torch.ones_like(pixels,
      {dtype = image.dtype}), number * n, number)
   return (sums / count:clamp_min(1):to(image.dtype):unsqueeze(2)):view(number, n, -1)
      :permute {2, 3, 1}
end

local take_pool = args.signature [[vision.ops.roi_pool(input: tensor, boxes: any,
   output_size: integers, spatial_scale: number = 1)]]

--- Returns regions of feature maps as cells. Each cell is the largest value of its pixels. Boxes
--- are rounded to whole pixels, and the pixels x2 and y2 belong to them. A cell outside the map is
--- 0.
---
---     local x = torch.arange(0, 16, {dtype = "float32"}):view(1, 1, 4, 4)
---     local boxes = {torch.tensor {{0.0, 0, 1, 1}}}
---     print(torch.vision.ops.roi_pool(x, boxes, 1))
---     --> tensor([[[[5.]]]])
---@param input Tensor  (N, C, H, W)
---@param boxes Tensor|Tensor[]  boxes in the form that roi_align takes
---@param output_size integer|integer[]  the numbers of cells of a result
---@param options? {spatial_scale: number}  spatial_scale: multiplies the boxes, 1 by default
---@return Tensor  (n, C, *output_size)
function M.roi_pool(...)
   local title, a = "vision.ops.roi_pool", take_pool(...)
   local height, width = pair(title, "output_size", a.output_size)
   check_input(title, a.input)
   return pool(title, a.input, a.boxes, {height, width, a.spatial_scale}, a.input:size(2), false,
      largest_values)
end

local take_ps_pool = args.signature [[vision.ops.ps_roi_pool(input: tensor, boxes: any,
   output_size: integers, spatial_scale: number = 1)]]

--- Returns regions of feature maps as cells. Each cell is the mean of its pixels in the cell's own
--- channels, which are the same as in ps_roi_align. A cell without pixels is 0.
---
---     local x = torch.arange(0, 4, {dtype = "float32"}):view(1, 4, 1, 1)
---     local boxes = {torch.tensor {{0.0, 0, 2, 2}}}
---     local cells = torch.vision.ops.ps_roi_pool(x:expand(1, 4, 3, 3), boxes, 2)
---     print(cells:flatten())
---     --> tensor([0., 1., 2., 3.])
---@param input Tensor  (N, C * height * width, H, W)
---@param boxes Tensor|Tensor[]  boxes in the form that roi_align takes
---@param output_size integer|integer[]  the numbers of cells of a result
---@param options? {spatial_scale: number}  spatial_scale: multiplies the boxes, 1 by default
---@return Tensor  (n, C, *output_size)
function M.ps_roi_pool(...)
   local title, a = "vision.ops.ps_roi_pool", take_ps_pool(...)
   local height, width = pair(title, "output_size", a.output_size)
   check_input(title, a.input)
   check_channels(title, a.input, height, width)
   local channels = a.input:size(2) // (height * width)
   return pool(title, a.input, a.boxes, {height, width, a.spatial_scale}, channels, true,
      mean_values)
end

-- Layers ------------------------------------------------------------------------------------------

-- Defines a layer that calls a function with the layer's fields.
local function layer(Class, name, parameters, fn)
   local take = args.signature(("vision.ops.%s(%s)"):format(name, parameters))

   function Class:__init(...)
      for key, value in pairs(take(...)) do self[key] = value end
   end

   function Class:forward(input, boxes)
      local options = {self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned}
      return fn(input, boxes, table.unpack(options))
   end

   M[name] = Class
end

--- The layer that calls roi_align with `output_size`, `spatial_scale`, `sampling_ratio` and
--- `aligned`, as layer(input, boxes).
---
---     local layer = torch.vision.ops.RoIAlign(2, 1, 2)
---     local boxes = {torch.tensor {{0.0, 0, 4, 4}}}
---     print(table.unpack(layer(torch.zeros(1, 3, 8, 8), boxes).shape))
---     --> 1	3	2	2
---@class vision.ops.RoIAlign: nn.Module
---@field output_size integer|integer[]  the numbers of cells of a result
---@field spatial_scale number  multiplies the boxes
---@field sampling_ratio integer  the number of points of a cell along each side
---@field aligned boolean  whether boxes are shifted by half a pixel
---@overload fun(...): nn.Module
local RoIAlign = class.class("vision.ops.RoIAlign", nn.Module)
layer(RoIAlign, "RoIAlign", [[output_size: integers, spatial_scale: number,
   sampling_ratio: integer, aligned: boolean = false]], M.roi_align)

--- The layer that calls roi_pool with `output_size` and `spatial_scale`, as layer(input, boxes).
---
---     local layer = torch.vision.ops.RoIPool(2, 1)
---     local boxes = {torch.tensor {{0.0, 0, 4, 4}}}
---     print(table.unpack(layer(torch.zeros(1, 3, 8, 8), boxes).shape))
---     --> 1	3	2	2
---@class vision.ops.RoIPool: nn.Module
---@field output_size integer|integer[]  the numbers of cells of a result
---@field spatial_scale number  multiplies the boxes
---@overload fun(output_size: integer|integer[], spatial_scale: number): nn.Module
local RoIPool = class.class("vision.ops.RoIPool", nn.Module)
layer(RoIPool, "RoIPool", "output_size: integers, spatial_scale: number", M.roi_pool)

--- The layer that calls ps_roi_align with `output_size`, `spatial_scale` and `sampling_ratio`, as
--- layer(input, boxes).
---
---     local layer = torch.vision.ops.PSRoIAlign(2, 1, 2)
---     local boxes = {torch.tensor {{0.0, 0, 4, 4}}}
---     print(table.unpack(layer(torch.zeros(1, 12, 8, 8), boxes).shape))
---     --> 1	3	2	2
---@class vision.ops.PSRoIAlign: nn.Module
---@field output_size integer|integer[]  the numbers of cells of a result
---@field spatial_scale number  multiplies the boxes
---@field sampling_ratio integer  the number of points of a cell along each side
---@overload fun(...): nn.Module
local PSRoIAlign = class.class("vision.ops.PSRoIAlign", nn.Module)
layer(PSRoIAlign, "PSRoIAlign", [[output_size: integers, spatial_scale: number,
   sampling_ratio: integer]], M.ps_roi_align)

--- The layer that calls ps_roi_pool with `output_size` and `spatial_scale`, as layer(input, boxes).
---
---     local layer = torch.vision.ops.PSRoIPool(2, 1)
---     local boxes = {torch.tensor {{0.0, 0, 4, 4}}}
---     print(table.unpack(layer(torch.zeros(1, 12, 8, 8), boxes).shape))
---     --> 1	3	2	2
---@class vision.ops.PSRoIPool: nn.Module
---@field output_size integer|integer[]  the numbers of cells of a result
---@field spatial_scale number  multiplies the boxes
---@overload fun(output_size: integer|integer[], spatial_scale: number): nn.Module
local PSRoIPool = class.class("vision.ops.PSRoIPool", nn.Module)
layer(PSRoIPool, "PSRoIPool", "output_size: integers, spatial_scale: number", M.ps_roi_pool)

return M
