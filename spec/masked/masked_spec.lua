-- Tests torch.masked. The expected values were computed by PyTorch 2.15 in float64.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local masked = torch.masked

local inf <const>, nan <const> = math.huge, 0 / 0
local F64 <const> = {dtype = "float64"}

-- The entry of a reduction has its values along dimension 2 and, except for the median, its value over all elements.
-- The entry of a function that keeps the shape has the rows of the result.
local expected <const> = {
   sum = {{-0.25, -1, 0}, -1.25},
   prod = {{-0.75, -30, 1}, 22.5},
   amax = {{1.5, 5, -inf}, 5},
   amin = {{-2, -6, inf}, -6},
   mean = {{-0.083333333333333, -0.5, nan}, -0.25},
   var = {{3.1458333333333, 60.5, nan}, 16.75},
   std = {{1.7736497211494, 7.778174593052, nan}, 4.0926763859362},
   logsumexp = {{1.7751302622476, 5.0000167015613, -inf}, 5.0390069040398},
   norm = {{2.25, 6.9863680278181, 0}, 7.0633075276808},
   median = {{0.25, -6, nan}},
   cumsum = {{1.5, -0.5, -0.5, -0.25}, {0, 5, -1, -1}, {0, 0, 0, 0}},
   cumprod = {{1.5, -3, -3, -0.75}, {1, 5, -30, -30}, {1, 1, 1, 1}},
   softmax = {{0.75947318609698, 0.02293410299954, 0, 0.21759271090348}, {0, 0.99998329857815, 1.6701421848095e-05, 0},
      {nan, nan, nan, nan}},
   log_softmax = {{-0.27513026224764, -3.7751302622476, -inf, -1.5251302622476},
      {-inf, -1.6701561318304e-05, -11.000016701561, -inf},
      {nan, nan, nan, nan}},
   softmin = {{0.026591646373374, 0.88059438798, 0, 0.092813965646622},
      {0, 1.6701421848095e-05, 0.99998329857815, 0},
      {nan, nan, nan, nan}},
   normalize = {{0.59702231412599, -0.79602975216799, 0, 0.099503719020999},
      {0, 0.64018439966448, -0.76822127959738, 0}, {0, 0, 0, 0}},
   logaddexp = {{1.5, -2, -inf, 0.25}, {-inf, 5.6931471805599, -5.3068528194401, -inf}, {1.5, -2, -inf, 0.25}},
}

local function input()
   return torch.tensor({{1.5, -2, nan, 0.25}, {4, 5, -6, 1}, {7, 8, 9, -3}}, F64),
      torch.tensor {{true, true, false, true}, {false, true, true, false}, {false, false, false, false}}
end

local whole <const> = {cumsum = true, cumprod = true, softmax = true, log_softmax = true, softmin = true}

