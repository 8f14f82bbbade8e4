-- Tests torch.segment_reduce. The expected values were computed by PyTorch 2.15. Offsets count from 1 here.

local torch = require "tlua"

local nan <const>, inf <const> = 0 / 0, math.huge
local reduce = torch.segment_reduce

-- For segments of 2, 0, 3 and 1 elements of {1, 7, 3, 4, 5, 6}, each row has the results without initial, and with
-- initial = 4. Then follow the results for {1, 5, 5, 4, 5, 6} with initial = 5, and their gradients.
local expected <const> = {
   sum = {{8, 0, 12, 6}, {12, 4, 16, 10}, {11, 5, 19, 11}, {1, 1, 1, 1, 1, 1}},
   mean = {{4, nan, 4, 6}, {6, 4, 16 / 3, 10}, {5.5, 5, 19 / 3, 11}, {0.5, 0.5, 1 / 3, 1 / 3, 1 / 3, 1}},
   max = {{7, -inf, 5, 6}, {7, 4, 5, 6}, {5, 5, 5, 6}, {0, 1, 0.5, 0, 0.5, 1}},
   min = {{1, inf, 3, 6}, {1, 4, 3, 4}, {1, 5, 4, 5}, {1, 0, 0, 1, 0, 0}},
   prod = {{7, 1, 60, 6}, {28, 4, 240, 24}, {25, 5, 500, 30}, {25, 5, 100, 125, 100, 5}},
}

