-- box_classes.lua - classes of transforms that change only bounding boxes or keypoints.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local functional = require "tlua.vision.transforms.functional"
local kinds = require "tlua.vision.transforms.kinds"
local points = require "tlua.vision.transforms.points"
local Transform = require "tlua.vision.transforms.Transform"
local tv_tensors = require "tlua.vision.tv_tensors"

local M = {}

local prefix <const> = "vision.transforms.v2."

local function define(Class, parameters, kind, transform, check)
   Transform._define(Class, parameters, check)
   Class.kinds = {[kind] = true}
   Class._apply = transform
   M[Class.__name:match "[^.]+$"] = Class
end

--- Converts bounding boxes to a `format`: "XYXY", "XYWH" or "CXCYWH".
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local options = {format = "XYXY", canvas_size = {10, 10}}
---     local boxes = tv.BoundingBoxes({{1, 2, 5, 6}}, options)
---     print(T.ConvertBoundingBoxFormat("XYWH")(boxes).data)
---     --> tensor([[1, 2, 4, 4]])
---@class vision.transforms.v2.ConvertBoundingBoxFormat: nn.Module
---@overload fun(format: string): nn.Module
local ConvertBoundingBoxFormat = class.class(prefix .. "ConvertBoundingBoxFormat", Transform)
define(ConvertBoundingBoxFormat, "format: string", "boxes", function(self, value)
   return functional.convert_bounding_box_format(value, {new_format = self.format})
end, function(title, a) a.format = tv_tensors._check_format(title, "format", a.format) end)

--- Clamps bounding boxes to the image. `clamping_mode` is as in functional.clamp_bounding_boxes.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local options = {format = "XYXY", canvas_size = {4, 6}}
---     local boxes = tv.BoundingBoxes({{-2, 1, 9, 5}}, options)
---     print(T.ClampBoundingBoxes()(boxes).data)
---     --> tensor([[0, 1, 6, 4]])
---@class vision.transforms.v2.ClampBoundingBoxes: nn.Module
---@overload fun(clamping_mode?: string|boolean): nn.Module
local ClampBoundingBoxes = class.class(prefix .. "ClampBoundingBoxes", Transform)
define(ClampBoundingBoxes, "clamping_mode: string|boolean = 'auto'", "boxes",
   function(self, value)
      return functional.clamp_bounding_boxes(value, {clamping_mode = self.clamping_mode})
   end)

--- Clamps keypoints to the image: points outside move to the nearest pixel.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local points = tv.KeyPoints({{-2, 9}}, {canvas_size = {4, 6}})
---     print(T.ClampKeyPoints()(points).data)
---     --> tensor([[0, 3]])
---@class vision.transforms.v2.ClampKeyPoints: nn.Module
---@overload fun(): nn.Module
local ClampKeyPoints = class.class(prefix .. "ClampKeyPoints", Transform)
define(ClampKeyPoints, "", "keypoints",
   function(_, value) return functional.clamp_keypoints(value) end)

--- Sets the `clamping_mode` of bounding boxes: "soft", "hard" or false.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local options = {format = "XYXY", canvas_size = {4, 6}}
---     local boxes = tv.BoundingBoxes({{-2, 1, 9, 5}}, options)
---     print(T.SetClampingMode(false)(boxes).clamping_mode)
---     --> false
---@class vision.transforms.v2.SetClampingMode: nn.Module
---@overload fun(clamping_mode: string|boolean): nn.Module
local SetClampingMode = class.class(prefix .. "SetClampingMode", Transform)
define(SetClampingMode, "clamping_mode: string|boolean", "boxes", function(self, value)
   return tv_tensors._like(value, value.data, {clamping_mode = self.clamping_mode})
end, function(title, a)
   local mode = a.clamping_mode
   if mode ~= "soft" and mode ~= "hard" and mode ~= false then
      args.refuse(title, "clamping_mode", '"soft", "hard" or false', mode)
   end
end)

-- Removing ----------------------------------------------------------------------------------------

-- Returns the labels of boxes. They are the sample's second value, or its only value, if this is a
-- tensor. Otherwise they are the field `labels` of this value, or its only field whose name
-- contains "label".
local function default_labels(title, sample)
   local second = sample[2]
   if sample.n == 1 then second = sample[1] end
   if torch.is_tensor(second) then return second end
   if type(second) ~= "table" or getmetatable(second) then
      torch.raise(("%s: labels_getter: expected a tensor or a table with labels as the second "
         .. "value of the sample, got %s; pass a function, or false without labels"):format(title,
         args.describe(second)))
   end
   local found
   for key, value in pairs(second) do
      local name = tostring(key):lower()
      if name == "labels" then return value end
      if name:find("label", 1, true) then
         if found then
            torch.raise(title
               .. ": labels_getter: several fields may be the labels; pass a function")
         end
         found = key
      end
   end
   if found == nil then
      torch.raise(title .. ": labels_getter: no field of the sample has labels; pass a function, "
         .. "or false without labels")
   end
   return second[found]
end