describe("torch.masked", function()
   it("leaves elements out of reductions", function()
      local x, mask = input()
      for name, values in sorted(expected) do
         if whole[name] then
            assert.close(values, masked[name](x, 2, {mask = mask}), 1e-12)
         elseif name == "norm" then
            assert.close(values[1], masked.norm(x, 3, 2, {mask = mask}), 1e-12)
            assert.close(values[2], masked.norm(x, 3, {mask = mask}), 1e-12)
         elseif name == "normalize" then
            assert.close(values, masked.normalize(x, 2, 2, {mask = mask}), 1e-12)
         elseif name == "logaddexp" then
            assert.close(values,
               masked.logaddexp(x, x:flip(1), {input_mask = mask, other_mask = mask:flip(1)}), 1e-12)
         else
            assert.close(values[1], masked[name](x, 2, {mask = mask}), 1e-12)
            if values[2] then assert.close(values[2], masked[name](x, {mask = mask}), 1e-12) end
            local kept = masked[name](x, 2, {mask = mask, keepdim = true})
            assert.same({3, 1}, kept.shape)
         end
      end
      assert.same({1, 2}, masked.argmax(x[{{1, 2}}], 2, {mask = mask[{{1, 2}}]}):tolist())
      assert.same({2, 3}, masked.argmin(x[{{1, 2}}], 2, {mask = mask[{{1, 2}}]}):tolist())
      assert.equal("int64", masked.argmax(x, 2, {mask = mask}).dtype)
   end)

   it("takes sparse masks, which are false where they have no elements", function()
      local x, mask = input()
      for _, sparse in ipairs {mask:to_sparse(), mask:to_sparse_csr()} do
         for name in sorted(expected) do
            local order = (name == "norm" or name == "normalize") and {2} or {}
            local function call(given)
               local rest = table.move({2, {mask = given}}, 1, 2, #order + 1, {table.unpack(order)})
               return masked[name](x, table.unpack(rest))
            end
            if name ~= "logaddexp" then assert.close(call(mask), call(sparse), 0, name) end
         end
         assert.raises("masked.var: input: expected a dense tensor, which to_dense() makes, got a float64 sparse",
            function() masked.var(x:nan_to_num():to_sparse(), 2, {mask = sparse}) end)
         assert.raises("masked.masked_tensor: mask: expected a dense tensor of bool",
            function() masked.masked_tensor(x, sparse) end)
      end
   end)

   -- PyTorch 2.15's results for torch.masked.sum(x.to_sparse(), 1, mask=x % 2 == 0) and similar calls.
   it("reduces sparse inputs", function()
      local x = torch.tensor {{0.0, 1, 2, 3}, {4, 0, 6, 7}, {0, 9, 0, 11}}
      local s, mask = x:to_sparse(), x:remainder(2):eq(0)
      for name, values in pairs {sum = {2, 10, 0}, prod = {0, 0, 0}, amax = {2, 6, 0}, amin = {0, 0, 0}} do
         for _, given in ipairs {mask, mask:to_sparse()} do
            local r = masked[name](s, 2, {mask = given})
            assert.equal("sparse_coo", r.layout)
            assert.same({{1, 2, 3}}, r:indices():tolist(), name)
            assert.same(values, r:values():tolist(), name)
         end
      end
      assert.same({6, 17, 20}, masked.sum(s, 2):values():tolist())
      local mean = masked.mean(x:to_sparse_csr(), 2, {keepdim = true})
      assert.equal("sparse_csr", mean.layout)
      assert.close({2, 17 / 3, 10}, mean:values(), 1e-6)
      local leaf = x:to_sparse():requires_grad_()
      masked.sum(leaf, 2, {mask = mask}):to_dense():sum():backward()
      assert.same({0, 1, 0, 1, 1, 0, 0, 0}, leaf.grad:coalesce():values():tolist())
   end)

   it("equals torch's functions without a mask, and broadcasts a mask", function()
      local x = torch.randn(3, 4, F64):t()
      for _, name in ipairs {"sum", "prod", "amax", "amin", "mean", "var", "std", "logsumexp"} do
         assert.close(torch[name](x, 2), masked[name](x, 2), 1e-13)
      end
      local row = torch.tensor {true, false, true}
      assert.close(x:index_select(2, torch.tensor {1, 3}):sum(2), masked.sum(x, 2, {mask = row}), 1e-13)
      assert.equal(7, masked.sum(torch.tensor(7)):item())
      assert.close({0, 0}, masked.sum(torch.zeros(2, 0), 2, {mask = torch.ones(2, 0):bool()}), 0)
   end)

   it("keeps half precision if the correction of a variance is a fraction", function()
      local x, mask = torch.tensor {1.0, 2, 4, 9}, torch.tensor {true, true, true, false}
      for _, dtype in ipairs {"bfloat16", "float16"} do
         for _, name in ipairs {"var", "std"} do
            assert.equal(dtype, torch.masked[name](x:to(dtype), {mask = mask, correction = 0.5}).dtype)
         end
      end
      assert.close(14 / 7.5, torch.masked.var(x, {mask = mask, correction = 0.5}), 1e-6)
   end)

   it("has PyTorch's dtypes", function()
      local x, mask = torch.tensor({3, -4, 5}, {dtype = "int32"}), torch.tensor {true, true, false}
      assert.equal("int64", masked.sum(x, {mask = mask}).dtype)
      assert.equal(-12, masked.prod(x, {mask = mask}):item())
      assert.equal("int32", masked.amax(x, {mask = mask}).dtype)
      assert.equal(3, masked.amax(x, {mask = mask}):item())
      assert.equal(-2147483648, masked.amax(x, {mask = torch.zeros(3):bool()}):item())
      assert.equal("int32", masked.cumsum(x, 1, {mask = mask}).dtype)
      assert.equal("float32", masked.mean(x, {mask = mask, dtype = "float32"}).dtype)
      assert.equal("float16", masked.var(torch.randn(4):half()).dtype)
   end)

   it("has gradients, which elements left out do not disturb", function()
      local x, mask = input()
      x, mask = x[{{1, 2}}], mask[{{1, 2}}]
      local clean = x:nan_to_num(3):requires_grad_()
      for _, name in ipairs {"sum", "prod", "mean", "var", "std", "logsumexp", "amax", "softmax", "cumsum"} do
         local function fn(y) return masked[name](y, 2, {mask = mask}) end
         assert.is_true(torch.autograd.gradcheck(fn, {clean}), name)
         assert.is_true(torch.autograd.gradgradcheck(fn, {clean}), name)
         local dirty = x:clone():requires_grad_()
         fn(dirty):sum():backward()
         assert.is_false(dirty.grad:isnan():any():item(), name)
      end
   end)

   it("refuses masks and dimensions that do not fit", function()
      local x = torch.ones(2, 3)
      assert.raises("masked.sum: mask: expected a tensor of bool", function() masked.sum(x, 1, {mask = x}) end)
      assert.raises("masked.sum: mask: shape (3, 2) does not broadcast to the input's shape (2, 3)",
         function() masked.sum(x, 1, {mask = torch.ones(3, 2):bool()}) end)
      assert.raises("masked.sum: dim: expected 1 to 2 or -2 to -1, got 3", function() masked.sum(x, 3) end)
      assert.raises("masked.sum: dim: dimension -2 is given twice", function() masked.sum(x, {1, -2}) end)
      assert.raises("masked.mean: input: expected a floating or complex type",
         function() masked.mean(torch.arange(3)) end)
   end)
end)

describe("MaskedTensor", function()
   local x <const>, mask <const> = torch.tensor {{1.0, 2, nan}, {4, 5, 6}},
      torch.tensor {{true, true, false}, {false, true, true}}

   it("prints elements that are left out as dashes", function()
      local m = masked.masked_tensor(x, mask)
      assert.equal("MaskedTensor(\n  [\n    [  1.0000,   2.0000,       --],\n    [      --,   5.0000,   6.0000]\n"
         .. "  ]\n)", tostring(m))
      assert.equal("MaskedTensor( 14.0000, True)", tostring(m:sum()))
      assert.equal("MaskedTensor(\n  [0,       --, 2]\n)",
         tostring(masked.masked_tensor(torch.arange(3), torch.tensor {true, false, true})))
   end)

   it("computes with its data", function()
      local m = masked.masked_tensor(x, mask)
      assert.is_true(masked.is_masked_tensor(m) and torch.is_tensor(m))
      assert.close({{2, 3, 0}, {0, 6, 7}}, (m + 1):to_tensor(0), 0)
      assert.close({{1, 4, 0}, {0, 25, 36}}, (m * m):to_tensor(0), 0)
      assert.close({{1, 0, 9}, {9, -3, -4}}, (2 - m):to_tensor(9), 0)
      assert.close({{1, 0.5, 9}, {9, 0.2, 1 / 6}}, (1 / m):to_tensor(9), 1e-7)
      local dense = torch.ones(2)
      masked.as_masked_tensor(dense, dense:gt(0)):mul_(2)
      assert.close({1, 1}, dense, 0)
      assert.close({3, 11}, m:sum(2):get_data(), 0)
      assert.close({1.5, 5.5}, m:mean(2):get_data(), 0)
      assert.close({{1, 0}, {2, 5}, {0, 6}}, m:t():to_tensor(0), 0)
      assert.close({0, 5, 6}, m[2]:to_tensor(0), 0)
      assert.same({2, 3}, m.shape)
   end)

   it("passes gradients on, 0 for elements that are left out", function()
      local leaf = masked.masked_tensor(x, mask, {requires_grad = true})
      leaf:square():sum():get_data():backward()
      assert.close({{2, 4, 0}, {0, 10, 12}}, leaf.grad:to_tensor(0), 0)
      local dense = torch.tensor({-4.0, 9}, {requires_grad = true})
      masked.as_masked_tensor(dense, dense:gt(0)):sqrt():sum():get_data():backward()
      assert.close({0, 1 / 6}, dense.grad, 1e-7)
   end)

   it("runs the backward pass, from masked gradients too", function()
      local function leaf() return masked.masked_tensor(torch.tensor {1.0, 2}, torch.tensor {true, false},
         {requires_grad = true}) end
      local function seed(second) return masked.masked_tensor(torch.tensor {1.0, 5},
         torch.tensor {true, second or false}) end
      local function check(first, run)
         local m = leaf()
         local grad = run(m * 2) or m.grad
         assert.close({first, 0}, grad:to_tensor(0), 0)
         assert.same({true, false}, grad:get_mask():tolist())
      end
      check(2, function(m) m:sum():backward() end)
      check(6, function(m) m:mean():backward(torch.tensor(3.0)) end)
      check(2, function(m) m:backward {gradient = seed()} end)
      local m = leaf()
      assert.close({2, 0}, torch.autograd.grad((m * 2):prod(), m):to_tensor(0), 0)
      assert.close({4, 0}, torch.autograd.grad({m * 4}, {m}, {grad_outputs = {seed()}}):to_tensor(0), 0)
      assert.raises("backward: expected a masked tensor with the same mask as gradient, got a float32 masked",
         function() leaf():backward(seed(true)) end)
      assert.raises("backward: only a tensor with one element", function() leaf():backward() end)
   end)

   it("prints on the meta device", function()
      assert.equal("MaskedTensor(tensor(..., device='meta', size=(2, 3)), tensor(..., device='meta', size=(2, 3), "
         .. "dtype=torch.bool))", tostring(masked.masked_tensor(x:to "meta", mask:to "meta")))
      local m = masked.masked_tensor(x:to "meta", mask:to "meta")
      assert.same({2, 3}, (m + masked.masked_tensor(x:to "meta", mask:to "meta")).shape)
   end)

   it("passes through a Function and a checkpoint", function()
      local Double = torch.class("Double", torch.autograd.Function)
      function Double.forward(ctx, m)
         ctx:save_for_backward(m)
         return m * 2
      end
      function Double.backward(ctx, grad)
         local m = ctx:saved_tensors()
         assert.same({true, false}, m:get_mask():tolist())
         return grad * 2
      end
      local function double(m) return Double:apply(m) end
      for _, fn in ipairs {double, function(m) return torch.utils.checkpoint(double, m) end} do
         local m = masked.masked_tensor(torch.tensor {1.0, 2}, torch.tensor {true, false}, {requires_grad = true})
         fn(m):sum():backward()
         assert.close({2, 0}, m.grad:to_tensor(0), 0)
      end
      local q = torch.quantize_per_tensor(torch.ones(2), 0.5, 1, "qint8")
      local Keeper = torch.class("Keeper", torch.autograd.Function)
      function Keeper.forward(ctx, a, b)
         ctx:save_for_backward(a, b)
         return a:dequantize() * b
      end
      function Keeper.backward(ctx, grad) return nil, (ctx:saved_tensors()):dequantize() * grad end
      local y = torch.ones(2):requires_grad_()
      Keeper:apply(q, y):sum():backward()
      assert.close({1, 1}, y.grad, 0)
      function Double.backward() return masked.masked_tensor(torch.ones(2), torch.tensor {true, true}) end
      assert.raises("Double: backward: expected a masked tensor with the same mask as gradient", function()
         local m = masked.masked_tensor(torch.ones(2), torch.tensor {true, false}, {requires_grad = true})
         double(m):sum():backward()
      end)
   end)

   it("refuses what has no masked form, by name", function()
      local m = masked.masked_tensor(x, mask)
      assert.raises("matmul: is not defined for masked tensors; to_tensor(value) makes a dense one",
         function() return m:matmul(m) end)
      for _, row in ipairs {{{m}, x, x}, {mask, {m}, x}, {mask, m, {m}}} do
         assert.raises("where: is not defined for masked tensors", function() torch.where(table.unpack(row)) end)
      end
      assert.raises("nn.functional.linear: is not defined for masked tensors",
         function() return torch.nn.functional.linear(m, torch.ones(3, 3)) end)
      assert.raises("add: expected masked tensors with the same mask",
         function() return m + masked.masked_tensor(x, mask:logical_not()) end)
      assert.raises("masked.masked_tensor: mask: expected the shape of data, (2, 3), got (2)",
         function() masked.masked_tensor(x, torch.ones(2):bool()) end)
      assert.raises("masked.masked_tensor: data: expected a dense tensor", function() masked.masked_tensor(m, mask) end)
      assert.raises("masked tensor: there is no \"foo\"", function() return m.foo end)
   end)
end)
