-- Conv.lua - Conv1d, Conv2d and Conv3d: one definition for any number of dimensions.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

-- Maps padding_mode to the mode of F.pad.
local modes = {
   zeros = "constant", reflect = "reflect", replicate = "replicate", circular = "circular",
}

-- Returns the padding before and after each dimension in F.pad's order, which begins with the last
-- dimension.
local function pad_list(conv)
   local list = {}
   for i = #conv.kernel_size, 1, -1 do
      local before, after
      if conv.padding == "same" then
         local total = conv.dilation[i] * (conv.kernel_size[i] - 1)
         before, after = total // 2, total - total // 2
      elseif conv.padding == "valid" then
         before, after = 0, 0
      else
         before, after = conv.padding[i], conv.padding[i]
      end
      list[#list + 1] = before
      list[#list + 1] = after
   end
   return list
end

local function check(name, a)
   if a.groups < 1 or a.in_channels % a.groups ~= 0 or a.out_channels % a.groups ~= 0 then
      torch.raise(("%s: groups: expected a divisor of %d and %d channels, got %d"):format(
         name, a.in_channels, a.out_channels, a.groups))
   end
   if not modes[a.padding_mode] then
      args.refuse(name, "padding_mode", "zeros, reflect, replicate or circular", a.padding_mode)
   end
   if type(a.padding) == "string" and a.padding ~= "same" and a.padding ~= "valid" then
      args.refuse(name, "padding", "numbers, same or valid", a.padding)
   end
end

-- Expands kernel_size to n numbers, of which none may be negative.
local function kernel_sizes(name, kernel_size, n)
   local sizes = args.expand(name, "kernel_size", kernel_size, n)
   for _, size in ipairs(sizes) do
      if size < 0 then args.refuse(name, "kernel_size", "no negative numbers", kernel_size) end
   end
   return sizes
end

-- Methods -------------------------------------------------------------------------------------

--- Fills the parameters with uniform random values from [-b, b], where b = 1/sqrt(fan_in).
local function reset_parameters(self)
   init.kaiming_uniform_(self.weight, {a = 5 ^ 0.5})
   if not self.bias then return end
   local fan_in = init.calculate_fan(self.weight)
   local bound = fan_in > 0 and fan_in ^ -0.5 or 0
   init.uniform_(self.bias, -bound, bound)
end

local function extra_repr(self)
   local list = {
      ("%d, %d"):format(self.in_channels, self.out_channels),
      ("kernel_size=(%s)"):format(table.concat(self.kernel_size, ", ")),
      ("stride=(%s)"):format(table.concat(self.stride, ", ")),
   }
   local function add(name, value, default)
      if value == nil then return end
      if type(value) == "table" then
         local plain = true
         for _, n in ipairs(value) do plain = plain and n == default end
         if plain then return end
         value = "(" .. table.concat(value, ", ") .. ")"
      elseif value == default then
         return
      end
      list[#list + 1] = ("%s=%s"):format(name, value)
   end
   add("padding", self.padding, 0)
   add("output_padding", self.output_padding, 0)
   add("dilation", self.dilation, 1)
   add("groups", self.groups, 1)
   if not self.bias then list[#list + 1] = "bias=false" end
   add("padding_mode", self.padding_mode, "zeros")
   return table.concat(list, ", ")
end

-- Defines the class for n spatial dimensions.
local function define(short_name, n)
   local name = "nn." .. short_name
   local signature = args.signature(name .. [[(in_channels: count, out_channels: count,
      kernel_size: integers, stride: integers = 1, padding: integers|string = 0,
      dilation: integers = 1, groups: count = 1, bias: boolean = true,
      padding_mode: string = 'zeros', device: device?, dtype: string?)]])
   local convolve = ("conv%dd"):format(n)

   local Conv, parent = class.class(name, Module)

   function Conv:__init(...)
      parent.__init(self)
      local a = signature(...)
      check(name, a)
      self.in_channels, self.out_channels, self.groups = a.in_channels, a.out_channels, a.groups
      self.kernel_size = kernel_sizes(name, a.kernel_size, n)
      self.stride = args.expand(name, "stride", a.stride, n)
      self.dilation = args.expand(name, "dilation", a.dilation, n)
      self.padding = type(a.padding) == "string" and a.padding
         or args.expand(name, "padding", a.padding, n)
      for _, stride in ipairs(self.stride) do
         if a.padding == "same" and stride ~= 1 then
            args.refuse(name, "stride", 'a stride of 1 with padding = "same"', a.stride)
         end
      end
      self.padding_mode = a.padding_mode
      local sizes = {a.out_channels, a.in_channels // a.groups, table.unpack(self.kernel_size)}
      local place = {device = a.device, dtype = a.dtype}
      self.weight = Parameter(torch.empty(sizes, place))
      if a.bias then self.bias = Parameter(torch.empty(a.out_channels, place)) end
      self:reset_parameters()
   end

   function Conv:forward(input)
      local padding = self.padding
      if self.padding_mode ~= "zeros" then
         input = F.pad(input, pad_list(self), modes[self.padding_mode])
         padding = 0
      end
      return F[convolve](input, self.weight, self.bias, self.stride, padding, self.dilation,
         self.groups)
   end

   Conv.reset_parameters = reset_parameters
   Conv.extra_repr = extra_repr
   return Conv
end

local M = {
   reset_parameters = reset_parameters, extra_repr = extra_repr, kernel_sizes = kernel_sizes,
}

--- Convolution over (N, C, L). `kernel_size`, `stride`, `padding`, `dilation` are each one number,
--- or a list with a number for each dimension; padding may also be "same" or "valid".
---
---     local layer = torch.nn.Conv1d(4, 8, 3, {padding = 1})
---     print(table.unpack(layer(torch.zeros(2, 4, 10)).shape))
---     --> 2	8	10
---@class nn.Conv1d: nn.Module
---@field weight Tensor  (out_channels, in_channels / groups, *kernel_size)
---@field bias Tensor?  (out_channels)
---@overload fun(in_channels, out_channels, kernel_size, options?): nn.Conv1d
M.Conv1d = define("Conv1d", 1)

--- Convolution over images (N, C, H, W), with the options of Conv1d.
---
---     local layer = torch.nn.Conv2d(3, 16, 3, {stride = 2, padding = 1})
---     print(table.unpack(layer(torch.zeros(2, 3, 32, 32)).shape))
---     --> 2	16	16	16
---     print(table.unpack(layer.weight.shape))
---     --> 16	3	3	3
---@class nn.Conv2d: nn.Conv1d
---@overload fun(in_channels, out_channels, kernel_size, options?): nn.Conv2d
M.Conv2d = define("Conv2d", 2)

--- Convolution over volumes (N, C, D, H, W), with the options of Conv1d.
---
---     local layer = torch.nn.Conv3d(1, 4, 3)
---     print(table.unpack(layer(torch.zeros(2, 1, 8, 8, 8)).shape))
---     --> 2	4	6	6	6
---@class nn.Conv3d: nn.Conv1d
---@overload fun(in_channels, out_channels, kernel_size, options?): nn.Conv3d
M.Conv3d = define("Conv3d", 3)

return M
