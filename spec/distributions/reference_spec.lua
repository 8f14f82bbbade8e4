-- Tests distributions against PyTorch's values (spec/fixtures/distributions.py).

local torch = require "tlua"
local distributions = torch.distributions

local reference = dofile "spec/fixtures/distributions.lua"

local function t(x) return torch.tensor(x, {dtype = "float64"}) end

-- Compares two values. If they differ, the error message begins with `where`.
local function compare(where, expected, actual, tolerance)
   local ok, message = pcall(assert.close, t(expected), actual:detach():double(), tolerance)
   if not ok then error(("%s: %s"):format(where, tostring(message)), 0) end
end

-- PyTorch approximates Bessel functions with errors of up to 1e-7.
local function tolerance(d) return torch.type(d):find "VonMises" and 1e-6 or 1e-9 end

describe("a distribution", function()
   for i, case in ipairs(reference.cases) do
      local d = case.make(distributions, t)
      local name = ("%s (case %d)"):format(torch.type(d), i)
      local close <const> = tolerance(d)

      it("has PyTorch's densities, moments and quantiles: " .. name, function()
         local value = t(case.value)
         compare("log_prob", case.log_prob, d:log_prob(value), close)
         for _, field in ipairs {"mean", "mode", "variance"} do
            if case[field] then compare(field, case[field], d[field], close) end
         end
         if case.entropy then compare("entropy", case.entropy, d:entropy(), close) end
         if case.cdf then compare("cdf", case.cdf, d:cdf(value), close) end
         if case.icdf then
            compare("icdf", case.icdf, d:icdf(torch.full(d.batch_shape, t(0.3):item(), {dtype = "float64"})), close)
         end
      end)

      it("has PyTorch's gradients of log_prob: " .. name, function()
         local inputs = {}
         local made = case.make(distributions, function(x)
            inputs[#inputs + 1] = t(x):requires_grad_()
            return inputs[#inputs]
         end)
         made:log_prob(t(case.value)):sum():backward()
         local found = {}
         for _, x in ipairs(inputs) do
            if x.grad then found[#found + 1] = x.grad end
         end
         for key, expected in pairs(case.grads or {}) do
            local matched = false
            for _, grad in ipairs(found) do matched = matched or pcall(assert.close, t(expected), grad, close) end
            assert.is_true(matched, key)
         end
      end)

      it("has the same values in float32 and after expand: " .. name, function()
         local single = case.make(distributions, function(x) return torch.tensor(x, {dtype = "float32"}) end)
         local value = t(case.value)
         -- Validation is off, because its tolerance is too small for events in float32.
         single._validate_args = false
         local log_prob = single:log_prob(value:float())
         assert.close(t(case.log_prob):float(), log_prob, 2e-3)
         local batch = torch.Size {3, table.unpack(d.batch_shape)}
         local wide = d:expand(batch)
         assert.same(batch, wide.batch_shape)
         assert.same(d.event_shape, wide.event_shape)
         local one = value[1]
         compare("expanded", d:log_prob(one):expand(batch):tolist(), wide:log_prob(one), 1e-12)
      end)
   end
end)

describe("kl_divergence", function()
   local made = {}
   for i, case in ipairs(reference.cases) do made[i] = case.make(distributions, t) end

   -- For these pairs, PyTorch checks the supports in the wrong order: it returns infinity where the divergence is
   -- finite, and a number where the divergence is infinite.
   local mistaken <const> = {["ContinuousBernoulli Uniform"] = true, ["Uniform ContinuousBernoulli"] = true}

   it("is the integral of p (log p - log q) where PyTorch is mistaken", function()
      local n = 20000
      local x = (torch.arange(n, {dtype = "float64"}) + 0.5) / n
      local uniform, other = distributions.Uniform(t(0), 1), distributions.ContinuousBernoulli(t(0.8))
      for _, pair in ipairs {{uniform, other}, {other, uniform}} do
         local p, q = table.unpack(pair)
         local log_p = p:log_prob(x)
         local integral = (log_p:exp() * (log_p - q:log_prob(x))):mean()
         assert.close(integral, distributions.kl_divergence(p, q), 1e-7)
      end
      local narrow, wide = distributions.Uniform(t(0.2), 0.9), distributions.Uniform(t(-1), 2)
      assert.equal(math.huge, distributions.kl_divergence(other, narrow):item())
      assert.equal(math.huge, distributions.kl_divergence(wide, other):item())
   end)

   it("has PyTorch's values for all pairs that PyTorch has", function()
      local wrong, seen = {}, {}
      for _, row in ipairs(reference.kl) do
         local p, q = made[row[1]], made[row[2]]
         local pair = torch.type(p) .. " " .. torch.type(q)
         seen[pair] = true
         if not mistaken[pair:gsub("distributions%.", "")] then
            local ok, message = pcall(compare, pair, row[3], distributions.kl_divergence(p, q), 1e-9)
            if not ok then wrong[#wrong + 1] = message end
         end
      end
      assert.equal("", table.concat(wrong, "\n"))
      local n = 0
      for _ in pairs(seen) do n = n + 1 end
      assert.is_true(n > 70, n)
   end)
end)

describe("the derivatives of random numbers", function()
   it("are PyTorch's for gamma distributions", function()
      for _, row in ipairs(reference.gamma_slopes) do
         local a, x, expected = table.unpack(row)
         -- PyTorch approximates these derivatives with errors of up to 5e-4.
         assert.close(t(expected), torch._standard_gamma_grad(t(a), t(x)), 1e-3 * math.max(1, expected))
      end
   end)

   it("are PyTorch's for beta distributions", function()
      for _, row in ipairs(reference.beta_slopes) do
         local x, a, total, expected = table.unpack(row)
         assert.close(t(expected), torch._dirichlet_grad(t(x), t(a), t(total)), 1e-3 * math.max(1, expected))
      end
   end)
end)
