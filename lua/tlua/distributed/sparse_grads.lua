-- sparse_grads.lua - averages the sparse gradients of embeddings over ranks: each rank gets the
-- rows of all ranks.

local torch = require "tlua"
local class = require "tlua.class"

local M = {}

--- Returns the parameters of a model whose gradients are sparse: the weights of its nn.Embedding
--- and nn.EmbeddingBag with the option sparse.
---@param module nn.Module
---@return table<Tensor, boolean>
function M.find(module)
   local found = {}
   local nn = torch.nn
   for _, part in ipairs(module:modules()) do
      local is_table = class.isinstance(part, nn.Embedding)
         or class.isinstance(part, nn.EmbeddingBag)
      if is_table and part.sparse then found[part.weight] = true end
   end
   return found
end

-- Gathers a tensor (n, ...) from each rank. `counts` lists the sizes n, which may differ between
-- ranks.
local function gather(group, mine, counts)
   local list = {}
   for r, n in ipairs(counts) do
      local size = mine.shape
      size[1] = n
      list[r] = torch.empty(size, {dtype = mine.dtype, device = mine.device})
   end
   group:run("all_gather", {inputs = mine:contiguous(), outputs = list})
   return torch.cat(list)
end

--- Replaces a parameter's gradient by the mean of all ranks' gradients. All ranks must call the
--- function.
---@param group distributed.ProcessGroup
---@param parameter Tensor
---@return boolean any  whether a gradient of any rank has rows
function M.average(group, parameter)
   local grad, world = parameter.grad, #group.ranks
   if grad and not grad.is_sparse then
      torch.raise(("DistributedDataParallel: a parameter of shape (%s) has a dense gradient, but "
         .. "its nn.Embedding is sparse; is it used elsewhere?")
         :format(table.concat(parameter.shape, ", ")))
   end
   local size = table.move(parameter.shape, 1, parameter:dim(), 1, {})
   local rows, values
   if grad then
      grad = grad:coalesce()
      rows, values = grad:indices()[1], grad:values()
   else
      local none = table.move(size, 1, #size, 1, {})
      none[1] = 0
      rows = torch.zeros(0, {dtype = "int64", device = parameter.device})
      values = torch.zeros(none, {dtype = parameter.dtype, device = parameter.device})
   end
   local counts = {}
   for r = 1, world do counts[r] = torch.zeros(1, {dtype = "int64"}) end
   group:run("all_gather", {inputs = torch.tensor {rows:numel()}, outputs = counts})
   local total = 0
   for r = 1, world do
      counts[r] = counts[r]:item()
      total = total + counts[r]
   end
   if total == 0 then return false end
   rows, values = gather(group, rows, counts), gather(group, values, counts)
   parameter.grad = torch.sparse_coo_tensor(rows:unsqueeze(1), values / world, size,
      {check_invariants = false}):coalesce()
   return true
end

return M
