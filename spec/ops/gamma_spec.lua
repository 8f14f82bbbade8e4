-- Tests the operators that draw random numbers from gamma, Dirichlet and binomial distributions, and the derivatives of
-- these numbers. spec/distributions/sampling_spec.lua tests how the numbers are distributed.

local torch = require "tlua"

local options <const> = {dtype = "float64"}
local function t(x) return torch.tensor(x, options) end

describe("torch._standard_gamma_grad", function()
   -- Returns the derivative of a draw x with respect to the shape parameter a. It is -(dF/da) / density(x), where F is
   -- the distribution function.
   local function numeric(a, x)
      local h = 1e-5 * a
      local rise = torch.special.gammainc(t(a + h), t(x)) - torch.special.gammainc(t(a - h), t(x))
      local density = ((a - 1) * t(x):log() - x - t(a):lgamma()):exp()
      return -rise / (2 * h) / density
   end

   it("is the derivative at which the distribution function stays the same", function()
      for _, row in ipairs {{0.1, 0.05}, {0.1, 2}, {1, 0.3}, {1, 1}, {1, 5}, {3, 1}, {3, 3.5}, {3, 12}, {50, 40},
                            {50, 65}, {2000, 1900}, {2000, 2100}} do
         local a, x = table.unpack(row)
         assert.close(numeric(a, x), torch._standard_gamma_grad(t(a), t(x)), 1e-5)
      end
   end)

   it("changes little where its formulas meet", function()
      for _, row in ipairs {{0.3, 1}, {1, 1}, {5, 5}, {300, 300}} do
         local a, x = table.unpack(row)
         local below = torch._standard_gamma_grad(t(a), t(x - 1e-10))
         assert.close(below, torch._standard_gamma_grad(t(a), t(x + 1e-10)), 1e-9)
      end
      local x = t(1e4 + 130)
      assert.close(torch._standard_gamma_grad(t(1e4), x), torch._standard_gamma_grad(t(1e4 + 1e-8), x), 1e-9)
   end)

   it("is 0 at 0 and NaN outside of the distribution", function()
      local a = t {1, -1, 0, 2, torch.nan}
      local found = torch._standard_gamma_grad(a, t {0, 1, 1, -1, 1})
      assert.equal(0, found[1]:item())
      assert.is_true(found:narrow(1, 2, 4):isnan():all():item())
   end)

   it("works in float32 and half precision", function()
      local expected = torch._standard_gamma_grad(t {0.5, 3}, t {0.25, 4})
      for _, dtype in ipairs {"float32", "float16", "bfloat16"} do
         local a, x = torch.tensor({0.5, 3}, {dtype = dtype}), torch.tensor({0.25, 4}, {dtype = dtype})
         local found = torch._standard_gamma_grad(a, x)
         assert.equal(dtype, found.dtype)
         assert.close(expected, found:double(), dtype == "float32" and 1e-6 or 1e-2)
      end
   end)
end)

describe("torch._dirichlet_grad", function()
   it("is the derivative of a beta distribution's numbers, over 1 - x", function()
      -- If b = 1, the distribution function is x^a. If a = 1, it is 1 - (1 - x)^b.
      for _, x in ipairs {0.01, 0.4, 0.97} do
         for _, a in ipairs {0.2, 1, 7} do
            local exact = -x * math.log(x) / a / (1 - x)
            assert.close(t(exact), torch._dirichlet_grad(t(x), t(a), t(a + 1)), 1e-12)
         end
      end
   end)

   it("is finite at the ends, and NaN outside", function()
      local found = torch._dirichlet_grad(t {0, 1, 1.5, 0.5}, t {2, 2, 2, 3}, t {5, 5, 5, 2})
      assert.equal(0, found[1]:item())
      assert.is_true(found[2]:isfinite():item())
      assert.is_true(found:narrow(1, 3, 2):isnan():all():item())
   end)
end)

describe("torch._sample_dirichlet", function()
   it("draws points whose sum is 1, also where gamma numbers underflow", function()
      torch.manual_seed(1)
      for _, a in ipairs {1e-4, 0.1, 5} do
         local x = torch._sample_dirichlet(torch.full({50, 3}, a, options))
         assert.close(torch.ones(50, options), x:sum(-1), 1e-12)
      end
   end)

   it("refuses numbers that are no concentrations", function()
      assert.raises("_sample_dirichlet: self: expected values of at least 0, got -1",
         function() torch._sample_dirichlet(torch.tensor {1.0, -1}) end)
      assert.raises("_sample_dirichlet: self: expected at least 1 dimension, got 0",
         function() torch._sample_dirichlet(torch.tensor(1.0)) end)
      assert.raises("_standard_gamma: self: expected a floating tensor, got int64",
         function() torch._standard_gamma(torch.tensor {1}) end)
   end)
end)

describe("torch.binomial", function()
   it("broadcasts, and has prob's dtype", function()
      for _, dtype in ipairs {"float16", "float32", "float64"} do
         local x = torch.binomial(torch.tensor {{0}, {7}}, torch.tensor({0, 0.5, 1}, {dtype = dtype}))
         assert.equal(dtype, x.dtype)
         assert.same({2, 3}, x.shape)
         assert.same({0, 0, 0}, x[1]:tolist())
         assert.equal(0, x[2][1]:item())
         assert.equal(7, x[2][3]:item())
      end
      assert.equal(0, torch.binomial(torch.zeros(0), torch.zeros(0)):numel())
   end)

   it("has the mean and variance of large counts", function()
      torch.manual_seed(1)
      for _, p in ipairs {0.001, 0.3, 0.9} do
         local x = torch.binomial(torch.full({20000}, 1e6, options), torch.full({20000}, p, options))
         local variance = 1e6 * p * (1 - p)
         assert.is_true(math.abs(x:mean():item() - 1e6 * p) < 4.5 * (variance / 20000) ^ 0.5)
         assert.is_true(math.abs(x:var():item() / variance - 1) < 0.05)
      end
   end)

   it("refuses numbers that are no counts or probabilities", function()
      assert.raises("binomial: count: expected whole numbers, got 1.5",
         function() torch.binomial(torch.tensor(1.5), torch.tensor(0.5)) end)
      assert.raises("binomial: prob: expected", "got 1.5",
         function() torch.binomial(torch.tensor(1.0), torch.tensor(1.5)) end)
      assert.raises("binomial: count: expected", "got -1",
         function() torch.binomial(torch.tensor(-1.0), torch.tensor(0.5)) end)
      assert.raises("binomial: prob: expected a floating tensor, got int64",
         function() torch.binomial(torch.tensor(1), torch.tensor(1)) end)
   end)
end)
