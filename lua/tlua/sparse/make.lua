-- make.lua - constructors of sparse tensors.

local torch = require "tlua"
local args = require "tlua.args"
local invariants = require "tlua.sparse.invariants"
local V = require "tlua.sparse.value"

local M = {}

local options <const> = [[, size: integers?, dtype: string?, device: device?,
   requires_grad: boolean = false, check_invariants: boolean?)]]

-- Converts an argument, which is a tensor or a list, to a tensor.
local function to_tensor(who, what, value, positions, device, dtype)
   if V.is_sparse(value) then args.refuse(who, what, "a dense tensor", value) end
   if not torch.is_tensor(value) then
      local fits, made = pcall(torch.tensor, value, {dtype = dtype})
      if not fits then args.refuse(who, what, "a tensor or a list of numbers", value) end
      value = made
   end
   if positions and value:numel() == 0 and value.dtype == "float32" then
      value = value:to "int64"
   end
   return device and value:to(device) or value
end

-- Converts the argument `values` to the dtype and the device that the options request, and to a
-- leaf if the option requires_grad is set.
local function values_of(who, a)
   local values = to_tensor(who, "values", a.values, false, a.device, a.dtype)
   if a.dtype then values = values:to(a.dtype) end
   if a.requires_grad then return values:detach():requires_grad_() end
   -- A view of values that require a gradient is no leaf, so neither is the sparse tensor.
   return values.requires_grad and values:view(values.shape) or values
end

local function same_device(who, name, positions, values)
   if tostring(positions.device) == tostring(values.device) then return end
   torch.raise(("%s: expected all tensors on one device, got %s on %s and values on %s"):format(who,
      name, positions.device, values.device))
end

local take_coo = args.signature("sparse_coo_tensor(indices: tensor|table?, values: tensor|table?"
   .. options:gsub("%)$", ", is_coalesced: boolean?)"))

