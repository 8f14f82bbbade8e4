-- layouts.lua - the layouts of an activation over the ranks of a group, and differentiable
-- conversions between them. The conversions copy and reduce are from "Megatron-LM" (Shoeybi et al.,
-- 2019), and the conversions that split sequences are from "Reducing Activation Recomputation in
-- Large Transformer Models" (Korthikanti et al., 2022).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Function = require "tlua.autograd.Function"

local M = {}

--- Describes how ranks hold a tensor. Placements compare by value.
---
---     local tensor = torch.distributed.tensor
---     print(torch.isinstance(tensor.Shard(1), tensor.Placement))
---     --> true
---@class distributed.tensor.Placement
M.Placement = class.class("distributed.tensor.Placement")

--- Returns whether the placement is a Shard; if `dim` is given, whether it is a Shard along this
--- dimension.
---@param dim? integer
---@return boolean
function M.Placement:is_shard(dim)
   return class.isinstance(self, M.Shard) and (dim == nil or dim == self.dim)
end

--- Returns whether each rank holds the whole tensor.
---@return boolean
function M.Placement:is_replicate() return class.isinstance(self, M.Replicate) end

--- Returns whether each rank holds a part of a sum that is still to be reduced.
---@return boolean
function M.Placement:is_partial() return class.isinstance(self, M.Partial) end

function M.Placement.__eq(a, b)
   return getmetatable(a) == getmetatable(b) and a.dim == b.dim
end

--- A placement: each rank has an equal part along a dimension, in rank order.
---
---     local Shard = torch.distributed.tensor.Shard
---     print(Shard(1), Shard(1) == Shard(1), Shard(1) == Shard(2))
---     --> Shard(1)	true	false
---@class distributed.tensor.Shard: distributed.tensor.Placement
---@field dim integer  from 1; negative ones count from the end
---@overload fun(dim: integer): distributed.tensor.Shard
M.Shard = class.class("distributed.tensor.Shard", M.Placement)

local take_shard = args.signature "distributed.tensor.Shard(dim: integer)"

function M.Shard:__init(...)
   self.dim = take_shard(...).dim
   if self.dim == 0 then
      args.refuse("distributed.tensor.Shard", "dim", "a dimension from 1, or from the end", 0)
   end
end

function M.Shard:__tostring() return ("Shard(%d)"):format(self.dim) end

--- A placement: all ranks of a group have the same tensor.
---
---     local tensor = torch.distributed.tensor
---     print(tensor.Replicate(), tensor.Replicate() == tensor.Shard(1))
---     --> Replicate()	false
---@class distributed.tensor.Replicate: distributed.tensor.Placement
---@overload fun(): distributed.tensor.Replicate
M.Replicate = class.class("distributed.tensor.Replicate", M.Placement)

function M.Replicate:__tostring() return "Replicate()" end -- luacheck: no self

local take_partial = args.signature "distributed.tensor.Partial(reduce_op: string = 'sum')"

--- A placement: the tensor is the sum of the tensors that the ranks have.
---
---     local tensor = torch.distributed.tensor
---     print(tensor.Partial(), tensor.Partial() == tensor.Replicate())
---     --> Partial(sum)	false
---@class distributed.tensor.Partial: distributed.tensor.Placement
---@overload fun(reduce_op?: string): distributed.tensor.Partial
M.Partial = class.class("distributed.tensor.Partial", M.Placement)

function M.Partial:__init(...)
   self.reduce_op = take_partial(...).reduce_op
   if self.reduce_op ~= "sum" then
      args.refuse("distributed.tensor.Partial", "reduce_op", '"sum"', self.reduce_op)
   end
end

function M.Partial:__tostring() return "Partial(sum)" end -- luacheck: no self

function M.is_layout(value)
   return class.isinstance(value, M.Shard) or class.isinstance(value, M.Replicate)
end

-- Moving data ------------------------------------------------------------------------------------

