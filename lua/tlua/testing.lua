-- testing.lua - torch.testing: compares tensors in tests, and makes random tensors for tests.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- Maps dtypes to PyTorch's tolerances {rtol, atol}; integers are compared exactly.
local tolerances <const> = {
   float16 = {1e-3, 1e-5}, bfloat16 = {1.6e-2, 1e-5}, float32 = {1.3e-6, 1e-5},
   float64 = {1e-7, 1e-7}, complex64 = {1.3e-6, 1e-5}, complex128 = {1e-7, 1e-7},
}

local function tolerance_of(dtype, other)
   local a, b = tolerances[dtype] or {0, 0}, tolerances[other] or {0, 0}
   return math.max(a[1], b[1]), math.max(a[2], b[2])
end

-- Comparing ---------------------------------------------------------------------------------------

local function place_text(path) return path == "" and "" or ("\n\nThe failure occurred for item %s")
   :format(path) end

local function fail(o, path, text, ...)
   local message = text:format(...) .. place_text(path)
   if type(o.msg) == "function" then message = o.msg(message) end
   torch.raise("assert_close: " .. (type(o.msg) == "string" and o.msg or message))
end

-- Formats the position of element k, counted from 1, in a tensor of a given shape: "(2, 1)".
local function position_text(shape, k)
   local position = {}
   k = k - 1
   for d = #shape, 1, -1 do
      table.insert(position, 1, k % shape[d] + 1)
      k = k // shape[d]
   end
   return "(" .. table.concat(position, ", ") .. ")"
end

-- Returns the required relation as a word for messages: "equal" if both tolerances are 0, otherwise
-- "close".
local function demand(o) return o.rtol == 0 and o.atol == 0 and "equal" or "close" end

local function allowed(o, tolerance)
   return demand(o) == "equal" and "" or (" (up to %g allowed)"):format(tolerance)
end

-- Describes how two tensors on the CPU, of the same shape and dtype, differ.
local function describe_mismatch(actual, expected, close, o)
   local wide = actual:is_complex() and "complex128" or "float64"
   local a, e = actual:to(wide):flatten(), expected:to(wide):flatten()
   local off = (a - e):abs()
   off:masked_fill_(close:flatten(), 0)
   local relative = off / e:abs()
   relative:masked_fill_(close:flatten(), 0)
   local function greatest(values)
      local value, k = values:max(1)
      return value:item(), position_text(actual.shape, k:item())
   end
   local wrong = close:logical_not():sum():item()
   local absolute, absolute_at = greatest(off)
   local ratio, ratio_at = greatest(relative)
   return ("Mismatched elements: %d / %d (%.1f%%)\nGreatest absolute difference: %.9g at index %s%s"
      .. "\nGreatest relative difference: %.9g at index %s%s"):format(wrong, a:numel(),
         100 * wrong / a:numel(), absolute, absolute_at, allowed(o, o.atol), ratio, ratio_at,
         allowed(o, o.rtol))
end

local compare_tensors

-- Compares the components of two sparse tensors of one layout.
local function compare_sparse(actual, expected, o, path)
   if actual.layout ~= expected.layout then
      fail(o, path, "The values for attribute 'layout' do not match: %s != %s.", actual.layout,
         expected.layout)
   end
   if actual.layout == "sparse_coo" then
      actual, expected = actual:coalesce(), expected:coalesce()
   end
   local a, e = torch._sparse_parts(actual), torch._sparse_parts(expected)
   if actual:_nnz() ~= expected:_nnz() then
      fail(o, path, "The number of specified values in sparse tensors does not match: %d != %d",
         actual:_nnz(), expected:_nnz())
   end
   for _, key in ipairs {"indices", "pointers", "plain", "values"} do
      if a[key] then compare_tensors(a[key], e[key], o, ("%s.%s"):format(path, key)) end
   end
end

