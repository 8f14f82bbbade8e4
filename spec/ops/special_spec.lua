-- torch.special; the functions that it shares with torch are shown there.

local torch = require "tlua"
local special = torch.special

local inf <const>, nan <const> = math.huge, 0 / 0

describe("torch.special", function()
   it("has torch's functions by SciPy's names", function()
      local x = torch.tensor {0.25, 0.5}
      for name, of in pairs {expit = "sigmoid", gammaln = "lgamma", psi = "digamma", erf = "erf"} do
         assert.is_true(torch.equal(torch[of](x), special[name](x)), name)
      end
      assert.is_true(torch.equal(torch.polygamma(1, x), special.polygamma(1, x)))
      assert.is_true(torch.equal(torch.mvlgamma(x + 2, 2), special.multigammaln(x + 2, 2)))
   end)

   it("has entr, ndtr, xlog1py and i1", function()
      assert.close({-inf, 0, 0.5 * math.log(2), nan}, special.entr(torch.tensor {-1, 0, 0.5, nan}), 1e-7)
      assert.close({0.5, 0.8413447461, 0.0013498980}, special.ndtr(torch.tensor {0.0, 1, -3}), 1e-7)
      assert.close({0, 0, nan, 2 * math.log(2)},
         special.xlog1py(torch.tensor {0.0, 0, 0, 2}, torch.tensor {1.0, inf, nan, 1}), 1e-6)
      assert.close({0, 0.5651591040}, special.i1(torch.tensor {0.0, 1}), 1e-7)
   end)
end)

-- Reference values: mpmath with 30 digits.
local function f64(values) return torch.tensor(values, {dtype = "float64"}) end

describe("the incomplete gamma functions", function()
   it("have these values, each accurate where it is small", function()
      assert.close({0.520499877813, 0.3233235838169, 1.587527601073e-19, 0.379521378538, 0.6244451307044},
         torch.igamma(f64 {0.5, 3, 20, 1000, 1e5}, f64 {0.25, 2, 1, 990, 1.001e5}), 1e-12)
      local small = torch.igamma(f64 {20, 20}, f64 {1, 1e-8})
      assert.close({1, 4.1103175841663e-179 / 1.587527601073e-19},
         small / f64 {1.587527601073e-19, 1.587527601073e-19}, 1e-10)
      local upper = torch.igammac(f64 {0.5, 3, 1, 1000, 1e5}, f64 {0.25, 2, 30, 1100, 1.01e5})
      assert.close({1, 1, 1, 1, 1}, upper / f64 {0.479500122187, 0.6766764161831, 9.35762296884e-14,
         0.00105932325393, 0.0008084215129256}, 1e-10)
   end)

   it("are as accurate where their series would take thousands of terms", function()
      local a, x = f64 {2e6, 2e6, 2e6}, f64 {2e6, 2003000, 1996000}
      local share = {0.5000940315975, 0.9830178926821, 0.002326824105083}
      assert.close(share, torch.igamma(a, x), 1e-10)
      assert.close({1, 1, 1}, torch.igamma(a, x) + torch.igammac(a, x), 1e-15)
   end)

   it("end where the distribution ends", function()
      local a, x = f64 {1, 1, 0, 0, inf, inf, -1, 1}, f64 {0, inf, 1, 0, 1, inf, 1, -1}
      assert.close({0, 1, 1, nan, 0, nan, nan, nan}, torch.igamma(a, x), 0)
      assert.close({1, 0, 0, nan, 1, nan, nan, nan}, special.gammaincc(a, x), 0)
      assert.is_true(torch.equal(torch.igamma(f64 {2}, f64 {3}), special.gammainc(f64 {2}, f64 {3})))
   end)

   it("have no derivative by their shape", function()
      local a, x = f64 {2}:requires_grad_(), f64 {3}
      assert.raises("igamma: self: has no derivative here; detach it",
         function() torch.igamma(a, x):backward() end)
   end)
end)

describe("scaled functions", function()
   it("of Bessel do not overflow", function()
      local x = f64 {-800, -1, 0, 8, 9}
      assert.close({0.01410694500587, 0.4657596075936, 1, 0.1434317818569, 0.1349595245817},
         special.i0e(x), 1e-13)
      assert.close({-0.01409812540653, -0.2079104153497, 0, 0.1341424932927, 0.1272249839359},
         special.i1e(x), 1e-13)
   end)

   it("erfcx is exp(x^2) erfc(x)", function()
      assert.close({16205.988854, 1, 0.4275835761558, 0.05906467835256, 0.05349189974656},
         special.erfcx(f64 {-3, 0, 1, 9.5, 10.5}), 1e-9)
      assert.close({5.641895835e-7, 0, inf}, special.erfcx(f64 {1e6, inf, -30}), 1e-12)
   end)
end)

describe("the normal distribution", function()
   it("has a logarithm far below 0", function()
      assert.close({-500007.8266948, -53.23128515051, -1.841021645009, -0.6931471805599,
         -0.001350809964748}, special.log_ndtr(f64 {-1000, -10, -1, 0, 3}), 1e-7)
   end)

   it("has an inverse", function()
      assert.close({-inf, -21.27345356097, -3.090232306168, -0.6744897501961, 0, 1.281551565545, inf,
         nan, nan}, special.ndtri(f64 {0, 1e-100, 0.001, 0.25, 0.5, 0.9, 1, -0.1, 1.1}), 1e-11)
      local p = torch.rand(100, {dtype = "float64"})
      assert.close(p, special.ndtr(special.ndtri(p)), 1e-14)
   end)
end)

describe("zeta", function()
   it("is Hurwitz's", function()
      local z = special.zeta(f64 {1.5, 2, 3, 10, 61, 600}, f64 {1, 1, 0.25, 2.5, 10, 1.5})
      assert.close({1, 1, 1, 1, 1, 1}, z / f64 {2.612375348685, 1.644934066848, 64.66386996877,
         0.0001088258420687, 1.003000602732e-61, 2.214341332528e-106}, 1e-11)
      assert.close({inf, nan, inf, nan}, special.zeta(f64 {1, 0.5, 2, 2.5}, f64 {3, 3, -2, -0.5}), 0)
   end)
end)
