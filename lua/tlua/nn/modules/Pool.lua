-- Pool.lua - layers that take the largest element, the mean or a norm of each window.

local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

--- Takes the largest element of each window of (N, C, ...). The default stride is kernel_size. With
--- return_indices, forward also returns the position of each element within its plane, for
--- MaxUnpool.
---
---     local layer = torch.nn.MaxPool2d(2)
---     print(layer(torch.arange(16.0):view(1, 1, 4, 4)):squeeze())
---     --> tensor([[ 5.,  7.],
---     -->         [13., 15.]])
---@class nn.MaxPool1d: nn.Module
---@class nn.MaxPool2d: nn.Module
---@class nn.MaxPool3d: nn.Module

--- Takes the mean of each window of (N, C, ...). The default stride is kernel_size.
---
---     local layer = torch.nn.AvgPool2d(2)
---     print(layer(torch.arange(16.0):view(1, 1, 4, 4)):squeeze())
---     --> tensor([[ 2.5000,  4.5000],
---     -->         [10.5000, 12.5000]])
---@class nn.AvgPool1d: nn.Module
---@class nn.AvgPool2d: nn.Module
---@class nn.AvgPool3d: nn.Module

--- Takes the mean of each window of (N, C, ...). The windows are sized so that the result has
--- output_size, whatever the size of the input.
---
---     local layer = torch.nn.AdaptiveAvgPool2d(1)
---     print(table.unpack(layer(torch.zeros(8, 64, 7, 7)).shape))
---     --> 8	64	1	1
---@class nn.AdaptiveAvgPool1d: nn.Module
---@class nn.AdaptiveAvgPool2d: nn.Module
---@class nn.AdaptiveAvgPool3d: nn.Module

--- Takes the largest element of each window of (N, C, ...). The windows are sized so that the
--- result has output_size.
---
---     local layer = torch.nn.AdaptiveMaxPool1d(2)
---     print(layer(torch.tensor {{1.0, 5.0, 2.0, 3.0}}))
---     --> tensor([[5., 3.]])
---@class nn.AdaptiveMaxPool1d: nn.Module
---@class nn.AdaptiveMaxPool2d: nn.Module
---@class nn.AdaptiveMaxPool3d: nn.Module

--- Computes the p-norm of each window of an input (N, C, ...): (sum of x^p)^(1/p), where p is
--- norm_type.
---
---     local layer = torch.nn.LPPool1d(2, 2)
---     print(layer(torch.tensor {{3.0, 4.0, 6.0, 8.0}}):round {decimals = 3})
---     --> tensor([[ 5., 10.]])
---@class nn.LPPool1d: nn.Module
---@class nn.LPPool2d: nn.Module
---@class nn.LPPool3d: nn.Module

local max_options = [[kernel_size: integers, stride: integers?, padding: integers = 0,
   dilation: integers = 1, return_indices: boolean = false, ceil_mode: boolean = false]]

-- Defines pooling by windows of n dimensions over (N, C, ...). With return_indices, forward also
-- returns the position of each largest element within its plane, for MaxUnpool.
for n = 1, 3 do
   local plain = ("max_pool%dd"):format(n)
   local with_indices = plain .. "_with_indices"
   local name = ("MaxPool%dd"):format(n)
   M[name] = define(name, max_options, function(self, input)
      local pool = F[self.return_indices and with_indices or plain]
      return pool(input, self.kernel_size, self.stride, self.padding, self.dilation,
         self.ceil_mode)
   end)
end

local average_options = [[kernel_size: integers, stride: integers?, padding: integers = 0,
   ceil_mode: boolean = false, count_include_pad: boolean = true]]

M.AvgPool1d = define("AvgPool1d", average_options, function(self, input)
   return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
      self.count_include_pad)
end)

for n = 2, 3 do
   local pool = ("avg_pool%dd"):format(n)
   local name = ("AvgPool%dd"):format(n)
   M[name] = define(name, average_options .. ", divisor_override: integer?", function(self, input)
      return F[pool](input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
         self.count_include_pad, self.divisor_override)
   end)
end

-- Defines adaptive pooling, whose windows are sized so that the result has the requested
-- output_size.
for n = 1, 3 do
   local average = ("adaptive_avg_pool%dd"):format(n)
   local name = ("AdaptiveAvgPool%dd"):format(n)
   M[name] = define(name, "output_size: integers", function(self, input)
      return F[average](input, self.output_size)
   end)

   local max = ("adaptive_max_pool%dd"):format(n)
   local with_indices = max .. "_with_indices"
   name = ("AdaptiveMaxPool%dd"):format(n)
   M[name] = define(name, "output_size: integers, return_indices: boolean = false",
      function(self, input)
         return F[self.return_indices and with_indices or max](input, self.output_size)
      end)
end

-- Defines the layers that compute the p-norm of each window, where p is norm_type.
for n = 1, 3 do
   local pool = ("lp_pool%dd"):format(n)
   local name = ("LPPool%dd"):format(n)
   M[name] = define(name, [[norm_type: number, kernel_size: integers, stride: integers?,
      ceil_mode: boolean = false]], function(self, input)
      return F[pool](input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)
   end)
end

return M
