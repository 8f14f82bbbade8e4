-- make.lua - makes nested tensors, and pads them to dense tensors.

local torch = require "tlua"
local args = require "tlua.args"
local V = require "tlua.nested.value"
require "tlua.nested.shapes"
require "tlua.nested.operators"
require "tlua.nested.products"
require "tlua.nested.layers"
require "tlua.nested.assign"

local M = {}
local fail <const>, parts <const> = V.fail, V.kind.parts

-- Raises an error if x is a nested, sparse or masked tensor.
local function dense(who, name, x)
   if torch._wrapped_parts(x, getmetatable(x)) or torch._sparse_parts(x) then
      args.refuse(who, name, "a dense tensor", x)
   end
   return x
end

local function check_layout(who, layout)
   if layout ~= "jagged" then
      fail('%s: layout: expected "jagged", the one layout of nested tensors here, got %s', who,
         args.describe(layout))
   end
end

-- Converts the elements of a list to tensors with `make`.
local function list_of(who, name, list, make)
   local n, most = 0, 0
   for key in pairs(list) do
      if math.type(key) ~= "integer" or key < 1 then
         args.refuse(who, name, "a list of tensors", list)
      end
      n, most = n + 1, math.max(most, key)
   end
   if n == 0 then fail("%s: %s: expected at least one tensor", who, name) end
   local tensors = {}
   for i = 1, most do
      local title = ("%s[%d]"):format(name, i)
      if list[i] == nil then fail("%s: %s: expected a tensor, got nil", who, title) end
      local x = torch.is_tensor(list[i]) and list[i] or make(title, list[i])
      tensors[i] = dense(who, title, x)
      if x:dim() == 0 then fail("%s: %s: has no dimensions", who, title) end
   end
   return tensors
end

-- Returns the only dimension in which the tensors' sizes differ, or the first one if they do not
-- differ.
local function ragged_dim(who, name, list)
   local first, at = list[1], nil
   for i, x in ipairs(list) do
      local function refuse(what, expected, got)
         fail("%s: %s[%d]: expected the %s of the first tensor, %s, got %s", who, name, i, what,
            expected, got)
      end
      if x:dim() ~= first:dim() then refuse("number of dimensions", first:dim(), x:dim()) end
      if x.dtype ~= first.dtype then refuse("dtype", first.dtype, x.dtype) end
      if x.device ~= first.device then refuse("device", first.device, x.device) end
      for d = 1, x:dim() do
         if x:size(d) ~= first:size(d) then
            if at and at ~= d then
               fail("%s: %s[%d]: sizes may differ in one dimension, and those of dimensions %d and "
                  .. "%d do", who, name, i, math.min(at, d), math.max(at, d))
            end
            at = d
         end
      end
   end
   return at or 1
end

-- Makes a nested tensor of a list of tensors.
local function join(who, name, list, a)
   local d = ragged_dim(who, name, list)
   local lengths = {}
   for i, x in ipairs(list) do lengths[i] = x:size(d) end
   local values = torch.cat(list, d):to {dtype = a.dtype or list[1].dtype,
      device = a.device or list[1].device}
   return values, V.ragged(nil, lengths), d + 1
end

local take = args.signature [[nested.nested_tensor(tensor_list: names, dtype: string?,
   layout: string = 'jagged', device: device?, requires_grad: boolean = false)]]

--- Makes a nested tensor of copies of tensors, or tables of numbers, whose sizes differ in one
--- dimension at most: a batch of sequences, which lie one after the other without padding. Offsets
--- count from 1, and the ragged size has a name, such as j1, the same for all batches of the same
--- lengths.
---
---     local x = torch.nested.nested_tensor {torch.ones(3, 2), torch.ones(1, 2)}
---     print(x:sum(2), x:offsets())
---     --> tensor([[3., 3.],
---     -->         [1., 1.]])	tensor([1, 4, 5])
---@param tensor_list (Tensor|table)[]  the sequences
---@param options? {dtype?: string, layout?: string, device?: string|torch.device,
--- requires_grad?: boolean}
--- layout: "jagged", the one layout there is
---@return Tensor
function M.nested_tensor(...)
   local who <const> = "nested.nested_tensor"
   local a = take(...)
   check_layout(who, a.layout)
   local list = list_of(who, "tensor_list", a.tensor_list, function(title, value)
      if type(value) ~= "table" and type(value) ~= "number" then
         args.refuse(who, title, "a tensor or a table of numbers", value)
      end
      return torch.tensor(value, {dtype = a.dtype, device = a.device})
   end)
   for i, x in ipairs(list) do list[i] = x:detach() end
   local values, ragged, dim = join(who, "tensor_list", list, a)
   if a.requires_grad then values:requires_grad_() end
   return V.new(values, ragged, dim)
