-- Tests reductions over any dimensions, for any layout, and over no elements. Also tests their gradients at points
-- where the functions are not smooth.

local torch = require "tlua"

local nan <const>, inf <const> = 0 / 0, math.huge

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

describe("dimensions", function()
   it("may be several, in any order and layout", function()
      local x = torch.randn(2, 3, 4, 5, {dtype = "float64"})
      local lists = {{1}, {4}, {1, 3}, {2, 4}, {1, 2, 4}, {3, 1}, {1, 2, 3, 4}, {-1, 2}}
      for _, layout in ipairs {{1, 2, 3, 4}, {4, 1, 3, 2}, {2, 1, 4, 3}, {3, 4, 1, 2}} do
         local back = {}
         for i, d in ipairs(layout) do back[d] = i end
         local y = x:permute(layout):contiguous():permute(back)
         for _, dims in ipairs(lists) do
            for _, name in ipairs {"sum", "amax", "var", "mean", "norm"} do
               local function run(t) return name == "norm" and t:norm(2, dims) or t[name](t, dims) end
               assert.close(run(x), run(y), 1e-13)
            end
         end
      end
   end)

   it("may be views with gaps, or repeated", function()
      local x = torch.arange(24, {dtype = "float64"}):view(4, 6):slice(2, 1, 6, 2)
      assert.close({0 + 2 + 4, 6 + 8 + 10, 12 + 14 + 16, 18 + 20 + 22}, x:sum(2), 0)
      local wide = torch.tensor({1.0, 2}):unsqueeze(1):expand(1000, 2)
      assert.close({1000, 2000}, wide:sum(1), 0)
      assert.equal(3000, wide:sum():item())
      assert.close({2}, wide:amax(2):narrow(1, 5, 1), 0)
      assert.close({0.5, 0.5}, wide:var(2):narrow(1, 1, 2), 1e-7)
      assert.equal(2000, wide:count_nonzero():item())
   end)

   it("may come once only", function()
      assert.raises("sum", "twice", function() torch.zeros(2, 2):sum({1, -2}) end)
      assert.raises("amax", "dimension 3", function() torch.zeros(2, 2):amax(3) end)
   end)

   it("keep their place if asked to", function()
      local x = torch.zeros(2, 3, 4)
      assert.same({2, 1, 4}, x:sum(2, true).shape)
      assert.same({1, 3, 1}, x:mean({1, 3}, {keepdim = true}).shape)
      assert.same({1, 1, 1}, x:argmax(nil, true).shape)
      assert.same({}, torch.tensor(1.0):sum(1).shape)
   end)
end)

describe("reductions over no elements", function()
   it("give the reduction's identity", function()
      local x = torch.zeros(0, 3)
      assert.equal(0, x:sum():item())
      assert.equal(1, x:prod():item())
      assert.close({0, 0, 0}, x:sum(1), 0)
      assert.close({1, 1, 1}, x:prod(1), 0)
      assert.is_true(x:all():item())
      assert.is_false(x:any():item())
      assert.close({nan, nan, nan}, x:mean(1), 0)
      assert.close({nan, nan, nan}, x:var(1), 0)
      assert.close({-inf, -inf, -inf}, x:logsumexp(1), 0)
      assert.equal(0, x:norm():item())
      assert.same({0}, x:sum(2).shape)
   end)

   it("have no maximum or minimum", function()
      local x = torch.zeros(0, 3)
      for _, name in ipairs {"amax", "amin", "max", "min", "argmax", "argmin"} do
         assert.raises(name .. ":", "at least one element", function() x[name](x) end)
      end
      assert.raises("max", "[0, 3]", function() x:max(1) end)
      assert.same({0}, x:amax(2).shape)
      assert.same({0}, x:argmax(2).shape)
      for _, p in ipairs {-1, -inf, inf} do
         assert.raises("norm:", "[0, 3]", function() x:norm(p) end)
         assert.same({0}, x:norm(p, 2).shape)
      end
   end)
end)

