-- nn.lua - torch.distributed.nn: collectives that gradients go through. Each returns its result;
-- every rank must take part in the backward pass, too.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local dist = torch.distributed

local M = {}

local Function = torch.autograd.Function

local function define(name)
   return class.class("distributed.nn." .. name, Function)
end

-- The sum of what all ranks hold: its gradient is the sum of all gradients.
local AllReduce = define "AllReduce"

function AllReduce.forward(ctx, tensor, op, group)
   ctx.op, ctx.group = op, group
   local result = tensor:clone()
   dist.all_reduce(result, op, group)
   return result
end

function AllReduce.backward(ctx, grad)
   return M.all_reduce(grad, {op = ctx.op, group = ctx.group})
end

local take_reduce = args.signature
   "distributed.nn.all_reduce(tensor: tensor, op: string = 'sum', group: object?)"

--- The sum (or "avg") of the tensors of all ranks.
---@param tensor Tensor
---@param options? {op: string, group: distributed.ProcessGroup}
---@return Tensor
function M.all_reduce(...)
   local a = take_reduce(...)
   a.op = a.op:lower()
   if a.op ~= "sum" and a.op ~= "avg" then
      args.refuse("distributed.nn.all_reduce", "op", "\"sum\" or \"avg\"", a.op)
   end
   return AllReduce:apply(a.tensor, a.op, a.group)
end

local Broadcast = define "Broadcast"

function Broadcast.forward(ctx, tensor, src, group)
   ctx.src, ctx.group = src, group
   local result = tensor:clone()
   dist.broadcast(result, src, group)
   return result
end

function Broadcast.backward(ctx, grad)
   grad = grad:clone()
   dist.reduce(grad, ctx.src, "sum", ctx.group)
   if dist.get_rank() ~= ctx.src then grad:zero_() end
   return grad
end

--- Rank src's tensor; its gradient is the sum of all gradients, there.
---@param tensor Tensor
---@param src integer
---@param group? distributed.ProcessGroup
---@return Tensor
function M.broadcast(tensor, src, group)
   return Broadcast:apply(tensor, src, group)
end

local AllGather, ReduceScatter

AllGather = define "AllGather"

function AllGather.forward(ctx, tensor, group)
   ctx.group = group
   local n = dist.get_world_size(group)
   local shape = table.move(tensor.shape, 1, tensor:dim(), 1, {})
   shape[1] = shape[1] * n
   local result = tensor:new_empty(shape)
   dist.all_gather_into_tensor(result, tensor, group)
   return result
end

function AllGather.backward(ctx, grad)
   return ReduceScatter:apply(grad, ctx.group)
end

ReduceScatter = define "ReduceScatter"

function ReduceScatter.forward(ctx, tensor, group)
   ctx.group = group
   local n = dist.get_world_size(group)
   local shape = table.move(tensor.shape, 1, tensor:dim(), 1, {})
   shape[1] = shape[1] // n
   local result = tensor:new_empty(shape)
   dist.reduce_scatter_tensor(result, tensor, "sum", group)
   return result
end

function ReduceScatter.backward(ctx, grad)
   return AllGather:apply(grad, ctx.group)
end

--- The tensors (n, ...) of all N ranks as one (N * n, ...).
---@param tensor Tensor
---@param group? distributed.ProcessGroup
---@return Tensor
function M.all_gather(tensor, group)
   return AllGather:apply(tensor, group)
end

--- The sum of all ranks' tensors (N * n, ...), of which each rank gets its part (n, ...).
---@param tensor Tensor
---@param group? distributed.ProcessGroup
---@return Tensor
function M.reduce_scatter(tensor, group)
   return ReduceScatter:apply(tensor, group)
end

local AllToAll = define "AllToAll"

function AllToAll.forward(ctx, tensor, input_sizes, output_sizes, group)
   ctx.input_sizes, ctx.output_sizes, ctx.group = input_sizes, output_sizes, group
   local rows = output_sizes and 0 or tensor:size(1)
   for _, n in ipairs(output_sizes or {}) do rows = rows + n end
   local shape = table.move(tensor.shape, 1, tensor:dim(), 1, {})
   shape[1] = rows
   local result = tensor:new_empty(shape)
   dist.all_to_all_single(result, tensor, {
      output_split_sizes = output_sizes, input_split_sizes = input_sizes, group = group,
   })
   return result
end

function AllToAll.backward(ctx, grad)
   return AllToAll:apply(grad, ctx.output_sizes, ctx.input_sizes, ctx.group)
end

local take_exchange = args.signature [[distributed.nn.all_to_all_single(input: tensor,
   output_split_sizes: table?, input_split_sizes: table?, group: object?)]]

--- What all ranks have for this one, in their order, as rows of one tensor; see all_to_all_single.
---@param input Tensor
---@param options? table  output_split_sizes, input_split_sizes, group
---@return Tensor
function M.all_to_all_single(...)
   local a = take_exchange(...)
   return AllToAll:apply(a.input, a.input_split_sizes, a.output_split_sizes, a.group)
end

return M
