-- Tests sparse tensors whose components were changed in place or released, and operators that do not support sparse
-- tensors.

local torch = require "tlua"

local s -- the sparse tensor that the functions in `uses` work on

local uses = {
   function() local _ = s:to_dense() end,
   function() local _ = torch.sparse.mm(s, torch.eye(3)) end,
   function() local _ = s + s end,
   function() local _ = s:sum() end,
}

local function matrix(options)
   return torch.sparse_coo_tensor({{1, 2, 3}, {2, 1, 3}}, {1.0, 2.0, 3.0}, {3, 3}, options)
end

describe("a sparse tensor with positions changed in place", function()
   it("is used with the new positions, which no longer ascend", function()
      s = matrix {is_coalesced = true}
      s:indices():copy_(torch.tensor {{3, 2, 1}, {3, 1, 2}})
      local expected = torch.tensor {{0.0, 3, 0}, {2, 0, 0}, {0, 0, 1}}
      assert.close(expected, torch.sparse.mm(s, torch.eye(3)))
      assert.is_false(s:is_coalesced())
      assert.close(expected, s:to_dense())
      assert.close(expected, s:to_sparse_csr():to_dense())
      s:_indices():copy_(torch.tensor {{1, 1, 1}, {2, 2, 2}})
      assert.close({{0, 6, 0}, {0, 0, 0}, {0, 0, 0}}, s:to_dense())
      assert.equal(1, s:coalesce():_nnz())
   end)

   it("is refused if they are out of range", function()
      s = matrix {is_coalesced = true}
      s:indices():fill_(4)
      for _, use in ipairs(uses) do
         assert.raises("sparse tensor with positions changed in place: indices: expected positions from 1 to 3 in "
            .. "dimension 1, got 4", use)
      end
   end)

   it("is refused if pointers do not ascend, or lie outside", function()
      for _, layout in ipairs {"sparse_csr", "sparse_csc"} do
         local name = layout == "sparse_csr" and "crow_indices" or "ccol_indices"
         for pointers, message in pairs {[{1, 4, 2, 4}] = "expected ascending pointers",
            [{1, 400, 2, 4}] = "expected ascending pointers", [{0, 2, 3, 4}] = "expected the first one to be 1, got 0",
            [{1, 2, 3, 9}] = "expected the last one to be 4"} do
            s = matrix():to_sparse {layout = layout}
            s[name](s):copy_(torch.tensor(pointers))
            for _, use in ipairs(uses) do assert.raises(name .. ": " .. message, use) end
         end
         s = matrix():to_sparse {layout = layout}
         local plain = layout == "sparse_csr" and s:col_indices() or s:row_indices()
         plain:fill_(7)
         for _, use in ipairs(uses) do assert.raises("expected positions from 1 to 3 in dimension", use) end
      end
   end)

   it("is used with new pointers that are right", function()
      s = matrix():to_sparse_csr()
      local pointers, columns = s:crow_indices(), s:col_indices()
      pointers:copy_(torch.tensor {1, 1, 3, 4})
      columns:copy_(torch.tensor {1, 2, 3})
      local expected = torch.tensor {{0.0, 0, 0}, {1, 2, 0}, {0, 0, 3}}
      assert.close(expected, s:to_dense())
      assert.close(expected, torch.sparse.mm(s, torch.eye(3)))
   end)
end)

describe("a released sparse tensor", function()
   it("is refused by name", function()
      for _, name in ipairs {"values", "indices"} do
         s = matrix {is_coalesced = true}
         s[name](s):release()
         for _, use in ipairs(uses) do
            assert.raises("sparse tensor of shape (3, 3): its indices or values were released", use)
         end
         assert.equal("tensor(released)", tostring(s))
      end
      s = matrix():to_sparse_csr()
      s:release()
      s:release()
      assert.raises("were released", function() local _ = s:crow_indices() end)
      assert.raises("the tensor was released", function() torch.save({s}, os.tmpname() .. ".safetensors") end)
   end)
end)

