-- containers.lua - transforms that call other transforms or a function.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local kinds = require "tlua.vision.transforms.kinds"
local random = require "tlua.vision.transforms.random"
local Transform = require "tlua.vision.transforms.Transform"

local M = {}

local prefix <const> = "vision.transforms.v2."

local function check_transforms(title, a)
   if #a.transforms == 0 then
      torch.raise(title .. ": transforms: expected at least one transform, got an empty list")
   end
   for i = 1, #a.transforms do
      local transform = a.transforms[i]
      local meta = getmetatable(transform)
      local is_class = type(meta) == "table" and meta.ancestors
      if is_class or not args.is_callable(transform) then
         args.refuse(title, ("transforms[%d]"):format(i), "a transform", transform)
      end
   end
end

-- Calls the transforms whose positions are in the list `order`, one after another, each with the
-- results of the one before.
local function run(self, order, ...)
   local values = table.pack(...)
   for _, i in ipairs(order) do
      values = table.pack(self.transforms[i](table.unpack(values, 1, values.n)))
      if values[1] == nil then
         torch.raise(("%s: transforms[%d] returned nothing"):format(torch.type(self), i))
      end
   end
   return table.unpack(values, 1, values.n)
end

local function in_order(self)
   local order = {}
   for i = 1, #self.transforms do order[i] = i end
   return order
end

--- Calls transforms one after another.
---
---     local T = torch.vision.transforms.v2
---     local transform = T.Compose {T.Resize(8), T.CenterCrop(6)}
---     print(transform(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 6, 6])
---@class vision.transforms.v2.Compose: nn.Module
---@field transforms function[]  the transforms
---@overload fun(transforms: function[]): nn.Module
M.Compose = class.class(prefix .. "Compose", Transform)
Transform._define(M.Compose, "transforms: table", check_transforms)

function M.Compose:forward(...) return run(self, in_order(self), ...) end

--- Calls transforms one after another with probability p. Otherwise returns the sample unchanged.
---
---     local T = torch.vision.transforms.v2
---     local transform = T.RandomApply({T.CenterCrop(6)}, 1.0)
---     print(transform(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 6, 6])
---@class vision.transforms.v2.RandomApply: nn.Module
---@field transforms function[]  the transforms
---@overload fun(transforms: function[], p?: number): nn.Module
M.RandomApply = class.class(prefix .. "RandomApply", Transform)
Transform._define(M.RandomApply, "transforms: names, p: number = 0.5", function(title, a)
   check_transforms(title, a)
   Transform._check_p(title, a)
end)

function M.RandomApply:forward(...)
   if not random.chance(self.p) then return ... end
   return run(self, in_order(self), ...)
end

