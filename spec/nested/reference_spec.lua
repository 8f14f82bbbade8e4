-- Compares nested tensors and their gradients with PyTorch's (spec/fixtures/nested.py).

local torch = require "tlua"
local sorted = require "spec.support.sorted"

local reference = dofile "spec/fixtures/nested.lua"
local N, F, nn = torch.nested, torch.nn.functional, torch.nn
local f64 = {dtype = "float64"}

local function wave(...)
   local n = 1
   for _, size in ipairs {...} do n = n * size end
   return (torch.arange(n, f64) * 1.3 + 0.5):sin():reshape(...)
end

local function heads(x) return x:unflatten(-1, {2, 2}):transpose(2, 3) end
local function attention(x, options)
   local q = heads(x)
   return F.scaled_dot_product_attention(q, q * 2, q + 1, options):transpose(2, 3):flatten(3)
end
local function filled(module)
   module:double()
   torch.no_grad(function()
      for _, p in ipairs(module:parameters()) do p:copy_(wave(table.unpack(p.shape))) end
   end)
   return module
end

local cases = {
   exp = function(x) return x:exp() end,
   gelu = function(x) return F.gelu(x) end,
   mul = function(x) return x * (x + 1) end,
   number = function(x) return 2 - x end,
   power = function(x) return 2 ^ x end,
   add_dense = function(x) return x + wave(4) end,
   dense_mul = function(x) return wave(3, 1, 4) * x end,
   where = function(x) return torch.where(x:gt(0), x, x * 3) end,
   masked_fill = function(x) return x:masked_fill(x:gt(0.5), 0.25) end,
   clamp = function(x) return x:clamp(-0.5, 0.5) end,
   linear = function(x) return F.linear(x, wave(5, 4), wave(5)) end,
   matmul = function(x) return x:matmul(wave(5, 4):t()) end,
   matmul_batch = function(x) return torch.bmm(x, wave(3, 4, 2)) end,
   transposed_product = function(x) return x:transpose(2, 3):matmul(x) end,
   layer_norm = function(x) return F.layer_norm(x, {4}, wave(4), wave(4) * 2) end,
   rms_norm = function(x) return F.rms_norm(x, {4}, wave(4)) end,
   sum = function(x) return x:sum() end,
   mean = function(x) return torch.mean(x) end,
   sum_ragged = function(x) return x:sum(2) end,
   sum_keepdim = function(x) return x:sum(2, true) end,
   sum_dense = function(x) return x:sum(-1) end,
   sum_both = function(x) return x:sum {1, 2} end,
   mean_ragged = function(x) return (x + 1):mean(2):nan_to_num(7) end,
   mean_dense = function(x) return x:mean(3, {keepdim = true}) end,
   prod_ragged = function(x) return x:prod(2) end,
   amax_dense = function(x) return x:amax(-1) end,
   amin_ragged = function(x) return x:amin(2):clamp(-1, 1) end,
   amax_ragged = function(x) return x:amax(2):clamp(-1, 1) end,
   max = function(x) return (x:max(-1)) end,
   softmax = function(x) return F.softmax(x, {dim = -1}) end,
   softmax_ragged = function(x) return x:softmax(2) end,
   log_softmax = function(x) return x:log_softmax(-1) end,
   padded = function(x) return x:to_padded_tensor(0.5) end,
   padded_size = function(x) return x:to_padded_tensor(-1, {3, 5, 4}) end,
   transpose = function(x) return x:transpose(2, 3) * 2 end,
   heads = function(x) return heads(x):sum(2) end,
   heads_ragged = function(x) return heads(x):sum(3) end,
   select = function(x) return x[3] end,
   select_dense = function(x) return x[{{}, {}, 2}] end,
   narrow = function(x) return x:narrow(3, 2, 2) end,
   unsqueeze = function(x) return x:unsqueeze(2) end,
   cat = function(x) return torch.cat({x, x * 2}, -1) end,
   stack = function(x) return torch.stack({x, x * 2}, 3) end,
   view = function(x) return x:view(3, -1, 2, 2):sum(-2) end,
   attention = attention,
   attention_causal = function(x) return attention(x, {is_causal = true}) end,
   attention_scale = function(x) return attention(x, {scale = 0.3}) end,
   attention_pytorch = function(x)
      return F.scaled_dot_product_attention(heads(x), heads(x), heads(x)):transpose(2, 3):flatten(3)
   end,
   conv2d = function(x)
      return F.conv2d(x:unflatten(-1, {1, 2, 2}), wave(2, 1, 2, 1):to(x.dtype), wave(2):to(x.dtype))
   end,
   conv_transpose1d = function(x)
      return F.conv_transpose1d(x:unflatten(-1, {2, 2}), wave(2, 3, 2):to(x.dtype))
   end,
   avg_pool1d = function(x) return F.avg_pool1d(x:unsqueeze(3), 2) end,
   index_put = function(x)
      return x:index_put({torch.tensor {1, 3}, torch.tensor {3, 1}}, torch.zeros({2, 4}, {dtype = x.dtype}))
   end,
   movedim = function(x) return x:unflatten(-1, {2, 2}):movedim(2, 4) * 2 end,
   expand = function(x) return x:unsqueeze(-1):expand(3, x.shape[2], 4, 2) * 2 end,
   tensor_split = function(x) return x:tensor_split(2, 3)[2] * 2 end,
   diff = function(x) return x:diff(1, 3) end,
   multihead = function(x)
      local layer = filled(nn.MultiheadAttention(4, 2, {batch_first = true}))
      return (layer(x, x, x, {need_weights = false}))
   end,
   encoder = function(x)
      return filled(nn.TransformerEncoderLayer(4, 2, 8, {dropout = 0, batch_first = true}))(x)
   end,
   h_double = function(h) return (h * 2):contiguous() end,
   h_rows = function(h) return h:contiguous() end,
   h_unbind = function(h) return torch.cat(h:unbind()) end,
}

