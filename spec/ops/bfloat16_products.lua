-- Multiplies and convolves bfloat16 matrices and images of small integers. The sums of these integers are exact in
-- float32, so every bit of a result is known. Attention is compared with its formula. Prints the instruction set, the
-- number of results, and the names of the results that differ.

local torch = require "tlua"
torch.manual_seed(1)

-- If the processor does not use the instruction set that TLUA_ISA names, this run would only repeat another one.
local isa <const> = torch.config().cpu_isa
local asked <const> = os.getenv "TLUA_ISA"
if asked and asked ~= "" and asked ~= isa then
   print(isa, 0, "")
   return
end

local count, wrong = 0, {}

local function check(right, ...)
   count = count + 1
   if not right then wrong[#wrong + 1] = table.concat({...}, " ") end
end

local function compare(result, exact, ...) check(torch.equal(result, exact:bfloat16()), ...) end

local function integers(...) return torch.randint(-8, 9, {...}):bfloat16() end

local function exact(a, b) return a:double():matmul(b:double()) end

for _, size in ipairs {{1, 1, 1}, {1, 33, 5}, {7, 1, 3}, {16, 32, 16}, {17, 31, 15}, {33, 65, 18}, {40, 64, 100},
                       {130, 513, 70}, {600, 40, 530}, {65, 1100, 33}} do
   local m, k, n = table.unpack(size)
   local a, b, c, bias = integers(m, k), integers(k, n), integers(m, n), integers(n)
   local at, bt = a:t():contiguous():t(), b:t():contiguous():t()
   for i, pair in ipairs {{a, b}, {at, b}, {a, bt}, {at, bt}} do
      compare(pair[1]:matmul(pair[2]), exact(a, b), "matmul", m, k, n, i)
      compare(torch.addmm(c, pair[1], pair[2], {alpha = 2, beta = -4}), exact(a, b) * 2 - c:double() * 4,
         "addmm", m, k, n, i)
   end
   compare(torch.nn.functional.linear(a, bt:t(), bias), exact(a, b) + bias:double(), "linear", m, k, n)
   local far = integers(m, 2 * k)[{{}, {1, k}}] -- `far` is a view in which adjacent rows are more than k elements apart
   compare(far:matmul(b), exact(far, b), "rows with gaps", m, k, n)
end

local a, b = integers(3, 20, 40), integers(3, 40, 24)
compare(a:bmm(b), exact(a, b), "bmm")
local bt = b:narrow(2, 1, 20)
compare(a:transpose(2, 3):bmm(bt), exact(a:transpose(2, 3), bt), "bmm of a transpose")

-- NaN and infinity may only affect the rows of the result that depend on them.
a, b = integers(18, 40):abs() + 1, integers(40, 20):abs() + 1
a[{2, 40}] = 0 / 0
a[{18, 1}] = math.huge
local c = a:matmul(b)
check(c[2]:isnan():all():item(), "a row of NaN")
check(c[18]:eq(math.huge):all():item(), "a row of infinity")
check(torch.cat({c:narrow(1, 1, 1), c:narrow(1, 3, 15)}):isfinite():all():item(), "rows beside them")

-- Each row is a convolution: batch, groups, input and output channels per group, height, width, kernel, stride,
-- padding, dilation. Each convolution is computed with and without a bias.
for _, case in ipairs {{2, 1, 16, 16, 9, 11, {3, 3}, 1, 1, 1}, {1, 2, 20, 17, 8, 7, {3, 2}, 1, {0, 1}, 1},
                       {3, 1, 64, 16, 9, 8, {1, 1}, 1, 0, 1}, {2, 3, 20, 40, 20, 31, {1, 1}, 1, 0, 1},
                       {2, 1, 70, 33, 9, 8, {1, 1}, 2, 0, 1}, {5, 1, 6, 7, 8, 8, {1, 1}, 1, 0, 1},
                       {2, 1, 9, 24, 15, 17, {3, 3}, 2, 1, 1}, {2, 1, 16, 18, 12, 10, {3, 3}, 1, 2, 2},
                       {1, 1, 8, 16, 7, 6, {5, 5}, 1, 4, 1}, {1, 1, 24, 40, 60, 70, {5, 3}, 1, 1, 1},
                       {1, 1, 3, 64, 20, 20, {7, 7}, {2, 1}, 3, 1}, {1, 1, 40, 40, 3, 3, {3, 3}, 1, 0, 1}} do
   local batch, groups, channels, rows, height, width, kernel, stride, padding, dilation = table.unpack(case)
   local x = integers(batch, groups * channels, height, width)
   local weight = integers(groups * rows, channels, kernel[1], kernel[2])
   local bias = integers(groups * rows)
   local options = {stride = stride, padding = padding, dilation = dilation, groups = groups}
   local results = {}
   for _, dtype in ipairs {"bfloat16", "float64"} do
      local X, W, B = x:to(dtype):detach():requires_grad_(), weight:to(dtype):detach():requires_grad_(), bias:to(dtype)
      local y = torch.nn.functional.conv2d(X, W, B, options)
      torch.manual_seed(2)
      y:backward(torch.randint(-8, 9, y.shape):to(dtype))
      results[dtype] = {y, X.grad, W.grad, torch.nn.functional.conv2d(X, W, nil, options)}
   end
   for i, name in ipairs {"conv2d", "its input's gradient", "its weight's gradient", "conv2d without bias"} do
      compare(results.bfloat16[i], results.float64[i], name, "of", channels, rows, height, width)
   end
end
-- Each row is an attention: batch, heads, heads of keys, queries, keys, size, size of values, causal, masked. Weights
-- may be rounded to bfloat16 before they are multiplied, so a result may have an error of a few units in the last place
-- of the largest element.
local function formula(q, k, v, mask)
   local scores = q:matmul(k:transpose(-2, -1)) / math.sqrt(q:size(-1))
   if mask then scores = scores + mask end
   return scores:softmax(-1):matmul(v)
end

local function near(result, right, ...)
   local bound = 6 * 2 ^ -8 * right:abs():max():item()
   check((result:double() - right):abs():max():item() <= bound, ...)
end

for _, case in ipairs {{1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 5, 97, 16, 17}, {1, 4, 2, 97, 193, 64, 70},
                       {1, 2, 1, 200, 31, 7, 130}, {1, 2, 2, 96, 288, 140, 16},
                       {2, 3, 3, 130, 130, 33, 33, causal = true},
                       {2, 2, 2, 40, 110, 64, 64, masked = true}, {1, 1, 1, 17, 100, 64, 48}} do
   local batch, heads, kv_heads, queries, keys, size, values = table.unpack(case)
   local mask
   if case.causal then mask = torch.full({queries, keys}, -math.huge, {dtype = "float64"}):triu(1) end
   if case.masked then mask = torch.randn(batch, 1, queries, keys, {dtype = "bfloat16"}) end
   local narrow, wide, whole = {}, {}, {}
   for i, shape in ipairs {{batch, queries, heads, size}, {batch, keys, kv_heads, size},
                          {batch, keys, kv_heads, values}} do
      narrow[i] = torch.randn(shape):bfloat16():requires_grad_()
      wide[i] = narrow[i]:detach():double():requires_grad_()
      whole[i] = wide[i]:transpose(2, 3)
      if i > 1 then whole[i] = whole[i]:repeat_interleave(heads // kv_heads, 2) end
   end
   local options = {is_causal = case.causal, enable_gqa = heads ~= kv_heads, attn_mask = case.masked and mask}
   local result = torch.nn.functional.scaled_dot_product_attention(narrow[1]:transpose(2, 3),
      narrow[2]:transpose(2, 3), narrow[3]:transpose(2, 3), options)
   local expected = formula(whole[1], whole[2], whole[3], mask and mask:double())
   near(result, expected, "attention", table.unpack(case))
   local g = torch.randn(batch, heads, queries, values):bfloat16()
   local right = {torch.autograd.grad(expected, wide, {grad_outputs = g:double()})}
   for i, grad in ipairs {torch.autograd.grad(result, narrow, {grad_outputs = g})} do
      near(grad, right[i], "attention's gradient", i, table.unpack(case))
   end
end
print(isa, count, table.concat(wrong, ", "))