end

local take_as = args.signature [[nested.as_nested_tensor(ts: tensor|names, dtype: string?,
   layout: string = 'jagged', device: device?)]]

--- Makes a nested tensor from tensors that receive its gradients.
---
---     local x = torch.ones(2):requires_grad_()
---     local y = torch.nested.as_nested_tensor {x, torch.ones(3)}
---     y:sum():backward()
---     print(x.grad)
---     --> tensor([1., 1.])
---@param ts Tensor[]|Tensor  a dense tensor is a batch of sequences of the same length; a nested
--- tensor is returned unchanged, or converted to another dtype or device
---@param options? {dtype?: string, layout?: string, device?: string|torch.device}
--- layout: "jagged", the one layout there is
---@return Tensor
function M.as_nested_tensor(...)
   local who <const> = "nested.as_nested_tensor"
   local a = take_as(...)
   check_layout(who, a.layout)
   local ts = a.ts
   if not torch.is_tensor(ts) then
      return V.new(join(who, "ts", list_of(who, "ts", ts, function(title, value)
         args.refuse(who, title, "a tensor", value)
      end), a))
   end
   if a.dtype then ts = ts:to(a.dtype) end
   if a.device then ts = ts:to(a.device) end
   if parts(ts) then return ts end
   dense(who, "ts", ts)
   if ts:dim() < 2 then args.refuse(who, "ts", "a tensor of at least 2 dimensions", ts) end
   local lengths = {}
   for i = 1, ts:size(1) do lengths[i] = ts:size(2) end
   return V.new(ts:contiguous():flatten(1, 2), V.ragged(nil, lengths), 2)
end

-- Converts a tensor of one dimension to a list of integers.
local function to_list(who, name, x, values)
   dense(who, name, x)
   if x:dim() ~= 1 or x.dtype ~= "int64" and x.dtype ~= "int32" then
      args.refuse(who, name, "a tensor of int64 with one dimension", x)
   end
   if x.device ~= values.device then
      fail("%s: %s: expected the device of the values, %s, got %s", who, name, values.device,
         x.device)
   end
   return x:tolist()
end

local function check_lengths(who, name, list, rows)
   for i, n in ipairs(list) do
      if n < 0 or n > rows then
         fail("%s: %s[%d]: expected 0 to %d, got %d", who, name, i, rows, n)
      end
   end
end

local take_jagged = args.signature [[nested.nested_tensor_from_jagged(values: tensor,
   offsets: tensor?, lengths: tensor?, jagged_dim: integer = 2, min_seqlen: count?,
   max_seqlen: count?)]]

