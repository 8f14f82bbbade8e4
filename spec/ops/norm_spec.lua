-- Tests properties of normalisation, dropout and embedding that functional_spec does not test.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local F = torch.nn.functional

describe("batch_norm", function()
   before_each(function() torch.manual_seed(1) end)

   it("updates the running statistics in place, the variance unbiased", function()
      local x = torch.randn(8, 3, 4, {dtype = "float64"})
      local mean, var = torch.zeros(3, {dtype = "float64"}), torch.ones(3, {dtype = "float64"})
      F.batch_norm(x, mean, var, nil, nil, true, 0.25)
      assert.close(x:mean {1, 3} * 0.25, mean, 1e-14)
      assert.close(x:var {1, 3} * 0.25 + 0.75, var, 1e-14)
   end)

   it("does not update the running statistics without training", function()
      local mean, var = torch.randn(3), torch.rand(3) + 1
      local before = mean:clone()
      F.batch_norm(torch.randn(4, 3), mean, var)
      assert.close(before, mean, 0)
   end)

   it("gives channels of mean 0 and variance 1 far from 0", function()
      local y = F.batch_norm(torch.randn(64, 3, 10) * 0.1 + 1000, nil, nil, nil, nil, true)
      -- The mean near 1000 is stored in float32 with an error of up to half a unit in the last place. Dividing by the
      -- standard deviation, 0.1, multiplies this error by 10.
      assert.close(torch.zeros(3), y:mean {1, 3}, 1.1 * 2 ^ -15 / 0.1)
      assert.close(torch.ones(3), y:var {1, 3}, 2e-2)
   end)

   it("gives the same bits for every number of threads", function()
      local before = torch.get_num_threads()
      local x = torch.randn(300, 5, 1000)
      torch.set_num_threads(1)
      local expected = F.batch_norm(x, nil, nil, nil, nil, true)
      for threads = 2, 4 do
         torch.set_num_threads(threads)
         assert.is_true(torch.equal(expected, F.batch_norm(x, nil, nil, nil, nil, true)))
      end
      torch.set_num_threads(before)
   end)

   -- If there are few channels, or few adjacent elements in each channel, another algorithm computes the sums.
   it("agrees with the formula and its gradient for channels of any length", function()
      for _, shape in ipairs {{4, 5, 2}, {8, 3, 3, 5}, {5, 2, 31}, {5, 2, 32}, {3, 4, 7}, {70, 600, 2}, {700, 1, 1},
         {301, 3, 1}, {50, 32, 1}, {50, 33, 1}} do
         local double = torch.randn(shape, {dtype = "float64"}):requires_grad_()
         local weight, bias = torch.randn(shape[2]), torch.randn(shape[2])
         local each = {1, shape[2], 1, #shape == 4 and 1 or nil}
         local over = #shape == 4 and {1, 3, 4} or {1, 3}
         local d = double - double:mean(over, true)
         local expected = d / (double:var(over, {correction = 0, keepdim = true}) + 1e-5):sqrt()
            * weight:double():view(each) + bias:double():view(each)
         local g = torch.randn(shape)
         expected:backward(g:double())
         for dtype, limit in sorted {float32 = 2e-5, float64 = 1e-12} do
            local x = double:detach():to(dtype):requires_grad_()
            local y = F.batch_norm(x, nil, nil, weight:to(dtype), bias:to(dtype), true)
            y:backward(g:to(dtype))
            assert.close(expected:detach(), y:detach():double(), limit)
            assert.close(double.grad, x.grad:double(), limit)
         end
      end
   end)

   -- The reference is the formula in float64 on row-major tensors. Half-precision results are rounded once, at the end,
   -- but half-precision gradients are computed from rounded gradients.
   it("agrees with the formula for channels-last input, and keeps that order", function()
      local limits <const> = {float64 = 1e-12, float32 = 2e-5, float16 = 4e-3, bfloat16 = 3e-2}
      for dtype, limit in sorted(limits) do
         for _, channels in ipairs {3, 8, 32} do
            local double = torch.randn(4, channels, 7, 9, {dtype = "float64"})
            double[{{}, 2}] = 0.5 -- the variance of channel 2 is 0
            local g = torch.randn(4, channels, 7, 9):to(dtype)
            local stat = dtype == "float64" and dtype or "float32"
            local weight, bias = torch.randn(channels, {dtype = stat}), torch.randn(channels, {dtype = stat})
            local x = double:to(dtype):contiguous {memory_format = torch.channels_last}
            double = x:double():contiguous():requires_grad_()
            x:requires_grad_()
            local w, b = weight:clone():requires_grad_(), bias:clone():requires_grad_()
            local w2, b2 = weight:double():requires_grad_(), bias:double():requires_grad_()
            local mean, var = torch.zeros(channels, {dtype = stat}), torch.ones(channels, {dtype = stat})
            local y = F.batch_norm(x, mean, var, w, b, true, 0.25)
            y:backward(g:contiguous {memory_format = torch.channels_last})
            local d = double - double:mean({1, 3, 4}, true)
            local expected = d / (double:var({1, 3, 4}, {correction = 0, keepdim = true}) + 1e-5):sqrt()
               * w2:view(1, channels, 1, 1) + b2:view(1, channels, 1, 1)
            expected:backward(g:double())
            assert.is_true(y:is_contiguous {memory_format = torch.channels_last})
            assert.is_true(x.grad:is_contiguous {memory_format = torch.channels_last})
            assert.close(expected:detach(), y:detach():double(), limit)
            -- Channel 2 is left out, because it has variance 0: its gradient is multiplied by 1 / sqrt(eps).
            for _, channel in ipairs {1, 3} do
               local at = {{}, channel}
               assert.close(double.grad[at], x.grad[at]:double(), limit)
            end
            assert.close(double.grad, x.grad:double(), 320 * limit)
            assert.close(w2.grad, w.grad:double(), 1e-4)
            assert.close(b2.grad, b.grad:double(), 1e-4)
            assert.close(double:detach():mean {1, 3, 4} * 0.25, mean:double(), 1e-6)
            assert.close(double:detach():var {1, 3, 4} * 0.25 + 0.75, var:double(), 1e-6)
         end
      end
   end)

   it("takes a gradient of another layout, and statistics of its own in evaluation", function()
      local x = torch.randn(2, 8, 3, 4)
      local mean, var, weight, bias = torch.randn(8), torch.rand(8) + 1, torch.randn(8), torch.randn(8)
      local results = {}
      for i, layout in ipairs {torch.contiguous_format, torch.channels_last} do
         for j, training in ipairs {true, false} do
            local t = x:clone():contiguous {memory_format = layout}:requires_grad_()
            local y = F.batch_norm(t, mean:clone(), var:clone(), weight, bias, training)
            y:backward(torch.arange(192):float():view(2, 8, 3, 4):contiguous())
            results[i * 2 + j] = torch.cat {y:detach():flatten(), t.grad:flatten() / 100}
         end
      end
      assert.close(results[3], results[5], 2e-5)
      assert.close(results[4], results[6], 2e-5)
   end)

   it("takes inputs without channels or samples", function()
      for _, shape in ipairs {{4, 0}, {4, 0, 1, 1}, {4, 0, 2, 2}, {0, 3}, {0, 3, 2, 2}} do
         for _, dtype in ipairs {"float32", "float64", "float16"} do
            local x = torch.zeros(shape, {dtype = dtype}):requires_grad_(true)
            local weight = torch.ones(shape[2]):to(dtype):requires_grad_(true)
            local y = F.batch_norm(x, nil, nil, weight, nil, true)
            assert.same(shape, y.shape)
            y:sum():backward()
            assert.same(shape, x.grad.shape)
            assert.same({shape[2]}, weight.grad.shape)
         end
      end
   end)

   it("refuses one value per channel", function()
      assert.raises("batch_norm", "more than 1 value", "[1, 3]",
         function() F.batch_norm(torch.randn(1, 3), nil, nil, nil, nil, true) end)
   end)
end)

describe("dropout", function()
   before_each(function() torch.manual_seed(5) end)

   it("scales the remaining elements, so that the mean is kept", function()
      local y = F.dropout(torch.ones(100000), 0.3)
      assert.close({0, 1 / 0.7}, y:unique():tolist(), 1e-6)
      assert.close(1, y:mean():item(), 1e-2)
   end)

   it("is the identity out of training", function()
      local x = torch.randn(3, 4)
      assert.is_true(torch.equal(x, F.dropout(x, 0.9, false)))
   end)

   it("takes any shape where nothing is dropped", function()
      local x = torch.ones(3)
      assert.close(x, F.feature_alpha_dropout(x, 0.5, false), 0)
      assert.close(x, F.dropout2d(x, 0), 0)
      assert.raises("feature_alpha_dropout", "[3]", function() F.feature_alpha_dropout(x, 0.5, true) end)
      assert.raises("dropout2d", "[3]", function() F.dropout2d(x) end)
   end)

   it("drops whole channels in dropout2d", function()
      local y = F.dropout2d(torch.ones(50, 40, 3, 3), 0.5)
      local sums = y:sum {3, 4}
      assert.close({0, 18}, sums:unique():tolist(), 0)
   end)

   it("passes gradients only to the remaining elements", function()
      local x = torch.ones(1000, {requires_grad = true})
      local y = F.dropout(x, 0.5)
      y:sum():backward()
      assert.close(y:detach(), x.grad, 0)
   end)

   it("keeps mean and variance in alpha_dropout", function()
      local y = F.alpha_dropout(torch.randn(200000), 0.2, true)
      assert.close(0, y:mean():item(), 2e-2)
      assert.close(1, y:var():item(), 2e-2)
   end)

   it("refuses values that are not probabilities", function()
      assert.raises("dropout", "p", "0 to 1", "1.5", function() F.dropout(torch.ones(2), 1.5) end)
   end)
end)

describe("group_norm", function()
   it("gives each group mean 0 and variance 1, of one sample and of one group too", function()
      for _, shape in ipairs {{1, 3}, {1, 4}, {2, 4}, {1, 4, 5}, {1, 2, 3, 3}} do
         for groups = 1, shape[2] do
            if shape[2] % groups == 0 and (shape[3] or shape[2] > groups) then
               local x = torch.randn(shape, {dtype = "float64"}):requires_grad_()
               local rows = x:reshape(shape[1], groups, -1)
               local var = rows:var(3, {correction = 0, keepdim = true})
               local expected = (rows - rows:mean(3, true)) / (var + 1e-5):sqrt()
               local y = F.group_norm(x, groups)
               assert.close(expected:reshape(shape), y, 1e-12)
               local weights = torch.randn(shape, {dtype = "float64"})
               local gradient = torch.autograd.grad((y * weights):sum(), {x})
               assert.close(torch.autograd.grad((expected:reshape(shape) * weights):sum(), {x}), gradient, 1e-9)
            end
         end
      end
   end)

   it("refuses samples without elements", function()
      assert.same({0, 2}, F.group_norm(torch.ones(0, 2), 1).shape)
      assert.raises("group_norm: input", "[1, 2, 0]", function() F.group_norm(torch.ones(1, 2, 0), 1) end)
   end)
end)

it("renorm scales down rows with a larger norm", function()
   local x = torch.tensor {{3.0, 4}, {0.3, 0.4}}
   assert.close({{0.6, 0.8}, {0.3, 0.4}}, x:renorm(2, 1, 1), 1e-6)
   assert.close({{20 / 11, 20 / 11}, {2 / 11, 2 / 11}}, torch.renorm(x, 1, 2, 2), 1e-6)
   assert.equal(x, x:renorm_(2, 1, 5))
   assert.close({{3, 4}, {0.3, 0.4}}, x, 1e-6)
   assert.raises("renorm: p", "-1", function() x:renorm(-1, 1, 1) end)
end)

it("local_response_norm takes integers, whose mean squares it rounds down", function()
   local y = F.local_response_norm(torch.tensor {{{1, 2}, {4, -8}}}, 2, 1)
   -- The squares of the elements are 1, 4 in channel 1 and 16, 64 in channel 2. The sum over each channel and the
   -- channel before it, divided by 2 and rounded down, is 0, 2 in channel 1 and 8, 34 in channel 2.
   assert.close({{{1, 2 * 3 ^ -0.75}, {4 * 9 ^ -0.75, -8 * 35 ^ -0.75}}}, y, 1e-6)
end)

it("rms_norm divides by the root of the mean square", function()
   local x, w = torch.randn(3, 5, {dtype = "float64"}), torch.randn(5, {dtype = "float64"})
   local expected = x / (x:square():mean(2, true) + 0.1):sqrt() * w
   assert.close(expected, F.rms_norm(x, 5, w, 0.1), 1e-14)
end)

describe("embedding", function()
   it("gives the row of padding_idx no gradient", function()
      local w = torch.randn(4, 2, {requires_grad = true})
      F.embedding(torch.tensor {1, 2, 2, 4}, w, 2):sum():backward()
      assert.close({{1, 1}, {0, 0}, {0, 0}, {1, 1}}, w.grad:tolist(), 0)
   end)

   it("divides gradients by how often a row was used", function()
      local w = torch.randn(3, 1, {requires_grad = true})
      F.embedding(torch.tensor {1, 3, 3, 3}, w, {scale_grad_by_freq = true}):sum():backward()
      assert.close({{1}, {0}, {1}}, w.grad:tolist(), 1e-6)
   end)

   it("counts from 1", function()
      local w = torch.randn(3, 2)
      assert.raises("embedding", "position 0", "1 to 3", function() F.embedding(torch.tensor {0}, w) end)
      assert.raises("embedding", "position 4", function() F.embedding(torch.tensor {4}, w) end)
   end)
end)