-- Returns the labels of a sample as a list of tensors, with the help of the option labels_getter.
local function labels_of(self, title, sample)
   local getter, labels = self.labels_getter, nil
   if getter == "default" then
      labels = default_labels(title, sample)
   elseif getter then
      labels = getter(table.unpack(sample, 1, sample.n))
   end
   if labels == nil then return {} end
   local list = torch.is_tensor(labels) and {labels} or labels
   for _, label in ipairs(type(list) == "table" and list or {list}) do
      if not torch.is_tensor(label) then
         args.refuse(title, "labels_getter", "tensors of labels", label)
      end
   end
   return list
end

local function check_getter(title, a)
   local getter = a.labels_getter
   if getter ~= "default" and getter and not args.is_callable(getter) then
      args.refuse(title, "labels_getter", '"default", a function or false', getter)
   end
end

-- Removes invalid rows of boxes or keypoints (`kind`), and the same rows of their labels and masks.
-- valid_of returns a mask of the valid rows.
local function sanitize(self, kind, valid_of, sample)
   local title = torch.type(self)
   local list = self._flatten(sample)
   local labels, found = labels_of(self, title, sample), nil
   for i = 1, list.n do
      if not found and kinds.of(list[i]) == kind then found = list[i] end
   end
   if not found then
      torch.raise(("%s: expected %s in the sample"):format(title,
         kind == "boxes" and "bounding boxes" or "keypoints"))
   end
   local n = found.data:size(1)
   local valid = valid_of(found)
   for _, label in ipairs(labels) do
      if label:dim() < 1 or label:size(1) ~= n then
         torch.raise(("%s: labels_getter: expected labels for %d %s, got %s"):format(title, n, kind,
            args.describe(label)))
      end
   end
   local seen = {}
   for i = 1, list.n do
      local value = list[i]
      local of = kinds.of(value)
      local is_label = false
      for k, label in ipairs(labels) do
         if rawequal(label, value) then is_label, seen[k] = true, true end
      end
      if is_label then
         list[i] = points._rows(value, valid)
      elseif of == kind or kind == "boxes" and of == "mask" and value.data:dim() > 2
            and value.data:size(1) == n then
         list[i] = tv_tensors._like(value, points._rows(value.data, valid))
      end
   end
   for k in ipairs(labels) do
      if not seen[k] then
         torch.raise(title
            .. ": labels_getter: expected tensors that are in the sample, got others")
      end
   end
   return self._unflatten(sample, list)
end

--- Removes bounding boxes that are smaller than `min_size` or `min_area` or partly outside the
--- image, together with their labels and masks (n, H, W). `labels_getter` is a function that
--- returns a sample's labels, a tensor or a list of tensors, or false if there are no labels; by
--- default the labels are the sample's second value, or the field of this value whose name contains
--- "label".
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local options = {format = "XYXY", canvas_size = {9, 9}}
---     local boxes = tv.BoundingBoxes({{1, 2, 5, 6}, {3, 3, 3, 3}}, options)
---     local labels = torch.tensor {7, 8}
---     local target = {boxes = boxes, labels = labels}
---     local _, rest = T.SanitizeBoundingBoxes()(torch.zeros(3, 9, 9), target)
---     print(rest.labels)
---     --> tensor([7])
---@class vision.transforms.v2.SanitizeBoundingBoxes: nn.Module
---@overload fun(options?: table): nn.Module
local SanitizeBoundingBoxes = class.class(prefix .. "SanitizeBoundingBoxes", Transform)
define(SanitizeBoundingBoxes, [[min_size: number = 1, min_area: number = 1,
   labels_getter: any = 'default']], "boxes", nil, function(title, a)
   for _, name in ipairs {"min_size", "min_area"} do
      if a[name] < 1 or a[name] ~= a[name] then args.refuse(title, name, "at least 1", a[name]) end
   end
   check_getter(title, a)
end)

function SanitizeBoundingBoxes:forward(...)
   return sanitize(self, "boxes", function(boxes)
      return points._valid_boxes(boxes.data, boxes.format, boxes.canvas_size, self.min_size,
         self.min_area)
   end, table.pack(...))
end

--- Removes keypoints outside the image together with their labels. `labels_getter` is as in
--- SanitizeBoundingBoxes, but by default there are no labels.
---
---     local T, tv = torch.vision.transforms.v2, torch.vision.tv_tensors
---     local points = tv.KeyPoints({{1, 2}, {7, 1}}, {canvas_size = {4, 6}})
---     print(T.SanitizeKeyPoints()(points).data)
---     --> tensor([[1, 2]])
---@class vision.transforms.v2.SanitizeKeyPoints: nn.Module
---@overload fun(options?: table): nn.Module
local SanitizeKeyPoints = class.class(prefix .. "SanitizeKeyPoints", Transform)
define(SanitizeKeyPoints, "labels_getter: any = false", "keypoints", nil, check_getter)

function SanitizeKeyPoints:forward(...)
   return sanitize(self, "keypoints", function(value)
      return points._valid_points(value.data, value.canvas_size)
   end, table.pack(...))
end

M._default_labels, M._check_getter = default_labels, check_getter

return M
