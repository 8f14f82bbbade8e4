-- print.lua - formats a sparse tensor as text, as PyTorch does.

local V = require "tlua.sparse.value"

local M = {}

local function indented(text, by) return (text:gsub("\n([^\n])", "\n" .. (" "):rep(by) .. "%1")) end

--- Returns the text of a sparse tensor with the given components.
---@param p table
---@return string
function M.text(p)
   local rows = {}
   local _, columns = V.kind_of(p.layout)
   local function add(name, tensor)
      rows[#rows + 1] = ("%s=%s"):format(name, indented(tostring(tensor:detach()), 8 + #name))
   end
   if p.layout == "sparse_coo" then
      add("indices", p.indices)
   else
      add(columns and "ccol_indices" or "crow_indices", p.pointers)
      add(columns and "row_indices" or "col_indices", p.plain)
   end
   add("values", p.values)
   local last = ("size=(%s), nnz=%d"):format(table.concat(p.size, ", "),
      p.values:size(V.batch_dim(p) + 1))
   if p.values.device.type ~= "cpu" then
      last = ("%s, device='%s'"):format(last, tostring(p.values.device))
   end
   last = ("%s, layout=%s"):format(last, p.layout)
   if p.values.grad_fn then
      last = ("%s, grad_fn=%s"):format(last, tostring(p.values.grad_fn))
   elseif p.values.requires_grad then
      last = last .. ", requires_grad=True"
   end
   rows[#rows + 1] = last
   return ("tensor(%s)"):format(table.concat(rows, ",\n       "))
end

return M
