-- Tests sparse tensors as values: constructors, fields, conversions, printing, copies and errors.

local torch = require "tlua"

local S = torch.sparse

local function example(options)
   return torch.sparse_coo_tensor({{1, 2, 2}, {3, 1, 3}}, {3.0, 4.0, 5.0}, {2, 3}, options)
end

local whole <const> = {{0, 0, 3}, {4, 0, 5}}

describe("a sparse_coo tensor", function()
   it("has the fields of a tensor", function()
      local s = example()
      assert.is_true(torch.is_tensor(s) and torch.isinstance(s, torch.Tensor))
      assert.same({"sparse_coo", "float32", true, false}, {s.layout, s.dtype, s.is_sparse, s.is_sparse_csr})
      assert.same({2, 3}, {s:size(1), s.shape[2]})
      assert.same({2, 6, 3, 2, 0}, {s:dim(), s:numel(), s:_nnz(), s:sparse_dim(), s:dense_dim()})
      assert.is_false(s:is_coalesced())
      assert.is_false(torch.ones(2).is_sparse)
      assert.equal(torch.sparse_coo, s.layout)
      assert.equal(s:size(1), #s)
      assert.raises("cpu: too many arguments: 2 came", function() s:cpu(2, 3) end)
   end)

   it("adds values at equal positions", function()
      local s = torch.sparse_coo_tensor({{2, 1, 2}}, {1.0, 2.0, 3.0}, {3})
      assert.close({2, 4, 0}, s:to_dense())
      local c = s:coalesce()
      assert.close({{1, 2}}, c:indices())
      assert.close({2, 4}, c:values())
      assert.is_true(c:is_coalesced())
      assert.close({2, 1, 2}, s:_indices()[1])
   end)

   it("infers its size, and may be empty", function()
      assert.same({2, 3, 2}, {table.unpack(torch.sparse_coo_tensor({{2}, {3}}, {{1, 2}}).shape)})
      local none = torch.sparse_coo_tensor(nil, nil, {2, 3})
      assert.close({{0, 0, 0}, {0, 0, 0}}, none:to_dense())
      assert.equal(0, none:coalesce():_nnz())
      assert.close({{0, 0, 3}, {4, 0, 5}}, (none + example()):to_dense())
      assert.close({{0, 0}, {0, 0}}, torch.mm(none, torch.ones(3, 2)))
   end)

   it("prints as PyTorch's does", function()
      torch.set_default_device "cpu"
      local text = tostring(example():detach())
      assert.equal([=[
tensor(indices=tensor([[1, 2, 2],
                       [3, 1, 3]]),
       values=tensor([3., 4., 5.]),
       size=(2, 3), nnz=3, layout=sparse_coo)]=], text)
      torch.set_default_device(require "spec.support.device".name or "cpu")
   end)

   it("computes in place", function()
      local s = example()
      s:mul_(2)
      assert.close({{0, 0, 6}, {8, 0, 10}}, s:to_dense())
      s:add_(example())
      assert.close({{0, 0, 9}, {12, 0, 15}}, s:to_dense())
      s:neg_()
      assert.close({{0, 0, -9}, {-12, 0, -15}}, s:to_dense())
      s:copy_(example():to_dense():to_sparse())
      assert.close(whole, s:to_dense())
      local x = torch.ones(2, 3)
      x:add_(s, {alpha = 2})
      assert.close({{1, 1, 7}, {9, 1, 11}}, x)
      assert.equal(0, s:zero_():_nnz())
   end)

   it("changes its size by sparse_resize_", function()
      local s = example():sparse_resize_({3, 4}, 2, 0)
      assert.close({{0, 0, 3, 0}, {4, 0, 5, 0}, {0, 0, 0, 0}}, s:to_dense())
      assert.raises("sparse_resize_: size[1]: expected at least 3, as the tensor has elements, got 2", function()
         s:sparse_resize_({2, 4}, 2, 0)
      end)
      assert.raises("sum to 2, got 1 and 2", function() s:sparse_resize_({3, 4}, 1, 2) end)
   end)

   it("converts dtypes, copies and compares", function()
      local s = example()
      assert.equal("float64", s:double().dtype)
      assert.equal("int64", s:to("int64").dtype)
      assert.close(whole, s:to("int64"):to_dense())
      assert.is_true(torch.equal(s, s:clone()))
      assert.is_false(torch.equal(s, s * 2))
      torch.testing.assert_close(s, s:clone())
      assert.has_error(function() torch.testing.assert_close(s, s * 2) end)
      assert.same({3, 2}, {table.unpack(s:t().shape)})
      assert.close(whole, s:t():transpose(1, 2):to_dense())
   end)
end)

describe("conversions of layouts", function()
   it("go from each to each", function()
      local x = torch.tensor {{0.0, 1, 0, 2}, {3, 0, 0, 0}, {0, 0, 0, 0}, {0, 4, 5, 0}}
      local made = {
         x:to_sparse(), x:to_sparse_csr(), x:to_sparse_csc(), x:to_sparse_bsr {2, 2}, x:to_sparse_bsc {2, 1},
      }
      for _, s in ipairs(made) do
         assert.close(x, s:to_dense())
         assert.close(x, s:to_sparse_coo():to_dense())
         assert.close(x, s:to_sparse_csr():to_dense())
         assert.close(x, s:to_sparse_csc():to_dense())
         assert.close(x, s:to_sparse_bsr({1, 2}):to_dense())
         assert.close(x, s:to_sparse_bsc({4, 2}):to_dense())
         assert.close(x:t(), s:t():to_dense())
         assert.close(x * 2, (s + s):to_dense())
         assert.close(x * x, (s * s):to_dense())
         assert.close(x:matmul(x), torch.mm(s, x))
         assert.close(x:matmul(x), torch.mm(x, s))
         assert.close(x:matmul(x), torch.mm(s, s:to_sparse_coo()):to_dense())
      end
   end)

   -- The expected values are those of PyTorch 2.15's torch.tensor(x).to_sparse_bsr((2, 2)), whose positions count from
   -- 0.
   it("make PyTorch's components, counted from 1", function()
      local x = torch.tensor {{0.0, 1, 0, 0}, {3, 0, 0, 0}, {0, 0, 0, 0}, {0, 4, 5, 0}}
      local csr, csc, bsr = x:to_sparse_csr(), x:to_sparse_csc(), x:to_sparse_bsr {2, 2}
      assert.close({1, 2, 3, 3, 5}, csr:crow_indices())
      assert.close({2, 1, 2, 3}, csr:col_indices())
      assert.close({1, 2, 4, 5, 5}, csc:ccol_indices())
      assert.close({2, 1, 4, 4}, csc:row_indices())
      assert.close({1, 2, 4}, bsr:crow_indices())
      assert.close({1, 1, 2}, bsr:col_indices())
      assert.close({{{0, 1}, {3, 0}}, {{0, 0}, {0, 4}}, {{0, 0}, {5, 0}}}, bsr:values())
      assert.close(x:to_sparse(1):to_dense(), x)
      assert.equal(1, x:to_sparse(1):dense_dim())
   end)

   it("refuse what does not fit", function()
      local s = example()
      assert.raises("to_sparse_bsr: blocksize is missing", function() s:to_sparse_bsr() end)
      assert.raises("to_sparse_bsr: blocksize: expected integers that divide the shape (2, 3), got (2, 2)",
         function() s:to_sparse_bsr {2, 2} end)
      assert.raises("to_sparse: sparse_dim: expected 1 to 2, got 3", function() torch.ones(2, 3):to_sparse(3) end)
      assert.raises("to_sparse_csr: expected a matrix, of 2 sparse dimensions, got 1", function()
         torch.ones(2, 3):to_sparse(1):to_sparse_csr()
      end)
   end)
end)

describe("constructors of sparse tensors", function()
   local function refused(text, fn, ...)
      local given = table.pack(...)
      assert.raises(text, function() fn(table.unpack(given, 1, given.n)) end)
   end
   local coo, csr = torch.sparse_coo_tensor, torch.sparse_csr_tensor

   it("refuse wrong positions, sizes and values by name", function()
      refused("sparse_coo_tensor: indices: expected positions from 1 to 2 in dimension 1, got 3", coo,
         {{3}, {1}}, {1.0}, {2, 3})
      refused("expected positions from 1 to 3 in dimension 2, got 0", coo, {{1}, {0}}, {1.0}, {2, 3})
      refused("sparse_coo_tensor: values: expected 2, one for each column of indices", coo, {{1, 2}}, {1.0}, {2})
      refused("size: expected 2 sizes", coo, {{1}, {1}}, {1.0}, {2, 3, 4})
      refused("size[1]: expected at least 0, got -2", coo, {{1}, {1}}, {1.0}, {-2, 3})
      refused("indices: expected int64 or int32, got float32", coo, {{1.5}}, {1.0}, {2})
      refused("values: expected shape (1, 4), got (1, 2)", coo, {{1}}, {{1.0, 2.0}}, {3, 4})
      refused("is_coalesced: expected positions that ascend and differ", coo, {{2, 1}}, {1.0, 2.0}, {2},
         {is_coalesced = true})
      refused("unknown option is_coalescd", coo, {{2, 1}}, {1.0, 2.0}, {2}, {is_coalescd = true})
   end)

   it("refuse wrong compressed positions by name", function()
      refused("crow_indices: expected the first one to be 1, got 0", csr, {0, 1, 3}, {3, 1, 3}, {3.0, 4, 5}, {2, 3})
      refused("crow_indices: expected the last one to be 4, one behind the 3 elements, got 3", csr, {1, 2, 3},
         {3, 1, 3}, {3.0, 4, 5}, {2, 3})
      refused("crow_indices: expected ascending pointers", csr, {1, 3, 2, 4}, {3, 1, 3}, {3.0, 4, 5}, {3, 3})
      refused("crow_indices: expected 3 pointers", csr, {1, 4}, {3, 1, 3}, {3.0, 4, 5}, {2, 3})
      refused("col_indices: expected positions from 1 to 3 in dimension 2, got 4", csr, {1, 2, 4}, {3, 1, 4},
         {3.0, 4, 5}, {2, 3})
      refused("col_indices: expected ascending positions without duplicates within each row", csr, {1, 2, 4},
         {3, 3, 1}, {3.0, 4, 5}, {2, 3})
      refused("col_indices: expected ascending positions without duplicates within each row", csr, {1, 2, 4},
         {3, 1, 1}, {3.0, 4, 5}, {2, 3})
      refused("values: expected a value for each of 3 col_indices", csr, {1, 2, 4}, {3, 1, 3}, {3.0, 4}, {2, 3})
      refused("row_indices: expected positions from 1 to 2 in dimension 1, got 3", torch.sparse_csc_tensor,
         {1, 2, 3}, {3, 1}, {3.0, 4}, {2, 2})
      refused("values: expected blocks that divide size (3, 4), got blocks (2, 2)", torch.sparse_bsr_tensor,
         {1, 2}, {1}, {{{1.0, 2}, {3, 4}}}, {3, 4})
      refused("sparse_compressed_tensor: layout: expected", torch.sparse_compressed_tensor, {1, 2}, {1}, {1.0},
         {1, 1}, {layout = "strided"})
   end)

   it("check positions unless they are told not to", function()
      local switch = S.check_sparse_tensor_invariants
      assert.is_true(switch.is_enabled())
      local s = coo({{3}, {1}}, {1.0}, {2, 3}, {check_invariants = false})
      assert.equal(1, s:_nnz())
      switch.disable()
      local ok = pcall(coo, {{3}, {1}}, {1.0}, {2, 3})
      switch.enable()
      assert.is_true(ok)
      assert.is_false(pcall(coo, {{3}, {1}}, {1.0}, {2, 3}))
   end)

   it("take values of each dtype", function()
      for _, dtype in ipairs {"float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"} do
         local s = coo({{1, 3}}, torch.tensor({1, 1}, {dtype = dtype}), {3})
         assert.equal(dtype, s:to_dense().dtype)
         assert.close({1, 0, 1}, s:to_dense():to "float32")
      end
      local integers = coo({{1, 2}, {2, 1}}, {2, 3}, {2, 2})
      assert.close({{6, 8}, {3, 6}}, torch.mm(integers, torch.tensor {{1, 2}, {3, 4}}))
   end)
end)

describe("operators that sparse tensors lack", function()
   it("name the operator and the layout", function()
      local s, x = example(), torch.ones(2, 3)
      assert.raises("cumsum: is not defined for tensors of layout sparse_coo; to_dense() makes a dense one",
         function() torch.cumsum(s, 1) end)
      assert.raises("cumsum: is not defined for tensors of layout sparse_coo", function() s:cumsum(1) end)
      assert.raises("cat: tensors[2]: expected a sparse tensor as the others", function() torch.cat {s, x} end)
      assert.raises("add: the sum with a number would be dense", function() return s + 1 end)
      assert.raises("div: a sparse tensor cannot be the divisor", function() return x / s end)
      assert.raises("pow: expected a sparse tensor and an exponent above 0", function() return s ^ 0 end)
      assert.raises("mm: out: expected a dense tensor", function() torch.mm(x, x:t(), {out = s}) end)
      assert.raises("mv: expected at most 2 arguments, got 3", function() torch.mv(s, x[1], 3) end)
      assert.raises("transpose: expected at most 3 arguments, got 4", function() s:transpose(1, 2, 3) end)
      assert.raises("sparse.mm: mat1: expected a sparse matrix, or a dense one with a sparse mat2",
         function() S.mm(torch.ones(2, 2), torch.ones(2, 2)) end)
      assert.raises("mm: inner sizes differ: (2, 3) x (2, 3)", function() torch.mm(s, x) end)
      assert.raises("mm: expected one dtype, got float32 and float64", function() torch.mm(s, x:t():double()) end)
      assert.raises("add: expected tensors of one shape", function() return s + example():t() end)
      assert.raises('there is no "nonsense"', function() return s.nonsense end)
      assert.raises("indices: the tensor is not coalesced: call coalesce() first", function() s:indices() end)
      assert.raises("crow_indices: expected a tensor of layout sparse_csr or sparse_bsr, got sparse_coo",
         function() s:crow_indices() end)
      assert.raises("sum: dim: expected 1 to 2 or -2 to -1, got 3", function() torch.sum(s, 3) end)
      assert.raises("spsolve: expected a square matrix", function() S.spsolve(s, torch.ones(2)) end)
   end)
end)

describe("the gradient of a sparse leaf", function()
   it("is sparse, and accumulates", function()
      local s = example {requires_grad = true}
      assert.is_true(s.requires_grad and s.is_leaf)
      torch.mm(s, torch.ones(3, 2)):sum():backward()
      assert.equal("sparse_coo", s.grad.layout)
      assert.close({{0, 0, 2}, {2, 0, 2}}, s.grad:to_dense())
      s:sum():backward()
      assert.close({{0, 0, 3}, {3, 0, 3}}, s.grad:to_dense())
      s.grad = nil
      assert.is_nil(s.grad)
      local g = torch.autograd.grad((s * s):sum(), s)
      assert.close({{0, 0, 6}, {8, 0, 10}}, g:to_dense())
      assert.raises("in place", function() s:add_(s) end)
   end)

   it("may be set to zero in place, and takes no other positions", function()
      local s = torch.eye(2):to_sparse():requires_grad_()
      for _ = 1, 3 do
         if s.grad then s.grad:zero_() end
         s:sum():backward()
      end
      assert.close({{1, 0}, {0, 1}}, s.grad:to_dense())
      assert.raises("add_: cannot change .grad in place in this way", function() s.grad:add_(s.grad) end)
   end)

   it("is required after the leaf has changed in place", function()
      local s = torch.eye(2):to_sparse():requires_grad_()
      for round = 1, 3 do
         s:sum():backward()
         torch.no_grad(function() s:sub_(s.grad * 0.25) end)
         assert.is_true(s.requires_grad and s.is_leaf)
         assert.close({{1 - round / 4, 0}, {0, 1 - round / 4}}, s:detach():to_dense())
      end
   end)

   it("reaches the values of which it was made", function()
      local v = torch.tensor({1.0, 2.0}, {requires_grad = true})
      local s = torch.sparse_coo_tensor({{1, 1}, {2, 2}}, v, {2, 2})
      assert.is_false(s.is_leaf)
      s:coalesce():pow(2):sum():backward()
      assert.close({6, 6}, v.grad)
   end)
end)

describe("torch.scope", function()
   it("keeps the components of a sparse tensor that its function returns", function()
      local s, other = torch.scope(function()
         local made = example() * 2
         return made, made:_values()
      end)
      assert.close({{0, 0, 6}, {8, 0, 10}}, s:to_dense())
      assert.close({6, 8, 10}, other)
   end)
end)

it("methods of sparse tensors refuse dense ones", function()
   assert.raises("coalesce: self: expected a sparse tensor, got a float32 tensor of shape (2)", function()
      torch.ones(2):coalesce()
   end)
   assert.raises("sparse_dim: self: expected a sparse tensor", function() torch.ones(2):sparse_dim() end)
end)

-- The expected values were computed by PyTorch 2.15 for rows with elements. For rows without elements, PyTorch gives 0
-- too.
it("sparse.mm reduces products, with gradients", function()
   local s = torch.sparse_csr_tensor({1, 3, 3, 4}, {1, 3, 2}, {2.0, -1.0, 3.0}, {3, 3})
   local x = torch.tensor {{1.0, -2.0}, {0.5, 4.0}, {3.0, 1.0}}
   for reduce, wanted in pairs {sum = {{-1, -5}, {0, 0}, {1.5, 12}}, mean = {{-0.5, -2.5}, {0, 0}, {1.5, 12}},
      amax = {{2, -1}, {0, 0}, {1.5, 12}}, amin = {{-3, -4}, {0, 0}, {1.5, 12}}} do
      assert.close(wanted, torch.sparse.mm(s, x, reduce), 1e-6)
      local function fn(values, right)
         return torch.sparse.mm(torch.sparse_csr_tensor({1, 3, 3, 4}, {1, 3, 2}, values, {3, 3}), right, reduce)
      end
      local leaves = {s:values():double():requires_grad_(), x:double():requires_grad_()}
      assert.is_true(torch.autograd.gradcheck(fn, leaves), reduce)
   end
   assert.raises('sparse.mm: reduce: expected "sum", "mean", "amax" or "amin", got "max"',
      function() torch.sparse.mm(s, x, "max") end)
   assert.raises("sparse.mm: mat1: expected a matrix of layout sparse_csr",
      function() torch.sparse.mm(s:to_sparse(), x, "mean") end)
end)

it("sparse.sampled_addmm takes complex factors", function()
   local s = torch.sparse_csr_tensor({1, 2}, {1}, {1.0}, {1, 1}):cfloat()
   local one = torch.ones(1, 1):cfloat()
   local sum = torch.sparse.sampled_addmm(s, one, one, {alpha = torch.complex(2, 3), beta = torch.complex(1, 2)})
   assert.equal(torch.complex(3, 5), sum:values()[1]:item())
end)

it("products with dense matrices of every width are those of the dense matrix", function()
   for _, dtype in ipairs {"float32", "float64"} do
      local dense = torch.randn({7, 20}, {dtype = dtype}) * torch.rand(7, 20):lt(0.4)
      local s = dense:to_sparse_csr()
      for _, width in ipairs {1, 2, 15, 16, 31, 32, 33, 63, 64, 65, 80, 127, 128, 129, 200} do
         local x = torch.randn({20, width}, {dtype = dtype})
         assert.close(dense:matmul(x), torch.mm(s, x), 1e-5, width)
      end
   end
end)