local function input(name, values)
   if name:find "^h_" then
      return N.nested_tensor_from_jagged(values, torch.tensor {2, 5, 8}, torch.tensor {2, 3})
   end
   return N.nested_tensor_from_jagged(values, torch.tensor {1, 4, 4, 6})
end

describe("nested tensors", function()
   it("have PyTorch's values and gradients", function()
      for name, expected in sorted(reference) do
         for _, strided in ipairs {false, true} do
            local values = name:find "^h_" and wave(8, 2) or wave(5, 4)
            if strided then values = values:t():contiguous():t() end
            values:requires_grad_()
            local y = assert(cases[name], name)(input(name, values))
            local dense = y.is_nested and y:values() or y
            assert.same(expected.shape, {table.unpack(dense.shape)}, name)
            assert.close(expected.value, dense:flatten(), 1e-9, name)
            if expected.grad then
               dense:backward((torch.arange(dense:numel(), f64) * 0.1 + 0.5):reshape(dense.shape))
               assert.close(expected.grad, values.grad:flatten(), 1e-9, name)
            end
         end
      end
   end)

   it("keep sequences apart", function()
      -- NaN in the first sequence must not reach the results and gradients of the other sequences.
      for name, fn in sorted(cases) do
         local clean, dirty = wave(5, 4), wave(5, 4)
         dirty[1][2] = 0 / 0
         local of_clean = not name:find "^h_" and fn(input(name, clean))
         if of_clean and of_clean.is_nested then
            local of_dirty = fn(input(name, dirty:requires_grad_()))
            assert.is_true(torch.equal(of_clean[3], of_dirty[3]:detach()), name)
            of_dirty[3]:sum():backward()
            assert.is_false(dirty.grad[{{4, 5}}]:isnan():any():item(), name)
         end
      end
   end)

   it("take every floating dtype", function()
      local products = {multihead = true, encoder = true, linear = true, matmul = true, matmul_batch = true,
         layer_norm = true, rms_norm = true}
      for name, expected in sorted(reference) do
         local values = name:find "^h_" and wave(8, 2) or wave(5, 4)
         for dtype, tolerance in pairs {float32 = 1e-4, float16 = 0.03, bfloat16 = 0.2} do
            if not products[name] then
               local y = cases[name](input(name, values:to(dtype)))
               assert.close(expected.value, (y.is_nested and y:values() or y):double():flatten(), tolerance, name)
            end
         end
      end
   end)

   it("apply elementwise functions to the values", function()
      local wrapped = require "tlua.wrapped"
      local count, values, others = 0, wave(5, 4), wave(5, 4) + 2
      local x, other = input("", values), input("", others)
      for _, binary in ipairs {false, true} do
         for name in wrapped[binary and "binary" or "unary"]:gmatch "%S+" do
            local fn = wrapped.of(name)
            for _, dtype in ipairs {"float64", "int64"} do
               local v, w = values:to(dtype), others:to(dtype)
               local ok, expected = pcall(fn, v, binary and w or nil)
               if ok and not name:find "dropout" then
                  local y = fn(x:to(dtype), binary and other:to(dtype) or nil)
                  assert.close(expected, y:values(), 0, name)
                  count = count + 1
               end
            end
         end
      end
      assert.is_true(count > 120, count)
   end)

   it("have gradients that can be differentiated", function()
      local skipped = {multihead = true, encoder = true, attention_pytorch = true}
      for name, fn in sorted(cases) do
         local values = (name:find "^h_" and wave(8, 2) or wave(5, 4)):requires_grad_()
         local function dense(v)
            local y = fn(input(name, v))
            return y.is_nested and y:values() or y
         end
         if not skipped[name] then
            assert.is_true(torch.autograd.gradcheck(dense, {values}), name)
            assert.is_true(torch.autograd.gradgradcheck(dense, {values}), name)
         end
      end
   end)
end)
