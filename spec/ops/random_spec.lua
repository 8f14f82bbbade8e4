-- Tests that random numbers do not depend on the number of threads, and have the right distributions.

local torch = require "tlua"
local sorted = require "spec.support.sorted"

local function seeded(fn)
   torch.manual_seed(5)
   return fn()
end

describe("a seed", function()
   it("gives the same numbers again", function()
      for _, draw in ipairs {
         function() return torch.rand(100) end, function() return torch.randn(7, 3) end,
         function() return torch.randint(0, 1000, {50}) end,
         function() return torch.randperm(20) end,
         function() return torch.multinomial(torch.ones(9), 5) end,
         function() return torch.full({50}, 0.3):bernoulli() end,
      } do
         local a = seeded(draw)
         assert.is_true(torch.equal(a, seeded(draw)))
         assert.is_false(torch.equal(a, draw()))
      end
   end)

   it("gives the same numbers with any number of threads", function()
      local n = torch.get_num_threads()
      local function draw() return torch.randn(200003) end
      torch.set_num_threads(1)
      local a = seeded(draw)
      torch.set_num_threads(3)
      assert.is_true(torch.equal(a, seeded(draw)))
      torch.set_num_threads(n)
   end)

   it("gives a prefix for fewer numbers", function()
      local many = seeded(function() return torch.rand(1000) end)
      local few = seeded(function() return torch.rand(10) end)
      assert.is_true(torch.equal(many:narrow(1, 1, 10), few))
   end)

   it("numbers elements in row-major order, however they lie in memory", function()
      local a = seeded(function() return torch.zeros(3, 4):normal_() end)
      local b = seeded(function() return torch.zeros(4, 3):t():normal_() end)
      assert.is_true(torch.equal(a, b))
   end)

   it("belongs to a generator", function()
      local g = torch.Generator()
      g:manual_seed(3)
      local a = torch.rand(4, {generator = g})
      torch.rand(4)
      local b = torch.rand(4, {generator = g})
      g:manual_seed(3)
      assert.is_true(torch.equal(torch.cat({a, b}), torch.rand(8, {generator = g})))
   end)
end)

-- Compares the mean and the variance of a large sample with those of its distribution.
local function check(x, mean, variance)
   x = x:double()
   local n = x:numel()
   local error = 5 * math.sqrt(variance / n)
   assert.is_true(math.abs(x:mean():item() - mean) < error, "mean " .. x:mean():item())
   assert.close(variance, x:var():item(), 0.05)
end

