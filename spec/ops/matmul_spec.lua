-- Tests products of matrices and vectors for all ranks, layouts and dtypes.

local torch = require "tlua"

-- Computes a matrix product as a sum of elementwise products.
local function slow(a, b) return (a:unsqueeze(-1) * b:unsqueeze(-3)):sum(-2) end

local function normal(...) return torch.randn(..., {dtype = "float64"}) end

describe("matmul", function()
   it("multiplies any ranks", function()
      local shapes = {{{2, 3}, {3, 4}}, {{5, 2, 3}, {3, 4}}, {{2, 3}, {5, 3, 4}},
         {{5, 2, 3}, {5, 3, 4}}, {{5, 1, 2, 3}, {4, 3, 2}}, {{1, 2, 3}, {1, 1, 3, 4}},
         {{0, 2, 3}, {3, 4}}, {{2, 0}, {0, 3}}, {{2, 3}, {3, 0}}, {{70, 65}, {65, 33}}}
      for _, pair in ipairs(shapes) do
         local a, b = normal(pair[1]), normal(pair[2])
         assert.close(slow(a, b), a:matmul(b), 1e-12)
      end
   end)

   it("treats a vector as a row or a column", function()
      local a, m, b = normal({3}), normal({3, 2}), normal({4, 2, 3})
      assert.close(slow(a:unsqueeze(1), m):squeeze(1), a:matmul(m), 1e-14)
      assert.close(slow(b, a:unsqueeze(2)):squeeze(-1), b:matmul(a), 1e-14)
      assert.close((a * a):sum(), a:matmul(a), 1e-14)
      assert.same({}, a:matmul(a).shape)
      assert.same({0}, torch.zeros(0, 3):matmul(torch.zeros(3)).shape)
      assert.equal(0, torch.zeros(0):matmul(torch.zeros(0)):item())
   end)

   it("takes operands of any strides", function()
      local a, b = normal({6, 10}), normal({10, 8})
      local layouts = {
         function(x) return x end,
         function(x) return x:t():contiguous():t() end,
         function(x) return torch.cat({x, x}, 2):narrow(2, x:size(2) + 1, x:size(2)) end,
         function(x) return torch.stack({x, x}, 3):select(3, 2) end,
         function(x) return torch.cat({x, x}, 1):t():contiguous():t():narrow(1, 1, x:size(1)) end,
      }
      local expected = slow(a, b)
      for _, left in ipairs(layouts) do
         for _, right in ipairs(layouts) do assert.close(expected, left(a):matmul(right(b)), 1e-12) end
      end
      local row = normal({1, 8}):expand(6, 8)
      assert.close(slow(row, b:t()), row:matmul(b:t()), 1e-12)
      local batch = normal({3, 1, 4}):expand(3, 5, 4)
      assert.close(slow(batch, batch:transpose(2, 3)), batch:matmul(batch:transpose(2, 3)), 1e-12)
   end)

   it("multiplies integers, which wrap around, and half types", function()
      local a, b = torch.arange(6):view(2, 3), torch.arange(12):view(3, 4)
      for _, dtype in ipairs {"int8", "int16", "int32", "int64", "uint8"} do
         local product = a:to(dtype):matmul(b:to(dtype))
         assert.equal(dtype, product.dtype)
         assert.close({{20, 23, 26, 29}, {56, 68, 80, 92}}, product, 0)
         assert.close(product, a:to(dtype):matmul(b:t():contiguous():t():to(dtype)), 0)
      end
      assert.equal(0, torch.full({1, 4}, 64, {dtype = "uint8"}):matmul(torch.ones(4, 1, {dtype = "uint8"})):item())
      for _, dtype in ipairs {"float16", "bfloat16"} do
         assert.close({{20, 23, 26, 29}, {56, 68, 80, 92}}, a:to(dtype):matmul(b:to(dtype)), 0)
         local x, y = torch.randn(300, 600), torch.randn(600, 1100)
         x, y = x:to(dtype), y:to(dtype)
         local tol = dtype == "float16" and 1e-3 or 8e-3
         assert.close(x:float():matmul(y:float()), x:matmul(y):float(), tol)
         assert.close(x:float():matmul(y:float()):t(), y:t():matmul(x:t()):float(), tol)
      end
   end)

   it("multiplies batches of small and of large matrices", function()
      for _, n in ipairs {1, 3, 80} do
         local a, b = normal({7, n, n}), normal({7, n, n})
         local c = a:bmm(b)
         for i = 1, 7 do assert.close(a[i]:mm(b[i]), c[i], 1e-12) end
      end
   end)

   -- Sums of small integers are exact, whatever the order.
   it("multiplies matrices larger than a block, with remainders on each side", function()
      for _, s in ipairs {{391, 70, 389}, {391, 1061, 20}, {67, 530, 131}} do
         local m, n, k = table.unpack(s)
         local a, b = torch.randint(-4, 5, {m, k}, {dtype = "int32"}), torch.randint(-4, 5, {k, n}, {dtype = "int32"})
         local c = torch.randint(-9, 10, {m, n}, {dtype = "int32"})
         local product = a:matmul(b)
         for _, dtype in ipairs {"float32", "float64"} do
            local x, y, z = a:to(dtype), b:to(dtype), c:to(dtype)
            local xt, yt = x:t():contiguous():t(), y:t():contiguous():t()
            for _, operands in ipairs {{x, y}, {xt, y}, {x, yt}, {xt, yt}} do
               assert.close(product:to(dtype), operands[1]:matmul(operands[2]), 0)
            end
            assert.close((product + c):to(dtype), z:addmm(x, y), 0)
            assert.close((product * -2 + c * 3):to(dtype), z:addmm(xt, y, {alpha = -2, beta = 3}), 0)
         end
      end
   end)

   it("names the argument that does not fit", function()
      assert.raises("matmul", "[2, 3]", "[2, 3]", function() torch.zeros(2, 3):matmul(torch.zeros(2, 3)) end)
      assert.raises("matmul", "at least 1 dimension", function() torch.tensor(1.0):matmul(torch.zeros(2)) end)
      assert.raises("matmul", "batch", function() torch.zeros(2, 1, 3):matmul(torch.zeros(3, 3, 1)) end)
      assert.raises("matmul", "float32", "float64",
         function() torch.zeros(2, 2):matmul(torch.zeros(2, 2, {dtype = "float64"})) end)
      assert.raises("matmul", "bool", function()
         local mask = torch.ones(2, 2, {dtype = "bool"})
         mask:matmul(mask)
      end)
      assert.raises("mm", "2 dimensions", function() torch.zeros(2):mm(torch.zeros(2, 2)) end)
      assert.raises("bmm", "batch", function() torch.zeros(2, 1, 1):bmm(torch.zeros(3, 1, 1)) end)
      assert.raises("dot", "lengths", function() torch.zeros(2):dot(torch.zeros(3)) end)
      assert.raises("mv", "inner", function() torch.zeros(2, 3):mv(torch.zeros(2)) end)
   end)

   it("propagates NaN and infinities", function()
      local x = torch.tensor {{0 / 0, 0}, {0, math.huge}}
      local y = x:matmul(torch.tensor {{1.0}, {1}})
      assert.close({{0 / 0}, {math.huge}}, y, 0)
   end)
end)

