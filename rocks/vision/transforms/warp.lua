-- warp.lua - the part of transforms.v2.functional that moves pixels along a map: affine, rotate,
-- perspective and elastic, for images, videos, masks, boxes and keypoints. A map has, for each
-- pixel of the result, the position in the image from which the pixel is taken, in grid_sample's
-- coordinates.

local torch = require "tlua"
local args = require "tlua.args"

local geometry = require "tlua.vision.transforms.geometry"
local kinds = require "tlua.vision.transforms.kinds"
local points = require "tlua.vision.transforms.points"

local F = torch.nn.functional
local check, masked = kinds.check_real, kinds.masked

local M = {}

-- Sampling ----------------------------------------------------------------------------------------

-- Returns the dtype in which the map for this image is computed.
local function map_dtype(image) return image:is_floating_point() and image.dtype or "float32" end

local function check_mode(title, mode)
   if mode ~= "nearest" and mode ~= "bilinear" then
      args.refuse(title, "interpolation", '"nearest" or "bilinear"', mode)
   end
end

-- Converts the coordinates in a map to positions of pixels in float32. As in a fused multiply-add,
-- the product is not rounded before the addition, so that all devices give the same results.
local function positions(x, size) return ((x + 1):double() * (size / 2) - 0.5):float() end

-- Samples images of bytes (N, C, H, W), which are given as float32, by bilinear interpolation on a
-- GPU. It rounds after the same steps as PyTorch's vector code. On other devices, grid_sample
-- rounds after these steps anyway.
local function sample_on_gpu(batch, map)
   local height, width = batch:size(3), batch:size(4)
   local x, y = positions(map:select(4, 1), width):flatten(), positions(map:select(4, 2), height)
      :flatten()
   local left, top = x:floor(), y:floor()
   local east, south = x - left, y - top
   local west, north = 1 - east, 1 - south
   local flat, sum = batch:flatten(1, 2):flatten(2), nil
   for i, weight in ipairs {north * west, north * east, south * west, south * east} do
      local column, row = left + (i - 1) % 2, top + (i - 1) // 2
      local inside = column:ge(0):logical_and(column:lt(width)):logical_and(row:ge(0))
         :logical_and(row:lt(height))
      local at = (row * width + column + 1):masked_fill(inside:logical_not(), 1):long()
      local values = flat:index_select(2, at):double()
         * weight:masked_fill(inside:logical_not(), 0):double()
      sum = (sum and values:add_(sum:double()) or values):float()
   end
   return sum:view(batch:size(1), batch:size(2), map:size(2), map:size(3))
end

-- Converts a batch to floating-point numbers. If `has_mask` is true, appends a channel of ones,
-- from which fill_outside learns which samples come from inside the image.
local function as_reals(batch, has_mask)
   local n, channels, height, width = table.unpack(batch.shape)
   if batch:is_floating_point() then
      return has_mask and torch.cat({batch, batch:new_ones(n, 1, height, width)}, 2) or batch
   end
   if not has_mask then return batch:float() end
   local real = batch:new_empty({n, channels + 1, height, width}, {dtype = "float32"})
   real:narrow(2, 1, channels):copy_(batch)
   real:narrow(2, channels + 1, 1):fill_(1)
   return real
end

-- Blends samples with the fill value where they come from outside the image. The last channel of
-- `result` has the fraction of each sample that comes from inside.
local function fill_outside(result, fill, mode, is_real)
   local channels = result:size(2) - 1
   local mask = result:narrow(2, channels + 1, 1)
   result = result:narrow(2, 1, channels)
   local values = torch.tensor(type(fill) == "table" and fill or {fill},
      {dtype = result.dtype, device = result.device}):view(1, -1, 1, 1)
   if mode == "nearest" then return torch.where(mask:lt(0.5), values, result) end
   if is_real then return (result - values) * mask + values end
   return result:sub_(values):mul_(mask):add_(values)
end

