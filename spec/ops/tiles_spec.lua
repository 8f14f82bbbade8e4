-- Tests products, convolutions and transposed copies whose sizes are near the sizes of register tiles.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local F = torch.nn.functional

-- The largest allowed errors. Sums in float64 are far more accurate than sums in float32.
local limits = {float32 = 2e-5, float64 = 1e-13}

local function normal(dtype, ...) return torch.randn(..., {dtype = dtype}) end

-- Computes a matrix product as a sum of elementwise products.
local function slow(a, b) return (a:unsqueeze(-1) * b:unsqueeze(-3)):sum(-2) end

describe("products", function()
   before_each(function() torch.manual_seed(1) end)

   it("agree with sums of elementwise products", function()
      for dtype, limit in sorted(limits) do
         for _, s in ipairs {{2, 2, 2}, {5, 7, 63}, {6, 64, 64}, {7, 65, 65}, {13, 129, 16}, {97, 130, 20},
                             {100, 200, 31}, {30, 3, 200}, {1, 3, 300}, {1, 16, 4}, {1, 47, 9}, {1, 100, 1},
                             {5, 33, 1}, {66, 31, 1}} do
            local a, b, c = normal(dtype, {s[1], s[2]}), normal(dtype, {s[2], s[3]}), normal(dtype, {s[1], s[3]})
            local expected = slow(a:double(), b:double())
            local size = limit * math.sqrt(s[2])
            local ways = {{a, b}, {a:t():contiguous():t(), b}, {a, b:t():contiguous():t()}}
            for _, way in ipairs(ways) do
               assert.close(expected, way[1]:matmul(way[2]):double(), size)
               assert.close(expected * 0.5 - c:double() * 2,
                  torch.addmm(c, way[1], way[2], {beta = -2, alpha = 0.5}):double(), size)
            end
         end
      end
   end)

   it("of one element with another do not depend on those beside", function()
      -- these products run on the CPU, because cuBLAS adds in an order that depends on the shape
      local here = {device = "cpu"}
      local a, b = torch.randn(100, 150, here), torch.randn(150, 90, here)
      local whole = a:matmul(b)
      for _, n in ipairs {2, 5, 17, 64, 89} do
         assert.is_true(torch.equal(whole:narrow(2, 1, n), a:matmul(b:narrow(2, 1, n):contiguous())))
         assert.is_true(torch.equal(whole:narrow(1, 1, n), a:narrow(1, 1, n):matmul(b)))
      end
      local row, lines = a:narrow(1, 3, 1), b:t():contiguous()
      whole = F.linear(row, lines)
      for n = 1, 9 do
         assert.is_true(torch.equal(whole:narrow(2, 3, n), F.linear(row, lines:narrow(1, 3, n))))
         assert.is_true(torch.equal(whole[1]:narrow(1, 3, n), lines:narrow(1, 3, n):mv(row[1])))
      end
   end)
end)

describe("convolution", function()
   before_each(function() torch.manual_seed(1) end)

   -- Each row has the batch, groups, input and output channels per group, height, width, kernel, stride, padding and
   -- dilation.
   local cases = {
      {1, 1, 40, 20, 9, 10, 3, 1, 1, 1}, {5, 1, 17, 33, 7, 7, 3, 1, 1, 1}, {3, 2, 16, 16, 8, 11, 3, 2, 0, 1},
      {2, 1, 20, 70, 8, 8, 2, 2, 0, 1}, {2, 1, 9, 66, 9, 8, 3, 3, 2, 2}, {3, 1, 7, 40, 12, 9, 1, 1, 0, 1},
      {2, 3, 8, 6, 9, 9, 1, 1, 0, 1}, {2, 1, 33, 18, 6, 7, 1, 2, 0, 1}, {2, 9, 1, 1, 12, 13, 3, 1, 1, 1},
      {2, 4, 1, 2, 9, 9, 4, 1, 2, 1}, {1, 1, 3, 100, 30, 31, 5, 2, 2, 1}, {1, 1, 100, 3, 12, 11, 3, 1, 1, 1},
   }

   it("and its gradients agree with products of columns", function()
      for dtype, limit in sorted(limits) do
         for _, case in ipairs(cases) do
            local n, groups, c, out, height, width, k, stride, padding, dilation = table.unpack(case)
            local x = normal(dtype, {n, groups * c, height, width}):requires_grad_()
            local w = normal(dtype, {groups * out, c, k, k}):requires_grad_()
            local bias = normal(dtype, {groups * out})
            local y = F.conv2d(x, w, bias, stride, padding, dilation, groups)
            local columns = F.unfold(x:double(), k, dilation, padding, stride):reshape(n, groups, c * k * k, -1)
            local z = slow(w:double():reshape(1, groups, out, c * k * k), columns)
            z = z:reshape(y.shape) + bias:double():reshape(1, -1, 1, 1)
            local size = limit * math.sqrt(c * k * k)
            assert.close(z, y:double(), size)
            local g = normal(dtype, y.shape)
            local dx, dw = torch.autograd.grad((y * g):sum(), {x, w})
            local ex, ew = torch.autograd.grad((z * g:double()):sum(), {x, w})
            assert.close(ex, dx, limit * math.sqrt(out * k * k))
            assert.close(ew, dw, limit * math.sqrt(n * height * width))
         end
      end
   end)
end)

it("transposed copies hold the same elements", function()
   for _, s in ipairs {{1, 5}, {7, 9}, {16, 16}, {17, 40}, {33, 50}, {8, 200}} do
      local x = torch.arange(0, s[1] * s[2]):reshape(s)
      for _, dtype in ipairs {"int16", "int32", "int64"} do
         local list = x:to(dtype):t():contiguous():reshape(-1):tolist()
         for i, value in ipairs(list) do assert.equal((i - 1) % s[1] * s[2] + (i - 1) // s[1], value) end
      end
   end
end)
