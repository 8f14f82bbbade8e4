-- value.lua - nested tensors as values of Lua: a dense tensor, `values`, in which the sequences lie
-- one after the other along one dimension, and a description of the rows at which the sequences
-- begin and end.

local torch = require "tlua"
local args = require "tlua.args"
local wrapped = require "tlua.wrapped"

local kind = wrapped.kind {
   title = "nested tensor", plural = "nested tensors",
   hint = "to_padded_tensor(padding), unbind() and values() give dense ones", main = "values",
   is_trainable = true, -- nested tensors may be parameters
}
local M = {kind = kind}
local define <const>, parts <const> = kind.define, kind.parts

--- Raises a formatted error at the user's line.
function M.fail(text, ...) torch.raise(text:format(...)) end

-- Raggedness --------------------------------------------------------------------------------------

-- Tensors whose sequences begin at the same rows and have the same lengths share one description:
--    name: string             how the ragged size is shown, such as j1
--    starts, lengths: integer[]  the first row and the number of rows of each sequence
--    last: integer            the closing offset
--    holes: boolean           whether there may be rows that belong to no sequence
--    total, most: integer     the sum of the lengths, and the largest one
--    least: integer           the smallest length; math.maxinteger without sequences
-- A description holds no tensors, so it outlives torch.scope and serves all devices.
---@alias nested.Ragged table

local known, count = setmetatable({}, {__mode = "v"}), 0

--- Returns the description of the rows of a nested tensor, which lie in one tensor of values. Equal
--- lists give the same table, as long as a nested tensor uses it.
---@param starts integer[]?  the first row of each sequence; without it each sequence follows the
--- one before
---@param lengths integer[]
---@param last integer?  the position after the last row, for `starts`
---@return nested.Ragged
function M.ragged(starts, lengths, last)
   local holes, total, most, least = starts ~= nil, 0, 0, math.maxinteger
   if not starts then starts = {} end
   for i, n in ipairs(lengths) do
      if not holes then starts[i] = total + 1 end
      total, most, least = total + n, math.max(most, n), math.min(least, n)
   end
   last = last or total + 1
   local key = table.concat(lengths, " ")
   if holes then key = ("%s|%s|%d"):format(key, table.concat(starts, " "), last) end
   local ragged = known[key]
   if not ragged then
      count = count + 1
      ragged = {name = "j" .. count, starts = starts, lengths = lengths, last = last, most = most,
         least = least, holes = holes, total = total}
      known[key] = ragged
   end
   return ragged
end

--- Makes a nested tensor.
---@param values Tensor
---@param ragged nested.Ragged
---@param dim integer  the ragged dimension; dimension 1 counts the sequences
---@return Tensor
function M.new(values, ragged, dim)
   local rows, own = values:size(dim - 1), ragged.last - 1
   if rows ~= own and (rows < own or not ragged.holes) then
      M.fail("nested tensor: values: expected %d rows, got %d; their size must not change", own,
         rows)
   end
   return kind.new {values = values, ragged = ragged, dim = dim}
end
function kind.like(p, values) return M.new(values, p.ragged, p.dim) end

--- Defines an operator with at most `most` arguments.
function M.define(names, most, fn, method)
   define(names, function(...)
      if select("#", ...) > most then
         M.fail("%s: expected at most %d arguments, got %d", names:match "%S+", most,
            select("#", ...))
      end
      return fn(...)
   end, method)
end

--- Returns a tensor of integers on a device.
function M.integers(list, device)
   return torch.tensor(list, {dtype = "int64", device = device})
end
local integers <const> = M.integers

-- Returns a tensor in which list[i] is repeated lengths[i] times. `total` is the number of all its
-- elements.
local function spread(list, lengths, total, device)
   return torch.repeat_interleave(integers(list, device), integers(lengths, device), nil,
      {output_size = total})
end

--- Returns the numbers of the rows that belong to the sequences listed in `order`, or to all
--- sequences.
---@param ragged nested.Ragged
---@param order integer[]?
function M.rows(ragged, order, device)
   local shift, lengths, total = {}, {}, 0
   for k = 1, #(order or ragged.lengths) do
      local i = order and order[k] or k
      shift[k], lengths[k] = ragged.starts[i] - 1 - total, ragged.lengths[i]
      total = total + lengths[k]
   end
   return spread(shift, lengths, total, device) + torch.arange(1, total + 1, {device = device})