describe("addmm and similar operators", function()
   it("do not read self when beta is 0", function()
      local nothing = torch.full({2, 2}, 0 / 0)
      local a = torch.ones(2, 2)
      assert.close({{2, 2}, {2, 2}}, torch.addmm(nothing, a, a, {beta = 0}), 0)
      assert.close({2, 2}, torch.addmv(nothing[1], a, a[1], {beta = 0}), 0)
      assert.close({{1, 1}, {1, 1}}, torch.addr(nothing, a[1], a[1], {beta = 0}), 0)
      assert.close({{{2, 2}, {2, 2}}}, torch.baddbmm(nothing, a:unsqueeze(1), a:unsqueeze(1), {beta = 0}), 0)
   end)

   it("broadcast self", function()
      local a = torch.ones(2, 3)
      assert.close({{4, 5}, {4, 5}}, torch.addmm(torch.tensor {1.0, 2}, a, a:t()), 0)
      assert.close({{5, 5}, {6, 6}}, torch.addmm(torch.tensor {{2.0}, {3}}, a, a:t()), 0)
      assert.raises("addmm", "[3]", "[2, 2]", function() torch.addmm(torch.zeros(3), a, a:t()) end)
   end)

   it("truncate the factors of integers", function()
      local m, v = torch.tensor {{1, 2}, {3, 4}}, torch.tensor {1, 1}
      local x = m:unsqueeze(1)
      local o = {alpha = 2.7, beta = -1.5}
      assert.close(torch.tensor {{13, 18}, {27, 40}}, torch.addmm(m, m, m, o), 0)
      assert.close(torch.tensor {{{13, 18}, {27, 40}}}, torch.baddbmm(x, x, x, o), 0)
      assert.close(torch.tensor {{13, 18}, {27, 40}}, torch.addbmm(m, x, x, o), 0)
      assert.close(torch.tensor {5, 13}, torch.addmv(v, m, v, o), 0)
   end)

   it("scale self if the product is empty", function()
      local x = torch.ones(2, 2)
      assert.close({{3, 3}, {3, 3}}, torch.addmm(x, torch.zeros(2, 0), torch.zeros(0, 2), {beta = 3}), 0)
      assert.close({{2, 2}, {2, 2}}, torch.addmm(x:long(), torch.zeros(2, 0):long(),
         torch.zeros(0, 2):long(), {beta = 2}), 0)
   end)

   it("write over self", function()
      local x = torch.ones(2, 2)
      x:addmm_(torch.ones(2, 2), x) -- x is an operand of the product, and is overwritten by the result
      assert.close({{3, 3}, {3, 3}}, x, 0)
   end)
end)

