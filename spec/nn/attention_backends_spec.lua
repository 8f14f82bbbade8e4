-- Tests torch.nn.attention, which chooses the implementation of scaled_dot_product_attention, and its flex_attention.
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

describe("nn.attention.flex_attention", function()
   local flex = attention.flex_attention
   local function wave(factor, ...)
      local shape = {...}
      local n = 1
      for _, size in ipairs(shape) do n = n * size end
      return (torch.arange(n):float() * factor):sin():view(shape)
   end
   local q, k, v = wave(1, 2, 4, 3, 8), wave(0.7, 2, 2, 5, 8), wave(0.3, 2, 2, 5, 6)

   -- In PyTorch's recipe below, positions count from 0, so it adds 1 to the head and nothing to the batch.
   local function score_mod(score, b, h, i, j) return score + (j - i) * 0.1 * h + (b - 1) end
   local function near(_, _, i, j) return j:le(i + 1) & i:ne(2) end
   local block_mask = flex.create_block_mask(near, nil, nil, 3, 5)

   -- PyTorch 2.15:
   --    f = lambda *s, a=1.0: torch.sin(torch.arange(float(torch.Size(s).numel())) * a).view(s)
   --    q, k, v = f(2, 4, 3, 8), f(2, 2, 5, 8, a=0.7), f(2, 2, 5, 6, a=0.3)
   --    sm = lambda s, b, h, i, j: s + (j - i) * 0.1 * (h + 1) + b
   --    bm = create_block_mask(lambda b, h, i, j: (j <= i + 1) & (i != 1), None, None, 3, 5, device="cpu")
   --    flex_attention(q, k, v, score_mod=sm, block_mask=bm, scale=0.5, enable_gqa=True, return_lse=True)
   it("computes what PyTorch computes", function()
      local y, lse = flex.flex_attention(q, k, v, {score_mod = score_mod, block_mask = block_mask, scale = 0.5,
         enable_gqa = true, return_lse = true})
      assert.close(2.1083, y:sum():item(), 1e-4)
      assert.close({0.2322, 0.1511, 0.0565, -0.0431, -0.1389, -0.2223}, y[{2, 4, 3}]:tolist(), 1e-4)
      assert.close({-0.1870, -0.3568, -0.4948, -0.5885, -0.6296, -0.6146}, y[{1, 3, 1}]:tolist(), 1e-4)
      assert.same({0, 0, 0, 0, 0, 0}, y[{1, 2, 2}]:tolist()) -- this query attends to no key
      assert.close(0.6119, lse[{2, 4, 1}]:item(), 1e-4)
      assert.close(2.5001, lse[{2, 4, 3}]:item(), 1e-4)
      assert.equal(-math.huge, lse[{2, 4, 2}]:item())
      assert.same({{{{1, 1, 0, 0, 0}, {0, 1, 0, 0, 0}, {1, 1, 1, 1, 0}}}}, flex.create_mask(
         flex.or_masks(near, function(_, _, i, j) return i:eq(j) end), nil, nil, 3, 5):long():tolist())
   end)

   it("gives the result and the gradients of scaled_dot_product_attention", function()
      local expected = F.scaled_dot_product_attention(q, k, v, {attn_mask = block_mask.mask, enable_gqa = true})
      assert.close(2.5313, expected:sum():item(), 1e-4) -- the call without score_mod in PyTorch
      local function same(score) return score end
      for _, mod in ipairs {false, same} do
         assert.close(expected, flex.flex_attention(q, k, v, {block_mask = block_mask, enable_gqa = true,
            score_mod = mod or nil}), 1e-6)
      end
      local x = torch.randn(1, 2, 3, 2, {dtype = "float64", requires_grad = true})
      local slope = torch.tensor({0.5, 0.25}, {dtype = "float64", requires_grad = true})
      assert.is_true(torch.autograd.gradcheck(function(a, s)
         return flex.flex_attention(a, a, a, function(score, _, h, i, j) return score + s[h] * (j - i) end,
            flex.create_block_mask(near, nil, nil, 3, 3))
      end, {x, slope}))
   end)

   it("refuses functions and masks that do not fit", function()
      local name = "nn.attention.flex_attention."
      local function refuses(message, fn, ...)
         local given = table.pack(...)
         assert.raises(name .. message, function() flex[fn](table.unpack(given, 1, given.n)) end)
      end
      local expected = "expected a function that returns a bool tensor for (1, 1, 2, 2), such as q_idx:ge(kv_idx), got "
      refuses("create_mask: mod_fn: " .. expected .. "true", "create_mask", function() return true end, nil, nil, 2, 2)
      refuses("create_block_mask: mask_mod: " .. expected .. "an int64 tensor of shape (1, 1, 2, 2)",
         "create_block_mask", function(_, _, i, j) return i - j end, nil, nil, 2, 2)
      refuses("flex_attention: score_mod: expected a function that returns a floating-point tensor for (2, 4, 3, 5), "
         .. "got nil", "flex_attention", q, k, v, function() end, {enable_gqa = true})
      refuses("flex_attention: key: expected 4 heads, as the query has, without enable_gqa", "flex_attention", q, k, v)
      refuses("flex_attention: query: expected 4 dimensions (B, H, L, E)", "flex_attention", q[1], k, v)
      refuses("flex_attention: block_mask: expected a result of create_block_mask, got a bool tensor", "flex_attention",
         q, k, v, {block_mask = block_mask.mask, enable_gqa = true})
      refuses("flex_attention: block_mask: expected a mask for the scores' shape (2, 4, 3, 5)", "flex_attention",
         q, k, v, {block_mask = flex.create_block_mask(near, nil, nil, 3, 4), enable_gqa = true})
      refuses("flex_attention: unknown option mask_mod", "flex_attention", q, k, v, {mask_mod = near})
      refuses("and_masks: argument 2: expected a mask function, got 3", "and_masks", near, 3)
      assert.raises("nn.attention.flex_attention: no field 'flex_atention'", function() return flex.flex_atention end)
   end)
end)