describe("dtypes", function()
   it("of sums are wide", function()
      assert.equal("int64", torch.ones(3, {dtype = "bool"}):sum().dtype)
      assert.equal(3, torch.ones(3, {dtype = "bool"}):sum():item())
      assert.equal(1275, torch.full({5}, 255, {dtype = "uint8"}):sum():item())
      assert.equal("float16", torch.ones(3, {dtype = "float16"}):sum().dtype)
      assert.equal("float64", torch.ones(3):sum({dtype = "float64"}).dtype)
      assert.equal(-5, torch.tensor({-2.7, -3.9}):sum({dtype = "int32"}):item())
      assert.is_true(torch.tensor({2, -2}):sum({dtype = "bool"}):item())
   end)

   it("of means are floating", function()
      assert.raises("mean", "floating", "int64", function() torch.arange(3):mean() end)
      assert.equal(1, torch.arange(3):mean({dtype = "float32"}):item())
      assert.raises("var", "floating", function() torch.arange(3):var() end)
   end)

   it("of half means do not overflow on the way", function()
      local x = torch.full({1000}, 1000, {dtype = "float16"})
      assert.equal(inf, x:sum():item())
      assert.equal(1000, x:mean():item())
      assert.equal(31616, x:norm():item())
   end)

   it("of counts are exact", function()
      local x = torch.ones((1 << 24) + 3, {dtype = "bool"})
      assert.equal((1 << 24) + 3, x:count_nonzero():item())
      assert.equal((1 << 24) + 3, x:float():count_nonzero():item())
   end)
end)

describe("sums", function()
   it("of float32 keep their precision", function()
      local x = torch.full({1 << 22}, 0.1)
      assert.close(0.1 * (1 << 22), x:sum():item(), 1e-7)
      assert.close(0.1 * (1 << 22), x:view(2048, 2048):t():sum(1):sum():item(), 1e-6)
   end)

   it("do not depend on the number of threads", function()
      local x = torch.randn(1000, 1000)
      local n = torch.get_num_threads()
      torch.set_num_threads(1)
      local a, b, c = x:sum(), x:sum(1), x:var(2)
      torch.set_num_threads(4)
      assert.is_true(torch.equal(a, x:sum()))
      assert.is_true(torch.equal(b, x:sum(1)))
      assert.is_true(torch.equal(c, x:var(2)))
      torch.set_num_threads(n)
   end)

   it("may leave NaN out", function()
      local x = leaf {1, nan, 3}
      assert.equal(4, x:nansum():item())
      assert.equal(2, x:nanmean():item())
      assert.close({1, 0, 1}, torch.autograd.grad(x:nansum(), x), 0)
      assert.close({nan}, torch.tensor({nan}):nanmean():view(1), 0)
   end)
end)

describe("extremes", function()
   it("are NaN if an element is, at its first position", function()
      local x = torch.tensor {{1.0, nan, 3, nan}}
      local value, index = x:max(2)
      assert.close({nan}, value, 0)
      assert.same({2}, index:tolist())
      assert.equal(2, x:argmin():item())
      assert.close({nan}, x:amin(2), 0)
   end)

   it("have the first position among equal elements", function()
      local x = torch.tensor {3, 1, 3, 1}
      assert.equal(1, x:argmax():item())
      assert.equal(2, x:argmin():item())
      assert.equal(4, torch.tensor({{0, 1}, {2, 3}}):t():argmax():item())
   end)

   it("share the gradient when equal, or give it to one position", function()
      local x = leaf {{1, 3, 3}, {2, 2, 2}}
      assert.close({{0, 0.5, 0.5}, {0, 0, 0}}, torch.autograd.grad(x:max(), x), 0)
      local shared = torch.autograd.grad(x:amax(2):sum(), x)
      assert.close({{0, 0.5, 0.5}, {1 / 3, 1 / 3, 1 / 3}}, shared, 1e-15)
      assert.close({{0, 1, 0}, {1, 0, 0}}, torch.autograd.grad(x:max(2):sum(), x), 0)
   end)
end)

it("prod has exact gradients with zeros", function()
   for _, data in ipairs {{2, 0, 3}, {0, 0, 3}, {0, 0, 0}, {2, 3, 4}, {0}} do
      local function prod(x) return x:prod(1) end
      assert.gradcheck(prod, {leaf(data)})
      assert.is_true(torch.autograd.gradgradcheck(prod, {leaf(data)}))
   end
   local x = leaf {{2, 0, 3}, {1, 2, 3}}
   assert.close({{0, 6, 0}, {6, 3, 2}}, torch.autograd.grad(x:prod(2):sum(), x), 0)
end)