describe("einsum", function()
   it("takes operands one by one, and spaces", function()
      local a, b = normal({2, 3}), normal({3, 4})
      assert.close(a:mm(b), torch.einsum("i j, j k -> i k", a, b), 1e-14)
      assert.close(a:mm(b), torch.einsum("ij,jk", {a, b}), 1e-14)
   end)

   it("sums, transposes and takes diagonals", function()
      local m = normal({3, 3})
      assert.close(m:trace(), torch.einsum("ii", m), 1e-14)
      assert.close(m:diagonal(), torch.einsum("ii->i", m), 0)
      assert.close(m:sum(1), torch.einsum("ij->j", m), 1e-14)
      assert.close(m:t(), torch.einsum("ba", m), 0)
      assert.close(normal({2, 3, 3, 3}):sum():mul(0),
         torch.einsum("aiii->", torch.zeros(2, 3, 3, 3, {dtype = "float64"})), 0)
   end)

   it("broadcasts the dimensions that the ellipsis stands for", function()
      local a, b = normal({2, 1, 3, 4}), normal({5, 4, 2})
      assert.close(a:matmul(b), torch.einsum("...ij,...jk->...ik", a, b), 1e-13)
      assert.close(a:matmul(b):sum({1, 2}), torch.einsum("...ij,...jk->ik", a, b), 1e-13)
   end)

   it("names the mistake in an equation", function()
      local m = torch.zeros(2, 3)
      assert.raises("einsum", "no operand", '"k"', function() torch.einsum("ij->k", m) end)
      assert.raises("einsum", "fewer operands", function() torch.einsum("ij", m, m) end)
      assert.raises("einsum", "more operands", function() torch.einsum("ij,jk", m) end)
      assert.raises("einsum", "3 letters", "[2, 3]", function() torch.einsum("ijk", m) end)
      assert.raises("einsum", "2 and 3", function() torch.einsum("ii", m) end)
      assert.raises("einsum", '"1"', function() torch.einsum("i1", m) end)
      assert.raises("einsum", "twice", function() torch.einsum("ij->ii", m) end)
      assert.raises("einsum", "sizes differ", function() torch.einsum("ij,jk->ik", m, m) end)
   end)
end)

describe("further products", function()
   it("contract listed dimensions", function()
      local a, b = normal({2, 3, 4}), normal({4, 5, 2})
      assert.close(torch.einsum("ijk,kli->jl", a, b), torch.tensordot(a, b, {1, 3}, {3, 1}), 1e-13)
      assert.raises("tensordot", "differ", function() torch.tensordot(a, b, {1}, {1}) end)
      assert.raises("tensordot", "0 to 3", function() torch.tensordot(a, b, 4) end)
   end)

   it("include cross along a dimension of size 3", function()
      local x, y = torch.tensor {1.0, 0, 0}, torch.tensor {0.0, 1, 0}
      assert.close({0, 0, 1}, torch.cross(x, y), 0)
      assert.raises("cross", "3", function() torch.cross(torch.zeros(2), torch.zeros(2)) end)
   end)

   it("measure distances without a gradient of NaN at 0", function()
      local x = torch.tensor({{0.0, 0}, {3, 4}}, {dtype = "float64", requires_grad = true})
      local d = torch.cdist(x, x)
      assert.close({{0, 5}, {5, 0}}, d, 1e-15)
      d:sum():backward()
      assert.close({{-1.2, -1.6}, {1.2, 1.6}}, x.grad, 1e-15)
      local many = torch.cat({x:detach(), normal({40, 2})})
      assert.close(torch.cdist(many, many, 2, {compute_mode = "donot_use_mm_for_euclid_dist"}),
         torch.cdist(many, many), 1e-6)
      assert.close({5}, torch.pdist(x:detach()), 1e-15)
      -- without a gradient, differences are computed for some rows at a time
      local p, q = normal({2, 1, 700, 9}), normal({3, 90, 9})
      for _, power in ipairs {0.5, 1, 3, math.huge} do
         local whole = (p:unsqueeze(-2) - q:unsqueeze(-3)):abs()
         local sums = power == math.huge and whole:amax(-1) or (whole ^ power):sum(-1) ^ (1 / power)
         assert.close(sums, torch.cdist(p, q, power), 1e-9)
      end
      assert.raises("cdist", "compute_mode", "fast", function() torch.cdist(x, x, 2, {compute_mode = "fast"}) end)
   end)
end)

