-- nn.lua - torch.distributed.nn: differentiable collectives. Each returns its result; every rank
-- must also run the backward pass.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local dist = torch.distributed

local M = {}

local Function = torch.autograd.Function

local function define(name)
   return class.class("distributed.nn." .. name, Function)
end

-- Reduces a tensor over all ranks. Its gradient is the same reduction of the ranks' gradients.
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

-- Returns op in lower case; raises an error unless it is "sum" or "avg".
local function check_op(title, op)
   op = op:lower()
   if op ~= "sum" and op ~= "avg" then args.refuse(title, "op", "\"sum\" or \"avg\"", op) end
   return op
end

local take_all_reduce = args.signature
   "distributed.nn.all_reduce(tensor: tensor, op: string = 'sum', group: object?)"

--- Returns the sum of all ranks' tensors, or their mean with op = "avg".
---@param tensor Tensor
---@param options? {op: string, group: distributed.ProcessGroup}
---@return Tensor
function M.all_reduce(...)
   local a = take_all_reduce(...)
   return AllReduce:apply(a.tensor, check_op("distributed.nn.all_reduce", a.op), a.group)
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

local take_broadcast = args.signature
   "distributed.nn.broadcast(tensor: tensor, src: count, group: object?)"

--- Returns rank src's tensor. On rank src its gradient is the sum of all ranks' gradients.
---@param tensor Tensor
---@param src integer
---@param group? distributed.ProcessGroup
---@return Tensor
function M.broadcast(...)
   local a = take_broadcast(...)
   return Broadcast:apply(a.tensor, a.src, a.group)
end

local Reduce = define "Reduce"

function Reduce.forward(ctx, tensor, dst, op, group)
   ctx.dst, ctx.op, ctx.group = dst, op, group
   local result = tensor:clone()
   dist.reduce(result, dst, op, group)
   return result
end

function Reduce.backward(ctx, grad)
   grad = Broadcast:apply(grad, ctx.dst, ctx.group)
   return ctx.op == "avg" and grad / dist.get_world_size(ctx.group) or grad
end

local take_reduce = args.signature [[distributed.nn.reduce(tensor: tensor, dst: count,
   op: string = 'sum', group: object?)]]

--- On rank dst, returns the sum of all ranks' tensors, or their mean with op = "avg". All other
--- ranks get a copy of their own tensor. On all ranks the gradient is the gradient of rank dst's
--- result.
---@param tensor Tensor
---@param dst integer
---@param options? {op: string, group: distributed.ProcessGroup}
---@return Tensor
function M.reduce(...)
   local a = take_reduce(...)
   return Reduce:apply(a.tensor, a.dst, check_op("distributed.nn.reduce", a.op), a.group)
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

--- Returns the tensors (n, ...) of all N ranks as one tensor (N * n, ...).
---@param tensor Tensor
---@param group? distributed.ProcessGroup
---@return Tensor
function M.all_gather(tensor, group)
   return AllGather:apply(tensor, group)
end

--- Sums all ranks' tensors (N * n, ...) and returns this rank's part (n, ...) of the sum.
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

--- Sends one part of the input's rows to each rank. Returns one tensor with the rows that this rank
--- has received from all ranks, in rank order. The sizes of the parts are as in
--- torch.distributed.all_to_all_single.
---@param input Tensor
---@param options? table  output_split_sizes, input_split_sizes, group
---@return Tensor
function M.all_to_all_single(...)
   local a = take_exchange(...)
   return AllToAll:apply(a.input, a.input_split_sizes, a.output_split_sizes, a.group)
end

-- Lists -------------------------------------------------------------------------------------------

-- Checks that a list has one tensor for each rank of the group.
local function check_list(title, what, list, group)
   local n = dist.get_world_size(group)
   if #list ~= n then args.refuse(title, what, ("a list of %d tensors"):format(n), list) end
   for i, tensor in ipairs(list) do
      if not torch.is_tensor(tensor) then
         args.refuse(title, ("%s[%d]"):format(what, i), "a tensor", tensor)
      end
   end
end

local Gather, Scatter = define "Gather", define "Scatter"

function Gather.forward(ctx, tensor, dst, group)
   ctx.dst, ctx.group = dst, group
   local list = {}
   for i = 1, dist.get_world_size(group) do list[i] = torch.zeros_like(tensor) end
   dist.gather(tensor, dist.get_rank() == dst and list or nil, dst, {group = group})
   return table.unpack(list)
end

function Gather.backward(ctx, ...)
   return Scatter:apply(ctx.dst, ctx.group, ...)
end

function Scatter.forward(ctx, src, group, ...)
   ctx.src, ctx.group = src, group
   local list = {...}
   local result = torch.empty_like(list[1])
   dist.scatter(result, dist.get_rank() == src and list or nil, src, {group = group})
   return result
end

function Scatter.backward(ctx, grad)
   return nil, nil, Gather:apply(grad, ctx.src, ctx.group)
end

local take_gather = args.signature
   "distributed.nn.gather(tensor: tensor, dst: count = 0, group: object?)"

--- On rank dst, returns the tensors of all ranks. All other ranks get as many tensors of zeros. All
--- tensors have the same shape.
---@param tensor Tensor
---@param dst? integer
---@param options? {group: distributed.ProcessGroup}
---@return Tensor[]
function M.gather(...)
   local a = take_gather(...)
   return {Gather:apply(a.tensor, a.dst, a.group)}
end

local take_scatter = args.signature
   "distributed.nn.scatter(tensors: table, src: count = 0, group: object?)"

--- Returns the tensor for this rank from rank src's list. On the other ranks, the argument
--- `tensors` only determines the shape, which is the same for all ranks.
---@param tensors Tensor[]
---@param src? integer
---@param options? {group: distributed.ProcessGroup}
---@return Tensor
function M.scatter(...)
   local a = take_scatter(...)
   check_list("distributed.nn.scatter", "tensors", a.tensors, a.group)
   return Scatter:apply(a.src, a.group, table.unpack(a.tensors))
end

local Exchange = define "AllToAllList"

function Exchange.forward(ctx, shapes, group, ...)
   local inputs, outputs = {...}, {}
   ctx.shapes, ctx.group = {}, group
   for i, tensor in ipairs(inputs) do
      ctx.shapes[i], outputs[i] = tensor.shape, tensor:new_empty(shapes[i])
   end
   dist.all_to_all(outputs, inputs, {group = group})
   return table.unpack(outputs)
end

function Exchange.backward(ctx, ...)
   return nil, nil, Exchange:apply(ctx.shapes, ctx.group, ...)
end

local take_lists = args.signature [[distributed.nn.all_to_all(output_tensor_list: table,
   input_tensor_list: table, group: object?)]]

--- Sends the i-th input to rank i - 1, and returns the tensors that all ranks have for this rank.
--- The outputs only determine the shapes, and are not changed.
---@param output_tensor_list Tensor[]
---@param input_tensor_list Tensor[]
---@param options? {group: distributed.ProcessGroup}
---@return Tensor[]
function M.all_to_all(...)
   local a = take_lists(...)
   local title, shapes = "distributed.nn.all_to_all", {}
   check_list(title, "output_tensor_list", a.output_tensor_list, a.group)
   check_list(title, "input_tensor_list", a.input_tensor_list, a.group)
   for i, tensor in ipairs(a.output_tensor_list) do shapes[i] = tensor.shape end
   return {Exchange:apply(shapes, a.group, table.unpack(a.input_tensor_list))}
end

return M