describe("sparse tensors", function()
   it("have a norm of order inf without stored elements, and no norm of order -inf", function()
      s = torch.sparse_coo_tensor(nil, nil, {3, 3})
      assert.close(torch.tensor(0.0), s:norm(math.huge))
      assert.close(torch.tensor(0.0), s:norm())
      assert.close(torch.tensor(0.0), s:to_sparse_csr():norm(math.huge))
      assert.raises("norm: a tensor without stored elements has no norm of order -inf, got shape (3, 3)",
         function() s:norm(-math.huge) end)
      local empty = torch.sparse_coo_tensor(nil, nil, {0, 3})
      assert.raises("has no norm of order inf, got shape (0, 3)", function() empty:norm(math.huge) end)
   end)

   it("are refused by file formats without them", function()
      s = matrix()
      for name, object in pairs {npz = {a = s}, npy = s, png = s, jpg = s} do
         assert.raises("a tensor of layout sparse_coo cannot be saved in this format: .safetensors and .pt files",
            function() torch.save(object, os.tmpname() .. "." .. name) end)
      end
   end)

   it("take one position in brackets, and divide and transpose as dense ones", function()
      s = torch.sparse_coo_tensor({{1, 2, 3}, {2, 1, 3}}, {5.0, -2.0, 3.0}, {3, 3})
      for key, text in pairs {[{2, 1}] = "a table", [torch.ones(3, 3):gt(0)] = "a bool tensor of shape (3, 3)"} do
         assert.raises("sparse tensor: indexing takes a position along the first dimension, got " .. text,
            function() return s[key] end)
      end
      assert.equal(-2, s[2][1]:item())
      assert.close({{0, 2, 0}, {-1, 0, 0}, {0, 0, 1}}, (s // 2):to_dense())
      assert.raises("remainder: is not defined for tensors of layout sparse_coo", function() return s % 2 end)
      assert.raises("remainder: is not defined for tensors of layout sparse_coo", function() return 2 % s end)
      for _, name in ipairs {"T", "mT", "H", "mH"} do
         assert.close(s:to_dense():t(), s[name]:to_dense())
         assert.close(s:to_dense():t(), s:to_sparse_csr()[name]:to_dense())
      end
      assert.equal("sparse_csc", s:to_sparse_csr().T.layout)
      local cube = torch.ones(2, 3, 4):to_sparse()
      assert.same({2, 4, 3}, {table.unpack(cube.mT.shape)})
      assert.raises("T: expected a matrix, got shape (2, 3, 4)", function() return cube.T end)
   end)
end)

describe("an error of a function of sparse tensors", function()
   it("names the function that was called", function()
      local a = matrix()
      local elsewhere = torch.ones(3, 3, {device = a.device.type == "cpu" and "sim" or "cpu"})
      local csr, dense = a:to_sparse_csr(), torch.ones(3, 3)
      local m = torch.masked.masked_tensor(dense, dense:gt(0))
      for name, row in pairs {
         ["mm: expected all tensors on one device"] = {torch.mm, csr, elsewhere},
         ["mv: expected all tensors on one device"] = {torch.mv, csr, elsewhere[1]},
         ["addmm: is not defined for masked tensors"] = {torch.addmm, dense, csr, m},
         ["sparse.mm: is not defined for masked tensors"] = {torch.sparse.mm, csr, m},
         ["sparse.sampled_addmm: expected all tensors on"] = {torch.sparse.sampled_addmm, csr, elsewhere, elsewhere},
         ["sparse.spsolve: expected A and B of one dtype"] = {torch.sparse.spsolve, csr, dense:double()},
         ["sparse.sum: dtype or device: unknown 'x'"] = {torch.sparse.sum, a, {dtype = "x"}},
         ["mul_: a dense tensor of shape (2) does not broadcast"] = {a.mul_, a, torch.ones(2)},
         ["add_: other is missing"] = {a.add_, a},
         ["add_: the result is dense, which a sparse tensor cannot take"] = {a.add_, a, dense},
         ["permute: dims: expected each of 1 to 2 once"] = {a.permute, a},
         ["empty_like: unknown option dtyp"] = {torch.empty_like, a, {dtyp = "float64"}},
         ["zeros_like: options: expected a table, got true"] = {torch.zeros_like, a, true},
         ["select: self: expected a sparse tensor, got a float32 tensor"] = {torch.select, dense, a, 1},
         ["allclose: rtol or atol: expected a number, got a float32 sparse tensor"] = {torch.allclose, a, a, a},
         ["nan_to_num_: not implemented for 'float8_e5m2'"] = {torch.Tensor.nan_to_num_, dense:cpu():to "float8_e5m2"},
      } do
         assert.raises(name, function() row[1](table.unpack(row, 2)) end)
      end
   end)
end)

it("products of compressed matrices are of layout sparse_csr", function()
   local a = matrix()
   local layouts = {a:to_sparse_csr(), a:to_sparse_csc(), a}
   for i, x in ipairs(layouts) do
      for j, y in ipairs(layouts) do
         local product = x:mm(y)
         assert.equal((i == 3 or j == 3) and "sparse_coo" or "sparse_csr", product.layout)
         assert.close(a:to_dense():mm(a:to_dense()), product:to_dense())
      end
   end
end)

describe("the option out of operators with sparse tensors", function()
   local eye = torch.eye(3)

   it("takes dense and sparse results", function()
      local a = matrix {is_coalesced = true}
      for _, x in ipairs {a, a:to_sparse_csr()} do
         local out = torch.empty(0)
         assert.equal(out, torch.mm(x, eye, {out = out}))
         assert.close(a:to_dense(), out)
         torch.addmm(eye, x, out, {beta = 2, out = out})
         assert.close(2 * eye + a:to_dense():mm(a:to_dense()), out)
         torch.add(eye, x, {out = out})
         assert.close(eye + a:to_dense(), out)
         local sparse = torch.zeros_like(x)
         for name, expected in pairs {add = a:to_dense() * 2, sub = torch.zeros(3, 3), mul = a:to_dense():pow(2)} do
            assert.equal(sparse, torch[name](x, x, {out = sparse}))
            assert.close(expected, sparse:to_dense())
         end
         torch.sin(x, {out = sparse})
         assert.close(a:to_dense():sin(), sparse:to_dense())
         torch.add(x, x, {out = x})
         assert.close(matrix():to_dense() * 2, x:to_dense())
         x:mul_(0.5)
      end
   end)

   it("is refused if it does not fit", function()
      local a = matrix()
      assert.raises("mm: a result of dtype float32 cannot be stored in a tensor of dtype int64",
         function() torch.mm(a, eye, {out = torch.empty(3, 3, {dtype = "int64"})}) end)
      assert.raises("sin: out: expected a tensor of layout sparse_coo, got a float32 tensor",
         function() torch.sin(a, {out = torch.empty(3, 3)}) end)
      assert.raises("add: out: expected a dense tensor for the result of dense tensors",
         function() torch.add(eye, eye, {out = a}) end)
      assert.raises("mm: out: expected a tensor of layout strided, got 3", function() torch.mm(a, eye, {out = 3}) end)
      assert.raises("mm: with out= no gradient can be recorded",
         function() torch.mm(matrix():requires_grad_(), eye, {out = torch.empty(3, 3)}) end)
   end)
end)

it("semi-structured sparse matrices are refused by name", function()
   assert.raises("torch.sparse.to_sparse_semi_structured: tlua has no matrices of the 2:4 pattern",
      function() return torch.sparse.to_sparse_semi_structured end)
   assert.raises("torch.sparse: no field 'spmn'", function() return torch.sparse.spmn end)
end)
