-- pools.lua - maxima, means and norms over windows. The windows are views of the padded input, so
-- the same code handles every combination of padding, dilation and rounding.

local torch = require "tlua"
local support = require "tlua.onnx.support"
require "tlua.onnx.layers" -- this file defines support.window

local F = torch.nn.functional

local M = {}

-- Returns two lists: the number of windows in each dimension, and the number of elements that they
-- need after the end of the input.
local function counts_of(node, window)
   local ceil = node:int("ceil_mode", 0) ~= 0
   local counts, after = {}, {}
   for i = 1, window.n do
      local reach = (window.kernel[i] - 1) * window.dilations[i] + 1
      if math.max(window.before[i], window.after[i]) >= math.max(reach, 2) then
         node:fail("attribute pads: expected less than the window's %d, got %d", reach,
            math.max(window.before[i], window.after[i]))
      end
      local size = window.sizes[i] + window.before[i] + window.after[i]
      local rest, stride = size - reach, window.strides[i]
      local count = (ceil and -(-rest // stride) or rest // stride) + 1
      -- The last window is dropped if it would begin after the end of the input. The window's
      -- beginning is counted with the padding in front of the input.
      if ceil and (count - 1) * stride >= window.sizes[i] + window.before[i] then
         count = count - 1
      end
      if count < 1 then
         node:fail("a window of %d does not fit into a size of %d", reach, size)
      end
      counts[i] = count
      after[i] = (count - 1) * stride + reach - window.sizes[i] - window.before[i]
   end
   return counts, after
end

-- Returns the elements of all windows of a padded tensor, in a tensor {N, C, counts..., area}.
local function windows(x, window, counts)
   for i = 1, window.n do
      local reach = (window.kernel[i] - 1) * window.dilations[i] + 1
      x = x:unfold(2 + i, reach, window.strides[i]):narrow(2 + i, 1, counts[i])
      if window.dilations[i] > 1 then x = x:slice(-1, 1, nil, window.dilations[i]) end
   end
   local shape = table.move(x.shape, 1, 2 + window.n, 1, {})
   shape[#shape + 1] = support.product(window.kernel)
   return x:reshape(shape)
end

local function padded(x, window, after, value)
   return F.pad(x, support.pad_list(window.before, after), "constant", value)
end

-- Returns the position in the input of each element of the windows. Positions are row-major, or
-- column-major if `by_column` is true, and count from 0.
local function positions(x, window, counts, after, by_column)
   local shape, step = {1, 1}, 1
   local on = {dtype = "int64", device = x.device}
   local places = torch.zeros({}, on)
   local order = {}
   for i = window.n, 1, -1 do order[#order + 1] = i end
   if by_column then
      order = {}
      for i = 1, window.n do order[i] = i end
   end
   for _, i in ipairs(order) do
      local along = support.fill(window.n + 2, 1)
      along[2 + i] = window.sizes[i]
      places = places + torch.arange(0, window.sizes[i], on):reshape(along) * step
      step = step * window.sizes[i]
      shape[2 + i] = window.sizes[i]
   end
   local flat = padded(places:expand(shape):contiguous(), window, after, 0)
   local own = windows(flat, window, counts)
   local planes = torch.arange(0, x:size(1) * x:size(2), on)
      :reshape({x:size(1), x:size(2), table.unpack(support.fill(window.n + 1, 1))})
   return own + planes * step
end

local quick <const> = {F.max_pool1d, F.max_pool2d, F.max_pool3d}

-- Returns whether PyTorch's pooling function, which is faster, computes the same result.
local function is_plain(node, x, window)
   if not quick[window.n] or not x:is_floating_point() or #node.outputs > 1
      or node:int("ceil_mode", 0) ~= 0 then
      return false
   end
   for i = 1, window.n do
      if window.before[i] ~= window.after[i] or 2 * window.before[i] > window.kernel[i] then
         return false
      end
   end
   return true
end

function M.MaxPool(node, x)
   local window = support.window(node, x)
   if is_plain(node, x, window) then
      return quick[window.n](x, window.kernel, window.strides, window.before, window.dilations)
   end
   local counts, after = counts_of(node, window)
   local parts = windows(padded(x, window, after, support.limit(x.dtype, false)), window, counts)
   if #node.outputs < 2 then return parts:amax(-1) end
   local best, at = parts:max(-1)
   local places = positions(x, window, counts, after, node:int("storage_order", 0) ~= 0)
   places = places:expand(support.shape(parts)):gather(-1, at:unsqueeze(-1)):squeeze(-1)
   return best, places
end

function M.AveragePool(node, x)
   local window = support.window(node, x)
   local counts, after = counts_of(node, window)
   local sums = windows(padded(x, window, after, 0), window, counts):sum(-1)
   local ones = torch.ones({1, 1, table.unpack(window.sizes)}, {dtype = x.dtype,
      device = x.device})
   -- Padding counts as elements of a window, but the elements that rounding up adds do not count.
   if node:int("count_include_pad", 0) ~= 0 then
      ones = F.pad(ones, support.pad_list(window.before, window.after), "constant", 1)
      local rest = {}
      for i = 1, window.n do rest[i] = after[i] - window.after[i] end
      ones = F.pad(ones, support.pad_list(support.fill(window.n, 0), rest))
   else
      ones = padded(ones, window, after, 0)
   end
   return sums / windows(ones, window, counts):sum(-1)
end

function M.LpPool(node, x)
   local window = support.window(node, x)
   local counts, after = counts_of(node, window)
   local p = node.version < 2 and node:float("p", 2) or node:int("p", 2)
   local parts = windows(padded(x, window, after, 0), window, counts)
   return parts:abs():pow(p):sum(-1):pow(1 / p)
end

-- Defines a pooling operator whose window is the whole plane.
local function global(fn)
   return function(node, x)
      local dims = {}
      for i = 3, x:dim() do dims[#dims + 1] = i end
      return #dims == 0 and x or fn(x, dims, node)
   end
end

M.GlobalAveragePool = global(function(x, dims) return x:mean(dims, true) end)
M.GlobalMaxPool = global(function(x, dims) return x:amax(dims, true) end)
M.GlobalLpPool = global(function(x, dims, node)
   local p = node.version < 2 and node:float("p", 2) or node:int("p", 2)
   return x:abs():pow(p):sum(dims, true):pow(1 / p)
end)

function M.MaxUnpool(node, x, places, shape)
   local window = support.window(node, x)
   local sizes = {}
   for i = 1, window.n do
      sizes[i] = (window.sizes[i] - 1) * window.strides[i] + window.kernel[i] - window.before[i]
         - window.after[i]
   end
   local result = {x:size(1), x:size(2), table.unpack(sizes)}
   local total = support.product(result)
   local index = places:reshape(-1) + 1
   if index:numel() > 0 and (index:min():item() < 1 or index:max():item() > total) then
      node:fail("indices: expected 0 to %d", total - 1)
   end
   local y = torch.zeros({total}, {dtype = x.dtype, device = x.device})
      :scatter(1, index, x:reshape(-1)):reshape(result)
   local wanted = node:list(shape, nil, "output_shape")
   if not wanted then return y end
   local rest = {}
   for i = 1, window.n do rest[i] = wanted[i + 2] - sizes[i] end
   return F.pad(y, support.pad_list(support.fill(window.n, 0), rest))
end

return M
