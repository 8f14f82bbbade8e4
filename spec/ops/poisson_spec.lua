-- Tests torch.poisson by comparing it with the closed form of the Poisson distribution.

local torch = require "tlua"

-- Returns the largest distance between the sample's distribution function and that of a Poisson distribution, times the
-- square root of the sample size. This statistic exceeds 1.95 for at most one in a thousand samples.
local function distance(x, rate)
   local n, counts, largest = x:numel(), {}, 0
   for _, k in ipairs(x:flatten():tolist()) do
      counts[k] = (counts[k] or 0) + 1
      largest = math.max(largest, k)
   end
   local term, cdf, seen, worst = math.exp(-rate), 0, 0, 0
   for k = 0, largest do
      if k > 0 then term = term * rate / k end
      cdf, seen = cdf + term, seen + (counts[k] or 0)
      worst = math.max(worst, math.abs(cdf - seen / n))
   end
   return worst * math.sqrt(n)
end

describe("torch.poisson", function()
   for _, rate in ipairs {0.01, 0.7, 4, 9.99, 10, 23.5, 150} do
      it("has the distribution of rate " .. rate, function()
         torch.manual_seed(5)
         local x = torch.full({40000}, rate, {dtype = "float64"}):poisson()
         assert.is_true(distance(x, rate) < 1.95)
         -- a wrong rate must exceed the limit, so that the test is known to detect one
         assert.is_true(distance(x, rate * 1.2 + 0.05) > 1.95)
      end)
   end

   it("has rate as mean and variance for large rates", function()
      torch.manual_seed(6)
      local x = torch.poisson(torch.full({100000}, 1e6, {dtype = "float64"}))
      assert.is_true(math.abs(x:mean():item() - 1e6) < 4 * 1e3 / math.sqrt(1e5))
      assert.is_true(math.abs(x:var():item() / 1e6 - 1) < 0.02)
      assert.is_true(torch.equal(x, x:floor()))
   end)

   it("draws each element with its own rate, in the input's dtype and shape", function()
      for _, dtype in ipairs {"float16", "bfloat16", "float32", "float64"} do
         local x = torch.poisson(torch.tensor({{0, 100}, {0, 20}}, {dtype = dtype}))
         assert.equal(dtype, x.dtype)
         assert.same({2, 2}, x.shape)
         assert.equal(0, x[1][1]:item() + x[2][1]:item())
         assert.is_true(x[1][2]:item() > 40 and x[2][2]:item() > 1)
      end
   end)

   it("repeats with a generator's seed, whatever the number of threads", function()
      local rates = torch.rand(5000) * 30
      local function draw()
         local generator = torch.Generator()
         generator:manual_seed(3)
         return torch.poisson(rates, {generator = generator})
      end
      local first, n = draw(), torch.get_num_threads()
      torch.set_num_threads(1)
      assert.is_true(torch.equal(first, draw()))
      torch.set_num_threads(n)
      assert.is_false(torch.equal(first, torch.poisson(rates)))
   end)

   it("draws the CPU's numbers for other devices", function()
      local rates = torch.tensor {0.5, 3, 40}
      local function draw(x) return torch.poisson(x, {generator = torch.Generator(x.device):manual_seed(9)}):cpu() end
      assert.is_true(torch.equal(draw(rates), draw(rates:to "sim")))
   end)

   it("has a gradient of zeros", function()
      local x = torch.tensor({1.0, 20}, {requires_grad = true})
      torch.poisson(x):sum():backward()
      assert.close({0, 0}, x.grad)
   end)

   it("refuses rates below 0 and integers", function()
      assert.raises("poisson: self: expected values of at least 0, got -1",
         function() torch.poisson(torch.tensor {2.0, -1}) end)
      assert.raises("poisson", "nan", function() torch.poisson(torch.tensor {0 / 0}) end)
      assert.raises("poisson: expected a floating tensor of rates, got int64",
         function() torch.poisson(torch.tensor {1}) end)
   end)
end)
