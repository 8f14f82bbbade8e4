-- Tests elementwise operators: promotion, broadcasting, edge cases, and gradients at special
-- points.

local torch = require "tlua"

local nan <const>, inf <const> = 0 / 0, math.huge

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

-- Returns the gradients of sum(fn(...)) with respect to the arguments.
local function gradients(fn, ...) return torch.autograd.grad(fn(...):sum(), {...}) end

describe("promotion", function()
   it("lets a number keep a tensor's width", function()
      local half = torch.zeros(2, {dtype = "float16"})
      assert.equal("float16", (half + 1.5).dtype)
      assert.equal("float16", (half * 2).dtype)
      assert.equal("float32", (torch.zeros(2, {dtype = "int8"}) + 1.5).dtype)
      assert.equal("int8", (torch.zeros(2, {dtype = "int8"}) + 1).dtype)
      assert.equal("int64", (torch.zeros(2, {dtype = "bool"}) + 1).dtype)
   end)

   it("lets a tensor without dimensions only raise the category", function()
      local zero = torch.tensor(1.0, {dtype = "float64"})
      assert.equal("float32", (torch.zeros(2) + zero).dtype)
      assert.equal("float64", (torch.zeros(2, {dtype = "int32"}) + zero).dtype)
   end)

   it("keeps a number's precision", function()
      local x = torch.ones(1, {dtype = "float64"})
      assert.equal(1.1, (x * 1.1):item())
      assert.equal(1 << 53 | 1, (torch.zeros(1, {dtype = "int64"}) + (1 << 53 | 1)):item())
   end)

   it("keeps a number's precision in gradients", function()
      local weight = 1.09
      local x = torch.full({2}, 0.7, {dtype = "float64"}):requires_grad_()
      local function slope(y) return (torch.autograd.grad(y:sum(), x)):tolist()[1] end
      assert.close(1 - weight, slope(x:lerp(torch.zeros(2), weight)), 1e-15)
      assert.close(weight / (0.7 * 0.7 + weight * weight), slope(x:atan2(weight)), 1e-15)
   end)

   it("converts tensors without dimensions before an integer is computed", function()
      local x, negative = torch.tensor({2, 200}, {dtype = "uint8"}), torch.tensor(-3)
      assert.same({2, 200}, x:minimum(negative):tolist()) -- -3 becomes 253
      assert.same({253, 253}, x:maximum(negative):tolist())
      assert.same({0, 0}, x:div(negative, {rounding_mode = "trunc"}):tolist())
   end)

   it("gives float64 in float_power, whatever operand has dimensions", function()
      local one, half = torch.tensor {1.0, 4.0}, torch.tensor(0.5)
      for _, power in ipairs {one:float_power(half), half:float_power(one), one:float_power(2)} do
         assert.equal("float64", power.dtype)
      end
   end)

   it("wraps integers around", function()
      assert.equal(-128, (torch.tensor({127}, {dtype = "int8"}) + 1):item())
      assert.equal(math.mininteger, (torch.tensor {math.maxinteger} + 1):item())
   end)
end)

