-- Compares sparse operators and their gradients with PyTorch's (spec/fixtures/sparse.py).

local torch = require "tlua"

local reference = dofile "spec/fixtures/sparse.lua"
local S = torch.sparse
local f64 = {dtype = "float64"}

local function wave(...)
   local n = 1
   for _, size in ipairs {...} do n = n * size end
   return (torch.arange(n, f64) * 1.3 + 0.5):sin():reshape(...)
end

local function inputs()
   local a = torch.sparse_coo_tensor({{1, 1, 2, 3, 3, 4}, {2, 5, 1, 2, 4, 3}},
      {1.5, 0.25, 2.0, 0.5, 3.0, 0.75}, {4, 5},
      {dtype = "float64", is_coalesced = true, requires_grad = true})
   local b = torch.sparse_coo_tensor({{1, 3, 3, 2, 3, 1}, {2, 4, 2, 5, 4, 1}},
      {0.3, -1.0, 2.5, 0.7, 0.25, -0.6}, {4, 5}, f64)
   local h = torch.sparse_coo_tensor({{3, 1, 3}}, wave(3, 2), {3, 2})
   return a, b, h
end

local D, X, Y, V = wave(4, 5), wave(5, 3), wave(4, 3), wave(5)
local L, R = wave(4, 2), wave(2, 5)

local cases = {
   coalesce = function(_, b) return b:coalesce() end,
   hybrid = function(_, _, h) return h:coalesce() end,
   to_dense = function(a) return a:to_dense() end,
   to_sparse_csr = function(a) return a:to_sparse_csr() end,
   to_sparse_csc = function(a) return a:to_sparse_csc() end,
   add = function(a, b) return a + b end,
   add_alpha = function(a, b) return torch.add(a, b, {alpha = -2}) end,
   sub = function(a, b) return a - b end,
   mul = function(a, b) return a * b end,
   add_dense = function(a) return D + a end,
   mul_dense = function(a) return D * a end,
   div_dense = function(a) return a / D end,
   mul_number = function(a) return 2.5 * a end,
   div_number = function(a) return a / 4 end,
   neg = function(a) return -a end,
   abs = function(_, b) return b:abs() end,
   sqrt = function(a) return torch.sqrt(a) end,
   sin = function(_, b) return b:sin() end,
   tanh = function(a) return a:tanh() end,
   expm1 = function(a) return a:expm1() end,
   log1p = function(a) return a:log1p() end,
   pow = function(a) return a ^ 2 end,
   relu = function(_, b) return torch.nn.functional.relu(b) end,
   sum = function(a) return torch.sum(a) end,
   sum_1 = function(a) return S.sum(a, 1) end,
   sum_2 = function(a) return a:sum(2) end,
   sum_hybrid = function(_, _, h) return S.sum(h, 2) end,
   softmax_1 = function(a) return S.softmax(a, 1) end,
   softmax_2 = function(a) return S.softmax(a, -1) end,
   log_softmax_2 = function(a) return S.log_softmax(a, 2) end,
   softmax_hybrid = function(_, _, h) return S.softmax(h, 2) end,
   mm = function(a) return torch.mm(a, X) end,
   mm_sparse = function(a, b) return S.mm(a, b:t()) end,
   mv = function(a) return a:mv(V) end,
   addmm = function(a) return S.addmm(Y, a, X, {beta = 0.5, alpha = 2}) end,
   sampled_addmm = function(a)
      return S.sampled_addmm(a:detach():to_sparse_csr(), L, R, {beta = 0.5, alpha = 2})
   end,
   t = function(a) return a:t() end,
   select = function(_, b) return b[3] end,
   index_select = function(_, b) return torch.index_select(b, 1, torch.tensor {3, 1, 3}) end,
   narrow = function(_, b) return b:narrow(2, 2, 3) end,
   cat = function(a, b) return torch.cat({a, b}, 2) end,
   stack = function(a, b) return torch.stack {a, b} end,
   sparse_mask = function(a) return D:sparse_mask(a:detach()) end,
   norm = function(_, b) return b:norm() end,
   spdiags = function() return S.spdiags(wave(3, 4), {0, -1, 2}, {4, 5}) end,
}