-- Samples an image along a map (1, rows, columns, 2). Samples outside the image have the value
-- `fill`. At the edge, bilinear interpolation blends the image with `fill`.
local function sample(title, image, map, mode, fill)
   fill = geometry._fill_of(title, fill, image:size(-3))
   local rows, columns = map:size(2), map:size(3)
   return kinds.as_batch(image, function(batch)
      local n, channels = batch:size(1), batch:size(2)
      if batch:numel() == 0 then return batch:new_zeros(n, channels, rows, columns) end
      local is_real = batch:is_floating_point()
      local real = as_reals(batch, fill ~= nil)
      if not is_real then map = map:detach() end
      local result
      if mode == "bilinear" and real.is_cuda and not is_real then
         result = sample_on_gpu(real, map)
      else
         result = F.grid_sample(real, map:expand(n, -1, -1, -1),
            {mode = mode, padding_mode = "zeros", align_corners = false})
      end
      if fill then result = fill_outside(result, fill, mode, is_real) end
      return is_real and result or result:round_():to(batch.dtype)
   end)
end

-- PyTorch multiplies matrices with fewer rows than this by another kernel, which rounds
-- differently.
local few_pixels <const> = 67

-- Returns a x + b y + c for the pixels with the coordinates x (columns) and y (rows). As in
-- PyTorch's matrix product on Intel's processors, a x + b y is computed with a fused multiply-add
-- if the image is not tiny.
local function linear(x, y, coefficients)
   local a, b, c = table.unpack(coefficients:unbind())
   local row, column = (x * a):view(1, -1), y:view(-1, 1)
   if x.dtype ~= "float32" or x:numel() * y:numel() < few_pixels then
      return (row + column * b):add_(c)
   end
   return (row:double() + column:double() * b:double()):float():add_(c)
end

local function numbers(list, dtype, device)
   return torch.tensor(list, {dtype = dtype, device = device})
end

-- Affine maps -------------------------------------------------------------------------------------

-- Returns the six coefficients of the inverse of an affine map, or of the map itself if `forward`
-- is true. Angles are in degrees.
local function affine_matrix(a, centre, forward)
   local rotation = math.rad(a.angle)
   local sx, sy = math.rad(a.shear[1]), math.rad(a.shear[2])
   local cx, cy = centre[1], centre[2]
   local px, py = cx + a.translate[1], cy + a.translate[2]
   local p = math.cos(rotation - sy) / math.cos(sy)
   local q = -(p * math.tan(sx) + math.sin(rotation))
   local r = math.sin(rotation - sy) / math.cos(sy)
   local s = math.cos(rotation) - r * math.tan(sx)
   local scale = a.scale
   if forward then
      local m = {p * scale, q * scale, 0.0, r * scale, s * scale, 0.0}
      m[3] = px - m[1] * cx - m[2] * cy
      m[6] = py - m[4] * cx - m[5] * cy
      return m
   end
   local m = {s / scale, -q / scale, 0.0, -r / scale, p / scale, 0.0}
   m[3] = m[3] + (cx - m[1] * px - m[2] * py)
   m[6] = m[6] + (cy - m[4] * px - m[5] * py)
   return m
end

-- Returns the width and height of a canvas that holds the whole image after an affine map. Each
-- step is computed in float32, so that it rounds as in torchvision.
local function whole_size(matrix, width, height)
   local w, h = 0.5 * width, 0.5 * height
   local corners = torch.tensor {{-w, -h, 1.0}, {-w, h, 1.0}, {w, h, 1.0}, {w, -h, 1.0}}
   local moved = corners:mm(torch.tensor(matrix):view(2, 3):t())
   local halves = torch.tensor {w, h}
   local function grid(x) return (x + halves):mul(1.0 / 1e-4):trunc():mul(1e-4) end
   local size = grid(moved:amax(1)):ceil() - grid(moved:amin(1)):floor()
   return math.tointeger(size[1]:item()), math.tointeger(size[2]:item())
end

local function affine_map(matrix, image, width, height)
   local dtype, device = map_dtype(image), image.device
   local place = {device = device}
   local function line(n)
      return torch.linspace((1.0 - n) * 0.5, (n - 1.0) * 0.5, n, place):to(dtype)
   end
   local theta = numbers(matrix, dtype, device):view(2, 3)
      / numbers({0.5 * image:size(-1), 0.5 * image:size(-2)}, dtype, device):unsqueeze(2)
   local x, y = line(width), line(height)
   return torch.stack({linear(x, y, theta[1]), linear(x, y, theta[2])}, 3):unsqueeze(1)
end

