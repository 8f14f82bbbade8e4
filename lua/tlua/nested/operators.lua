-- operators.lua - elementwise operators, reductions, softmax and normalisations of nested tensors.

local torch = require "tlua"
local args = require "tlua.args"
local wrapped = require "tlua.wrapped"
local segments = require "tlua.functions.segment_reduce"
local V = require "tlua.nested.value"

local fail <const>, kind <const> = V.fail, V.kind
local define <const>, parts <const> = kind.define, kind.parts

-- Elementwise -------------------------------------------------------------------------------------

-- Returns a tensor that broadcasts with p.values in the way in which t broadcasts with the nested
-- tensor p.
local function lift(who, t, p)
   local q = parts(t)
   if q then
      if q.ragged ~= p.ragged or q.dim ~= p.dim or q.values:dim() ~= p.values:dim()
         or q.values:size(q.dim - 1) ~= p.values:size(p.dim - 1) then
         fail("%s: expected nested tensors of the same raggedness, got shapes %s and %s", who,
            V.shown(p), V.shown(q))
      end
      return q.values
   end
   if torch._wrapped_parts(t, getmetatable(t)) or torch._sparse_parts(t) then
      args.refuse(who, "other", "a dense or nested tensor", t)
   end
   local n, m, b = p.values:dim() + 1, t:dim(), #p.ragged.lengths
   local at = m - (n - p.dim) -- the dimension of t that is aligned with the ragged dimension
   if at < 1 then return t end
   local own = m == n and t:size(1) or 1
   local padded = m == n and t:size(at) == p.ragged.most and own == b and not p.ragged.holes
   if m > n or own ~= 1 and own ~= b or t:size(at) ~= 1 and not padded then
      fail("%s: shape (%s) does not broadcast to the shape %s of a nested tensor", who,
         table.concat(t.shape, ", "), V.shown(p))
   end
   if t:size(at) ~= 1 then return V.unpad(t, p.ragged, at) end
   if m < n then return t end
   if own == 1 then return t:squeeze(1) end
   return t:squeeze(at):movedim(1, at - 1):index_select(at - 1, V.owners(p))
end

-- Calls an elementwise function with the values of its nested arguments, and makes nested tensors
-- of its results.
local function pointwise(who, fn, ...)
   local given, p = table.pack(...), nil
   for i = 1, given.n do p = p or parts(given[i]) end
   if not p then kind.unsupported(who .. " with a nested option") end
   for i = 1, given.n do
      if torch.is_tensor(given[i]) then given[i] = lift(who, given[i], p) end
   end
   local results = table.pack(fn(table.unpack(given, 1, given.n)))
   for i = 1, results.n do results[i] = kind.like(p, results[i]) end
   return table.unpack(results, 1, results.n)
end

local function in_place(name)
   local fn = torch.Tensor[name]
   define(name, function(x, ...)
      local p = parts(x)
      if not p then fail("%s: a dense tensor cannot take a nested result", name) end
      if p.ragged.holes then
         fail("%s: would change rows outside the sequences; unbind() gives the sequences", name)
      end
      pointwise(name, fn, x, ...)
      return x
   end)
end

local function is_number(x) return x ~= nil and not torch.is_tensor(x) end

for name in (wrapped.unary .. " " .. wrapped.binary .. [[ lerp addcmul addcdiv masked_fill isclose
   float_power ldexp frexp xlog1py real imag conj angle rrelu glu_ conj_physical]]):gmatch "%S+" do
   local fn, of_number = wrapped.of(name), wrapped.of_number[name]
   if fn then
      define(name, function(...)
         return pointwise(name, of_number and is_number((...)) and of_number or fn, ...)
      end)
   end
   if rawget(torch.Tensor, name .. "_") then in_place(name .. "_") end
end
function kind.operators.where(condition, ...)
   if select("#", ...) ~= 2 then
      torch.raise "where: expected condition, self and other, as one of them is nested"
   end
   return pointwise("where", torch.where, condition, ...)