describe("pointwise operators refuse", function()
   it("shapes that do not broadcast", function()
      assert.raises("add", "[2, 3]", "[2]", function() return torch.zeros(2, 3) + torch.zeros(2) end)
   end)

   it("bool if PyTorch refuses it", function()
      local mask = torch.ones(2, {dtype = "bool"})
      assert.raises("sub", "bool", function() return mask - mask end)
      assert.raises("sub", "bool", function() return torch.zeros(2) - mask end)
      assert.raises("neg", "bool", function() return -mask end)
      assert.raises("positive", "bool", function() mask:positive() end)
   end)

   it("integers divided by zero", function()
      local x, zero = torch.tensor {1, 2}, torch.tensor {1, 0}
      assert.raises("floor_divide", function() return x // zero end)
      assert.raises("remainder", function() return x % 0 end)
      assert.equal(inf, (x / zero)[2]:item())
      assert.equal(inf, (torch.tensor {1.0} // torch.tensor {0.0}):item())
   end)

   it("integers to a negative power", function()
      assert.raises("pow", "floating", function() return torch.tensor {2} ^ -1 end)
      assert.equal(0.5, (torch.tensor {2.0} ^ -1):item())
   end)

   it("floats with bitwise operators, fractions with integers", function()
      assert.raises("bitwise_and", "float32", function() return torch.zeros(1) & torch.zeros(1) end)
      assert.raises("add", "integer", function() torch.add(torch.tensor {1}, 1, {alpha = 0.5}) end)
   end)

   it("a result that the tensor cannot store in place", function()
      assert.raises("int64", "float32", function() torch.tensor({1}):add_(0.5) end)
      assert.raises("[1]", "[2]", function() torch.zeros(1):add_(torch.zeros(2)) end)
   end)

   it("unknown rounding modes", function()
      assert.raises("div", "floor", "trunc", "up", function() torch.div(torch.ones(1), 2, {rounding_mode = "up"}) end)
   end)
end)

describe("thresholds", function()
   it("lose their fraction for integers", function()
      local F, x = torch.nn.functional, torch.tensor {-2, 0, 1, 2, 3}
      assert.same({1, 1, 1, 2, 3}, F.threshold(x, 0.5, 1.7):tolist())
      assert.same({-3, -3, -3, 2, 3}, F.threshold(x, 1.5, -3.2):tolist())
      assert.same({0, 0, 1, 1, 1}, F.hardtanh(x, -0.5, 1.7):tolist())
   end)

   it("refuse invalid bounds", function()
      local F, x = torch.nn.functional, torch.ones(2)
      assert.raises("hardtanh: min_val", "at most max_val -1", "got 1", function() F.hardtanh(x, 1, -1) end)
      assert.raises("hardtanh: min_val", function() F.hardtanh_(x, 1, -1) end)
      assert.raises("softshrink: lambd", "-0.5", function() F.softshrink(x, -0.5) end)
   end)
end)

it("div_ and clamp_ need no memory for their result", function()
   local x, y = torch.full({64, 256}, 3.0), torch.ones(256) -- x has 64 KB
   local function div(mode) return function() x:div_(y, {rounding_mode = mode}) end end
   for _, call in ipairs {
      div(), div "trunc", div "floor", function() x:div_(2) end, function() x:clamp_(1, 2) end,
      function() x:clamp_(y, 4) end, function() x:clamp_ {min = y} end, function() x:clamp_ {max = 1} end,
   } do
      torch.reset_peak_memory_stats(x.device)
      local before = torch.memory_allocated(x.device)
      call()
      local more = torch.max_memory_allocated(x.device) - before
      assert.is_true(more < 64 << 10, more)
   end
   assert.equal(64 * 256, x:sum():item())
end)

it("an operator in place may read the tensor that it writes", function()
   local x = torch.arange(4)
   x:narrow(1, 2, 3):add_(x:narrow(1, 1, 3))
   assert.close({0, 1, 3, 5}, x, 0)
   local y = torch.arange(9):view(3, 3)
   y:add_(y:t())
   assert.close({{0, 4, 8}, {4, 8, 12}, {8, 12, 16}}, y, 0)
end)

describe("division", function()
   it("rounds as asked", function()
      local a, b = torch.tensor {7, -7, 7, -7}, torch.tensor {2, 2, -2, -2}
      assert.close({3, -4, -4, 3}, a // b, 0)
      assert.close({3, -3, -3, 3}, torch.div(a, b, {rounding_mode = "trunc"}), 0)
      assert.close({1, 1, -1, -1}, a % b, 0)
      assert.close({1, -1, 1, -1}, torch.fmod(a, b), 0)
      assert.equal("float32", (a / b).dtype)
   end)

   it("of the most negative integer by -1 wraps around", function()
      local least = torch.tensor {math.mininteger}
      assert.equal(math.mininteger, (least // -1):item())
      assert.equal(0, (least % -1):item())
   end)
end)

describe("pow", function()
   it("has a kernel of its own for common exponents", function()
      local x = leaf {0.5, 2, 3}
      for _, e in ipairs {2, 0.5, -1, -0.5, 3, 1, 0, 2.5} do
         local expected = {}
         for i, v in ipairs {0.5, 2, 3} do expected[i] = v ^ e end
         assert.close(expected, x ^ e, 1e-14)
         assert.gradcheck(function(t) return t ^ e end, {x})
      end
      assert.close({1, 4, 9}, torch.tensor {1, 2, -3} ^ 2, 0)
   end)

   it("has a gradient of 0 where the exponent is 0", function()
      local x, e = leaf {0, 2}, leaf {0, 0}
      local gx, ge = gradients(torch.pow, x, e)
      assert.close({0, 0}, gx, 0)
      assert.close({0, math.log(2)}, ge, 1e-15)
      assert.close({0, 0}, torch.autograd.grad((x ^ 0):sum(), x), 0)
   end)

   it("has a gradient of 0 by the exponent of a base of 0", function()
      local _, ge = gradients(torch.pow, leaf {0, 0}, leaf {0.5, 3})
      assert.close({0, 0}, ge, 0)
   end)

   it("keeps the precision of a number as base", function()
      local e = leaf {1.5}
      local slope = torch.autograd.grad(torch.pow(2.3, e):sum(), e)
      assert.close({math.log(2.3) * 2.3 ^ 1.5}, slope, 1e-15)
   end)
end)

describe("clamp", function()
   it("takes numbers, tensors, or nothing", function()
      local x = torch.tensor {-2.0, 0.5, 3, nan}
      assert.close({-1, 0.5, 1, nan}, x:clamp(-1, 1), 0)
      assert.close({-2, 0.5, 1, nan}, x:clamp(nil, 1), 0)
      assert.close({0, 0.5, 3, nan}, x:clamp({min = 0}), 0)
      local low, high = torch.tensor {0.0, 1, 2, 3}, torch.tensor {1.0, 1, 2, 3}
      assert.close({0, 1, 2, nan}, x:clamp(low, high), 0)
      assert.raises("clamp", "neither", function() x:clamp() end)
   end)

   it("is the upper bound where the bounds cross", function()
      assert.close({1}, torch.tensor({5.0}):clamp(3, 1), 0)
   end)

   it("keeps integers if a bound is outside the range of their dtype", function()
      for dtype, value in pairs {uint8 = 200, int8 = -100, int16 = -30000, int32 = 2147483647} do
         local x = torch.tensor({value}, {dtype = dtype})
         assert.same({value}, x:clamp(-1 << 40, 1 << 40):tolist())
         assert.same({value}, x:clamp_min(-1 << 40):tolist())
         assert.same({value}, x:maximum(-1 << 40):tolist())
         assert.same({value}, x:clone():clamp_max_(1 << 40):tolist())
         assert.raises("clamp_min: the lower bound 1099511627776 is outside the range of " .. dtype,
            function() x:clamp_min(1 << 40) end)
         assert.raises("clamp: the upper bound -1099511627776 is outside the range of " .. dtype,
            function() x:clamp(nil, -1 << 40) end)
      end
   end)

   it("passes the gradient at the bounds", function()
      local x = leaf {-1, 1, 0, 2}
      assert.close({1, 1, 1, 0}, torch.autograd.grad(x:clamp(-1, 1):sum(), x), 0)
      local low, high = leaf {0, 0, 3}, leaf {1, 1, 1}
      local gx, gl, gh = gradients(torch.clamp, leaf {-1, 2, 0}, low, high)
      assert.close({0, 0, 0}, gx, 0)
      assert.close({1, 0, 0}, gl, 0)
      assert.close({0, 1, 1}, gh, 0)
   end)
end)

describe("maximum and minimum", function()
   it("share the gradient of equal elements", function()
      local ga, gb = gradients(torch.maximum, leaf {1, 2, 3}, leaf {1, 3, 2})
      assert.close({0.5, 0, 1}, ga, 0)
      assert.close({0.5, 1, 0}, gb, 0)
   end)

   it("return NaN; fmax and fmin ignore it", function()
      local a, b = torch.tensor {nan, 1.0}, torch.tensor {1.0, nan}
      assert.close({nan, nan}, torch.maximum(a, b), 0)
      assert.close({1, 1}, torch.fmax(a, b), 0)
      assert.close({1, 1}, torch.fmin(a, b), 0)
      local ga, gb = gradients(torch.fmax, leaf {nan, 1}, leaf {1, nan})
      assert.close({0, 1}, ga, 0)
      assert.close({1, 0}, gb, 0)
   end)
end)

it("xlogy is 0 if the factor is 0, and NaN if the other is NaN", function()
   local x = torch.tensor {0.0, 0, 0, 2}
   assert.close({0, 0, nan, 0}, torch.xlogy(x, torch.tensor {0.0, -1, nan, 1}), 0)
   local gx, gy = gradients(torch.xlogy, leaf {0, 2}, leaf {0.5, 0.5})
   assert.close({math.log(0.5), math.log(0.5)}, gx, 1e-15)
   assert.close({0, 4}, gy, 1e-15)
   local edge = gradients(torch.xlogy, leaf {0, 0, 0}, leaf {0, -1, nan})
   assert.close({0, 0, nan}, edge, 0)
end)

describe("a matrix beside a row, a column or a part of another", function()
   it("is added for rows of any width and any number of threads", function()
      local threads = torch.get_num_threads()
      for _, count in ipairs {1, 3} do
         torch.set_num_threads(count)
         for _, width in ipairs {64, 100, 128, 144, 200, 1040} do
            local rows = 70000 // width + 3
            -- The element (i, j) of the sum is 1000 i + j, if i and j count from 0.
            local at = torch.arange(rows * width)
            local expected = (at // width * 1000 + at % width):float():view(rows, width)
            local column = (torch.arange(rows):view(rows, 1) * 1000):float()
            local row, zeros = torch.arange(width):float(), torch.zeros(rows, width)
            local wide = torch.zeros(rows, width + 16)
            local part = wide:narrow(2, 9, width)
            part:copy_(row:expand(rows, width))
            assert.is_true(torch.equal(expected, (zeros + column) + row))
            assert.is_true(torch.equal(expected, (zeros + row) + column))
            assert.is_true(torch.equal(expected, (zeros + column) + part))
            assert.is_true(torch.equal(expected, part + column))
            assert.is_true(torch.equal(expected, part:add_(column)))
            assert.equal(0, wide:narrow(2, 1, 8):abs():max():item())
            assert.equal(0, wide:narrow(2, width + 9, 8):abs():max():item())
         end
      end
      torch.set_num_threads(threads)
   end)
end)

describe("operands with short dimensions", function()
   -- Elements of 1, 2, 4, 8 and 16 bytes. The dtypes hold all numbers that occur.
   local dtypes <const> = {"uint8", "int16", "bfloat16", "float32", "int32", "float64", "int64", "complex128"}
   local function numbers(n, dtype) return torch.arange(n):remainder(100):to(dtype) end
   -- Returns element number i (from 1) of numbers(n, dtype).
   local function number(i) return (i - 1) % 100 end
   local function same(expected, x, dtype)
      assert.equal(dtype, x.dtype)
      assert.same(expected, torch.real(x):reshape(-1):tolist(), dtype)
   end

   it("are broadcast in three dimensions, into any strides", function()
      local n <const>, height <const>, width <const> = 61, 7, 5
      local expected = {}
      for i = 1, n do
         for j = 1, height do
            for k = 1, width do
               expected[#expected + 1] = number((i - 1) * height + j) + number((i - 1) * width + k)
            end
         end
      end
      for _, dtype in ipairs(dtypes) do
         local a, b = numbers(n * height, dtype):view(n, height, 1), numbers(n * width, dtype):view(n, 1, width)
         same(expected, a + b, dtype)
         local turned = torch.zeros(width, n, height, {dtype = dtype}):permute(2, 3, 1)
         same(expected, turned:add_(a):add_(b), dtype)
         local part = torch.zeros(n, height, width + 1, {dtype = dtype})
         part:narrow(3, 1, width):add_(b):add_(a)
         same(expected, part:narrow(3, 1, width), dtype)
         assert.equal(0, part:select(3, width + 1):abs():sum():item())
      end
   end)

   it("have rows of any number of bytes", function()
      local height <const> = 9
      for _, dtype in ipairs(dtypes) do
         local column = numbers(height, dtype):view(height, 1)
         for width = 1, 35 do
            local x, expected = numbers(height * (width + 1), dtype):view(height, width + 1), {}
            for i = 1, height do
               for j = 1, width do
                  expected[#expected + 1] = number((i - 1) * (width + 1) + j) + number(i)
               end
            end
            same(expected, x:narrow(2, 1, width) + column, dtype)
         end
      end
   end)
end)

describe("where", function()
   it("promotes and broadcasts", function()
      local mask = torch.tensor {true, false}
      assert.equal("float32", torch.where(mask, 1, 2.5).dtype)
      assert.equal("int64", torch.where(mask, 1, 2).dtype)
      assert.close({{1, 5}, {1, 6}}, torch.where(mask, 1, torch.tensor {{5}, {6}}), 0)
      assert.raises("where", "bool", "float32", function() torch.where(torch.ones(2), 1, 2) end)
   end)

   it("passes no gradient to elements that are not chosen", function()
      local x = leaf {0, 4}
      local safe = torch.where(x:gt(0), x, 1)
      assert.close({0, 0.25}, torch.autograd.grad(torch.where(x:gt(0), safe:sqrt(), 0):sum(), x), 0)
   end)

   it("alone gives positions", function()
      local rows, columns = table.unpack(torch.where(torch.tensor {{1, 0}, {0, 2}}))
      assert.close({1, 2}, rows, 0)
      assert.close({1, 2}, columns, 0)
      assert.close({1}, torch.where(torch.tensor(true))[1], 0)
   end)

   it("is exact for large integers", function()
      local x = torch.tensor {math.maxinteger, math.mininteger}
      assert.same({math.maxinteger, 7}, torch.where(torch.tensor {true, false}, x, 7):tolist())
   end)
end)

it("nan_to_num replaces by numbers or the dtype's extremes", function()
   local x = torch.tensor {nan, inf, -inf, 1.5}
   assert.close({0, 3.4028234663852886e38, -3.4028234663852886e38, 1.5}, x:nan_to_num(), 0)
   assert.close({1, 2, 3, 1.5}, x:nan_to_num(1, 2, 3), 0)
   assert.close({0, 65504, -65504, 1.5}, x:half():nan_to_num(), 0)
   assert.close({inf, 0, 1.5}, torch.tensor({nan, inf, 1.5}):nan_to_num(inf, 0), 0)
   local y = leaf {nan, inf, 2}
   assert.close({0, 0, 1}, torch.autograd.grad(y:nan_to_num():sum(), y), 0)
end)

describe("closeness", function()
   it("is bounded by both tolerances", function()
      local a = torch.tensor {1.0, inf, -inf, nan, 1e-9}
      local b = torch.tensor {1.000005, inf, inf, nan, 0}
      assert.same({true, true, false, false, true}, a:isclose(b):tolist())
      assert.same({true, true, false, true, true}, a:isclose(b, {equal_nan = true}):tolist())
      assert.same({true}, torch.tensor({5}):isclose(torch.tensor {5}, 0, 0):tolist())
      assert.is_true(torch.allclose(torch.zeros(0), torch.zeros(0)))
      assert.raises("isclose", "one dtype", function() a:isclose(torch.tensor {1}) end)
      assert.raises("allclose", "at least 0", function() torch.allclose(a, a, -1) end)
   end)

   it("is not fooled by differences that do not fit", function()
      local least = torch.tensor({-128}, {dtype = "int8"})
      assert.same({false}, least:isclose(torch.tensor({0}, {dtype = "int8"})):tolist())
      local a = torch.tensor {math.mininteger, math.mininteger, -2, math.maxinteger}
      local b = torch.tensor {math.maxinteger, 0, math.maxinteger, math.maxinteger - 1}
      assert.same({false, false, false, true}, a:isclose(b):tolist())
      assert.same({false, false, false, true}, b:isclose(a):tolist())
      assert.same({false, false, false, false}, a:isclose(b, 0, 0.5):tolist())
      assert.is_false(torch.allclose(a, b))
      assert.same({true, true, false, true}, b:isclose(a, 3):tolist())
   end)

   it("is whole for equal", function()
      assert.is_true(torch.equal(torch.tensor {1, 2}, torch.tensor {1, 2}))
      assert.is_false(torch.equal(torch.tensor {1, 2}, torch.tensor {1, 3}))
      assert.is_false(torch.equal(torch.tensor {1, 2}, torch.tensor {{1, 2}}))
      assert.is_false(torch.equal(torch.tensor {nan}, torch.tensor {nan}))
      assert.is_true(torch.equal(torch.zeros(0, 2), torch.zeros(0, 2)))
   end)
end)

it("comparisons give bool, and false with NaN", function()
   local x = torch.tensor {1.0, nan}
   assert.equal("bool", x:lt(2).dtype)
   assert.same({true, false}, x:eq(x):tolist())
   assert.same({false, true}, x:ne(x):tolist())
   assert.is_false(x == torch.tensor {1.0, nan})
   assert.is_true(x == x)
end)

it("bitwise operators are logical on bool", function()
   local a, b = torch.tensor {true, false}, torch.tensor {true, true}
   assert.same({true, false}, (a & b):tolist())
   assert.same({false, true}, (a ~ b):tolist())
   assert.same({false, true}, (~a):tolist())
   assert.same({-2, 0}, (~torch.tensor {1, -1}):tolist())
   assert.same({12, -2}, (torch.tensor {3, -1} << torch.tensor {2, 1}):tolist())
end)

it("bitwise operators compute narrow integers like wide ones, at any address and of any length", function()
   for _, dtype in ipairs {"uint8", "int8", "int16"} do
      local low = dtype == "uint8" and 0 or -128
      local a, b = torch.randint(low, low + 256, {70}):to(dtype), torch.randint(low, low + 256, {70}):to(dtype)
      for _, name in ipairs {"bitwise_and", "bitwise_or", "bitwise_xor"} do
         local op = torch[name]
         for _, n in ipairs {1, 7, 8, 33, 67} do
            for first = 1, 3 do
               local x, y = a:narrow(1, first, n), b:narrow(1, 1, n)
               assert.close(op(x:long(), y:long()):to(dtype), op(x, y), 0)
               assert.close(op(x:long(), 37):to(dtype), op(x, 37), 0)
               assert.close(op(y[1]:long(), x:long()):to(dtype), op(y[1], x), 0)
            end
         end
      end
   end
   assert.same({44, 0}, torch.tensor({255, 1}, {dtype = "uint8"}):bitwise_and(300):tolist())
end)

describe("special functions", function()
   it("have gradients at 0", function()
      local x = leaf {0}
      for _, name in ipairs {"sinc", "i0", "erf", "asinh", "sigmoid", "log1p", "expm1"} do
         assert.gradcheck(function(t) return t[name](t) end, {x})
      end
   end)

   it("of logit clamp only if eps is given", function()
      local x = torch.tensor {0.0, 0.5, 1}
      assert.close({-inf, 0, inf}, x:logit(), 0)
      assert.close({-math.log(9), 0, math.log(9)}, x:logit(0.1), 1e-6)
   end)

   it("split numbers in mantissa and exponent", function()
      local m, e = torch.tensor({0.0, 1, -6, inf}):frexp()
      assert.close({0, 0.5, -0.75, inf}, m, 0)
      assert.same({0, 1, 3, 0}, e:tolist())
      assert.equal("int32", e.dtype)
      assert.raises("frexp", "int64", function() torch.tensor({1}):frexp() end)
   end)
end)

describe("polygamma", function()
   local zeta3 <const>, pi4 <const> = 1.2020569031595942854, math.pi ^ 4
   -- Each row has the order, the point and the value. The values at 1 and 1/2 are closed forms; the other values follow
   -- from these by a recurrence.
   local known = {
      {2, 1, -2 * zeta3}, {2, 0.5, -14 * zeta3}, {2, -0.5, 16 - 14 * zeta3}, {2, 0, -inf}, {2, -3, -inf},
      {3, 1, pi4 / 15}, {3, 0.5, pi4}, {3, -0.5, pi4 + 96}, {3, -1, inf}, {4, 2, 24 - 24 * 1.0369277551433699263},
      {2, -inf, -inf}, {3, nan, nan},
   }

   it("has the values known of orders from 2", function()
      for _, row in ipairs(known) do
         local n, x, value = table.unpack(row)
         local result = torch.polygamma(n, torch.tensor({x}, {dtype = "float64"})):item()
         assert.is_true(result == value or value ~= value and result ~= result
            or math.abs(result / value - 1) < 1e-14, ("polygamma(%d, %g) is %.17g"):format(n, x, result))
      end
   end)

   it("is symmetric about 1/2 halfway between poles, far from 0 too", function()
      local x = torch.tensor({1000.5, 2.0 ^ 40 + 0.5}, {dtype = "float64"})
      local quotient = torch.polygamma(2, -x) / torch.polygamma(2, 1 + x)
      assert.close(torch.ones(2, {dtype = "float64"}), quotient, 1e-14)
   end)

   it("has the next order as its derivative, in place too", function()
      local at = {0.5, 1.0}
      local expected = torch.tensor({pi4, pi4 / 15}, {dtype = "float64"})
      assert.close(expected, gradients(function(x) return torch.polygamma(2, x) end, leaf(at)), 1e-13)
      assert.close(expected, gradients(function(x) return x:clone():polygamma_(2) end, leaf(at)), 1e-13)
      assert.raises("polygamma", "n from 0", function() torch.polygamma(-1, torch.ones(1)) end)
   end)
end)

describe("one element beside a row", function()
   local functions <const> = {
      function(x, y) return x + y end, function(x, y) return x * y end, function(x, y) return x / y end,
      function(x, y) return x % y end, function(x, y) return x // y end, function(x, y) return x:gt(y) end,
      function(x, y) return x:fmod(y) end, function(x, y) return x:maximum(y) end,
      function(x, y) return x:clamp(-y, y) end, function(x, y) return x:clone():sub_(y) end,
   }

   it("gives the same results as an array filled with it", function()
      torch.manual_seed(5)
      for _, dtype in ipairs {"float32", "float64", "bfloat16", "int32", "int64"} do
         for _, n in ipairs {127, 128, 145, 3000} do
            local x = torch.randint(-50, 50, {3, n}):to(dtype)
            local column, number = torch.tensor({{2}, {3}, {7}}, {dtype = dtype}), torch.tensor(3, {dtype = dtype})
            for k, f in ipairs(functions) do
               for _, y in ipairs {column, number} do
                  local whole = f(x, y:expand(3, n):contiguous())
                  assert.is_true(torch.equal(whole, f(x, y)), ("%s %d %d"):format(dtype, n, k))
               end
               assert.is_true(torch.equal(f(x, torch.full({3, n}, 3, {dtype = dtype})), f(x, 3)))
            end
         end
      end
   end)
end)

describe("PyTorch's special cases", function()
   local function bytes(...) return torch.tensor({...}, {dtype = "uint8"}) end

   it("bool squared is int64", function()
      local mask = torch.tensor {true, false}
      assert.close(torch.tensor {1, 0}, mask:square(), 0)
      assert.raises("square_", "bool", function() mask:square_() end)
   end)

   it("beside uint8 -1 is 255", function()
      assert.close(torch.tensor {true, false}, bytes(7, 255):lt(-1), 0)
      assert.close(bytes(7, 0), bytes(7, 255) % -1, 0)
      assert.close(bytes(0, 1), bytes(7, 255) // -1, 0)
   end)

   it("logit with eps above a half has two values", function()
      local high = math.log(1.5)
      assert.close(torch.tensor {high, -high, nan}, torch.tensor {0.1, 0.7, nan}:logit(0.6), 1e-6)
   end)

   it("ldexp keeps half types beside integers", function()
      local x = torch.tensor({1.5, 3}, {dtype = "bfloat16"})
      assert.close(torch.tensor({6.0, 1.5}, {dtype = "bfloat16"}), torch.ldexp(x, torch.tensor {2, -1}), 0)
   end)

   it("nextafter has slope 1 where it steps", function()
      local x, y = leaf {1, 2, 3}, leaf {1, 5, 0}
      assert.close({0.0, 1, 1}, gradients(function(a) return torch.nextafter(a, y:detach()) end, x), 0)
   end)

   -- Floating-point numbers of the same sign have the same order as their bit patterns.
   for _, dtype in ipairs {"float16", "bfloat16"} do
      it("nextafter goes to the next of all " .. dtype .. " values", function()
         local infinity = torch.tensor({inf}, {dtype = dtype}):view("int16"):item()
         local bits = torch.arange(0, infinity + 1, {dtype = "int64"})
         local up = bits:to("int16"):view(dtype)
         local function of(values) return values:contiguous():view("int16"):to("int64") end
         local function towards(values, goal) return of(torch.nextafter(values, torch.full_like(values, goal))) end
         assert.is_true(torch.equal(bits[{{2, -1}}], towards(up[{{1, -2}}], inf)))
         assert.is_true(torch.equal(bits[{{1, -2}}], towards(up[{{2, -1}}], 0)))
         local sign = -0x8000
         assert.is_true(torch.equal(bits[{{2, -1}}] + sign, towards(-up[{{1, -2}}], -inf)))
         assert.is_true(torch.equal(bits[{{1, -2}}] + sign, towards(-up[{{2, -1}}], 0)))
         assert.is_true(torch.equal(of(up), of(torch.nextafter(up, up))))
         assert.same({1, 1 + sign}, {towards(-up[{{1, 1}}], inf):item(), towards(up[{{1, 1}}], -1):item()})
         assert.is_true(torch.nextafter(up, up * nan):isnan():all():item())
      end)
   end

   it("float_power_ takes float64 only", function()
      local two = torch.tensor({2.0}, {dtype = "float64"})
      assert.close(torch.tensor({8.0}, {dtype = "float64"}), two:float_power_(3), 0)
      assert.raises("float_power_", "float64", function() torch.ones(1):float_power_(2) end)
   end)
end)