function compare_tensors(actual, expected, o, path)
   for i = 1, math.max(actual:dim(), expected:dim()) do
      if actual.shape[i] ~= expected.shape[i] then
         fail(o, path, "The values for attribute 'shape' do not match: (%s) != (%s).",
            table.concat(actual.shape, ", "), table.concat(expected.shape, ", "))
      end
   end
   for attribute, checked in pairs {device = o.check_device, dtype = o.check_dtype} do
      if checked and actual[attribute] ~= expected[attribute] then
         fail(o, path, "The values for attribute '%s' do not match: %s != %s.", attribute,
            actual[attribute], expected[attribute])
      end
   end
   if torch._sparse_parts(actual) or torch._sparse_parts(expected) then
      return compare_sparse(actual, expected, o, path)
   end
   if o.check_stride then
      local a, e = actual:stride(), expected:stride()
      if table.concat(a, ", ") ~= table.concat(e, ", ") then
         fail(o, path, "The values for attribute 'stride()' do not match: (%s) != (%s).",
            table.concat(a, ", "), table.concat(e, ", "))
      end
   end
   local rtol, atol = o.rtol, o.atol
   if not rtol then rtol, atol = tolerance_of(actual.dtype, expected.dtype) end
   local a, e = actual:detach():cpu(), expected:detach():cpu()
   local dtype = torch.promote_types(a.dtype, e.dtype)
   if dtype == "bool" then dtype = "uint8" end
   a, e = a:to(dtype), e:to(dtype)
   local close = torch.isclose(a, e, {rtol = rtol, atol = atol, equal_nan = o.equal_nan})
   if close:all():item() then return end
   local given = {rtol = rtol, atol = atol}
   fail(o, path, "Tensor-likes are not %s!\n\n%s", demand(given),
      describe_mismatch(a, e, close, given))
end

local function compare_numbers(actual, expected, o, path)
   local integers = math.type(actual) == "integer" and math.type(expected) == "integer"
   local rtol, atol = o.rtol, o.atol
   if not rtol then rtol, atol = tolerance_of(integers and "int64" or "float64") end
   local both_nan = actual ~= actual and expected ~= expected
   if actual == expected or o.equal_nan and both_nan then return end
   local off = math.abs(actual - expected)
   if off <= atol + rtol * math.abs(expected) and off < math.huge then return end
   local given = {rtol = rtol, atol = atol}
   fail(o, path, "Scalars are not %s!\n\nExpected %s but got %s.\nAbsolute difference: %.9g%s"
      .. "\nRelative difference: %.9g%s", demand(given), expected, actual, off,
      allowed(given, atol), off / math.abs(expected), allowed(given, rtol))
end

local compare

local function compare_tables(actual, expected, o, path)
   for key in pairs(expected) do
      if actual[key] == nil then fail(o, path, "The key %s is missing.", key) end
   end
   for key, value in pairs(actual) do
      if expected[key] == nil then fail(o, path, "The key %s is not expected.", key) end
      compare(value, expected[key], o, ("%s[%s]"):format(path, tostring(key)))
   end
end

function compare(actual, expected, o, path)
   local a, e = torch.is_tensor(actual), torch.is_tensor(expected)
   if a and e then return compare_tensors(actual, expected, o, path) end
   if type(actual) == "number" and type(expected) == "number" then
      return compare_numbers(actual, expected, o, path)
   end
   if not (a or e) and type(actual) == "table" and type(expected) == "table" then
      return compare_tables(actual, expected, o, path)
   end
   local plain = type(actual) == "boolean" or type(actual) == "string"
   if not plain or type(actual) ~= type(expected) then
      fail(o, path, "expected two tensors, numbers, booleans, strings or tables of them, got %s "
         .. "and %s", args.describe(actual), args.describe(expected))
   end
   if actual ~= expected then fail(o, path, "%s != %s", tostring(actual), tostring(expected)) end
end

local take_close = args.signature [[assert_close(actual: any, expected: any,
   rtol: number?, atol: number?, equal_nan: boolean = false, check_device: boolean = true,
   check_dtype: boolean = true, check_stride: boolean = false, msg: string|function?)]]

