-- ConvTranspose.lua - ConvTranspose1d, 2d and 3d: layers that upsample by the gradient of a
-- convolution with respect to its input.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local Conv = require "tlua.nn.modules.Conv"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

-- Returns the output padding for which the result has the wanted sizes. `sizes` lists the sizes of
-- all dimensions, or only of the last n dimensions.
local function padding_for(self, name, input, sizes)
   local n, dims = #self.kernel_size, input:dim()
   if type(sizes) == "number" then sizes = {sizes} end
   if #sizes ~= n and #sizes ~= dims then
      args.refuse(name, "output_size", ("%d or %d sizes"):format(n, dims), sizes)
   end
   local extra = {}
   for i = 1, n do
      local wanted = sizes[#sizes - n + i]
      local length = input:size(input:dim() - n + i)
      local least = (length - 1) * self.stride[i] - 2 * self.padding[i]
         + self.dilation[i] * (self.kernel_size[i] - 1) + 1
      extra[i] = wanted - least
      if extra[i] < 0 or extra[i] >= math.max(self.stride[i], self.dilation[i]) then
         torch.raise(("%s: output_size: expected %d to %d in dimension %d, got %d"):format(
            name, least, least + math.max(self.stride[i], self.dilation[i]) - 1,
            input:dim() - n + i, wanted))
      end
   end
   return extra
end

-- Defines the class for n spatial dimensions.
local function define(short_name, n)
   local name = "nn." .. short_name
   local signature = args.signature(name .. [[(in_channels: count, out_channels: count,
      kernel_size: integers, stride: integers = 1, padding: integers = 0,
      output_padding: integers = 0, groups: count = 1, bias: boolean = true,
      dilation: integers = 1, device: device?, dtype: string?)]])
   local take_call = args.signature(name
      .. ".forward(input: tensor, output_size: integers?)")
   local convolve = ("conv_transpose%dd"):format(n)

   local ConvTranspose, parent = class.class(name, Module)

   function ConvTranspose:__init(...)
      parent.__init(self)
      local a = signature(...)
      if a.groups < 1 or a.in_channels % a.groups ~= 0 or a.out_channels % a.groups ~= 0 then
         torch.raise(("%s: groups: expected a divisor of %d and %d channels, got %d"):format(
            name, a.in_channels, a.out_channels, a.groups))
      end
      self.in_channels, self.out_channels, self.groups = a.in_channels, a.out_channels, a.groups
      self.kernel_size = Conv.kernel_sizes(name, a.kernel_size, n)
      for _, field in ipairs {"stride", "padding", "output_padding", "dilation"} do
         self[field] = args.expand(name, field, a[field], n)
      end
      local sizes = {a.in_channels, a.out_channels // a.groups, table.unpack(self.kernel_size)}
      local place = {device = a.device, dtype = a.dtype}
      self.weight = Parameter(torch.empty(sizes, place))
      if a.bias then self.bias = Parameter(torch.empty(a.out_channels, place)) end
      self:reset_parameters()
   end

   function ConvTranspose:forward(input, ...)
      local output_padding = self.output_padding
      if ... ~= nil then
         local output_size = take_call(input, ...).output_size
         if output_size then output_padding = padding_for(self, name, input, output_size) end
      end
      return F[convolve](input, self.weight, self.bias, self.stride, self.padding,
         output_padding, self.groups, self.dilation)
   end

   ConvTranspose.reset_parameters = Conv.reset_parameters
   ConvTranspose.extra_repr = Conv.extra_repr
   return ConvTranspose
end

local M = {}

--- Transposed convolution over (N, C, L). With a stride above 1 several output sizes are possible.
--- `forward` takes the wanted sizes as a second argument or as the option output_size.
---
---     local layer = torch.nn.ConvTranspose1d(4, 2, 2, {stride = 2})
---     print(table.unpack(layer(torch.zeros(1, 4, 5)).shape))
---     --> 1	2	10
---@class nn.ConvTranspose1d: nn.Module
---@field weight Tensor  (in_channels, out_channels / groups, *kernel_size)
---@field bias Tensor?  (out_channels)
---@overload fun(in_channels, out_channels, kernel_size, options?): nn.ConvTranspose1d
M.ConvTranspose1d = define("ConvTranspose1d", 1)

--- Transposed convolution over images (N, C, H, W), with the options of ConvTranspose1d.
---
---     local layer = torch.nn.ConvTranspose2d(16, 3, 2, {stride = 2})
---     print(table.unpack(layer(torch.zeros(2, 16, 8, 8)).shape))
---     --> 2	3	16	16
---@class nn.ConvTranspose2d: nn.ConvTranspose1d
---@overload fun(in_channels, out_channels, kernel_size, options?): nn.ConvTranspose2d
M.ConvTranspose2d = define("ConvTranspose2d", 2)

--- Transposed convolution over volumes (N, C, D, H, W), with the options of ConvTranspose1d.
---
---     local layer = torch.nn.ConvTranspose3d(2, 1, 2, {stride = 2})
---     print(table.unpack(layer(torch.zeros(1, 2, 3, 3, 3)).shape))
---     --> 1	1	6	6	6
---@class nn.ConvTranspose3d: nn.ConvTranspose1d
---@overload fun(in_channels, out_channels, kernel_size, options?): nn.ConvTranspose3d
M.ConvTranspose3d = define("ConvTranspose3d", 3)

return M