end

--- Returns the components of a nested tensor whose values have no rows outside the sequences. They
--- are p itself if p has no such rows, and otherwise a copy.
function M.packed(p)
   if not p.ragged.holes then return p end
   local rows = M.rows(p.ragged, nil, p.values.device)
   return {values = p.values:index_select(p.dim - 1, rows), dim = p.dim,
      ragged = M.ragged(nil, p.ragged.lengths)}
end

--- Returns the number of the sequence for each row of the values. A row that is in no sequence is
--- given the number of the sequence before it, or 1 if there is none.
function M.owners(p)
   local ragged, rows, widths = p.ragged, p.values:size(p.dim - 1), p.ragged.lengths
   local list, b = {}, #p.ragged.starts
   if ragged.holes then widths = {} end
   for i = 1, b do
      list[i] = i
      if ragged.holes then
         local first = i == 1 and 1 or ragged.starts[i]
         widths[i] = (i < b and ragged.starts[i + 1] or rows + 1) - first
      end
   end
   return spread(list, widths, rows, p.values.device)
end

--- Returns, for each row of the values, its row in a padded batch whose first two dimensions
--- (batch, length) are merged. The values must have no rows outside the sequences.
function M.padded_rows(ragged, length, device)
   local starts = {}
   for i = 1, #ragged.lengths do starts[i] = (i - 1) * length + 1 end
   return M.rows({starts = starts, lengths = ragged.lengths}, nil, device)
end

--- Returns the dense tensor in which each sequence is padded to `length` rows.
function M.pad(p, padding, length)
   p = M.packed(p)
   local rows = p.values:movedim(p.dim - 1, 1)
   local b, sizes = #p.ragged.lengths, {table.unpack(rows.shape)}
   sizes[1] = b * length
   local full = torch.full(sizes, padding, {dtype = rows.dtype, device = rows.device})
   full = full:index_copy(1, M.padded_rows(p.ragged, length, rows.device), rows)
   sizes[1] = length
   return full:view({b, table.unpack(sizes)}):movedim(2, p.dim)
end

--- Returns the rows of a padded batch that are no padding, as the values of a nested tensor with
--- the ragged dimension `dim`.
function M.unpad(padded, ragged, dim)
   local rows = padded:movedim(dim, 2)
   local at = M.padded_rows(ragged, rows:size(2), padded.device)
   return rows:flatten(1, 2):index_select(1, at):movedim(1, dim - 1)
end

