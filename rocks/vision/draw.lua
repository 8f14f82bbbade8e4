-- draw.lua - draws boxes, masks, keypoints and flows. Each function returns a new image.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- Colours -----------------------------------------------------------------------------------------

local named <const> = {
   black = 0x000000, white = 0xffffff, red = 0xff0000, green = 0x008000, blue = 0x0000ff,
   yellow = 0xffff00, cyan = 0x00ffff, magenta = 0xff00ff, orange = 0xffa500, purple = 0x800080,
   pink = 0xffc0cb, brown = 0xa52a2a, gray = 0x808080, grey = 0x808080, lime = 0x00ff00,
}

-- Converts a colour, which is a name, a string "#rrggbb" or a list, to {red, green, blue} with
-- numbers from 0 to 255.
local function colour_of(title, value)
   if type(value) == "string" then
      local hex = value:match "^#(%x%x%x%x%x%x)$"
      local number = hex and tonumber(hex, 16) or named[value]
      if number then return {number >> 16, number >> 8 & 255, number & 255} end
   elseif type(value) == "table" and #value == 3 then
      local fits = true
      for _, part in ipairs(value) do
         fits = fits and math.type(part) == "integer" and part >= 0 and part <= 255
      end
      if fits then return value end
   end
   args.refuse(title, "colors", 'colours such as "red", "#ff0000" or {255, 0, 0}', value)
end