-- Returns the dimension, from 1, along which a tensor is split. Raises an error unless the number
-- of ranks divides the dimension's size.
local function dim_of(title, tensor, dim, group)
   local d = dim < 0 and tensor:dim() + 1 + dim or dim
   if d < 1 or d > tensor:dim() then
      torch.raise(("%s: the activation has %d dimensions, expected one numbered %d"):format(title,
         tensor:dim(), dim))
   end
   if group and tensor:size(d) % #group.ranks ~= 0 then
      torch.raise(("%s: dimension %d of the activation, of size %d, cannot be split over %d ranks")
         :format(title, d, tensor:size(d), #group.ranks))
   end
   return d
end

local function gather(tensor, dim, group)
   local d, parts = dim_of("all_gather", tensor, dim), {}
   tensor = tensor:contiguous()
   for i = 1, #group.ranks do parts[i] = torch.empty_like(tensor) end
   group:run("all_gather", {inputs = tensor, outputs = parts})
   return torch.cat(parts, d)
end

local function own_part(tensor, dim, group)
   local d = dim_of("split", tensor, dim, group)
   local n = tensor:size(d) // #group.ranks
   return tensor:narrow(d, group.group_rank * n + 1, n):contiguous()
end

local function sum(tensor, group)
   tensor = tensor:clone():contiguous()
   group:run("all_reduce", {outputs = tensor, op = "sum"})
   return tensor
end

local function sum_part(tensor, dim, group)
   local d = dim_of("reduce_scatter", tensor, dim, group)
   local n, inputs = tensor:size(d) // #group.ranks, {}
   for i = 1, #group.ranks do inputs[i] = tensor:narrow(d, (i - 1) * n + 1, n):contiguous() end
   local output = torch.empty_like(inputs[1])
   group:run("reduce_scatter", {inputs = inputs, outputs = output, op = "sum"})
   return output
end

local function same(tensor) return tensor:view_as(tensor) end

-- Maps each conversion to its forward function and its backward function. Both take a tensor, the
-- dimension and the group.
local moves <const> = {
   copy = {same, function(grad, _, group) return sum(grad, group) end},
   reduce = {function(x, _, group) return sum(x, group) end, function(grad) return grad end},
   gather = {gather, own_part},
   split = {own_part, gather},
   gather_sum = {gather, sum_part},
   sum_part = {sum_part, gather},
}

local Move = class.class("distributed.tensor.Move", Function)

function Move.forward(ctx, tensor, move, dim, group)
   ctx.back, ctx.dim, ctx.group = moves[move][2], dim, group
   return moves[move][1](tensor, dim, group)
end

function Move.backward(ctx, grad)
   return (ctx.back(grad, ctx.dim, ctx.group))
end

--- Converts an activation. `move` is "copy" (the values stay, and gradients are summed), "reduce"
--- (values are summed), "gather" or "split" along a dimension, "gather_sum" (values are gathered;
--- each rank then uses a different part, so gradients are summed and split) or "sum_part" (values
--- are summed and split).
---@param tensor Tensor
---@param move string
---@param dim? integer
---@param group distributed.ProcessGroup
---@return Tensor
function M.move(tensor, move, dim, group)
   return Move:apply(tensor, move, dim, group)
end

--- Converts a tensor from one layout to another. The gradient of a replicated tensor is equal on
--- all ranks.
---@param tensor Tensor
---@param from distributed.tensor.Shard|distributed.tensor.Replicate
---@param to distributed.tensor.Shard|distributed.tensor.Replicate
---@param group distributed.ProcessGroup
---@return Tensor
function M.redistribute(tensor, from, to, group)
   local split, whole = class.isinstance(from, M.Shard), class.isinstance(to, M.Replicate)
   if split and whole then return M.move(tensor, "gather", from.dim, group) end
   if not split and not whole then return M.move(tensor, "split", to.dim, group) end
   if split and from.dim ~= to.dim then
      tensor = M.move(tensor, "gather", from.dim, group)
      return M.move(tensor, "split", to.dim, group)
   end
   return tensor
end

return M
