-- FractionalMaxPool.lua - "Fractional Max-Pooling" (Graham, 2014): takes the largest element of
-- each window. The distances between windows are random, so a size may shrink by any factor.

local torch = require "tlua"
local args = require "tlua.args"
local define = require "tlua.nn.modules.layers".define

local M = {}

--- Takes the largest element of each window of (N, C, H, W); the distances between windows are
--- random (Graham, Fractional Max-Pooling, 2014). Either output_size or output_ratio determines the
--- result's size.
---
---     local layer = torch.nn.FractionalMaxPool2d(2, {output_size = 3})
---     print(layer(torch.ones(1, 1, 5, 5)).shape)
---     --> torch.Size([1, 1, 3, 3])
---@class nn.FractionalMaxPool2d: nn.Module

--- Takes the largest element of each window of (N, C, D, H, W); the distances between windows are
--- random (Graham, Fractional Max-Pooling, 2014). Either output_size or output_ratio determines the
--- result's size.
---
---     local layer = torch.nn.FractionalMaxPool3d(2, {output_size = 3})
---     print(layer(torch.ones(1, 1, 5, 5, 5)).shape)
---     --> torch.Size([1, 1, 3, 3, 3])
---@class nn.FractionalMaxPool3d: nn.Module

local options <const> = [[kernel_size: integers, output_size: integers?,
   output_ratio: number|numbers?, return_indices: boolean = false, _random_samples: tensor?]]

local function check_options(name, a)
   if (a.output_size == nil) == (a.output_ratio == nil) then
      torch.raise(name .. ": expected either output_size or output_ratio")
   end
end

-- Returns the output sizes. Raises an error if the windows do not fit into the input.
local function sizes_of(name, a, input, n)
   local kernel = args.expand(name, "kernel_size", a.kernel_size, n)
   local sizes
   if a.output_size then
      sizes = args.expand(name, "output_size", a.output_size, n)
   else
      local ratio = args.expand(name, "output_ratio", a.output_ratio, n)
      sizes = {}
      for d = 1, n do
         if not (ratio[d] > 0 and ratio[d] < 1) then
            args.refuse(name, "output_ratio", "numbers between 0 and 1", ratio[d])
         end
         sizes[d] = math.floor(input:size(d - n - 1) * ratio[d])
      end
   end
   for d = 1, n do
      local length = input:size(d - n - 1)
      if sizes[d] < 1 or kernel[d] < 1 or sizes[d] + kernel[d] - 1 > length then
         torch.raise(("%s: expected windows that fit, got %d of size %d along a dimension of %d")
            :format(name, sizes[d], kernel[d], length))
      end
   end
   return kernel, sizes
end

-- Returns where each window begins along a dimension, as positions (N, C, size) counted from 0. The
-- random numbers `samples` (N, C) determine the positions.
local function starts(samples, length, size, kernel)
   local last = torch.full_like(samples, length - kernel):unsqueeze(3)
   if size == 1 then return last end
   local alpha, u = (length - kernel) / (size - 1), samples:unsqueeze(3)
   local steps = torch.arange(size - 1, {dtype = samples.dtype, device = samples.device})
   return torch.cat({((steps + u) * alpha):trunc() - (u * alpha):trunc(), last}, 3)
end

-- Returns the positions of all windows' elements within their planes, counted from 1, as a tensor
-- (N, C, *sizes, *kernel).
local function positions(samples, lengths, sizes, kernel)
   local n, place, stride = #sizes, 1, 1
   for d = n, 1, -1 do
      local shape = {samples:size(1), samples:size(2)}
      for k = 1, 2 * n do shape[k + 2] = 1 end
      local inside = torch.arange(kernel[d], {dtype = samples.dtype, device = samples.device})
      -- In PyTorch, the first random number of a plane is for its last dimension if the plane has
      -- two dimensions, but for its first dimension if the plane has three.
      local sample = samples:select(3, n == 2 and 3 - d or d)
      local along = starts(sample, lengths[d], sizes[d], kernel[d]):unsqueeze(4) + inside
      shape[2 + d], shape[2 + n + d] = sizes[d], kernel[d]
      place = place + along:long():view(shape) * stride
      stride = stride * lengths[d]
   end
   return place
