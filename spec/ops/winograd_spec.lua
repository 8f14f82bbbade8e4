-- Tests Winograd convolutions (kernels/cpu/conv/winograd.c), which are used for large float32 convolutions. All
-- convolutions in this file are large enough for this method. The expected values are computed by im2col and a matrix
-- product in float64.

local torch = require "tlua"
local device = require "spec.support.device"
local F = torch.nn.functional

local on_gpu <const> = device.name == "cuda" and not device.is_emulated()

-- cuDNN has its own fixed order of sums for the weight's gradient. It is not pairwise, so the error is larger.
local factor <const> = on_gpu and 3 or 1

-- With a sanitizer, large convolutions and their expected values take minutes. The values are compared without a
-- sanitizer.
local sanitized = os.getenv "SPEC_SANITIZED" == "1"

-- Returns a convolution with stride 1, and the gradients of the sum of (result * g), computed by im2col and a matrix
-- product.
local function by_columns(x, w, bias, padding, groups, g)
   x, w = x:detach():double():requires_grad_(), w:detach():double():requires_grad_()
   local n, out, c = x:size(1), w:size(1) // groups, w:size(2)
   local columns = F.unfold(x, 3, 1, padding, 1):reshape(n, groups, c * 9, -1)
   local y = w:reshape(1, groups, out, c * 9):matmul(columns):reshape(g.shape)
   y = y + bias:double():reshape(1, -1, 1, 1)
   return y:detach(), torch.autograd.grad((y * g:double()):sum(), {x, w})
end

-- Returns the largest error and the root mean square of the errors, relative to the standard deviation of the expected
-- values.
local function errors(expected, actual)
   local difference = (actual:double() - expected) / expected:std()
   return difference:abs():max():item(), difference:square():mean():sqrt():item()
end

