-- mixing.lua - MixUp and CutMix: transforms of batches that mix each example with the example
-- before it in the batch, and mix the labels in the same proportion.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local box_classes = require "tlua.vision.transforms.box_classes"
local kinds = require "tlua.vision.transforms.kinds"
local random = require "tlua.vision.transforms.random"
local Transform = require "tlua.vision.transforms.Transform"
local tv_tensors = require "tlua.vision.tv_tensors"

local M = {}

local prefix <const> = "vision.transforms.v2."

local Base = class.class(prefix .. "BatchMix", Transform)

local function labels_of(self, title, sample)
   local getter = self.labels_getter
   local labels
   if getter == "default" then
      labels = box_classes._default_labels(title, sample)
   elseif getter then
      labels = getter(table.unpack(sample, 1, sample.n))
   end
   if not torch.is_tensor(labels) or labels:dim() ~= 1 and labels:dim() ~= 2 then
      args.refuse(title, "labels_getter",
         "labels as a tensor of shape (n) or (n, num_classes)", labels)
   end
   if labels:dim() == 1 and not self.num_classes then
      torch.raise(title .. ": num_classes: expected an integer for labels of shape (n), got nil")
   end
   if labels:dim() == 2 and self.num_classes and labels:size(2) ~= self.num_classes then
      args.refuse(title, "labels_getter", ("labels of shape (n, %d)"):format(self.num_classes),
         labels)
   end
   if labels:dim() == 1 and labels:numel() > 0 then
      local low, high = labels:min():item(), labels:max():item()
      if labels:is_floating_point() or low < 1 or high > self.num_classes then
         args.refuse(title, "labels_getter", ("classes from 1 to %d"):format(self.num_classes),
            labels:is_floating_point() and labels or low < 1 and low or high)
      end
   end
   return labels
end

-- Returns the labels of mixed examples. The label of an example has the weight `part`, and that of
-- the example before it the weight 1 - part.
local function mixed_labels(self, labels, part)
   if labels:dim() == 1 then
      labels = torch.zeros(labels:size(1), self.num_classes, {device = labels.device})
         :scatter(2, labels:long():unsqueeze(2), 1.0)
   end
   if not labels:is_floating_point() then labels = labels:float() end
   return labels:roll(1, 1) * (1.0 - part) + labels * part
end

function Base:forward(...)
   local title, sample = torch.type(self), table.pack(...)
   local list = self._flatten(sample)
   local labels = labels_of(self, title, sample)
   local needs, chosen, found = self:_needed(list), {}, false
   for i = 1, list.n do
      local kind = kinds.of(list[i])
      if kind == "mask" or kind == "boxes" or kind == "keypoints" then
         torch.raise(title .. ": expected a sample without masks, bounding boxes and keypoints")
      end
      if rawequal(list[i], labels) then needs[i], found = false, true end
      if needs[i] then
         local data = torch.is_tensor(list[i]) and list[i] or list[i].data
         local dims = kind == "video" and 5 or 4
         if data:dim() ~= dims or data:size(1) ~= labels:size(1) then
            args.refuse(title, "images", ("a batch of %d with %d dimensions, as the labels have")
               :format(labels:size(1), dims), data)
         end
         chosen[#chosen + 1] = list[i]
      end
   end
   if not found then
      torch.raise(title .. ": labels_getter: expected a tensor that is in the sample, got another")
   end
   local params = self:make_params(chosen)
   for i = 1, list.n do
      if rawequal(list[i], labels) then
         list[i] = mixed_labels(self, labels, params.part)
      elseif needs[i] then
         list[i] = self:transform(list[i], params)
      end
   end
   return self._unflatten(sample, list)
end

local function define(Class)
   Transform._define(Class,
      "alpha: number = 1.0, num_classes: integer?, labels_getter: any = 'default'",
      function(title, a)
         if not (a.alpha > 0 and a.alpha < math.huge) then
            args.refuse(title, "alpha", "a number above 0", a.alpha)
         end
         if a.num_classes and a.num_classes < 1 then
            args.refuse(title, "num_classes", "at least 1", a.num_classes)
         end
         box_classes._check_getter(title, a)
      end)
   M[Class.__name:match "[^.]+$"] = Class
end

local function beta(alpha) return torch.distributions.Beta(alpha, alpha):sample():item() end

-- Calls fn with the tensor of a value, and returns the result as a value of the same kind.
local function with_data(value, fn)
   if torch.is_tensor(value) then return fn(value) end
   return tv_tensors._like(value, fn(value.data))
end

--- Blends each image of a batch with the previous image by a random weight, and the labels by the
--- same weight. `alpha` is the parameter of the weight's beta distribution. Labels are classes from
--- 1 to `num_classes`, or rows of probabilities; `labels_getter` is as in SanitizeBoundingBoxes.
---
---     local mix = torch.vision.transforms.v2.MixUp {num_classes = 5}
---     local images, labels = mix(torch.rand(2, 3, 4, 4), torch.tensor {1, 4})
---     print(images.shape, labels.shape)
---     --> torch.Size([2, 3, 4, 4])	torch.Size([2, 5])
---@class vision.transforms.v2.MixUp: nn.Module
---@overload fun(options?: table): nn.Module
local MixUp = class.class(prefix .. "MixUp", Base)
define(MixUp)

function MixUp:_draw() return {part = beta(self.alpha)} end

function MixUp:_apply(value, params)
   return with_data(value, function(x)
      if not x:is_floating_point() then
         args.refuse(torch.type(self), "images", "floating numbers", x)
      end
      return x:roll(1, 1):mul_(1.0 - params.part):add_(x * params.part)
   end)
end

--- Replaces a random rectangle in each image of a batch by the same rectangle of the previous
--- image, and mixes the labels by the rectangle's area. `alpha`, `num_classes` and `labels_getter`
--- are as in MixUp.
---
---     local mix = torch.vision.transforms.v2.CutMix {num_classes = 5}
---     local images, labels = mix(torch.rand(2, 3, 4, 4), torch.tensor {1, 4})
---     print(images.shape, labels.shape)
---     --> torch.Size([2, 3, 4, 4])	torch.Size([2, 5])
---@class vision.transforms.v2.CutMix: nn.Module
---@overload fun(options?: table): nn.Module
local CutMix = class.class(prefix .. "CutMix", Base)
define(CutMix)

function CutMix:_draw(values)
   local height, width = self:_size_of(values)
   local side = 0.5 * math.sqrt(1.0 - beta(self.alpha))
   local x, y = random.below(width), random.below(height)
   local w, h = math.floor(side * width), math.floor(side * height)
   local x1, y1 = math.max(x - w, 0), math.max(y - h, 0)
   local x2, y2 = math.min(x + w, width), math.min(y + h, height)
   return {box = {x1, y1, x2, y2}, part = 1.0 - (x2 - x1) * (y2 - y1) / (width * height)}
end

function CutMix:_apply(value, params)
   local x1, y1, x2, y2 = table.unpack(params.box)
   return with_data(value, function(x)
      local result = x:clone()
      if x2 > x1 and y2 > y1 then
         local function part(image)
            return image:narrow(-2, y1 + 1, y2 - y1):narrow(-1, x1 + 1, x2 - x1)
         end
         part(result):copy_(part(x:roll(1, 1)))
      end
      return result
   end)
end

return M
