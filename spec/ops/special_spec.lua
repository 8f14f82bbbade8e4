-- Tests torch.special. Other specs test the functions that are also in torch.

local torch = require "tlua"
local device = require "spec.support.device"
local sorted = require "spec.support.sorted"
local special = torch.special

local inf <const>, nan <const> = math.huge, 0 / 0

describe("torch.special", function()
   it("has torch's functions by SciPy's names", function()
      local x = torch.tensor {0.25, 0.5}
      for name, of in sorted {expit = "sigmoid", gammaln = "lgamma", psi = "digamma", erf = "erf"} do
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

-- The expected values were computed by mpmath with 30 digits.
local function f64(values) return torch.tensor(values, {dtype = "float64"}) end

describe("the incomplete gamma functions", function()
   it("have known values, accurate also near 0", function()
      assert.close({0.520499877813, 0.3233235838169, 1.587527601073e-19, 0.379521378538, 0.6244451307044},
         torch.igamma(f64 {0.5, 3, 20, 1000, 1e5}, f64 {0.25, 2, 1, 990, 1.001e5}), 1e-12)
      local small = torch.igamma(f64 {20, 20}, f64 {1, 1e-8})
      assert.close({1, 4.1103175841663e-179 / 1.587527601073e-19},
         small / f64 {1.587527601073e-19, 1.587527601073e-19}, 1e-10)
      local upper = torch.igammac(f64 {0.5, 3, 1, 1000, 1e5}, f64 {0.25, 2, 30, 1100, 1.01e5})
      assert.close({1, 1, 1, 1, 1}, upper / f64 {0.479500122187, 0.6766764161831, 9.35762296884e-14,
         0.00105932325393, 0.0008084215129256}, 1e-10)
   end)

   it("stay accurate if their series would take thousands of terms", function()
      local a, x = f64 {2e6, 2e6, 2e6}, f64 {2e6, 2003000, 1996000}
      local share = {0.5000940315975, 0.9830178926821, 0.002326824105083}
      assert.close(share, torch.igamma(a, x), 1e-10)
      assert.close({1, 1, 1}, torch.igamma(a, x) + torch.igammac(a, x), 1e-15)
   end)

   it("are 0, 1 or NaN at the ends of their ranges", function()
      local a, x = f64 {1, 1, 0, 0, inf, inf, -1, 1}, f64 {0, inf, 1, 0, 1, inf, 1, -1}
      assert.close({0, 1, 1, nan, 0, nan, nan, nan}, torch.igamma(a, x), 0)
      assert.close({1, 0, 0, nan, 1, nan, nan, nan}, special.gammaincc(a, x), 0)
      assert.is_true(torch.equal(torch.igamma(f64 {2}, f64 {3}), special.gammainc(f64 {2}, f64 {3})))
   end)

   it("have no derivative by the shape parameter", function()
      local a, x = f64 {2}:requires_grad_(), f64 {3}
      assert.raises("igamma: self: has no derivative here; detach it", function() torch.igamma(a, x):backward() end)
   end)
end)

describe("scaled functions", function()
   it("of Bessel do not overflow", function()
      local x = f64 {-800, -1, 0, 8, 9}
      assert.close({0.01410694500587, 0.4657596075936, 1, 0.1434317818569, 0.1349595245817}, special.i0e(x), 1e-13)
      assert.close({-0.01409812540653, -0.2079104153497, 0, 0.1341424932927, 0.1272249839359}, special.i1e(x), 1e-13)
   end)

   it("erfcx is exp(x^2) erfc(x)", function()
      assert.close({16205.988854, 1, 0.4275835761558, 0.05906467835256, 0.05349189974656},
         special.erfcx(f64 {-3, 0, 1, 9.5, 10.5}), 1e-9)
      assert.close({5.641895835e-7, 0, inf, inf}, special.erfcx(f64 {1e6, inf, -30, -inf}), 1e-12)
      assert.close({0, inf}, special.erfcx(torch.tensor {inf, -inf}), 0)
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

it("zeta is Hurwitz's", function()
   local z = special.zeta(f64 {1.5, 2, 3, 10, 61, 600}, f64 {1, 1, 0.25, 2.5, 10, 1.5})
   assert.close({1, 1, 1, 1, 1, 1}, z / f64 {2.612375348685, 1.644934066848, 64.66386996877,
      0.0001088258420687, 1.003000602732e-61, 2.214341332528e-106}, 1e-11)
   assert.close({inf, nan, inf, nan}, special.zeta(f64 {1, 0.5, 2, 2.5}, f64 {3, 3, -2, -0.5}), 0)
   assert.close({1.6449340668482, 0.6449340668482}, special.zeta(2, f64 {1, 2}), 1e-12)
end)

it("zeta sums the terms on both sides of 0", function()
   -- The expected values are the sums of (q + k)^-s, computed by mpmath with 40 digits.
   local z = special.zeta(f64 {3, 3, 200, 8, 3}, f64 {-2.5, -1e6 - 0.25, -20.05, -300.2, -1e6 - 0.5})
   local expected = f64 {0.0541020258208637, -62.012553360599, 1.606938044258990e260, 390631.20432544521}
   assert.close({1, 1, 1, 1}, z[{{1, 4}}] / expected, 1e-11)
   assert.close(5e-13, z[5], 1e-15)
   assert.close({inf, -inf, inf, 0}, special.zeta(f64 {400, 401, 401, 3}, f64 {-20.001, -20.001, -20.999, inf}), 0)
end)

it("orthogonal polynomials of negative degrees are 0, however large", function()
   for _, name in ipairs {"chebyshev_polynomial_t", "shifted_chebyshev_polynomial_w", "hermite_polynomial_he",
      "laguerre_polynomial_l", "legendre_polynomial_p"} do
      assert.close({0, 0, 0}, special[name](torch.tensor {0.5, 2, nan}, torch.tensor {-1e20, -inf, -3e9}), 0)
   end
end)

it("xlog1py has a gradient where its first argument is 0", function()
   local x, y = f64 {0, 1, 0, 0}:requires_grad_(), f64 {0.5, 2, -1, -2}:requires_grad_()
   special.xlog1py(x, y):sum():backward()
   assert.close({math.log(1.5), math.log(3), 0, 0}, x.grad, 1e-15)
   assert.close({0, 1 / 3, nan, 0}, y.grad, 1e-15)
   assert.close({2 * math.log(2), 2 * math.log(3)}, special.xlog1py(2, f64 {1, 2}), 1e-15)
end)

describe("airy_ai", function()
   it("has known values", function()
      -- The expected values were computed by mpmath with 30 digits.
      local x = f64 {-12, -5, -3.0001, -3, -1, 0, 1, 2, 2.0001, 5, 103.9}
      assert.close({
         -0.06655517505437313, 0.3507610090241143, -0.378845746372145, -0.3788142936776581, 0.5355608832923521,
         0.3550280538878172,
         0.1352924163128814, 0.03492413042327438, 0.03491882173406043, 0.0001083444281360744, 2.065269046357012e-308,
      }, special.airy_ai(x), 1e-15)
      assert.close({2.0652690463570e-308 * 1e300}, special.airy_ai(f64 {103.9}) * 1e300, 1e-20)
      assert.close({0, 0, nan}, special.airy_ai(torch.tensor {inf, -inf, nan}), 0)
      assert.same({0}, special.airy_ai(torch.tensor({}, {dtype = "float32"})).shape)
   end)

   it("has gradients of all orders", function()
      local x = torch.linspace(-9, 9, 25, {dtype = "float64"}):requires_grad_()
      assert.is_true(torch.autograd.gradcheck(special.airy_ai, {x}))
      assert.is_true(torch.autograd.gradgradcheck(special.airy_ai, {x}))
   end)
end)

describe("Bessel functions", function()
   local x <const> = f64 {1e-8, 0.3, 1, 2.404825557695773, 5, 8, 30, 1000}
   local y <const> = f64 {1e-8, 0.3, 1, 2, 2.5, 8, 30, 600}

   -- the largest error relative to |value| + 0.01: for arguments from 8 on, CUDA's documentation guarantees an absolute
   -- error of at most 5e-12
   local precise <const> = device.name == "cuda" and not device.is_emulated() and 5e-12 / 0.01 or 1e-13

   it("of the first and second kind have known values", function()
      for name, values in sorted {
         bessel_j0 = {1, 0.977626246538296, 0.765197686557967, -6.10876525973673e-17, -0.177596771314338,
            0.171650807137554, -0.0863679835810402, 0.0247866861524202},
         bessel_j1 = {5e-9, 0.148318816273104, 0.440050585744934, 0.519147497289467, -0.327579137591465,
            0.234636346853915, -0.118751062616623, 0.00472831190708952},
         bessel_y0 = {-11.8007738771795, -0.807273577804519, 0.088256964215677, 0.509924383448479,
            -0.308517625249034, 0.223521489387566, -0.117295731686664, 0.00471591797762281},
         bessel_y1 = {-63661977.2367582, -2.29310513838853, -0.781212821300289, 0.10274668243826,
            0.147863143391227, -0.158060461731247, 0.0844255706617472, -0.0247843312923518},
      } do
         local got = special[name](x)
         assert.close({0, 0, 0, 0, 0, 0, 0, 0}, (got - f64(values)) / (f64(values):abs() + 0.01), precise)
      end
      local edge = f64 {0, -1, inf, -inf, nan}
      assert.close({1, 0.765197686557967, 0, 0, nan}, special.bessel_j0(edge), 1e-14)
      assert.close({0, -0.440050585744934, 0, 0, nan}, special.bessel_j1(edge), 1e-14)
      assert.close({-inf, nan, 0, nan, nan}, special.bessel_y0(edge), 0)
      assert.close({-inf, nan, 0, nan, nan}, special.bessel_y1(edge), 0)
   end)

   it("that are modified have known values, each relative to its size", function()
      for name, values in sorted {
         modified_bessel_k0 = {18.5366122596108, 1.3724600605443, 0.421024438240708, 0.113893872749533,
            0.0623475532003662, 0.000146470705222815, 2.13247749646306e-14, 1.35582853099485e-262},
         modified_bessel_k1 = {99999999.9999999, 3.05599203345733, 0.601907230197235, 0.139865881816522,
            0.0738908163477471, 0.000155369211805001, 2.16773200189155e-14, 1.35695791811281e-262},
         scaled_modified_bessel_k0 = {18.5366124449769, 1.85262730077201, 1.1444630798069,
            0.841568215070771, 0.7595486903281, 0.436623018601586, 0.227886665616254, 0.051155685720236},
         scaled_modified_bessel_k1 = {100000001.0, 4.12515776224447, 1.63615348626326,
            1.03347684706869, 0.900174423907878, 0.463149092870496, 0.231654129377712, 0.0511982977254724},
      } do
         local ratio = special[name](y) / f64(values)
         assert.close({1, 1, 1, 1, 1, 1, 1, 1}, ratio, 2e-14)
         assert.close({inf, nan, 0, nan}, special[name](f64 {0, -1, inf, nan}), 0)
         assert.close({1, 1, 1}, special[name](y:narrow(1, 2, 3):float()):double() / f64(values):narrow(1, 2, 3),
            1e-6)
      end
      assert.is_true(torch.equal(torch.i0(y), special.modified_bessel_i0(y)))
      assert.is_true(torch.equal(special.i1(y), special.modified_bessel_i1(y)))
   end)

   it("have derivatives at 0, if those exist", function()
      local zero = f64 {0}:requires_grad_()
      special.bessel_j1(zero):backward()
      assert.equal(0.5, zero.grad:item())
      assert.close({1, math.sin(2) / 2}, special.spherical_bessel_j0(f64 {0, 2}), 1e-15)
   end)

   it("have known values for large arguments", function()
      local far = torch.tensor({1e4, 123456, 1e6})
      local values = special.spherical_bessel_j0(far):double() * far:double()
      assert.close({math.sin(1e4), math.sin(123456), math.sin(1e6)}, values, 1e-6)
      local edge = f64 {inf, -inf}:requires_grad_()
      local zero = special.spherical_bessel_j0(edge)
      zero:sum():backward()
      assert.same({0, 0}, zero:tolist())
      assert.same({0, 0}, edge.grad:tolist())
   end)
end)

describe("orthogonal polynomials", function()
   local degrees <const> = f64 {0, 1, 2, 3, 8}

   it("have known values", function()
      local values = {
         chebyshev_polynomial_t = {{1, -0.9, 0.62, -0.216, -0.89309312},
            {1, 0.3, -0.82, -0.792, -0.76222592}, {1, 1, 1, 1, 1}, {1, 1.5, 3.5, 9, 1103.5}},
         chebyshev_polynomial_u = {{1, -1.8, 2.24, -2.232, -1.82196224},
            {1, 0.6, -0.64, -0.984, -0.96579584}, {1, 2, 3, 4, 9}, {1, 3, 8, 21, 2584}},
         chebyshev_polynomial_v = {{1, -2.8, 4.04, -4.472, -2.85403904},
            {1, -0.4, -1.24, -0.344, -0.28722944}, {1, 1, 1, 1, 1}, {1, 2, 5, 13, 1597}},
         chebyshev_polynomial_w = {{1, -0.8, 0.44, 0.008, -0.78988544},
            {1, 1.6, -0.04, -1.624, -1.64436224}, {1, 3, 5, 7, 17}, {1, 4, 11, 29, 3571}},
         hermite_polynomial_h = {{1, -1.8, 1.24, 4.968, -2182.90093824},
            {1, 0.6, -1.64, -3.384, 576.66806016}, {1, 2, 2, -4, -1648}, {1, 3, 7, 9, 5217}},
         hermite_polynomial_he = {{1, -0.9, -0.19, 1.971, -111.86888079},
            {1, 0.3, -0.91, -0.873, 68.88065361}, {1, 1, 0, -2, -132},
            {1, 1.5, 1.25, -1.125, -70.18359375}},
         laguerre_polynomial_l = {{1, 1.9, 3.205, 5.0365, 28.5546240276987},
            {1, 0.7, 0.445, 0.2305, -0.369480995515625}, {1, 0, -0.5, -0.666666666666667, 0.153993055555556},
            {1, -0.5, -0.875, -0.6875, 0.638358851841518}},
         legendre_polynomial_p = {{1, -0.9, 0.715, -0.4725, -0.409685903515625},
            {1, 0.3, -0.365, -0.3825, -0.239074591015625}, {1, 1, 1, 1, 1},
            {1, 1.5, 2.875, 6.1875, 471.726165771484}},
      }
      local x = f64 {-0.9, 0.3, 1, 1.5}
      for name, expected in sorted(values) do
         local want = f64(expected)
         local got = special[name](x:unsqueeze(2), degrees)
         assert.close(torch.zeros_like(want):tolist(), (got - want) / (want:abs() + 1), 1e-13)
         if name:find "chebyshev" then
            local shifted = special["shifted_" .. name]((x:unsqueeze(2) + 1) / 2, degrees)
            assert.close(torch.zeros_like(want):tolist(), (shifted - want) / (want:abs() + 1), 1e-13)
         end
      end
      assert.close({0.109110515747148}, special.legendre_polynomial_p(f64 {0.3}, 50), 1e-14)
      assert.close({-0.530397595976431}, special.laguerre_polynomial_l(f64 {3}, 40), 1e-13)
      assert.close({-0.999125111642612}, special.chebyshev_polynomial_t(f64 {0.3}, 1000), 1e-12)
   end)

   it("take integer degrees, up to a million", function()
      assert.close({0, 1, -0.26, -0.26, 0, nan, nan},
         special.legendre_polynomial_p(0.4, f64 {-3, -0.5, 2, 2.7, -1, nan, 2e6}), 1e-15)
      assert.close({26, 99}, special.chebyshev_polynomial_t(torch.tensor {2, 3}, 3), 0)
   end)

   it("are differentiated by their argument, up to eight times", function()
      local x = f64 {0.3}:requires_grad_()
      -- the derivative of H9 is 18 H8; higher derivatives follow in the same way
      local y = special.hermite_polynomial_h(x, 9)
      local factor = 1
      for order = 1, 8 do
         y = torch.autograd.grad(y, x, {create_graph = true})[1]
         factor = factor * 2 * (10 - order)
         local same = special.hermite_polynomial_h(f64 {0.3}, 9 - order) * factor
         assert.close({1}, y:detach() / same, 1e-13)
      end
      assert.raises("orthogonal polynomials are differentiated 8 times at most",
         function() torch.autograd.grad(y, x) end)
      local n = f64 {3}:requires_grad_()
      assert.raises("orthogonal polynomials: n: has no derivative here; detach it",
         function() special.legendre_polynomial_p(f64 {0.3}, n):backward() end)
   end)
end)
