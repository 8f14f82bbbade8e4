-- methods.lua - methods of torch.Tensor for sparse tensors; dense tensors are refused.

local args = require "tlua.args"
local checked = require "tlua.checked"
local V = require "tlua.sparse.value"

local M = {}

for name in ([[coalesce is_coalesced indices values crow_indices col_indices ccol_indices
   row_indices sparse_dim dense_dim _nnz _indices _values]]):gmatch "%S+" do
   M[name] = function(x)
      if not V.is_sparse(x) then args.refuse(name, "self", "a sparse tensor", x) end
      return V.methods[name](x)
   end
   checked.functions(M, "", name .. "(self: tensor)")
end

for _, name in ipairs {"sparse_resize_", "sparse_resize_and_clear_"} do
   M[name] = function(x, ...)
      if not V.is_sparse(x) then args.refuse(name, "self", "a sparse tensor", x) end
      return V.methods[name](x, ...)
   end
   checked.functions(M, "",
      name .. "(self: tensor, size: integers, sparse_dim: integer, dense_dim: integer)")
end

return M