describe("var and std", function()
   it("subtract the mean first", function()
      local x = leaf {1e8 + 4, 1e8 + 7, 1e8 + 13, 1e8 + 16}
      assert.close(30, x:var():item(), 1e-12)
      assert.close(30, torch.tensor({4.0, 7, 13, 16}):add(4096):var():item(), 1e-6)
   end)

   it("of too few elements are NaN or infinite", function()
      local x = torch.tensor {3.0}
      assert.close({nan}, x:var():view(1), 0)
      assert.equal(0, x:var({correction = 0}):item())
      assert.equal(inf, torch.tensor({1.0, 2}):var({correction = 2}):item())
      assert.equal(inf, torch.tensor({1.0, 2}):var({correction = 5}):item())
   end)

   it("take unbiased = false for a correction of 0", function()
      local x = torch.tensor {1.0, 3}
      assert.equal(1, x:var({unbiased = false}):item())
      assert.equal(2, x:var():item())
      assert.close(4 / 3, x:var({correction = 0.5}):item(), 1e-6)
   end)

   it("of equal elements have a gradient of 0", function()
      local x = leaf {2, 2, 2}
      assert.close({0, 0, 0}, torch.autograd.grad(x:std(), x), 0)
      assert.close({0, 0, 0}, torch.autograd.grad(x:var(), x), 0)
   end)

   it("over runs that are not contiguous agree with a copy", function()
      local x = torch.randn(7, 5, 11, {dtype = "float64"}) + 100
      local flat = x:permute(2, 1, 3):reshape(5, 77)
      assert.close(flat:var(2), x:var({1, 3}), 1e-12)
      assert.close(flat:float():var(2), x:float():var({1, 3}), 1e-5)
   end)
end)

describe("norm", function()
   it("has a gradient of 0 at 0", function()
      for _, p in ipairs {0, 0.5, 1, 1.5, 2, 3, inf} do
         local x = leaf {0, 0}
         assert.close({0, 0}, torch.autograd.grad(x:norm(p), x), 0)
      end
   end)

   it("has gradients for zeros among others", function()
      local x = leaf {3, 0, -4}
      assert.close({0.6, 0, -0.8}, torch.autograd.grad(x:norm(), x), 1e-15)
      assert.close({1, 0, -1}, torch.autograd.grad(x:norm(1), x), 0)
      assert.close({0, 0, -1}, torch.autograd.grad(x:norm(inf), x), 0)
      assert.gradcheck(function(t) return t:norm(3, 1) end, {leaf {1, -2, 0.5}})
   end)

   it("refuses integers", function()
      assert.raises("norm", "floating", function() torch.arange(3):norm() end)
      assert.raises("norm", "NaN", function() torch.ones(3):norm(nan) end)
   end)
end)

it("logsumexp does not overflow", function()
   local x = leaf {1000, 1000}
   assert.close(1000 + math.log(2), x:logsumexp(1):item(), 1e-15)
   assert.close({0.5, 0.5}, torch.autograd.grad(x:logsumexp(1), x), 1e-15)
   assert.equal(-inf, leaf({-inf, -inf}):logsumexp(1):item())
   assert.equal(inf, leaf({inf, 1}):logsumexp(1):item())
end)

describe("running reductions", function()
   it("have exact gradients with zeros", function()
      for _, data in ipairs {{2, 0, 3, 0, 5}, {0, 1}, {1.5, -2}} do
         local function cumprod(x) return x:cumprod(1) end
         assert.gradcheck(cumprod, {leaf(data)})
         assert.is_true(torch.autograd.gradgradcheck(cumprod, {leaf(data)}))
      end
   end)

   it("keep the last of equal extremes", function()
      local values, indices = torch.tensor({1.0, 3, 3, 2, nan, 4}):cummax(1)
      assert.close({1, 3, 3, 3, nan, nan}, values, 0)
      assert.same({1, 2, 3, 3, 5, 5}, indices:tolist())
   end)

   it("have a gradient after elements of -infinity", function()
      local x = leaf {-inf, 0.5, 1}
      local g = torch.autograd.grad(x:logcumsumexp(1):narrow(1, 2, 2):sum(), x)
      local share = math.exp(0.5) / (math.exp(0.5) + math.exp(1))
      assert.close({0, 1 + share, 1 - share}, g, 1e-14)
   end)

   it("take a dtype, and write over integers", function()
      assert.equal("float64", torch.tensor({1, 2}):cumsum(1, {dtype = "float64"}).dtype)
      assert.close({1, 3, 6}, torch.tensor({1, 2, 3}):cumsum_(1), 0)
      assert.equal("int64", torch.ones(3, {dtype = "bool"}):cumsum(1).dtype)
   end)
end)

