-- Tests properties of pooling that functional_spec does not test. The expected values are PyTorch 2.15's or were
-- computed by hand.

local torch = require "tlua"
local F = torch.nn.functional

it("max_pool2d takes squares side by side as it takes windows whose places are asked for", function()
   for _, shape in ipairs {{2, 3, 8, 8}, {1, 1, 7, 9}, {3, 2, 34}} do
      local x = torch.randn(shape)
      x:view(-1):narrow(1, 3, 4):fill_(0 / 0)
      x:view(-1):narrow(1, 20, 6):fill_(-math.huge)
      assert.close(F.max_pool2d_with_indices(x, 2), F.max_pool2d(x, 2), 0)
   end
end)

-- float32 is pooled in blocks of columns, float64 one window at a time.
it("max_pool2d finds the same maxima and places in float32 as in float64", function()
   for _, case in ipairs {
      {{28, 28}, 3, 3, 1}, {{5, 6}, 2, 2, 0}, {{9, 16}, 3, 2, 1}, {{4, 17}, {2, 5}, {1, 3}, {1, 2}}, {{7, 40}, 5, 1, 2},
      {{6, 31}, {1, 6}, {2, 4}, {0, 3}}, {{5, 70}, {3, 4}, {2, 1}, {0, 2}, {2, 3}}, {{3, 33}, {3, 33}, 1, 0},
      {{3, 95}, {2, 20}, {1, 17}, {0, 9}}, {{2, 90}, {1, 5}, {1, 40}, 0}, {{3, 4}, 2, 1, {0, 1 << 20}, {1, 1 << 21}},
      {{4, 5}, 2, 2, 0}, {{2, 3}, 2, 2, 0}, {{4, 9}, 2, 2, 0}, {{5, 26}, 2, 2, 0}, {{2, 32}, 2, 2, 0},
   } do
      local x = torch.randn(2, 3, table.unpack(case[1])):mul(2):round() -- several elements are equal
      for _, value in ipairs {0, -math.huge, 0 / 0} do
         x:masked_fill_(torch.rand_like(x):gt(0.8), value)
         for _, ceil_mode in ipairs {false, true} do
            local options = {stride = case[3], padding = case[4], dilation = case[5] or 1, ceil_mode = ceil_mode}
            local values, places = F.max_pool2d_with_indices(x, case[2], options)
            local expected, at = F.max_pool2d_with_indices(x:double(), case[2], options)
            assert.close(expected, values:double(), 0)
            assert.same(at:tolist(), places:tolist())
         end
      end
   end
end)

describe("lp_pool", function()
   it("keeps the sum's sign", function()
      local x = torch.tensor {{{1.0, -3, 2, 2}}}
      assert.close({{{-2, -1, 4}}}, F.lp_pool1d(x, 1, 2, 1), 1e-6)
      assert.close({{{-2, 4}}}, F.lp_pool2d(x, 1, {1, 2}, 2), 1e-6)
      -- For norm 3, lp_pool1d takes cube roots: those of -26 and -19 are NaN, and that of 16 is a number.
      local cube = F.lp_pool1d(x, 3, 2, 1)
      assert.same({{{true, true, false}}}, cube:isnan():tolist())
      assert.close(16 ^ (1 / 3), cube[{1, 1, 3}]:item(), 1e-6)
   end)

   it("has gradient 0 if the sum is 0", function()
      local x = torch.tensor({{{2.0, -2, 1}}}, {requires_grad = true})
      F.lp_pool1d(x, 1, 2, 1):sum():backward()
      assert.close({{{0, 1, 1}}}, x.grad, 1e-6)
   end)
end)

describe("avg_pool", function()
   it("rounds integers towards 0", function()
      local x = (torch.arange(48) % 7):reshape(1, 1, 6, 8)
      assert.same({{{{0, 1, 3, 2}, {1, 4, 3, 1}, {3, 3, 1, 3}}}}, F.avg_pool2d(x, 3, 2, 1):tolist())
      assert.same({{{{-1, -3, -4, -1}, {-3, -4, -1, -2}, {-4, -1, -2, -4}}}},
         F.avg_pool2d(-x, {2, 3}, 2, {ceil_mode = true, count_include_pad = false}):tolist())
      assert.same({{1, -2}}, F.avg_pool1d(torch.tensor {{1, 2, 4, -8}}, 2):tolist())
      for n = 1, 64 do -- if an average is a whole number, it must be exact
         assert.equal(-3, F.avg_pool1d(torch.full({1, n}, -3), n):item())
      end
   end)

   it("needs elements in every dimension but the batch", function()
      assert.same({0, 2, 1, 3}, F.avg_pool2d(torch.ones(0, 2, 3, 9), 3).shape)
      for _, name in ipairs {"avg_pool2d", "max_pool2d", "adaptive_max_pool2d"} do
         assert.raises(name .. ": input", "[2, 0, 3, 9]", function() F[name](torch.ones(2, 0, 3, 9), 3) end)
      end
   end)
end)

it("adaptive pooling keeps a size of -1", function()
   local x = torch.randn(2, 3, 4, 6)
   assert.close(F.adaptive_avg_pool2d(x, {4, 3}), F.adaptive_avg_pool2d(x, {-1, 3}), 0)
   assert.close(x, F.adaptive_max_pool2d(x, -1), 0)
   assert.raises("adaptive_avg_pool1d: output_size", "-2", function() F.adaptive_avg_pool1d(x[1], -2) end)
end)

it("max_pool adds the gradients of windows that overlap, in every dtype", function()
   for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16"} do
      local x = torch.tensor({{{1, 5, 2, 4, 3}}}, {dtype = dtype}):requires_grad_()
      F.max_pool1d(x, 3, 1):sum():backward()
      assert.same({{{0, 2, 0, 1, 0}}}, x.grad:tolist())
      x.grad = nil
      F.adaptive_max_pool1d(x, 4):sum():backward()
      assert.same({{{0, 2, 0, 2, 0}}}, x.grad:tolist())
   end
end)
