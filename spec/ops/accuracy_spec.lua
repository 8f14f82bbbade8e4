-- Tests the accuracy of results for which a plain loop would be inaccurate.

local device = require "spec.support.device"
local torch = require "tlua"
local F = torch.nn.functional

-- Reference functions in float64, with formulas that are accurate near 0. They use the C library's functions, which are
-- in `math`.
local exp, log, sqrt, abs = math.exp, math.log, math.sqrt, math.abs

local function expm1(x)
   if abs(x) < 1e-3 then return x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4))) end
   return exp(x) - 1
end

-- Returns log(1 + x), corrected for the rounding of 1 + x (Kahan).
local function log1p(x)
   local u = 1 + x
   return u == 1 and x or log(u) * x / (u - 1)
end

local function sinh(x)
   local e = expm1(abs(x))
   return (x < 0 and -0.5 or 0.5) * (e + e / (e + 1))
end

local function asinh(x)
   local m = abs(x)
   local value = log1p(m + m * m / (1 + sqrt(1 + m * m)))
   return x < 0 and -value or value
end

-- Each row has a name, a reference function, and the lowest and the highest argument.
local functions = {
   {"exp", exp, -87, 88}, {"exp2", function(x) return 2 ^ x end, -125, 127}, {"expm1", expm1, -20, 88},
   {"log", log, 1e-30, 1e30}, {"log", log, 0.5, 2}, {"log2", function(x) return log(x, 2) end, 1e-3, 1e6},
   {"log10", function(x) return log(x, 10) end, 1e-3, 1e6}, {"log1p", log1p, -0.9, 100},
   {"log1p", log1p, -1e-3, 1e-3}, {"sin", math.sin, -30, 30}, {"cos", math.cos, -30, 30},
   {"sin", math.sin, -1e5, 1e5}, {"tan", math.tan, -30, 30}, {"asin", math.asin, -1, 1}, {"acos", math.acos, -1, 1},
   {"atan", math.atan, -50, 50}, {"sinh", sinh, -88, 88}, {"sinh", sinh, -0.01, 0.01},
   {"cosh", function(x) return 0.5 * (exp(x) + exp(-x)) end, -88, 88},
   {"tanh", function(x) local e = expm1(2 * x) return e / (e + 2) end, -9, 9}, {"asinh", asinh, -1e4, 1e4},
   {"acosh", function(x) local t = x - 1 return log1p(t + sqrt(2 * t + t * t)) end, 1, 100},
   {"atanh", function(x) return 0.5 * log1p(2 * x / (1 - x)) end, -0.999, 0.999},
   {"sigmoid", function(x) return 1 / (1 + exp(-x)) end, -80, 80}, {"sqrt", sqrt, 0, 1e10},
   {"rsqrt", function(x) return 1 / sqrt(x) end, 1e-10, 1e10},
   {"reciprocal", function(x) return 1 / x end, 1e-10, 1e10},
}

-- Returns the distance between adjacent float32 numbers near x.
local function unit(x)
   local exponent = x == 0 and -149 or math.floor(log(abs(x), 2))
   return 2.0 ^ math.max(exponent - 23, -149)
end

-- The maximum errors that the CUDA C++ Programming Guide ("Mathematical Functions") documents for some functions, in
-- units in the last place. All other functions must return the nearest float32, whose error is at most half a unit.
local promised <const> = {tan = 4, sinh = 3, asinh = 3, acosh = 4, atanh = 3, sigmoid = 4}
local function limit(name) return device.name == "cuda" and (promised[name] or 2) + 0.5 or 2 end

describe("float32 functions are within 2 units in the last place, or what CUDA promises:", function()
   local points <const> = 5003
   for _, row in ipairs(functions) do
      local name, reference, low, high = table.unpack(row)
      it(("%s from %g to %g"):format(name, low, high), function()
         torch.manual_seed(11)
         local x = (torch.rand(points, {dtype = "float64"}) * (high - low) + low):float()
         local y = x[name](x):tolist()
         local worst, where = 0, nil
         for i, argument in ipairs(x:tolist()) do
            local truth = reference(argument)
            local off = abs(y[i] - truth) / unit(truth)
            if off > worst or off ~= off then worst, where = off, argument end
         end
         assert.is_true(worst <= limit(name), ("%s(%s): %g units off"):format(name, where, worst))
      end)
   end
end)

