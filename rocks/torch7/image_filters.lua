-- image_filters.lua - the package image's kernels and filters: convolution, contrast, erosion and
-- pyramids.

local tlua = require "tlua"
local args = require "tlua.args"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local base = require "tlua.torch7.image_base"

local T, F, M = tlua, tlua.nn.functional, base.image
local field, methods, shape, tag, by_name = types.field, types.methods, base.shape, base.tag,
   base.by_name

-- Kernels -----------------------------------------------------------------------------------------

-- Reads the options of a kernel, and fills in the defaults.
local function kernel_options(name, names, ...)
   local o = by_name(name, names, ...)
   for key, value in pairs(o) do
      if key == "tensor" then
         if not types.is_tensor(value) or #shape(value) == 0 then
            args.refuse("image." .. name, key, "a tensor", value)
         end
      elseif key == "size" or key == "width" or key == "height" then
         if not (math.type(value) and math.tointeger(value)) or value < 1 then
            args.refuse("image." .. name, key, "an integer of at least 1", value)
         end
      elseif key ~= "normalize" and type(value) ~= "number" then
         args.refuse("image." .. name, key, "a number", value)
      end
   end
   local size = o.size or 3
   o.sigma, o.amplitude = o.sigma or 0.25, o.amplitude or 1
   if o.tensor then
      local sizes = shape(o.tensor)
      o.height, o.width, o.size = sizes[1], sizes[#sizes], sizes[1]
   else
      o.height, o.width, o.size = o.height or size, o.width or size, size
   end
   o.sigma_horz, o.sigma_vert = o.sigma_horz or o.sigma, o.sigma_vert or o.sigma
   o.mean_horz, o.mean_vert = o.mean_horz or 0.5, o.mean_vert or 0.5
   return o
end

-- Returns ((i - centre) / (sigma * n))^2 / 2 for the positions i from 1 to n.
local function squares(n, sigma, mean)
   local at = T.arange(1, n + 1, {dtype = "float64", device = "cpu"})
   return T.div(T.square(T.div(T.sub(at, mean * n + 0.5), sigma * n)), 2)
end

-- Returns a matrix (height, width) with the sum of `squares` in both directions.
local function plane(o)
   return T.add(T.reshape(squares(o.height, o.sigma_vert, o.mean_vert), {-1, 1}),
      T.reshape(squares(o.width, o.sigma_horz, o.mean_horz), {1, -1}))
end

local function finish(o, kernel)
   kernel = T.mul(kernel, o.amplitude)
   if o.normalize then kernel = T.div(kernel, T.sum(kernel)) end
   if o.tensor then return o.tensor:copy(tag(kernel)) end
   return tag(methods.to(kernel, types.place(types.default)))
end

local of_plane <const> = "size sigma amplitude normalize width height sigma_horz sigma_vert "
   .. "mean_horz mean_vert tensor"

--- Returns a Gaussian kernel (height, width). The arguments are size, sigma, amplitude, normalize,
--- width, height, sigma_horz, sigma_vert, mean_horz, mean_vert and tensor, in this order or by name
--- in a table. Means and standard deviations are fractions of the kernel's sizes.
function M.gaussian(...)
   local o = kernel_options("gaussian", of_plane, ...)
   return finish(o, T.exp(T.neg(plane(o))))
end

--- Returns a Gaussian kernel, a vector. The arguments are size, sigma, amplitude, normalize, mean
--- and tensor, in this order or by name in a table.
function M.gaussian1D(...)
   local o = kernel_options("gaussian1D", "size sigma amplitude normalize mean tensor", ...)
   return finish(o, T.exp(T.neg(squares(o.size, o.sigma, o.mean or 0.5))))
end

--- Returns the negative Laplacian of a Gaussian as a kernel. The arguments are those of `gaussian`.
function M.laplacian(...)
   local o = kernel_options("laplacian", of_plane, ...)
   local at = plane(o)
   return finish(o, T.mul(T.rsub(at, 1), T.exp(T.neg(at))))
end

-- Convolutions ------------------------------------------------------------------------------------

local function check_kernel(name, kernel)
   local size = shape(kernel)
   if #size ~= 2 then
      tlua.raise(("image.%s: kernel: expected (height, width), got %d dimensions"):format(name,
         #size))
   end
   return size
end

-- Calls fn on an image reshaped to (channels, 1, height, width). The result gets the number of
-- dimensions of the original image.
local function by_channel(name, src, fn)
   local x = types.untag(src)
   local n = #shape(x)
   if n ~= 2 and n ~= 3 then
      tlua.raise(("image.%s: expected an image of 2 or 3 dimensions, got %d"):format(name, n))
   end
   local y = T.squeeze(fn(T.unsqueeze(n == 2 and T.unsqueeze(x, 1) or x, 2)), 2)
   return tag(n == 2 and T.squeeze(y, 1) or y)
end

--- Convolves each channel with a kernel (height, width). The mode is "valid" (the default), "full"
--- or "same".
function M.convolve(src, kernel, mode)
   mode = mode or "valid"
   if mode ~= "valid" and mode ~= "full" and mode ~= "same" then
      tlua.raise(("image.convolve: mode: expected 'valid', 'full' or 'same', got %s"):format(
         tostring(mode)))
   end
   local size = check_kernel("convolve", kernel)
   return by_channel("convolve", src, function(x)
      local k = T.flip(methods.to(T.detach(kernel), field(x, "dtype")), {1, 2})
      local padding = mode == "full" and {size[1] - 1, size[2] - 1} or {0, 0}
      if mode == "same" then
         local top, left = size[1] // 2, size[2] // 2
         x = F.pad(x, {left, size[2] - 1 - left, top, size[1] - 1 - top})
      end
      return F.conv2d(x, T.reshape(k, {1, 1, size[1], size[2]}), nil, 1, padding)
   end)
end
base.take_result("convolve", 2)

--- Normalizes contrast in two steps: first by the mean and deviation of the whole image, and then,
--- for each pixel, by the mean and deviation of the pixels around it. The kernel gives the weights
--- of these pixels; it is a 9 x 9 Gaussian by default.
function M.lcn(src, kernel)
   if not types.is_tensor(src) then args.refuse("image.lcn", "src", "an image", src) end
   if kernel ~= nil and not types.is_tensor(kernel) then
      args.refuse("image.lcn", "kernel", "a tensor (height, width)", kernel)
   end
   kernel = kernel and kernel:clone() or M.gaussian(9)
   kernel:div(kernel:sum())
   local x = src:clone():add(-src:mean())
   local spread = x:std()
   if spread > 0 then x:div(spread) end
   local mean = M.convolve(x, kernel, "same")
   local variance = M.convolve(x:clone():cmul(x), kernel, "same"):add(-1, mean:clone():cmul(mean))
   return x:add(-1, mean):cdiv(variance:clamp(1e-8, math.huge):sqrt())
end

-- Returns, for each pixel, the sum of the pixels that a kernel of ones and zeros selects.
local function selected(name, src, kernel, pad)
   local size = check_kernel(name, kernel)
   if size[1] % 2 == 0 or size[2] % 2 == 0 then
      tlua.raise(("image.%s: kernel: expected odd sizes, got %dx%d"):format(name, size[1], size[2]))
   end
   return by_channel(name, src, function(x)
      local k = methods.to(T.detach(kernel), "float64")
      x = F.pad(methods.to(x, "float64"), {size[2] // 2, size[2] // 2, size[1] // 2, size[1] // 2},
         "constant", pad)
      return F.conv2d(x, T.reshape(k, {1, 1, size[1], size[2]}))
   end)
end

local function is_zero_or_one(name, src)
   if methods.item(T.any(T.logical_and(T.ne(src, 0), T.ne(src, 1)))) then
      tlua.raise(("image.%s: expected an image of zeros and ones"):format(name))
   end
end

--- Erodes a binary image: a pixel stays 1 if all pixels that the kernel selects around it are 1.
function M.erode(src, kernel, pad)
   is_zero_or_one("erode", src)
   kernel = kernel or torch.ones(3, 3)
   return selected("erode", src, kernel, pad or 1):eq(kernel:sum()):typeAs(src)
end

--- Dilates a binary image: a pixel becomes 1 if any pixel that the kernel selects around it is 1.
function M.dilate(src, kernel, pad)
   is_zero_or_one("dilate", src)
   return selected("dilate", src, kernel or torch.ones(3, 3), pad or 0):gt(0):typeAs(src)
end

--- Returns a table with an image for each scale: the image is blurred and then scaled. The
--- arguments are ([dst,] src, scales).
function M.gaussianpyramid(...)
   local into, src, scales = ...
   if types.is_tensor(into) then
      into, src, scales = {}, ...
   end
   if not types.is_tensor(src) or type(scales) ~= "table" then
      tlua.raise "image.gaussianpyramid: expected an image and a table of scales"
   end
   local size = shape(src)
   local h, w = size[#size - 1], size[#size]
   for i, factor in ipairs(scales) do
      local made = src:clone()
      if factor ~= 1 then
         if factor < 1 then
            local kernel = M.gaussian {size = 2 * math.ceil(1 / factor) - 1, normalize = true}
            made = M.convolve(src, kernel, "same")
         end
         made = M.scale(made, math.max(math.floor(w * factor), 1),
            math.max(math.floor(h * factor), 1))
      end
      into[i] = into[i] and into[i]:resize(made:size()):copy(made) or made
   end
   return into
end

-- Ranges ------------------------------------------------------------------------------------------

--- Maps the range from `min` to `max` linearly to the range from 0 to 1. By default, min and max
--- are the extremes of the tensor. The arguments are {tensor, min, max, symm, inplace, saturate,
--- tensorOut}. With `symm`, the range is symmetric about 0, so that 0 becomes 0.5.
function M.minmax(...)
   local o = by_name("minmax", "tensor min max symm inplace saturate tensorOut", ...)
   local x = o.tensor
   if not types.is_tensor(x) then
      tlua.raise("image.minmax: tensor: expected a tensor, got " .. type(x))
   end
   for _, what in ipairs {"min", "max"} do
      if o[what] ~= nil and type(o[what]) ~= "number" then
         args.refuse("image.minmax", what, "a number", o[what])
      end
   end
   if x:nElement() == 0 then args.refuse("image.minmax", "tensor", "at least one element", x) end
   local low, high = o.min or x:min(), o.max or x:max()
   if o.symm and not o.min and not o.max then
      high = math.max(math.abs(low), math.abs(high))
      low = -high
   end
   local made = o.inplace and x or x:clone()
   if o.tensorOut then made = o.tensorOut:resize(x:size()):copy(x) end
   made:add(-low)
   if high ~= low then made:div(high - low) end
   if o.saturate then made:clamp(0, 1) end
   return made
end

return M
