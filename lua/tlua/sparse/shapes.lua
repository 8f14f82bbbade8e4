-- shapes.lua - copies, permutations, parts and concatenations of sparse tensors.

local torch = require "tlua"
local args = require "tlua.args"
local C = require "tlua.sparse.convert"
local V = require "tlua.sparse.value"

local methods <const> = V.methods

-- Copies ------------------------------------------------------------------------------------------

local keys <const> = {"indices", "pointers", "plain"}

-- Returns a copy of a sparse tensor in which of_positions(t) replaces each tensor t of positions,
-- and of_values(values) the values.
local function mapped(s, of_positions, of_values)
   local p, copy = V.parts(s), {}
   for key, value in pairs(p) do copy[key] = value end
   for _, key in ipairs(keys) do copy[key] = p[key] and of_positions(p[key]) end
   copy.values, copy.engine, copy.is_parameter = of_values(p.values), nil, nil
   return V.new(copy)
end

local function same(x) return x end

local function clone(x) return x:clone() end
V.define("clone", function(s) return mapped(s, clone, clone) end, true, 1)

local function detach(x) return x:detach() end
V.define("detach", function(s) return mapped(s, same, detach) end, true, 1)

function methods.detach_(s)
   local p = V.parts(s)
   p.values = p.values:detach()
   return s
end

function methods.contiguous(s) return s end

local take_to = args.signature [[to(dtype: any, device: device?, copy: boolean = false,
   non_blocking: boolean = false)]]

