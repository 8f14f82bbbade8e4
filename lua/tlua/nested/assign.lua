-- assign.lua - index_put and assignments to elements of nested tensors.

local torch = require "tlua"
local args = require "tlua.args"
local V = require "tlua.nested.value"

local fail <const>, kind <const> = V.fail, V.kind
local parts <const> = kind.parts

-- Raises an error unless all of a tensor's positions lie between 1 and `most`.
local function check_positions(who, d, positions, most)
   if not (positions:ge(1) & positions:le(most)):all():item() then
      args.refuse(who, ("indices[%d]"):format(d), d == 1 and "positions in the batch, from 1 on"
         or "positions in the sequences, from 1 on", positions)
   end
end

-- Converts the indices of a nested tensor's dimensions, from the batch to the ragged dimension
-- p.dim, to indices of the dimensions of p.values.
local function row_indices(who, p, indices)
   local device, ragged = p.values.device, p.ragged
   local batch, rows = table.unpack(torch.broadcast_tensors(indices[1], indices[p.dim]))
   check_positions(who, 1, batch, #ragged.lengths)
   check_positions(who, p.dim, rows, V.integers(ragged.lengths, device)[batch])
   local list = {}
   for d = 2, #indices do list[d - 1] = indices[d] end
   list[p.dim - 1] = V.integers(ragged.starts, device)[batch] + rows - 1
   return list
end

-- Returns the values of the nested tensor x after index_put has assigned to some of its elements.
local function put(who, x, indices, values, ...)
   local p = parts(x)
   if not p then kind.unsupported(who .. " with nested indices or values") end
   if parts(values) then kind.unsupported(who .. " with nested values") end
   if type(indices) ~= "table" or #indices == 0 then
      args.refuse(who, "indices", "a list of tensors", indices)
   elseif #indices > p.values:dim() + 1 then
      args.refuse(who, "indices", ("at most %d tensors"):format(p.values:dim() + 1), #indices)
   end
   for d, index in ipairs(indices) do
      if not torch.is_tensor(index) or args.kind_of(index) or index.dtype == "bool"
         or index:is_floating_point() then
         args.refuse(who, ("indices[%d]"):format(d), "a tensor of integers", index)
      end
   end
   if #indices >= p.dim then
      return p.values:index_put(row_indices(who, p, indices), values, ...)
   end
   if p.ragged.holes then
      fail("%s: would change rows outside the sequences; unbind() gives the sequences", who)
   end
   local padded = V.pad(p, p.values.dtype ~= "bool" and 0, p.ragged.most)
   return V.unpad(padded:index_put(indices, values, ...), p.ragged, p.dim)
end

V.define("index_put", 4, function(x, ...)
   return kind.like(parts(x), put("index_put", x, ...))
end)
V.define("index_put_", 4, function(x, ...)
   local changed = put("index_put_", x, ...)
   parts(x).values:copy_(changed)
   return x
end)

-- Assigns to a sequence, to elements of a sequence, to dense dimensions of all sequences, or where
-- a nested mask is true.
kind.operators.__newindex = function(x, key, value)
   local p = parts(x)
   if parts(key) then
      if torch.is_tensor(value) and (args.kind_of(value) or value:numel() ~= 1) then
         args.refuse("index", "value", "a number, as the index is a mask", value)
      end
      return kind.methods.masked_fill_(x, key, value)
   end
   local place = x[key]
   local q = parts(place)
   local fits = q and parts(value) or torch.is_tensor(value) and not args.kind_of(value)
   if not (fits or type(value) == "number" or type(value) == "boolean") then
      args.refuse("index", "value", q and "a number or a tensor" or "a number or a dense tensor",
         value)
   elseif q and p.ragged.holes then
      fail "index: would change rows outside the sequences; unbind() gives the sequences"
   end
   if not torch.is_tensor(value) then
      value = torch.full({}, value, {dtype = p.values.dtype, device = p.values.device})
   end
   if q then kind.methods.copy_(place, value) else place:copy_(value) end
end