describe("convolution in tiles", function()
   before_each(function() torch.manual_seed(1) end)

   local function compare(n, c, height, width, out, padding, groups, change)
      local x = torch.randn(n, c, height, width)
      if change then x = change(x) end
      x:requires_grad_()
      local w, bias = torch.randn(out, c // groups, 3, 3):requires_grad_(), torch.randn(out)
      local y = F.conv2d(x, w, bias, 1, padding, 1, groups)
      local g = torch.randn(y.shape)
      local dx, dw = torch.autograd.grad((y * g):sum(), {x, w})
      if sanitized then return end
      local ey, ex, ew = by_columns(x, w, bias, padding, groups, g)
      for i, pair in ipairs {{ey, y:detach()}, {ex, dx}, {ew, dw}} do
         assert.equal(table.concat(pair[1].shape, " "), table.concat(pair[2].shape, " "))
         local largest, mean = errors(table.unpack(pair))
         local text = ("%d of %dx%dx%dx%d to %d: %.2e, %.2e"):format(i, n, c, height, width, out, largest, mean)
         -- The largest error of a weight's gradient depends on the random numbers. For 13 seeds it was between 9e-6 and
         -- 1.7e-5.
         local most = i == 3 and 2e-5 or 1.5e-5
         assert.is_true(largest < most * factor and mean < 1.5e-6 * factor, text)
      end
   end

   it("agrees with products of columns, with odd sizes and any padding", function()
      compare(1, 40, 41, 50, 40, 1, 1)
      compare(1, 64, 34, 33, 40, 0, 1)
      compare(3, 17, 5, 150, 70, 1, 1) -- a row of tiles of this image is longer than one segment
      compare(2, 48, 22, 25, 50, 4, 1)
      compare(3, 32, 21, 22, 64, {2, 0}, 1)
      compare(2, 96, 25, 26, 66, 1, 2)
   end)

   it("agrees for images that are smaller than a tile", function()
      compare(40, 130, 3, 3, 50, 1, 1)
      compare(60, 64, 2, 6, 64, 2, 1)
   end)

   it("agrees for more weights than a cache holds", function() compare(5, 140, 14, 13, 150, 1, 1) end)

   it("agrees for an input that is not contiguous", function()
      compare(2, 48, 30, 28, 48, 1, 1, function(x) return x:transpose(3, 4) end)
      compare(2, 96, 30, 28, 48, 1, 1, function(x) return x[{{}, {}, {1, -1, 2}}] end)
      compare(1, 48, 30, 28, 48, 1, 1, function(x) return x:expand(3, -1, -1, -1) end)
   end)

   -- The measured errors are relative to the standard deviation of the result. The largest is 9e-6, and their root mean
   -- square is 9e-7. For plain sums, these numbers are 2e-6 and 2e-7.
   it("keeps its accuracy with 512 channels", function()
      if not sanitized then compare(8, 512, 7, 7, 512, 1, 1) end
   end)

   it("sums half types in float32", function()
      local x, w = torch.randn(2, 64, 24, 24):half(), torch.randn(64, 64, 3, 3):half()
      local zero = torch.zeros(64)
      local expected = by_columns(x, w, zero, 1, 1, torch.zeros(2, 64, 24, 24))
      local y = F.conv2d(x, w, nil, 1, 1)
      assert.equal("float16", y.dtype)
      -- The limit is half a unit in the last place of float16, plus the error of the computation in float32.
      assert.is_true(((y:double() - expected):abs() - expected:abs() * 2 ^ -11):max():item() < 1e-3)
   end)

   it("shows inf and nan only where a window has them", function()
      for _, value in ipairs {math.huge, -math.huge, 0 / 0, 3e38} do
         local x, w = torch.randn(2, 32, 40, 40), torch.rand(64, 32, 3, 3) + 1
         x[{1, 5, 11, 23}] = value
         local y = F.conv2d(x, w, nil, 1, 1)
         local wild = y:isfinite():logical_not()
         assert.equal(value == 3e38 and wild:sum():item() or 64 * 9, wild:sum():item())
         assert.equal(wild:sum():item(), wild[{1, {}, {10, 12}, {22, 24}}]:sum():item())
         x[{1, 5, 11, 23}] = 0
         local clean = F.conv2d(x, w, nil, 1, 1)
         assert.close(clean[{{}, {}, {14, 40}}], y[{{}, {}, {14, 40}}], 2e-3)
      end
   end)

   it("shows inf and nan in gradients as sums in order do", function()
      local x, w = torch.randn(2, 32, 40, 40):requires_grad_(), torch.randn(64, 32, 3, 3):requires_grad_()
      local g = torch.randn(2, 64, 40, 40)
      g[{2, 7, 20, 20}] = math.huge
      local dx, dw = torch.autograd.grad(F.conv2d(x, w, nil, 1, 1), {x, w}, g)
      local wild = dx:isfinite():logical_not()
      assert.equal(32 * 9, wild:sum():item())
      assert.equal(32 * 9, wild[{2, {}, {19, 21}, {19, 21}}]:sum():item())
      wild = dw:isfinite():logical_not()
      assert.equal(32 * 9, wild:sum():item())
      assert.equal(32 * 9, wild[7]:sum():item())
   end)

   it("takes an infinite bias and weight", function()
      local x, w, bias = torch.randn(2, 32, 40, 40), torch.randn(64, 32, 3, 3), torch.zeros(64)
      bias[3] = math.huge
      local y = F.conv2d(x, w, bias, 1, 1)
      assert.is_true(y:select(2, 3):eq(math.huge):all():item())
      assert.equal(2 * 63 * 1600, y:isfinite():sum():item())
      bias[3] = 0
      w[{4, 1, 1, 1}] = 0 / 0
      assert.equal(2 * 63 * 1600, F.conv2d(x, w, bias, 1, 1):isfinite():sum():item())
   end)

   -- not tested on a GPU, because some of cuDNN's engines use atomic additions
   local on_cpu <const> = on_gpu and pending or it
   on_cpu("gives the same bits for every number of threads", function()
      local before = torch.get_num_threads()
      for _, s in ipairs {{5, 20, 33, 60, 30}, {3, 150, 13, 14, 150}, {17, 32, 8, 9, 70}} do
         local x = torch.randn(s[1], s[2], s[3], s[4]):requires_grad_()
         local w, bias = torch.randn(s[5], s[2], 3, 3):requires_grad_(), torch.randn(s[5])
         local function run(threads)
            torch.set_num_threads(threads)
            local y = F.conv2d(x, w, bias, 1, 1)
            return y, torch.autograd.grad(y, {x, w}, y:detach())
         end
         local y, dx, dw = run(1)
         for threads = 2, sanitized and 2 or 5 do
            local y2, dx2, dw2 = run(threads)
            assert.is_true(torch.equal(y, y2) and torch.equal(dx, dx2) and torch.equal(dw, dw2))
         end
      end
      torch.set_num_threads(before)
   end)

   it("raises an error if memory is short, and leaks none", function()
      local on = {device = "cpu", requires_grad = true}
      local x, w = torch.randn(2, 48, 30, 30, on), torch.randn(64, 48, 3, 3, on)
      local g = torch.randn(2, 64, 30, 30, {device = "cpu"})
      local function run() return torch.autograd.grad(F.conv2d(x, w, nil, 1, 1), {x, w}, g) end
      local function used()
         collectgarbage()
         collectgarbage()
         return torch.memory_stats().used
      end
      local before = used()
      finally(function() torch.set_memory_limit(0) end)
      local failed = 0
      for k = 0, 60 do
         torch.set_memory_limit(before + (k << 17))
         local ok, message = pcall(run)
         if not ok then
            assert.matches("out of memory", tostring(message))
            failed = failed + 1
         end
      end
      torch.set_memory_limit(0)
      assert.is_true(failed >= 20)
      assert.is_true(pcall(run))
      assert.equal(before, used())
   end)
end)
