-- values.lua - functions for the runners in this folder. They build tensors from the text that Python has written, and
-- they format and compare values.

local torch = require "tlua"

-- The tolerance for an element is the sum of three terms: one relative to the element, one absolute, and one relative
-- to the largest element.
local TOLERANCE <const> = {
   float32 = {1e-5, 1e-5, 2e-6}, float64 = {1e-7, 1e-8, 1e-10}, float16 = {2e-3, 1e-3, 1e-3},
   bfloat16 = {1.6e-2, 1e-3, 8e-3}, complex64 = {1e-5, 1e-5, 2e-6}, complex128 = {1e-7, 1e-8, 1e-10},
}

---- tensors -----------------------------------------------------------------------

-- The class of the values that the function T returns. Such a value describes a tensor that is built later.
local Written = {}

local function T(dtype, sizes, strides, values, grad)
   return setmetatable({dtype = dtype, sizes = sizes, strides = strides, values = values, grad = grad}, Written)
end

-- Returns a description of a sparse tensor with the given positions and values.
local function S(layout, sizes, positions, values, coalesced, grad)
   return setmetatable({dtype = values.dtype, layout = layout, sizes = sizes, positions = positions,
      values = values.values, parts = values, coalesced = coalesced ~= nil, grad = grad}, Written)
end

local function is_written(v) return getmetatable(v) == Written end

local function is_tensor(v) return torch.is_tensor(v) end

-- Builds a tensor with given strides inside a larger tensor. It starts at the second element of the larger tensor.
local function build_strided(t)
   local last = 0
   for d, size in ipairs(t.sizes) do last = last + (size - 1) * t.strides[d] end
   local flat, index = {}, {}
   for i = 1, last + 2 do flat[i] = t.dtype ~= "bool" and 0 end
   for d = 1, #t.sizes do index[d] = 0 end
   for _, v in ipairs(t.values) do
      local at = 2
      for d, i in ipairs(index) do at = at + i * t.strides[d] end
      flat[at] = v
      local d = #index
      while d > 0 and index[d] == t.sizes[d] - 1 do index[d], d = 0, d - 1 end
      if d > 0 then index[d] = index[d] + 1 end
   end
   return torch.tensor(flat, {dtype = t.dtype}):as_strided(t.sizes, t.strides, 1)
end

local build

local function build_sparse(t)
   local values, positions = build(t.parts), {}
   for i, of in ipairs(t.positions) do positions[i] = build(of) end
   if t.layout == "sparse_coo" then
      return torch.sparse_coo_tensor(positions[1], values, t.sizes, {is_coalesced = t.coalesced})
   end
   return torch.sparse_compressed_tensor(positions[1], positions[2], values, t.sizes, {layout = t.layout})
end

function build(t)
   local x
   if t.layout then
      x = build_sparse(t)
   elseif #t.values > 0 and t.strides then
      x = build_strided(t)
   elseif #t.values > 0 then
      x = torch.tensor(t.values, {dtype = t.dtype}):reshape(t.sizes)
   else
      x = torch.zeros(t.sizes, {dtype = t.dtype})
   end
   return t.grad and x:requires_grad_() or x
end

