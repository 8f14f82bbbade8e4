-- pointwise.lua - elementwise operators of sparse tensors.
--
-- A function of one tensor computes with the values; only functions that map 0 to 0 are defined.
-- The sum of two sparse tensors has all positions of both; their product has only the positions
-- that both tensors have. A product with a dense tensor has the sparse tensor's positions; a sum
-- with a dense tensor is dense.

local torch = require "tlua"
local args = require "tlua.args"
local C = require "tlua.sparse.convert"
local V = require "tlua.sparse.value"

local M = {}

local operators <const> = V.operators

-- Functions of one tensor -------------------------------------------------------------------------

-- Returns the components of a tensor. In layout sparse_coo, elements at equal positions are summed
-- first.
local function joined(s)
   local p = V.parts(s)
   return p.layout == "sparse_coo" and C.coalesced(p) or p
end

--- Replaces the components of a sparse tensor by the components of another one. A leaf that
--- requires a gradient still requires one, but loses its present gradient.
---@param who string
---@param s Tensor
---@param other Tensor
---@return Tensor s
function M.assign(who, s, other)
   local p, q = V.parts(s), V.parts(other)
   if not q then
      torch.raise(("%s: the result is dense, which a sparse tensor cannot take"):format(who))
   end
   if p.engine then
      torch.raise(("%s: cannot change .grad in place in this way; assign the result to .grad")
         :format(who))
   end
   if torch.is_grad_enabled() and p.values.requires_grad and p.values.is_leaf then
      torch.raise(("%s: a leaf that requires a gradient cannot be changed in place; use no_grad")
         :format(who))
   end
   if q.values.dtype ~= p.values.dtype then
      torch.raise(("%s: the result has dtype %s, which a tensor of dtype %s cannot take")
         :format(who, q.values.dtype, p.values.dtype))
   end
   if not V.same(p.size, q.size) then
      torch.raise(("%s: the result has shape %s, which a tensor of shape %s cannot take")
         :format(who, V.shape_text(q.size), V.shape_text(p.size)))
   end
   local leaf, is_parameter = p.values.is_leaf and p.values.requires_grad, p.is_parameter
   for key in pairs(p) do p[key] = nil end
   for key, value in pairs(q) do p[key] = value end
   p.is_parameter = is_parameter
   if leaf then p.values = p.values:detach():requires_grad_() end
   return s
end

-- Defines the in-place form of an operator, whose name ends in `_`.
local function in_place(name)
   local who = name .. "_"
   V.define(who, function(s, ...)
      if not V.is_sparse(s) then
         torch.raise(("%s: a dense tensor cannot take a sparse result"):format(who))
      end
      return M.assign(who, s, operators[name](s, ...))
   end)
end

local linear <const> = {neg = true, negative = true, positive = true, deg2rad = true,
   rad2deg = true, conj = true, conj_physical = true, real = true, imag = true}

for name in ([[neg negative positive abs absolute sin tan asin arcsin atan arctan sinh tanh asinh
   arcsinh atanh arctanh sqrt square expm1 log1p sign sgn ceil floor round trunc fix frac erf erfinv
   deg2rad rad2deg relu nan_to_num isnan isinf isposinf isneginf signbit conj conj_physical real
   imag angle hardshrink softshrink threshold]]):gmatch "%S+" do
   local fn = rawget(torch, name) or rawget(torch.nn.functional, name)
   if fn then
      V.define(name, function(s, ...)
         if not V.is_sparse(s) then V.unsupported(name, "strided with a sparse argument") end
         local p = linear[name] and V.parts(s) or joined(s)
         if name == "threshold" and select(2, ...) ~= 0 then
            args.refuse(name, "value", "0 for a sparse tensor", (select(2, ...)))
         end
         return V.with_values(p, fn(p.values, ...))
      end)
      if rawget(torch.Tensor, name .. "_") then in_place(name) end
   end
end

-- Numbers -----------------------------------------------------------------------------------------

-- Returns `value` if it is a number or a dense tensor without dimensions; otherwise returns nil.
local function scalar(value)
   if type(value) == "number" then return value end
   if torch.is_tensor(value) and not V.is_sparse(value) and value:dim() == 0 then return value end
   return nil
end

-- Two tensors -------------------------------------------------------------------------------------

local function check_same(who, p, q)
   if not V.same(p.size, q.size) then
      torch.raise(("%s: expected tensors of one shape, got %s and %s"):format(who,
         V.shape_text(p.size), V.shape_text(q.size)))
   end
   if V.sparse_dim(p) ~= V.sparse_dim(q) then
      torch.raise(("%s: expected the same number of sparse dimensions, got %d and %d"):format(who,
         V.sparse_dim(p), V.sparse_dim(q)))
   end
