-- collectives.lua - collective calls of a group. Every rank makes the same calls in the same order.
-- With `async_op` a call returns a Work at once; `work:wait()` waits for the call to end, and until
-- then the call's tensors must not be changed. `is_completed()` and `exception()` query the Work.
--
-- Tensors may be on any device and have any strides; all ranks must pass the same dtype. float16
-- and bfloat16 are summed in float32. All ranks get bitwise equal results.

local torch = require "tlua"
local args = require "tlua.args"
local groups = require "tlua.distributed.group"

local M = {}

--- Constants for the reductions that combine all ranks' values into one. Functions also accept a
--- reduction's name, such as "sum".
---@names distributed.ReduceOp
M.ReduceOp = {
   SUM = "sum", AVG = "avg", PRODUCT = "product", MIN = "min", MAX = "max",
   BAND = "band", BOR = "bor", BXOR = "bxor",
}

-- Returns a function that parses the arguments of a collective function. It returns a table from
-- names to arguments, and the group; or nil in place of the group if this rank is not a member.
local function taker(name, list)
   local take = args.signature(("%s(%s, group: object?, async_op: boolean = false)"):format(name,
      list))
   return function(...)
      local a = take(...)
      return a, groups.resolve(name, a.group)
   end
end

-- Makes a collective call of a group. Returns a Work if the argument async_op is true, otherwise
-- nil.
local function run(group, a, kind, inputs, outputs, op, root)
   local work = group:run(kind, {
      inputs = inputs, outputs = outputs, op = op and op:lower(), root = root,
      async_op = a.async_op,
   })
   return a.async_op and work or nil
end

-- Checks that n divides the size of a tensor's first dimension. Returns n views of equal parts of
-- this dimension.
local function parts(name, what, tensor, n)
   tensor = tensor:detach()
   if tensor:dim() == 0 or tensor:size(1) % n ~= 0 then
      torch.raise(("%s: %s: expected a first dimension that %d divides, got shape (%s)"):format(
         name, what, n, table.concat(tensor.shape, ", ")))
   end
   local rows, list = tensor:size(1) // n, {}
   for i = 1, n do list[i] = tensor:narrow(1, (i - 1) * rows + 1, rows) end
   return list
end

-- Splits a tensor into parts of the given sizes, or of equal size if none are given. Returns views
-- of the parts.
local function split(name, what, tensor, sizes, n)
   if not sizes then return parts(name, what, tensor, n) end
   if type(sizes) ~= "table" or #sizes ~= n then
      args.refuse(name, what .. "_split_sizes", ("a list of %d sizes"):format(n), sizes)
   end
   tensor = tensor:detach()
   local at, list = 1, {}
   for i, size in ipairs(sizes) do
      if size < 0 or at + size - 1 > tensor:size(1) then
         torch.raise(("%s: %s_split_sizes: more than the %d rows that there are"):format(
            name, what, tensor:size(1)))
      end
      list[i] = tensor:narrow(1, at, size)
      at = at + size
   end
   if at - 1 ~= tensor:size(1) then
      torch.raise(("%s: %s_split_sizes: the sum is %d, but there are %d rows"):format(
         name, what, at - 1, tensor:size(1)))
   end
   return list
end

local take_broadcast = taker("broadcast", "tensor: tensor, src: count")

