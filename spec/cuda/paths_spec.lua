-- Tests which of a kernel's code paths a call uses, by the counters of torch.backends.cuda.stats(). Also tests that all
-- paths of linear layers, of a convolution's bias and of elementwise operators give the CPU's results.

local torch = require "tlua"
local emulated <const> = require("spec.support.device").is_emulated() and it or pending
local F = torch.nn.functional

-- Runs fn, and returns by how much each counter has changed. Unchanged counters are left out.
local function counted(fn)
   local before, changes = torch.backends.cuda.stats(), {}
   fn()
   for name, count in pairs(torch.backends.cuda.stats()) do
      if count ~= before[name] then changes[name] = count - before[name] end
   end
   return changes
end

local function on_cpu(dtype, ...) return torch.randn({...}, {device = "cpu"}):to(dtype) end

-- Checks that results differ by at most `scale` times a tolerance. The tolerance is the distance of neighbouring
-- numbers near 1, doubled for float32 and quadrupled for float64.
local function close(expected, actual, dtype, scale)
   local spacing = ({float32 = 2.0 ^ -22, float64 = 2.0 ^ -50, float16 = 2.0 ^ -10, bfloat16 = 2.0 ^ -7})[dtype]
   local off = (actual:cpu():double() - expected:double()):abs():max():item()
   assert.is_true(off <= spacing * scale, off)
end

describe("a linear layer", function()
   local function pass(activation, x, w, b)
      if activation == "relu" then return F.linear_relu(x, w, b) end
      if activation == "none" then return F.linear(x, w, b) end
      return F.linear_gelu(x, w, b, activation == "tanh" and "tanh" or "none")
   end

   for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16"} do
      for _, activation in ipairs {"none", "relu", "tanh", "erf"} do
         it(("has the CPU's values and gradients, with activation %s, in %s"):format(activation, dtype), function()
            for _, n in ipairs {8, 16, 5, 72, 1} do
               local x, w, b = on_cpu(dtype, 9, 12), on_cpu(dtype, n, 12), on_cpu(dtype, n)
               local function run(device)
                  local leaves = {}
                  for i, t in ipairs {x, w, b} do leaves[i] = t:to(device):requires_grad_() end
                  local y = pass(activation, table.unpack(leaves))
                  return y, torch.autograd.grad(y:float():pow(2):sum(), leaves)
               end
               local y, grads = run "cpu"
               local z, others = run "cuda"
               close(y, z, dtype, 16)
               -- The terms of one gradient's sums may cancel. Its rounding errors are relative to the largest term, not
               -- to the sum.
               local largest = 1
               for i = 1, 3 do largest = math.max(largest, grads[i]:double():abs():max():item()) end
               for i = 1, 3 do close(grads[i], others[i], dtype, 8 * largest) end
            end
         end)
      end
   end

   it("is finished by cuBLASLt where that can do it", function()
      local x, w, b = on_cpu("bfloat16", 9, 16):cuda(), on_cpu("bfloat16", 8, 16):cuda(), on_cpu("bfloat16", 8):cuda()
      for _, activation in ipairs {"none", "relu", "tanh", "erf"} do
         assert.same({["cublaslt.epilogues"] = 1}, counted(function() pass(activation, x, w, b) end))
      end
      x, w, b = x:double(), w:double(), b:double()
      assert.same({["cublaslt.separate_epilogues"] = 1}, counted(function() F.linear(x, w, b) end))
   end)

   it("sums the bias's gradient in the product of the weight's gradient", function()
      local x, b = on_cpu("float32", 9, 16):cuda(), on_cpu("float32", 8):cuda():requires_grad_()
      local w = on_cpu("float32", 8, 16):cuda():requires_grad_()
      local y = F.linear(x, w, b)
      assert.same({["cublaslt.epilogues"] = 1}, counted(function() y:backward {gradient = torch.ones_like(y)} end))
      assert.same({9, 9, 9, 9, 9, 9, 9, 9}, b.grad:tolist())
   end)
end)

it("a convolution's bias is added to each channel, in planes and in channels_last, of any size", function()
   torch.backends.cudnn.enabled = false
   for _, dtype in ipairs {"float32", "float64", "bfloat16"} do
      for _, shape in ipairs {{3, 5, 7, 7}, {2, 16, 8, 8}, {1, 8, 1, 3}, {2, 300, 2, 2}, {1, 1, 40, 40}} do
         local channels = shape[2]
         local x = on_cpu(dtype, shape[1], 3, shape[3], shape[4])
         local w, b = on_cpu(dtype, channels, 3, 1, 1), on_cpu(dtype, channels)
         for _, format in ipairs {torch.contiguous_format, torch.channels_last} do
            local moved = x:cuda():contiguous {memory_format = format}
            close(F.conv2d(x, w, b), F.conv2d(moved, w:cuda(), b:cuda()), dtype, 16)
         end
      end
   end
   torch.backends.cudnn.enabled = true
end)

