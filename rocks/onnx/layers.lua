-- layers.lua - operators for matrix products and convolutions.

local torch = require "tlua"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local F = torch.nn.functional

local M = {}

function M.MatMul(node, a, b)
   node:same_dtype(a, b)
   return torch.matmul(a, b)
end

function M.Gemm(node, a, b, c)
   node:same_dtype(a, b)
   if a:dim() ~= 2 or b:dim() ~= 2 then
      node:fail("expected two matrices, got %s and %s", values.describe(a), values.describe(b))
   end
   local alpha, beta = node:float("alpha", 1), node:float("beta", 1)
   if node:int("transA", 0) ~= 0 then a = a:t() end
   if c and node:int("transB", 0) ~= 0 and alpha == 1 and beta == 1 and c:dim() == 1 then
      return F.linear(a, b, c) -- this is the form in which a linear layer is usually written
   end
   if node:int("transB", 0) ~= 0 then b = b:t() end
   local y = torch.matmul(a, b)
   if alpha ~= 1 then y = support.cast(y * alpha, a.dtype) end
   if not c then return y end
   return support.cast(beta == 1 and y + c or y + c * beta, a.dtype)
end

function M.Einsum(node, ...)
   return torch.einsum(node:need("text", "equation"), {...})
end

function M.Det(_, x) return torch.linalg.det(x) end

-- Convolutions -----------------------------------------------------------------------------------

-- Returns an attribute that is a list with one number for each of the windows' n dimensions. If it
-- is missing, the numbers are `default`.
local function list_of(node, name, n, default)
   local list = node:ints(name)
   if not list or #list == 0 then return support.fill(n, default) end
   if #list ~= n then
      node:fail("attribute %s: expected %d numbers, got {%s}", name, n, table.concat(list, ", "))
   end
   return list
end

