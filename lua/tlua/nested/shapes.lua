-- shapes.lua - views of nested tensors, indexing, and joining. The batch stays the first dimension,
-- and no view mixes the ragged dimension with another one.

local torch = require "tlua"
local args = require "tlua.args"
local V = require "tlua.nested.value"

local fail <const>, kind <const> = V.fail, V.kind
local define <const>, parts <const> = kind.define, kind.parts

-- Returns the components of the nested tensor x, the dimension `dim` as a number from 1, and the
-- number of dimensions of x. `more` is 1 if `dim` may be one larger than that.
local function read(who, x, dim, name, more)
   local p = parts(x)
   if not p then kind.unsupported(who) end
   local n = p.values:dim() + 1
   return p, V.dim_of(who, dim, n + (more or 0), name), n
end

local function refuse_batch(who, name)
   fail("%s: %s: is not defined along dimension 1, the batch, of nested tensors", who,
      name or "dim")
end
local function refuse_ragged(who, p)
   fail("%s: is not defined along the ragged dimension, %d, of nested tensors", who, p.dim)
end

-- Raises an error if `dim` is the batch dimension or the ragged dimension.
local function dense_dim(who, x, dim, name)
   local p, d, n = read(who, x, dim, name)
   if d == 1 then refuse_batch(who, name) end
   if d == p.dim then refuse_ragged(who, p) end
   return p, d, n
end

V.define("transpose swapaxes swapdims", 3, function(x, dim0, dim1)
   local p, a = read("transpose", x, dim0, "dim0")
   local _, b = read("transpose", x, dim1, "dim1")
   if a == b then return x end
   if a == 1 or b == 1 then refuse_batch("transpose", a == 1 and "dim0" or "dim1") end
   local dim = p.dim == a and b or p.dim == b and a or p.dim
   return V.new(p.values:transpose(a - 1, b - 1), p.ragged, dim)
end)

define("permute", function(x, ...)
   local dims = type((...)) == "table" and ... or {...}
   local p, n = parts(x), #dims
   if n ~= p.values:dim() + 1 then
      args.refuse("permute", "dims", ("%d dimensions"):format(p.values:dim() + 1), dims)
   end
   local inner, dim = {}, nil
   for i = 1, n do
      local d = V.dim_of("permute", dims[i], n, "dims")
      if (d == 1) ~= (i == 1) then refuse_batch("permute", "dims") end
      if i > 1 then inner[i - 1] = d - 1 end
      if d == p.dim then dim = i end
   end
   return V.new(p.values:permute(inner), p.ragged, dim)
end)

V.define("unsqueeze", 2, function(x, dim)
   local p, d = read("unsqueeze", x, dim, "dim", 1)
   if d == 1 then refuse_batch "unsqueeze" end
   return V.new(p.values:unsqueeze(d - 1), p.ragged, d <= p.dim and p.dim + 1 or p.dim)
end)
V.define("squeeze", 2, function(x, dim)
   local p, d = dense_dim("squeeze", x, dim)
   local values = p.values:squeeze(d - 1)
   return V.new(values, p.ragged, d < p.dim and p.dim - (p.values:dim() - values:dim()) or p.dim)
end)

V.define("flatten", 3, function(x, start_dim, end_dim)
   local p, a = read("flatten", x, start_dim or 1, "start_dim")
   local _, b = read("flatten", x, end_dim or -1, "end_dim")
   if a == b then return x end
   if a == 1 then refuse_batch("flatten", "start_dim") end
   if a <= p.dim and p.dim <= b then refuse_ragged("flatten", p) end
   return V.new(p.values:flatten(a - 1, b - 1), p.ragged, b < p.dim and p.dim - (b - a) or p.dim)
end)
V.define("unflatten", 3, function(x, dim, sizes)
   local p, d = dense_dim("unflatten", x, dim)
   local values = p.values:unflatten(d - 1, sizes)
   return V.new(values, p.ragged, d < p.dim and p.dim + values:dim() - p.values:dim() or p.dim)
end)