describe("segment_reduce", function()
   local lengths <const>, offsets <const> = {2, 0, 3, 1}, {1, 3, 3, 6, 7}

   it("reduces segments, empty ones too", function()
      for name, values in pairs(expected) do
         local x = torch.tensor {1.0, 7, 3, 4, 5, 6}
         assert.close(values[1], reduce(x, name, {lengths = torch.tensor(lengths)}), 1e-6, name)
         assert.close(values[1], reduce(x, name, {offsets = torch.tensor(offsets)}), 1e-6, name)
         assert.close(values[1], reduce(x, name, {offsets = torch.tensor(offsets, {dtype = "int32"}), unsafe = true}),
            1e-6, name)
         assert.close(values[2], reduce(x, name, {lengths = torch.tensor(lengths), initial = 4}), 1e-6, name)
         local y = torch.tensor({1.0, 5, 5, 4, 5, 6}, {requires_grad = true})
         local z = reduce(y, name, {lengths = torch.tensor(lengths), initial = 5})
         assert.close(values[3], z, 1e-6, name)
         z:sum():backward()
         assert.close(values[4], y.grad, 1e-6, name)
      end
   end)

   it("passes NaN on", function()
      local grads <const> = {mean = {0.5, 0.5, 1 / 3, 1 / 3, 1 / 3, 1}, max = {0, 1, 1, 0, 0, 1},
         prod = {nan, 1, 0, 0, 20, 1}}
      for name, values in pairs {mean = {nan, nan, 3, 6}, max = {nan, -inf, 5, 6}, prod = {nan, 1, 0, 6}} do
         local x = torch.tensor({1, nan, 5, 4, 0, 6}, {requires_grad = true})
         local y = reduce(x, name, {lengths = torch.tensor(lengths)})
         assert.close(values, y, 0)
         y:sum():backward()
         assert.close(grads[name], x.grad, 1e-6, name)
      end
   end)

   it("gives a product's elements the product of the others as their gradient, NaN and zeros too", function()
      for _, row in ipairs {
         {{2, nan, 3, 4}, {nan, 4}, {nan, 6, nan, 1}}, {{2, 0, 3, 4}, {0, 4}, {0, 6, 0, 1}},
         {{nan, nan, 3, 4}, {nan, 4}, {nan, nan, nan, 1}}, {{0, 0, 3, nan}, {0, nan}, {0, 0, 0, 1}},
         {{0, nan, 2, 1}, {nan, 1}, {nan, 0, nan, 1}},
      } do
         for initial = 1, 2 do
            local x = torch.tensor(row[1]):double():requires_grad_()
            local y = reduce(x, "prod", {lengths = torch.tensor {3, 1}, initial = initial})
            assert.close((torch.tensor(row[2]) * initial):tolist(), y, 1e-6)
            y:sum():backward()
            assert.close((torch.tensor(row[3]) * initial):tolist(), x.grad, 1e-6)
         end
      end
      local x = torch.tensor({2, -1.5, 3, 4}, {dtype = "float64"}):requires_grad_()
      local function product(v) return reduce(v, "prod", {lengths = torch.tensor {3, 1}}) end
      assert.is_true(torch.autograd.gradcheck(product, {x}))
      assert.is_true(torch.autograd.gradgradcheck(product, {x}))
   end)

   it("reduces along any axis, of strided tensors and of every floating dtype", function()
      local x = torch.arange(24.0):view(4, 6):t()
      local y = reduce(x, "sum", {lengths = torch.tensor {2, 4}})
      assert.close({x[{{1, 2}}]:sum(1):tolist(), x[{{3, 6}}]:sum(1):tolist()}, y, 0)
      local z = torch.arange(24.0):view(2, 6, 2):transpose(1, 3)
      local rows = torch.tensor {{1, 5}, {6, 0}}
      local w = reduce(z, "max", {lengths = rows, axis = 2})
      assert.same({2, 2, 2}, {table.unpack(w.shape)})
      assert.close(z:narrow(2, 2, 5):amax(2)[1], w[{1, 2}], 0)
      assert.close({-inf, -inf}, w[{2, 2}], 0)
      assert.close({{1, 5}, {2, 4}}, reduce(torch.ones(2, 6), "sum",
         {offsets = torch.tensor {{1, 2, 7}, {1, 3, 7}}, axis = -1}), 0)
      for _, dtype in ipairs {"float16", "bfloat16", "float64"} do
         local sum = reduce(torch.ones(3000, {dtype = dtype}), "sum", {lengths = torch.tensor {2992, 8}})
         assert.equal(dtype, sum.dtype)
         assert.close({2992, 8}, sum:double(), 0)
      end
      assert.same({0, 3}, {table.unpack(reduce(torch.ones(0, 3), "mean", {lengths = torch.zeros(0):long()}).shape)})
      assert.close({0, 0}, reduce(torch.ones(0), "sum", {lengths = torch.tensor {0, 0}}), 0)
   end)

   it("leaves out elements outside the offsets", function()
      local x = torch.arange(1.0, 7)
      assert.close({2, 12}, reduce(x, "sum", {offsets = torch.tensor {2, 3, 6}}), 0)
      assert.close({2, 5}, reduce(x, "max", {offsets = torch.tensor {2, 3, 6}}), 0)
   end)

   it("has gradients that can be differentiated", function()
      local x = torch.tensor({0.3, -0.7, 1.1, 0.4, -1.3, 0.9}, {dtype = "float64", requires_grad = true})
      local wide = torch.randn(2, 5, 3, {dtype = "float64"}):requires_grad_()
      for name in pairs(expected) do
         for _, initial in ipairs {false, 0.2} do
            local function one(y)
               return reduce(y, name, {lengths = torch.tensor(lengths), initial = initial or nil}):nan_to_num(0, 0, 0)
            end
            local function two(y)
               return reduce(y, name, {lengths = torch.tensor {{2, 3}, {4, 1}}, axis = 2, initial = initial or nil})
            end
            for fn, input in pairs {[one] = x, [two] = wide} do
               assert.is_true(torch.autograd.gradcheck(fn, {input}), name)
               assert.is_true(torch.autograd.gradgradcheck(fn, {input}), name)
            end
         end
      end
   end)

   it("refuses what does not fit", function()
      local x = torch.ones(6)
      local function refuses(message, ...)
         local given = table.pack(...)
         assert.raises(message, function() reduce(table.unpack(given, 1, given.n)) end)
      end
      refuses("segment_reduce: reduce: expected sum, mean, max, min or prod", x, "foo", {lengths = torch.tensor {6}})
      refuses("segment_reduce: lengths: expected a sum of 6, the size of the axis, got 5", x, "sum",
         {lengths = torch.tensor {2, 3}})
      refuses("segment_reduce: lengths: expected 0 to 6, the size of the axis", x, "sum",
         {lengths = torch.tensor {7, -1}})
      refuses("segment_reduce: lengths: expected 0 to 6", x, "sum",
         {lengths = torch.tensor {math.maxinteger, math.maxinteger, 8}})
      refuses("segment_reduce: lengths is missing; expected lengths or offsets", x, "sum")
      refuses("segment_reduce: offsets: expected either lengths or offsets, got both", x, "sum",
         {lengths = torch.tensor {6}, offsets = torch.tensor {1, 7}})
      refuses("segment_reduce: offsets: expected 1 to 7, as they count from 1", x, "sum",
         {offsets = torch.tensor {0, 6}})
      refuses("segment_reduce: offsets: expected 1 to 7", x, "sum", {offsets = torch.tensor {1, 8}})
      refuses("segment_reduce: offsets: expected none below the one before", x, "sum",
         {offsets = torch.tensor {1, 5, 3, 7}})
      refuses("segment_reduce: axis: expected 1, the last dimension of lengths, got 2", torch.ones(2, 6), "sum",
         {lengths = torch.tensor {1, 5}, axis = 2})
      refuses("segment_reduce: lengths: expected a size of 2 in dimension 1, as data has, got 1", torch.ones(2, 6),
         "sum", {lengths = torch.tensor {{1, 5}}, axis = 2})
      refuses("segment_reduce: data: expected a tensor of a floating dtype", torch.arange(6), "sum",
         {lengths = torch.tensor {6}})
      refuses("segment_reduce: lengths: expected a tensor of int64", x, "sum", {lengths = torch.tensor {6.0}})
      refuses("segment_reduce: indices: expected nil", x, "sum", {indices = torch.tensor {1}})
      refuses("segment_reduce: data: expected a dense tensor", torch.nested.nested_tensor {{1.0}}, "sum",
         {lengths = torch.tensor {1}})
   end)
end)
