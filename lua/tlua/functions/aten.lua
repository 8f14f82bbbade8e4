-- aten.lua - torch.grid_sampler and torch.constant_pad_nd. In PyTorch these are the operators that
-- torch.nn.functional.grid_sample and pad call.

local args = require "tlua.args"
local F = require "tlua.nn.functional"

local M = {}

local modes <const> = {[0] = "bilinear", "nearest", "bicubic"}
local paddings <const> = {[0] = "zeros", "border", "reflection"}

-- Returns a function that samples inputs of `dims` dimensions; if `dims` is nil, inputs of 4 or 5
-- dimensions.
local function sampler(name, dims)
   local take = args.signature(name .. [[(input: tensor, grid: tensor, interpolation_mode: integer,
      padding_mode: integer, align_corners: boolean)]])
   return function(...)
      local a = take(...)
      local mode, padding = modes[a.interpolation_mode], paddings[a.padding_mode]
      if not mode then
         args.refuse(name, "interpolation_mode", "0 (bilinear), 1 (nearest) or 2 (bicubic)",
            a.interpolation_mode)
      end
      if not padding then
         args.refuse(name, "padding_mode", "0 (zeros), 1 (border) or 2 (reflection)",
            a.padding_mode)
      end
      if dims and a.input:dim() ~= dims then
         args.refuse(name, "input", ("a tensor of %d dimensions"):format(dims), a.input)
      end
      return F.grid_sample(a.input, a.grid, mode, padding, a.align_corners)
   end
end

--- Samples images or volumes at the positions of a grid, like torch.nn.functional.grid_sample, but
--- the two modes are numbers: 0 stands for "bilinear" or "zeros", 1 for "nearest" or "border", and
--- 2 for "bicubic" or "reflection". grid_sampler_2d takes images, grid_sampler_3d volumes.
---@param input Tensor  (N, C, H, W) or (N, C, D, H, W)
---@param grid Tensor  (N, H', W', 2) or (N, D', H', W', 3)
---@param interpolation_mode integer  0, 1 or 2
---@param padding_mode integer  0, 1 or 2
---@param align_corners boolean  whether -1 and 1 are the centres of the corners' elements
---@return Tensor
---@names grid_sampler grid_sampler_2d grid_sampler_3d
M.grid_sampler = sampler("grid_sampler")
M.grid_sampler_2d = sampler("grid_sampler_2d", 4)
M.grid_sampler_3d = sampler("grid_sampler_3d", 5)

local take_pad = args.signature [[constant_pad_nd(input: tensor, pad: integers,
   value: number = 0)]]

--- Adds elements of one value around the last dimensions, like torch.nn.functional.pad.
---@param input Tensor
---@param pad integer[]  before and after the last dimension, then the one before it, and so on
---@param value? number  0 unless given
---@return Tensor
function M.constant_pad_nd(...)
   local a = take_pad(...)
   return F.pad(a.input, type(a.pad) == "number" and {a.pad} or a.pad, "constant", a.value)
end

return M
