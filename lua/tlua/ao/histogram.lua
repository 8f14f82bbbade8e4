-- histogram.lua - HistogramObserver: counts the elements of tensors in equal intervals, and chooses
-- the range with the smallest squared rounding error. Outliers are clamped if that reduces the sum
-- of all errors.

local torch = require "tlua"
local class = require "tlua.class"
local observers = require "tlua.ao.observers"

local M = {}

--- Counts the elements of all tensors it is called with in `bins` equal intervals, 2048 by default.
--- The scale and the zero point come from the range for which rounding changes the elements least.
---
---     local observer = torch.ao.quantization.HistogramObserver {bins = 8}
---     observer(torch.tensor {-1.0, 0, 0, 1, 3})
---     print(observer.histogram)
---     --> tensor([1., 0., 2., 0., 1., 0., 0., 1.])
---@class ao.quantization.HistogramObserver: ao.quantization.MinMaxObserver
---@field histogram Tensor  (bins) the number of elements in each interval
---@overload fun(options?: {bins: integer, dtype: string, qscheme: string, reduce_range: boolean,
--- quant_min: integer, quant_max: integer, eps: number}): ao.quantization.HistogramObserver
local Histogram, parent = class.class("ao.quantization.HistogramObserver", observers._Observer)
M.HistogramObserver = Histogram

local defaults <const> = {
   dtype = "quint8", qscheme = "per_tensor_affine", eps = 2.0^-23, bins = 2048,
}

function Histogram:__init(options)
   parent.__init(self, "ao.quantization.HistogramObserver", options, defaults)
   self:register_buffer("histogram", torch.zeros(self.bins))
end

local function count(x, bins, low, high)
   return torch.histc(x, bins, low:item(), high:item())
end

-- Converts a histogram of [low, high] to one of the wider range [new_low, new_high]. Each interval
-- is cut into 16 parts, and each part goes to the new interval that contains its midpoint.
local function widened(histogram, low, high, new_low, new_high)
   local bins = histogram:numel()
   if low:item() == high:item() then
      return count(low:reshape(1), bins, new_low, new_high) * histogram:sum()
   end
   local n = bins * 16
   local parts = histogram:repeat_interleave(16) / 16
   local middles = torch.linspace(low:item(), high:item(), n + 1, {device = histogram.device})
      :narrow(1, 1, n) + (high - low) / n * 0.5
   local edges = torch.linspace(new_low:item(), new_high:item(), bins + 1,
      {device = histogram.device})
   local at = torch.bucketize(middles, edges, {right = true}) - 1
   return torch.bincount(at:clamp(1, bins), parts, bins):float()
end

---@param x Tensor  floating
---@return Tensor x
function Histogram:forward(x)
   self:check_input(x)
   local values = x:detach():float():reshape(-1)
   values = values[values:abs():ne(math.huge)]
   if values:numel() == 0 then return x end
   local low, high = values:aminmax()
   local old_low, old_high = self.min_val, self.max_val
   if old_low:item() == math.huge then
      self.histogram = count(values, self.bins, low, high)
      self.min_val, self.max_val = low:clone(), high:clone()
      return x
   end
   low, high = torch.minimum(low, old_low), torch.maximum(high, old_high)
   local new, old = count(values, self.bins, low, high), self.histogram
   if not (low:equal(old_low) and high:equal(old_high)) then
      old = widened(old, old_low, old_high, low, high)
   end
   self.histogram, self.min_val, self.max_val = old + new, low, high
   return x
end

-- Returns the integral of density * x^2 over x from `from` to `to`.
local function moment(from, to, density)
   return density * ((to * to * to - from * from * from) / 3)
end

-- Returns the sum of the squared rounding errors if `levels` equally spaced numbers cover the
-- intervals `first` to `last`, counted from 0. Elements outside these intervals are clamped.
local function error_of(histogram, width, first, last, levels)
   local step = width * (last - first + 1) / levels
   if step == 0 then return 0 end
   local begins = (torch.arange(0, histogram:numel(), {device = histogram.device}) - first):float()
      * width
   local ends = begins + width
   local from = begins:div(step):floor():clamp(0, levels - 1)
   local to = ends:div(step):floor():clamp(0, levels - 1)
   local density = histogram / width
   local half = torch.full({}, step / 2, {device = histogram.device})
   local sum = moment(begins - (from + 0.5) * step, half, density)
      + (to - from - 1) * moment(-half, half, density)
      + moment(-half, ends - (to * step + step / 2), density)
   return sum:sum():item()
end

--- Returns the range with the smallest error. The search begins with the whole range. Each step
--- removes 0.001 % of the elements at one end of the range: the end at which these elements span
--- more intervals.
function Histogram:limits()
   local bins, levels = self.bins, 1 << torch.iinfo(self.dtype:gsub("^q", "")).bits
   local low, high = self.min_val:item(), self.max_val:item()
   local width, total = (high - low) / bins, self.histogram:sum():item()
   local sums = self.histogram:cumsum(1):tolist()
   local first, last, least = 0, bins - 1, math.huge
   local alpha, beta = 0.0, 1.0
   while alpha < beta do
      local next_alpha, next_beta = alpha + 1e-5, beta - 1e-5
      local l, r = first, last
      while l < last and sums[l + 1] < next_alpha * total do l = l + 1 end
      while r > first and sums[r + 1] > next_beta * total do r = r - 1 end
      local new_first, new_last = first, last
      if l - first > last - r then
         new_first, alpha = l, next_alpha
      else
         new_last, beta = r, next_beta
      end
      if new_first ~= first or new_last ~= last then
         local worse = error_of(self.histogram, width, new_first, new_last, levels)
         if worse > least then break end
         least, first, last = worse, new_first, new_last
      end
   end
   local step = (self.max_val - self.min_val) / bins
   return self.min_val + step * first, self.min_val + step * (last + 1)
end

return M