it("integrals and differences are taken along a dimension", function()
   local y = torch.tensor {{1.0, 2, 4}, {3, 3, 3}}
   assert.close({4.5, 6}, torch.trapezoid(y), 0)
   assert.close({2, 2.5, 3.5}, torch.trapezoid(y, {dim = 1}), 0)
   assert.close({9, 12}, torch.trapezoid(y, {dx = 2}), 0)
   assert.close({1.5 + 6, 9}, torch.trapezoid(y, torch.tensor {0.0, 1, 3}), 0)
   assert.close({{1.5, 4.5}, {3, 6}}, torch.cumulative_trapezoid(y), 0)
   assert.close({{1, 2}, {0, 0}}, y:diff(), 0)
   assert.same({true, false}, torch.tensor({true, false, false}):diff():tolist())
   assert.raises("trapezoid", "as many points", function() torch.trapezoid(y, torch.zeros(2)) end)
end)

describe("statistics", function()
   it("count positions from 1", function()
      assert.same({1, 0, 2}, torch.bincount(torch.tensor {1, 3, 3}):tolist())
      assert.raises("bincount", "at least 1", function() torch.bincount(torch.tensor {0}) end)
      assert.raises("bincount", "integers", function() torch.bincount(torch.zeros(2)) end)
   end)

   it("refuse weights whose sum is 0", function()
      assert.raises("cov", "sum to 0", function() torch.cov(torch.ones(2, 3), {aweights = torch.zeros(3)}) end)
   end)

   it("count the upper end in the last bin", function()
      local x = torch.tensor {0.0, 1, 2, 3, 4}
      assert.close({1, 1, 1, 2}, x:histc(4), 0)
      assert.close({1, 2}, x:histc(2, 1, 3), 0)
      local hist, edges = torch.histogram(x, torch.tensor {0.0, 1, 4})
      assert.close({1, 4}, hist, 0)
      assert.close({0, 1, 4}, edges, 0)
      assert.raises("histc", "at least 1 bin", function() x:histc(0) end)
      assert.raises("histogram", "range", function() torch.histogram(x, 3, {range = {1}}) end)
      assert.raises("histc", "finite", function() torch.tensor({1.0, inf}):histc(3) end)
   end)
end)

describe("histogramdd", function()
   local points = torch.tensor {{0.0, 0}, {0.5, 0.5}, {1, 1}, {1, 0}, {2, 0}}

   it("counts the points of each cell, the upper ends in the last", function()
      local hist, edges = torch.histogramdd(points, 2)
      assert.same({{1, 1}, {2, 1}}, hist:tolist())
      assert.same({{0, 1, 2}, {0, 0.5, 1}}, {edges[1]:tolist(), edges[2]:tolist()})
      hist, edges = torch.histogramdd(points, {2, 1}, {range = {0, 1, 0, 1}})
      assert.same({{1}, {3}}, hist:tolist())
      local given = torch.histogramdd(points:double():view(1, 5, 2), {edges[1]:double(), edges[2]:double()})
      assert.same({{1}, {3}}, given:tolist())
      assert.equal("float64", given.dtype)
   end)

   it("adds weights up, and makes the integral 1", function()
      local options = {range = {0, 1, 0, 1}, weight = torch.range(1, 5)}
      assert.same({{1}, {9}}, (torch.histogramdd(points, {2, 1}, options)):tolist())
      options.density = true
      assert.close(torch.tensor {{0.2}, {1.8}}, (torch.histogramdd(points, {2, 1}, options)), 1e-6)
      local beside = torch.tensor {1, 2, 3, 4, nan}
      assert.same({{1}, {9}}, (torch.histogramdd(points, {2, 1}, {range = {0, 1, 0, 1}, weight = beside})):tolist())
   end)

   it("has a range of its own for one value or none", function()
      local _, edges = torch.histogramdd(torch.ones(3, 1), {2})
      assert.same({0.5, 1, 1.5}, edges[1]:tolist())
      local hist
      hist, edges = torch.histogramdd(torch.zeros(0, 2), {2, 1})
      assert.same({{0}, {0}}, hist:tolist())
      assert.same({0, 0.5, 1}, edges[1]:tolist())
   end)

   it("names the argument that does not fit", function()
      for message, call in pairs {
         ["input: expected points (..., n) of float32 or float64"] = {points:long(), 2},
         ["bins: expected 2, one for each coordinate, got 1"] = {points, {2}},
         ["bins: expected at least 1 along each coordinate, got 0"] = {points, {2, 0}},
         ["range: expected 4 numbers"] = {points, 2, {range = {0, 1}}},
         ["expected a finite range with min <= max, got 1 to 0 for coordinate 2"] = {points, 2, {0, 1, 1, 0}},
         ["weight: expected float32 numbers, one for each point"] = {points, 2, {weight = torch.ones(2)}},
         ["bins: expected vectors of at least 2 float32 edges"] = {points, {torch.ones(1), torch.ones(2)}},
      } do
         assert.raises("histogramdd: " .. message, function() torch.histogramdd(table.unpack(call)) end)
      end
   end)
end)