local function dense(x) return x.layout == "strided" and x or x:to_dense() end

-- Compares a tensor with a list of numbers from the fixture. The fixture has 12 digits, and 11 of them must agree.
local function close(expected, actual)
   assert.equal(#expected, actual:numel())
   local want = torch.tensor(expected, f64):reshape(actual.shape)
   assert.is_true(((want - actual):abs() / (want:abs() + 1)):max():item() < 1e-11)
end

describe("a sparse operator", function()
   it("has all cases of the fixture", function()
      for name in pairs(reference) do assert.is_function(cases[name], name) end
      for name in pairs(cases) do assert.is_table(reference[name], name) end
   end)

   for name, expected in pairs(reference) do
      it(("gives PyTorch's result: %s"):format(name), function()
         local result = dense(cases[name](inputs()))
         assert.same(expected.shape, table.move(result.shape, 1, result:dim(), 1, {}))
         close(expected.value, result:detach())
      end)

      if expected.grad then
         it(("gives PyTorch's gradient: %s"):format(name), function()
            local a, b, h = inputs()
            local out = dense(cases[name](a, b, h)):reshape(-1);
            (out * (torch.arange(out:numel(), f64) * 0.1 + 0.5)):sum():backward()
            assert.equal("sparse_coo", a.grad.layout)
            close(expected.grad, a.grad:to_dense())
         end)
      end
   end
end)

-- Returns a function for gradcheck. It maps the values of a sparse matrix to a dense result.
local function of_values(make)
   return function(values, ...)
      return dense(make(values, ...))
   end
end

describe("second derivatives of sparse operators", function()
   local crow, col = torch.tensor {1, 3, 4, 6, 7}, torch.tensor {2, 5, 1, 2, 4, 3}
   local function csr(values) return torch.sparse_csr_tensor(crow, col, values, {4, 5}) end
   local function coo(values)
      return torch.sparse_coo_tensor({{1, 1, 2, 3, 3, 4, 3}, {2, 5, 1, 2, 4, 3, 4}}, values, {4, 5})
   end
   local function values(n) return (wave(n) + 1.5):requires_grad_() end

   for name, fn in pairs {
      ["csr x dense"] = {function(v, x) return torch.mm(csr(v), x) end, values(6), wave(5, 3)},
      ["dense x csr"] = {function(v, x) return torch.mm(x, csr(v)) end, values(6), wave(3, 4)},
      ["csc x dense"] = {function(v, x) return csr(v):t():mm(x) end, values(6), wave(4, 3)},
      ["coo x vector"] = {function(v, x) return coo(v):mv(x) end, values(7), wave(5)},
      ["sparse x sparse"] = {function(v) return torch.mm(coo(v), csr(v):t()) end, values(6)},
      ["sampled_addmm"] = {function(v, l, r) return S.sampled_addmm(csr(v), l, r) end, values(6),
         wave(4, 2), wave(2, 5)},
      ["softmax"] = {function(v) return S.softmax(coo(v), 1) end, values(7)},
      ["coo * coo"] = {function(v) return coo(v) * coo(v) end, values(7)},
      ["coo + csr"] = {function(v) return coo(v) + csr(v:narrow(1, 1, 6)):to_sparse() end, values(7)},
      ["to_sparse_bsr"] = {function(v) return coo(v):to_sparse_bsr {2, 5} end, values(7)},
      ["spsolve"] = {function(v, b)
         return S.spsolve(S.spdiags(v:view(2, 3), {0, 1}, {3, 3}), b)
      end, values(6), wave(3)},
      ["to_sparse of a dense matrix"] = {function(x) return (x:to_sparse() * 2):to_dense() end,
         wave(3, 4):requires_grad_()},
   } do
      it("pass gradgradcheck: " .. name, function()
         local make = of_values(fn[1])
         local given = {}
         for i = 2, #fn do given[i - 1] = fn[i]:detach():clone():requires_grad_() end
         if name == "sparse x sparse" then
            make = of_values(function(v) return torch.mm(csr(v), csr(v):t()) end)
         end
         assert.is_true(torch.autograd.gradcheck(make, given))
         assert.is_true(torch.autograd.gradgradcheck(make, given))
      end)
   end
end)
