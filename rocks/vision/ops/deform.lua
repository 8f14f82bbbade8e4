-- deform.lua - deformable convolution. Each weight of the kernel reads the input at its own
-- position, which is computed from another input. grid_sample interpolates the values at these
-- positions, and computes the gradients of the input and of the positions.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn
local F = nn.functional

local M = {}

local take = args.signature [[vision.ops.deform_conv2d(input: tensor, offset: tensor,
   weight: tensor, bias: tensor?, stride: integers = 1, padding: integers = 0,
   dilation: integers = 1, mask: tensor?)]]

local function refuse_shape(title, name, expected, value)
   args.refuse(title, name, ("a tensor of shape (%s)"):format(table.concat(expected, ", ")), value)
end

local function has_shape(value, expected)
   if value:dim() ~= #expected then return false end
   for i, size in ipairs(expected) do
      if value:size(i) ~= size then return false end
   end
   return true
end

-- Returns the coordinates (k, output) at which the kernel's k weights along one side read the input
-- if all offsets are zero.
local function places(like, k, output, stride, padding, dilation)
   local place = {dtype = like.dtype, device = like.device}
   return torch.arange(k, place):view(k, 1) * dilation
      + torch.arange(output, place):view(1, output) * stride - padding
end

local function deform(title, a)
   local x, offset, weight, mask = a.input, a.offset, a.weight, a.mask
   if not torch.is_tensor(x) or x:dim() ~= 4 then
      args.refuse(title, "input", "a tensor of shape (N, C, H, W)", x)
   end
   for name, value in pairs {offset = offset or false, mask = mask} do
      if not torch.is_tensor(value) then args.refuse(title, name, "a tensor", value or nil) end
   end
   if weight:dim() ~= 4 then
      args.refuse(title, "weight", "a tensor of shape (out, in / groups, kh, kw)", weight)
   end
   local sy, sx = table.unpack(args.expand(title, "stride", a.stride, 2))
   local py, px = table.unpack(args.expand(title, "padding", a.padding, 2))
   local dy, dx = table.unpack(args.expand(title, "dilation", a.dilation, 2))
   local batch, inputs, height, width = table.unpack(x.shape)
   local outputs, per_group, kh, kw = table.unpack(weight.shape)
   local rows = (height + 2 * py - (dy * (kh - 1) + 1)) // sy + 1
   local columns = (width + 2 * px - (dx * (kw - 1) + 1)) // sx + 1
   if rows < 1 or columns < 1 then
      args.refuse(title, "input", "at least the size of the kernel", x)
   end
   local groups = per_group > 0 and inputs // per_group or 0
   if groups < 1 or inputs % per_group ~= 0 or outputs % groups ~= 0 then
      torch.raise(("%s: weight: %d channels do not divide the input's %d and %d outputs"):format(
         title, per_group, inputs, outputs))
   end
   local cells = kh * kw
   local parts = offset:dim() == 4 and offset:size(2) // (2 * cells) or 0
   if parts < 1 or inputs % parts ~= 0
         or not has_shape(offset, {batch, 2 * cells * parts, rows, columns}) then
      local channels = ("%d * groups"):format(2 * cells)
      refuse_shape(title, "offset", {batch, channels, rows, columns}, offset)
   end
   if mask and not has_shape(mask, {batch, cells * parts, rows, columns}) then
      refuse_shape(title, "mask", {batch, cells * parts, rows, columns}, mask)
   end
   if a.bias and not has_shape(a.bias, {outputs}) then
      refuse_shape(title, "bias", {outputs}, a.bias)
   end

   offset = offset:view(batch, parts, kh, kw, 2, rows, columns)
   local y = offset:select(5, 1) + places(x, kh, rows, sy, py, dy):view(1, 1, kh, 1, rows, 1)
   local x_at = offset:select(5, 2)
      + places(x, kw, columns, sx, px, dx):view(1, 1, 1, kw, 1, columns)
   local grid = torch.stack({(x_at * 2 + 1) / width - 1, (y * 2 + 1) / height - 1}, 7)
      :view(batch * parts, cells * rows, columns, 2)
   local values = F.grid_sample(x:reshape(batch * parts, inputs // parts, height, width), grid,
      {mode = "bilinear", padding_mode = "zeros", align_corners = false})
   values = values:view(batch, parts, inputs // parts, cells, rows * columns)
   if mask then values = values * mask:view(batch, parts, 1, cells, rows * columns) end
   values = values:reshape(batch, groups, per_group * cells, rows * columns)
   local result = weight:view(1, groups, outputs // groups, per_group * cells):matmul(values)
      :reshape(batch, outputs, rows, columns)
   return a.bias and result + a.bias:view(1, -1, 1, 1) or result
end

--- Computes a convolution in which each weight of the kernel reads the input at its own offset. The
--- channels of `offset` are groups of pairs y, x, with a pair for each weight of the kernel. Each
--- group applies to an equal part of the input's channels. `mask` has a factor for each pair.
---
---     local x = torch.arange(0, 9, {dtype = "float32"}):view(1, 1, 3, 3)
---     local weight, right = torch.ones(1, 1, 1, 1), torch.zeros(1, 2, 3, 3)
---     right[{1, 2}] = 0.5
---     print(torch.vision.ops.deform_conv2d(x, right, weight)[{1, 1, 1}])
---     --> tensor([0.5000, 1.5000, 1.0000])
---@param input Tensor  (N, C, H, W)
---@param offset Tensor  (N, 2 * groups * kh * kw, rows, columns)
---@param weight Tensor  (out, C / groups, kh, kw)
---@param bias? Tensor  (out)
---@param options? {stride: integer|integer[], padding: integer|integer[], dilation:
--- integer|integer[], mask: Tensor}  stride: 1 by default; padding: 0 by default; dilation: 1 by
--- default; mask: (N, groups * kh * kw, rows, columns)
---@return Tensor  (N, out, rows, columns)
function M.deform_conv2d(...)
   return deform("vision.ops.deform_conv2d", take(...))
end

local take_layer = args.signature [[vision.ops.DeformConv2d(in_channels: count, out_channels: count,
   kernel_size: integers, stride: integers = 1, padding: integers = 0, dilation: integers = 1,
   groups: count = 1, bias: boolean = true)]]

--- The layer that calls deform_conv2d, as layer(input, offset, mask). Its weights map `in_channels`
--- to `out_channels` in `groups` groups.
---
---     local layer = torch.vision.ops.DeformConv2d(4, 8, 3, {padding = 1})
---     local x, offset = torch.zeros(1, 4, 5, 5), torch.zeros(1, 18, 5, 5)
---     print(table.unpack(layer(x, offset).shape))
---     --> 1	8	5	5
---@class vision.ops.DeformConv2d: nn.Module
---@field weight Tensor  (out_channels, in_channels / groups, *kernel_size)
---@field bias Tensor?  (out_channels)
---@field stride integer|integer[]  the step between results
---@field padding integer|integer[]  zeros around the input
---@field dilation integer|integer[]  the step between weights
---@overload fun(...): nn.Module
local DeformConv2d = class.class("vision.ops.DeformConv2d", nn.Module)
M.DeformConv2d = DeformConv2d

function DeformConv2d:__init(...)
   local title, a = "vision.ops.DeformConv2d", take_layer(...)
   local kernel = args.expand(title, "kernel_size", a.kernel_size, 2)
   if a.groups < 1 or a.in_channels % a.groups ~= 0 or a.out_channels % a.groups ~= 0 then
      torch.raise(("%s: groups: expected a divisor of %d and %d channels, got %d"):format(title,
         a.in_channels, a.out_channels, a.groups))
   end
   self.stride, self.padding, self.dilation = a.stride, a.padding, a.dilation
   self.weight = nn.Parameter(torch.empty(a.out_channels, a.in_channels // a.groups, kernel[1],
      kernel[2]))
   nn.init.kaiming_uniform_(self.weight, {a = 5 ^ 0.5})
   if a.bias then
      local bound = (a.in_channels // a.groups * kernel[1] * kernel[2]) ^ -0.5
      self.bias = nn.Parameter(torch.empty(a.out_channels):uniform_(-bound, bound))
   end
end

function DeformConv2d:forward(input, offset, mask)
   return deform("vision.ops.DeformConv2d", {input = input, offset = offset, weight = self.weight,
      bias = self.bias, stride = self.stride, padding = self.padding, dilation = self.dilation,
      mask = mask})
end

return M
