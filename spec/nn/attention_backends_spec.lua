-- Tests torch.nn.attention, which chooses the implementation of scaled_dot_product_attention.
local torch = require "tlua"
local nn = torch.nn
local F, attention = nn.functional, nn.attention
local SDPBackend = attention.SDPBackend

local function inputs()
   torch.manual_seed(1)
   return torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 6)
end

local function name_of_node(...)
   local leaf = torch.randn(1, 1, 2, 4, {requires_grad = true})
   local y = attention.sdpa_kernel(..., F.scaled_dot_product_attention, leaf, leaf, leaf)
   return tostring(y.grad_fn)
end

describe("nn.attention.sdpa_kernel", function()
   after_each(function() assert.equal(15, torch._setting "sdp_backends") end)

   local q, k, v = inputs()
   for title, options in pairs {
      ["no mask"] = {},
      ["is_causal"] = {is_causal = true},
      ["a floating mask"] = {attn_mask = torch.arange(15.0):reshape(3, 5):sin()},
      ["a mask that hides all keys of a query"] = {attn_mask = torch.ones(3, 5, {dtype = "bool"}):triu(1)
         :masked_fill(torch.tensor {{true}, {false}, {false}}, false)},
      ["a scale"] = {scale = 0.3},
   } do
      it("computes by MATH what the kernel computes: " .. title, function()
         options.enable_gqa = true
         local expected = F.scaled_dot_product_attention(q, k, v, options)
         local actual = attention.sdpa_kernel(SDPBackend.MATH,
            function() return F.scaled_dot_product_attention(q, k, v, options) end)
         assert.close(expected, actual, 1e-6)
      end)
   end

   it("drops the same weights either way", function()
      local function run()
         torch.manual_seed(3)
         return F.scaled_dot_product_attention(q, k, v, {dropout_p = 0.4, enable_gqa = true})
      end
      assert.close(run(), attention.sdpa_kernel(SDPBackend.MATH, run), 1e-6)
   end)

   it("rounds half types once by MATH", function()
      local function half(t) return t:to "bfloat16" end
      local y = attention.sdpa_kernel(SDPBackend.MATH, F.scaled_dot_product_attention, half(q), half(k),
         half(v), {enable_gqa = true})
      assert.equal("bfloat16", y.dtype)
      local wide = F.scaled_dot_product_attention(half(q):float(), half(k):float(), half(v):float(),
         {enable_gqa = true})
      -- the tolerance is one unit in the last place of bfloat16 numbers below 1
      assert.close(wide, y:float(), 2 ^ -8)
   end)

   it("records the operators of MATH one by one", function()
      assert.is_nil(name_of_node(SDPBackend.MATH):find "Attention")
      for _, other in ipairs {"FLASH_ATTENTION", "EFFICIENT_ATTENTION"} do
         assert.truthy(name_of_node(SDPBackend[other]):find "FlashAttention")
      end
      local both = {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION}
      assert.truthy(name_of_node(both):find "FlashAttention")
   end)

   it("prefers the one named first with set_priority", function()
      local leaf = torch.randn(1, 1, 2, 4, {requires_grad = true})
      local function node(list)
         return tostring(attention.sdpa_kernel(list, {set_priority = true},
            F.scaled_dot_product_attention, leaf, leaf, leaf).grad_fn)
      end
      assert.is_nil(node({SDPBackend.MATH, SDPBackend.FLASH_ATTENTION}):find "Attention")
      assert.truthy(node({SDPBackend.FLASH_ATTENTION, SDPBackend.MATH}):find "FlashAttention")
   end)

   it("has the kernel's gradients by MATH, and their gradients", function()
      local function leaves()
         local a, b, c = inputs()
         return a:double():requires_grad_(), b:double():requires_grad_(), c:double():requires_grad_()
      end
      local function attend(a, b, c)
         return F.scaled_dot_product_attention(a, b, c, {is_causal = true, enable_gqa = true})
      end
      local a, b, c = leaves()
      attend(a, b, c):sin():sum():backward()
      local x, y, z = leaves()
      attention.sdpa_kernel(SDPBackend.MATH, attend, x, y, z):sin():sum():backward()
      assert.close(a.grad, x.grad, 1e-12)
      assert.close(b.grad, y.grad, 1e-12)
      assert.close(c.grad, z.grad, 1e-12)
   end)

   it("returns a scope that ends with its block, also after an error", function()
      do
         local _ <close> = attention.sdpa_kernel {SDPBackend.MATH}
         assert.is_false(torch.backends.cuda.flash_sdp_enabled())
         assert.is_true(torch.backends.cuda.math_sdp_enabled())
      end
      assert.is_true(torch.backends.cuda.flash_sdp_enabled())
      pcall(attention.sdpa_kernel, SDPBackend.MATH, error, "stop")
      assert.is_true(torch.backends.cuda.flash_sdp_enabled())
   end)

   it("raises an error if no implementation is left, as for cuDNN's on the CPU", function()
      assert.raises("scaled_dot_product_attention", "no backend for", function()
         attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION, F.scaled_dot_product_attention, q:cpu(), k:cpu(),
            v:cpu(), {enable_gqa = true})
      end)
   end)

   it("names unknown implementations", function()
      assert.raises("sdpa_kernel", "backends: expected one of SDPBackend's", "got none",
         function() attention.sdpa_kernel(nil, print) end)
      assert.raises("sdpa_kernel", 'got "math"', function() attention.sdpa_kernel("math", print) end)
      assert.raises("sdpa_kernel", "got none", function() attention.sdpa_kernel({}, print) end)
      assert.raises("sdpa_kernel", "fn", function() attention.sdpa_kernel("MATH", {}, 3) end)
      assert.raises("sdpa_kernel", "set_priority",
         function() attention.sdpa_kernel("MATH", {set_prority = true}, print) end)
   end)
end)

describe("torch.backends.cuda", function()
   local cuda = torch.backends.cuda

   it("enables implementations one by one", function()
      for _, name in ipairs {"flash", "mem_efficient", "math", "cudnn"} do
         assert.is_true(cuda[name .. "_sdp_enabled"]())
         cuda[("enable_%s_sdp"):format(name)](false)
         assert.is_false(cuda[name .. "_sdp_enabled"]())
         cuda[("enable_%s_sdp"):format(name)](true)
      end
      assert.raises("enable_math_sdp", "true or false", function() cuda.enable_math_sdp(1) end)
   end)

   it("enables implementations in the scope of sdp_kernel", function()
      local flash, math = cuda.sdp_kernel({enable_flash = false},
         function() return cuda.flash_sdp_enabled(), cuda.math_sdp_enabled() end)
      assert.same({false, true}, {flash, math})
      assert.is_true(cuda.flash_sdp_enabled())
   end)

   it("sets cuDNN's fields within a scope", function()
      local cudnn = torch.backends.cudnn
      assert.is_false(cudnn.flags({enabled = false}, function() return cudnn.enabled end))
      assert.is_true(cudnn.enabled)
      assert.raises("cudnn.flags", "unknown option enable", function() cudnn.flags {enable = false} end)
   end)
end)

it("nn.attention.bias aligns causal masks with the first or the last keys", function()
   local bias = attention.bias
   local function rows(mask) return mask:to("int64"):tolist() end
   assert.same({{1, 0, 0, 0}, {1, 1, 0, 0}}, rows(bias.causal_upper_left(2, 4)))
   assert.same({{1, 1, 1, 0}, {1, 1, 1, 1}}, rows(bias.causal_lower_right(2, 4)))
   assert.same({{0}, {0}, {1}}, rows(bias.causal_lower_right(3, 1)))
end)
