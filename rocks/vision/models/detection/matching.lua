-- matching.lua - functions for the training of detectors. They express boxes as offsets from other
-- boxes, match predictions with true boxes, choose samples and check targets.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- Offsets of boxes --------------------------------------------------------------------------------

-- Returns the centres and sizes of boxes (..., 4) as four tensors (...).
local function centres(boxes)
   local x1, y1, x2, y2 = table.unpack(boxes:unbind(-1))
   local width, height = x2 - x1, y2 - y1
   return x1 + width * 0.5, y1 + height * 0.5, width, height
end

--- Expresses boxes as offsets from other boxes `from`: the shift of the centre divided by the size,
--- and the logarithm of the ratio of the sizes. Each offset is multiplied by a weight.
---@param boxes Tensor  (..., 4)
---@param from Tensor  (..., 4)
---@param weights number[]  four: for x, y, width and height
---@return Tensor  (..., 4)
function M.encode(boxes, from, weights)
   local x, y, width, height = centres(boxes)
   local fx, fy, fwidth, fheight = centres(from)
   return torch.stack({
      (x - fx) / fwidth * weights[1], (y - fy) / fheight * weights[2],
      (width / fwidth):log() * weights[3], (height / fheight):log() * weights[4],
   }, -1)
end

-- A size may grow at most by the factor 1000 / 16; this is the logarithm of the factor.
local largest <const> = math.log(1000 / 16)

--- Returns the boxes that have the given offsets from other boxes. This is the inverse of M.encode.
---@param codes Tensor  (..., 4)
---@param from Tensor  (..., 4), or of a shape that broadcasts
---@param weights number[]  the weights that encode had
---@return Tensor  (..., 4)
function M.decode(codes, from, weights)
   local x, y, width, height = centres(from:to(codes.dtype))
   local dx, dy, dw, dh = table.unpack(codes:unbind(-1))
   x, y = dx / weights[1] * width + x, dy / weights[2] * height + y
   local w = (dw / weights[3]):clamp_max(largest):exp() * width * 0.5
   local h = (dh / weights[4]):clamp_max(largest):exp() * height * 0.5
   return torch.stack({x - w, y - h, x + w, y + h}, -1)
end

-- Matches -----------------------------------------------------------------------------------------

--- M.match returns these values for predictions that match no true box: BACKGROUND for a prediction
--- that is background, and BETWEEN for one that overlaps too much for background and too little for
--- a match.
M.BACKGROUND, M.BETWEEN = 0, -1

--- Matches predictions with true boxes.
---@param quality Tensor  (true boxes, predictions): the overlaps
---@param high number  a prediction with at least this overlap is matched with the true box
---@param low number  a prediction with a lower overlap is background
---@param keeps_best? boolean  whether the best predictions of each true box are matched anyway
---@return Tensor  (predictions) the position of the true box, BACKGROUND or BETWEEN
function M.match(quality, high, low, keeps_best)
   local best, all = quality:max(1)
   local matches = all:masked_fill(best:lt(high), M.BETWEEN):masked_fill(best:lt(low), M.BACKGROUND)
   if not keeps_best then return matches end
   local is_best = quality:eq(quality:amax(2, true)):any(1)
   return torch.where(is_best, all, matches)
end

--- Chooses random samples from positive and negative elements.
---@param is_positive Tensor  (n) booleans
---@param is_negative Tensor  (n) booleans
---@param count integer  the number of samples
---@param fraction number  the largest part of positive ones
---@return Tensor positive, Tensor negative  positions, in increasing order
function M.sample(is_positive, is_negative, count, fraction)
   local function choose(marks, limit)
      local all = marks:nonzero():squeeze(2)
      if all:numel() <= limit then return all end
      local order = torch.randperm(all:numel(), {device = all.device}):narrow(1, 1, limit)
      return (all:index_select(1, order):sort())
   end
   local positive = choose(is_positive, math.floor(count * fraction))
   return positive, choose(is_negative, count - positive:numel())
end

-- Targets -----------------------------------------------------------------------------------------