describe("a large product of half types", function()
   it("has the CPU's values, gradients and zeros whether or not its rows are aligned", function()
      local m, n, k <const> = 1031, 1033, 1040
      local a, b = on_cpu("bfloat16", m, k), on_cpu("bfloat16", n, k)
      local expected = a:float():matmul(b:float():t())
      for _, case in ipairs {
         {a:cuda(), b:cuda():t()}, {a:t():contiguous():cuda():t(), b:t():contiguous():cuda()},
         {a:cuda(), b:t():contiguous():cuda()}, {a:t():contiguous():cuda():t(), b:cuda():t()},
      } do
         close(expected, case[1]:matmul(case[2]), "bfloat16", 128)
      end
      local c = torch.full({m, n}, 3, {device = "cuda", dtype = torch.bfloat16})
      close(expected, torch.addmm(c, a:cuda(), b:cuda():t(), {beta = 0}), "bfloat16", 128)
      close(expected + 3, torch.addmm(c, a:cuda(), b:cuda():t()), "bfloat16", 128)
   end)
end)

it("an elementwise operator has the CPU's bits for any length, start, stride and number of rows", function()
   for _, dtype in ipairs {"float32", "float16", "bfloat16", "float64", "int32"} do
      for _, n in ipairs {1, 3, 4, 7, 8, 9, 16, 31, 1023, 1024, 5001} do
         local a, b = on_cpu("float32", n + 2, 3):mul(9):to(dtype), on_cpu("float32", n + 2, 3):mul(9):to(dtype)
         local p, q = a:cuda(), b:cuda()
         local function views(x, y)
            return {
               {x:view(-1):narrow(1, 1, n), y:view(-1):narrow(1, 1, n)},
               {x:view(-1):narrow(1, 2, n), y:view(-1):narrow(1, 3, n)},
               {x:view(-1):narrow(1, 1, n), y:view(-1)[1]},
               {x:t(), y:t()},
               {x, y[1]},
               {x:t():contiguous(), y:t()},
               {x:narrow(2, 1, 2), y:narrow(2, 2, 2)},
            }
         end
         local here, there = views(a, b), views(p, q)
         for i in ipairs(here) do
            local x, y = table.unpack(here[i])
            local u, v = table.unpack(there[i])
            assert.is_true(torch.equal(x * y + x, (u * v + u):cpu()), ("%s %d view %d"):format(dtype, n, i))
            assert.is_true(torch.equal(x:gt(y), u:gt(v):cpu()))
         end
      end
   end
end)