local function finite(title, name, value)
   for _, x in ipairs(type(value) == "table" and value or {value}) do
      if x ~= x or x == math.huge or x == -math.huge then
         args.refuse(title, name, "finite numbers", x)
      end
   end
end

local function two(title, name, value)
   if #value ~= 2 then args.refuse(title, name, "2 numbers", #value) end
   finite(title, name, value)
end

-- Checks the arguments of affine, and returns them with `shear` as a list.
local function affine_arguments(title, a)
   finite(title, "angle", a.angle)
   two(title, "translate", a.translate)
   local shear = type(a.shear) == "number" and {a.shear, 0.0} or a.shear
   if #shear == 1 then shear = {shear[1], shear[1]} end
   two(title, "shear", shear)
   finite(title, "scale", a.scale)
   if a.scale <= 0 then args.refuse(title, "scale", "a number above 0", a.scale) end
   if a.center then two(title, "center", a.center) end
   return {angle = a.angle, translate = a.translate, scale = a.scale, shear = shear,
      center = a.center, expand = a.expand, interpolation = a.interpolation, fill = a.fill}
end

local function affine_image(image, a, title)
   check(title, image)
   check_mode(title, a.interpolation)
   local height, width = image:size(-2), image:size(-1)
   local centre = {0.0, 0.0}
   if a.center then centre = {a.center[1] - width * 0.5, a.center[2] - height * 0.5} end
   local matrix = affine_matrix(a, centre)
   local columns, rows = width, height
   if a.expand then columns, rows = whole_size(matrix, width, height) end
   if height == 0 or width == 0 then args.refuse(title, "inpt", "an image with pixels", image) end
   return sample(title, image, affine_map(matrix, image, columns, rows), a.interpolation, a.fill)
end

-- Returns a function that moves points (n, 2) by an affine map. Also returns the size of the image
-- after the map.
local function affine_move(a, value, dtype, device)
   local height, width = table.unpack(value.canvas_size)
   local centre = a.center or {width * 0.5, height * 0.5}
   local theta = numbers(affine_matrix(a, centre, true), dtype, device):view(2, 3):t()
   local function move(p) return torch.cat({p, p:new_ones(p:size(1), 1)}, 2):mm(theta) end
   if not a.expand then return move, value.canvas_size end
   local corner = move(numbers({{0.0, 0.0}, {0.0, height}, {width, height}, {width, 0.0}}, dtype,
      device)):amin(1)
   local columns, rows = whole_size(affine_matrix(a, centre), width, height)
   return function(p) return move(p) - corner end, {rows, columns}
end

local function affine_boxes(data, a, _, value)
   local move, size = affine_move(a, value, map_dtype(data), data.device)
   return points.around(data, value, size, move), {canvas_size = size}
end

local function affine_points(data, a, _, value)
   local move, size = affine_move(a, value, map_dtype(data), data.device)
   return points.moved(data, move), {canvas_size = size}
end

-- Returns a table of kernels for all kinds of values. Each kernel first checks its arguments with
-- `prepare`.
local function affine_kernels(prepare, image)
   local kernels = {}
   for kind, kernel in pairs {image = image, boxes = affine_boxes, keypoints = affine_points} do
      kernels[kind] = function(data, a, title, value)
         return kernel(data, prepare(title, a), title, value)
      end
   end
   kernels.mask = masked(function(mask, a, title)
      local own = prepare(title, a)
      own.interpolation = "nearest"
      return image(mask, own, title)
   end)
   return kernels
end

--- Rotates images with their masks, boxes and keypoints clockwise by an angle in degrees, and
--- moves, scales and shears them.
---
---     local f = torch.vision.transforms.v2.functional
---     local image = torch.arange(0, 4):view(1, 1, 4):float()
---     print(f.affine(image, 0, {1, 0}, 1.0, {0, 0}, {fill = 9}))
---     --> tensor([[[9., 0., 1., 2.]]])
---@names vision.transforms.functional.affine
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param angle number  degrees
---@param translate number[]  pixels to the right and down
---@param scale number  a factor above 0
---@param shear number|number[]  the shear in degrees along x, or along x and y
---@param options? {interpolation: string, fill: number|number[], center: number[]}  interpolation:
--- "nearest" by default or "bilinear"; fill: the value of pixels from outside, or one for each
--- channel, 0 by default; center: x and y of the centre, by default the centre of the image
---@return any
kinds.define(M, "affine", [[angle: number, translate: numbers, scale: number,
   shear: number|numbers, interpolation: string = 'nearest', fill: number|numbers?,
   center: numbers?]], affine_kernels(affine_arguments, affine_image))