end

-- Returns whether two tensors have the same positions in the same order.
local function same_pattern(p, q)
   if p.layout ~= q.layout then return false end
   for _, key in ipairs {"indices", "pointers", "plain"} do
      local a, b = p[key], q[key]
      if a ~= b and not (a:numel() == b:numel() and torch.equal(a, b)) then return false end
   end
   return V.same(p.values.shape, q.values.shape)
end

-- Returns a sparse tensor with the components `coo`, in layout sparse_coo, converted to the layout
-- of p.
local function like(who, coo, p)
   return V.new(C.to_layout(who, coo, p.layout, V.block_of(p)))
end

-- Returns a + alpha b of two sparse tensors.
local function sum_of(who, p, q, alpha)
   check_same(who, p, q)
   local scaled = alpha == 1 and q.values or q.values * alpha
   if same_pattern(p, q) then return V.with_values(p, p.values + scaled) end
   local a, b = C.as_coo(p), C.as_coo(V.parts(V.with_values(q, scaled)))
   local both = {
      layout = "sparse_coo", size = p.size, indices = torch.cat({a.indices, b.indices}, 2),
      values = torch.cat {a.values, b.values}, coalesced = false,
   }
   if p.layout ~= "sparse_coo" then return like(who, both, p) end
   return V.new(a.coalesced and b.coalesced and C.coalesced(both) or both)
end

-- Returns dense + alpha * sparse.
local function dense_sum(x, p, alpha)
   local y = C.to_dense(V.new(p))
   return torch.add(x, y, {alpha = alpha})
end

local take_add = args.signature "add(self: any, other: any, alpha: number = 1)"

local function add_as(who, take)
   return function(...)
      local a = take(...)
      local p, q = V.parts(a.self), V.parts(a.other)
      if p and q then return sum_of(who, p, q, a.alpha) end
      local x = p and a.other or a.self
      if type(x) == "number" then
         torch.raise(("%s: the sum with a number would be dense; to_dense() makes a dense tensor")
            :format(who))
      end
      if not torch.is_tensor(x) then args.refuse(who, p and "other" or "self", "a tensor", x) end
      if p then return torch.add(C.to_dense(a.self), x, {alpha = a.alpha}) end
      return dense_sum(x, q, a.alpha)
   end
end

local add = add_as("add", take_add)
V.define("add", add)

local take_sub = args.signature "sub(self: any, other: any, alpha: number = 1)"
local sub = add_as("sub", function(...)
   local a = take_sub(...)
   a.alpha = -a.alpha
   return a
end)
V.define("sub subtract", sub)

-- Returns the elements of a dense tensor x at the positions of a sparse tensor, in the shape of the
-- sparse tensor's values.
---@param who string
---@param x Tensor
---@param p table
---@return Tensor
function M.values_at(who, x, p)
   local coo = C.as_coo(p)
   local sparse_dim = coo.indices:size(1)
   if not V.same(x.shape, p.size) then
      local ok, wide = pcall(x.expand, x, p.size)
      if not ok then
         torch.raise(("%s: a dense tensor of shape %s does not broadcast to the sparse shape %s")
            :format(who, V.shape_text(x.shape), V.shape_text(p.size)))
      end
      x = wide
   end
   local keys, total = C.keys_of(coo)
   local flat = x:reshape(total, table.unpack(p.size, sparse_dim + 1))
   return flat:index_select(1, keys):reshape(p.values.shape)
end

-- Returns the product of two sparse tensors, at the positions that both have.
local function product_of(who, p, q)
   check_same(who, p, q)
   if p.layout ~= "sparse_coo" or p.coalesced then
      if same_pattern(p, q) then return V.with_values(p, p.values * q.values) end
   end
   local a, b = C.coalesced(C.as_coo(p)), C.coalesced(C.as_coo(q))
   local ka, kb = C.keys_of(a), C.keys_of(b)
   local at, inside = torch.ones_like(ka), torch.zeros_like(ka):ne(0)
   if kb:numel() > 0 then
      at = torch.searchsorted(kb, ka):clamp {max = kb:numel()}
      inside = kb:index_select(1, at):eq(ka)
   end
   local chosen = inside:nonzero():view(-1)
   local there = at:index_select(1, chosen)
   local both = {
      layout = "sparse_coo", size = p.size, coalesced = true,
      indices = a.indices:index_select(2, chosen),
      values = a.values:index_select(1, chosen) * b.values:index_select(1, there),
   }
   return p.layout == "sparse_coo" and V.new(both) or like(who, both, p)
