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
