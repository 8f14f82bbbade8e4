-- checks.lua - checks the arguments of functions: edges, batch vectors and sizes.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- Raises an error unless a value is a dense int64 tensor of one dimension.
---@param title string  the function's name, for error messages
---@param name string  the argument's name
---@param index any
function M.index(title, name, index)
   if not torch.is_tensor(index) or args.kind_of(index) or index.dtype ~= "int64"
         or index:dim() ~= 1 then
      args.refuse(title, name, "an int64 tensor of one dimension", index)
   end
end

--- Raises an error unless a value is a tensor of edges, and returns it.
---@param title string  the function's name, for error messages
---@param edge_index any
---@param name? string  the argument's name, "edge_index" by default
---@return Tensor edge_index
function M.edges(title, edge_index, name)
   if not torch.is_tensor(edge_index) or args.kind_of(edge_index) or edge_index.dtype ~= "int64"
         or edge_index:dim() ~= 2 or edge_index:size(1) ~= 2 then
      args.refuse(title, name or "edge_index", "an int64 tensor of shape (2, edges)", edge_index)
   end
   return edge_index
end

--- Raises an error unless all numbers in a tensor lie in [1, size].
---@param title string  the function's name, for error messages
---@param name string  the argument's name
---@param index Tensor  int64
---@param size integer
---@param what? string  the plural noun for the indexed things, "nodes" by default
function M.range(title, name, index, size, what)
   if index:numel() == 0 then return end
   local least, most = torch.aminmax(index)
   least, most = least:item(), most:item()
   if least >= 1 and most <= size then return end
   torch.raise(("%s: %s: expected positions from 1 to %d, the number of %s, got %d"):format(
      title, name, size, what or "nodes", least < 1 and least or most))
end

--- Returns `num_nodes` if it is given, and otherwise the greatest position in `index`.
---@param title string  the function's name, for error messages
---@param index Tensor  int64
---@param num_nodes? integer
---@return integer
function M.num_nodes(title, index, num_nodes)
   if num_nodes then
      if math.type(num_nodes) ~= "integer" or num_nodes < 0 then
         args.refuse(title, "num_nodes", "an integer of at least 0", num_nodes)
      end
      M.range(title, "edge_index", index, num_nodes)
      return num_nodes
   end
   if index:numel() == 0 then return 0 end
   local least, most = torch.aminmax(index)
   if least:item() < 1 then
      args.refuse(title, "edge_index", "positions of at least 1", least:item())
   end
   return most:item()
end

--- Raises an error unless a value is nil or a dense tensor with a row for each edge.
---@param title string  the function's name, for error messages
---@param edge_index Tensor
---@param attr any
---@param name? string  the argument's name, "edge_attr" by default
function M.edge_attr(title, edge_index, attr, name)
   if attr == nil then return end
   local edges = edge_index:size(2)
   if not torch.is_tensor(attr) or args.kind_of(attr) or attr:dim() == 0
         or attr:size(1) ~= edges then
      args.refuse(title, name or "edge_attr", ("a tensor with %d rows, one for each edge"):format(
         edges), attr)
   end
end

--- Raises an error unless a value is nil or a batch vector: a vector with the number of the graph
--- to which each of the `n` nodes belongs.
---@param title string  the function's name, for error messages
---@param batch any
---@param n integer
---@param size? integer  the number of graphs
function M.batch(title, batch, n, size)
   if batch == nil then return end
   M.index(title, "batch", batch)
   if batch:numel() ~= n then
      args.refuse(title, "batch", ("%d positions, one for each node"):format(n), batch)
   end
   if size then
      M.range(title, "batch", batch, size, "graphs")
   elseif batch:numel() > 0 and batch:min():item() < 1 then
      args.refuse(title, "batch", "numbers of graphs from 1 on", batch:min():item())
   end
end

return M