end
function kind.methods.where(x, condition, other)
   return kind.operators.where(condition, x, other)
end
V.define("prelu", 2, function(x, weight)
   local p = parts(x)
   if not p or weight:numel() ~= 1 then
      kind.unsupported "prelu with several weights"
   end
   return kind.like(p, torch.prelu(p.values, weight))
end)

for name in ("zeros_like ones_like full_like empty_like rand_like randn_like randint_like")
   :gmatch "%S+" do
   define(name, function(x, ...)
      local p = parts(x)
      if not p then kind.unsupported(name) end
      return kind.like(p, torch[name](p.values, ...))
   end, false)
end
for name in ("new_zeros new_ones new_full new_empty new_tensor"):gmatch "%S+" do
   kind.methods[name] = function(x, ...)
      local values = parts(x).values
      return values[name](values, ...)
   end
end
for name in ("zero_ fill_ copy_ normal_ uniform_ bernoulli_ exponential_ random_"):gmatch "%S+" do
   in_place(name)
end

V.define("equal", 2, function(a, b)
   local p, q = parts(a), parts(b)
   return p ~= nil and q ~= nil and kind.same(p, q)
      and torch.equal(V.packed(p).values, V.packed(q).values)
end)
define("allclose", function(a, b, ...)
   local p, q = parts(a), parts(b)
   if not (p and q) then kind.unsupported "allclose with a dense tensor" end
   lift("allclose", b, p)
   return torch.allclose(V.packed(p).values, V.packed(q).values, ...)
end)

-- Reductions along the ragged dimension -----------------------------------------------------------

-- Returns the smallest and the largest number of a tensor's dtype. Raises an error for a complex
-- dtype.
local function limits(name, x)
   if x:is_complex() then args.refuse(name, "input", "a tensor of real numbers", x) end
   local info = x:is_floating_point() and torch.finfo(x.dtype) or torch.iinfo(x.dtype)
   return info.min, info.max
end

-- Functions that reduce each sequence, by name. Their arguments are the rows of all sequences
-- (rows, ...), for each row the number of its sequence (`owners`), the number of sequences, and the
-- sequences' lengths.
local along = {}
function along.sum(rows, owners, b)
   return segments.combine("sum", segments.wide(rows), owners, b)
end
function along.prod(rows, owners, b)
   return segments.combine("prod", segments.wide(rows), owners, b, 1)
end
function along.mean(rows, owners, b, lengths)
   if not (rows:is_floating_point() or rows:is_complex()) then
      args.refuse("mean", "input", "a floating or complex dtype", rows)
   end
   local sum = along.sum(rows, owners, b)
   local shape = {b}
   for d = 2, sum:dim() do shape[d] = 1 end
   return sum / V.integers(lengths, rows.device):view(shape)
end
function along.any(rows, owners, b)
   return segments.combine("sum", rows:ne(0):long(), owners, b):gt(0)
end
function along.all(rows, owners, b)
   return segments.combine("sum", rows:eq(0):long(), owners, b):eq(0)
end
function along.amax(rows, owners, b)
   if rows.dtype == "bool" then return along.any(rows, owners, b) end
   return segments.combine("amax", rows, owners, b, (limits("amax", rows)))
end
function along.amin(rows, owners, b)
   if rows.dtype == "bool" then return along.all(rows, owners, b) end
   return segments.combine("amin", rows, owners, b, (select(2, limits("amin", rows))))
end

-- Returns the values of a packed nested tensor with the dimension of the rows first: (rows, ...).
local function rows_of(p) return p.values:movedim(p.dim - 1, 1) end