describe("PyTorch's other forms", function()
   local x = torch.tensor {{1.0, 3}, {4, 8}}

   it("of var and std take unbiased by position", function()
      assert.close(torch.tensor {2.0, 8}, x:var(2, true), 1e-6)
      assert.close(torch.tensor {{1.0}, {2}}, x:std(2, false, true), 1e-6)
      assert.close(6.5, x:var(false), 1e-6)
      local std, mean = torch.std_mean(x, false)
      assert.close({math.sqrt(6.5), 4.0}, {std:item(), mean:item()}, 1e-6)
      assert.close(torch.tensor {1.0, 4}, (torch.var_mean(x, 2, false)), 1e-6)
   end)

   it("of norm take names", function()
      local a = torch.tensor {{3.0, 0}, {0, -4}}
      assert.close(5.0, a:norm("fro"), 1e-6)
      assert.close(torch.tensor {3.0, 4}, a:norm("fro", 1), 1e-6)
      assert.close(7.0, a:norm("nuc"), 1e-6)
      assert.raises("norm", "'fro' or 'nuc'", function() a:norm("max") end)
   end)

   it("of all and any reduce nothing over no dimensions, and keep uint8", function()
      assert.close(torch.tensor {{true, true}, {true, true}}, x:any {dim = {}}, 0)
      assert.same({0, 3}, torch.zeros(0, 3):all {dim = {}}.shape)
      local bytes = torch.tensor({{0, 2}, {1, 1}}, {dtype = "uint8"})
      assert.close(torch.tensor({0, 1}, {dtype = "uint8"}), bytes:all(2), 0)
      assert.equal("bool", bytes:prod(1, {dtype = "bool"}).dtype)
   end)

   -- quantile interpolates between adjacent elements. Between the values a and b, of n elements, its derivative with
   -- respect to q is (b - a)(n - 1).
   it("of quantile have a derivative by q", function()
      local q = torch.tensor({0.1, 0.5}, {requires_grad = true})
      torch.tensor {1.0, 4, 9, 16}:quantile(q):sum():backward()
      assert.close(torch.tensor {9.0, 15}, q.grad, 1e-5)
   end)

   it("of histc find a bin by one product, not by rounded edges", function()
      local counts = torch.histc(torch.tensor({0, 0.3, 1, 1.2}, {dtype = "float64"}), 10, 0, 1)
      assert.close({1.0, 0, 0, 1, 0, 0, 0, 0, 0, 1}, counts, 0)
   end)

   it("of cov refuse negative weights", function()
      assert.raises("cov", "fweights", "negative", function() torch.cov(x, {fweights = torch.tensor {1, -1}}) end)
   end)
end)

describe("gradient", function()
   it("is exact for parabolas", function()
      local at = torch.tensor({-1, 0, 2, 3, 7}, {dtype = "float64"})
      local f = at:square() * 3 - at
      local uneven = torch.gradient(f, {spacing = {at}, edge_order = 2})[1]
      assert.close(at * 6 - 1, uneven, 1e-12)
      local even = torch.linspace(0, 2, 5, {dtype = "float64"})
      assert.close(even * 2, torch.gradient(even:square(), {spacing = 0.5, edge_order = 2})[1], 1e-12)
   end)

   it("takes each dimension, or some", function()
      local x = torch.tensor {{1, 2, 4}, {5, 9, 17}}
      local rows, columns = table.unpack(torch.gradient(x))
      assert.close({{4, 7, 13}, {4, 7, 13}}, rows, 0)
      assert.close({{1, 1.5, 2}, {4, 6, 8}}, columns, 0)
      assert.close({{0.5, 0.75, 1}, {2, 3, 4}}, torch.gradient(x, {spacing = {4, 2}})[2], 0)
      assert.close({{0.5, 0.75, 1}, {2, 3, 4}}, torch.gradient(x, {spacing = 2, dim = -1})[1], 0)
      assert.raises("gradient: edge_order", "3", function() torch.gradient(x, {edge_order = 3}) end)
      assert.raises("gradient: self", "at least 3", function() torch.gradient(x, {edge_order = 2}) end)
      assert.raises("gradient: spacing", "2 dimensions", function() torch.gradient(x, {spacing = {1, 2, 3}}) end)
      assert.raises("gradient: spacing", "[2]",
         function() torch.gradient(x, {spacing = {torch.ones(2), torch.ones(2)}}) end)
   end)
end)