-- Converts the arguments of rotate to arguments of affine, in which angles have the opposite sign.
local function rotate_arguments(title, a)
   finite(title, "angle", a.angle)
   return affine_arguments(title, {angle = -a.angle, translate = {0.0, 0.0}, scale = 1.0,
      shear = {0.0, 0.0}, center = a.center, expand = a.expand, interpolation = a.interpolation,
      fill = a.fill})
end

local function rotate_image(image, a, title)
   check(title, image)
   check_mode(title, a.interpolation)
   local angle = -a.angle % 360
   if not a.center and angle % 90 == 0 then
      local turns = math.tointeger(angle // 90)
      if turns == 0 then return image:clone() end
      if turns == 2 or a.expand or image:size(-1) == image:size(-2) then
         return torch.rot90(image, turns, {-2, -1})
      end
   end
   a.angle = -angle
   return affine_image(image, a, title)
end

--- Rotates images with their masks, boxes and keypoints counterclockwise by an angle in degrees.
---
---     local f = torch.vision.transforms.v2.functional
---     local image = torch.tensor {{{1, 2}, {3, 4}}}
---     print(f.rotate(image, 90))
---     --> tensor([[[2, 4],
---     -->          [1, 3]]])
---@names vision.transforms.functional.rotate
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param angle number  degrees
---@param options? {interpolation: string, expand: boolean, center: number[], fill:
--- number|number[]} interpolation: "nearest" by default or "bilinear"; expand: whether the result
--- is large enough to hold the whole image, false by default; center: x and y of the centre, by
--- default the centre of the image; fill: the value of pixels from outside, or one for each
--- channel, 0 by default
---@return any
kinds.define(M, "rotate", [[angle: number, interpolation: string = 'nearest',
   expand: boolean = false, center: numbers?, fill: number|numbers?]],
   affine_kernels(rotate_arguments, rotate_image))

-- Perspective -------------------------------------------------------------------------------------

local function check_corners(title, name, list)
   if #list ~= 4 then args.refuse(title, name, "4 points", #list) end
   for i, point in ipairs(list) do
      if type(point) ~= "table" or type(point[1]) ~= "number" or type(point[2]) ~= "number" then
         args.refuse(title, ("%s[%d]"):format(name, i), "x and y", point)
      end
      finite(title, name, point)
   end
end

-- Returns the eight coefficients, rounded to float32, of the perspective map that maps the end
-- points to the start points.
local function solve(title, from, to)
   check_corners(title, "startpoints", from)
   check_corners(title, "endpoints", to)
   local rows, values = {}, {}
   for i = 1, 4 do
      local ex, ey, sx, sy = to[i][1], to[i][2], from[i][1], from[i][2]
      -- As in torchvision, the rows are rounded to float32, which keeps integers exactly.
      rows[#rows + 1] = numbers({ex, ey, 1, 0, 0, 0, -sx * ex, -sx * ey}, nil, "cpu"):double()
      rows[#rows + 1] = numbers({0, 0, 0, ex, ey, 1, -sy * ex, -sy * ey}, nil, "cpu"):double()
      values[#values + 1], values[#values + 2] = sx, sy
   end
   local ok, result = pcall(torch.linalg.solve, torch.stack(rows),
      numbers(values, "float64", "cpu"))
   if not ok or not result:isfinite():all():item() then
      torch.raise(title .. ": endpoints: expected four corners, no three of them on a line")
   end
   return result:float():tolist()
end

local function coefficients_of(title, a)
   local c = a.coefficients
   if c then
      if a.startpoints or a.endpoints then
         torch.raise(title .. ": give startpoints and endpoints, or coefficients")
      end
      if #c ~= 8 then args.refuse(title, "coefficients", "8 numbers", #c) end
      finite(title, "coefficients", c)
      return c
   end
   if not (a.startpoints and a.endpoints) then
      torch.raise(title .. ": give startpoints and endpoints, or coefficients")
   end
   return solve(title, a.startpoints, a.endpoints)
end

local function perspective_image(image, a, title)
   check(title, image)
   check_mode(title, a.interpolation)
   local height, width = image:size(-2), image:size(-1)
   if height == 0 or width == 0 then args.refuse(title, "inpt", "an image with pixels", image) end
   local c, dtype, device = coefficients_of(title, a), map_dtype(image), image.device
   local place = {dtype = dtype, device = device}
   local x = torch.linspace(0.5, width - 0.5, width, place)
   local y = torch.linspace(0.5, height - 0.5, height, place)
   local top = numbers({{c[1], c[2], c[3]}, {c[4], c[5], c[6]}}, dtype, device)
      / numbers({0.5 * width, 0.5 * height}, dtype, device):unsqueeze(2)
   local below = linear(x, y, numbers({c[7], c[8], 1.0}, dtype, device))
   local map = torch.stack({linear(x, y, top[1]):div_(below):sub_(1.0),
      linear(x, y, top[2]):div_(below):sub_(1.0)}, 3):unsqueeze(1)
   return sample(title, image, map, a.interpolation, a.fill)
end

-- Returns a function that moves points (n, 2) by the inverse of a perspective map.
local function perspective_move(title, a, dtype, device)
   local c = coefficients_of(title, a)
   local d = c[1] * c[5] - c[2] * c[4]
   if d == 0 then
      torch.raise(title .. ": coefficients: expected a map that has an inverse")
   end
   local top = numbers({
      {(c[5] - c[6] * c[8]) / d, (-c[2] + c[3] * c[8]) / d, (c[2] * c[6] - c[3] * c[5]) / d},
      {(-c[4] + c[6] * c[7]) / d, (c[1] - c[3] * c[7]) / d, (-c[1] * c[6] + c[3] * c[4]) / d},
   }, dtype, device)
   local line = {(-c[5] * c[7] + c[4] * c[8]) / d, (-c[1] * c[8] + c[2] * c[7]) / d, 1.0}
   local below = numbers({line, line}, dtype, device)
   return function(p)
      local whole = torch.cat({p, p:new_ones(p:size(1), 1)}, 2)
      return whole:mm(top:t()) / whole:mm(below:t())
   end
end

--- Warps images with their masks, boxes and keypoints so that corners move from `startpoints` to
--- `endpoints`, or maps pixels by eight coefficients: pixel (x, y) of the result is (a x + b y + c)
--- / (g x + h y + 1), (d x + e y + f) / (g x + h y + 1) of the image.
---
---     local f = torch.vision.transforms.v2.functional
---     local image = torch.arange(0, 4):view(1, 1, 4):float()
---     local coefficients = {1, 0, 1, 0, 1, 0, 0, 0}
---     print(f.perspective(image, {coefficients = coefficients}))
---     --> tensor([[[1., 2., 3., 0.]]])
---@names vision.transforms.functional.perspective
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param startpoints? number[][]  four points {x, y}
---@param endpoints? number[][]  four points {x, y}
---@param options? {interpolation: string, fill: number|number[], coefficients: number[]}
--- interpolation: "bilinear" by default or "nearest"; fill: the value of pixels from outside, or
--- one for each channel, 0 by default; coefficients: the eight coefficients, instead of the points
---@return any
kinds.define(M, "perspective", [[startpoints: names?, endpoints: names?,
   interpolation: string = 'bilinear', fill: number|numbers?, coefficients: numbers?]], {
   image = perspective_image,
   mask = masked(function(mask, a, title)
      return perspective_image(mask, {startpoints = a.startpoints, endpoints = a.endpoints,
         coefficients = a.coefficients, fill = a.fill, interpolation = "nearest"}, title)
   end),
   boxes = function(data, a, title, value)
      return points.around(data, value, value.canvas_size,
         perspective_move(title, a, map_dtype(data), data.device), "before")
   end,
   keypoints = function(data, a, title)
      return points.moved(data, perspective_move(title, a, map_dtype(data), data.device))
   end,
})

-- Elastic -----------------------------------------------------------------------------------------

-- Returns the coordinates of the centres of n pixels, as in a map. As in PyTorch's linspace in
-- float32, the step between two pixels is rounded, and the first half is counted from the lower end
-- and the second half from the upper end.
local function centres(n, dtype, device)
   local low, high = (1 - n) / n, (n - 1) / n
   if dtype ~= "float32" or n == 1 then
      return torch.linspace(low, high, n, {dtype = dtype, device = device})
   end
   local function round(x) return (string.unpack("<f", string.pack("<f", x))) end
   low, high = round(low), round(high)
   local step = round(round(high - low) / (n - 1))
   local before = torch.arange(n, {dtype = "float64", device = device})
   return torch.cat({before:narrow(1, 1, n // 2) * step + low,
      (before:narrow(1, n // 2 + 1, n - n // 2) - (n - 1)) * step + high}):float()
end

-- Returns the identity map for an image of the given size, which maps each pixel to itself.
local function identity(height, width, dtype, device)
   local x, y = centres(width, dtype, device), centres(height, dtype, device)
   return torch.stack({x:view(1, -1):expand(height, width), y:view(-1, 1):expand(height, width)},
      3):unsqueeze(1)
end

local function check_displacement(title, displacement, height, width)
   local shape = displacement.shape
   if #shape ~= 4 or shape[1] ~= 1 or shape[2] ~= height or shape[3] ~= width or shape[4] ~= 2 then
      args.refuse(title, "displacement",
         ("a tensor of shape (1, %d, %d, 2)"):format(height, width), displacement)
   end
end

local function elastic_image(image, a, title)
   check(title, image)
   check_mode(title, a.interpolation)
   local height, width = image:size(-2), image:size(-1)
   check_displacement(title, a.displacement, height, width)
   if height == 0 or width == 0 then args.refuse(title, "inpt", "an image with pixels", image) end
   local dtype = map_dtype(image)
   local map = identity(height, width, dtype, image.device)
      + a.displacement:to(dtype):to(image.device)
   return sample(title, image, map, a.interpolation, a.fill)
end

-- Returns a function that moves points (n, 2). Each point moves by the displacement of the pixel in
-- which it lies.
local function elastic_move(title, a, value, dtype, device)
   local height, width = table.unpack(value.canvas_size)
   check_displacement(title, a.displacement, height, width)
   local map = identity(height, width, dtype, device) - a.displacement:to(dtype):to(device)
   local half = numbers({width, height}, dtype, device) * 0.5
   return function(p)
      local x = p:select(2, 1):long():clamp(0, width - 1)
      local y = p:select(2, 2):long():clamp(0, height - 1)
      return (map:view(-1, 2):index_select(1, y * width + x + 1) + 1) * half - 0.5
   end
end

--- Warps images with their masks, boxes and keypoints: each pixel has its own `displacement` (1, H,
--- W, 2), with x and y in units of half the image's width and height.
---
---     local f = torch.vision.transforms.v2.functional
---     local image = torch.arange(0, 4):view(1, 1, 4):float()
---     local displacement = torch.zeros(1, 1, 4, 2)
---     displacement[{{}, {}, {}, 1}] = 0.5 -- a pixel
---     print(f.elastic(image, displacement))
---     --> tensor([[[1., 2., 3., 0.]]])
---@names vision.transforms.functional.elastic
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param displacement Tensor  (1, H, W, 2)
---@param options? {interpolation: string, fill: number|number[]}  interpolation: "bilinear" by
--- default or "nearest"; fill: the value of pixels from outside, or one for each channel, 0 by
--- default
---@return any
kinds.define(M, "elastic", [[displacement: tensor, interpolation: string = 'bilinear',
   fill: number|numbers?]], {
   image = elastic_image,
   mask = masked(function(mask, a, title)
      return elastic_image(mask,
         {displacement = a.displacement, fill = a.fill, interpolation = "nearest"}, title)
   end),
   boxes = function(data, a, title, value)
      local move = elastic_move(title, a, value, map_dtype(data), data.device)
      return points.around(data, value, value.canvas_size,
         function(corners) return move(corners:ceil()) end, "always")
   end,
   keypoints = function(data, a, title, value)
      return points.moved(data, elastic_move(title, a, value, map_dtype(data), data.device))
   end,
})

--- Another name of elastic.
---@names vision.transforms.functional.elastic_transform
---@param inpt any  an image, a video, a mask, bounding boxes or keypoints
---@param displacement Tensor  (1, H, W, 2)
---@param options? {interpolation: string, fill: number|number[]}  as in elastic
---@return any
M.elastic_transform = M.elastic

M._solve = solve

return M
