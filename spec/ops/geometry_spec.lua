-- Tests tensors that change their own shape or memory.

local torch = require "tlua"

describe("in-place views", function()
   it("change the tensor itself, as the view would be", function()
      for _, row in ipairs {
         {"squeeze_", "squeeze", {3, 1, 2, 1}}, {"squeeze_", "squeeze", {3, 1, 2, 1}, 2},
         {"unsqueeze_", "unsqueeze", {3, 2}, -1}, {"transpose_", "transpose", {2, 3, 4}, 1, 3},
         {"swapaxes_", "swapaxes", {2, 3}, 1, 2}, {"swapdims_", "swapdims", {2, 3}, -1, -2},
         {"t_", "t", {2, 3}}, {"t_", "t", {3}}, {"as_strided_", "as_strided", {3, 4}, {2, 2}, {1, 4}, 1},
      } do
         local x = torch.randn(row[3])
         local expected = x:clone()[row[2]](x:clone(), table.unpack(row, 4))
         local memory = x:data_ptr()
         assert.equal(x, x[row[1]](x, table.unpack(row, 4)))
         assert.is_true(torch.equal(expected, x), row[1])
         assert.same(expected.shape, x.shape)
         if row[1] ~= "as_strided_" then assert.equal(memory, x:data_ptr()) end
      end
   end)

   it("have the view's gradient", function()
      local x = torch.tensor({{1.0, 2, 3}}, {requires_grad = true})
      local y = x * 2
      y:squeeze_():unsqueeze_(2)
      assert.same({3, 1}, y.shape)
      assert.equal("<UnsqueezeBackward0>", tostring(y.grad_fn))
      ;(y * torch.tensor({{1.0}, {10}, {100}})):sum():backward()
      assert.close({{2, 20, 200}}, x.grad, 0)
   end)

   it("keep other views of the tensor right", function()
      local x = torch.tensor({{1.0, 2}, {3, 4}}, {requires_grad = true})
      local y = x * 1
      local row = y:select(1, 1)
      y:t_()
      row:mul_(5) -- the first row of x and the first column of y share memory
      assert.close({{5, 3}, {10, 4}}, y, 0)
      y:sum():backward()
      assert.close({{5, 5}, {1, 1}}, x.grad, 0)
   end)

   it("refuse a leaf, and a tensor that is saved for backward", function()
      local x = torch.ones(2, 3, {requires_grad = true})
      assert.raises("t_", "leaf", function() x:t_() end)
      assert.same({2, 3}, x.shape)
      local y = x * 2
      local z = y:exp() * y
      y:t_()
      assert.raises("t_", function() z:sum():backward() end)
   end)
end)

describe("set_", function()
   it("shares the other tensor's memory", function()
      local x, source = torch.zeros(2), torch.arange(6.0)
      assert.equal(x, x:set_(source))
      source:fill_(7)
      assert.close({7, 7, 7, 7, 7, 7}, x, 0)
      x:set_(torch.arange(6.0), 1, {2, 2})
      assert.close({{1, 2}, {3, 4}}, x, 0)
      x:set_(torch.arange(6.0), 0, {2, 2}, {1, 3})
      assert.close({{0, 3}, {1, 4}}, x, 0)
   end)

   it("refuses other dtypes, histories, and places outside", function()
      local x = torch.zeros(2)
      assert.raises("set_", "float32", "int64", function() x:set_(torch.arange(3)) end)
      assert.raises("set_", "requires a gradient", function() x:set_(torch.ones(2, {requires_grad = true})) end)
      assert.raises("outside", function() x:set_(torch.arange(6.0), 3, {4}) end)
      assert.close({0, 0}, x, 0)
   end)
end)
