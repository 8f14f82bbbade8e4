-- drop_block.lua - DropBlock, a dropout of whole regions of feature maps (Ghiasi et al., 2018).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn
local F = nn.functional

local M = {}

-- Sets random blocks of a map to zero, and scales the other cells. `rank` is the number of spatial
-- dimensions, 2 or 3.
local function drop(title, input, p, size, eps, rank)
   if not torch.is_tensor(input) or input:dim() ~= rank + 2 then
      args.refuse(title, "input", ("a tensor of %d dimensions"):format(rank + 2), input)
   end
   local shape = {input:size(1), input:size(2)}
   local cells, block, places = 1, 1, 1
   for i = 3, rank + 2 do
      local side = math.min(size, input:size(i))
      shape[i] = input:size(i) - side + 1
      cells, block, places = cells * input:size(i), block * side, places * shape[i]
   end
   local rate = math.min(1, p * cells / (block * places))
   local noise = input:new_empty(shape):bernoulli_(rate)
   local sides, wide = {}, {}
   for i = 1, rank do
      sides[i] = input:size(i + 2) - shape[i + 2] + 1
      wide[2 * rank - 2 * i + 1], wide[2 * rank - 2 * i + 2] = sides[i] - 1, sides[i] - 1
   end
   -- A cell is dropped if a block begins at this cell, or before it at a distance less than the
   -- side of a block.
   local max_pool = rank == 2 and F.max_pool2d or F.max_pool3d
   noise = 1 - max_pool(F.pad(noise, wide), sides, {stride = 1})
   return input * (noise * (noise:numel() / (eps + noise:sum())))
end

local function check(title, a)
   if not (a.p >= 0 and a.p <= 1) then args.refuse(title, "p", "a number from 0 to 1", a.p) end
   if a.block_size < 1 then args.refuse(title, "block_size", "at least 1", a.block_size) end
end

local function define(rank)
   local title = ("vision.ops.drop_block%dd"):format(rank)
   local take = args.signature(title .. [[(input: tensor, p: number, block_size: integer,
      eps: number = 1e-6, training: boolean = true)]])
   return function(...)
      local a = take(...)
      check(title, a)
      if not a.training or a.p == 0 then return a.input end
      return drop(title, a.input, a.p, a.block_size, a.eps, rank)
   end
end

--- Sets random square blocks of images (2d) or cubes of volumes (3d) to zero, so that a cell is
--- zero with a probability of about p, and scales the other cells. If `training` is false, returns
--- the input.
---
---     local x = torch.ones(1, 1, 4, 4)
---     local drop = torch.vision.ops.drop_block2d
---     print(drop(x, 0.1, 2, {training = false}) == x)
---     --> true
---@names vision.ops.drop_block2d vision.ops.drop_block3d
---@param input Tensor  (N, C, H, W), or (N, C, D, H, W) for 3d
---@param p number  the probability of zero
---@param block_size integer  the side of a block
---@param options? {eps: number, training: boolean}  eps: a number that is added to the count of
--- the remaining cells, 1e-6 by default; training: true by default
---@return Tensor

M.drop_block2d = define(2)
M.drop_block3d = define(3)

local function layer(Class, name, rank)
   local title = "vision.ops." .. name
   local take = args.signature(title .. "(p: number, block_size: integer, eps: number = 1e-6)")

   function Class:__init(...)
      local a = take(...)
      check(title, a)
      self.p, self.block_size, self.eps = a.p, a.block_size, a.eps
   end

   function Class:forward(input)
      if not self.training or self.p == 0 then return input end
      return drop(title, input, self.p, self.block_size, self.eps, rank)
   end

   M[name] = Class
end

--- The layer that calls drop_block2d with p, `block_size` and eps. It drops only in training mode.
---
---     local layer = torch.vision.ops.DropBlock2d(0.1, 2)
---     print(table.unpack(layer(torch.ones(1, 2, 4, 4)).shape))
---     --> 1	2	4	4
---@class vision.ops.DropBlock2d: nn.Module
---@field p number  the probability of zero
---@field block_size integer  the side of a block
---@field eps number  a number that is added to the count of the remaining cells
---@overload fun(p: number, block_size: integer, eps?: number): nn.Module
local DropBlock2d = class.class("vision.ops.DropBlock2d", nn.Module)
layer(DropBlock2d, "DropBlock2d", 2)

--- The layer that calls drop_block3d with p, `block_size` and eps. It drops only in training mode.
---
---     local layer = torch.vision.ops.DropBlock3d(0.1, 2)
---     print(table.unpack(layer(torch.ones(1, 2, 4, 4, 4)).shape))
---     --> 1	2	4	4	4
---@class vision.ops.DropBlock3d: nn.Module
---@field p number  the probability of zero
---@field block_size integer  the side of a block
---@field eps number  a number that is added to the count of the remaining cells
---@overload fun(p: number, block_size: integer, eps?: number): nn.Module
local DropBlock3d = class.class("vision.ops.DropBlock3d", nn.Module)
layer(DropBlock3d, "DropBlock3d", 3)

return M