--- Makes a nested tensor that is a view of values, in which sequences lie one after the other.
---
---     local values = torch.arange(12.0):view(6, 2)
---     local offsets = torch.tensor {1, 3, 3, 7}
---     local x = torch.nested.nested_tensor_from_jagged(values, offsets)
---     print(x:mean(2))
---     --> tensor([[1., 2.],
---     -->         [nan, nan],
---     -->         [7., 8.]])
---@param values Tensor  (rows, ...)
---@param offsets? Tensor  (batch + 1), int64: the first row of each sequence, which counts from 1,
--- and one past the last row
---@param lengths? Tensor  (batch): without offsets, the lengths of adjacent sequences; with
--- offsets, the lengths of sequences that may have holes between them
---@param jagged_dim? integer  the ragged dimension, 2 unless given; 1 is the batch
---@param min_seqlen? integer  checked to be at most the smallest length
---@param max_seqlen? integer  checked to be at least the largest length
---@return Tensor
function M.nested_tensor_from_jagged(...)
   local who <const> = "nested.nested_tensor_from_jagged"
   local a = take_jagged(...)
   local values, n = dense(who, "values", a.values), a.values:dim()
   if n == 0 then args.refuse(who, "values", "a tensor of at least one dimension", values) end
   local dim = V.dim_of(who, a.jagged_dim, n + 1, "jagged_dim")
   if dim == 1 then torch.raise(who .. ": jagged_dim: dimension 1, the batch, cannot be ragged") end
   if not (a.offsets or a.lengths) then
      torch.raise(who .. ": expected offsets, lengths or both, got neither")
   end
   local rows = values:size(dim - 1)
   local lengths = a.lengths and to_list(who, "lengths", a.lengths, values)
   if lengths then check_lengths(who, "lengths", lengths, rows) end
   local ragged
   if a.offsets then
      local offsets = to_list(who, "offsets", a.offsets, values)
      local b = #offsets - 1
      if b < 0 then args.refuse(who, "offsets", "at least one offset", a.offsets) end
      local function refuse(i, expected)
         fail("%s: offsets[%d]: expected %s, got %d", who, i, expected, offsets[i])
      end
      for i = 1, b + 1 do
         local least = i == 1 and 1 or offsets[i - 1]
         if i == 1 and not lengths and offsets[1] ~= 1 then refuse(1, "1, the first row") end
         if offsets[i] < least then refuse(i, ("at least %d"):format(least)) end
         if offsets[i] > rows + 1 then
            refuse(i, ("at most %d, one past the last row of the values"):format(rows + 1))
         end
      end
      if not lengths then
         if offsets[b + 1] ~= rows + 1 then
            refuse(b + 1, ("%d, one past the last row of the values"):format(rows + 1))
         end
         lengths = {}
         for i = 1, b do lengths[i] = offsets[i + 1] - offsets[i] end
         ragged = V.ragged(nil, lengths)
      else
         if #lengths ~= b or b == 0 then
            fail("%s: lengths: expected %d, one fewer than offsets and at least 1, got %d", who, b,
               #lengths)
         end
         for i, length in ipairs(lengths) do
            local room = offsets[i + 1] - offsets[i]
            if length > room then
               fail("%s: lengths[%d]: expected at most %d, the distance to the next offset, got %d",
                  who, i, room, length)
            end
         end
         local last = table.remove(offsets)
         ragged = V.ragged(offsets, lengths, last)
      end
   else
      ragged = V.ragged(nil, lengths)
      if ragged.total ~= rows then
         fail("%s: lengths: expected a sum of %d, the number of rows, got %d", who, rows,
            ragged.total)
      end
   end
   if a.min_seqlen and a.min_seqlen > ragged.least then
      fail("%s: min_seqlen: expected at most the smallest length, %d, got %d", who, ragged.least,
         a.min_seqlen)
   end
   if a.max_seqlen and a.max_seqlen < ragged.most then
      fail("%s: max_seqlen: expected at least the largest length, %d, got %d", who, ragged.most,
         a.max_seqlen)
   end
   return V.new(values, ragged, dim)
end

local take_narrow = args.signature [[nested.narrow(tensor: tensor, dim: dim, start: integer|tensor,
   length: integer|tensor, layout: string = 'jagged')]]

--- Makes a nested tensor that holds, for each element of a batch, `length` rows beginning at row
--- `start`. If the tensor is contiguous, the result is a view of the tensor, with gaps between the
--- sequences.
---
---     local x, lengths = torch.arange(8):view(2, 4), torch.tensor {3, 1}
---     local y = torch.nested.narrow(x, 2, torch.tensor {1, 3}, lengths)
---     print(table.unpack(y:unbind()))
---     --> tensor([0, 1, 2])	tensor([6])
---@param tensor Tensor  (batch, rows, ...)
---@param dim integer  2, the one dimension that can be narrowed
---@param start integer|Tensor  the first row, from 1; a tensor (batch) has one number for each
--- element
---@param length integer|Tensor  the number of rows; a tensor (batch) has one number for each
--- element
---@param options? {layout?: string}
--- layout: "jagged", the one layout there is
---@return Tensor
function M.narrow(...)
   local who <const> = "nested.narrow"
   local a = take_narrow(...)
   check_layout(who, a.layout)
   local x = dense(who, "tensor", a.tensor)
   if x:dim() < 2 or x:size(1) == 0 then
      args.refuse(who, "tensor", "a batch of tensors with at least one dimension", x)
   end
   if V.dim_of(who, a.dim, x:dim()) ~= 2 then args.refuse(who, "dim", "2", a.dim) end
   local b, rows = x:size(1), x:size(2)
   local function each(name)
      local given = a[name]
      local list = torch.is_tensor(given) and to_list(who, name, given, x) or {}
      if not torch.is_tensor(given) then
         for i = 1, b do list[i] = given end
      elseif #list ~= b then
         fail("%s: %s: expected %d, the size of the batch, got %d", who, name, b, #list)
      end
      return list
   end
   local starts, lengths = each "start", each "length"
   check_lengths(who, "length", lengths, rows)
   for i, start in ipairs(starts) do
      if start < 1 or start > rows + 1 - lengths[i] then
         fail("%s: element %d: %d rows from row %d on are outside 1 to %d", who, i, lengths[i],
            start, rows)
      end
      starts[i] = (i - 1) * rows + start
   end
   return V.new(x:flatten(1, 2), V.ragged(starts, lengths, starts[b] + lengths[b]), 2)
end

local take_select = args.signature "nested.masked_select(tensor: tensor, mask: tensor)"

--- Makes a nested tensor of the elements at which the mask is true, a sequence for each row along
--- the last dimension.
---
---     local x = torch.tensor {{1, 5}, {7, 2}}
---     print(table.unpack(torch.nested.masked_select(x, x:gt(4)):unbind()))
---     --> tensor([5])	tensor([7])
---@param tensor Tensor
---@param mask Tensor  of bool, broadcast to the tensor's shape
---@return Tensor
function M.masked_select(...)
   local who <const> = "nested.masked_select"
   local a = take_select(...)
   local x, mask = dense(who, "tensor", a.tensor), dense(who, "mask", a.mask)
   if mask.dtype ~= "bool" then args.refuse(who, "mask", "a tensor of bool", mask) end
   if x:dim() == 0 then args.refuse(who, "tensor", "a tensor of at least one dimension", x) end
   local fits, wide = pcall(mask.expand, mask, x.shape)
   if not fits then
      fail("%s: mask: shape (%s) does not broadcast to the tensor's shape (%s)", who,
         table.concat(mask.shape, ", "), table.concat(x.shape, ", "))
   end
   return V.new(x:masked_select(wide), V.ragged(nil, wide:sum(-1):reshape(-1):tolist()), 2)
end

local take_padded = args.signature [[nested.to_padded_tensor(input: tensor, padding: number,
   output_size: integers?)]]

--- Makes a dense tensor, in which each sequence is padded to the length of the longest one.
---
---     local x = torch.nested.nested_tensor {{1, 2, 3}, {4}}
---     print(torch.nested.to_padded_tensor(x, 0))
---     --> tensor([[1, 2, 3],
---     -->         [4, 0, 0]])
---@param input Tensor  a nested tensor
---@param padding number
---@param output_size? integer[]  larger sizes, to which all dimensions are padded
---@return Tensor
function M.to_padded_tensor(...)
   local who <const> = "nested.to_padded_tensor"
   local a = take_padded(...)
   local p = parts(a.input)
   if not p then args.refuse(who, "input", "a nested tensor", a.input) end
   local size, length, values = a.output_size, p.ragged.most, p.values
   if not math.tointeger(a.padding)
      and not (values:is_floating_point() or values:is_complex()) then
      args.refuse(who, "padding", "an integer, as the dtype is " .. values.dtype, a.padding)
   end
   if not size then return V.pad(p, a.padding, length) end
   local shape = V.shape(p)
   shape[p.dim] = length
   local shown, more, extra = table.concat(shape, ", "), {}, false
   if #size ~= #shape then
      fail("%s: output_size: expected %d sizes, got (%s)", who, #shape, table.concat(size, ", "))
   end
   local bytes = values:element_size() + 0.0
   for d, n in ipairs(shape) do
      if size[d] < n then
         fail("%s: output_size: expected at least (%s), got (%s)", who, shown, table.concat(size,
            ", "))
      end
      bytes = bytes * size[d]
      local missing = d ~= p.dim and size[d] - n or 0
      table.move({0, missing}, 1, 2, 2 * (#shape - d) + 1, more)
      extra = extra or missing > 0
   end
   if bytes >= 2.0 ^ 63 then
      fail("%s: output_size: expected less than 2^63 bytes in all, got (%s)", who,
         table.concat(size, ", "))
   end
   local padded = V.pad(p, a.padding, size[p.dim])
   return extra and torch.nn.functional.pad(padded, more, {value = a.padding}) or padded
end

return M
