-- TensorDataset.lua - a dataset whose items are the rows of one or several tensors of the same
-- length.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Dataset = require "tlua.data.Dataset"

--- A dataset whose items are the rows of tensors: item i consists of row i of each tensor.
---
---     local set = torch.data.TensorDataset(torch.arange(4), torch.arange(4) * 10)
---     local x, y = set:get(2) -- positions count from 1
---     print(#set, x:item(), y:item())
---     --> 4	1	10
---@class data.TensorDataset: data.Dataset
---@field tensors Tensor[]  all of the same number of rows
---@overload fun(...: Tensor): data.TensorDataset
local TensorDataset, parent = class.class("data.TensorDataset", Dataset)

---@param ... Tensor  all with the same size of the first dimension
function TensorDataset:__init(...)
   parent.__init(self)
   local tensors = {...}
   if select("#", ...) == 0 then
      torch.raise("data.TensorDataset: expected at least one tensor, got none")
   end
   for i = 1, select("#", ...) do
      local tensor = tensors[i]
      if not torch.is_tensor(tensor) or tensor:dim() == 0 then
         args.refuse("data.TensorDataset", "argument " .. i,
            "a tensor of at least one dimension", tensor)
      end
      if tensor:size(1) ~= tensors[1]:size(1) then
         torch.raise(("data.TensorDataset: argument %d: expected %d rows as in the first, got %d")
            :format(i, tensors[1]:size(1), tensor:size(1)))
      end
   end
   self.tensors = tensors
end

function TensorDataset:__len()
   return self.tensors[1]:size(1)
end

--- Returns each tensor's row at a position.
---@param i integer
---@return Tensor ...
function TensorDataset:get(i)
   local items = {}
   for k, tensor in ipairs(self.tensors) do items[k] = tensor[i] end
   return table.unpack(items)
end

--- Returns the rows at several positions at once, for a batch.
---@param positions Tensor  (n), int64
---@return Tensor ...  copies of the rows, (n, *)
function TensorDataset:get_items(positions)
   local items = {}
   for k, tensor in ipairs(self.tensors) do
      items[k] = tensor:index_select(1, positions:to(tensor.device))
   end
   return table.unpack(items)
end

return TensorDataset