--- Returns the sequences as views of the values.
function M.sequences(p)
   local ragged, d = p.ragged, p.dim - 1
   if not ragged.holes then return p.values:split(ragged.lengths, d) end
   local pieces, at = {}, 1
   for i, n in ipairs(ragged.lengths) do
      pieces[2 * i - 1], pieces[2 * i] = ragged.starts[i] - at, n
      at = ragged.starts[i] + n
   end
   pieces[#pieces + 1] = p.values:size(d) + 1 - at
   local list = {}
   for i, piece in ipairs(p.values:split(pieces, d)) do
      if i % 2 == 0 then list[i // 2] = piece end
   end
   return list
end

-- Shapes ------------------------------------------------------------------------------------------

local Size <const> = {__metatable = false, __tostring = function(shape)
   return ("torch.Size([%s])"):format(table.concat(shape, ", "))
end}

--- Returns the sizes; the ragged one is a name such as "j1".
---@return (integer|string)[]
function M.shape(p)
   local shape = {#p.ragged.lengths}
   for d, n in ipairs(p.values.shape) do shape[d + 1] = d == p.dim - 1 and p.ragged.name or n end
   return setmetatable(shape, Size)
end

--- Returns the sizes as text, for messages.
function M.shown(p) return ("(%s)"):format(table.concat(M.shape(p), ", ")) end

--- Returns the dimension `dim` of n dimensions, which may be negative, as a number from 1.
function M.dim_of(who, dim, n, name)
   if math.type(dim) ~= "integer" or dim == 0 or dim > n or dim < -n then
      args.refuse(who, name or "dim", ("1 to %d or -%d to -1"):format(n, n), dim)
   end
   return dim < 0 and n + 1 + dim or dim
end

function kind.properties.shape(p) return M.shape(p) end
function kind.properties.ndim(p) return p.values.ndim + 1 end
function kind.properties.layout() return "jagged" end
function kind.properties.is_nested() return true end

function kind.length(p) return #p.ragged.lengths end
function kind.fits(p, q) return p.ragged == q.ragged and p.dim == q.dim end
function kind.same(p, q)
   return kind.fits(p, q)
      and table.concat(p.values.shape, " ") == table.concat(q.values.shape, " ")
end
kind.moved = kind.like

function kind.text(p)
   local more = p.values.requires_grad and ", requires_grad=True" or ""
   if p.values.grad_fn then more = (", grad_fn=%s"):format(p.values.grad_fn) end
   return ("NestedTensor(size=%s, offsets=%s%s, contiguous=%s)"):format(M.shown(p),
      tostring(M.offsets(p, "cpu")), more, M.is_contiguous(p) and "True" or "False")
end

function M.offsets(p, device)
   local list = table.move(p.ragged.starts, 1, #p.ragged.starts, 1, {})
   list[#list + 1] = p.ragged.last
   return integers(list, device or p.values.device)
end
function M.is_contiguous(p) return not p.ragged.holes and p.values:is_contiguous() end

M.define("size", 2, function(x, dim)
   local shape = M.shape(parts(x))
   if dim == nil then return shape end
   return shape[M.dim_of("size", dim, #shape)]
end)
M.define("dim ndimension", 1, function(x) return parts(x).values:dim() + 1 end)
M.define("numel nelement", 1, function(x)
   local p = parts(x)
   local rows = p.values:size(p.dim - 1)
   return rows == 0 and 0 or p.values:numel() // rows * p.ragged.total
end)
M.define("is_contiguous", 2, function(x) return M.is_contiguous(parts(x)) end)
M.define("values", 1, function(x) return parts(x).values end)
M.define("offsets", 1, function(x) return M.offsets(parts(x)) end)
M.define("lengths", 1, function(x)
   local p = parts(x)
   return p.ragged.holes and integers(p.ragged.lengths, p.values.device) or nil
end)
M.define("release", 1, function(x) parts(x).values:release() end)
M.define("contiguous", 2, function(x)
   local p = M.packed(parts(x))
   return M.new(p.values:contiguous(), p.ragged, p.dim)
end)
M.define("unbind", 2, function(x, dim)
   local p = parts(x)
   local d = M.dim_of("unbind", dim or 1, p.values:dim() + 1)
   if d == 1 then return M.sequences(p) end
   if d == p.dim then
      torch.raise "unbind: dim: expected a dimension that is not ragged"
   end
   local list = p.values:unbind(d - 1)
   for i, values in ipairs(list) do
      list[i] = M.new(values, p.ragged, d < p.dim and p.dim - 1 or p.dim)
   end
   return list
end)
M.define("tolist", 1, function(x)
   local list = M.sequences(parts(x))
   for i, sequence in ipairs(list) do list[i] = sequence:tolist() end
   return list
end)
M.define("item", 1, function(x)
   local values = M.packed(parts(x)).values
   return values:item()
end)
define("to_padded_tensor", function(...) return torch.nested.to_padded_tensor(...) end)
define("backward", function(x, gradient, ...)
   local p, options = parts(x), nil
   if type(gradient) == "table" then
      options = {}
      for key, value in pairs(gradient) do options[key] = value end
      gradient, options.gradient = options.gradient, nil
   end
   local q = parts(gradient)
   if not (q and kind.same(p, q)) then
      args.refuse("backward", "gradient", "a nested tensor of the shape " .. M.shown(p), gradient)
   end
   if options then
      options.gradient = q.values
      return p.values:backward(options)
   end
   return p.values:backward(q.values, ...)
end)

return M
