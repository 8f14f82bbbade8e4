-- roi.lua - cuts regions of interest out of feature maps and brings them to one size. roi_align
-- averages interpolated values, and roi_pool takes maxima of whole pixels. ps_roi_align and
-- ps_roi_pool are position-sensitive: each cell of the result is computed from its own channels of
-- the input. ps_roi_pool takes means instead of maxima.
--
-- An aligned region is computed as the product of a sparse matrix with the feature map. A row of
-- the matrix belongs to a cell, and has the weight of each pixel in this cell. roi_pool and
-- ps_roi_pool have a kernel.

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

-- Raises an error unless `boxes` is a list with a tensor (n, 4) for each image, or one tensor (n,
-- 5), whose first column has the positions of the images, and all numbers are finite.
local function check_boxes(title, input, boxes)
   local count, list = input:size(1), boxes
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
      list = {boxes}
   elseif type(boxes) ~= "table" or #boxes ~= count then
      args.refuse(title, "boxes",
         ("a tensor (n, 5), or a list of tensors for %d images"):format(count),
         type(boxes) == "table" and #boxes .. " of them" or boxes)
   end
   for i, own in ipairs(list) do
      if not torch.is_tensor(own) or own:dim() ~= 2 or own:size(2) ~= (own == boxes and 5 or 4) then
         args.refuse(title, ("boxes[%d]"):format(i), "a tensor of shape (n, 4)", own)
      end
      if not own:isfinite():all():item() then
         torch.raise(title .. ": boxes: expected finite numbers, got nan or inf")
      end
   end
end

-- Returns a list with {positions, boxes} for each image, where `positions` are the numbers of the
-- image's boxes among all boxes. Boxes are in one of the forms that check_boxes accepts.
local function by_image(input, boxes)
   local parts, first = {}, 1
   for i = 1, input:size(1) do
      if torch.is_tensor(boxes) then
         local own = boxes:select(2, 1):eq(i):nonzero():squeeze(2)
         parts[i] = {own, boxes:index_select(1, own):narrow(2, 2, 4)}
      else
         local n = boxes[i]:size(1)
         parts[i] = {torch.arange(first, first + n, {dtype = "int64", device = input.device}),
            boxes[i]}
         first = first + n
      end
   end
   return parts
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
   check_boxes(title, input, boxes)
   local pieces = {}
   for i, part in ipairs(by_image(input, boxes)) do
      local positions, own = part[1], part[2]
      if own:size(1) > 0 then
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

-- Computes the function roi_pool for the boxes of all images, or ps_roi_pool if is_mean is true.
local function pool(title, a, height, width, is_mean)
   local input, boxes = a.input, a.boxes
   check_boxes(title, input, boxes)
   if not torch.is_tensor(boxes) then
      local rows = {}
      for i, own in ipairs(boxes) do
         own = own:double()
         rows[i] = torch.cat({own:new_full({own:size(1), 1}, i), own}, 2)
      end
      boxes = torch.cat(rows)
   end
   return torch._roi_pool(input, boxes:detach(), {height, width}, a.spatial_scale, is_mean)
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
   return pool(title, a, height, width, false)
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
   return pool(title, a, height, width, true)
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