local function check_boxes(title, which, boxes)
   local is_tensor = torch.is_tensor(boxes)
   if not is_tensor or boxes:dim() ~= 2 or boxes:size(2) ~= 4 or not boxes:is_floating_point() then
      args.refuse(title, which .. ".boxes", "floating numbers of shape (n, 4)", boxes)
   end
   -- Comparisons with NaN are false, so a box with NaN counts as empty.
   local is_flat = boxes:narrow(2, 3, 2):gt(boxes:narrow(2, 1, 2)):logical_not():any(2)
   if is_flat:any():item() then
      local box = boxes[is_flat:nonzero()[{1, 1}]:item()]:tolist()
      torch.raise(("%s: %s.boxes: expected corners x1 < x2 and y1 < y2, got (%g, %g, %g, %g)")
         :format(title, which, table.unpack(box)))
   end
end

local function check_labels(title, which, target, first, last)
   local labels, count = target.labels, target.boxes:size(1)
   if not torch.is_tensor(labels) or labels.dtype ~= "int64" or labels:dim() ~= 1
         or labels:size(1) ~= count then
      args.refuse(title, which .. ".labels", ("an int64 tensor of shape (%d)"):format(count),
         labels)
   end
   if count == 0 then return end
   local low, high = labels:min():item(), labels:max():item()
   if low < first or last and high > last then
      torch.raise(("%s: %s.labels: expected classes from %d%s%s, got %d"):format(title, which,
         first, last and " to " .. last or "", first == 2 and " (1 is the background)" or "",
         low < first and low or high))
   end
end

-- Checks the field `further` of a target, which a mask or keypoint branch needs.
local function check_further(title, which, target, further, image)
   local value, count = target[further], target.boxes:size(1)
   if not torch.is_tensor(value) or value:dim() ~= 3 or value:size(1) ~= count
         or further == "keypoints" and value:size(3) ~= 3 then
      args.refuse(title, ("%s.%s"):format(which, further), further == "masks"
         and ("a tensor of shape (%d, H, W)"):format(count)
         or ("a tensor of shape (%d, keypoints, 3)"):format(count), value)
   end
   if further == "keypoints" then return end
   if value:size(2) ~= image:size(2) or value:size(3) ~= image:size(3) then
      args.refuse(title, which .. ".masks", ("masks of the image's size, (%d, %d, %d)"):format(
         count, image:size(2), image:size(3)), value)
   end
   if value:numel() > 0 and value.dtype ~= "bool" and value:max():item() > 1 then
      torch.raise(("%s: %s.masks: expected 0 and 1, got %g"):format(title, which,
         value:max():item()))
   end
end

--- Raises an error if the images or targets for a detector are wrong.
---@param title string  the model's name
---@param images any  a value that should be a list of images (C, H, W)
---@param targets any  a value that should be a list of tables
---@param is_training boolean  whether there must be targets
---@param first integer  the first label
---@param last? integer  the last label, if it is known
---@param further? string[]  the fields that targets need besides boxes and labels
function M.check(title, images, targets, is_training, first, last, further)
   if type(images) ~= "table" or #images == 0 then
      args.refuse(title, "images", "a list of images (C, H, W)", images)
   end
   for i = 1, #images do
      local image = images[i]
      if not torch.is_tensor(image) or image:dim() ~= 3 or not image:is_floating_point()
            or image:numel() == 0 then
         args.refuse(title, ("images[%d]"):format(i), "floating numbers of shape (C, H, W)", image)
      end
   end
   if targets == nil and not is_training then return end
   if type(targets) ~= "table" or #targets ~= #images then
      args.refuse(title, "targets", ("a list of %d tables with boxes and labels, one for each "
         .. "image"):format(#images), type(targets) == "table" and #targets or targets)
   end
   for i = 1, #targets do
      local target = targets[i]
      local which = ("targets[%d]"):format(i)
      if type(target) ~= "table" then
         args.refuse(title, which, "a table with boxes and labels", target)
      end
      check_boxes(title, which, target.boxes)
      check_labels(title, which, target, first, last)
      for _, name in ipairs(further or {}) do
         check_further(title, which, target, name, images[i])
      end
   end
end

return M