--- Raises an error unless |actual - expected| <= atol + rtol * |expected| holds for all elements,
--- and shapes, dtypes and devices are equal. Takes tensors, numbers, booleans, strings, and tables
--- of these. Booleans and strings must be equal. The default tolerances are those of PyTorch for
--- the dtype, such as 1.3e-6 and 1e-5 for float32; give both tolerances or none.
---@param actual any
---@param expected any
---@param options? {rtol: number, atol: number, equal_nan: boolean, check_device: boolean,
--- check_dtype: boolean, check_stride: boolean, msg: string|fun(message: string): string}
function M.assert_close(actual, expected, ...)
   -- the first two arguments may be tables, so they are not parsed as options
   local o = take_close(0, 0, ...)
   if (o.rtol == nil) ~= (o.atol == nil) then
      torch.raise "assert_close: rtol and atol: expected both or none"
   end
   compare(actual, expected, o, "")
end

-- Making ------------------------------------------------------------------------------------------

local integers <const> = {uint8 = {0, 10}, bool = {0, 2}}

local take_make = args.signature [[make_tensor(shape: integers, dtype: string, device: device,
   low: number?, high: number?, requires_grad: boolean = false, noncontiguous: boolean = false,
   exclude_zero: boolean = false)]]

-- Reads the arguments (shape, options) or, for example, (2, 3, options). Returns the shape as a
-- list, and the arguments after it.
local function with_shape(...)
   local first = ...
   if math.type(first) ~= "integer" then return ... end
   local given, sizes = {...}, {}
   while math.type(given[1]) == "integer" do sizes[#sizes + 1] = table.remove(given, 1) end
   return sizes, table.unpack(given)
end

-- Returns the limits low and high. Raises an error unless low < high and both lie within the
-- dtype's range.
local function limits(a, floating)
   local usual = floating and {-9, 9} or integers[a.dtype] or {-9, 10}
   local low, high = a.low or usual[1], a.high or usual[2]
   if low ~= low or high ~= high or low >= high then
      torch.raise(("make_tensor: low: expected less than high, got %g and %g"):format(low, high))
   end
   local info = floating and torch.finfo(a.dtype)
      or a.dtype == "bool" and {min = 0, max = 1} or torch.iinfo(a.dtype)
   return math.max(low, info.min), math.min(high, floating and info.max or info.max + 1.0)
end

--- Makes a tensor of random elements from `low` to `high`, excluding `high`. The default limits are
--- -9 to 9 for floating-point dtypes, -9 to 10 for signed integers, 0 to 10 for uint8, and 0 and 1
--- for bool. The arguments are PyTorch's: noncontiguous makes a tensor that is not contiguous, and
--- exclude_zero makes one without zeros.
---@param ... integer|integer[]|table  sizes, and the options dtype, device, low, high,
--- requires_grad, noncontiguous, exclude_zero; dtype and device are required
---@return Tensor
function M.make_tensor(...)
   local a = take_make(with_shape(...))
   local floating = pcall(torch.finfo, a.dtype)
   if a.requires_grad and not floating then
      torch.raise(("make_tensor: requires_grad: expected a floating dtype, got %s"):format(a.dtype))
   end
   local low, high = limits(a, floating)
   local shape = table.move(a.shape, 1, #a.shape, 1, {})
   if a.noncontiguous and #shape > 0 then shape[#shape] = 2 * shape[#shape] end
   local x
   if floating then
      x = torch.rand(shape, {dtype = a.dtype, device = a.device}) * (high - low) + low
   else
      x = torch.randint(math.ceil(low), math.ceil(high), shape, {device = a.device}):to(a.dtype)
   end
   if a.noncontiguous and #shape > 0 then x = x[{"...", {1, -1, 2}}] end
   if a.exclude_zero then
      x:masked_fill_(x:eq(0), floating and torch.finfo(a.dtype).tiny or 1)
   end
   return a.requires_grad and x:requires_grad_() or x
end

return M