it("chain_matmul takes matrices one by one or in a list, one alone too", function()
   local a, b, c = torch.randn(2, 3), torch.randn(3, 4), torch.randn(4, 1)
   assert.close(a:mm(b):mm(c), torch.chain_matmul(a, b, c), 1e-5)
   assert.close(a:mm(b), torch.chain_matmul {a, b}, 1e-6)
   assert.close(a, torch.chain_matmul(a), 0)
   assert.raises("chain_matmul", "matrices", function() torch.chain_matmul(a, b:select(2, 1)) end)
end)

it("tensordot takes both lists in one table, and broadcasts summed dimensions of size 1", function()
   local a, b = torch.randn(2, 3, 4), torch.randn(4, 5, 2)
   assert.close(torch.tensordot(a, b, {1, 3}, {3, 1}), torch.tensordot(a, b, {{1, 3}, {3, 1}}), 0)
   assert.close({6.0}, torch.tensordot(torch.tensor {1.0, 2, 3}, torch.ones(1, 1), {dims = {{1}, {2}}}), 1e-6)
   assert.raises("tensordot", "two lists", function() torch.tensordot(a, b, {{1}, {1, 2}}) end)
end)

it("addmm_ and baddbmm_ write into self, whatever its layout, as the plain forms compute", function()
   for _, dtype in ipairs {"float32", "float64", "bfloat16", "int32", "complex64"} do
      local function make(...) return (torch.randn(...) * 3):to(dtype) end
      local a, b, c, square = make(5, 7), make(7, 6), make(5, 6), make(5, 5)
      local batch_a, batch_b, batch_c = make(2, 5, 7), make(2, 7, 6), make(2, 5, 6)
      for _, by in ipairs {{beta = 1}, {beta = 0, alpha = 2}, {beta = 2, alpha = 3}, {alpha = 0}} do
         local expected = torch.addmm(c, a, b, by)
         assert.close(expected, c:clone():addmm_(a, b, by), 0)
         local columns = torch.zeros(6, 5, {dtype = dtype}):t()
         assert.close(expected, columns:copy_(c):addmm_(a, b, by), 0)
         local same = square:clone()
         assert.close(torch.addmm(square, square, square, by), same:addmm_(same, same, by), 0)
         assert.close(torch.baddbmm(batch_c, batch_a, batch_b, by), batch_c:clone():baddbmm_(batch_a, batch_b, by), 0)
      end
   end
   assert.close(torch.eye(2), torch.full({2, 2}, 0 / 0):addmm_(torch.eye(2), torch.eye(2), {beta = 0}), 0)
   assert.raises("addmm_: the result has shape [2, 2], which does not fit self of shape [2, 1]",
      function() torch.ones(2, 1):addmm_(torch.eye(2), torch.eye(2)) end)
   local x = torch.eye(2, {requires_grad = true})
   local y = torch.ones(2, 2):mul_(x):addmm_(x, torch.full({2, 2}, 3.0), {beta = 2})
   assert.close(torch.full({2, 2}, 8.0), torch.autograd.grad(y:sum(), x), 0)
end)

describe("dtypes of products", function()
   it("are int64 where one operand's integers are summed", function()
      local x = torch.tensor({{1, 2}, {3, 4}}, {dtype = "int32"})
      assert.close(torch.tensor {3, 7}, torch.einsum("ij->i", x), 0)
      assert.equal("int32", torch.einsum("ij,jk->ik", x, x).dtype)
      assert.close(torch.tensor {10, 20}, torch.einsum("ij,k->k", x, x[1]), 0)
      assert.close(torch.tensor {22, 32}, torch.einsum("ij,jk->k", x, x), 0)
   end)

   it("are those of all three in addr, before factors are applied", function()
      local row = torch.tensor({1.5, 2}, {dtype = "bfloat16"})
      local sum = torch.addr(torch.tensor {{1, 2}, {3, 4}}, row, row, {beta = 0.5})
      assert.close(torch.tensor({{2.75, 4}, {4.5, 6}}, {dtype = "bfloat16"}), sum, 0)
   end)

   it("are bool where addr is of bools", function()
      local row, none = torch.tensor {true, false}, torch.tensor(false)
      assert.close(torch.tensor {{true, false}, {false, false}}, torch.addr(none, row, row, {alpha = 2, beta = 3}), 0)
      assert.close(torch.zeros(2, 2, {dtype = "bool"}), torch.addr(none, row, row, {alpha = 0}), 0)
   end)
end)
