-- diagonals.lua - torch.sparse.spdiags.

local torch = require "tlua"
local args = require "tlua.args"
local C = require "tlua.sparse.convert"
local V = require "tlua.sparse.value"

local M = {}

local take = args.signature [[sparse.spdiags(diagonals: tensor|table, offsets: tensor|table,
   shape: integers, layout: string?)]]

local layouts <const> = {sparse_coo = true, sparse_csr = true, sparse_csc = true}

-- Returns the offsets as a list of integers.
local function list_of(who, offsets)
   if not torch.is_tensor(offsets) then offsets = torch.tensor(offsets) end
   if V.is_sparse(offsets) or offsets.dtype ~= "int64" or offsets:dim() > 1 then
      args.refuse(who, "offsets", "a list of int64", offsets)
   end
   local list, seen = offsets:reshape(-1):tolist(), {}
   for _, offset in ipairs(list) do
      if seen[offset] then
         torch.raise(("%s: offsets: expected different ones, got %d twice"):format(who, offset))
      end
      seen[offset] = true
   end
   return list
end

--- Makes a sparse matrix from diagonals. Row k of `diagonals` has the diagonal with offset
--- offsets[k]: 0 is the main diagonal, 1 the one above, -1 the one below. The diagonal's element in
--- column j of the matrix is element j of that row.
---
---     local s = torch.sparse.spdiags({{1.0, 2.0, 3.0}}, {1}, {3, 3})
---     print(s:to_dense())
---     --> tensor([[0., 2., 0.],
---     -->         [0., 0., 3.],
---     -->         [0., 0., 0.]])
---@param diagonals Tensor  (count, n) or (n)
---@param offsets Tensor|integer[]
---@param shape integer[]
---@param layout? string  "sparse_coo" (the default), "sparse_csr" or "sparse_csc"
---@return Tensor
function M.spdiags(...)
   local who <const> = "sparse.spdiags"
   local a = take(...)
   local diagonals = torch.is_tensor(a.diagonals) and a.diagonals or torch.tensor(a.diagonals)
   local layout, shape = a.layout or "sparse_coo", a.shape
   if not layouts[layout] then
      args.refuse(who, "layout", '"sparse_coo", "sparse_csr" or "sparse_csc"', layout)
   end
   if type(shape) ~= "table" or #shape ~= 2 then
      args.refuse(who, "shape", "two sizes", shape)
   end
   require "tlua.sparse.invariants".check_size(who, shape)
   if diagonals:dim() == 1 then diagonals = diagonals:unsqueeze(1) end
   local offsets = list_of(who, a.offsets)
   if V.is_sparse(diagonals) or diagonals:dim() ~= 2 or diagonals:size(1) ~= #offsets then
      args.refuse(who, "diagonals", ("a dense tensor of %d rows, one for each offset")
         :format(#offsets), diagonals)
   end
   local rows, columns, values, device = {}, {}, {}, diagonals.device
   for k, offset in ipairs(offsets) do
      local first = math.max(1, 1 + offset)
      local last = math.min(diagonals:size(2), shape[2], shape[1] + offset)
      if last >= first then
         local column = torch.arange(first, last + 1, {device = device})
         rows[#rows + 1], columns[#columns + 1] = column - offset, column
         values[#values + 1] = diagonals[k]:narrow(1, first, last - first + 1)
      end
   end
   if #rows == 0 then
      rows[1], columns[1] = torch.zeros(0, {dtype = "int64", device = device}), torch.zeros(0,
         {dtype = "int64", device = device})
      values[1] = diagonals:reshape(-1):narrow(1, 1, 0)
   end
   local coo = {
      layout = "sparse_coo", size = {shape[1], shape[2]}, values = torch.cat(values),
      indices = torch.stack {torch.cat(rows), torch.cat(columns)}, coalesced = #rows == 1,
   }
   return V.new(C.to_layout(who, coo, layout))
end

for name, fn in pairs(M) do M[name] = args.named("sparse." .. name, fn) end

return M
