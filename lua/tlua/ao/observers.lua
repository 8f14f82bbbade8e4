-- observers.lua - modules that record the range of the tensors passed through them, and compute
-- from the range a scale and a zero point for quantized tensors. All observers derive from one
-- class. An observer has one range, or one range for each position of a dimension. The range covers
-- all tensors so far, or is a moving average of their ranges.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local M = {}

local ranges <const> = {
   quint8 = {0, 255}, qint8 = {-128, 127}, qint32 = {-2147483648, 2147483647},
   uint8 = {0, 255}, int8 = {-128, 127},
}

local Observer, parent = class.class("ao.quantization.Observer", Module)
M._Observer = Observer

function Observer:__init(who, options, defaults)
   parent.__init(self)
   local given = {}
   for key, value in pairs(defaults) do given[key] = value end
   local known = {"dtype", "qscheme", "reduce_range", "quant_min", "quant_max", "eps"}
   if defaults.averaging_constant then known[#known + 1] = "averaging_constant" end
   if defaults.ch_axis then known[#known + 1] = "ch_axis" end
   if defaults.bins then known[#known + 1] = "bins" end
   args.check_options(who, options, table.unpack(known))
   for key, value in pairs(options or {}) do given[key] = value end
   local range = ranges[given.dtype]
   if not range then args.refuse(who, "dtype", '"quint8", "qint8" or "qint32"', given.dtype) end
   local channels = defaults.ch_axis ~= nil
   local schemes = channels and "per_channel" or "per_tensor"
   if given.qscheme ~= schemes .. "_affine" and given.qscheme ~= schemes .. "_symmetric" then
      args.refuse(who, "qscheme", ('"%s_affine" or "%s_symmetric"'):format(schemes, schemes),
         given.qscheme)
   end
   self.dtype, self.qscheme, self.eps = given.dtype, given.qscheme, given.eps
   self.ch_axis, self.averaging_constant = given.ch_axis, given.averaging_constant
   self.bins = given.bins
   if given.bins and (math.type(given.bins) ~= "integer" or given.bins < 1) then
      args.refuse(who, "bins", "an integer of at least 1", given.bins)
   end
   self.has_customized_qrange = given.quant_min ~= nil or given.quant_max ~= nil
   if self.has_customized_qrange then
      if math.type(given.quant_min) ~= "integer" or math.type(given.quant_max) ~= "integer" or
         given.quant_min >= given.quant_max then
         torch.raise(("%s: expected the integers quant_min < quant_max, got %s and %s"):format(who,
            tostring(given.quant_min), tostring(given.quant_max)))
      end
      range = {given.quant_min, given.quant_max}
   elseif given.reduce_range then
      range = given.dtype:find "^qu" and {0, 127} or {-64, 63}
   end
   self.quant_min, self.quant_max = range[1], range[2]
   self:reset_min_max_vals()
end

function Observer:reset_min_max_vals()
   local size = self.ch_axis and {0} or {}
   self:register_buffer("min_val", torch.full(size, math.huge))
   self:register_buffer("max_val", torch.full(size, -math.huge))
end

-- Returns the smallest and the largest element of a tensor. An observer with the option ch_axis
-- returns two vectors instead, with the extremes for each position of that dimension.
function Observer:range_of(x)
   if not self.ch_axis then return x:min(), x:max() end
   local axis, over = self.ch_axis, {}
   if axis < 1 or axis > x:dim() then
      args.refuse("forward", "ch_axis", ("1 to %d"):format(x:dim()), axis)
   end
   for d = 1, x:dim() do
      if d ~= axis then over[#over + 1] = d end
   end
   if #over == 0 then return x, x end
   return x:amin(over), x:amax(over)
end

function Observer:check_input(x) -- luacheck: no unused args
   if not torch.is_tensor(x) or not x:is_floating_point() then
      args.refuse("forward", "x", "a floating tensor", x)
   end
end

-- Returns the limits of the range that the quantized integers must cover.
function Observer:limits() return self.min_val, self.max_val end

--- Records the range of a tensor, and returns the tensor.
function Observer:forward(x)
   self:check_input(x)
   if x:numel() == 0 then return x end
   local low, high = self:range_of(x:detach():float())
   local old_low, old_high = self.min_val, self.max_val
   local first = old_low:numel() == 0 or old_low:eq(math.huge):all():item()
   if not first then
      local c = self.averaging_constant
      if c then
         low, high = old_low + (low - old_low) * c, old_high + (high - old_high) * c
      else
         low, high = torch.minimum(old_low, low), torch.maximum(old_high, high)
      end
   end
   self.min_val, self.max_val = low:clone(), high:clone()
   return x
end

function Observer:calculate_qparams()
   local qmin, qmax = self.quant_min, self.quant_max
   if self.min_val:numel() == 0 or self.min_val:eq(math.huge):all():item() then
      return torch.tensor {1.0}, torch.tensor {0}
   end
   local low, high = self:limits()
   low, high = low:clamp_max(0), high:clamp_min(0)
   local scale, zero
   if self.qscheme:find "_symmetric" then
      scale = torch.maximum(-low, high) / ((qmax - qmin) / 2)
      local middle = self.dtype:find "uint8" and (self.has_customized_qrange
         and (qmin + qmax) // 2 or 128) or 0
      zero = torch.full_like(scale, middle, {dtype = "int64"})
      scale = scale:clamp_min(self.eps)
   else
      scale = ((high - low) / (qmax - qmin)):clamp_min(self.eps)
      zero = (qmin - (low / scale):round():to "int32"):clamp(qmin, qmax)
   end
   if scale:dim() == 0 then scale, zero = scale:reshape(1), zero:reshape(1) end
   return scale, zero
end

function Observer:extra_repr()
   local function text(t) return t:dim() == 0 and tostring(t:item()) or tostring(t) end
   return ("min_val=%s, max_val=%s"):format(text(self.min_val), text(self.max_val))
end

local defaults <const> = {dtype = "quint8", qscheme = "per_tensor_affine", eps = 2.0^-23}

-- Defines a class of observers. Its default options are `defaults`, changed and extended by `more`.
local function define(name, more)
   local full = "ao.quantization." .. name
   local cls = class.class(full, Observer)
   local own = {}
   for key, value in pairs(defaults) do own[key] = value end
   for key, value in pairs(more) do own[key] = value end
   function cls:__init(options) Observer.__init(self, full, options, own) end
   M[name] = cls
   return cls
end

--- Records the smallest and the largest element of all tensors that it is called with.
---
---     local observer = torch.ao.quantization.MinMaxObserver()
---     observer(torch.tensor {-1.0, 2, 3})
---     print(observer:calculate_qparams())
---     --> tensor([0.0157])	tensor([64], dtype=torch.int32)
---@class ao.quantization.MinMaxObserver: nn.Module
---@field min_val Tensor  the smallest element so far
---@field max_val Tensor  the largest element so far
---@field calculate_qparams fun(self): Tensor, Tensor  the scale and the zero point
---@overload fun(options?: {dtype: string, qscheme: string, reduce_range: boolean,
--- quant_min: integer, quant_max: integer, eps: number}): ao.quantization.MinMaxObserver
---@names torch.ao.quantization.MinMaxObserver
define("MinMaxObserver", {})

--- Records a moving average of the smallest and the largest element: average + c * (new - average)
--- for each tensor, with c = `averaging_constant`, 0.01 by default.
---
---     local observer = torch.ao.quantization.MovingAverageMinMaxObserver()
---     observer(torch.tensor {-1.0, 2, 3})
---     observer(torch.tensor {-2.0, 2, 7})
---     print(observer.max_val)
---     --> tensor(3.0400)
---@class ao.quantization.MovingAverageMinMaxObserver: ao.quantization.MinMaxObserver
---@names torch.ao.quantization.MovingAverageMinMaxObserver
define("MovingAverageMinMaxObserver", {averaging_constant = 0.01})

--- Records the smallest and the largest element for each position of the dimension `ch_axis`, 1 by
--- default.
---
---     local observer = torch.ao.quantization.PerChannelMinMaxObserver()
---     observer(torch.tensor {{-1.0, 2, 3}, {1, 2, 8}})
---     print(observer:calculate_qparams())
---     --> tensor([0.0157, 0.0314])	tensor([64,  0], dtype=torch.int32)
---@class ao.quantization.PerChannelMinMaxObserver: ao.quantization.MinMaxObserver
---@names torch.ao.quantization.PerChannelMinMaxObserver
define("PerChannelMinMaxObserver", {ch_axis = 1, qscheme = "per_channel_affine"})

--- Records a moving average of the range for each position of the dimension `ch_axis`, 1 by
--- default.
---
---     local quantization = torch.ao.quantization
---     local observer = quantization.MovingAveragePerChannelMinMaxObserver()
---     observer(torch.tensor {{-1.0, 2, 3}, {1, 2, 8}})
---     print(observer.max_val)
---     --> tensor([3., 8.])
---@class ao.quantization.MovingAveragePerChannelMinMaxObserver: ao.quantization.MinMaxObserver
---@names torch.ao.quantization.MovingAveragePerChannelMinMaxObserver
define("MovingAveragePerChannelMinMaxObserver", {ch_axis = 1, qscheme = "per_channel_affine",
   averaging_constant = 0.01})

return M