describe("distributions", function()
   local n <const> = 1 << 17

   for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16"} do
      it("have the right moments in " .. dtype, function()
         torch.manual_seed(11)
         local x = torch.empty(n, {dtype = dtype})
         local half = dtype ~= "float32" and dtype ~= "float64"
         -- bfloat16 has few values in [0, 1), so the mean is wrong by half the distance between two of them
         if dtype ~= "bfloat16" then check(x:uniform_(), 0.5, 1 / 12) end
         check(x:uniform_(-2, 4), 1, 3)
         check(x:normal_(), 0, 1)
         if not half then check(x:normal_(3, 0.5), 3, 0.25) end
         check(x:exponential_(2), 0.5, 0.25)
         check(x:bernoulli_(0.3), 0.3, 0.21)
         check(x:geometric_(0.25), 4, 12)
         if not half then check(x:log_normal_(0, 0.5), math.exp(0.125), (math.exp(0.25) - 1) * math.exp(0.25)) end
         assert.close(1, x:cauchy_(1, 2):median():item(), 0.05)
      end)
   end

   -- Returns the Kolmogorov-Smirnov distance between the distribution of a sample and the distribution function cdf.
   -- Multiplied by the square root of the sample size, it exceeds 1.95 for one in a thousand samples.
   local function distance(x, cdf)
      local values, worst = x:double():flatten():to "cpu":sort():tolist(), 0
      for i, value in ipairs(values) do
         local p = cdf(value)
         worst = math.max(worst, math.abs(i / #values - p), math.abs((i - 1) / #values - p))
      end
      return worst * math.sqrt(#values)
   end

   it("are the distributions that their names say", function()
      local function normal(z)
         return 0.5 * torch.erfc(torch.tensor(-z / math.sqrt(2), {dtype = "float64", device = "cpu"})):item()
      end
      torch.manual_seed(13)
      local size = {20000}
      for _, dtype in ipairs {"float32", "float64"} do
         local x = torch.empty(size, {dtype = dtype})
         local cases = {
            uniform = {x:clone():uniform_(-1, 3), function(v) return (v + 1) / 4 end},
            rand = {torch.rand(size, {dtype = dtype}), function(v) return v end},
            normal = {x:clone():normal_(1, 2), function(v) return normal((v - 1) / 2) end},
            randn = {torch.randn(size, {dtype = dtype}), normal},
            exponential = {x:clone():exponential_(3), function(v) return 1 - math.exp(-3 * v) end},
            log_normal = {x:clone():log_normal_(0.5, 0.25), function(v) return normal((math.log(v) - 0.5) / 0.25) end},
            cauchy = {x:clone():cauchy_(2, 3), function(v) return 0.5 + math.atan((v - 2) / 3) / math.pi end},
         }
         for name, case in sorted(cases) do
            local d = distance(table.unpack(case))
            assert.is_true(d < 1.95, ("%s of %s: %g"):format(name, dtype, d))
         end
         -- a sample with a wrong standard deviation must fail, so that the test is known to detect one
         assert.is_true(distance(x:normal_(0, 1.1), normal) > 1.95)
      end
   end)

   it("keep to their bounds", function()
      torch.manual_seed(1)
      for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16"} do
         local x = torch.rand(1 << 20, {dtype = dtype})
         assert.is_true(x:ge(0):all():item() and x:lt(1):all():item())
         assert.is_true(x:exponential_():gt(0):all():item())
         assert.is_true(x:normal_():isfinite():all():item())
      end
   end)

   it("have normal tails and no correlation within pairs", function()
      torch.manual_seed(2)
      local x = torch.randn(1 << 20)
      assert.close(0.0455, x:abs():gt(2):double():mean():item(), 0.001)
      assert.close(0.0027, x:abs():gt(3):double():mean():item(), 0.0004)
      local pairs_ = x:view(-1, 2):double()
      assert.is_true(math.abs((pairs_:select(2, 1) * pairs_:select(2, 2)):mean():item()) < 0.01)
   end)

   it("of integers reach both ends", function()
      torch.manual_seed(3)
      local x = torch.randint(-3, 4, {10000})
      assert.equal("int64", x.dtype)
      assert.same({-3, 3}, {x:min():item(), x:max():item()})
      check(x, 0, 4)
      local whole = torch.empty(1000, {dtype = "int64"}):random_(-math.maxinteger, math.maxinteger)
      assert.is_true(whole:lt(-(1 << 62)):any():item() and whole:gt(1 << 62):any():item())
      assert.equal("float32", torch.randint(5, {3}, {dtype = "float32"}).dtype)
      local byte = torch.empty(10000, {dtype = "uint8"}):random_()
      assert.same({0, 255}, {byte:min():item(), byte:max():item()})
      assert.is_true(torch.empty(100, {dtype = "bool"}):random_():any():item())
   end)

   it("take a mean or a deviation for each element", function()
      torch.manual_seed(4)
      local mean, std = torch.arange(4.0), torch.tensor {0.0, 0, 0, 0}
      assert.close({0, 1, 2, 3}, torch.normal(mean, std), 0)
      assert.close({0, 1, 2, 3}, torch.normal(mean, 0), 0)
      assert.close({2, 2, 2, 2}, torch.normal(2, std), 0)
      assert.same({3, 2}, torch.normal(0, 1, {3, 2}).shape)
      check(torch.normal(torch.full({100000}, 5.0), 2), 5, 4)
   end)
end)

it("the values of tensors of parameters are checked on their device", function()
   assert.raises("bernoulli: self: expected values from 0 to 1, got 1.5",
      function() torch.bernoulli(torch.tensor {0.5, 1.5}) end)
   assert.raises("bernoulli_: p: expected values from 0 to 1, got", "nan",
      function() torch.zeros(2):bernoulli_(torch.tensor {0.5, 0 / 0}) end)
   assert.raises("normal: std: expected values of at least 0, got -2",
      function() torch.normal(0.0, torch.tensor {1.0, -2}) end)
   assert.raises("quantile: q: expected values from 0 to 1, got 2",
      function() torch.rand(4):quantile(torch.tensor {0.5, 2}) end)
   assert.raises("quantile: q: expected a number from 0 to 1, got 1.5", function() torch.rand(4):quantile(1.5) end)
end)

describe("permutations", function()
   it("hold every position once", function()
      torch.manual_seed(6)
      for _, n in ipairs {0, 1, 2, 1000} do
         local x = torch.randperm(n)
         assert.is_true(torch.equal(torch.arange(1, n + 1), (x:sort())))
      end
      assert.equal("int32", torch.randperm(5, {dtype = "int32"}).dtype)
      assert.raises("randperm", "at least 0", function() torch.randperm(-1) end)
      assert.raises("randperm", "int8", function() torch.randperm(200, {dtype = "int8"}) end)
   end)

   it("are all equally likely", function()
      torch.manual_seed(7)
      local counts = {}
      for _ = 1, 6000 do
         local key = table.concat(torch.randperm(3):tolist())
         counts[key] = (counts[key] or 0) + 1
      end
      for _, key in ipairs {"123", "132", "213", "231", "312", "321"} do
         assert.is_true(math.abs(counts[key] - 1000) < 150, key)
      end
   end)
end)

describe("multinomial", function()
   it("draws in proportion to the weights", function()
      torch.manual_seed(8)
      local weights = torch.tensor {1.0, 0, 3, 4}
      local counts = torch.bincount(torch.multinomial(weights, 80000, true))
      assert.equal(0, counts[2]:item())
      for i, expected in ipairs {10000, 0, 30000, 40000} do
         assert.is_true(math.abs(counts[i]:item() - expected) < 700)
      end
      local first = torch.stack({weights}):expand(20000, 4):multinomial(1)
      assert.close(0.5, first:eq(4):double():mean():item(), 0.02)
   end)

   it("draws each position once without replacement", function()
      local x = torch.multinomial(torch.tensor {{1.0, 0, 3}, {1, 1, 0}}, 2)
      assert.same({2, 2}, x.shape)
      assert.same({1, 3}, (x[1]:sort()):tolist())
      assert.same({1, 2}, (x[2]:sort()):tolist())
   end)

   it("refuses invalid weights", function()
      assert.raises("multinomial", "-1", function() torch.multinomial(torch.tensor {-1.0, 2}, 1) end)
      assert.raises("multinomial", "sum", function() torch.multinomial(torch.zeros(2), 1) end)
      assert.raises("multinomial", "nan", function() torch.multinomial(torch.tensor {0 / 0}, 1) end)
      assert.raises("multinomial", "3 samples", function() torch.multinomial(torch.ones(2), 3) end)
      assert.raises("multinomial", "2", "1", function() torch.multinomial(torch.tensor {1.0, 0}, 2) end)
      assert.raises("multinomial", "int64", function() torch.multinomial(torch.arange(3), 1) end)
   end)
end)

describe("arguments", function()
   it("are checked", function()
      local x = torch.zeros(2)
      assert.raises("uniform_", function() x:uniform_(1, 0) end)
      assert.raises("normal_", "-1", function() x:normal_(0, -1) end)
      assert.raises("exponential_", "0", function() x:exponential_(0) end)
      assert.raises("geometric_", function() x:geometric_(1) end)
      assert.raises("bernoulli_", "1.5", function() x:bernoulli_(1.5) end)
      assert.raises("bernoulli", "0 to 1", function() torch.tensor({0 / 0}):bernoulli() end)
      assert.raises("random_", "low < high", function() x:random_(3, 3) end)
      assert.raises("randint", "uint8", "256", function() torch.randint(0, 257, {1}, {dtype = "uint8"}) end)
      assert.raises("uniform_", "int64", function() torch.arange(3):uniform_() end)
      assert.raises("rand", "at least 0", function() torch.rand(-1) end)
   end)

   it("may be of size 0", function()
      assert.same({0, 3}, torch.randn(0, 3).shape)
      assert.same({2, 0}, torch.randint(5, {2, 0}).shape)
   end)

   it("write over leaves only without recording", function()
      local x = torch.zeros(2, {requires_grad = true})
      assert.raises("normal_", function() x:normal_() end)
      torch.no_grad(function() x:normal_() end)
      local y = x * 1
      y:uniform_()
      y:sum():backward()
      assert.close({0, 0}, x.grad, 0)
   end)
end)

describe("a generator's offset", function()
   local function generator()
      local g = torch.Generator()
      g:manual_seed(4)
      return g
   end

   it("counts the numbers drawn, in whole blocks of four", function()
      local g = generator()
      assert.equal(0, g:get_offset())
      torch.rand(8, {generator = g})
      assert.equal(8, g:get_offset())
      torch.rand(1, {generator = g})
      assert.equal(12, g:get_offset())
   end)

   it("can be set to any position in the stream", function()
      local g = generator()
      torch.rand(8, {generator = g})
      local expected = torch.rand(5, {generator = g})
      local other = generator()
      other:set_offset(8)
      assert.is_true(torch.equal(expected, torch.rand(5, {generator = other})))
      other:set_offset(0)
      assert.is_true(torch.equal(torch.rand(3, {generator = generator()}), torch.rand(3, {generator = other})))
   end)

   it("refuses sizes that are not multiples of four", function()
      for _, wrong in ipairs {-4, 3, 1.5, "8"} do
         assert.raises("set_offset: offset: expected a multiple of 4", function() generator():set_offset(wrong) end)
      end
   end)
end)