-- Reduces along the ragged dimension, and keeps it with size 1.
local function along_ragged(name, p, dtype)
   p = V.packed(p)
   local rows, lengths = rows_of(p), p.ragged.lengths
   local result = along[name](rows, V.owners(p), #lengths, lengths):unsqueeze(2):movedim(2, p.dim)
   local exact = name == "any" or name == "all" or result.dtype == "int64" and not dtype
   return exact and result or result:to(rows.dtype)
end

-- Reductions --------------------------------------------------------------------------------------

-- Reads the arguments of a reduction. Returns the positional arguments as a list, and a copy of the
-- table of options, or nil if there is none.
local function read(...)
   local given = table.pack(...)
   local last, options = given[given.n], nil
   if type(last) == "table" and #last == 0 and next(last) then
      options = {}
      for key, value in pairs(last) do options[key] = value end
      given[given.n] = nil
      given.n = given.n - 1
   end
   return given, options
end

-- Calls fn with x, the values in `given` from position `first` on, and the options as the last
-- argument if there are any.
local function call(fn, x, given, first, options)
   local list = table.move(given, first, given.n, 1, {})
   local n = math.max(given.n - first + 1, 0)
   if options and next(options) then
      n = n + 1
      list[n] = options
   end
   return fn(x, table.unpack(list, 1, n))
end

-- Makes nested tensors of the results of a reduction of p.values along dense dimensions. `removed`
-- is the number of reduced dimensions before the ragged dimension, which is smaller by this number
-- unless the dimensions are kept.
local function rewrap(p, removed, ...)
   local results = table.pack(...)
   for i = 1, results.n do
      local kept = results[i]:dim() == p.values:dim()
      results[i] = V.new(results[i], p.ragged, kept and p.dim or p.dim - removed)
   end
   return table.unpack(results, 1, results.n)
end

local takes_dtype <const> = {sum = true, mean = true, prod = true}

-- Returns the variances or standard deviations along the ragged dimension, which is kept with size
-- 1.
local function variances(name, p, options)
   p = V.packed(p)
   if not (p.values:is_floating_point() or p.values:is_complex()) then
      args.refuse(name, "input", "a floating or complex dtype", p.values)
   end
   local rows, owners, b = rows_of(p), V.owners(p), #p.ragged.lengths
   local unbiased, correction = options.unbiased, options.correction
   options.unbiased, options.correction = nil, nil
   if correction == nil then correction = unbiased == false and 0 or 1 end
   if type(correction) ~= "number" then args.refuse(name, "correction", "a number", correction) end
   local means = along.mean(rows, owners, b, p.ragged.lengths)
   local squares = (rows - means:index_select(1, owners)):abs():square()
   local shape, counts = {b}, V.integers(p.ragged.lengths, rows.device) - correction
   for d = 2, rows:dim() do shape[d] = 1 end
   local result = along.sum(squares, owners, b) / counts:clamp_min(0):view(shape)
   result = name == "std" and result:sqrt() or result
   result = result:to(rows:is_complex() and squares.dtype or rows.dtype)
   return result:unsqueeze(2):movedim(2, p.dim)
end

-- Cumulative functions along the ragged dimension. They are computed on a padded batch: the padding
-- comes after the rows of a sequence, so it does not change their results.
local prefixes <const> = {cumsum = true, cumprod = true, logcumsumexp = true, cummax = true,
   cummin = true}

local function prefix(fn, p, given, options)
   p = V.packed(p)
   given[1] = p.dim
   local zero = p.values.dtype == "bool" and false or 0
   local results = table.pack(call(fn, V.pad(p, zero, p.ragged.most), given, 1, options))
   for i = 1, results.n do
      results[i] = V.new(V.unpad(results[i], p.ragged, p.dim), p.ragged, p.dim)
   end
   return table.unpack(results, 1, results.n)
end

-- max, min, argmax and argmin along the ragged dimension, computed on a padded batch
local padding <const> = {max = true, min = false, argmax = true, argmin = false}

local function of_padded(name, fn, p, given, options)
   for i, n in ipairs(p.ragged.lengths) do
      if n == 0 then
         fail("%s: sequence %d is empty and has no position; amax and amin take it", name, i)
      end
   end
   local least, most = -math.huge, math.huge
   if p.values.dtype == "bool" then least, most = false, true
   elseif not p.values:is_floating_point() then least, most = limits(name, p.values) end
   given[1] = p.dim
   return call(fn, V.pad(p, padding[name] and least or most, p.ragged.most), given, 1, options)
end

for name in ([[sum prod mean amax amin any all var std logsumexp max min argmax argmin median
   cumsum cumprod logcumsumexp cummax cummin count_nonzero]]):gmatch "%S+" do
   local fn = torch[name]
   local other = ({max = "maximum", min = "minimum"})[name]
   define(name, function(x, ...)
      local p = parts(x)
      if other and torch.is_tensor((...)) then return kind.operators[other](x, ...) end
      if not p then kind.unsupported(name) end
      local given, options = read(...)
      local dims = given[1]
      if given.n < 1 and options then dims, options.dim = options.dim, nil end
      if dims == nil or type(dims) == "boolean" or type(dims) == "table" and #dims == 0 then
         given[1] = type(dims) == "boolean" and dims or nil
         local result = call(fn, V.packed(p).values, given, given[1] == nil and 2 or 1, options)
         return result:dim() > 0 and result:unsqueeze(1) or result
      end
      given.n = math.max(given.n, 1)
      local several, n = type(dims) == "table", p.values:dim() + 1
      local list, removed, batch, ragged, seen = {}, 0, false, false, {}
      for _, dim in ipairs(several and dims or {dims}) do
         local d = V.dim_of(name, dim, n)
         if seen[d] then fail("%s: dim: dimension %d is given twice", name, d) end
         seen[d] = true
         batch, ragged = batch or d == 1, ragged or d == p.dim
         if d > 1 then list[#list + 1] = d - 1 end
         if d < p.dim then removed = removed + 1 end
      end
      if batch and not (ragged and several) then
         fail("%s: dim: is defined along dimension 1, the batch, only together with the ragged "
            .. "dimension, %d", name, p.dim)
      end
      if ragged and not batch then
         if padding[name] ~= nil then return of_padded(name, fn, p, given, options) end
         if prefixes[name] and not several then return prefix(fn, p, given, options) end
         local spread = (name == "std" or name == "var") and #list == 1
         if not (along[name] or spread) then
            fail("%s: dim: is not defined along the ragged dimension, %d", name, p.dim)
         end
         options = options or {}
         if spread and given.n > 2 or spread and type(given[2]) == "boolean" then
            options.unbiased, given[2] = given[2], given[3]
            given[3], given.n = nil, given.n - 1
         end
         local dispersion = spread and variances(name, p, options)
         local keepdim = given[2]
         if keepdim == nil then keepdim, options.keepdim = options.keepdim, nil end
         if given.n > 2 or keepdim ~= nil and type(keepdim) ~= "boolean" then
            args.refuse(name, "keepdim", "true or false, as the last argument", given[3] or keepdim)
         end
         args.check_options(name, options, "keepdim", takes_dtype[name] and "dtype" or nil)
         local dense, dtype = {}, options.dtype
         if dtype then p = parts(kind.like(p, p.values:to(dtype))) end
         for _, d in ipairs(list) do
            if d ~= p.dim - 1 then dense[#dense + 1] = d end
         end
         if #dense > 0 then p = parts(kind.like(p, p.values[name](p.values, dense, true))) end
         local result = dispersion or along_ragged(name, p, dtype)
         if keepdim then return result end
         for i, d in ipairs(list) do list[i] = d + 1 end
         table.sort(list, function(a, b) return a > b end)
         for _, d in ipairs(list) do result = result:squeeze(d) end
         return result
      end
      given[1] = several and list or list[1]
      if batch then
         local result = call(fn, V.packed(p).values, given, 1, options)
         return result:dim() == p.values:dim() and result:unsqueeze(1) or result
      end
      return rewrap(p, removed, call(fn, p.values, given, 1, options))
   end)
end

-- Losses ------------------------------------------------------------------------------------------

-- Returns the components of a loss's input and target. Raises an error unless both are nested
-- tensors.
local function both(name, x, target)
   local p, q = parts(x), parts(target)
   if not (p and q) then
      fail("%s: expected input and target both nested, got %s and %s", name, args.describe(x),
         args.describe(target))
   end
   return p, q
end

-- Losses that compare each element with the target's element.
for name in ([[mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
   binary_cross_entropy_with_logits soft_margin_loss poisson_nll_loss]]):gmatch "%S+" do
   local fn = torch.nn.functional[name]
   define(name, function(x, target, ...)
      local p, q = both(name, x, target)
      lift(name, target, p)
      if not kind.same(p, q) then
         fail("%s: target: expected the shape %s of input, got %s", name, V.shown(p), V.shown(q))
      end
      local packed = V.packed(p)
      local rest = table.pack(...)
      for i = 1, rest.n do
         if parts(rest[i]) then rest[i] = V.packed(parts(rest[i])).values end
         if type(rest[i]) == "table" and not getmetatable(rest[i]) then
            local copy = {}
            for key, value in pairs(rest[i]) do
               copy[key] = parts(value) and V.packed(parts(value)).values or value
            end
            rest[i] = copy
         end
      end
      local result = fn(packed.values, V.packed(q).values, table.unpack(rest, 1, rest.n))
      if result:dim() == 0 then return result end
      return V.new(result, packed.ragged, packed.dim)
   end, false)
end

-- kl_div computes the divergence of each element; "batchmean" divides their sum by the number of
-- sequences.
do
   local fn = torch.nn.functional.kl_div
   local take = args.signature [[kl_div(input: tensor, target: tensor, reduction: string = 'mean',
      log_target: boolean = false)]]
   define("kl_div", function(...)
      local a = take(...)
      local p, q = both("kl_div", a.input, a.target)
      if not kind.same(p, q) then
         fail("kl_div: target: expected the shape %s of input, got %s", V.shown(p), V.shown(q))
      end
      p, q = V.packed(p), V.packed(q)
      local batch = a.reduction == "batchmean"
      local result = fn(p.values, q.values,
         {reduction = batch and "sum" or a.reduction, log_target = a.log_target})
      if batch then return result / #p.ragged.lengths end
      return result:dim() == 0 and result or V.new(result, p.ragged, p.dim)
   end, false)
end

-- Losses whose target has one class for each row. The input is (B, j, C), as a Linear returns it,
-- or (B, C, j).
for _, name in ipairs {"cross_entropy", "nll_loss"} do
   local fn = torch.nn.functional[name]
   define(name, function(x, target, ...)
      local p, q = both(name, x, target)
      p, q = V.packed(p), V.packed(q)
      local labels = q.values:dim() == 1
      if p.values:dim() ~= 2 or not labels and q.dim ~= p.dim or q.values:dim() > 2 then
         fail("%s: expected an input (B, j, C) or (B, C, j) and labels (B, j), got %s and %s",
            name, V.shown(p), V.shown(q))
      end
      local rows, goals = p.values, q.values
      if p.dim == 3 then rows, goals = rows:t(), labels and goals or goals:t() end
      if table.concat(p.ragged.lengths, " ") ~= table.concat(q.ragged.lengths, " ") then
         fail("%s: target: expected the lengths of input, %s, got %s", name, V.shown(p), V.shown(q))
      end
      local result = fn(rows, goals, ...)
      return result:dim() == 0 and result or V.new(result, p.ragged, 2)
   end, false)
end

-- Softmax and normalisations ----------------------------------------------------------------------

local function softmax(p, dtype, logarithm)
   p = V.packed(p)
   local ragged, b = p.ragged, #p.ragged.lengths
   local x = dtype and p.values:to(dtype) or p.values
   if not x.dtype:find "float" then args.refuse("softmax", "input", "a floating dtype", x) end
   -- Sequences of similar lengths are padded to a dense batch for softmax and similar functions.
   -- This is not done if a sequence is empty, because its row would consist of padding alone and
   -- give NaN.
   if b > 0 and ragged.least > 0 and b * ragged.most <= 4 * ragged.total then
      local padded = V.pad({values = x, ragged = ragged, dim = p.dim}, -math.huge, ragged.most)
      local fn = logarithm and torch.log_softmax or torch.softmax
      return V.new(V.unpad(fn(padded, p.dim), ragged, p.dim), ragged, p.dim)
   end
   local owners, rows = V.owners(p), segments.wide(x:movedim(p.dim - 1, 1))
   local most = segments.combine("amax", rows:detach(), owners, b, -math.huge)
      :index_select(1, owners)
   local shifted = rows - most
   local e = shifted:exp()
   local sums = segments.combine("sum", e, owners, b):index_select(1, owners)
   local result = logarithm and shifted - sums:log() or e / sums
   return V.new(result:to(x.dtype):movedim(1, p.dim - 1), ragged, p.dim)
end

local ragged_softmax <const> = {
   softmax = softmax,
   log_softmax = function(p, dtype) return softmax(p, dtype, true) end,
   softmin = function(p, dtype) return softmax(parts(kind.like(p, -p.values)), dtype) end,
}

-- Functions along one dimension, each with the position of its argument `dim`.
for name, at in pairs {softmax = 1, log_softmax = 1, softmin = 1, glu = 1, normalize = 2} do
   local fn = wrapped.of(name)
   define(name, function(x, ...)
      local p = parts(x)
      local given, options = read(...)
      local dim = given[at]
      if dim == nil and options then dim, options.dim = options.dim, nil end
      if dim == nil then dim = name == "normalize" and 2 or name == "glu" and -1 or nil end
      local d = V.dim_of(name, dim, p.values:dim() + 1)
      if d == p.dim and ragged_softmax[name] then
         args.check_options(name, options, "dtype")
         return ragged_softmax[name](p, given[2] or options and options.dtype)
      end
      if d == 1 or d == p.dim then
         fail("%s: dim: is not defined along the %s, %d", name,
            d == 1 and "dimension of the batch" or "ragged dimension", d)
      end
      if given.n < at then
         options = options or {}
         options.dim = d - 1
      else
         given[at] = d - 1
      end
      return kind.like(p, call(fn, p.values, given, 1, options))
   end)
end

for name, fn in pairs {layer_norm = torch.layer_norm, rms_norm = torch.nn.functional.rms_norm} do
   define(name, function(x, shape, ...)
      local p = parts(x)
      if not p then kind.unsupported(name .. " with a nested weight") end
      if type(shape) == "table" and #shape > p.values:dim() + 1 - p.dim then
         fail("%s: normalized_shape: expected sizes of dimensions after the ragged one, %d, got %d "
            .. "sizes", name, p.dim, #shape)
      end
      return kind.like(p, fn(p.values, shape, ...))
   end)
end

for name in ("embedding one_hot"):gmatch "%S+" do
   local fn = torch.nn.functional[name]
   define(name, function(x, ...)
      local p = parts(x)
      if not p then kind.unsupported(name .. " with a nested weight") end
      p = V.packed(p)
      return V.new(fn(p.values, ...), p.ragged, p.dim)
   end, false)
end

V.define("masked_select", 2, function(x, mask)
   local p, q = parts(x), parts(mask)
   if not (p and q and p.values:dim() == 1) then
      kind.unsupported "masked_select, unless both tensors are nested and have two dimensions"
   end
   lift("masked_select", mask, p)
   p, q = V.packed(p), V.packed(q)
   if q.values.dtype ~= "bool" then
      args.refuse("masked_select", "mask", "a tensor of bool", mask)
   end
   local counts = along.sum(q.values, V.owners(q), #q.ragged.lengths)
   return V.new(p.values:masked_select(q.values), V.ragged(nil, counts:tolist()), 2)
end)
