-- convert.lua - conversions between layouts, which gradients pass through.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local V = require "tlua.sparse.value"

local M = {}

local function arange(n, device) return torch.arange(1, n + 1, {device = device}) end

-- Keys --------------------------------------------------------------------------------------------

-- Returns the number of positions that an element can have: the product of the sizes of the sparse
-- dimensions.
local function places(size, sparse_dim)
   local n = 1
   for d = 1, sparse_dim do
      if size[d] > 0 and n > math.maxinteger // size[d] then
         torch.raise(("coalesce: the sparse dimensions of %s have more places than 2^63"):format(
            V.shape_text(size)))
      end
      n = n * size[d]
   end
   return n
end

--- Returns the linear index, from 1, of each position of a sparse_coo tensor in row-major order.
---@param p table
---@return Tensor keys  (nnz)
---@return integer places
function M.keys_of(p)
   local sparse_dim, indices = p.indices:size(1), p.indices
   local total = places(p.size, sparse_dim)
   if sparse_dim == 0 then
      return torch.ones(indices:size(2), {dtype = "int64", device = indices.device}), 1
   end
   if sparse_dim == 1 then return indices[1], total end
   local keys = indices[1]:clone()
   for d = 2, sparse_dim do keys:sub_(1):mul_(p.size[d]):add_(indices[d]) end
   return keys, total
end

--- Returns the positions (sparse_dim, n) of linear indices in row-major order.
---@param keys Tensor
---@param size integer[]
---@param sparse_dim integer
---@return Tensor
function M.positions_of(keys, size, sparse_dim)
   local rows = torch.empty(sparse_dim, keys:numel(), {dtype = "int64", device = keys.device})
   if sparse_dim == 0 then return rows end
   local rest = rows[1]:copy_(keys)
   if sparse_dim == 1 then return rows end
   rest:sub_(1)
   for d = sparse_dim, 2, -1 do
      rows[d]:copy_(rest):remainder_(size[d]):add_(1)
      rest:floor_divide_(size[d])
   end
   rest:add_(1)
   return rows
end

--- Returns the sum of each group's values. Group numbers count from 1.
---@param groups Tensor  (n), int64
---@param values Tensor  (n, ...)
---@param count integer
---@return Tensor  (count, ...)
function M.sum_groups(groups, values, count)
   local dtype = values.dtype
   local work = dtype == "bool" and values:to "uint8" or values
   local size = values.shape
   size[1] = count
   local sums = torch.zeros(size, {dtype = work.dtype, device = values.device})
   sums = sums:index_add(1, groups, work)
   return dtype == "bool" and sums:ne(0) or sums
end

-- Coalescing --------------------------------------------------------------------------------------

--- Sorts the keys, and sums the values that have equal keys. Large intermediate results are
--- released at once, without waiting for the garbage collector.
---@param keys Tensor  released, if there are several
---@param values Tensor
---@return Tensor keys  ascending, without duplicates
---@return Tensor values
function M.merge(keys, values)
   local n = keys:numel()
   if n < 2 then return keys, values end
   local sorted, order = torch.sort(keys, {stable = true})
   keys:release()
   local first = torch.ones(n, {dtype = "bool", device = sorted.device})
   first:narrow(1, 2, n - 1):copy_(sorted:narrow(1, 2, n - 1):ne(sorted:narrow(1, 1, n - 1)))
   local count = first:sum():item()
   if count == n then
      values = values:index_select(1, order)
      order:release()
      return sorted, values
   end
   local merged = sorted:masked_select(first)
   sorted:release()
   local groups = first:cumsum(1)
   values = values:index_select(1, order)
   order:release()
   local sums = M.sum_groups(groups, values, count)
   if not sums.requires_grad then groups:release() end
   return merged, sums
end

--- Returns the components of a coalesced sparse_coo tensor.
---@param p table
---@return table
function M.coalesced(p)
   if p.coalesced then return p end
   local sparse_dim, keys = p.indices:size(1), (M.keys_of(p))
   local merged, values = M.merge(keys, p.values)
   local indices = p.indices
   if not rawequal(merged, keys) then
      indices = M.positions_of(merged, p.size, sparse_dim)
      merged:release()
   end
   return {
      layout = "sparse_coo", size = p.size, indices = indices, values = values, coalesced = true,
   }
end

function V.methods.coalesce(s)
   local p = V.parts(s)
   V.expect("coalesce", p, "sparse_coo")
   return p.coalesced and s or V.new(M.coalesced(p))
end

-- Pointers ----------------------------------------------------------------------------------------

--- Returns the pointers of n rows (or columns). `lines` has the elements' rows in ascending order.
---@param lines Tensor
---@param n integer
---@return Tensor
function M.pointers(lines, n)
   return torch.searchsorted(lines:contiguous(), arange(n + 1, lines.device))