-- Implements s:to(dtype), s:to(device), s:to(device, dtype) and s:to(other).
local function to(s, first, second, ...)
   if V.is_sparse(first) or torch.is_tensor(first) then
      return to(s, {device = first.device, dtype = first.dtype})
   end
   local options = type(first) == "table" and first or type(second) == "table" and second or ...
   options = type(options) == "table" and options or {}
   take_to {dtype = options.dtype or "float32", device = options.device,
      copy = options.copy, non_blocking = options.non_blocking}
   local dtype, device, copy = options.dtype, options.device, options.copy
   local given = {type(first) ~= "table" and first or nil}
   if type(second) ~= "table" then given[#given + 1] = second end
   for _, value in ipairs(given) do
      if torch._to_device(value) then device = value else dtype = value end
   end
   local function move(x)
      return device and x:to(device, {copy = copy}) or copy and x:clone() or x
   end
   return mapped(s, move, function(x)
      x = move(x)
      return dtype and x:to(dtype) or x
   end)
end
V.define("to", to)

for name, dtype in pairs {float = "float32", double = "float64", half = "float16",
   bfloat16 = "bfloat16", int = "int32", long = "int64", short = "int16", char = "int8",
   byte = "uint8", bool = "bool", cfloat = "complex64", cdouble = "complex128",
   chalf = "complex32"} do
   methods[name] = function(s) return to(s, dtype) end
end

for name in ("cpu cuda sim"):gmatch "%S+" do
   methods[name] = function(s, ...)
      local more = table.pack(...)
      local function move(x) return x[name](x, table.unpack(more, 1, more.n)) end
      return mapped(s, move, move)
   end
end

function methods.type_as(s, other) return to(s, other.dtype) end

-- Dimensions --------------------------------------------------------------------------------------

local flipped <const> = {
   sparse_csr = "sparse_csc", sparse_csc = "sparse_csr", sparse_bsr = "sparse_bsc",
   sparse_bsc = "sparse_bsr",
}

local function transpose_compressed(p)
   local size, batch = table.move(p.size, 1, #p.size, 1, {}), V.batch_dim(p)
   size[batch + 1], size[batch + 2] = size[batch + 2], size[batch + 1]
   return V.new {
      layout = flipped[p.layout], size = size, pointers = p.pointers, plain = p.plain,
      values = V.kind_of(p.layout) and p.values:transpose(batch + 2, batch + 3) or p.values,
   }
end

-- Returns a coo tensor with its dimensions permuted. Sparse and dense dimensions do not mix.
local function permute_coo(who, p, order)
   local sparse_dim, n = p.indices:size(1), #p.size
   local size, rows, dense, plain = {}, {}, {1}, true
   for i, d in ipairs(order) do
      size[i] = p.size[d]
      plain = plain and d == i
      if (i <= sparse_dim) ~= (d <= sparse_dim) then
         torch.raise(("%s: cannot exchange a sparse dimension with a dense one; the first %d of %d "
            .. "are sparse"):format(who, sparse_dim, n))
      end
      if i <= sparse_dim then rows[i] = d else dense[#dense + 1] = d - sparse_dim + 1 end
   end
   if plain then return V.new(p) end
   local indices = p.indices
   if sparse_dim > 0 then
      indices = indices:index_select(1, torch.tensor(rows, {device = indices.device}))
   end
   local sorted = p.coalesced
   for i = 1, sparse_dim do sorted = sorted and rows[i] == i end
   return V.coo(indices, p.values:permute(dense), size, sorted)
end

local function swap(who, s, first, second)
   local p = V.parts(s)
   local n = #p.size
   first, second = V.dim(who, first, n), V.dim(who, second, n)
   if first == second then return s end
   if p.layout ~= "sparse_coo" then
      local batch = V.batch_dim(p)
      if math.min(first, second) ~= batch + 1 or math.max(first, second) ~= batch + 2 then
         torch.raise(("%s: expected dimensions %d and %d, of the rows and columns of layout %s, "
            .. "got %d and %d"):format(who, batch + 1, batch + 2, p.layout, first, second))
      end
      return transpose_compressed(p)
   end
   local order = {}
   for d = 1, n do order[d] = d end
   order[first], order[second] = second, first
   return permute_coo(who, p, order)
end

V.define("transpose swapaxes swapdims", function(s, first, second)
   return swap("transpose", s, first, second)
end, true, 3)

V.define("t", function(s)
   local n = #V.parts(s).size
   if n > 2 then args.refuse("t", "self", "at most 2 dimensions", s) end
   return n < 2 and s or swap("t", s, 1, 2)
end, true, 1)

V.define("permute", function(s, ...)
   local p, dims = V.parts(s), {...}
   if type(dims[1]) == "table" then dims = dims[1] end
   V.expect("permute", p, "sparse_coo")
   local seen, order = {}, {}
   for i, d in ipairs(dims) do
      order[i] = V.dim("permute", d, #p.size)
      seen[order[i]] = true
   end
   for d = 1, #p.size do
      if not seen[d] or #order ~= #p.size then
         args.refuse("permute", "dims", ("each of 1 to %d once"):format(#p.size), dims)
      end
   end
   return permute_coo("permute", p, order)
end)

-- Parts -------------------------------------------------------------------------------------------

-- Returns a copy of a list in which element i is replaced, or removed if no value is given.
local function changed(list, i, value)
   local copy = table.move(list, 1, #list, 1, {})
   if value == nil then table.remove(copy, i) else copy[i] = value end
   return copy
end

V.define("select", function(s, dim, index)
   local p = V.parts(s)
   dim = V.dim("select", dim, #p.size)
   local n = p.size[dim]
   local at = math.type(index) == "integer" and (index < 0 and n + 1 + index or index) or 0
   if at < 1 or at > n then
      torch.raise(("select: index: expected 1 to %d in dimension %d, got %s"):format(n, dim,
         args.describe(index)))
   end
   if dim <= V.batch_dim(p) then
      return V.new {
         layout = p.layout, size = changed(p.size, dim), values = p.values:select(dim, at),
         pointers = p.pointers:select(dim, at), plain = p.plain:select(dim, at),
      }
   end
   p = C.as_coo(p)
   local sparse_dim = p.indices:size(1)
   if dim > sparse_dim then
      return V.coo(p.indices, p.values:select(dim - sparse_dim + 1, at), changed(p.size, dim),
         p.coalesced)
   end
   local chosen = p.indices[dim]:eq(at):nonzero():view(-1)
   local values = p.values:index_select(1, chosen)
   if sparse_dim == 1 then return values:sum(1) end
   local rows = {}
   for d = 1, sparse_dim do
      if d ~= dim then rows[#rows + 1] = p.indices[d]:index_select(1, chosen) end
   end
   return V.coo(torch.stack(rows), values, changed(p.size, dim), p.coalesced)
end, true, 3)

V.define("narrow", function(s, dim, start, length)
   local p = V.parts(s)
   V.expect("narrow", p, "sparse_coo")
   dim = V.dim("narrow", dim, #p.size)
   local n = p.size[dim]
   if math.type(start) ~= "integer" or math.type(length) ~= "integer" or start < 1 or length < 0
      or start + length - 1 > n then
      torch.raise(("narrow: expected a range within 1 to %d, got start %s and length %s"):format(n,
         args.describe(start), args.describe(length)))
   end
   local sparse_dim, size = p.indices:size(1), changed(p.size, dim, length)
   if dim > sparse_dim then
      local values = p.values:narrow(dim - sparse_dim + 1, start, length)
      return V.coo(p.indices, values, size, p.coalesced)
   end
   local row = p.indices[dim]
   local chosen = row:ge(start):logical_and(row:lt(start + length)):nonzero():view(-1)
   local indices = p.indices:index_select(2, chosen)
   indices[dim]:sub_(start - 1)
   return V.coo(indices, p.values:index_select(1, chosen), size, p.coalesced)
end, true, 4)

V.define("index_select", function(s, dim, index)
   local p = V.parts(s)
   V.expect("index_select", p, "sparse_coo")
   dim = V.dim("index_select", dim, #p.size)
   if not torch.is_tensor(index) or V.is_sparse(index) or index:dim() > 1 then
      args.refuse("index_select", "index", "positions of one dimension", index)
   end
   index = index:reshape(-1)
   require "tlua.sparse.invariants".check_range("index_select", "index", index, p.size[dim], dim)
   local sparse_dim, size = p.indices:size(1), changed(p.size, dim, index:numel())
   if dim > sparse_dim then
      return V.coo(p.indices, p.values:index_select(dim - sparse_dim + 1, index), size, p.coalesced)
   end
   -- After the positions are sorted along dim, the elements at one index are adjacent.
   local row, order = torch.sort(p.indices[dim], {stable = true})
   local first = torch.searchsorted(row, index)
   local counts = torch.searchsorted(row, index, {right = true}) - first
   local from = torch.repeat_interleave(torch.arange(1, index:numel() + 1, {device = row.device}),
      counts)
   local begins = counts:cumsum(1) - counts
   local inner = torch.arange(1, from:numel() + 1, {device = row.device})
      - begins:index_select(1, from)
   local chosen = order:index_select(1, first:index_select(1, from) + inner - 1)
   local indices = p.indices:index_select(2, chosen)
   indices[dim]:copy_(from)
   return V.coo(indices, p.values:index_select(1, chosen), size, false)
end, true, 3)

-- Joining -----------------------------------------------------------------------------------------

local function parts_of_all(who, list)
   if type(list) ~= "table" or #list == 0 then
      args.refuse(who, "tensors", "a list of sparse tensors", list)
   end
   local all = {}
   for i, s in ipairs(list) do
      local p = V.parts(s)
      if not p then args.refuse(who, ("tensors[%d]")
         :format(i), "a sparse tensor as the others", s) end
      V.expect(("%s: tensors[%d]"):format(who, i), p, "sparse_coo")
      if i > 1 and (#p.size ~= #all[1].size or V.sparse_dim(p) ~= V.sparse_dim(all[1])) then
         torch.raise(("%s: tensors[%d]: expected %d dimensions, %d of them sparse, got shape %s")
            :format(who, i, #all[1].size, V.sparse_dim(all[1]), V.shape_text(p.size)))
      end
      all[i] = p
   end
   return all
end

-- Concatenates the positions of tensors and their values. If `change` is given, change(positions,
-- i) replaces the positions of tensor i.
local function join(all, change)
   local indices, values = {}, {}
   for i, p in ipairs(all) do
      indices[i] = change and change(p.indices, i) or p.indices
      values[i] = p.values
   end
   return torch.cat(indices, 2), torch.cat(values)
end

V.define("cat concat concatenate", function(list, dim)
   local all = parts_of_all("cat", list)
   if type(dim) == "table" then dim = dim.dim end
   dim = V.dim("cat", dim or 1, #all[1].size)
   local size, sparse_dim, before = changed(all[1].size, dim, 0), V.sparse_dim(all[1]), {}
   for i, p in ipairs(all) do
      for d = 1, #size do
         if d ~= dim and p.size[d] ~= size[d] then
            torch.raise(("cat: tensors[%d]: expected sizes as the first tensor's except in "
               .. "dimension %d, got %s and %s"):format(i, dim, V.shape_text(p.size),
               V.shape_text(all[1].size)))
         end
      end
      before[i] = size[dim]
      size[dim] = size[dim] + p.size[dim]
   end
   if dim > sparse_dim then
      local dense, padded = dim - sparse_dim + 1, {}
      for i, p in ipairs(all) do
         local left = p.values.shape
         left[dense] = before[i]
         local right = p.values.shape
         right[dense] = size[dim] - before[i] - p.size[dim]
         local of = {dtype = p.values.dtype, device = p.values.device}
         padded[i] = {indices = p.indices,
            values = torch.cat({torch.zeros(left, of), p.values, torch.zeros(right, of)}, dense)}
      end
      local indices, values = join(padded)
      return V.coo(indices, values, size, false)
   end
   local indices, values = join(all, function(indices, i)
      indices = indices:clone()
      indices[dim]:add_(before[i])
      return indices
   end)
   local sorted = dim == 1
   for _, p in ipairs(all) do sorted = sorted and p.coalesced end
   return V.coo(indices, values, size, sorted)
end, false)

V.define("unsqueeze", function(s, dim)
   local p = V.parts(s)
   V.expect("unsqueeze", p, "sparse_coo")
   dim = V.dim("unsqueeze", dim, #p.size + 1)
   local sparse_dim, size = p.indices:size(1), table.move(p.size, 1, #p.size, 1, {})
   table.insert(size, dim, 1)
   if dim > sparse_dim + 1 then
      return V.coo(p.indices, p.values:unsqueeze(dim - sparse_dim + 1), size, p.coalesced)
   end
   local indices = p.indices
   local ones = torch.ones(1, indices:size(2), {dtype = "int64", device = indices.device})
   indices = torch.cat {indices:narrow(1, 1, dim - 1), ones, indices:narrow(1, dim,
      sparse_dim - dim + 1)}
   return V.coo(indices, p.values, size, p.coalesced)
end, true, 2)

V.define("stack", function(list, dim)
   local all, rows = parts_of_all("stack", list), {}
   if type(dim) == "table" then dim = dim.dim end
   for i, p in ipairs(all) do
      if not V.same(p.size, all[1].size) then
         torch.raise(("stack: tensors[%d]: expected shape %s, got %s"):format(i,
            V.shape_text(all[1].size), V.shape_text(p.size)))
      end
      rows[i] = V.operators.unsqueeze(list[i], dim or 1)
   end
   return V.operators.cat(rows, dim or 1)
end, false)

return true
