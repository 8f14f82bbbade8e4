-- auto_augment.lua - transforms that apply randomly chosen operations: AutoAugment, RandAugment,
-- TrivialAugmentWide and AugMix. Each of these transforms draws a list of operations with their
-- magnitudes, and then applies the operations.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local functional = require "tlua.vision.transforms.functional"
local kinds = require "tlua.vision.transforms.kinds"
local random = require "tlua.vision.transforms.random"
local Transform = require "tlua.vision.transforms.Transform"
local tv_tensors = require "tlua.vision.tv_tensors"

local M = {}

local prefix <const> = "vision.transforms.v2."

-- Operations --------------------------------------------------------------------------------------

-- Maps the names of operations to functions operation(image, magnitude, options).
local operations <const> = {}

function operations.Identity(x) return x end
function operations.Brightness(x, m) return functional.adjust_brightness(x, 1.0 + m) end
function operations.Color(x, m) return functional.adjust_saturation(x, 1.0 + m) end
function operations.Contrast(x, m) return functional.adjust_contrast(x, 1.0 + m) end
function operations.Sharpness(x, m) return functional.adjust_sharpness(x, 1.0 + m) end
function operations.Posterize(x, m) return functional.posterize(x, math.tointeger(m // 1)) end
function operations.AutoContrast(x) return functional.autocontrast(x) end
function operations.Equalize(x) return functional.equalize(x) end
function operations.Invert(x) return functional.invert(x) end
function operations.Rotate(x, m, options) return functional.rotate(x, m, options) end

function operations.Solarize(x, m)
   local is_real = (torch.is_tensor(x) and x or x.data):is_floating_point()
   return functional.solarize(x, (is_real and 1.0 or 255) * m)
end

local function shear(x, sx, sy, options)
   return functional.affine(x, 0.0, {0, 0}, 1.0, {math.deg(math.atan(sx)), math.deg(math.atan(sy))},
      {interpolation = options.interpolation, fill = options.fill, center = {0, 0}})
end

function operations.ShearX(x, m, options) return shear(x, m, 0.0, options) end
function operations.ShearY(x, m, options) return shear(x, 0.0, m, options) end

local function truncate(x) return x < 0 and math.ceil(x) or math.floor(x) end

local function translate(x, tx, ty, options)
   return functional.affine(x, 0.0, {truncate(tx), truncate(ty)}, 1.0, {0.0, 0.0}, options)
end

function operations.TranslateX(x, m, options) return translate(x, m, 0, options) end
function operations.TranslateY(x, m, options) return translate(x, 0, m, options) end

-- Magnitudes --------------------------------------------------------------------------------------

-- Returns a function of (bins, height, width) that returns a tensor of `bins` magnitudes from `low`
-- to `high`, and whether the sign of a magnitude is random. `low` and `high` are numbers, or
-- functions of height and width.
local function range(low, high, is_signed)
   return function(bins, height, width)
      local from = type(low) == "function" and low(height, width) or low
      local to = type(high) == "function" and high(height, width) or high
      return torch.linspace(from, to, bins), is_signed
   end
end

local function bits(from, steps)
   return function(bins)
      return (from - torch.arange(bins):float() / ((bins - 1) / steps)):round(), false
   end
end

local function none() return nil, false end

-- Returns a table with two fields. `magnitudes` maps the names of operations to functions such as
-- `range` returns, and `names` lists the operations that may be chosen.
local function space(shears, shift, angle, colour, posterize, with_colours, first, last)
   local all = {ShearX = range(0.0, shears, true), ShearY = range(0.0, shears, true),
      TranslateX = range(0.0, function(_, w) return shift(w) end, true),
      TranslateY = range(0.0, function(h) return shift(h) end, true),
      Rotate = range(0.0, angle, true), Posterize = posterize,
      Solarize = range(1.0, 0.0, false), AutoContrast = none, Equalize = none, Identity = none,
      Invert = none}
   local names = {first}
   for name in ("ShearX ShearY TranslateX TranslateY Rotate"):gmatch "%S+" do
      names[#names + 1] = name
   end
   for name in ("Brightness Color Contrast Sharpness"):gmatch "%S+" do
      all[name] = range(0.0, colour, true)
      if with_colours then names[#names + 1] = name end
   end
   for name in ("Posterize Solarize AutoContrast Equalize"):gmatch "%S+" do
      names[#names + 1] = name
   end
   names[#names + 1] = last
   return {magnitudes = all, names = names}
end

local function wide(side) return 150.0 / 331.0 * side end

local spaces <const> = {
   auto = space(0.3, wide, 30.0, 0.9, bits(8, 4), true, nil, "Invert"),
   rand = space(0.3, wide, 30.0, 0.9, bits(8, 4), true, "Identity"),
   trivial = space(0.99, function() return 32.0 end, 135.0, 0.99, bits(8, 6), true, "Identity"),
   mix = space(0.3, function(side) return side / 3.0 end, 30.0, 0.9, bits(4, 4), true),
   mix_without_colours = space(0.3, function(side) return side / 3.0 end, 30.0, 0.9, bits(4, 4),
      false),
}

-- Returns {name, magnitude} for an operation, with magnitude number `index` of `bins`. The sign is
-- random if the operation is signed.
local function drawn(own, name, bins, index, height, width)
   local list, is_signed = own.magnitudes[name](bins, height, width)
   if not list then return {name, 0.0} end
   local magnitude = list[index]:item()
   if is_signed and torch.rand(1):item() <= 0.5 then magnitude = -magnitude end
   return {name, magnitude}
end

local function any_of(own) return own.names[1 + random.below(#own.names)] end

-- The base ----------------------------------------------------------------------------------------

local Base = class.class(prefix .. "AutoAugmentBase", Transform)

function Base:_check(list)
   local needs, count = self:_needed(list), 0
   for i = 1, list.n do
      local kind = kinds.of(list[i])
      if kind == "mask" or kind == "boxes" or kind == "keypoints" then
         torch.raise(("%s: expected a sample without %s"):format(torch.type(self),
            kind == "mask" and "masks" or kind == "boxes" and "bounding boxes" or kind))
      end
      if needs[i] then count = count + 1 end
   end
   if count ~= 1 then
      torch.raise(("%s: expected one image or video in the sample, got %d"):format(torch.type(self),
         count))
   end
end

-- Applies a list of operations {name, magnitude} to an image or a video.
function Base:_apply(value, list)
   local options = {interpolation = self.interpolation, fill = self._fill_for(self.fill, value)}
   for _, operation in ipairs(list) do
      value = operations[operation[1]](value, operation[2], options)
   end
   return value
end

-- Defines the constructor of a class. `parameters` has the constructor's parameters before
-- interpolation and fill.
local function define(Class, parameters, interpolation, check)
   Transform._define(Class, ("%sinterpolation: string = '%s', fill: any = false"):format(parameters,
      interpolation), function(title, a)
         if a.interpolation ~= "nearest" and a.interpolation ~= "bilinear" then
            args.refuse(title, "interpolation", '"nearest" or "bilinear"', a.interpolation)
         end
         if check then check(title, a) end
      end)
   M[Class.__name:match "[^.]+$"] = Class
end

local function at_least(title, a, name, low)
   if a[name] < low then args.refuse(title, name, "at least " .. low, a[name]) end
end

-- Policies ----------------------------------------------------------------------------------------

-- The learned policies. A policy is a list of pairs of operations, separated by semicolons. An
-- operation has a name, a probability, and the number of its magnitude, counted from 0, or "-" if
-- it has no magnitude.
local policies <const> = {
   imagenet = [[Posterize 0.4 8 Rotate 0.6 9; Solarize 0.6 5 AutoContrast 0.6 -;
      Equalize 0.8 - Equalize 0.6 -; Posterize 0.6 7 Posterize 0.6 6; Equalize 0.4 - Solarize 0.2 4;
      Equalize 0.4 - Rotate 0.8 8; Solarize 0.6 3 Equalize 0.6 -; Posterize 0.8 5 Equalize 1.0 -;
      Rotate 0.2 3 Solarize 0.6 8; Equalize 0.6 - Posterize 0.4 6; Rotate 0.8 8 Color 0.4 0;
      Rotate 0.4 9 Equalize 0.6 -; Equalize 0.0 - Equalize 0.8 -; Invert 0.6 - Equalize 1.0 -;
      Color 0.6 4 Contrast 1.0 8; Rotate 0.8 8 Color 1.0 2; Color 0.8 8 Solarize 0.8 7;
      Sharpness 0.4 7 Invert 0.6 -; ShearX 0.6 5 Equalize 1.0 -; Color 0.4 0 Equalize 0.6 -;
      Equalize 0.4 - Solarize 0.2 4; Solarize 0.6 5 AutoContrast 0.6 -; Invert 0.6 - Equalize 1.0 -;
      Color 0.6 4 Contrast 1.0 8; Equalize 0.8 - Equalize 0.6 -]],
   cifar10 = [[Invert 0.1 - Contrast 0.2 6; Rotate 0.7 2 TranslateX 0.3 9;
      Sharpness 0.8 1 Sharpness 0.9 3; ShearY 0.5 8 TranslateY 0.7 9;
      AutoContrast 0.5 - Equalize 0.9 -; ShearY 0.2 7 Posterize 0.3 7; Color 0.4 3 Brightness 0.6 7;
      Sharpness 0.3 9 Brightness 0.7 9; Equalize 0.6 - Equalize 0.5 -;
      Contrast 0.6 7 Sharpness 0.6 5; Color 0.7 7 TranslateX 0.5 8;
      Equalize 0.3 - AutoContrast 0.4 -; TranslateY 0.4 3 Sharpness 0.2 6;
      Brightness 0.9 6 Color 0.2 8; Solarize 0.5 2 Invert 0.0 -; Equalize 0.2 - AutoContrast 0.6 -;
      Equalize 0.2 - Equalize 0.6 -; Color 0.9 9 Equalize 0.6 -; AutoContrast 0.8 - Solarize 0.2 8;
      Brightness 0.1 3 Color 0.7 0; Solarize 0.4 5 AutoContrast 0.9 -;
      TranslateY 0.9 9 TranslateY 0.7 9; AutoContrast 0.9 - Solarize 0.8 3;
      Equalize 0.8 - Invert 0.1 -;
      TranslateY 0.7 9 AutoContrast 0.9 -]],
   svhn = [[ShearX 0.9 4 Invert 0.2 -; ShearY 0.9 8 Invert 0.7 -; Equalize 0.6 - Solarize 0.6 6;
      Invert 0.9 - Equalize 0.6 -; Equalize 0.6 - Rotate 0.9 3; ShearX 0.9 4 AutoContrast 0.8 -;
      ShearY 0.9 8 Invert 0.4 -; ShearY 0.9 5 Solarize 0.2 6; Invert 0.9 - AutoContrast 0.8 -;
      Equalize 0.6 - Rotate 0.9 3; ShearX 0.9 4 Solarize 0.3 3; ShearY 0.8 8 Invert 0.7 -;
      Equalize 0.9 - TranslateY 0.6 6; Invert 0.9 - Equalize 0.6 -; Contrast 0.3 3 Rotate 0.8 4;
      Invert 0.8 - TranslateY 0.0 2; ShearY 0.7 6 Solarize 0.4 8; Invert 0.6 - Rotate 0.8 4;
      ShearY 0.3 7 TranslateX 0.9 3; ShearX 0.1 6 Invert 0.6 -; Solarize 0.7 2 TranslateY 0.6 7;
      ShearY 0.8 4 Invert 0.8 -; ShearX 0.7 9 TranslateY 0.8 3; ShearY 0.8 5 AutoContrast 0.7 -;
      ShearX 0.7 2 Invert 0.1 -]],
}

-- Parses a policy. Returns a list of pairs, each of which is a list of two operations {name,
-- probability, bin}.
local function parsed(text)
   local pairs_of = {}
   for pair in text:gmatch "[^;]+" do
      local list = {}
      for name, p, bin in pair:gmatch "(%a+) ([%d.]+) (%S+)" do
         list[#list + 1] = {name, tonumber(p), math.tointeger(tonumber(bin))}
      end
      pairs_of[#pairs_of + 1] = list
   end
   return pairs_of
end

--- Applies a pair of operations from a learned `policy`: "imagenet", "cifar10" or "svhn". Images
--- must be uint8. `interpolation` is "nearest" or "bilinear"; `fill` is as in RandomRotation, but
--- none by default.
---
---     local augment = torch.vision.transforms.v2.AutoAugment "cifar10"
---     print(augment(torch.zeros(3, 8, 8, {dtype = "uint8"})).shape)
---     --> torch.Size([3, 8, 8])
---@class vision.transforms.v2.AutoAugment: nn.Module
---@overload fun(policy?: string, options?: table): nn.Module
local AutoAugment = class.class(prefix .. "AutoAugment", Base)
define(AutoAugment, "policy: string = 'imagenet', ", "nearest", function(title, a)
   if not policies[a.policy] then
      args.refuse(title, "policy", '"imagenet", "cifar10" or "svhn"', a.policy)
   end
end)

-- Returns the pairs of operations of the policy, {name, probability, bin from 0 or nil}.
function AutoAugment:_policies() return parsed(policies[self.policy]) end

function AutoAugment:_draw(values)
   local height, width = self:_size_of(values)
   local all, list = self:_policies(), {}
   for _, operation in ipairs(all[1 + random.below(#all)]) do
      if torch.rand(1):item() <= operation[2] then
         list[#list + 1] = drawn(spaces.auto, operation[1], 10, (operation[3] or 0) + 1, height,
            width)
      end
   end
   return list
end

--- Applies `num_ops` random operations with the same `magnitude`, a bin from 0 to
--- `num_magnitude_bins` - 1. `interpolation` and `fill` are as in AutoAugment.
---
---     local augment = torch.vision.transforms.v2.RandAugment()
---     print(augment(torch.zeros(3, 8, 8, {dtype = "uint8"})).shape)
---     --> torch.Size([3, 8, 8])
---@class vision.transforms.v2.RandAugment: nn.Module
---@overload fun(num_ops?: integer, magnitude?: integer, options?: table): nn.Module
local RandAugment = class.class(prefix .. "RandAugment", Base)
define(RandAugment, [[num_ops: count = 2, magnitude: count = 9, num_magnitude_bins: count = 31, ]],
   "nearest", function(title, a)
      at_least(title, a, "num_magnitude_bins", 2)
      if a.magnitude >= a.num_magnitude_bins then
         args.refuse(title, "magnitude", "less than num_magnitude_bins", a.magnitude)
      end
   end)

function RandAugment:_draw(values)
   local height, width = self:_size_of(values)
   local list = {}
   for i = 1, self.num_ops do
      list[i] = drawn(spaces.rand, any_of(spaces.rand), self.num_magnitude_bins, self.magnitude + 1,
         height, width)
   end
   return list
end

--- Applies one random operation with a random one of `num_magnitude_bins` magnitudes.
--- `interpolation` and `fill` are as in AutoAugment.
---
---     local augment = torch.vision.transforms.v2.TrivialAugmentWide()
---     print(augment(torch.zeros(3, 8, 8, {dtype = "uint8"})).shape)
---     --> torch.Size([3, 8, 8])
---@class vision.transforms.v2.TrivialAugmentWide: nn.Module
---@overload fun(num_magnitude_bins?: integer, options?: table): nn.Module
local TrivialAugmentWide = class.class(prefix .. "TrivialAugmentWide", Base)
define(TrivialAugmentWide, "num_magnitude_bins: count = 31, ", "nearest",
   function(title, a) at_least(title, a, "num_magnitude_bins", 2) end)

function TrivialAugmentWide:_draw(values)
   local height, width = self:_size_of(values)
   local bins = self.num_magnitude_bins
   return {drawn(spaces.trivial, any_of(spaces.trivial), bins, 1 + random.below(bins), height,
      width)}
end

--- Mixes an image with `mixture_width` changed copies of it. Each copy is changed by a chain of
--- `chain_depth` random operations, or of 1 to 3 if `chain_depth` is not above 0. Their magnitudes
--- are bins below `severity`, of 10 bins. `alpha` is the parameter of the distributions of the
--- random weights. If `all_ops` is false, colours are not changed. `interpolation` and `fill` are
--- as in AutoAugment.
---
---     local augment = torch.vision.transforms.v2.AugMix()
---     print(augment(torch.zeros(3, 8, 8, {dtype = "uint8"})).shape)
---     --> torch.Size([3, 8, 8])
---@class vision.transforms.v2.AugMix: nn.Module
---@overload fun(severity?: integer, mixture_width?: integer, options?: table): nn.Module
local AugMix = class.class(prefix .. "AugMix", Base)
define(AugMix, [[severity: count = 3, mixture_width: count = 3, chain_depth: integer = -1,
   alpha: number = 1.0, all_ops: boolean = true, ]], "bilinear", function(title, a)
   if a.severity < 1 or a.severity > 10 then
      args.refuse(title, "severity", "an integer from 1 to 10", a.severity)
   end
   at_least(title, a, "mixture_width", 1)
   if not (a.alpha > 0 and a.alpha < math.huge) then
      args.refuse(title, "alpha", "a number above 0", a.alpha)
   end
end)

local function batch_size(value)
   local data = torch.is_tensor(value) and value or value.data
   return data:dim() >= (kinds.of(value) == "video" and 5 or 4) and data:size(1) or 1
end

-- Returns random weights (n, width), where the sum of each row is 1.
local function weights(alpha, n, width)
   return torch.distributions.Dirichlet(torch.full({width}, alpha)):sample {n}
end

function AugMix:_draw(values)
   local height, width = self:_size_of(values)
   local own = self.all_ops and spaces.mix or spaces.mix_without_colours
   local n = batch_size(values[1])
   local m = weights(self.alpha, n, 2)
   local params = {keep = m:select(2, 1), chains = {},
      mix = weights(self.alpha, n, self.mixture_width) * m:narrow(2, 2, 1)}
   for i = 1, self.mixture_width do
      local depth, list = self.chain_depth, {}
      if depth <= 0 then depth = random.between(1, 3) end
      for k = 1, depth do
         list[k] = drawn(own, any_of(own), 10, 1 + random.below(self.severity), height, width)
      end
      params.chains[i] = list
   end
   return params
end

function AugMix:_apply(value, params)
   local data = torch.is_tensor(value) and value or value.data
   local shape = data.shape
   local is_batch = data:dim() >= (kinds.of(value) == "video" and 5 or 4)
   local batch = is_batch and data or data:unsqueeze(1)
   local function column(x)
      local ones = {x:size(1)}
      for i = 2, batch:dim() do ones[i] = 1 end
      return x:to(batch.device):view(ones)
   end
   local mix = column(params.keep) * batch
   for i, list in ipairs(params.chains) do
      mix = mix + column(params.mix:select(2, i):contiguous()) * Base._apply(self, batch, list)
   end
   local result = mix:view(shape):to(data.dtype)
   return torch.is_tensor(value) and result or tv_tensors._like(value, result)
end

return M
