-- vision.lua - operators that sample images, process boxes and decode images.

local torch = require "tlua"
local support = require "tlua.onnx.support"

local F = torch.nn.functional

local M = {}

local modes <const> = {bilinear = "bilinear", linear = "bilinear", nearest = "nearest",
   bicubic = "bicubic", cubic = "bicubic"}

function M.GridSample(node, x, grid)
   local name = node:text("mode", node.version < 20 and "bilinear" or "linear")
   return F.grid_sample(x, grid, {
      mode = modes[name] or node:fail("attribute mode: %q is unknown", name),
      padding_mode = node:text("padding_mode", "zeros"),
      align_corners = node:int("align_corners", 0) ~= 0,
   })
end

function M.AffineGrid(node, theta, size)
   return F.affine_grid(theta, node:list(size, nil, "size"), node:int("align_corners", 0) ~= 0)
end

-- Returns a matrix {K, size} with the weights of `size` pixels for each of K coordinates. A
-- coordinate that lies more than one pixel outside has no weights.
local function linear_weights(coordinates, size)
   local inside = coordinates:ge(-1) * coordinates:le(size)
   local clamped = coordinates:clamp(0, size - 1)
   local pixels = torch.arange(0, size,
      {dtype = coordinates.dtype, device = coordinates.device}):unsqueeze(1)
   local weights = (1 - (clamped:unsqueeze(2) - pixels):abs()):clamp {min = 0}
   return weights * inside:to(weights.dtype):unsqueeze(2)
end

function M.RoiAlign(node, x, rois, batches)
   local oh, ow = node:int("output_height", 1), node:int("output_width", 1)
   local ratio, scale = node:int("sampling_ratio", 0), node:float("spatial_scale", 1)
   local half = node.version >= 16
      and node:text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
   local mode = node:text("mode", "avg")
   local images = support.from_one(node, batches, x:size(1)):tolist()
   local results = {}
   for i, box in ipairs(rois:tolist()) do
      local shift = half and 0.5 or 0
      local x1, y1 = box[1] * scale - shift, box[2] * scale - shift
      local w, h = box[3] * scale - shift - x1, box[4] * scale - shift - y1
      if not half then w, h = math.max(w, 1), math.max(h, 1) end
      local function samples(first, length, cells)
         local n = ratio > 0 and ratio or math.ceil(length / cells)
         local list = {}
         for c = 0, cells - 1 do
            for s = 0, n - 1 do
               list[#list + 1] = first + c * length / cells + (s + 0.5) * length / cells / n
            end
         end
         return torch.tensor(list, {dtype = x.dtype, device = x.device}), n
      end
      local ys, ny = samples(y1, h, oh)
      local xs, nx = samples(x1, w, ow)
      local rows, columns = linear_weights(ys, x:size(3)), linear_weights(xs, x:size(4))
      local image = x:select(1, images[i])
      -- The maximum is taken of the weighted pixels, before they are added to samples.
      if mode == "max" then
         local function corners(c, size)
            local low = c:clamp(0, size - 1):floor()
            return low, (low + 1):clamp {max = size - 1}
         end
         local y_low, y_high = corners(ys, x:size(3))
         local x_low, x_high = corners(xs, x:size(4))
         local best
         for _, yc in ipairs {y_low, y_high} do
            for _, xc in ipairs {x_low, x_high} do
               local wy = rows:gather(2, (yc:to "int64" + 1):unsqueeze(2))
               local wx = columns:gather(2, (xc:to "int64" + 1):unsqueeze(2))
               local part = image:index_select(2, yc:to "int64" + 1)
                  :index_select(3, xc:to "int64" + 1) * wy * wx:reshape(1, 1, -1)
               best = best and torch.maximum(best, part) or part
            end
         end
         results[i] = best:reshape(-1, oh, ny, ow, nx):amax {3, 5}
      else
         local sampled = torch.matmul(torch.matmul(rows, image), columns:t())
         results[i] = sampled:reshape(-1, oh, ny, ow, nx):mean {3, 5}
      end
   end
   if #results == 0 then return x:new_empty {0, x:size(2), oh, ow} end
   return torch.stack(results, 1)
end

-- Returns the lower corner and the upper corner of a box.
local function corners(box, centred)
   if centred then
      local x, y, w, h = table.unpack(box)
      return x - w / 2, y - h / 2, x + w / 2, y + h / 2
   end
   return math.min(box[1], box[3]), math.min(box[2], box[4]), math.max(box[1], box[3]),
      math.max(box[2], box[4])
end

local function overlap(a, b)
   local w = math.min(a[3], b[3]) - math.max(a[1], b[1])
   local h = math.min(a[4], b[4]) - math.max(a[2], b[2])
   if w <= 0 or h <= 0 then return 0 end
   local both = w * h
   local union = (a[3] - a[1]) * (a[4] - a[2]) + (b[3] - b[1]) * (b[4] - b[2]) - both
   return union <= 0 and 0 or both / union
end

function M.NonMaxSuppression(node, boxes, scores, most, iou, least)
   local centred = node:int("center_point_box", 0) ~= 0
   local limit = most and most:item() or 0
   local threshold, score_limit = iou and iou:item() or 0, least and least:item()
   local chosen = {}
   local all, marks = boxes:tolist(), scores:tolist()
   for b, list in ipairs(all) do
      local places = {}
      for i, box in ipairs(list) do places[i] = {corners(box, centred)} end
      for class, row in ipairs(marks[b]) do
         local order = {}
         for i, score in ipairs(row) do
            if not score_limit or score > score_limit then order[#order + 1] = i end
         end
         table.sort(order, function(i, j)
            if row[i] ~= row[j] then return row[i] > row[j] end
            return i < j
         end)
         local kept = {}
         for _, i in ipairs(order) do
            if #kept >= limit then break end
            local free = true
            for _, k in ipairs(kept) do
               free = free and overlap(places[i], places[k]) <= threshold
            end
            if free then
               kept[#kept + 1] = i
               table.move({b - 1, class - 1, i - 1}, 1, 3, #chosen + 1, chosen)
            end
         end
      end
   end
   return support.integers(chosen):reshape(-1, 3)
end

function M.ImageDecoder(node, bytes)
   local format = node:text("pixel_format", "RGB")
   local image, why = torch.io.decode_image(bytes:contiguous():cpu())
   if not image then node:fail("%s", why) end
   -- Decoded images have the shape {channels, height, width}.
   if image:size(1) == 1 and format ~= "Grayscale" then
      image = image:expand(3, image:size(2), image:size(3))
   end
   if image:size(1) == 4 then image = image:narrow(1, 1, 3) end
   if format == "BGR" then
      image = image:flip(1)
   elseif format == "Grayscale" and image:size(1) == 3 then
      local parts = image:to "float32"
      image = (parts:select(1, 1) * 0.299 + parts:select(1, 2) * 0.587
         + parts:select(1, 3) * 0.114):round():to "uint8":unsqueeze(1)
   elseif format ~= "RGB" and format ~= "Grayscale" then
      node:fail("attribute pixel_format: %q is unknown", format)
   end
   return image:permute(2, 3, 1):contiguous()
end

return M
