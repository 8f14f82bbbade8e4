-- Tests properties of convolutions that functional_spec does not test.

local torch = require "tlua"
local F = torch.nn.functional

describe("convolution", function()
   before_each(function() torch.manual_seed(1) end)

   -- Computes a convolution directly by its definition, one multiplication at a time.
   local function reference(x, w, stride, padding, dilation)
      local n, c, height, width = table.unpack(x.shape)
      local out, _, kh, kw = table.unpack(w.shape)
      local oh = (height + 2 * padding - dilation * (kh - 1) - 1) // stride + 1
      local ow = (width + 2 * padding - dilation * (kw - 1) - 1) // stride + 1
      local image = F.pad(x, {padding, padding, padding, padding})
      local y = torch.zeros(n, out, oh, ow, {dtype = x.dtype})
      for i = 1, oh do
         for j = 1, ow do
            local top, left = (i - 1) * stride + 1, (j - 1) * stride + 1
            local window = image[{{}, {}, {top, top + dilation * (kh - 1), dilation},
               {left, left + dilation * (kw - 1), dilation}}]
            y[{{}, {}, i, j}] = window:reshape(n, c * kh * kw):matmul(w:reshape(out, -1):t())
         end
      end
      return y
   end

   it("agrees with its definition for sizes around the vectors' width", function()
      for _, width in ipairs {1, 2, 7, 8, 15, 16, 17, 31, 33, 50} do
         for _, out in ipairs {1, 3, 8, 9} do
            local x = torch.randn(2, 3, 4, width + 2, {dtype = "float64"})
            local w = torch.randn(out, 3, 3, 3, {dtype = "float64"})
            assert.close(reference(x, w, 1, 1, 1), F.conv2d(x, w, nil, 1, 1), 1e-12)
            assert.close(reference(x, w, 2, 1, 1), F.conv2d(x, w, nil, 2, 1), 1e-12)
         end
      end
   end)

   it("agrees with its definition for any stride, padding and dilation", function()
      local x = torch.randn(1, 2, 11, 13, {dtype = "float64"})
      local w = torch.randn(3, 2, 3, 2, {dtype = "float64"})
      for stride = 1, 4 do
         for padding = 0, 3 do
            for dilation = 1, 3 do
               assert.close(reference(x, w, stride, padding, dilation),
                  F.conv2d(x, w, nil, stride, padding, dilation), 1e-12)
            end
         end
      end
   end)

   it("has the gradients of its definition", function()
      for stride = 1, 3 do
         for dilation = 1, 2 do
            local x = torch.randn(2, 2, 9, 8, {dtype = "float64", requires_grad = true})
            local w = torch.randn(5, 2, 3, 3, {dtype = "float64", requires_grad = true})
            local y = F.conv2d(x, w, nil, stride, 2, dilation)
            local g = torch.randn(y.shape, {dtype = "float64"})
            local dx, dw = torch.autograd.grad((y * g):sum(), {x, w})
            local z = reference(x, w, stride, 2, dilation)
            local ex, ew = torch.autograd.grad((z * g):sum(), {x, w})
            assert.close(ex, dx, 1e-12)
            assert.close(ew, dw, 1e-12)
         end
      end
   end)

   -- Each row has {batch, input channels, output channels, size of the image, size of the kernel, padding}.
   local small <const> = {
      {3, 32, 64, {10, 10}, {5, 5}, 0}, {2, 1, 32, {20, 33}, {5, 5}, 0}, {2, 3, 17, {9, 7}, {4, 3}, 2},
      {2, 6, 16, {5, 5}, {5, 5}, 0}, {1, 20, 18, {4, 6}, {3, 4}, 1}, {2, 4, 16, {8, 8}, {3, 1}, 2},
      {2, 5, 16, {3, 9}, {3, 9}, 4},
   }

   it("has the gradients of its definition for small images and few channels", function()
      for _, case in ipairs(small) do
         local n, from, to, size, kernel, padding = table.unpack(case)
         local x = torch.randn(n, from, size[1], size[2], {dtype = "float64", requires_grad = true})
         local w = torch.randn(to, from, kernel[1], kernel[2], {dtype = "float64"})
         local z = reference(x, w, 1, padding, 1)
         local g = torch.randn(z.shape, {dtype = "float64"})
         local expected = torch.autograd.grad(z, {x}, {g})
         assert.close(expected, torch.autograd.grad(F.conv2d(x, w, nil, 1, padding), {x}, {g}), 1e-11)
         local single, weight = x:detach():float():requires_grad_(), w:float()
         local y = F.conv2d(single, weight, nil, 1, padding)
         assert.close(expected, torch.autograd.grad(y, {single}, {g:float()}):double(), 1e-3)
         assert.close(torch.cat({expected, expected}, 2), F.conv_transpose2d(torch.cat({g, g}, 2), torch.cat({w, w}, 1),
            nil, 1, padding, 0, 2), 1e-11)
      end
   end)

   it("has the gradients of its definition for small volumes", function()
      local x = torch.randn(2, 7, 3, 4, 5, {dtype = "float64", requires_grad = true})
      local w = torch.randn(16, 7, 2, 3, 3, {dtype = "float64"})
      local z, padded = 0, F.pad(x, {1, 1, 1, 1, 1, 1})
      for i = 1, 2 do -- adds up convolutions of the volume's planes
         local part = 0
         for d = 1, 4 do
            local plane = F.conv2d(padded[{{}, {}, d + i - 1}], w[{{}, {}, i}])
            part = part + F.pad(plane:unsqueeze(3), {0, 0, 0, 0, d - 1, 4 - d})
         end
         z = z + part
      end
      local y = F.conv3d(x, w, nil, 1, 1)
      local g = torch.randn(y.shape, {dtype = "float64"})
      assert.close(z, y, 1e-12)
      assert.close(torch.autograd.grad(z, {x}, {g}), torch.autograd.grad(y, {x}, {g}), 1e-12)
   end)

   it("gives the same bits for every number of threads", function()
      local before = torch.get_num_threads()
      local function run()
         torch.manual_seed(3)
         local x = torch.randn(7, 6, 20, 21, {requires_grad = true})
         local w = torch.randn(10, 3, 3, 3, {requires_grad = true})
         local y = F.conv2d(x, w, nil, 2, 1, 1, 2)
         return y, torch.autograd.grad(y:square():sum(), {x, w})
      end
      torch.set_num_threads(1)
      local y, dx, dw = run()
      for threads = 2, 5 do
         torch.set_num_threads(threads)
         local y2, dx2, dw2 = run()
         assert.is_true(torch.equal(y, y2) and torch.equal(dx, dx2) and torch.equal(dw, dw2))
      end
      torch.set_num_threads(before)
   end)

   it("sums half types in float32", function()
      local x = torch.full({1, 4096, 1}, 0.01, {dtype = "float16"})
      local w = torch.ones(1, 4096, 1, {dtype = "float16"})
      assert.close(torch.tensor {{{40.96}}}:half(), F.conv1d(x, w), 1e-3)
   end)

   it("takes integers", function()
      local x, w = torch.arange(9):reshape(1, 1, 3, 3), torch.tensor {{{{1, -2}, {3, 4}}}}
      local y = F.conv2d(x, w, torch.tensor {5}, {padding = 1})
      assert.equal("int64", y.dtype)
      assert.same({{{{5, 9, 16, 11}, {17, 28, 34, 22}, {23, 46, 52, 34}, {-7, -3, -4, 13}}}}, y:tolist())
      local z = F.conv_transpose1d(torch.tensor({{1, 2, 3}}, {dtype = "int8"}),
         torch.tensor({{{1, -1}}}, {dtype = "int8"}), nil, 2)
      assert.equal("int8", z.dtype)
      assert.same({{1, -1, 2, -2, 3, -3}}, z:tolist())
      assert.raises("conv2d: input", "bool", function() F.conv2d(x:bool(), w:bool()) end)
   end)

   it("takes an input without batch", function()
      local x, w = torch.randn(3, 6, 6), torch.randn(4, 3, 3, 3)
      assert.close(F.conv2d(x:unsqueeze(1), w)[1], F.conv2d(x, w), 0)
   end)

   it("names the argument that is wrong, and what it should be", function()
      local x, w = torch.randn(1, 3, 5, 5), torch.randn(4, 3, 3, 3)
      assert.raises("conv2d", "expected 3 channels", "[1, 2, 5, 5]",
         function() F.conv2d(torch.randn(1, 2, 5, 5), w) end)
      assert.raises("conv2d", "stride", "at least 1", "0", function() F.conv2d(x, w, nil, 0) end)
      assert.raises("conv2d", "groups", function() F.conv2d(x, w, nil, 1, 0, 1, 0) end)
      assert.raises("conv2d", "groups", function() F.conv2d(x, w, nil, 1, 0, 1, math.maxinteger) end)
      assert.raises("conv2d", "bias", "[4]", "[3]", function() F.conv2d(x, w, torch.randn(3)) end)
      assert.raises("conv2d", "dtype", "float64", function() F.conv2d(x:double(), w) end)
      assert.raises("conv2d", "kernel", "7", function() F.conv2d(x, torch.randn(4, 3, 7, 7)) end)
      assert.raises("conv2d", "padding", "same", "near", function() F.conv2d(x, w, nil, 1, "near") end)
      assert.raises("conv_transpose2d", "output_padding",
         function() F.conv_transpose2d(torch.randn(1, 4, 3, 3), w, nil, 2, 0, 2) end)
   end)
end)