--- Copies rank src's tensor to all ranks.
---@param tensor Tensor
---@param src integer  a rank of the world
---@param options? {group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.broadcast(...)
   local a, group = take_broadcast(...)
   if not group then return nil end
   local root = groups.position("broadcast", "src", group, a.src)
   return run(group, a, "broadcast", nil, a.tensor, nil, root)
end

local take_all_reduce = taker("all_reduce", "tensor: tensor, op: string = 'sum'")

--- Replaces the tensor on every rank by the reduction of all ranks' tensors: their sum, unless op
--- names another reduction.
---@param tensor Tensor
---@param op? string  a reduction of ReduceOp
---@param options? {op: string, group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.all_reduce(...)
   local a, group = take_all_reduce(...)
   return group and run(group, a, "all_reduce", nil, a.tensor, a.op)
end

local take_reduce = taker("reduce", "tensor: tensor, dst: count, op: string = 'sum'")

--- Replaces the tensor on rank dst by the reduction of all ranks' tensors: their sum, unless op
--- names another reduction. The other ranks keep their tensors.
---@param tensor Tensor
---@param dst integer
---@param options? {op: string, group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.reduce(...)
   local a, group = take_reduce(...)
   if not group then return nil end
   local root = groups.position("reduce", "dst", group, a.dst)
   return run(group, a, "reduce", nil, a.tensor, a.op, root)
end

local take_all_gather = taker("all_gather", "tensor_list: table, tensor: tensor")

--- Fills the list with the tensors of all ranks. The list's i-th tensor must have the size of the
--- tensor of rank i - 1.
---@param tensor_list Tensor[]
---@param tensor Tensor
---@param options? {group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.all_gather(...)
   local a, group = take_all_gather(...)
   return group and run(group, a, "all_gather", a.tensor, a.tensor_list)
end

local take_into = taker("all_gather_into_tensor",
   "output_tensor: tensor, input_tensor: tensor")

--- Fills a tensor (N * n, ...) or (N, n, ...) with the tensors (n, ...) of all N ranks.
---@param output_tensor Tensor
---@param input_tensor Tensor
---@param options? {group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.all_gather_into_tensor(...)
   local a, group = take_into(...)
   if not group then return nil end
   local list = parts("all_gather_into_tensor", "output_tensor", a.output_tensor, #group.ranks)
   return run(group, a, "all_gather", a.input_tensor, list)
end

--- Another name of all_gather_into_tensor, as in newer versions of PyTorch.
M.all_gather_single = M.all_gather_into_tensor

local take_gather = taker("gather", "tensor: tensor, gather_list: table?, dst: count = 0")

--- Fills rank dst's list with the tensors of all ranks. The other ranks pass no list.
---@param tensor Tensor
---@param gather_list? Tensor[]
---@param dst? integer
---@param options? {group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.gather(...)
   local a, group = take_gather(...)
   if not group then return nil end
   local root = groups.position("gather", "dst", group, a.dst)
   return run(group, a, "gather", a.tensor, a.gather_list, nil, root)
end

local take_gather_single = taker("gather_single",
   "input: tensor, output: tensor?, dst: count = 0")

--- Fills rank dst's tensor (N * n, ...) or (N, n, ...) with the tensors (n, ...) of all N ranks.
--- The other ranks pass no output.
---@param input Tensor
---@param output? Tensor
---@param dst? integer
---@param options? {group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.gather_single(...)
   local a, group = take_gather_single(...)
   if not group then return nil end
   local root = groups.position("gather_single", "dst", group, a.dst)
   local list = a.output and parts("gather_single", "output", a.output, #group.ranks)
   return run(group, a, "gather", a.input, list, nil, root)
end

local take_scatter = taker("scatter", "tensor: tensor, scatter_list: table?, src: count = 0")

--- Fills each rank's tensor with a tensor of rank src's list. The other ranks pass no list.
---@param tensor Tensor
---@param scatter_list? Tensor[]
---@param src? integer
---@param options? {group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.scatter(...)
   local a, group = take_scatter(...)
   if not group then return nil end
   local root = groups.position("scatter", "src", group, a.src)
   return run(group, a, "scatter", a.scatter_list, a.tensor, nil, root)
end

local take_reduce_scatter = taker("reduce_scatter",
   "output: tensor, input_list: table, op: string = 'sum'")

--- Reduces the i-th tensors of all lists into the output of rank i - 1.
---@param output Tensor
---@param input_list Tensor[]
---@param op? string
---@param options? {op: string, group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.reduce_scatter(...)
   local a, group = take_reduce_scatter(...)
   return group and run(group, a, "reduce_scatter", a.input_list, a.output, a.op)
end

local take_reduce_tensor = taker("reduce_scatter_tensor",
   "output: tensor, input: tensor, op: string = 'sum'")

--- Reduces as reduce_scatter does. The inputs are a tensor's N equal parts along dimension 1.
---@param output Tensor
---@param input Tensor
---@param op? string
---@param options? {op: string, group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.reduce_scatter_tensor(...)
   local a, group = take_reduce_tensor(...)
   if not group then return nil end
   local list = parts("reduce_scatter_tensor", "input", a.input, #group.ranks)
   return run(group, a, "reduce_scatter", list, a.output, a.op)
end

--- Another name of reduce_scatter_tensor, as in newer versions of PyTorch.
M.reduce_scatter_single = M.reduce_scatter_tensor

local take_all_to_all = taker("all_to_all",
   "output_tensor_list: table, input_tensor_list: table")

--- Sends the i-th input to rank i - 1, and fills the i-th output with the input that rank i - 1 has
--- for this rank.
---@param output_tensor_list Tensor[]
---@param input_tensor_list Tensor[]
---@param options? {group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.all_to_all(...)
   local a, group = take_all_to_all(...)
   return group and run(group, a, "all_to_all", a.input_tensor_list, a.output_tensor_list)
end

local take_single = taker("all_to_all_single", [[output: tensor, input: tensor,
   output_split_sizes: table?, input_split_sizes: table?]])

--- Exchanges parts as all_to_all does. The inputs are parts of `input` along its first dimension,
--- and the outputs are parts of `output`. Parts have equal sizes unless sizes are given.
---@param output Tensor
---@param input Tensor
---@param output_split_sizes? integer[]
---@param input_split_sizes? integer[]
---@param options? {group: distributed.ProcessGroup, async_op: boolean}
---@return distributed.Work?
function M.all_to_all_single(...)
   local a, group = take_single(...)
   if not group then return nil end
   local n = #group.ranks
   return run(group, a, "all_to_all",
      split("all_to_all_single", "input", a.input, a.input_split_sizes, n),
      split("all_to_all_single", "output", a.output, a.output_split_sizes, n))
end

local take_gathered = taker("all_gather_coalesced",
   "output_tensor_lists: table, input_tensor_list: table")

--- Gathers many tensors of one dtype in one call. The i-th list of outputs is filled with the i-th
--- inputs of all ranks, which must have the same shape on all ranks.
---@param output_tensor_lists Tensor[][]
---@param input_tensor_list Tensor[]
---@param options? {group: distributed.ProcessGroup, async_op: boolean}  async_op has no effect: the
--- call has ended when the function returns
function M.all_gather_coalesced(...)
   local a, group = take_gathered(...)
   if not group or #a.input_tensor_list == 0 then return end
   local inputs, lists, n = a.input_tensor_list, a.output_tensor_lists, #group.ranks
   for i = 1, #inputs do
      if type(lists[i]) ~= "table" or #lists[i] ~= n then
         args.refuse("all_gather_coalesced", ("output_tensor_lists[%d]"):format(i),
            ("a list of %d tensors"):format(n), lists[i])
      end
   end
   torch.no_grad(function()
      local flat, whole = {}, {}
      for i, tensor in ipairs(inputs) do flat[i] = tensor:detach():reshape(-1) end
      local mine = torch.cat(flat)
      for r = 1, n do whole[r] = torch.empty_like(mine) end
      a.async_op = false
      run(group, a, "all_gather", mine, whole)
      for r = 1, n do
         local at = 1
         for i, tensor in ipairs(inputs) do
            lists[i][r]:detach():copy_(whole[r]:narrow(1, at, tensor:numel()):view(tensor.shape))
            at = at + tensor:numel()
         end
      end
   end)
end

local take_coalesced = taker("all_reduce_coalesced", "tensors: table, op: string = 'sum'")

--- Reduces many tensors of one dtype over all ranks in one call.
---@param tensors Tensor[]
---@param op? string
---@param options? {op: string, group: distributed.ProcessGroup, async_op: boolean}  async_op has no
--- effect: the call has ended when the function returns
function M.all_reduce_coalesced(...)
   local a, group = take_coalesced(...)
   if not group or #a.tensors == 0 then return end
   torch.no_grad(function()
      local flat, at = {}, 1
      for i, tensor in ipairs(a.tensors) do flat[i] = tensor:detach():reshape(-1) end
      local whole = torch.cat(flat)
      a.async_op = false
      run(group, a, "all_reduce", nil, whole, a.op)
      for _, tensor in ipairs(a.tensors) do
         tensor:detach():copy_(whole:narrow(1, at, tensor:numel()):view(tensor.shape))
         at = at + tensor:numel()
      end
   end)
end

return M
