-- narrow_products.lua - products of matrices whose elements have eight bits: torch._int_mm for
-- integers and torch._scaled_mm for float8.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local function check_shapes(who, a, b)
   if a:dim() ~= 2 then args.refuse(who, "self", "a matrix", a) end
   if b:dim() ~= 2 then args.refuse(who, "mat2", "a matrix", b) end
   if a:size(2) ~= b:size(1) then
      torch.raise(("%s: shapes (%s) and (%s) do not fit: %d columns and %d rows"):format(who,
         table.concat(a.shape, ", "), table.concat(b.shape, ", "), a:size(2), b:size(1)))
   end
end

local take_int = args.signature "_int_mm(self: tensor, mat2: tensor)"

-- The number of products of two bytes, up to 255 * 128, whose sum float32 represents exactly.
local exact_terms <const> = 2 ^ 24 // (255 * 128) | 0

--- Returns the product of two matrices of 8-bit integers in int32, without rounding. The products
--- are computed in float32, in parts whose sums are exact.
---
---     local a = torch.tensor({{100, -100}, {1, 2}}, {dtype = "int8"})
---     print(torch._int_mm(a, a))
---     --> tensor([[ 9900, -10200],
---     -->         [  102,   -96]], dtype=torch.int32)
---@param self Tensor  (m, k) int8 or uint8
---@param mat2 Tensor  (k, n) int8
---@return Tensor  (m, n) int32
function M._int_mm(...)
   local a = take_int(...)
   local left, right = a.self, a.mat2
   if left.dtype ~= "int8" and left.dtype ~= "uint8" then
      args.refuse("_int_mm", "self", "int8 or uint8", left)
   end
   if right.dtype ~= "int8" then args.refuse("_int_mm", "mat2", "int8", right) end
   check_shapes("_int_mm", left, right)
   local count = left:size(2)
   local function part(first, n)
      return left:narrow(2, first, n):to "float32":mm(right:narrow(1, first, n):to "float32")
         :to "int32"
   end
   if count == 0 then
      return torch.zeros({left:size(1), right:size(2)}, {dtype = "int32", device = left.device})
   end
   local sum
   for first = 1, count, exact_terms do
      local partial = part(first, math.min(exact_terms, count - first + 1))
      sum = sum and sum:add_(partial) or partial
   end
   return sum
end

local take_scaled = args.signature [[_scaled_mm(self: tensor, mat2: tensor, scale_a: tensor,
   scale_b: tensor, bias: tensor?, scale_result: tensor?, out_dtype: string?,
   use_fast_accum: boolean = false)]]

local function is_float8(t) return t.dtype:find "^float8_" and t.dtype ~= "float8_e8m0fnu" end

-- Returns a float8 matrix times its scale in float32. A scale is one number or a matrix (rows,
-- columns), which has one number for each row of the first matrix of the product, or for each
-- column of the second matrix.
local function scaled(name, t, scale, rows, columns)
   if scale.dtype ~= "float32" then args.refuse("_scaled_mm", name, "float32", scale) end
   local single = scale:numel() == 1
   local fits = scale:dim() == 2 and scale:size(1) == rows and scale:size(2) == columns
   if not single and not fits then
      args.refuse("_scaled_mm", name, ("one number or a shape of (%d, %d)"):format(rows, columns),
         scale)
   end
   return t:to "float32" * (fits and scale or scale:reshape {})
end

--- Returns the product of two float8 matrices times their scales, computed in float32 and rounded
--- to `out_dtype`.
---
---     local a = torch.tensor({{1, 2}, {3, 4}}):to "float8_e4m3fn"
---     local scale = torch.tensor(0.5)
---     print(torch._scaled_mm(a, a:t(), scale, scale, {out_dtype = "float32"}))
---     --> tensor([[1.2500, 2.7500],
---     -->         [2.7500, 6.2500]])
---@param self Tensor  (m, k) float8
---@param mat2 Tensor  (k, n) float8
---@param scale_a Tensor  float32: one number, or (m, 1), one of each row
---@param scale_b Tensor  float32: one number, or (1, n), one of each column
---@param bias? Tensor  (n), added to the product
---@param scale_result? Tensor  a number by which the result is divided
---@param out_dtype? string  that of self by default
---@param use_fast_accum? boolean  accepted as in PyTorch; sums are always in float32
---@return Tensor  (m, n)
function M._scaled_mm(...)
   local a = take_scaled(...)
   for _, name in ipairs {"self", "mat2"} do
      if not is_float8(a[name]) then args.refuse("_scaled_mm", name, "a float8 matrix", a[name]) end
   end
   check_shapes("_scaled_mm", a.self, a.mat2)
   local product = scaled("scale_a", a.self, a.scale_a, a.self:size(1), 1):mm(
      scaled("scale_b", a.mat2, a.scale_b, 1, a.mat2:size(2)))
   if a.bias then
      if a.bias:dim() ~= 1 or a.bias:size(1) ~= a.mat2:size(2) then
         args.refuse("_scaled_mm", "bias", ("a vector of %d"):format(a.mat2:size(2)), a.bias)
      end
      product = product + a.bias:to "float32"
   end
   if a.scale_result then product = product / a.scale_result:reshape {} end
   return product:to(a.out_dtype or a.self.dtype)
end

return M