describe("attention of a few queries to many keys", function()
   -- Each row has {batch, heads, kv_heads, queries, keys, size}, then the kind of mask, if there is one.
   local cases <const> = {
      {{2, 4, 4, 1, 300, 64}}, {{1, 8, 2, 1, 1500, 128}}, {{2, 6, 2, 3, 130, 40}}, {{1, 2, 2, 16, 40, 32}},
      {{3, 2, 1, 2, 1, 16}}, {{1, 4, 4, 5, 700, 8}}, {{2, 2, 2, 7, 9, 96}, "causal"},
      {{2, 3, 3, 1, 260, 64}, "bool"}, {{2, 4, 2, 2, 200, 64}, "float"}, {{2, 8, 2, 1, 515, 128}, "bool"},
      {{1, 12, 2, 3, 70, 64}, "causal"}, {{1, 16, 1, 2, 1000, 128}, "float"},
   }

   local function arguments(case, dtype)
      local b, h, kv, n, m, d = table.unpack(case[1])
      local q, k, v = on_cpu(dtype, b, h, n, d), on_cpu(dtype, b, kv, m, d), on_cpu(dtype, b, kv, m, d)
      local options = {is_causal = case[2] == "causal", enable_gqa = true}
      if case[2] == "float" then options.attn_mask = on_cpu(dtype, n, m) end
      if case[2] == "bool" then
         options.attn_mask = torch.rand({b, 1, n, m}, {device = "cpu"}):gt(0.4)
         options.attn_mask[1]:fill_(false) -- the mask hides all keys from the first sample's queries
      end
      return q, k, v, options
   end

   it("has the CPU's values and gradients", function()
      for _, dtype in ipairs {"float32", "float16", "bfloat16"} do
         for i, case in ipairs(cases) do
            local q, k, v, options = arguments(case, dtype)
            local wide, there = {}, {}
            for name, value in pairs(options) do
               local is = torch.is_tensor(value)
               wide[name] = is and value:is_floating_point() and value:double() or value
               there[name] = is and value:cuda() or value
            end
            local expected = F.scaled_dot_product_attention(q:double(), k:double(), v:double(), wide)
            local result = F.scaled_dot_product_attention(q:cuda(), k:cuda(), v:cuda(), there)
            local limit = ({float32 = 3e-6, float16 = 2e-3, bfloat16 = 2e-2})[dtype]
            local off = (result:cpu():double() - expected):abs():max():item()
            assert.is_true(off < limit * math.max(1, expected:abs():max():item()), ("%s %d: %g"):format(dtype, i, off))
            local x, y = q:double():requires_grad_(), q:cuda():requires_grad_()
            F.scaled_dot_product_attention(x, k:double(), v:double(), wide):sum():backward()
            F.scaled_dot_product_attention(y, k:cuda(), v:cuda(), there):sum():backward()
            off = (x.grad - y.grad:cpu():double()):abs():max():item()
            local most = math.max(1, x.grad:abs():max():item())
            assert.is_true(off < 4 * limit * most, ("%s %d: %g"):format(dtype, i, off))
         end
      end
   end)

   it("is NaN for the queries that see NaN", function()
      for heads = 2, 4, 2 do
         local options = {dtype = heads == 2 and "float32" or "bfloat16", device = "cuda"}
         local q, k = torch.ones(1, heads, 1, 64, options), torch.ones(1, 2, 300, 64, options)
         k[{1, 2, 299, 3}] = 0 / 0
         local y = F.scaled_dot_product_attention(q, k, k, {enable_gqa = true})
         local nan = y:isnan():all(-1):flatten():tolist()
         assert.same(heads == 2 and {false, true} or {false, false, true, true}, nan)
      end
   end)
end)

it("topk of a long row has the CPU's values and places, also of equal elements and of NaN", function()
   local n <const> = (1 << 17) + 4321
   local normal = torch.randn(2, n, {device = "cpu"})
   local few = torch.randint(0, 5, {2, n}, {device = "cpu"}):float()
   local holes = torch.where(normal:gt(3), torch.full_like(normal, 0 / 0), normal)
   for _, x in ipairs {normal, few, holes, normal:bfloat16(), (normal * 1000):long()} do
      for _, k in ipairs {1, 100, 1024} do
         for _, largest in ipairs {true, false} do
            local values, places = x:topk(k, {largest = largest})
            local others, found = x:cuda():topk(k, {largest = largest})
            assert.is_true(torch.equal(values:nan_to_num(), others:cpu():nan_to_num()))
            assert.is_true(torch.equal(values:isnan(), others:isnan():cpu()))
            assert.is_true(torch.equal(places, found:cpu()), tostring(x.dtype) .. k)
         end
      end
   end
end)

describe("torch.backends.cuda.stats", function()
   it("counts the convolutions of cuDNN and of our kernels", function()
      local x, w = torch.randn(1, 2, 5, 5, {device = "cuda"}), torch.randn(3, 2, 3, 3, {device = "cuda"})
      local cudnn = torch.backends.cudnn
      local allowed = cudnn.allow_tf32
      cudnn.allow_tf32 = true -- the emulator replaces cuDNN's convolutions only in TF32
      assert.same({["cudnn.convolution"] = 1}, counted(function() F.conv2d(x, w) end))
      cudnn.enabled = false
      assert.same({["cudnn.convolution_own"] = 1}, counted(function() F.conv2d(x, w) end))
      cudnn.enabled, cudnn.allow_tf32 = true, allowed
      assert.equal(torch.backends.cuda.stats()["cudnn.convolution"], cudnn.stats().convolution)
   end)

   emulated("counts attention, and tells of NVRTC", function()
      local q = torch.randn(1, 1, 4, 8, {device = "cuda"})
      assert.same({["cudnn.attention_own"] = 1}, counted(function() F.scaled_dot_product_attention(q, q, q) end))
      local fusion = torch.backends.cuda.fusion.stats()
      assert.is_false(fusion.same_compiler) -- the emulator has no NVRTC
      assert.is_true(fusion.kernels >= 0 and fusion.unfused >= 0)
   end)
end)