-- Moves one dimension, or several, to other positions.
V.define("movedim moveaxis", 3, function(x, source, destination)
   local p = parts(x)
   if not p then kind.unsupported "movedim" end
   local n, from, to = p.values:dim() + 1, {}, {}
   local places = type(destination) == "table" and destination or {destination}
   for i, dim in ipairs(type(source) == "table" and source or {source}) do
      from[i], to[i] = V.dim_of("movedim", dim, n, "source"),
         V.dim_of("movedim", places[i], n, "destination")
   end
   if #from == 0 or #places ~= #from then
      args.refuse("movedim", "destination", ("%d dimensions, as source has"):format(#from),
         destination)
   end
   local at, taken, order, rest = {}, {}, {}, {}
   for i, d in ipairs(from) do
      if taken[d] or at[to[i]] then fail("movedim: a dimension is given twice") end
      taken[d], at[to[i]] = true, d
   end
   for d = n, 1, -1 do
      if not taken[d] then rest[#rest + 1] = d end
   end
   for d = 1, n do order[d] = at[d] or table.remove(rest) end
   if order[1] ~= 1 then refuse_batch("movedim", "source") end
   return kind.methods.permute(x, order)
end)

-- Expands dense dimensions of a nested tensor by expanding its values. The batch size and the
-- ragged size cannot change.
define("expand broadcast_to", function(x, ...)
   local first = ...
   local sizes = (type(first) == "table" or torch._is_size(first)) and first or {...}
   local p = parts(x)
   if not p then kind.unsupported "expand to a nested shape" end
   local shape, inner = V.shape(p), {}
   for d = 1, #shape do
      local size, own = sizes[d], shape[d]
      local kept = size == own or size == -1
      if d == 1 or d == p.dim then
         inner[d - 1] = -1
      else
         inner[d - 1], kept = size, kept or own == 1 and math.type(size) == "integer" and size >= 0
      end
      if not kept or #sizes ~= #shape then
         local shown = {}
         for i = 1, #sizes do shown[i] = tostring(sizes[i]) end
         fail("expand: sizes: (%s) do not fit the shape %s", table.concat(shown, ", "), V.shown(p))
      end
   end
   inner[0] = nil
   return V.new(p.values:expand(inner), p.ragged, p.dim)
end)
for _, name in ipairs {"expand_as", "view_as", "reshape_as"} do
   V.define(name, 2, function(x, other)
      local p, q = parts(x), parts(other)
      if not (p and q) or p.ragged ~= q.ragged then
         fail("%s: expected two nested tensors of the same raggedness, got %s and %s", name,
            args.describe(x), args.describe(other))
      end
      return kind.methods[name == "expand_as" and "expand" or "view"](x, V.shape(q))
   end)
end
V.define("is_same_size", 2, function(x, other)
   local p, q = parts(x), parts(other)
   if not torch.is_tensor(other) then args.refuse("is_same_size", "other", "a tensor", other) end
   return p ~= nil and q ~= nil and kind.same(p, q)
end)
function kind.properties.mT(p)
   local n = p.values:dim() + 1
   if n < 3 then fail("mT: expected at least 3 dimensions, got the shape %s", V.shown(p)) end
   return kind.methods.transpose(kind.like(p, p.values), -2, -1)
end

V.define("diff", 3, function(x, n, dim)
   local p, d = dense_dim("diff", x, dim or -1)
   return kind.like(p, p.values:diff(n or 1, d - 1))
end)

define("view reshape", function(x, ...)
   local sizes = type((...)) == "table" and ... or {...}
   local p = parts(x)
   local shape, at = V.shape(p), nil
   local function refuse()
      local shown = {}
      for i = 1, #sizes do shown[i] = tostring(sizes[i]) end
      fail("view: sizes: (%s) do not fit the shape %s; the batch comes first, and no size is moved "
         .. "past the ragged one", table.concat(shown, ", "), V.shown(p))
   end
   if sizes[1] ~= shape[1] then refuse() end
   for i = 2, #sizes do
      if sizes[i] == p.ragged.name then at = i end
   end
   for i = 2, #sizes do
      if not at and sizes[i] == -1 then at = i end
   end
   if not at then refuse() end
   local inner, outer, left, open = {}, 1, 1, false
   for i = 2, #sizes do
      inner[i - 1] = i == at and p.values:size(p.dim - 1) or sizes[i]
      if i < at then
         if sizes[i] == -1 then open = true else left = left * sizes[i] end
      end
   end
   for d = 2, p.dim - 1 do outer = outer * shape[d] end
   local fits = left == outer or open and left > 0 and outer % left == 0
   local made, values = pcall(p.values.reshape, p.values, inner)
   if not (fits and made) then refuse() end
   return V.new(values, p.ragged, at)
end)

-- Parts -------------------------------------------------------------------------------------------

-- Returns a nested tensor of the sequences from `first` to `last`.
local function batch_range(p, first, last)
   local ragged = p.ragged
   local lengths = table.move(ragged.lengths, first, last, 1, {})
   if ragged.holes then
      return V.new(p.values, V.ragged(table.move(ragged.starts, first, last, 1, {}), lengths,
         ragged.starts[last + 1] or ragged.last), p.dim)
   end
   local new = V.ragged(nil, lengths)
   return V.new(p.values:narrow(p.dim - 1, ragged.starts[first] or 1, new.total), new, p.dim)
end

local function position(who, i, n, name)
   if math.type(i) ~= "integer" or i == 0 or i > n or i < -n then
      args.refuse(who, name, ("a position from 1 to %d or -%d to -1"):format(n, n), i)
   end
   return i < 0 and n + 1 + i or i
end

local function sequence(p, i)
   local ragged = p.ragged
   return p.values:narrow(p.dim - 1, ragged.starts[i], ragged.lengths[i])
end

V.define("select", 3, function(x, dim, index)
   local p, d = read("select", x, dim)
   if d == 1 then return sequence(p, position("select", index, #p.ragged.lengths, "index")) end
   if d == p.dim then refuse_ragged("select", p) end
   return V.new(p.values:select(d - 1, index), p.ragged, d < p.dim and p.dim - 1 or p.dim)
end)

V.define("narrow", 4, function(x, dim, start, length)
   local p, d = read("narrow", x, dim)
   if d == p.dim then refuse_ragged("narrow", p) end
   if d > 1 then return kind.like(p, p.values:narrow(d - 1, start, length)) end
   local b = #p.ragged.lengths
   if math.type(length) ~= "integer" or length < 1 or length > b then
      args.refuse("narrow", "length", ("1 to %d"):format(b), length)
   end
   local first = position("narrow", start, b, "start")
   if first + length - 1 > b then
      args.refuse("narrow", "length", ("at most %d from start %d on"):format(b + 1 - first, first),
         length)
   end
   return batch_range(p, first, first + length - 1)
end)

V.define("split split_with_sizes", 3, function(x, size, dim)
   local p, d = read("split", x, dim or 1)
   if d == p.dim then refuse_ragged("split", p) end
   local list, sizes, b = {}, size, #p.ragged.lengths
   if d > 1 then
      for i, values in ipairs(p.values:split(size, d - 1)) do list[i] = kind.like(p, values) end
      return list
   end
   if math.type(size) == "integer" and size > 0 then
      sizes = {}
      for at = 1, b, size do sizes[#sizes + 1] = math.min(size, b + 1 - at) end
   end
   local at = 1
   for i, n in ipairs(type(sizes) == "table" and sizes or {}) do
      if math.type(n) ~= "integer" or n < 1 then break end
      list[i] = at + n - 1 <= b and batch_range(p, at, at + n - 1) or nil
      at = at + n
   end
   if at ~= b + 1 then
      args.refuse("split", "split_size", ("positive sizes with a sum of %d"):format(b), size)
   end
   return list
end)
V.define("chunk", 3, function(x, chunks, dim)
   local p, d = read("chunk", x, dim or 1)
   if d == p.dim then refuse_ragged("chunk", p) end
   if math.type(chunks) ~= "integer" or chunks < 1 then
      args.refuse("chunk", "chunks", "an integer of at least 1", chunks)
   end
   local n = d == 1 and #p.ragged.lengths or p.values:size(d - 1)
   return kind.methods.split(x, math.max(1, (n + chunks - 1) // chunks), d)
end)

V.define("tensor_split", 3, function(x, sections, dim)
   local p, d = dense_dim("tensor_split", x, dim or 1)
   local list = p.values:tensor_split(sections, d - 1)
   for i, values in ipairs(list) do list[i] = kind.like(p, values) end
   return list
end)

kind.operators.__index = function(x, key)
   local p = parts(x)
   local list = type(key) == "table" and key or {key}
   local first, rest = list[1], table.move(list, 2, #list, 1, {})
   local b = #p.ragged.lengths
   if math.type(first) == "integer" then
      local row = sequence(p, position("index", first, b, "item 1"))
      if #rest == 0 then return row end
      return row[rest]
   end
   if first == nil then args.refuse("index", "item 1", "a position or {first, last}", key) end
   local items, at = {}, p.dim
   for i = 1, #list do
      local item = list[i]
      local range = type(item) == "table"
      local fits = range and not torch.is_tensor(item) or math.type(item) == "integer"
      if i == p.dim then fits = range and next(item) == nil end
      if not fits then
         args.refuse("index", ("item %d"):format(i), i == p.dim and "{}, as the dimension is ragged"
            or "a position or {first, last, step}", item)
      end
      if i > 1 then items[i - 1] = item end
      if not range and i < p.dim then at = at - 1 end
   end
   if next(first) then
      local from = position("index", first[1], b, "item 1")
      local to = first[2] == nil and b or position("index", first[2], b, "item 1")
      if first[3] ~= nil or to < from then
         args.refuse("index", "item 1", "{first, last} of the batch", first)
      end
      p = parts(batch_range(p, from, to))
   end
   return V.new(#items > 0 and p.values[items] or p.values, p.ragged, at)
end

-- Joining -----------------------------------------------------------------------------------------

-- Checks a list of nested tensors. Returns the list of their components, and the dimension `dim` as
-- a number from 1.
local function list_of(who, tensors, dim, more)
   if type(tensors) ~= "table" or #tensors == 0 then
      args.refuse(who, "tensors", "a list of nested tensors", tensors)
   end
   if type(dim) == "table" then
      args.check_options(who, dim, "dim")
      dim = dim.dim
   end
   local list = {}
   for i = 1, #tensors do
      local q = parts(tensors[i])
      if not q then
         args.refuse(who, ("tensors[%d]"):format(i), "a nested tensor as the others", tensors[i])
      end
      if i > 1 and (q.dim ~= list[1].dim or q.values:dim() ~= list[1].values:dim()) then
         fail("%s: tensors[%d]: the shape %s does not fit that of the first, %s", who, i,
            V.shown(q), V.shown(list[1]))
      end
      list[i] = q
   end
   return list, V.dim_of(who, dim or 1, list[1].values:dim() + 1 + (more or 0))
end

local function joined(who, list, d, dim)
   local values = {}
   for i, q in ipairs(list) do
      if q.ragged ~= list[1].ragged then
         fail("%s: tensors[%d]: expected the raggedness of the first, %s, got %s", who, i,
            V.shown(list[1]), V.shown(q))
      end
      values[i] = q.values
   end
   return V.new(torch[who](values, d - 1), list[1].ragged, dim)
end

V.define("cat concat concatenate", 2, function(tensors, dim)
   local list, d = list_of("cat", tensors, dim)
   if d > 1 then
      if d == list[1].dim then refuse_ragged("cat", list[1]) end
      return joined("cat", list, d, list[1].dim)
   end
   local values, lengths = {}, {}
   for i, q in ipairs(list) do
      local packed = V.packed(q)
      values[i] = packed.values
      table.move(packed.ragged.lengths, 1, #packed.ragged.lengths, #lengths + 1, lengths)
   end
   return V.new(torch.cat(values, list[1].dim - 1), V.ragged(nil, lengths), list[1].dim)
end, false)
V.define("stack", 2, function(tensors, dim)
   local list, d = list_of("stack", tensors, dim, 1)
   if d == 1 then refuse_batch "stack" end
   return joined("stack", list, d, d <= list[1].dim and list[1].dim + 1 or list[1].dim)
end, false)