--- Calls one of several transforms. It is chosen with the probabilities p; by default all are
--- equally probable.
---
---     local T = torch.vision.transforms.v2
---     local transform = T.RandomChoice({T.Resize(8), T.CenterCrop(6)}, {0, 1})
---     print(transform(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 6, 6])
---@class vision.transforms.v2.RandomChoice: nn.Module
---@field transforms function[]  the transforms
---@overload fun(transforms: function[], p?: number[]): nn.Module
M.RandomChoice = class.class(prefix .. "RandomChoice", Transform)
Transform._define(M.RandomChoice, "transforms: names, p: names?", function(title, a)
   check_transforms(title, a)
   if not a.p then return end
   local total = 0
   if #a.p ~= #a.transforms then
      args.refuse(title, "p", ("a probability for each of %d transforms"):format(#a.transforms),
         #a.p)
   end
   for _, p in ipairs(a.p) do
      if type(p) ~= "number" or not (p >= 0 and p < math.huge) then
         args.refuse(title, "p", "numbers of at least 0", p)
      end
      total = total + p
   end
   if total == 0 then args.refuse(title, "p", "a number above 0", 0) end
end)

function M.RandomChoice:forward(...)
   local p = self.p or {}
   local total = 0
   for i = 1, #self.transforms do total = total + (p[i] or 1) end
   local left, chosen = random.uniform(0, total), nil
   for i = 1, #self.transforms do
      if (p[i] or 1) > 0 then
         chosen = i
         left = left - (p[i] or 1)
         if left < 0 then break end
      end
   end
   return run(self, {chosen}, ...)
end

--- Calls transforms one after another in random order.
---
---     local T = torch.vision.transforms.v2
---     local transform = T.RandomOrder {T.RandomHorizontalFlip(), T.CenterCrop(6)}
---     print(transform(torch.zeros(3, 10, 12)).shape)
---     --> torch.Size([3, 6, 6])
---@class vision.transforms.v2.RandomOrder: nn.Module
---@field transforms function[]  the transforms
---@overload fun(transforms: function[]): nn.Module
M.RandomOrder = class.class(prefix .. "RandomOrder", Transform)
Transform._define(M.RandomOrder, "transforms: table", check_transforms)

function M.RandomOrder:forward(...)
   return run(self, torch.randperm(#self.transforms):tolist(), ...)
end

-- Defines a class without constructor arguments by its method transform(self, value).
local function define_plain(Class, transform)
   Transform._define(Class, "")
   Class._apply = transform
end

--- Returns samples unchanged.
---
---     print(torch.vision.transforms.v2.Identity()(torch.ones(2)))
---     --> tensor([1., 1.])
---@class vision.transforms.v2.Identity: nn.Module
---@overload fun(): nn.Module
M.Identity = class.class(prefix .. "Identity", Transform)
define_plain(M.Identity, function(_, value) return value end)

--- Converts plain tensors to Images.
---
---     local image = torch.vision.transforms.v2.ToImage()(torch.zeros(3, 4, 6))
---     print(torch.type(image))
---     --> vision.tv_tensors.Image
---@class vision.transforms.v2.ToImage: nn.Module
---@overload fun(): nn.Module
M.ToImage = class.class(prefix .. "ToImage", Transform)
define_plain(M.ToImage, function(_, value)
   return torch.is_tensor(value) and torch.vision.transforms.v2.functional.to_image(value) or value
end)

--- Converts objects of torch.vision.tv_tensors to plain tensors, from which a loader can make
--- batches.
---
---     local T = torch.vision.transforms.v2
---     local mask = torch.vision.tv_tensors.Mask(torch.zeros(4, 6))
---     print(T.ToPureTensor()(mask).shape)
---     --> torch.Size([4, 6])
---@class vision.transforms.v2.ToPureTensor: nn.Module
---@overload fun(): nn.Module
M.ToPureTensor = class.class(prefix .. "ToPureTensor", Transform)
define_plain(M.ToPureTensor, function(_, value)
   return torch.is_tensor(value) and value or value.data
end)

--- Calls a function with each value of a sample, or only with values of the given classes.
---
---     local T = torch.vision.transforms.v2
---     local transform = T.Lambda(function(x) return x + 1 end, torch.Tensor)
---     print(transform(torch.zeros(2), "label"))
---     --> tensor([1., 1.])	label
---@class vision.transforms.v2.Lambda: nn.Module
---@field lambd function  the function
---@field types any[]  the classes
---@overload fun(lambd: function, ...: any): nn.Module
M.Lambda = class.class(prefix .. "Lambda", Transform)

function M.Lambda:__init(lambd, ...)
   if not args.is_callable(lambd) then
      args.refuse(prefix .. "Lambda", "lambd", "a function", lambd)
   end
   self.lambd, self.types = lambd, {...}
end

function M.Lambda:forward(...)
   local sample = table.pack(...)
   local list = self._flatten(sample)
   for i = 1, list.n do
      local fits = #self.types == 0
      for _, of in ipairs(self.types) do fits = fits or class.isinstance(list[i], of) end
      if fits then list[i] = self.lambd(list[i]) end
   end
   return self._unflatten(sample, list)
end

--- Selects `num_samples` frames of videos at equal distances.
---
---     local T = torch.vision.transforms.v2
---     print(T.UniformTemporalSubsample(3)(torch.zeros(9, 3, 4, 6)).shape)
---     --> torch.Size([3, 3, 4, 6])
---@class vision.transforms.v2.UniformTemporalSubsample: nn.Module
---@overload fun(num_samples: integer): nn.Module
M.UniformTemporalSubsample = class.class(prefix .. "UniformTemporalSubsample", Transform)
Transform._define(M.UniformTemporalSubsample, "num_samples: count")

function M.UniformTemporalSubsample:_apply(value)
   local kind = kinds.of(value)
   if kind ~= "video" and not torch.is_tensor(value) then return value end
   return Transform._call("uniform_temporal_subsample", value, self.num_samples)
end

return M