-- Returns the smallest size that contains all positions.
local function infer_size(indices, values)
   local size = {}
   for d = 1, indices:size(1) do
      size[d] = indices:size(2) > 0 and indices[d]:max():item() or 0
   end
   for d = 2, values:dim() do size[#size + 1] = values:size(d) end
   return size
end

local function check_coo(who, p, a)
   local indices, values, size = p.indices, p.values, p.size
   invariants.check_size(who, size)
   local sparse_dim = indices:size(1)
   if #size ~= sparse_dim + values:dim() - 1 then
      torch.raise(("%s: size: expected %d sizes, for %d rows of indices and %d further dimensions "
         .. "of values, got %s"):format(who, sparse_dim + values:dim() - 1, sparse_dim,
         values:dim() - 1, V.shape_text(size)))
   end
   for d = 2, values:dim() do
      if values:size(d) ~= size[sparse_dim + d - 1] then
         torch.raise(("%s: values: expected shape %s, got %s"):format(who,
            V.shape_text {indices:size(2), table.unpack(size, sparse_dim + 1)},
            V.shape_text(values.shape)))
      end
   end
   if invariants.wanted(a.check_invariants, values) then invariants.check_coo(who, p) end
end

-- Makes a tensor without elements, for the call sparse_coo_tensor(nil, nil, size).
local function empty(who, a)
   if not a.size then torch.raise(who .. ": indices are missing; expected a tensor or a list") end
   local size = type(a.size) == "table" and a.size or {a.size}
   invariants.check_size(who, size)
   local values = torch.zeros(0, {dtype = a.dtype, device = a.device,
      requires_grad = a.requires_grad})
   local indices = torch.zeros(#size, 0, {dtype = "int64", device = a.device})
   return V.coo(indices, values, size, true)
end

--- Makes a tensor of layout sparse_coo: values (nnz, ...) at positions (sparse_dim, nnz), which
--- count from 1; values at equal positions add up. Values with further dimensions make a tensor
--- whose last dimensions are dense. By default the size is the smallest that contains all
--- positions. With is_coalesced the positions must ascend and differ.
---
---     local positions = {{1, 2, 2}, {3, 1, 3}} -- (1, 3), (2, 1) and (2, 3)
---     local s = torch.sparse_coo_tensor(positions, {3.0, 4.0, 5.0}, {2, 3})
---     print(s:to_dense())
---     --> tensor([[0., 0., 3.],
---     -->         [4., 0., 5.]])
---@param indices Tensor|integer[][]?
---@param values Tensor|number[]?
---@param size? integer[]
---@param options? {dtype: string, device: string, requires_grad: boolean,
--- check_invariants: boolean, is_coalesced: boolean}
---@return Tensor
function M.sparse_coo_tensor(...)
   local a = take_coo(...)
   local who <const> = "sparse_coo_tensor"
   if a.indices == nil then return empty(who, a) end
   if a.values == nil then
      torch.raise(who .. ": values are missing; expected a tensor or a list")
   end
   local values = values_of(who, a)
   local indices = to_tensor(who, "indices", a.indices, true, a.device)
   if indices:dim() == 1 and indices:numel() == 0 and values:dim() > 0 then
      indices = indices:reshape(0, values:size(1))
   end
   invariants.check_positions(who, "indices", indices, 2)
   indices = indices:detach():to "int64"
   if values:dim() == 0 and indices:size(2) == 1 then values = values:reshape(1) end
   if values:dim() == 0 or values:size(1) ~= indices:size(2) then
      torch.raise(("%s: values: expected %d, one for each column of indices, got %s"):format(who,
         indices:size(2), args.describe(values)))
   end
   same_device(who, "indices", indices, values)
   local size = a.size and (type(a.size) == "table" and a.size or {a.size})
      or infer_size(indices, values)
   local p = {
      layout = who:match "^sparse_coo", size = table.move(size, 1, #size, 1, {}), indices = indices,
      values = values, coalesced = a.is_coalesced or false,
   }
   check_coo(who, p, a)
   return V.new(p)
end

-- Compressed layouts ------------------------------------------------------------------------------

local names_of <const> = {
   sparse_csr = {"crow_indices", "col_indices"}, sparse_bsr = {"crow_indices", "col_indices"},
   sparse_csc = {"ccol_indices", "row_indices"}, sparse_bsc = {"ccol_indices", "row_indices"},
}

-- Returns the smallest size that a compressed tensor with these components can have.
local function compressed_size(p, columns)
   local batch, block = V.batch_dim(p), V.block_of(p)
   local lines = p.pointers:size(-1) - 1
   local across = p.plain:numel() > 0 and p.plain:max():item() or 0
   local rows, cols = columns and across or lines, columns and lines or across
   if block then rows, cols = rows * block[1], cols * block[2] end
   local size = table.move(p.pointers.shape, 1, batch, 1, {})
   size[batch + 1], size[batch + 2] = rows, cols
   for d = batch + (block and 4 or 2), p.values:dim() do size[#size + 1] = p.values:size(d) end
   return size
end

local function check_values(who, p, names, blocks)
   local batch, values = V.batch_dim(p), p.values
   if values:dim() < batch + (blocks and 3 or 1) or values:size(batch + 1) ~= p.plain:size(-1) then
      torch.raise(("%s: values: expected %s for each of %d %s, got %s"):format(who,
         blocks and "a block" or "a value", p.plain:size(-1), names[2], args.describe(values)))
   end
end

-- Raises an error unless pointers, positions, values and the size have the same dimensions of a
-- batch in front.
local function check_batch(who, p, names)
   local batch = V.batch_dim(p)
   for _, other in ipairs {{names[2], p.plain}, {"values", p.values}, {"size", {shape = p.size}}} do
      local wanted = table.move(p.pointers.shape, 1, batch, 1, {})
      local found = table.move(other[2].shape, 1, batch, 1, {})
      if not V.same(wanted, found) then
         torch.raise(("%s: %s: expected a batch of %s as %s have, got %s"):format(who, other[1],
            V.shape_text(wanted), names[1], V.shape_text(found)))
      end
   end
end

-- Returns the numbers of rows and of columns. In a blocked layout they count blocks.
local function counts_of(who, p)
   local batch, block = V.batch_dim(p), V.block_of(p)
   local counts = {p.size[batch + 1], p.size[batch + 2]}
   for d, n in ipairs(block or {}) do
      if n < 1 or counts[d] % n ~= 0 then
         torch.raise(("%s: values: expected blocks that divide size %s, got blocks %s"):format(who,
            V.shape_text(p.size), V.shape_text(block)))
      end
      counts[d] = counts[d] // n
   end
   return counts
end

-- Checks the shapes of a compressed tensor's components. Returns the number of rows (or columns) to
-- which the pointers belong, and the number of columns (or rows). Both count blocks in a blocked
-- layout.
local function check_shapes(who, p, names, blocks, columns)
   local size, values, batch = p.size, p.values, V.batch_dim(p)
   invariants.check_size(who, size)
   local extra = batch + (blocks and 3 or 1)
   if #size ~= batch + 2 + values:dim() - extra then
      torch.raise(("%s: size: expected %d sizes, got %s"):format(who,
         batch + 2 + values:dim() - extra, V.shape_text(size)))
   end
   check_batch(who, p, names)
   local dense, wanted = V.rest(values.shape, extra + 1), V.rest(size, batch + 3)
   if not V.same(dense, wanted) then
      torch.raise(("%s: values: expected dense sizes %s, got %s"):format(who, V.shape_text(wanted),
         V.shape_text(dense)))
   end
   local counts = counts_of(who, p)
   local lines, across = counts[columns and 2 or 1], counts[columns and 1 or 2]
   if p.pointers:size(-1) ~= lines + 1 then
      torch.raise(("%s: %s: expected %d pointers, one for each of %d %ss and one behind the last, "
         .. "got %d"):format(who, names[1], lines + 1, lines, columns and "column" or "row",
         p.pointers:size(-1)))
   end
   return lines, across
end

local function compressed(who, layout, pointers, plain, a)
   local names = names_of[layout]
   local blocks, columns = V.kind_of(layout)
   local values = values_of(who, a)
   local p = {layout = layout, values = values}
   for key, value in pairs {pointers = pointers, plain = plain} do
      local name = names[key == "pointers" and 1 or 2]
      local positions = to_tensor(who, name, value, true, a.device)
      invariants.check_positions(who, name, positions)
      p[key] = positions:detach():to "int64"
      same_device(who, name, p[key], values)
   end
   if p.pointers:size(-1) == 0 then
      torch.raise(("%s: %s: expected at least one pointer, got none"):format(who, names[1]))
   end
   if p.plain:dim() ~= p.pointers:dim() then
      args.refuse(who, names[2], ("a tensor of %d dimension%s, as %s"):format(p.pointers:dim(),
         p.pointers:dim() == 1 and "" or "s", names[1]), p.plain)
   end
   if values:dim() == 0 then args.refuse(who, "values", "a list", values) end
   check_values(who, p, names, blocks)
   local size = a.size and (type(a.size) == "table" and a.size or {a.size})
   p.size = size and table.move(size, 1, #size, 1, {}) or compressed_size(p, columns)
   local lines, across = check_shapes(who, p, names, blocks, columns)
   if invariants.wanted(a.check_invariants, values) then
      invariants.check_compressed(who, p, names, lines, across)
   end
   return V.new(p)
end

local function constructor(layout)
   local who = layout .. "_tensor"
   local names = names_of[layout]
   local take = args.signature(("%s(%s: tensor|table, %s: tensor|table, values: tensor|table%s")
      :format(who, names[1], names[2], options))
   return function(...)
      local a = take(...)
      return compressed(who, layout, a[names[1]], a[names[2]], a)
   end
end

--- Makes a tensor of layout sparse_csr. Row i has the values from number crow_indices[i] to number
--- crow_indices[i + 1] - 1. col_indices has each value's column; columns ascend within a row. All
--- positions count from 1, so crow_indices ends with nnz + 1.
---
---     local rows, columns = {1, 2, 4}, {3, 1, 3}
---     local s = torch.sparse_csr_tensor(rows, columns, {3.0, 4.0, 5.0}, {2, 3})
---     print(s:to_dense())
---     --> tensor([[0., 0., 3.],
---     -->         [4., 0., 5.]])
---
--- If all three tensors have the same further dimensions in front, the result is a batch of
--- matrices, all of which have the same number of elements.
---@names torch.sparse_csr_tensor
---@param crow_indices Tensor|integer[]
---@param col_indices Tensor|integer[]
---@param values Tensor|number[]
---@param size? integer[]
---@param options? {dtype: string, device: string, requires_grad: boolean,
--- check_invariants: boolean}
---@return Tensor
M.sparse_csr_tensor = constructor "sparse_csr"

--- Makes a tensor of layout sparse_csc, as sparse_csr_tensor does, but with pointers to columns.
---@names torch.sparse_csc_tensor
---@param ccol_indices Tensor|integer[]
---@param row_indices Tensor|integer[]
---@param values Tensor|number[]
---@param size? integer[]
---@param options? {dtype: string, device: string, requires_grad: boolean,
--- check_invariants: boolean}
---@return Tensor
M.sparse_csc_tensor = constructor "sparse_csc"

--- Makes a tensor of layout sparse_bsr, as sparse_csr_tensor does: the values are blocks (nnz,
--- rows, columns), and the positions count blocks.
---@names torch.sparse_bsr_tensor
---@param crow_indices Tensor|integer[]
---@param col_indices Tensor|integer[]
---@param values Tensor|number[]
---@param size? integer[]
---@param options? {dtype: string, device: string, requires_grad: boolean,
--- check_invariants: boolean}
---@return Tensor
M.sparse_bsr_tensor = constructor "sparse_bsr"

--- Makes a tensor of layout sparse_bsc, as sparse_bsr_tensor does, but with pointers to columns of
--- blocks.
---@names torch.sparse_bsc_tensor
---@param ccol_indices Tensor|integer[]
---@param row_indices Tensor|integer[]
---@param values Tensor|number[]
---@param size? integer[]
---@param options? {dtype: string, device: string, requires_grad: boolean,
--- check_invariants: boolean}
---@return Tensor
M.sparse_bsc_tensor = constructor "sparse_bsc"

local take_compressed = args.signature([[sparse_compressed_tensor(compressed_indices: tensor|table,
   plain_indices: tensor|table, values: tensor|table]] .. options:gsub("%)$", ", layout: string)"))

--- Makes a tensor of a compressed layout: "sparse_csr", "sparse_csc", "sparse_bsr" or "sparse_bsc".
---@param compressed_indices Tensor|integer[]
---@param plain_indices Tensor|integer[]
---@param values Tensor|number[]
---@param size? integer[]
---@param options {layout: string, dtype: string, device: string, requires_grad: boolean,
--- check_invariants: boolean}
---@return Tensor
function M.sparse_compressed_tensor(...)
   local a = take_compressed(...)
   if not names_of[a.layout] then
      args.refuse("sparse_compressed_tensor", "layout",
         '"sparse_csr", "sparse_csc", "sparse_bsr" or "sparse_bsc"', a.layout)
   end
   return compressed("sparse_compressed_tensor", a.layout, a.compressed_indices, a.plain_indices, a)
end

for name, fn in pairs(M) do M[name] = args.named(name, fn) end

return M