-- Returns the colours of `count` objects. `value` is a list of colours, one colour for all objects,
-- or nil for the colours of torchvision's palette.
local function colours_of(title, value, count)
   local list = {}
   local is_list = type(value) == "table" and type(value[1]) ~= "number"
   if is_list and #value < count then
      args.refuse(title, "colors", ("at least %d colours"):format(count), #value)
   end
   for i = 1, count do
      if value == nil then
         local k = i - 1
         list[i] = {k * ((1 << 25) - 1) % 255, k * ((1 << 15) - 1) % 255, k * ((1 << 21) - 1) % 255}
      else
         list[i] = colour_of(title, is_list and value[i] or value)
      end
   end
   return list
end

-- Images ------------------------------------------------------------------------------------------

local function check_image(title, image, grey)
   local channels = image:dim() == 3 and image:size(1)
   if not (channels == 3 or grey and channels == 1)
         or image.dtype ~= "uint8" and not image:is_floating_point() then
      args.refuse(title, "image", ("a uint8 or floating tensor of shape (3%s, H, W)"):format(
         grey and " or 1" or ""), image)
   end
end

-- Raises an error if a tensor contains NaN or infinite numbers.
local function check_finite(title, name, value)
   if value:is_floating_point() and not value:isfinite():all():item() then
      torch.raise(("%s: %s: expected finite numbers, got nan or inf"):format(title, name))
   end
end

-- Returns a copy of an image as uint8 with three channels.
local function to_bytes(image)
   if image.dtype ~= "uint8" then image = (image:double() * 255.999):clamp(0, 255):to "uint8" end
   return image:size(1) == 1 and image:expand(3, -1, -1):contiguous() or image:clone()
end

local function like_original(result, image)
   return image.dtype == "uint8" and result or result:to(image.dtype) / 255
end

-- Fills the pixels from (x1, y1) to (x2, y2), counted from 0. Pixels outside the image are ignored.
-- `cover`, from 0 to 255, is the opacity of the colour; nil means that the colour is opaque.
local function fill(image, x1, y1, x2, y2, colour, cover)
   x1, y1 = math.max(x1, 0), math.max(y1, 0)
   x2, y2 = math.min(x2, image:size(3) - 1), math.min(y2, image:size(2) - 1)
   if x1 > x2 or y1 > y2 then return end
   for c = 1, 3 do
      local part = image[c]:narrow(1, y1 + 1, y2 - y1 + 1):narrow(2, x1 + 1, x2 - x1 + 1)
      if cover then
         local mixed = part:int() * (255 - cover) + (colour[c] * cover + 128)
         part:copy_(((mixed + (mixed >> 8)) >> 8):to "uint8")
      else
         part:fill_(colour[c])
      end
   end
end

-- Boxes -------------------------------------------------------------------------------------------

local take_boxes = args.signature [[vision.utils.draw_bounding_boxes(image: tensor, boxes: tensor,
   colors: any?, fill: boolean = false, width: integer = 1)]]

--- Draws boxes into an image.
---
---     local utils = torch.vision.utils
---     local image = torch.zeros(3, 6, 6, {dtype = "uint8"})
---     local boxes = torch.tensor {{1.0, 1, 4, 4}}
---     print(utils.draw_bounding_boxes(image, boxes, {colors = "red"})[{1, 2}])
---     --> tensor([  0, 255, 255, 255, 255,   0], dtype=torch.uint8)
---@param image Tensor  (3 or 1, H, W) uint8, or floating numbers from 0 to 1
---@param boxes Tensor  (n, 4) x1, y1, x2, y2
---@param options? {colors: any, fill: boolean, width: integer}  colors: one colour or a list, such
--- as "red", "#ff0000" or {255, 0, 0}; a palette by default; fill: whether boxes are filled with a
--- transparent colour; width: the width of the lines in pixels, 1 by default
---@return Tensor  (3, H, W)
function M.draw_bounding_boxes(...)
   local title, a = "vision.utils.draw_bounding_boxes", take_boxes(...)
   check_image(title, a.image, true)
   if a.boxes:dim() ~= 2 or a.boxes:size(2) ~= 4 then
      args.refuse(title, "boxes", "a tensor of shape (n, 4)", a.boxes)
   end
   if a.width < 1 then args.refuse(title, "width", "at least 1", a.width) end
   check_finite(title, "boxes", a.boxes)
   local colours = colours_of(title, a.colors, a.boxes:size(1))
   local result = to_bytes(a.image)
   -- Coordinates far outside the image are clamped, since they may not fit into integers.
   local whole = a.boxes:double():trunc():clamp(-2 ^ 31, 2 ^ 31):long():cpu():tolist()
   for i, box in ipairs(whole) do
      local x1, y1, x2, y2 = table.unpack(box)
      if x1 > x2 or y1 > y2 then
         torch.raise(("%s: boxes[%d]: expected x1 <= x2 and y1 <= y2, got (%d, %d, %d, %d)"):format(
            title, i, x1, y1, x2, y2))
      end
      local w, colour = a.width - 1, colours[i]
      if a.fill then fill(result, x1, y1, x2, y2, colour, 100) end
      fill(result, x1, y1, x2, math.min(y1 + w, y2), colour)
      fill(result, x1, math.max(y2 - w, y1), x2, y2, colour)
      fill(result, x1, y1, math.min(x1 + w, x2), y2, colour)
      fill(result, math.max(x2 - w, x1), y1, x2, y2, colour)
   end
   return like_original(result, a.image)
end

-- Masks -------------------------------------------------------------------------------------------

local take_masks = args.signature [[vision.utils.draw_segmentation_masks(image: tensor,
   masks: tensor, alpha: number = 0.8, colors: any?)]]

--- Draws masks over an image. Where masks overlap, their colour is black, as in torchvision.
---
---     local utils = torch.vision.utils
---     local image = torch.zeros(3, 1, 3, {dtype = "uint8"})
---     local mask = torch.tensor {{{true, false, false}}}
---     local options = {alpha = 0.5, colors = "red"}
---     print(utils.draw_segmentation_masks(image, mask, options)[1])
---     --> tensor([[127,   0,   0]], dtype=torch.uint8)
---@param image Tensor  (3, H, W) uint8, or floating numbers from 0 to 1
---@param masks Tensor  (n, H, W) or (H, W) booleans
---@param options? {alpha: number, colors: any}  alpha: the opacity of the masks, 0.8 by default;
--- colors: as in draw_bounding_boxes
---@return Tensor  (3, H, W)
function M.draw_segmentation_masks(...)
   local title, a = "vision.utils.draw_segmentation_masks", take_masks(...)
   check_image(title, a.image)
   local image, masks = a.image, a.masks:dim() == 2 and a.masks:unsqueeze(1) or a.masks
   if masks.dtype ~= "bool" or masks:dim() ~= 3 or masks:size(2) ~= image:size(2)
         or masks:size(3) ~= image:size(3) then
      args.refuse(title, "masks", ("booleans of shape (n, %d, %d)"):format(image:size(2),
         image:size(3)), a.masks)
   end
   if not (a.alpha >= 0 and a.alpha <= 1) then
      args.refuse(title, "alpha", "a number from 0 to 1", a.alpha)
   end
   if masks:size(1) == 0 then return image:clone() end
   local cover = image:clone()
   for i, colour in ipairs(colours_of(title, a.colors, masks:size(1))) do
      for c = 1, 3 do
         cover[c]:masked_fill_(masks[i], image.dtype == "uint8" and colour[c] or colour[c] / 255)
      end
   end
   cover:masked_fill_(masks:int():sum(1):gt(1):unsqueeze(1), 0)
   return (image * (1 - a.alpha) + cover * a.alpha):to(image.dtype)
end

-- Keypoints ---------------------------------------------------------------------------------------

-- Fills the pixels within the distance `reach` of the line segment between two points.
local function fill_segment(image, from, to, reach, colour)
   local height, width = image:size(2), image:size(3)
   local x1, y1 = math.min(from[1], to[1]) - reach, math.min(from[2], to[2]) - reach
   local x2, y2 = math.max(from[1], to[1]) + reach, math.max(from[2], to[2]) + reach
   local dx, dy = to[1] - from[1], to[2] - from[2]
   local length = math.max(dx * dx + dy * dy, 1e-9)
   for y = math.max(math.ceil(y1), 0), math.min(math.floor(y2), height - 1) do
      for x = math.max(math.ceil(x1), 0), math.min(math.floor(x2), width - 1) do
         local t = ((x - from[1]) * dx + (y - from[2]) * dy) / length
         t = math.max(0, math.min(1, t))
         local ex, ey = x - from[1] - t * dx, y - from[2] - t * dy
         if ex * ex + ey * ey <= reach * reach then fill(image, x, y, x, y, colour) end
      end
   end
end

local take_points = args.signature [[vision.utils.draw_keypoints(image: tensor, keypoints: tensor,
   connectivity: table?, colors: any?, radius: count = 2, width: count = 3,
   visibility: tensor?)]]

--- Draws keypoints as discs, and lines between the pairs of keypoints in `connectivity`.
---
---     local utils = torch.vision.utils
---     local image = torch.zeros(3, 5, 5, {dtype = "uint8"})
---     local points = torch.tensor {{{2.0, 2}}}
---     local options = {colors = "red", radius = 1}
---     print(utils.draw_keypoints(image, points, options)[{1, 3}])
---     --> tensor([  0, 255, 255, 255,   0], dtype=torch.uint8)
---@param image Tensor  (3, H, W) uint8, or floating numbers from 0 to 1
---@param keypoints Tensor  (n, K, 2) x and y, or (n, K, 3), whose last column is not used
---@param options? {connectivity: integer[][], colors: any, radius: integer, width: integer,
--- visibility: Tensor}  connectivity: pairs of positions of points, from 1; colors: one colour
--- for the discs, white by default (lines are always white); radius: the radius of the discs, 2 by
--- default; width: the width of the lines,
--- 3 by default; visibility: (n, K), true for the points that are drawn
---@return Tensor  (3, H, W)
function M.draw_keypoints(...)
   local title, a = "vision.utils.draw_keypoints", take_points(...)
   check_image(title, a.image)
   local points = a.keypoints
   if points:dim() ~= 3 or points:size(3) < 2 or points:size(3) > 3 then
      args.refuse(title, "keypoints", "a tensor of shape (n, K, 2)", points)
   end
   local n, count = points:size(1), points:size(2)
   local visible = a.visibility or torch.ones(n, count)
   if visible:dim() ~= 2 or visible:size(1) ~= n or visible:size(2) ~= count then
      args.refuse(title, "visibility", ("a tensor of shape (%d, %d)"):format(n, count), visible)
   end
   check_finite(title, "keypoints",
      points:masked_fill(visible:to(points.device):eq(0):unsqueeze(3), 0))
   for i, pair in ipairs(a.connectivity or {}) do
      for _, k in ipairs(type(pair) == "table" and #pair == 2 and pair or {0}) do
         if math.type(k) ~= "integer" or k < 1 or k > count then
            args.refuse(title, ("connectivity[%d]"):format(i),
               ("two positions from 1 to %d"):format(count), pair)
         end
      end
   end
   local colour = colour_of(title, a.colors or "white")
   local result = to_bytes(a.image)
   visible = visible:ne(0):cpu():tolist()
   for i, own in ipairs(points:long():cpu():tolist()) do
      for k, point in ipairs(own) do
         if visible[i][k] then fill_segment(result, point, point, a.radius + 0.4, colour) end
      end
      for _, pair in ipairs(a.connectivity or {}) do
         local from, to = pair[1], pair[2]
         if visible[i][from] and visible[i][to] then
            fill_segment(result, own[from], own[to], a.width / 2, {255, 255, 255})
         end
      end
   end
   return like_original(result, a.image)
end

-- Flows -------------------------------------------------------------------------------------------

-- Returns the 55 colours of directions as a tensor (55, 3): from red through yellow, green, cyan,
-- blue and magenta back to red.
local function wheel()
   local rows = {}
   local function arc(count, full, changing, falls)
      for i = 0, count - 1 do
         local row, step = {0, 0, 0}, 255 * i // count
         row[full], row[changing] = 255, falls and 255 - step or step
         rows[#rows + 1] = row
      end
   end
   arc(15, 1, 2, false)
   arc(6, 2, 1, true)
   arc(4, 2, 3, false)
   arc(11, 3, 2, true)
   arc(13, 3, 1, false)
   arc(6, 1, 3, true)
   return torch.tensor(rows, {dtype = "float32", device = "cpu"})
end

local take_flow = args.signature "vision.utils.flow_to_image(flow: tensor)"

--- Returns a picture of a flow. The colour shows the direction of the flow. Longer flows have
--- stronger colours.
---
---     local flow = torch.zeros(2, 1, 2)
---     flow[{1, 1, 2}] = 3
---     print(torch.vision.utils.flow_to_image(flow)[{{}, 1, 1}])
---     --> tensor([255, 255, 255], dtype=torch.uint8)
---@param flow Tensor  (2, H, W) or (N, 2, H, W) float32
---@return Tensor  (3, H, W) or (N, 3, H, W) uint8
function M.flow_to_image(...)
   local title, flow = "vision.utils.flow_to_image", take_flow(...).flow
   local batch = flow:dim() == 3 and flow:unsqueeze(1) or flow
   if flow.dtype ~= "float32" or batch:dim() ~= 4 or batch:size(2) ~= 2 then
      args.refuse(title, "flow", "a float32 tensor of shape (2, H, W) or (N, 2, H, W)", flow)
   end
   if flow:numel() == 0 then args.refuse(title, "flow", "at least one pixel", flow) end
   check_finite(title, "flow", flow)
   local longest = batch:square():sum(2):sqrt():max()
   batch = batch / (longest + 2.0 ^ -23)
   local colours = wheel():to(flow.device)
   local length = batch:square():sum(2):sqrt()
   local angle = torch.atan2(-batch:select(2, 2), -batch:select(2, 1)) / math.pi
   local place = (angle + 1) / 2 * 54
   local first = place:floor()
   local rest = place - first
   local low = first:long() + 1
   local high = low % 55 + 1
   local parts = {}
   for c = 1, 3 do
      local column = colours:select(2, c) / 255
      local a = column:index_select(1, low:flatten()):view_as(place)
      local b = column:index_select(1, high:flatten()):view_as(place)
      local value = 1 - length * (1 - ((1 - rest) * a + rest * b))
      parts[c] = (value * 255):floor():to "uint8"
   end
   local image = torch.stack(parts, 2)
   return flow:dim() == 3 and image[1] or image
end

return M
