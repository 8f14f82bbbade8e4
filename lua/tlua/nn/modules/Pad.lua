-- Pad.lua - layers that pad the last dimensions of their input at both ends.

local torch = require "tlua"
local args = require "tlua.args"
local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

--- Pads the last one, two or three dimensions of (N, C, ...) or (C, ...) with zeros. padding is
--- one number for all ends, or a list: numbers for before and after the last dimension, then for
--- the second last dimension, and so on. Negative numbers crop.
---
---     local layer = torch.nn.ZeroPad2d {1, 0, 0, 1} -- left, right, top, bottom
---     print(layer(torch.tensor {{{1, 2}}}):squeeze(1))
---     --> tensor([[0, 1, 2],
---     -->         [0, 0, 0]])
---@class nn.ZeroPad1d: nn.Module
---@class nn.ZeroPad2d: nn.Module
---@class nn.ZeroPad3d: nn.Module

--- Pads the last one, two or three dimensions of (N, C, ...) or (C, ...) with the number `value`.
--- padding is one number for all ends, or a list: numbers for before and after the last dimension,
--- then for the second last dimension, and so on. Negative numbers crop.
---
---     print(torch.nn.ConstantPad1d(1, 9)(torch.tensor {{1, 2}}))
---     --> tensor([[9, 1, 2, 9]])
---@class nn.ConstantPad1d: nn.Module
---@class nn.ConstantPad2d: nn.Module
---@class nn.ConstantPad3d: nn.Module

--- Pads the last one, two or three dimensions of (N, C, ...) or (C, ...) with a reflection of the
--- input, without repeating the edge. padding is one number for all ends, or a list: numbers for
--- before and after the last dimension, then for the second last dimension, and so on. Each number
--- must be smaller than the size of its dimension.
---
---     print(torch.nn.ReflectionPad1d(2)(torch.tensor {{1.0, 2.0, 3.0}}))
---     --> tensor([[3., 2., 1., 2., 3., 2., 1.]])
---@class nn.ReflectionPad1d: nn.Module
---@class nn.ReflectionPad2d: nn.Module
---@class nn.ReflectionPad3d: nn.Module

--- Pads the last one, two or three dimensions of (N, C, ...) or (C, ...) with copies of the edge.
--- padding is one number for all ends, or a list: numbers for before and after the last dimension,
--- then for the second last dimension, and so on. Negative numbers crop.
---
---     print(torch.nn.ReplicationPad1d(2)(torch.tensor {{1.0, 2.0, 3.0}}))
---     --> tensor([[1., 1., 1., 2., 3., 3., 3.]])
---@class nn.ReplicationPad1d: nn.Module
---@class nn.ReplicationPad2d: nn.Module
---@class nn.ReplicationPad3d: nn.Module

--- Pads the last one, two or three dimensions of (N, C, ...) or (C, ...) with the elements of the
--- input's opposite end. padding is one number for all ends, or a list: numbers for before and
--- after the last dimension, then for the second last dimension, and so on. Negative numbers crop.
---
---     print(torch.nn.CircularPad1d(1)(torch.tensor {{1.0, 2.0, 3.0}}))
---     --> tensor([[3., 1., 2., 3., 1.]])
---@class nn.CircularPad1d: nn.Module
---@class nn.CircularPad2d: nn.Module
---@class nn.CircularPad3d: nn.Module

for n = 1, 3 do
   local function class(kind, options, mode)
      local name = ("%sPad%dd"):format(kind, n)
      M[name] = define(name, options, function(self, input)
         if not torch.is_tensor(input) then
            args.refuse("nn." .. name, "input", "a tensor", input)
         end
         if mode ~= "constant" and input:dim() ~= n + 1 and input:dim() ~= n + 2 then
            args.refuse("nn." .. name, "input", ("%d or %d dimensions"):format(n + 1, n + 2), input)
         end
         return F.pad(input, self.padding, mode, self.value)
      end, function(self)
         self.padding = args.expand("nn." .. name, "padding", self.padding, 2 * n)
      end)
   end
   class("Zero", "padding: integers", "constant")
   class("Constant", "padding: integers, value: number", "constant")
   class("Reflection", "padding: integers", "reflect")
   class("Replication", "padding: integers", "replicate")
   class("Circular", "padding: integers", "circular")
end

return M
