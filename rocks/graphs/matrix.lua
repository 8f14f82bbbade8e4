-- matrix.lua - lets layers accept a sparse tensor, such as data.adj_t, in place of edge_index. Row
-- i of the tensor has the sources of the edges that end at node i.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- Maps a sparse tensor to its edges. The values do not refer to the tensor, so that it and they can
-- be collected.
local known <const> = setmetatable({}, {__mode = "k"})

--- Returns whether a value is a sparse tensor of two dimensions.
---@param value any
---@return boolean
function M.is(value)
   return torch.is_tensor(value) and value.layout ~= "strided" and value:dim() == 2
end

-- Returns two vectors: the row number and the column number of each element of a matrix.
local function positions(title, matrix)
   if matrix.layout == "sparse_coo" then
      local indices = matrix:coalesce():indices()
      return indices[1], indices[2]
   elseif matrix.layout ~= "sparse_csr" then
      args.refuse(title, "edge_index", "edges, or a sparse_csr or sparse_coo tensor", matrix)
   end
   local pointers = matrix:crow_indices()
   local n = pointers:numel() - 1
   local counts = pointers:narrow(1, 2, n) - pointers:narrow(1, 1, n)
   local rows = torch.arange(1, n + 1, {device = pointers.device}):repeat_interleave(counts)
   return rows, matrix:col_indices()
end

--- Returns the edge_index of a matrix and its values. The values are nil if all of them are 1.
---@param title string  the function's name, for error messages
---@param matrix Tensor
---@return Tensor edge_index
---@return Tensor? weight
function M.edges(title, matrix)
   local entry = known[matrix]
   if not entry then
      local rows, columns = positions(title, matrix)
      entry = {edge_index = torch.stack {columns, rows}}
      known[matrix] = entry
   end
   local values = matrix.layout == "sparse_coo" and matrix:coalesce():values() or matrix:values()
   if entry.version ~= values._version then
      entry.version = values._version
      entry.plain = not values.requires_grad and values:eq(1):all():item()
   end
   return entry.edge_index, not entry.plain and values or nil
end

--- Declares a function as args.signature does. In addition, the function accepts a sparse matrix as
--- its argument edge_index. If it has an argument edge_weight that the caller does not give, this
--- argument gets the matrix's values.
---@param declaration string
---@return fun(...): table
function M.signature(declaration)
   local take, title = args.signature(declaration), declaration:match "^[%w_.]+"
   local weighs = declaration:find "edge_weight:" ~= nil
   return function(...)
      local a = take(...)
      if M.is(a.edge_index) then
         local edge_index, weight = M.edges(title, a.edge_index)
         a.edge_index = edge_index
         if weighs and a.edge_weight == nil then a.edge_weight = weight end
      end
      return a
   end
end

return M