end

local function mul(x, y)
   local p, q = V.parts(x), V.parts(y)
   if p and q then return product_of("mul", p, q) end
   if not p then y, p = x, q end
   local number = scalar(y)
   if number then return V.with_values(p, p.values * number) end
   if not torch.is_tensor(y) then args.refuse("mul", "other", "a tensor or a number", y) end
   return V.with_values(p, p.values * M.values_at("mul", y, p))
end
V.define("mul multiply", mul, true, 2)

V.define("remainder fmod", function(s, other)
   local p = V.parts(s)
   V.unsupported("remainder", p and p.layout or V.parts(other).layout)
end)

local take_div = args.signature "div(self: any, other: any, rounding_mode: string?)"

-- Defines a division of a sparse tensor by a number or by a dense tensor.
local function division(who, take, divide)
   return function(...)
      local a = take(...)
      local p = V.parts(a.self)
      if not p or V.is_sparse(a.other) then
         torch.raise(("%s: a sparse tensor cannot be the divisor: its zeros would divide")
            :format(who))
      end
      p = joined(a.self)
      local by = scalar(a.other)
      if not by and not torch.is_tensor(a.other) then
         args.refuse(who, "other", "a tensor or a number", a.other)
      end
      by = by or M.values_at(who, a.other, p)
      return V.with_values(p, divide(p.values, by, a))
   end
end

V.define("div divide true_divide", division("div", take_div, function(x, y, a)
   return torch.div(x, y, {rounding_mode = a.rounding_mode})
end))
local floor_divide = division("floor_divide",
   args.signature "floor_divide(self: any, other: any)",
   function(x, y) return torch.floor_divide(x, y) end)
V.define("floor_divide", floor_divide)

local function pow(x, exponent)
   if not V.is_sparse(x) or type(exponent) ~= "number" or exponent <= 0 then
      torch.raise("pow: expected a sparse tensor and an exponent above 0, which keeps zeros")
   end
   local p = joined(x)
   return V.with_values(p, p.values ^ exponent)
end
V.define("pow", pow, true, 2)

for name in ("add sub mul div pow"):gmatch "%S+" do in_place(name) end

-- Defines x:add_(s) and x:sub_(s) for a dense x and a sparse s.
for name, sign in pairs {add_ = 1, sub_ = -1} do
   local sparse_form = operators[name]
   local take = args.signature(name .. "(self: any, other: any, alpha: number = 1)")
   operators[name] = function(...)
      local a = take(...)
      if V.is_sparse(a.self) then return sparse_form(...) end
      local p = C.as_coo(V.parts(a.other))
      if not V.same(a.self.shape, p.size) then
         torch.raise(("%s: expected tensors of one shape, got %s and %s"):format(name,
            V.shape_text(a.self.shape), V.shape_text(p.size)))
      end
      local alpha = sign * a.alpha
      if p.indices:size(1) == 1 and p.values.dtype == a.self.dtype then
         return a.self:index_add_(1, p.indices[1], p.values, {alpha = alpha})
      end
      return a.self:add_(C.to_dense(a.other), {alpha = alpha})
   end
end

-- s:mul_(number) changes the values themselves, which other tensors may share. All other forms of
-- mul_ replace the values.
local general_mul_ = operators.mul_
V.define("mul_", function(s, other)
   local p = V.parts(s)
   if p and scalar(other) then
      p.values:mul_(other)
      return s
   end
   return general_mul_(s, other)
end, true, 2)
V.define("div_", function(s, other, ...)
   local p = V.parts(s)
   if p and p.coalesced ~= false and scalar(other) and select("#", ...) == 0 then
      p.values:div_(other)
      return s
   end
   return M.assign("div_", s, operators.div(s, other, ...))
end)

-- Comparing ---------------------------------------------------------------------------------------

V.define("equal", function(x, y)
   local p, q = V.parts(x), V.parts(y)
   if not (p and q) then
      torch.raise "equal: expected two sparse tensors or two dense ones"
   end
   if not V.same(p.size, q.size) or p.layout ~= q.layout then return false end
   p, q = joined(x), joined(y)
   return same_pattern(p, q) and torch.equal(p.values, q.values)
end, true, 2)

V.define("allclose", function(x, y, ...)
   for i = 1, select("#", ...) do
      local option = select(i, ...)
      if V.is_sparse(option) then args.refuse("allclose", "rtol or atol", "a number", option) end
   end
   return torch.allclose(C.to_dense(x), C.to_dense(y), ...)
end)

return M