-- Returns two lists: the amounts of zero padding before and after each dimension.
local function read_pads(node, sizes, kernel, strides, dilations)
   local n = #sizes
   local auto = node:text("auto_pad", "NOTSET")
   local before, after = {}, {}
   if auto == "NOTSET" or auto == "" then
      local pads = list_of(node, "pads", 2 * n, 0)
      for i = 1, n do before[i], after[i] = pads[i], pads[n + i] end
   elseif auto == "VALID" then
      before, after = support.fill(n, 0), support.fill(n, 0)
   elseif auto == "SAME_UPPER" or auto == "SAME_LOWER" then
      for i = 1, n do
         local out = (sizes[i] + strides[i] - 1) // strides[i]
         local total = math.max(0,
            (out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - sizes[i])
         before[i] = auto == "SAME_UPPER" and total // 2 or total - total // 2
         after[i] = total - before[i]
      end
   else
      node:fail("attribute auto_pad: %q is unknown", auto)
   end
   return before, after
end

--- Reads the attributes of sliding windows. The windows slide over the dimensions from the third
--- on.
---@return table window  kernel, strides, dilations, before, after
function support.window(node, x, kernel)
   local n = x:dim() - 2
   if n < 1 then node:fail("expected at least 3 dimensions, got %s", values.describe(x)) end
   local sizes = table.move(x.shape, 3, n + 2, 1, {})
   kernel = node:has "kernel_shape" and list_of(node, "kernel_shape", n, 1) or kernel
      or node:fail "attribute kernel_shape is missing"
   local window = {kernel = kernel, sizes = sizes, n = n, strides = list_of(node, "strides", n, 1),
      dilations = list_of(node, "dilations", n, 1)}
   for i = 1, n do
      if kernel[i] < 1 or window.strides[i] < 1 or window.dilations[i] < 1 then
         node:fail "expected kernel_shape, strides and dilations of at least 1"
      end
   end
   window.before, window.after = read_pads(node, sizes, kernel, window.strides, window.dilations)
   return window
end

--- Returns the argument of F.pad for the given padding before and after the last dimensions.
function support.pad_list(before, after)
   local pad = {}
   for i = #before, 1, -1 do
      pad[#pad + 1] = before[i]
      pad[#pad + 1] = after[i]
   end
   return pad
end

local function is_symmetric(window)
   for i = 1, window.n do
      if window.before[i] ~= window.after[i] or window.before[i] < 0 then return false end
   end
   return true
end

local convolutions <const> = {F.conv1d, F.conv2d, F.conv3d}

-- Returns the function in `list` for windows of n dimensions, such as F.conv2d for 2.
local function by_rank(node, list, n)
   return list[n] or node:fail("%d dimensions besides batch and channels; expected 1 to 3", n)
end

local function convolve(node, x, weight, bias, group)
   if weight:dim() ~= x:dim() then
      node:fail("the weight's dimensions differ from the input's: %s and %s",
         values.describe(weight), values.describe(x))
   end
   local window = support.window(node, x, table.move(weight.shape, 3, weight:dim(), 1, {}))
   local padding = window.before
   if not is_symmetric(window) then
      x = F.pad(x, support.pad_list(window.before, window.after))
      padding = support.fill(window.n, 0)
   end
   return by_rank(node, convolutions, window.n)(x, weight, bias, window.strides, padding,
      window.dilations, group)
end

function M.Conv(node, x, weight, bias)
   node:same_dtype(x, weight)
   return convolve(node, x, weight, bias, node:int("group", 1))
end

support.convolve = convolve

local transposed <const> = {F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d}

-- Computes the padding of a transposed convolution. Returns the numbers of elements that are cut
-- off at both ends of the full result, and the number of zeros that are then appended.
local function transposed_pads(node, window, extra)
   local shape, auto = node:ints "output_shape", node:text("auto_pad", "NOTSET")
   local before, after = window.before, window.after
   local same = auto == "SAME_UPPER" or auto == "SAME_LOWER"
   if not shape and not same then return before, after end
   if shape and #shape == window.n + 2 then shape = table.move(shape, 3, #shape, 1, {}) end
   before, after = {}, {}
   for i = 1, window.n do
      local size = shape and shape[i] or window.sizes[i] * window.strides[i]
      local total = (window.sizes[i] - 1) * window.strides[i] + extra[i]
         + (window.kernel[i] - 1) * window.dilations[i] + 1 - size
      -- If the requested size exceeds the full result, zeros are appended.
      local half = total // 2
      before[i] = auto == "SAME_UPPER" and half or total - half
      if not same then before[i] = half end
      if total < 0 then before[i] = 0 end
      after[i] = total - before[i]
   end
   return before, after
end

function M.ConvTranspose(node, x, weight, bias)
   node:same_dtype(x, weight)
   local window = support.window(node, x, table.move(weight.shape, 3, weight:dim(), 1, {}))
   local n = window.n
   local extra = list_of(node, "output_padding", n, 0)
   local before, after = transposed_pads(node, window, extra)
   local full = by_rank(node, transposed, n)(x, weight, nil, window.strides, support.fill(n, 0),
      support.fill(n, 0), node:int("group", 1), window.dilations)
   local cut = {}
   for i = n, 1, -1 do
      cut[#cut + 1] = -before[i]
      cut[#cut + 1] = extra[i] - after[i]
   end
   local y = F.pad(full, cut)
   if not bias then return y end
   local shape = support.fill(x:dim(), 1)
   shape[2] = bias:numel()
   return y + bias:reshape(shape)
end

function M.CausalConvWithState(node, x, weight, bias, past)
   local k = weight:size(3)
   local before = past or torch.zeros({x:size(1), x:size(2), k - 1},
      {dtype = x.dtype, device = x.device})
   local padded = torch.cat({before, x}, 3)
   local y = F.conv1d(padded, weight, bias, 1, 0, 1, x:size(2))
   local activation = node:text("activation", "none")
   if activation == "silu" or activation == "swish" then
      y = F.silu(y)
   elseif activation ~= "none" then
      node:fail("attribute activation: %q is unknown", activation)
   end
   return y, padded:narrow(3, padded:size(3) - k + 2, k - 1)
end

-- Samples the input for a deformable convolution: at the position of each element of the kernel,
-- shifted by `offset`. Positions are computed in float64, because rounding could change which
-- pixels are read.
local function deform(node, x, weight, offset, bias, mask)
   local window = support.window(node, x, table.move(weight.shape, 3, weight:dim(), 1, {}))
   if window.n ~= 2 then node:fail("expected images, got %s", values.describe(x)) end
   local n, channels, height, width = table.unpack(x.shape)
   local kh, kw = table.unpack(window.kernel)
   local groups, group = node:int("offset_group", 1), node:int("group", 1)
   local oh, ow = offset:size(3), offset:size(4)
   local shifts = offset:reshape(n, groups, kh * kw, 2, oh, ow)
   local on = {dtype = x.dtype, device = x.device}
   local function positions(count, stride, before, k, dilation, dim)
      local base = torch.arange(0, count, on) * stride - before
      local inner = torch.arange(0, k, on) * dilation
      if dim == 1 then
         return inner:reshape(k, 1, 1, 1) + base:reshape(1, 1, count, 1)
      end
      return inner:reshape(1, k, 1, 1) + base:reshape(1, 1, 1, count)
   end
   local ys = positions(oh, window.strides[1], window.before[1], kh, window.dilations[1], 1)
      :expand(kh, kw, oh, ow):reshape(1, 1, kh * kw, oh, ow)
   local xs = positions(ow, window.strides[2], window.before[2], kw, window.dilations[2], 2)
      :expand(kh, kw, oh, ow):reshape(1, 1, kh * kw, oh, ow)
   local rows, columns = shifts:select(4, 1) + ys, shifts:select(4, 2) + xs
   local function weigh(values_, size)
      -- This formula converts pixels to grid_sample's coordinates with align_corners = false.
      return (values_ * 2 + 1) / size - 1
   end
   local grid = torch.stack({weigh(columns, width), weigh(rows, height)}, -1)
      :reshape(n * groups, kh * kw * oh, ow, 2)
   local images = x:reshape(n * groups, channels // groups, height, width)
   local sampled = F.grid_sample(images, grid, {align_corners = false})
      :reshape(n, groups, channels // groups, kh * kw, oh * ow)
   if mask then sampled = sampled * mask:reshape(n, groups, 1, kh * kw, oh * ow) end
   local columns_of = sampled:reshape(n, group, channels // group * kh * kw, oh * ow)
   local rows_of = weight:reshape(1, group, weight:size(1) // group, -1)
   local y = torch.matmul(rows_of, columns_of):reshape(n, weight:size(1), oh, ow)
   return bias and y + bias:reshape(1, -1, 1, 1) or y
end

function M.DeformConv(node, x, ...)
   local exact = table.pack(x, ...)
   for i = 1, exact.n do exact[i] = exact[i] and exact[i]:to "float64" end
   return deform(node, table.unpack(exact, 1, exact.n)):to(x.dtype)
end

function M.Col2Im(node, x, image, block)
   local sizes, kernel = node:list(image, nil, "image_shape"), node:list(block, nil, "block_shape")
   local n = #sizes
   local strides, dilations = list_of(node, "strides", n, 1), list_of(node, "dilations", n, 1)
   local pads = list_of(node, "pads", 2 * n, 0)
   local batch, area = x:size(1), support.product(kernel)
   local channels = x:size(2) // area
   -- Each column is a block of the image, which is added to the padded image.
   local padded, counts, total = {}, {}, 1
   for i = 1, n do
      padded[i] = sizes[i] + pads[i] + pads[n + i]
      counts[i] = (padded[i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
      total = total * counts[i]
   end
   if total ~= x:size(3) then
      node:fail("expected %d columns, got %s", total, values.describe(x))
   end
   local on = {dtype = "int64", device = x.device}
   local index = torch.zeros(support.fill(2 * n, 1), on)
   for i = 1, n do
      local function along(count, step, dim)
         local shape = support.fill(2 * n, 1)
         shape[dim] = count
         return (torch.arange(0, count, on) * step):reshape(shape)
      end
      index = index * padded[i] + along(kernel[i], dilations[i], i)
         + along(counts[i], strides[i], n + i)
   end
   index = index:reshape(1, area * total) + 1
   local rows = x:reshape(batch * channels, area * total)
   local y = x:new_zeros({batch * channels, support.product(padded)})
      :scatter_add(2, index:expand(batch * channels, area * total):contiguous(), rows)
      :reshape({batch, channels, table.unpack(padded)})
   for i = 1, n do y = y:narrow(2 + i, pads[i] + 1, sizes[i]) end
   return y
end

return M