end

-- Checks the shape of the random numbers `samples`, which the user may have given. Returns the
-- first rows of the tensor, one for each sample of the batch.
local function check_samples(name, samples, batch, channels, n)
   if samples:dim() ~= 3 or samples:size(1) < batch or samples:size(2) ~= channels
      or samples:size(3) ~= n then
      args.refuse(name, "_random_samples", ("shape (%d, %d, %d)"):format(batch, channels, n),
         samples)
   end
   return samples:narrow(1, 1, batch)
end

-- Returns the largest element of each window, and its position in its plane, counted from 1.
local function pool(name, a, input, n)
   if input:dim() ~= n + 1 and input:dim() ~= n + 2 then
      args.refuse(name, "input", ("a tensor of %d or %d dimensions"):format(n + 1, n + 2), input)
   end
   local kernel, sizes = sizes_of(name, a, input, n)
   local batch = input:dim() == n + 2 and input or input:unsqueeze(1)
   local samples = a._random_samples or torch.rand(batch:size(1), batch:size(2), n,
      {dtype = input.dtype, device = input.device})
   if samples.dtype ~= input.dtype then
      args.refuse(name, "_random_samples", ("the input's dtype, %s"):format(input.dtype), samples)
   end
   samples = check_samples(name, samples, batch:size(1), batch:size(2), n)
   local lengths = {table.unpack(batch.shape, 3)}
   local place = positions(samples, lengths, sizes, kernel):flatten(3 + n, 2 + 2 * n)
   local windows = batch:flatten(3):gather(3, place:flatten(3)):view(place.shape)
   local values, which = windows:max(-1)
   local indices = place:gather(-1, which:unsqueeze(-1)):squeeze(-1)
   if input:dim() == n + 1 then values, indices = values:squeeze(1), indices:squeeze(1) end
   return values, indices
end

for n = 2, 3 do
   local fn = ("fractional_max_pool%dd"):format(n)
   local title = "nn.functional." .. fn
   local take = args.signature(("%s(input: tensor, %s)"):format(title, options))
   --- Returns the largest elements and their positions, even if return_indices is false.
   ---@param input Tensor  (N, C, *) or (C, *), where * is as many dimensions as the name says
   ---@return Tensor values
   ---@return Tensor indices  positions in the plane, from 1
   M[fn .. "_with_indices"] = function(...)
      local a = take(...)
      check_options(title, a)
      return pool(title, a, a.input, n)
   end
   --- Returns the largest elements of windows at random positions, so any output size is possible
   --- (Graham, Fractional Max-Pooling, 2014).
   ---@param input Tensor  (N, C, *) or (C, *), where * is as many dimensions as the name says
   ---@return Tensor values
   ---@return Tensor? indices  the positions in the plane, from 1, if return_indices is set
   M[fn] = function(...)
      local a = take(...)
      check_options(title, a)
      local values, indices = pool(title, a, a.input, n)
      if a.return_indices then return values, indices end
      return values
   end

   local name = ("nn.FractionalMaxPool%dd"):format(n)
   local Pool = define(name:match "%w+$", options, function(self, input)
      if not torch.is_tensor(input) then args.refuse(name, "input", "a tensor", input) end
      local values, indices = pool(name, self, input, n)
      if self.return_indices then return values, indices end
      return values
   end, function(self)
      check_options(name, self)
      self.kernel_size = args.expand(name, "kernel_size", self.kernel_size, n)
   end)

   function Pool:extra_repr()
      local function show(value)
         return type(value) == "table" and "(" .. table.concat(value, ", ") .. ")" or value
      end
      local sized = self.output_size and "output_size" or "output_ratio"
      return ("kernel_size=%s, %s=%s"):format(show(self.kernel_size), sized, show(self[sized]))
   end

   M[("FractionalMaxPool%dd"):format(n)] = Pool
end

return M