-- Returns a copy of v in which each description is replaced by a new tensor. Tensors that require gradients are
-- appended to `leaves`.
local function built(v, leaves)
   if is_written(v) then
      local x = build(v)
      if v.grad then leaves[#leaves + 1] = x end
      return x
   elseif type(v) == "table" then
      local list = {}
      for i = 1, v.n or #v do list[i] = built(v[i], leaves) end
      return list
   end
   return v
end

---- how calls and results look ------------------------------------------------------

local show

local function list_of(values, count)
   local parts = {}
   for i = 1, math.min(count, 12) do parts[i] = show(values[i]) end
   return table.concat(parts, ", ") .. (count > 12 and ", ..." or "")
end

function show(v)
   if is_written(v) and v.layout then
      return ("%s %s(%s) at %s[%s]"):format(v.layout, v.dtype, table.concat(v.sizes, ","), show(v.positions),
         list_of(v.values, #v.values))
   elseif is_written(v) then
      return ("%s(%s)%s[%s]"):format(v.dtype, table.concat(v.sizes, ","),
         v.strides and "@" .. table.concat(v.strides, ",") or "", list_of(v.values, #v.values))
   elseif is_tensor(v) and v.layout ~= "strided" then
      return (tostring(v):gsub("%s+", " "))
   elseif is_tensor(v) then
      local values = v:detach():flatten():tolist()
      return show(T(v.dtype, v.shape, nil, values))
   elseif type(v) == "table" then
      return "{" .. list_of(v, v.n or #v) .. "}"
   end
   return math.type(v) == "float" and ("%.7g"):format(v) or tostring(v)
end

---- comparison ----------------------------------------------------------------------

local function largest(values)
   local most = 0
   for _, v in ipairs(values) do
      local size = math.abs(v)
      if size < math.huge and size > most then most = size end
   end
   return most
end

-- Returns whether v equals w, or is close to w, or is as close to the exact value as w is.
local function near(v, w, exact, tolerance, most)
   if v == w or v ~= v and w ~= w then return true end
   local function within(target, room)
      return math.abs(v - target) <=
         room + tolerance[1] * math.abs(target) + tolerance[2] + tolerance[3] * most
   end
   if v ~= v or w ~= w or math.abs(v) == math.huge then return false end
   return within(w, 0) or exact and within(exact, 1.5 * math.abs(w - exact)) or false
end

-- Returns the elements of a list. Each complex number is replaced by its real part and its imaginary part.
local function parts_of(values)
   if type(values[1]) ~= "userdata" then return values end
   local parts = {}
   for i, z in ipairs(values) do parts[2 * i - 1], parts[2 * i] = z.real, z.imag end
   return parts
end

-- Returns the positions and the values of a sparse tensor. Several elements at the same position are added.
local function parts_of_sparse(s)
   if s.layout == "sparse_coo" then
      s = s:coalesce()
      return {s:indices()}, s:values()
   end
   local columns = s.layout == "sparse_csc" or s.layout == "sparse_bsc"
   if columns then return {s:ccol_indices(), s:row_indices()}, s:values() end
   return {s:crow_indices(), s:col_indices()}, s:values()
end

-- Returns a sparse gradient as a dense tensor. If several elements have the same position, each of them has the whole
-- gradient of that position.
local function dense_gradient(g)
   if g.layout ~= "sparse_coo" or g:is_coalesced() then return g:to_dense() end
   local ones = torch.sparse_coo_tensor(g:_indices(), torch.ones_like(g:_values()), g.shape)
   return g:to_dense() / ones:to_dense():clamp_min(1)
end

local compare_tensors

local function described(x) return T(x.dtype, x.shape, nil, x:detach():flatten():tolist()) end

-- Compares sparse tensors: their layouts, sizes, positions and values.
local function compare_sparse(v, want, exact, random, given)
   if v.layout ~= want.layout then return "layout" end
   if table.concat(v.shape, ",") ~= table.concat(want.sizes, ",") then return "shape" end
   local positions, values = parts_of_sparse(v:detach())
   local wanted, expected = parts_of_sparse(build(want):detach())
   for i, of in ipairs(wanted) do
      if compare_tensors(positions[i], described(of)) then return "positions" end
   end
   if exact then exact = select(2, parts_of_sparse(build(exact):detach())) end
   return compare_tensors(values, described(expected), exact and described(exact), random, given)
end

-- Compares the result v with the expected value. Returns a description of the difference, or nil. If `given` is set,
-- uses the tolerance of that dtype.
function compare_tensors(v, want, exact, random, given)
   if not is_tensor(v) then return "no tensor" end
   if want.layout then return compare_sparse(v, want, exact, random, given) end
   if v.layout ~= "strided" then return "layout" end
   if table.concat(v.shape, ",") ~= table.concat(want.sizes, ",") then return "shape" end
   if v.dtype ~= want.dtype then return "dtype" end
   if random or #want.values == 0 then return nil end
   local tolerance = TOLERANCE[v.dtype] and TOLERANCE[given or v.dtype]
   local values, wanted = parts_of(v:detach():flatten():tolist()), parts_of(want.values)
   local most = tolerance and largest(wanted)
   exact = exact and parts_of(exact.values) or {}
   for i, w in ipairs(wanted) do
      local same = values[i] == w or tolerance and near(values[i], w, exact[i], tolerance, most)
      if not same then return "value", i end
   end
end

local function compare(v, want, exact, random, given)
   if is_written(want) then return compare_tensors(v, want, exact, random, given) end
   if is_tensor(v) then return "tensor instead of a plain value" end
   if math.type(v) ~= math.type(want) then return "kind" end
   if type(v) == "number" and near(v, want, nil, TOLERANCE.float32, 0) then return nil end
   if v ~= want then return "value" end
end

-- Returns the weighted sum of all elements of the results that require a gradient, or nil if no result does.
local function weighted_sum(results)
   local total
   for k = 1, results.n do
      local r = results[k]
      if is_tensor(r) and r.layout ~= "strided" then r = r:to_dense() end
      if is_tensor(r) and r:is_complex() then r = r:view_as_real() end
      if is_tensor(r) and r.requires_grad then
         local steps = torch.arange(r:numel(), {dtype = "float64", device = r.device})
         local weights = torch.cos(steps * 1.3 + (0.5 * (k - 1) + 0.2)):reshape(r.shape)
         local term = (r:double() * weights):sum()
         total = total and total + term or term
      end
   end
   return total
end

return {TOLERANCE = TOLERANCE, T = T, S = S, is_tensor = is_tensor, build = build, built = built, show = show,
   near = near, compare = compare, weighted_sum = weighted_sum, dense_gradient = dense_gradient,
   parts_of_sparse = parts_of_sparse}
