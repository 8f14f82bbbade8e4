-- Tests scaled_dot_product_attention by comparing it with its formula.
local torch = require "tlua"
local sorted = require "spec.support.sorted"
local F = torch.nn.functional

local attention = F.scaled_dot_product_attention

-- Computes the formula of attention. If there is a mask, adds it to the scores.
local function formula(q, k, v, mask, scale)
   local scores = q:matmul(k:transpose(-1, -2)) * (scale or q:size(-1) ^ -0.5)
   if mask then scores = scores + mask end
   return scores:softmax(-1):matmul(v)
end

local function random(...) return torch.randn({...}, {dtype = "float64"}) end

-- Checks that the result and all gradients equal those of the formula. The mask `added` has the same effect in the
-- formula as the options have.
local function agrees(inputs, mask, options, added)
   local wanted = {}
   for i, x in ipairs(inputs) do wanted[i] = x:requires_grad_() end
   if mask and mask.requires_grad then wanted[#wanted + 1] = mask end
   options.attn_mask = mask
   local result = attention(inputs[1], inputs[2], inputs[3], options)
   local expected = formula(inputs[1], inputs[2], inputs[3], mask or added)
   local blind = (mask or added) and (mask or added):detach():expand(expected:size(-2), inputs[2]:size(-2))
      :eq(-math.huge):all(-1, true)
   if blind then expected = expected:masked_fill(blind, 0) end
   assert.close(expected, result, 1e-12)
   local g = torch.randn(result.shape, {dtype = "float64"})
   local grads = {torch.autograd.grad(expected, wanted, {grad_outputs = g})}
   for i, grad in ipairs {torch.autograd.grad(result, wanted, {grad_outputs = g})} do
      local there = grads[i]:masked_fill(grads[i]:isnan(), 0)
      assert.close(there, grad, 1e-11)
   end
end

describe("_scaled_dot_product_flash_attention", function()
   local forward = torch._scaled_dot_product_flash_attention
   local backward = torch._scaled_dot_product_flash_attention_backward

   local function numbers(n, by, fn, ...) return torch[fn](torch.arange(n) * by):view(...) end

   -- The expected values were computed by PyTorch 2.15's torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.
   it("gives results, logarithms and gradients", function()
      local q, k, v = numbers(12, 0.37, "sin", 1, 2, 3, 2), numbers(8, 0.53, "cos", 1, 2, 2, 2),
         numbers(8, 0.71, "sin", 1, 2, 2, 2)
      local out, norm = forward(q, k, v, {scale = 0.7})
      assert.close(torch.tensor {0.4393714, 0.7388697, 0.3077218, 0.7127910, 0.2757571, 0.7064591, -0.2262393,
         -0.6463805, -0.2816201, -0.6727577, -0.3475254, -0.7041475}, out:flatten(), 1e-6)
      assert.same({1, 2, 3}, norm.shape)
      assert.close(torch.tensor {0.8061364, 1.3858547, 1.6047015, -0.0393416, 0.7105605, 1.4614835},
         norm:flatten(), 1e-6)
      local of_q, of_k, of_v = backward(numbers(12, 0.11, "cos", 1, 2, 3, 2), q, k, v, out, norm, {scale = 0.7})
      assert.close(torch.tensor {-0.1045360, -0.1803889, -0.0882139, -0.1522232, -0.0763820, -0.1318059,
         0.1113343, -0.0090566, 0.0896868, -0.0072956, 0.0617551, -0.0050235}, of_q:flatten(), 1e-6)
      assert.close(torch.tensor {-0.2651958, -0.3721946, 0.2651957, 0.3721946, 0.1512026, -0.0165508,
         -0.1512025, 0.0165508}, of_k:flatten(), 1e-6)
      assert.close(torch.tensor {1.8801270, 1.8185465, 1.0005221, 0.9739763, 0.9827007, 0.8500753, 0.8980388,
         0.7695446}, of_v:flatten(), 1e-6)
   end)

   it("is put together from parts of the keys, as its manual says", function()
      torch.manual_seed(1)
      local q, k, v = torch.randn(2, 4, 5, 3), torch.randn(2, 2, 9, 3), torch.randn(2, 2, 9, 4)
      local g = torch.randn(2, 4, 5, 4)
      local out, norm = forward(q, k, v)
      local parts, of_q = {}, torch.zeros_like(q)
      local _, of_k, of_v = backward(g, q, k, v, out, norm)
      for i, range in ipairs {{1, 4}, {5, 5}} do
         local function part(x) return x:narrow(3, range[1], range[2]) end
         parts[i] = {forward(q, part(k), part(v))}
         local a, b, c = backward(g, q, part(k), part(v), out, norm)
         of_q = of_q + a
         assert.close(part(of_k), b, 1e-6)
         assert.close(part(of_v), c, 1e-6)
      end
      local w = (parts[2][2] - parts[1][2]):sigmoid():unsqueeze(-1)
      assert.close(out, parts[1][1] + w * (parts[2][1] - parts[1][1]), 1e-6)
      assert.close(norm, parts[1][2]:logaddexp(parts[2][2]), 1e-6)
      assert.close((backward(g, q, k, v, out, norm)), of_q, 1e-6)
   end)

   it("refuses arguments that do not fit, and records nothing", function()
      local q, k = torch.randn(1, 4, 5, 3), torch.randn(1, 3, 5, 3)
      assert.error_matches(function() forward(q, k, k) end,
         "query %[1, 4, 5, 3%], key %[1, 3, 5, 3%] and value %[1, 3, 5, 3%] do not fit")
      assert.error_matches(function() forward(q[1], q[1], q[1]) end,
         "expected %(batch, heads, positions, features%), got shape %[4, 5, 3%]")
      assert.error_matches(function() forward(q, q:double(), q) end, "one floating dtype")
      local out, norm = forward(q:requires_grad_(), q, q)
      assert.is_false(out.requires_grad)
      assert.error_matches(function() backward(q, q, q, q, out, norm:double()) end,
         "logsumexp: expected float32, got float64")
      assert.error_matches(function() backward(q, q, q, q, out, out) end,
         "logsumexp: expected shape %[1, 4, 5%], got %[1, 4, 5, 3%]")
   end)
end)

describe("scaled_dot_product_attention", function()
   local q, k, v
   before_each(function()
      torch.manual_seed(3)
      q, k, v = random(2, 4, 3, 5), random(2, 4, 6, 5), random(2, 4, 6, 2)
   end)

   it("gives the mean of the values, weighted by softmax", function()
      local one = attention(torch.tensor {{1.0, 0}}, torch.tensor {{0.0, 0}, {2 ^ 0.5 * math.log(3), 0}},
         torch.tensor {{0.0}, {4}})
      assert.close(torch.tensor {{3.0}}, one, 1e-5)
      assert.close(formula(q, k, v), attention(q, k, v), 1e-12)
      assert.close(formula(q, k, v, nil, 0.3), attention(q, k, v, {scale = 0.3}), 1e-12)
   end)

   it("adds a mask of numbers, and hides keys for a bool mask's false", function()
      local added = random(2, 1, 3, 6)
      assert.close(formula(q, k, v, added), attention(q, k, v, added), 1e-12)
      local seen = torch.tensor {{true, false, true, true, false, true}}
      local hidden = torch.zeros(1, 6, {dtype = "float64"}):masked_fill(seen:logical_not(), -math.huge)
      assert.close(formula(q, k, v, hidden), attention(q, k, v, seen), 1e-12)
      assert.close(formula(q, k, v, hidden), attention(q, k, v, hidden), 1e-12)
   end)

   it("lets a query see the keys up to its own position if is_causal = true", function()
      local causal = torch.full({3, 6}, -math.huge, {dtype = "float64"}):triu(1)
      causal = causal:masked_fill(causal:isnan(), 0)
      assert.close(formula(q, k, v, causal), attention(q, k, v, {is_causal = true}), 1e-12)
   end)

   it("gives zeros, and gradients of zero, to a query that sees nothing", function()
      local seen = torch.ones(3, 6):gt(0)
      seen[2]:fill_(false)
      local added = torch.zeros(3, 6, {dtype = "float64"}):masked_fill(seen:logical_not(), -math.huge)
      for _, mask in ipairs {seen, added} do
         local x = q:clone():requires_grad_()
         local result = attention(x, k, v, mask)
         result:sum():backward()
         assert.close(torch.zeros(2, 4, 2, {dtype = "float64"}), result:detach():select(3, 2), 0)
         assert.close(torch.zeros(2, 4, 5, {dtype = "float64"}), x.grad:select(3, 2), 0)
         assert.is_false(x.grad:isnan():any():item())
         assert.close(formula(q, k, v):select(3, 1), result:detach():select(3, 1), 1e-12)
      end
   end)

   it("shares heads of keys and values between those of queries", function()
      local few_k, few_v = random(2, 2, 6, 5), random(2, 2, 6, 2)
      local expected = formula(q, few_k:repeat_interleave(2, 2), few_v:repeat_interleave(2, 2))
      assert.close(expected, attention(q, few_k, few_v, {enable_gqa = true}), 1e-12)
      assert.raises("scaled_dot_product_attention", "multiple of 3",
         function() attention(q, random(2, 3, 6, 5), random(2, 3, 6, 2), {enable_gqa = true}) end)
   end)

   it("computes in narrower dtypes", function()
      for dtype, tolerance in sorted {float32 = 1e-5, float16 = 1e-2, bfloat16 = 6e-2} do
         local result = attention(q:to(dtype), k:to(dtype), v:to(dtype))
         assert.equal(dtype, result.dtype)
         assert.close(formula(q, k, v), result:to("float64"), tolerance)
      end
   end)

   it("rounds half types at the end only", function()
      for dtype, tolerance in sorted {float16 = 2 ^ -11, bfloat16 = 2 ^ -8} do
         local a, b, c = (q * 8):to(dtype), (k * 8):to(dtype), v:to(dtype)
         local mask = torch.zeros(3, 6, {dtype = "float64"}):masked_fill(torch.ones(3, 6):triu(1):bool(), -math.huge)
         local expected = formula(a:double(), b:double(), c:double(), mask)
         local result = attention(a, b, c, nil, 0, true):double()
         -- the tolerance is half a unit in the last place of numbers below 4
         assert.close(expected, result, 2 * tolerance)
      end
   end)

   it("takes sizes near those of its blocks", function()
      for _, s in ipairs {{1, 1, 1, 1}, {5, 97, 16, 17}, {16, 96, 33, 64}, {97, 193, 64, 70}, {200, 31, 7, 130},
                          {96, 288, 140, 16}} do
         local l, n, e, w = table.unpack(s)
         local masks = {random(l, n), random(n), random(l, 1), random(l, n):gt(0):double():log()}
         -- this mask hides whole blocks of keys from all queries of a block, so kernels may skip these blocks
         masks[5] = torch.full({l, n}, -math.huge, {dtype = "float64"}):triu(1)
         for i = 0, #masks do
            local inputs = {random(2, l, e), random(2, n, e), random(2, n, w)}
            agrees(inputs, masks[i] and masks[i]:requires_grad_(i < 4), {})
         end
         agrees({random(2, l, e), random(2, n, e), random(2, n, w)}, nil, {is_causal = true}, masks[5])
      end
   end)

   it("reads and writes tensors with gaps in memory without copies", function()
      -- `packed` has the shape (N, L, (query, key, value), heads, E)
      local packed = random(2, 9, 3, 4, 5):requires_grad_()
      local parts = {}
      for i, part in ipairs(packed:unbind(3)) do parts[i] = part:transpose(2, 3) end
      local result = attention(table.unpack(parts))
      assert.is_true(result:transpose(2, 3):is_contiguous())
      local g = random(2, 9, 4, 5):transpose(2, 3)
      local grad = torch.autograd.grad(result, packed, {grad_outputs = g})
      local plain = {}
      for i, part in ipairs(parts) do plain[i] = part:detach():contiguous():requires_grad_() end
      local expected = {torch.autograd.grad(formula(table.unpack(plain)), plain, {grad_outputs = g:contiguous()})}
      assert.close(formula(table.unpack(plain)), result, 1e-12)
      for i, part in ipairs(grad:unbind(3)) do assert.close(expected[i], part:transpose(2, 3), 1e-12) end
   end)

   it("differentiates twice", function()
      local function leaf(...) return random(...):requires_grad_() end
      local few_k, few_v = leaf(1, 1, 4, 2), leaf(1, 1, 4, 3)
      local cases = {
         {{}, q = leaf(1, 2, 3, 2), k = leaf(1, 2, 4, 2), v = leaf(1, 2, 4, 3)},
         {{is_causal = true}, q = leaf(1, 2, 5, 2), k = leaf(1, 2, 4, 2), v = leaf(1, 2, 4, 3)},
         {{enable_gqa = true, scale = 0.4}, q = leaf(1, 2, 3, 2), k = few_k, v = few_v},
         {{dropout_p = 0.4}, q = leaf(1, 2, 3, 2), k = leaf(1, 2, 5, 2), v = leaf(1, 2, 5, 3)},
         {{}, q = leaf(2, 2, 3, 2), k = leaf(2, 2, 4, 2), v = leaf(2, 2, 4, 3), mask = leaf(2, 1, 1, 4)},
         {{dropout_p = 0.3}, q = leaf(3, 2), k = leaf(4, 2), v = leaf(4, 3), mask = leaf(3, 4)},
         {{attn_mask = torch.tensor {{true, false}, {false, false}}}, q = leaf(2, 2), k = leaf(2, 2), v = leaf(2, 1)},
      }
      for _, case in ipairs(cases) do
         local function call(a, b, c, mask)
            torch.manual_seed(11)
            local options = {attn_mask = mask}
            for name, value in pairs(case[1]) do options[name] = value end
            return attention(a, b, c, options)
         end
         local inputs = {case.q, case.k, case.v, case.mask}
         assert.is_true(torch.autograd.gradcheck(call, inputs))
         assert.is_true(torch.autograd.gradgradcheck(call, inputs))
      end
   end)

   it("has gradients of half types, summed in float32", function()
      for dtype, unit in sorted {float16 = 2 ^ -11, bfloat16 = 2 ^ -8} do
         local narrow, wide = {}, {}
         for i, x in ipairs {random(2, 100, 20), random(2, 110, 20), random(2, 110, 9)} do
            narrow[i] = x:to(dtype):requires_grad_()
            wide[i] = narrow[i]:detach():double():requires_grad_()
         end
         local g = random(2, 100, 9):to(dtype)
         local result = attention(table.unpack(narrow))
         local expected = {torch.autograd.grad(formula(table.unpack(wide)), wide, {grad_outputs = g:double()})}
         for i, grad in ipairs {torch.autograd.grad(result, narrow, {grad_outputs = g})} do
            assert.equal(dtype, grad.dtype)
            -- The backward pass uses a rounded result, and rounds the gradient. The tolerance allows for both errors.
            assert.close(expected[i], grad:double(), 4 * unit * expected[i]:abs():max():item())
         end
      end
   end)

   -- For these sizes, a GPU that has cuDNN uses it. cuDNN rounds the weights to the half-precision type.
   it("has results and gradients of half types, in rows that are multiples of 16 bytes", function()
      for dtype, unit in sorted {float16 = 2 ^ -11, bfloat16 = 2 ^ -8} do
         for _, causal in ipairs {false, true} do
            for _, kv_heads in ipairs {4, 2} do
               local narrow, wide, whole = {}, {}, {}
               -- the shape (batch, rows, heads, size) is the layout that a projection returns
               for i, x in ipairs {random(2, 72, 4, 16), random(2, 72, kv_heads, 16),
                                   random(2, 72, kv_heads, 24)} do
                  narrow[i] = x:to(dtype):requires_grad_()
                  wide[i] = narrow[i]:detach():double():requires_grad_()
                  whole[i] = wide[i]:transpose(2, 3)
                  if i > 1 then whole[i] = whole[i]:repeat_interleave(4 // kv_heads, 2) end
               end
               local mask = causal and torch.full({72, 72}, -math.huge, {dtype = "float64"}):triu(1) or nil
               local result = attention(narrow[1]:transpose(2, 3), narrow[2]:transpose(2, 3),
                  narrow[3]:transpose(2, 3), {is_causal = causal, enable_gqa = kv_heads == 2})
               local expected = formula(whole[1], whole[2], whole[3], mask)
               assert.close(expected, result:double(), 4 * unit * expected:abs():max():item())
               local g = random(2, 4, 72, 24):to(dtype)
               local right = {torch.autograd.grad(expected, wide, {grad_outputs = g:double()})}
               for i, grad in ipairs {torch.autograd.grad(result, narrow, {grad_outputs = g})} do
                  assert.equal(dtype, grad.dtype)
                  assert.close(right[i], grad:double(), 6 * unit * right[i]:abs():max():item())
               end
            end
         end
      end
   end)

   it("gives NaN only for queries that attend to a NaN", function()
      local nan = 0 / 0
      local one = k:clone()
      one[1][1][2][1] = nan
      local result = attention(q, one, v, {is_causal = true})
      assert.is_false(result:select(3, 1):isnan():any():item())
      assert.is_true(result[1][1][2]:isnan():all():item())
      assert.is_false(result[1][2]:isnan():any():item())
      local seen = torch.ones(6):gt(0)
      one = q:clone()
      one[2][3][1][4] = nan
      result = attention(one, k, v, seen)
      assert.is_true(result[2][3][1]:isnan():all():item())
      assert.equal(2, result:isnan():sum():item())
      one[2][3][1][4] = math.huge
      assert.is_true(attention(one, k, v)[2][3][1]:isnan():all():item())
   end)

   it("keeps no weights", function()
      local n = 1000
      local function leaf() return torch.randn(n, 8):requires_grad_() end
      local a, b, c, seen = leaf(), leaf(), leaf(), torch.ones(n):gt(0)
      collectgarbage()
      torch.set_memory_limit(torch.memory_stats().used + 4 * n * n // 4)
      local ok, message = pcall(function()
         for _, options in ipairs {{}, {is_causal = true}, {attn_mask = seen}, {dropout_p = 0.1}} do
            attention(a, b, c, options):sum():backward()
         end
         return torch.nn.MultiheadAttention(8, 2)(a, b, c, {need_weights = false})
      end)
      torch.set_memory_limit(0)
      assert.is_true(ok, message)
   end)

   describe("with dropout", function()
      -- Returns the random bits for attention weights. Each row begins at a new block of four random numbers.
      local function bits(p, ...)
         local shape = {...}
         local n = shape[#shape]
         shape[#shape] = (n + 3) // 4 * 4
         return torch.empty(shape, {dtype = "float64"}):bernoulli_(1 - p):narrow(-1, 1, n)
      end

      it("multiplies weights by the generator's bits", function()
         for _, s in ipairs {{3, 6}, {20, 201}, {130, 8}} do
            local l, n = table.unpack(s)
            local inputs = {random(2, 3, l, 4):requires_grad_(), random(2, 3, n, 4):requires_grad_(),
               random(2, 3, n, 5):requires_grad_()}
            torch.manual_seed(77)
            local kept = bits(0.3, 2, 3, l, n) / 0.7
            local next_number = torch.rand(1):item()
            torch.manual_seed(77)
            local result = attention(inputs[1], inputs[2], inputs[3], {dropout_p = 0.3})
            assert.equal(next_number, torch.rand(1):item())
            local weights = (inputs[1]:matmul(inputs[2]:transpose(-1, -2)) / 2):softmax(-1)
            local expected = (weights * kept):matmul(inputs[3])
            assert.close(expected, result, 1e-12)
            local g = random(2, 3, l, 5)
            local grads = {torch.autograd.grad(expected, inputs, {grad_outputs = g})}
            for i, grad in ipairs {torch.autograd.grad(result, inputs, {grad_outputs = g})} do
               assert.close(grads[i], grad, 1e-12)
            end
         end
      end)

      it("keeps the mean", function()
         local x, ones = torch.zeros(1, 400, 8), torch.ones(1, 400, 1)
         for _, p in ipairs {0.1, 0.5, 0.9} do
            local result = attention(x, x, ones, {dropout_p = p})
            -- the standard deviation of the mean of 160000 numbers, each of which is 0 or 1 / (1 - p)
            local deviation = math.sqrt(p / (1 - p))
            assert.close(torch.tensor(1.0), result:mean(), 5 * deviation / 400)
            assert.close(torch.tensor(deviation / 20), result:std(), 0.2 * deviation / 20)
         end
         assert.equal(0, attention(x, x, ones, {dropout_p = 1}):abs():sum():item())
         assert.close(ones, attention(x, x, ones, {dropout_p = 0}), 1e-6)
      end)

      it("draws from the given generator", function()
         local g = torch.Generator()
         g:manual_seed(5)
         torch.manual_seed(9)
         local first = attention(q, k, v, {dropout_p = 0.5, generator = g})
         local drawn = torch.rand(1):item()
         torch.manual_seed(9)
         assert.equal(torch.rand(1):item(), drawn)
         local second = attention(q, k, v, {dropout_p = 0.5, generator = g})
         assert.is_false(torch.equal(first, second))
         g:manual_seed(5)
         assert.is_true(torch.equal(first, attention(q, k, v, {dropout_p = 0.5, generator = g})))
      end)
   end)

   -- The tests cover every combination of shared or separate heads, hidden keys and dropout. Sizes are odd. In some
   -- tests there are more queries than keys, in others fewer.
   describe("with several of its options", function()
      local hidden = {
         none = function() end,
         causal = function() return nil, {is_causal = true} end,
         numbers = function(l, n) return random(2, 4, l, n) end,
         ["numbers of a head"] = function(l, n) return random(4, 1, n):expand(4, l, n) end,
         truths = function(l, n)
            local seen = torch.rand(2, 1, l, n):gt(0.4)
            seen:select(-1, 1):fill_(true)
            return seen
         end,
         ["truths of a sample"] = function(_, n)
            local seen = torch.ones(2, 1, 1, n):gt(0)
            seen[{2, 1, 1, {(n + 1) // 2 + 1, n}}] = false
            return seen
         end,
      }
      -- Returns the mask that is added to the scores. A causal or boolean mask becomes a mask of 0 and -inf.
      local function added_by(mask, options, l, n)
         if options then
            local later = torch.ones(l, n):triu(1):gt(0)
            return torch.zeros(l, n, {dtype = "float64"}):masked_fill(later, -math.huge)
         elseif mask and mask.dtype == "bool" then
            return torch.zeros(mask.shape, {dtype = "float64"}):masked_fill(mask:logical_not(), -math.huge)
         end
         return mask
      end

      for name, make in sorted(hidden) do
         for _, kv_heads in ipairs {4, 2, 1} do
            for _, p in ipairs {0, 0.3} do
               it(("is the formula, and so are its gradients: %s, %d heads of keys, dropout %g"):format(
                  name, kv_heads, p), function()
                  for _, s in ipairs {{7, 19, 5, 3}, {35, 13, 9, 17}, {1, 67, 3, 1}} do
                     torch.manual_seed(21)
                     local l, n, e, w = table.unpack(s)
                     local inputs = {random(2, 4, l, e):requires_grad_(),
                        random(2, kv_heads, n, e):requires_grad_(),
                        random(2, kv_heads, n, w):requires_grad_()}
                     local mask, options = make(l, n)
                     local added = added_by(mask, options, l, n)
                     options = options or {attn_mask = mask}
                     options.dropout_p, options.enable_gqa, options.scale = p, kv_heads < 4, 0.37
                     torch.manual_seed(5)
                     local words = torch.empty(2, 4, l, (n + 3) // 4 * 4, {dtype = "float64"})
                     local kept = words:bernoulli_(1 - p):narrow(-1, 1, n) / (1 - p)
                     local keys = inputs[2]:repeat_interleave(4 // kv_heads, 2)
                     local values = inputs[3]:repeat_interleave(4 // kv_heads, 2)
                     local scores = inputs[1]:matmul(keys:transpose(-1, -2)) * 0.37
                     local weights = (added and scores + added or scores):softmax(-1)
                     local expected = (weights * kept):matmul(values)
                     torch.manual_seed(5)
                     local result = attention(inputs[1], inputs[2], inputs[3], options)
                     assert.close(expected:detach(), result:detach(), 1e-12)
                     local g = random(2, 4, l, w)
                     local want = {torch.autograd.grad(expected, inputs, {grad_outputs = g})}
                     for i, grad in ipairs {torch.autograd.grad(result, inputs, {grad_outputs = g})} do
                        assert.close(want[i], grad, 1e-11)
                     end
                  end
               end)
            end
         end
      end
   end)

   it("names the argument that does not fit", function()
      local name = "scaled_dot_product_attention"
      assert.raises(name, "exclude each other", function() attention(q, k, v, random(3, 6), 0, true) end)
      assert.raises(name, "one floating dtype", function() attention(q, k:float(), v) end)
      assert.raises(name, "last sizes", function() attention(q, random(2, 4, 6, 4), v) end)
      assert.raises(name, "number of positions", function() attention(q, k, random(2, 4, 5, 2)) end)
   end)
end)
