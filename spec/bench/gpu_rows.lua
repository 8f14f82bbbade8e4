-- gpu_rows.lua - the rows that bench.lua measures on a GPU. They have the same form as those in rows.lua, and sizes
-- that keep a whole GPU busy.

local rows = {}

local group -- the group that the following rows belong to

local function row(name, setup, lua, python, bytes)
   if type(setup) == "string" then setup = {setup, setup} end
   rows[#rows + 1] = {group = group, name = name, setup = setup, lua = lua, python = python or lua, bytes = bytes}
end

-- The host's cost of one call, including the launch: the device is almost idle. ------------

group = "overhead"

local small = {"local a, b = torch.randn(8, 8), torch.randn(8, 8)", "a, b = torch.randn(8, 8), torch.randn(8, 8)"}
row("a + b", small, "local c = a + b", "c = a + b")
row("a:sum(2)", small, "local c = a:sum(2)", "c = a.sum(1)")
row("a:matmul(b)", small, "local c = a:matmul(b)", "c = a.matmul(b)")
row("a:exp()", small, "local c = a:exp()", "c = a.exp()")
local mlp = {[[local model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
local x, y = torch.randn(32, 64), torch.randint(1, 11, {32})
local adam = torch.optim.Adam(model:parameters())]],
   [[model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
adam = torch.optim.Adam(model.parameters())]]}
row("MLP 64-128-10, batch 32, Adam step", mlp,
   "adam:zero_grad() F.cross_entropy(model(x), y):backward() adam:step()",
   "adam.zero_grad(); F.cross_entropy(model(x), y).backward(); adam.step()")

-- Bandwidth: the last column compares with a copy. ------------------------------------------------

group = "bandwidth"

local M <const> = 64 * 1024 * 1024
local big = {("local a, b = torch.randn(%d), torch.randn(%d)"):format(M, M),
   ("a, b = torch.randn(%d), torch.randn(%d)"):format(M, M)}
local half = {big[1] .. " a, b = a:bfloat16(), b:bfloat16()", big[2] .. "; a, b = a.bfloat16(), b.bfloat16()"}
row("a + b, 64M", big, "local c = a + b", "c = a + b", 12 * M)
row("a:exp(), 64M", big, "local c = a:exp()", "c = a.exp()", 8 * M)
row("a + b, 64M bfloat16", half, "local c = a + b", "c = a + b", 6 * M)
row("F.gelu, 64M bfloat16", half, "local c = F.gelu(a)", "c = F.gelu(a)", 4 * M)
row("to bfloat16, 64M", big, "local c = a:bfloat16()", "c = a.bfloat16()", 6 * M)
row("sum, 64M", big, "local c = a:sum()", "c = a.sum()", 4 * M)

local matrix = {"local a = torch.randn(65536, 1024) local w, b = torch.ones(1024), torch.zeros(1024)",
   "a = torch.randn(65536, 1024); w, b = torch.ones(1024), torch.zeros(1024)"}
row("a + row, 65536x1024", matrix, "local c = a + b", "c = a + b", 8 * M)
row("sum of rows", matrix, "local c = a:sum(2)", "c = a.sum(1)", 4 * M)
row("sum of columns", matrix, "local c = a:sum(1)", "c = a.sum(0)", 4 * M)
row("amax of rows", matrix, "local c = a:amax(2)", "c = a.amax(1)", 4 * M)
row("argmax of rows", matrix, "local c = a:argmax(2)", "c = a.argmax(1)", 4 * M)
row("softmax", matrix, "local c = a:softmax(2)", "c = a.softmax(1)", 8 * M)
row("layer_norm", matrix, "local c = F.layer_norm(a, {1024}, w, b)", "c = F.layer_norm(a, (1024,), w, b)", 8 * M)
local beside = {matrix[1] .. " local r = torch.randn(65536, 1024)", matrix[2] .. "; r = torch.randn(65536, 1024)"}
row("layer_norm of a sum", beside, "local c, s = F.add_layer_norm(a, r, {1024}, w, b)",
   "s = a + r; c = F.layer_norm(s, (1024,), w, b)", 16 * M)
row("rms_norm of a sum", beside, "local c, s = F.add_rms_norm(a, r, {1024}, w)",
   "s = a + r; c = F.rms_norm(s, (1024,), w)", 16 * M)
row("swiglu", beside, "local c = F.swiglu(a, r)", "c = a * F.silu(r)", 12 * M)
row("dropout_add", beside, "local c = F.dropout_add(a, r, 0.1)", "c = r + F.dropout(a, 0.1)", 12 * M)
local places = {[[local q = torch.randn(16, 16, 4096, 64)
local cos, sin = torch.rand(4096, 32), torch.rand(4096, 32)]], [[
q = torch.randn(16, 16, 4096, 64)
cos, sin = torch.rand(4096, 32), torch.rand(4096, 32)
def rotary(q):
    a, b = q[..., 0::2], q[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)]]}
row("rotary_embedding", places, "local c = F.rotary_embedding(q, cos, sin)", "c = rotary(q)", 8 * M)
row("cumsum of rows", matrix, "local c = a:cumsum(2)", "c = a.cumsum(1)", 8 * M)
row("transposed copy, 65536x1024", matrix, "local c = a:t():contiguous()", "c = a.t().contiguous()", 8 * M)
row("cross_entropy, 16384x50257, forward and backward", {
   "local a = torch.randn(16384, 50257, {requires_grad = true}) local y = torch.randint(1, 50258, {16384})",
   "a = torch.randn(16384, 50257, requires_grad=True); y = torch.randint(0, 50257, (16384,))"},
   "a.grad = nil F.cross_entropy(a, y):backward()", "a.grad = None; F.cross_entropy(a, y).backward()")
row("embedding 65536 of 50257x768", {
   "local t = torch.randn(50257, 768) local i = torch.randint(1, 50258, {65536})",
   "t = torch.randn(50257, 768); i = torch.randint(0, 50257, (65536,))"},
   "local c = F.embedding(i, t)", "c = F.embedding(i, t)", 2 * 65536 * 768 * 4)
row("randn, 64M", big, ("local c = torch.randn(%d)"):format(M), ("c = torch.randn(%d)"):format(M))

-- Arithmetic. ------------------------------------------------------------------------------------------

group = "products"

local function square(n, dtype)
   return {("local a, b = torch.randn(%d, %d):%s(), torch.randn(%d, %d):%s()"):format(n, n, dtype, n, n,
         dtype), ("a, b = torch.randn(%d, %d).%s(), torch.randn(%d, %d).%s()"):format(n, n, dtype, n, n,
         dtype)}
end
row("matmul 8192, bfloat16", square(8192, "bfloat16"), "local c = a:matmul(b)", "c = a.matmul(b)")
row("matmul 4096, float32", square(4096, "float"), "local c = a:matmul(b)", "c = a.matmul(b)")
row("matmul 512, bfloat16", square(512, "bfloat16"), "local c = a:matmul(b)", "c = a.matmul(b)")
local image = {[[local conv = nn.Conv2d(64, 64, 3, {padding = 1}):bfloat16()
local x = torch.randn(64, 64, 56, 56):bfloat16()]],
   "conv = nn.Conv2d(64, 64, 3, padding=1).bfloat16(); x = torch.randn(64, 64, 56, 56).bfloat16()"}
row("conv2d 64x64x56x56, 64 of 3x3, bfloat16", image, "local c = conv(x)", "c = conv(x)")
row("the same, forward and backward", image, "conv(x):sum():backward()", "conv(x).sum().backward()")
local layer = {"local layer = nn.Linear(768, 3072):bfloat16() local x = torch.randn(16384, 768):bfloat16()",
   "layer = nn.Linear(768, 3072).bfloat16(); x = torch.randn(16384, 768).bfloat16()"}
row("linear 16384x768, 3072, bias, bfloat16", layer, "local c = layer(x)", "c = layer(x)")
local heads = {[[local q = torch.randn(16, 12, 1024, 64):bfloat16()]], "q = torch.randn(16, 12, 1024, 64).bfloat16()"}
row("attention 16x12x1024x64, causal, bfloat16", heads,
   "local c = F.scaled_dot_product_attention(q, q, q, {is_causal = true})",
   "c = F.scaled_dot_product_attention(q, q, q, is_causal=True)")
heads = {heads[1] .. " q:requires_grad_()", heads[2] .. "; q.requires_grad_()"}
row("the same, forward and backward", heads,
   "F.scaled_dot_product_attention(q, q, q, {is_causal = true}):sum():backward()",
   "F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()")
local cache = {"local q = torch.randn(8, 32, 1, 128):bfloat16() local k = torch.randn(8, 32, 8192, 128):bfloat16()",
   "q, k = torch.randn(8, 32, 1, 128).bfloat16(), torch.randn(8, 32, 8192, 128).bfloat16()"}
row("attention of one query, 8x32x8192x128", cache, "local c = F.scaled_dot_product_attention(q, k, k)",
   "c = F.scaled_dot_product_attention(q, k, k)", 2 * 8 * 32 * 8192 * 128 * 2)
cache = {[[local q, k, v = torch.randn(8, 32, 1, 128):bfloat16(), torch.randn(8, 8, 8192, 128):bfloat16(),
   torch.randn(8, 8, 8192, 128):bfloat16()]], [[q = torch.randn(8, 32, 1, 128).bfloat16()
k, v = torch.randn(8, 8, 8192, 128).bfloat16(), torch.randn(8, 8, 8192, 128).bfloat16()]]}
row("the same, 8 heads of other keys and values", cache,
   "local c = F.scaled_dot_product_attention(q, k, v, {enable_gqa = true})",
   "c = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)", 2 * 8 * 8 * 8192 * 128 * 2)

group = "order"

local list = {"local a = torch.randn(10000000)", "a = torch.randn(10000000)"}
row("sort 10M floats", list, "local v, i = a:sort()", "v, i = a.sort()")
row("topk 100 of 10M", list, "local v, i = a:topk(100)", "v, i = a.topk(100)")

return rows