end

--- Returns the row of each element of a compressed tensor, or its column if columns have pointers.
--- The rows of all matrices of a batch are numbered consecutively.
---@param p table
---@return Tensor
function M.lines_of(p)
   local n = p.pointers:size(-1) - 1
   local lengths = (p.pointers:narrow(-1, 2, n) - p.pointers:narrow(-1, 1, n)):reshape(-1)
   return torch.repeat_interleave(arange(lengths:numel(), p.plain.device), lengths)
end

-- Returns a list of the sizes in `sizes` followed by the further arguments.
local function joined(sizes, ...)
   local list = table.move(sizes, 1, #sizes, 1, {})
   for _, size in ipairs {...} do list[#list + 1] = size end
   return list
end

-- Converts the pointers of the rows of all matrices of a batch, which are numbered consecutively,
-- to pointers for each matrix. Returns these pointers, and the number of elements of one matrix,
-- which must be the same for all.
local function split_pointers(who, pointers, batch, n)
   local matrices = 1
   for _, size in ipairs(batch) do matrices = matrices * size end
   local device = pointers.device
   local first = torch.arange(0, matrices, {device = device}):view(-1, 1) * n
   local at = first + torch.arange(1, n + 2, {device = device})
   local split = pointers:index_select(1, at:reshape(-1)):view(at.shape)
   split = split - split:narrow(2, 1, 1) + 1
   local total = pointers[-1]:item() - 1
   local each = matrices > 0 and total // matrices or 0
   if split:select(2, n + 1):ne(each + 1):any():item() then
      torch.raise(("%s: expected as many elements in each of %d matrices, got %s"):format(who,
         matrices, V.shape_text((split:select(2, n + 1) - 1):tolist())))
   end
   return split:view(joined(batch, n + 1)), each
end

-- Converts components in which the rows of all matrices of a batch are numbered consecutively to
-- components of a batch: pointers, positions and values get the dimensions of the batch.
local function divided(who, p, batch, n)
   if #batch == 0 then return p end
   local each
   p.pointers, each = split_pointers(who, p.pointers, batch, n)
   p.plain = p.plain:view(joined(batch, each))
   p.values = p.values:reshape(joined(batch, each, table.unpack(V.rest(p.values.shape, 2))))
   return p
end

-- To COO ------------------------------------------------------------------------------------------

-- Returns the positions and the values of all elements of blocks (n, height, width, ...), including
-- elements that are 0.
local function unblocked(values, matrices, rows, cols)
   local n, height, width = values:size(1), values:size(2), values:size(3)
   local device = rows.device
   local inner_row = arange(height, device):view(1, height, 1)
   local inner_col = arange(width, device):view(1, 1, width)
   local shape = {n, height, width}
   local function all(positions) return positions:expand(shape):reshape(-1) end
   rows = all((rows:view(n, 1, 1) - 1) * height + inner_row)
   cols = all((cols:view(n, 1, 1) - 1) * width + inner_col)
   return values:flatten(1, 3), matrices and all(matrices:view(n, 1, 1)), rows, cols
end

--- Converts a tensor's components to the layout sparse_coo and returns them. Batch dimensions of
--- the original become sparse dimensions of the result.
---@param p table
---@return table
function M.as_coo(p)
   if p.layout == "sparse_coo" then return p end
   local blocks, columns = V.kind_of(p.layout)
   local batch, lines, plain, values = V.batch_dim(p), M.lines_of(p), p.plain, p.values
   local matrices
   if batch > 0 then
      local n = math.max(p.pointers:size(-1) - 1, 1)
      matrices, lines = (lines - 1) // n + 1, (lines - 1) % n + 1
      plain, values = plain:reshape(-1), values:flatten(1, batch + 1)
   end
   local rows, cols = columns and plain or lines, columns and lines or plain
   if blocks then values, matrices, rows, cols = unblocked(values, matrices, rows, cols) end
   local indices = torch.stack {rows, cols}
   if matrices then indices = torch.cat {M.positions_of(matrices, p.size, batch), indices} end
   return {
      layout = "sparse_coo", size = p.size, indices = indices, values = values,
      coalesced = p.layout == "sparse_csr",
   }
end

-- To compressed layouts ---------------------------------------------------------------------------

local function check_matrix(who, p)
   local sparse_dim = V.sparse_dim(p)
   if sparse_dim == 2 then return end
   torch.raise(("%s: expected a matrix, of 2 sparse dimensions, got %d in shape %s"):format(who,
      sparse_dim, V.shape_text(p.size)))
end

-- Transposes sparse matrices, which are the last two sparse dimensions. Returns the components of
-- the result.
local function exchanged(p)
   local size, n = joined(p.size), p.indices:size(1)
   size[n - 1], size[n] = size[n], size[n - 1]
   local indices = torch.cat {p.indices:narrow(1, 1, n - 2), p.indices:narrow(1, n - 1, 2):flip(1)}
   return {
      layout = "sparse_coo", size = size, indices = indices, values = p.values, coalesced = false,
   }
end

-- The last two sparse dimensions are matrices, and the sparse dimensions before them count the
-- matrices. Returns the sizes of these dimensions, and for each element the number of its matrix,
-- from 0.
local function batch_of(p)
   local n = p.indices:size(1) - 2
   local batch = table.move(p.size, 1, n, 1, {})
   local flat = {indices = p.indices:narrow(1, 1, n), size = batch}
   return batch, n > 0 and M.keys_of(flat) - 1 or 0
end

-- Converts components p in layout sparse_coo to a compressed layout without blocks.
local function compress(who, p, layout)
   local _, columns = V.kind_of(layout)
   local from = M.coalesced(columns and exchanged(p) or p)
   local batch, matrices = batch_of(from)
   local n, lines = from.size[#batch + 1], from.indices[#batch + 1]
   local all = n
   for _, size in ipairs(batch) do all = all * size end
   return divided(who, {
      layout = layout, size = p.size, values = from.values,
      pointers = M.pointers(#batch > 0 and matrices * n + lines or lines, all),
      plain = from.indices[#batch + 2]:contiguous(),
   }, batch, n)
end

local function check_blocks(who, block, size, batch)
   if type(block) ~= "table" or #block ~= 2 then
      args.refuse(who, "blocksize", "two integers", block)
   end
   for d = 1, 2 do
      if math.type(block[d]) ~= "integer" or block[d] < 1 or size[batch + d] % block[d] ~= 0 then
         torch.raise(("%s: blocksize: expected integers that divide the shape %s, got %s")
            :format(who, V.shape_text(size), V.shape_text(block)))
      end
   end
end

-- Converts components p in layout sparse_coo to a compressed layout with blocks of the given size.
local function compress_blocks(who, p, layout, block)
   local batch, matrices = batch_of(p)
   check_blocks(who, block, p.size, #batch)
   local _, columns = V.kind_of(layout)
   local height, width = block[1], block[2]
   local counts = {p.size[#batch + 1] // height, p.size[#batch + 2] // width}
   local row, col = p.indices[#batch + 1] - 1, p.indices[#batch + 2] - 1
   local line, plain = row // height, col // width
   if columns then line, plain = plain, line end
   local n, across = counts[columns and 2 or 1], counts[columns and 1 or 2]
   local keys, inverse = torch.unique((matrices * n + line) * across + plain,
      {return_inverse = true})
   local inner = (row % height) * width + col % width
   local places_ = (inverse - 1) * (height * width) + inner + 1
   local values = M.sum_groups(places_, p.values, keys:numel() * height * width)
   local all = n
   for _, size in ipairs(batch) do all = all * size end
   local shape = joined({keys:numel(), height, width}, table.unpack(V.rest(values.shape, 2)))
   return divided(who, {
      layout = layout, size = p.size, values = values:view(shape),
      pointers = M.pointers(keys // math.max(across, 1) + 1, all),
      plain = keys % math.max(across, 1) + 1,
   }, batch, n)
end

--- Converts components to a layout. If sparse_coo has further sparse dimensions in front of the
--- matrices, they become the dimensions of a batch.
---@param who string
---@param p table
---@param layout string
---@param block? integer[]  for blocked layouts
---@return table
function M.to_layout(who, p, layout, block)
   local blocks, _ = V.kind_of(layout)
   local own = V.block_of(p)
   if p.layout == layout and (not blocks or not block or V.same(own, block)) then return p end
   if layout == "sparse_coo" then return M.as_coo(p) end
   local coo = M.as_coo(p)
   if coo.indices:size(1) < 2 then check_matrix(who, p) end
   if blocks then return compress_blocks(who, coo, layout, block or own) end
   if block ~= nil then
      args.refuse(who, "blocksize", "none for layout " .. layout, block)
   end
   return compress(who, coo, layout)
end

-- From dense --------------------------------------------------------------------------------------

-- Converts a dense tensor to components. The components contain the nonzero elements. If some
-- dimensions stay dense, they contain the slices that have a nonzero element.
local function from_dense(who, x, sparse_dim)
   local n = x:dim()
   sparse_dim = sparse_dim or n
   if math.type(sparse_dim) ~= "integer" or sparse_dim < 0 or sparse_dim > n or
      sparse_dim == 0 and n > 0 then
      args.refuse(who, "sparse_dim", n == 0 and "0" or ("1 to %d"):format(n), sparse_dim)
   end
   local size = table.move(x.shape, 1, n, 1, {})
   local used = x:detach():ne(0)
   if sparse_dim < n then used = used:flatten(sparse_dim + 1):any(sparse_dim + 1) end
   local rest = V.rest(size, sparse_dim + 1)
   local keys = used:reshape(-1):nonzero():view(-1)
   local flat = x:reshape(places(size, sparse_dim), table.unpack(rest))
   return {
      layout = "sparse_coo", size = size, indices = M.positions_of(keys, size, sparse_dim),
      values = flat:index_select(1, keys), coalesced = true,
   }
end

-- Returns the components of a dense or sparse tensor in layout sparse_coo. A dense tensor gets
-- sparse_dim sparse dimensions.
local function parts_of(who, x, sparse_dim)
   local p = V.parts(x)
   if not p then return from_dense(who, x, sparse_dim) end
   if sparse_dim and sparse_dim ~= V.sparse_dim(p) then
      args.refuse(who, "sparse_dim", tostring(V.sparse_dim(p)), sparse_dim)
   end
   return p
end

-- Methods -----------------------------------------------------------------------------------------

-- Returns the number of dimensions of x that are not among the last dense_dim dimensions, which
-- stay dense. Raises an error if that is impossible.
local function without_dense(who, x, dense_dim)
   local n = x:dim()
   if dense_dim < 0 or dense_dim > n - 2 then
      args.refuse(who, "dense_dim", ("0 to %d"):format(math.max(n - 2, 0)), dense_dim)
   end
   local p = V.parts(x)
   local own = p and n - V.sparse_dim(p) - V.batch_dim(p)
   if own and own ~= dense_dim then args.refuse(who, "dense_dim", tostring(own), dense_dim) end
   return not p and n - dense_dim or nil
end

local function convert(who, x, layout, sparse_dim, block, dense_dim)
   local before = V.parts(x)
   if dense_dim then sparse_dim = without_dense(who, x, dense_dim) end
   local p = parts_of(who, x, sparse_dim)
   if layout ~= "sparse_coo" and p.layout == "sparse_coo" and before then check_matrix(who, p) end
   local to = M.to_layout(who, p, layout, block)
   return to == before and x or V.new(to)
end

local take_sparse = args.signature [[to_sparse(sparse_dim: integer?, layout: string?,
   blocksize: integers?, dense_dim: integer?)]]

local layouts <const> = {
   sparse_coo = true, sparse_csr = true, sparse_csc = true, sparse_bsr = true, sparse_bsc = true,
}

--- Converts a tensor to a sparse layout.
function M.to_sparse(x, ...)
   if not torch.is_tensor(x) then args.refuse("to_sparse", "self", "a tensor", x) end
   local a = take_sparse(...)
   local layout = a.layout or "sparse_coo"
   if not layouts[layout] then
      args.refuse("to_sparse", "layout", "a sparse layout, such as \"sparse_csr\"", a.layout)
   end
   if V.kind_of(layout) and not a.blocksize then
      torch.raise "to_sparse: blocksize is missing; expected two integers"
   end
   return convert("to_sparse", x, layout, a.sparse_dim, a.blocksize, a.dense_dim)
end

function M.to_sparse_coo(x) return convert("to_sparse_coo", x, "sparse_coo") end

-- Defines a conversion to a compressed layout that takes dense_dim, the number of the last
-- dimensions that stay dense.
local function compressing(name, with_block)
   local layout, take = name:match "^to_(.*)", args.signature(("%s(%sdense_dim: integer?)"):format(
      name, with_block and "blocksize: integers?, " or ""))
   M[name] = function(x, ...)
      if not torch.is_tensor(x) then args.refuse(name, "self", "a tensor", x) end
      local a = take(...)
      if with_block and a.blocksize == nil and not V.kind_of((V.parts(x) or {}).layout) then
         torch.raise(name .. ": blocksize is missing; expected two integers")
      end
      return convert(name, x, layout, nil, a.blocksize, a.dense_dim)
   end
end

compressing "to_sparse_csr"
compressing "to_sparse_csc"
compressing("to_sparse_bsr", true)
compressing("to_sparse_bsc", true)

--- Returns the dense tensor.
---@param s Tensor
---@param dtype? string
---@return Tensor
function M.to_dense(s, dtype)
   local p = V.parts(s)
   if not p then return dtype and s:to(dtype) or s end
   p = M.as_coo(p)
   local keys, total = M.keys_of(p)
   local x = M.sum_groups(keys, p.values, total):reshape(p.size)
   return dtype and x:to(dtype) or x
end

checked.functions(M, "", "to_sparse_coo(self: tensor) to_dense(self: tensor, dtype: string?)")

for name in ([[to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc
   to_dense]]):gmatch "%S+" do
   V.methods[name] = M[name]
end

return M
