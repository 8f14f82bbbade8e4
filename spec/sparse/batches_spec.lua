-- Tests batches of compressed sparse matrices. The components were computed by PyTorch 2.15, with positions changed to
-- count from 1. Products and sums are compared with those of dense tensors.

local torch = require "tlua"

local X <const> = {{{0, 1, 2}, {3, 0, 0}}, {{1, 0, 0}, {0, 2, 3}}}

local function dense(options) return torch.tensor(X, options or {dtype = "float32"}) end

-- Each row has {layout, block sizes}.
local LAYOUTS <const> = {{"csr"}, {"csc"}, {"bsr", {1, 3}}, {"bsc", {2, 1}}}

local function compressed(x, layout) return x["to_sparse_" .. layout[1]](x, layout[2]) end

-- Checks that a sparse tensor has the given layout and equals a dense tensor.
local function check(layout, expected, s)
   assert.equal(layout, s.layout)
   assert.same(expected.shape, s.shape)
   assert.is_true(torch.equal(expected, s:to_dense()), tostring(s))
end

describe("A batch of compressed matrices", function()
   it("has PyTorch's components", function()
      local s = dense():to_sparse_csr()
      assert.same({{1, 3, 4}, {1, 2, 4}}, s:crow_indices():tolist())
      assert.same({{2, 3, 1}, {1, 2, 3}}, s:col_indices():tolist())
      assert.same({{1, 2, 3}, {1, 2, 3}}, s:values():tolist())
      assert.same({3, 2, 0}, {s:_nnz(), s:sparse_dim(), s:dense_dim()})
      local c = s:to_sparse_csc()
      assert.same({{1, 2, 3, 4}, {1, 2, 3, 4}}, c:ccol_indices():tolist())
      assert.same({{2, 1, 1}, {1, 2, 2}}, c:row_indices():tolist())
      assert.same({{3, 1, 2}, {1, 2, 3}}, c:values():tolist())
      local b = dense():tile(1, 1, 2):to_sparse_bsr {2, 3}
      assert.same({{1, 3}, {1, 3}}, b:crow_indices():tolist())
      assert.same({{1, 2}, {1, 2}}, b:col_indices():tolist())
      assert.same({2, 2, 2, 3}, b:values().shape)
      assert.same({{1, 1, 1, 2, 2, 2}, {1, 1, 2, 1, 2, 2}, {2, 3, 1, 1, 2, 3}},
         s:to_sparse():indices():tolist())
   end)

   it("is printed as by PyTorch", function()
      assert.equal([==[tensor(crow_indices=tensor([[1, 3, 4],
                            [1, 2, 4]]),
       col_indices=tensor([[2, 3, 1],
                           [1, 2, 3]]),
       values=tensor([[1., 2., 3.],
                      [1., 2., 3.]]),
       size=(2, 2, 3), nnz=3, layout=sparse_csr)]==], tostring(dense():cpu():to_sparse_csr()))
   end)

   it("converts between all layouts", function()
      local x = dense()
      for _, from in ipairs(LAYOUTS) do
         local s = compressed(x, from)
         check("sparse_" .. from[1], x, s)
         check("sparse_coo", x, s:to_sparse())
         for _, to in ipairs {{"csr"}, {"csc"}} do check("sparse_" .. to[1], x, compressed(s, to)) end
         check("sparse_bsc", x, s:to_sparse_bsc {1, 1})
      end
      local more = torch.stack {x, -x}
      for _, layout in ipairs(LAYOUTS) do check("sparse_" .. layout[1], more, compressed(more, layout)) end
      for _, size in ipairs {{0, 2, 3}, {2, 0, 3}, {2, 2, 0}, {0, 3, 2, 3}} do
         local none = torch.zeros(size)
         check("sparse_csr", none, none:to_sparse_csr())
         check("sparse_bsc", none, none:to_sparse_bsc {1, 1})
      end
   end)

   it("is made of components, whose size is inferred", function()
      local s = torch.sparse_csr_tensor({{1, 3}, {1, 3}}, {{1, 2}, {1, 2}}, {{1.0, 2}, {3, 4}})
      check("sparse_csr", torch.tensor {{{1.0, 2}}, {{3, 4}}}, s)
      local pointers = {{1, 2, 3}, {1, 2, 3}}
      local b = torch.sparse_bsr_tensor(pointers, {{1, 2}, {1, 2}}, torch.ones(2, 2, 3, 2))
      assert.same({2, 6, 4}, b.shape)
      local d = torch.sparse_csr_tensor(pointers, {{1, 2}, {1, 2}}, torch.ones(2, 2, 5))
      assert.same({2, 2, 2, 5}, d.shape)
      assert.equal(1, d:dense_dim())
   end)

   it("takes the number of dense dimensions", function()
      local s = dense():to_sparse_csr(1)
      assert.same({{0, 1, 2}, {3, 0, 0}, {1, 0, 0}, {0, 2, 3}}, s:values():tolist())
      assert.same({1, 3, 5}, s:crow_indices():tolist())
      local x = torch.stack({dense(), dense()}, 4)
      check("sparse_bsr", x, x:to_sparse_bsr({1, 3}, {dense_dim = 1}))
      check("sparse_csc", x, x:to_sparse {layout = "sparse_csc", dense_dim = 1})
      assert.raises("to_sparse_csr: dense_dim: expected 0 to 1, got 2",
         function() dense():to_sparse_csr {dense_dim = 2} end)
   end)

   it("computes elementwise, sums, and returns its single matrices", function()
      local x = dense()
      for _, layout in ipairs(LAYOUTS) do
         local s, name = compressed(x, layout), "sparse_" .. layout[1]
         check(name, -x, -s)
         check(name, 2 * x, s + s)
         check(name, x * x, s * s)
         check(name, x * x, s * x)
         check(name, torch.zeros_like(x), torch.zeros_like(s))
         check(name, x, x:sparse_mask(s))
         check(name, x[2], s[2])
         check("sparse_coo", x:select(2, 1), s:select(2, 1))
         check("sparse_coo", x:sum(1), s:sum(1))
         assert.equal(12, s:sum():item())
         check(name:gsub("s([rc])$", {r = "sc", c = "sr"}), x.mT, s:transpose(2, 3))
      end
   end)

   it("multiplies dense batches, with gradients", function()
      local x, y = dense {dtype = "float64"}, torch.randn(2, 3, 4, {dtype = "float64"})
      for _, layout in ipairs(LAYOUTS) do
         local s = compressed(x, layout)
         assert.close(x:bmm(y), torch.bmm(s, y), 1e-14)
         assert.close(x:bmm(y), s:matmul(y), 1e-14)
         assert.close(y.mT:bmm(x.mT), y.mT:matmul(s.mT), 1e-14)
         local function product(values, right)
            local again = torch.sparse_compressed_tensor(s.layout:find "r$" and s:crow_indices()
               or s:ccol_indices(), s.layout:find "r$" and s:col_indices() or s:row_indices(), values,
               x.shape, {layout = s.layout})
            return torch.bmm(again, right)
         end
         local leaves = {s:values():detach():requires_grad_(), y:detach():requires_grad_()}
         assert.is_true(torch.autograd.gradcheck(product, leaves))
         assert.is_true(torch.autograd.gradgradcheck(product, leaves))
      end
      local coo = x:to_sparse()
      assert.close(x:bmm(y), coo:bmm(y), 1e-14)
      local sampled = torch.sparse.sampled_addmm(dense():to_sparse_csr(), torch.ones(2, 2, 4), torch.ones(2, 4, 3))
      assert.same({{5, 6, 7}, {5, 6, 7}}, sampled:values():tolist())
   end)

   it("becomes zeros or random values", function()
      for _, layout in ipairs(LAYOUTS) do
         local s = compressed(dense(), layout)
         local random = torch.randn_like(s, {dtype = "float64"})
         assert.same({s.layout, "float64", s:_nnz()}, {random.layout, random.dtype, random:_nnz()})
         check("sparse_coo", torch.zeros(2, 2, 3), torch.zeros_like(s, {layout = "sparse_coo"}))
         check("sparse_csc", torch.zeros(2, 2, 3), torch.zeros_like(dense():to_sparse_csr(), {layout = "sparse_csc"}))
      end
      assert.raises('randn_like: layout: expected sparse_csr, of the tensor itself, got "sparse_coo"',
         function() torch.randn_like(dense():to_sparse_csr(), {layout = "sparse_coo"}) end)
   end)

   it("has gradients at its positions", function()
      local s = dense():to_sparse_csr():requires_grad_()
      local weights = torch.arange(12, {dtype = "float32"}):view(2, 2, 3)
      ;(s:to_dense() * weights):sum():backward()
      assert.equal("sparse_csr", s.grad.layout)
      assert.same({{1, 2, 3}, {6, 10, 11}}, s.grad:values():tolist())
   end)

   it("is saved and loaded", function()
      local path = os.tmpname() .. ".pt"
      for _, layout in ipairs(LAYOUTS) do
         local s = compressed(dense(), layout)
         torch.save(s, path)
         check(s.layout, dense():cpu(), torch.load(path):cpu())
      end
      os.remove(path)
   end)

   it("refuses components that do not fit", function()
      local make, two = torch.sparse_csr_tensor, {{1, 2, 3}, {1, 2, 3}}
      local ones <const> = torch.ones(2, 2)
      for message, fn in pairs {
         ["col_indices: expected a tensor of 2 dimensions, as crow_indices, got"] =
            function() make(two, {1, 2}, ones) end,
         ["col_indices: expected a batch of (2) as crow_indices have, got (3)"] =
            function() make(two, {{1, 2}, {1, 2}, {1, 2}}, ones) end,
         ["values: expected a value for each of 2 col_indices, got"] =
            function() make(two, {{1, 2}, {1, 2}}, torch.ones(2, 3)) end,
         ["size: expected a batch of (2) as crow_indices have, got (3)"] =
            function() make(two, {{1, 2}, {1, 2}}, ones, {3, 2, 2}) end,
         ["crow_indices: expected the last one to be 3, one behind the 2 elements, got 4"] =
            function() make({{1, 2, 3}, {1, 2, 4}}, {{1, 2}, {1, 2}}, ones, {2, 2, 2}) end,
         ["col_indices: expected positions from 1 to 2 in dimension 3, got 3"] =
            function() make(two, {{1, 2}, {1, 3}}, ones, {2, 2, 2}) end,
         ["col_indices: expected ascending positions without duplicates within each row"] =
            function() make({{1, 3}, {1, 3}}, {{1, 2}, {2, 1}}, ones, {2, 1, 2}) end,
      } do assert.raises("sparse_csr_tensor: " .. message, fn) end
      assert.raises("to_sparse_csr: expected as many elements in each of 2 matrices, got (1, 2)",
         function() torch.tensor {{{1.0, 0}}, {{1, 1}}}:to_sparse_csr() end)
      assert.raises("transpose: expected dimensions 2 and 3, of the rows and columns of layout sparse_csr",
         function() dense():to_sparse_csr():transpose(1, 2) end)
      assert.raises("bmm: expected batches of matrices that fit one another, got (2, 2, 3) and (2, 2, 3)",
         function() dense():to_sparse_csr():bmm(dense()) end)
   end)
end)