describe("gelu in float32", function()
   it("is accurate near 0 too", function()
      local x = torch.linspace(-6.4, 8, 20000, {dtype = "float64"}):float():double()
      -- In float64, F.gelu calls C's erfc.
      local expected, actual = F.gelu(x), F.gelu(x:float()):double()
      if device.name == "cuda" then
         -- The GPU's kernel uses PyTorch's formula x * (1 + erf(x / sqrt(2))) / 2. For negative x the sum cancels, so
         -- the error is small relative to x only.
         assert.is_true(((actual - expected) / x):abs():max():item() < 2.4e-7)
         return
      end
      local off = (actual / expected - 1):abs()
      assert.is_true(off[x:gt(-1)]:max():item() < 5e-7)
      assert.is_true(off[x:gt(-3)]:max():item() < 1.2e-6)
      assert.is_true(off:max():item() < 6e-6)
   end)

   it("tends to x and to 0", function()
      local inf, nan = math.huge, 0 / 0
      local x = torch.tensor {inf, 3e38, 40.0, 6.6, 0.0, -6.6, -40.0, -3e38, -inf, nan}
      assert.close({inf, 3e38, 40, 6.6, 0, 0, 0, 0, nan, nan}, F.gelu(x), 1e-6)
   end)
end)

describe("sums in float32", function()
   it("of 10^8 ones are exact", function() assert.close(1e8, torch.ones(100000000):sum():item(), 100) end)

   it("of 10^7 random numbers are within a millionth", function()
      torch.manual_seed(12)
      local x = torch.rand(10000000)
      local truth = x:double():sum():item()
      -- The elements have a mean of 0.5, so the sum is near 5e6. Its standard deviation is 913.
      assert.is_true(abs(truth - 5e6) < 1e4)
      for _, sum in ipairs {x:sum(), x:view(1000, 10000):sum(1):double():sum(),
                            x:view(10000, 1000):sum(2):double():sum(),
                            x:mean() * 1e7} do
         assert.is_true(abs(sum:item() / truth - 1) < 1e-6, sum:item())
      end
   end)

   it("are rounded for half types only at the end", function()
      for _, dtype in ipairs {"float16", "bfloat16"} do
         local x = torch.ones(4096, {dtype = dtype})
         assert.equal(4096, x:sum():item())
         assert.equal(1, x:mean():item())
         assert.equal(64, x:norm():item())
         assert.equal(4096, x:view(1, 4096):matmul(x:view(4096, 1)):item())
         assert.equal(4096, x:cumsum(1)[4096]:item())
      end
   end)
end)

describe("large inputs of", function()
   local x = torch.tensor {10000.0, 10001, 9999}
   local e = exp(1)

   it("softmax and logsumexp give finite results", function()
      local total = 1 + e + 1 / e
      assert.close({1 / total, e / total, 1 / e / total}, F.softmax(x, 1), 1e-6)
      assert.close({-log(total), 1 - log(total), -1 - log(total)}, F.log_softmax(x, 1), 1e-3)
      assert.close(10000 + log(total), x:logsumexp(1), 1e-3)
      assert.close({0.5, 0.5}, F.softmax(torch.tensor {-3e38, -3e38}, 1), 0)
      assert.close(0, F.cross_entropy(torch.tensor {{1e30, 0.0}}, torch.tensor {1}), 0)
   end)

   it("variances cause no cancellation", function()
      local near = torch.arange(1000) % 10 + 1000000.0 -- the population variance of 0, 1, ..., 9 is 8.25
      assert.equal("float32", near.dtype)
      assert.close(8.25, near:var {correction = 0}, 1e-5)
      assert.close(sqrt(8.25), near:std {correction = 0}, 1e-5)
      assert.close(torch.full({100}, 8.25), near:view(100, 10):var(2, {correction = 0}), 1e-5)
      assert.close(torch.zeros(10), near:view(100, 10):var(1), 0)
   end)
end)
