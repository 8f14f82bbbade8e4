-- rows.lua - the rows that bench.lua measures. A row has the same few lines in Lua and in Python. The lines of `setup`
-- run once, the lines of `lua` and `python` many times; all can use torch, nn and F (nn.functional).
--
-- A row: {group =, name =, threads = 1 for rows that need a single thread,
--         setup = {lua text, Python text}, lua =, python =, bytes =}
--
-- `bytes`, for memory-bound rows, is the smallest number of bytes that a run must read and write: each operator
-- reads its operands and writes its result once; broadcast operands do not count. So `a * 2 + b` moves 4 + 4
-- bytes for an element of the product and 4 + 4 + 4 for the sum. A processor also reads a cache line before
-- first writing to it; these reads are not counted, neither here nor in the copy with which the row is
-- compared.

local rows = {}

local group -- the group that the following rows belong to

-- Adds a row. If Python's version of a text is missing, the Lua text is also valid Python.
local function row(name, setup, lua, python, bytes)
   if type(setup) == "string" then setup = {setup, setup} end
   rows[#rows + 1] = {group = group.name, threads = group.threads, name = name, setup = setup,
      lua = lua, python = python or lua, bytes = bytes}
end

-- One call with small inputs, which measures the overhead around the arithmetic. -----

group = {name = "overhead", threads = 1}

local small = {
   "local a, b = torch.randn(8, 8), torch.randn(8, 8) local v = a:view(64)",
   "a, b = torch.randn(8, 8), torch.randn(8, 8); v = a.view(64)",
}
local small_grad = {
   small[1] .. " local w = torch.randn(8, 8, {requires_grad = true}) local bias = torch.zeros(8)",
   small[2] .. "; w = torch.randn(8, 8, requires_grad=True); bias = torch.zeros(8)",
}

row("a + b", small, "local c = a + b", "c = a + b")
row("1000 times a + b", small, "for _ = 1, 1000 do local c = a + b end", "for _ in range(1000): c = a + b")
row("1000 times a + b, profiled", small,
    "torch.profiler.profile({}, function() for _ = 1, 1000 do local c = a + b end end)",
    "with torch.profiler.profile():\n    for _ in range(1000): c = a + b")
row("1000 times a + b, profiled, shapes", small,
    "torch.profiler.profile({record_shapes = true}, function() for _ = 1, 1000 do local c = a + b end end)",
    "with torch.profiler.profile(record_shapes=True):\n    for _ in range(1000): c = a + b")
row("1000 times a + b, profiled, stacks", small,
    "torch.profiler.profile({with_stack = true}, function() for _ = 1, 1000 do local c = a + b end end)",
    "with torch.profiler.profile(with_stack=True):\n    for _ in range(1000): c = a + b")
row("a + b, gradient recorded", small_grad, "local c = a + w", "c = a + w")
row("a * 2.0", small, "local c = a * 2.0", "c = a * 2.0")
row("a:add(b)", small, "local c = a:add(b)", "c = a.add(b)")
row("a:add_(b)", small, "a:add_(b)", "a.add_(b)")
row("a:view(64)", small, "local c = a:view(64)", "c = a.view(64)")
row("a:t()", small, "local c = a:t()", "c = a.t()")
row("a[{3, 4}]", small, "local c = a[{3, 4}]", "c = a[2, 3]")
row("a[3]", small, "local c = a[3]", "c = a[2]")
row("a[{{}, {2, 5}}]", small, "local c = a[{{}, {2, 5}}]", "c = a[:, 1:5]")
row("a[{3, 4}] = 1.5", small, "a[{3, 4}] = 1.5", "a[2, 3] = 1.5")
row("v[3]:item()", small, "local c = v[3]:item()", "c = v[2].item()")
row("a.shape", small, "local c = a.shape", "c = a.shape")
row("a:sum()", small, "local c = a:sum()", "c = a.sum()")
row("a:sum(2)", small, "local c = a:sum(2)", "c = a.sum(1)")
row("a:max()", small, "local c = a:max()", "c = a.max()")
row("a:matmul(b)", small, "local c = a:matmul(b)", "c = a.matmul(b)")
row("a:relu()", small, "local c = a:relu()", "c = a.relu()")
row("a:exp()", small, "local c = a:exp()", "c = a.exp()")
row("a:gt(0)", small, "local c = a:gt(0)", "c = a.gt(0)")
row("torch.where", {small[1] .. " local m = a:gt(0)", small[2] .. "; m = a.gt(0)"},
   "local c = torch.where(m, a, b)", "c = torch.where(m, a, b)")
row("torch.cat {a, b}", small, "local c = torch.cat {a, b}", "c = torch.cat((a, b))")
row("torch.stack {a, b}", small, "local c = torch.stack {a, b}", "c = torch.stack((a, b))")
row("torch.zeros(8, 8)", small, "local c = torch.zeros(8, 8)", "c = torch.zeros(8, 8)")
row("torch.randn(8, 8)", small, "local c = torch.randn(8, 8)", "c = torch.randn(8, 8)")
row("a:to('float64')", small, "local c = a:to('float64')", "c = a.to(torch.float64)")
row("a:clone()", small, "local c = a:clone()", "c = a.clone()")
row("softmax", small, "local c = F.softmax(a, 2)", "c = F.softmax(a, 1)")
row("layer_norm", small, "local c = F.layer_norm(a, {8})", "c = F.layer_norm(a, (8,))")
row("linear", small_grad, "local c = F.linear(a, b, bias)", "c = F.linear(a, b, bias)")
row("linear, gradient recorded", small_grad, "local c = F.linear(a, w, bias)", "c = F.linear(a, w, bias)")
row("conv2d 1x1x8x8", {
   "local x, k = torch.randn(1, 1, 8, 8), torch.randn(1, 1, 3, 3)",
   "x, k = torch.randn(1, 1, 8, 8), torch.randn(1, 1, 3, 3)",
}, "local c = F.conv2d(x, k)", "c = F.conv2d(x, k)")
row("(a * w):sum():backward()", small_grad, "(a * w):sum():backward()", "(a * w).sum().backward()")
row("a:sort()", small, "local c = a:sort()", "c = a.sort()")
row("a:topk(3)", small, "local c = a:topk(3)", "c = a.topk(3)")
row("gather", {small[1] .. " local i = torch.randint(1, 9, {8, 8})",
   small[2] .. "; i = torch.randint(0, 8, (8, 8))"}, "local c = a:gather(1, i)",
      "c = a.gather(0, i)")
row("embedding", {small[1] .. " local i = torch.randint(1, 9, {4})",
   small[2] .. "; i = torch.randint(0, 8, (4,))"}, "local c = F.embedding(i, a)",
      "c = F.embedding(i, a)")

-- A small model, as in first programs and in reinforcement learning. --------------------

group = {name = "mlp", threads = 1}

local mlp = {[[
local net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
local x, y = torch.randn(1, 16), torch.randint(1, 5, {1})
local batch, labels = torch.randn(32, 16), torch.randint(1, 5, {32})
local sgd = torch.optim.SGD(net:parameters(), {lr = 0.01})
local adam = torch.optim.Adam(net:parameters(), {lr = 0.001})
local function step(optimizer, inputs, targets)
   optimizer:zero_grad()
   F.cross_entropy(net(inputs), targets):backward()
   optimizer:step()
end]], [[
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
x, y = torch.randn(1, 16), torch.randint(0, 4, (1,))
batch, labels = torch.randn(32, 16), torch.randint(0, 4, (32,))
sgd = torch.optim.SGD(net.parameters(), lr=0.01)
adam = torch.optim.Adam(net.parameters(), lr=0.001)
def step(optimizer, inputs, targets):
    optimizer.zero_grad()
    F.cross_entropy(net(inputs), targets).backward()
    optimizer.step()]]}

row("MLP 16-32-4, forward", mlp, "local c = net(x)", "c = net(x)")
row("MLP, forward without gradients", mlp, "local _ <close> = torch.no_grad() local c = net(x)",
   "with torch.no_grad(): c = net(x)")
row("MLP, training step, SGD", mlp, "step(sgd, x, y)")
row("MLP, training step of 32, SGD", mlp, "step(sgd, batch, labels)")
row("MLP, training step of 32, Adam", mlp, "step(adam, batch, labels)")

row("MLP 64-128-10, training step of 32, Adam", {[[
local net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
local x, y = torch.randn(32, 64), torch.randint(1, 11, {32})
local adam = torch.optim.Adam(net:parameters())]], [[
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
adam = torch.optim.Adam(net.parameters())]]},
   "adam:zero_grad() F.cross_entropy(net(x), y):backward() adam:step()",
   "adam.zero_grad(); F.cross_entropy(net(x), y).backward(); adam.step()")

-- Rows for optimizer steps on the parameters of the model above, and on many large parameters. PyTorch uses its fused
-- optimizers if it has them.

group = {name = "optim"}

local sets = {
   small = {"{{128, 64}, {128}, {10, 128}, {10}}", "[(128, 64), (128,), (10, 128), (10,)]"},
   large = {"sizes(48, 512, 384)", "[(512, 384)] * 48 + [(384,)] * 48"},
}

-- Returns the setup text, which makes parameters with gradients and an optimizer `o` for them.
local function of_parameters(set, lua, python)
   return {[[
local function sizes(n, a, b)
   local list = {}
   for i = 1, n do list[i], list[n + i] = {a, b}, {b} end
   return list
end
local params = {}
for i, size in ipairs(]] .. sets[set][1] .. [[) do
   params[i] = torch.randn(size):requires_grad_()
   params[i].grad = torch.randn(size)
end
local o = torch.optim.]] .. lua, [[
params = [torch.randn(size, requires_grad=True) for size in ]] .. sets[set][2] .. [[]
for p in params: p.grad = torch.randn(p.shape)
o = torch.optim.]] .. python}
end

for _, set in ipairs {"small", "large"} do
   local title = set == "small" and "10K" or "9.5M"
   for _, o in ipairs {
      {"SGD", "{lr = 1e-3}", "lr=1e-3, fused=True"},
      {"SGD", "{lr = 1e-3, momentum = 0.9}", "lr=1e-3, momentum=0.9, fused=True"},
      {"Adam", "{lr = 1e-3}", "lr=1e-3, fused=True"}, {"Adam", "{lr = 1e-3}", "lr=1e-3"},
      {"AdamW", "{amsgrad = true}", "amsgrad=True, fused=True"},
      {"RMSprop", "{lr = 1e-3}", "lr=1e-3"}, {"Adagrad", "{lr = 1e-3}", "lr=1e-3, fused=True"},
      {"NAdam", "{lr = 1e-3}", "lr=1e-3"}, {"Adadelta", "{lr = 1}", "lr=1"},
   } do
      local setup = of_parameters(set, ("%s(params, %s)"):format(o[1], o[2]), ("%s(params, %s)"):format(o[1], o[3]))
      row(("%s %s, step of %s"):format(o[1], o[3], title), setup, "o:step()", "o.step()")
   end
   row("clip_grad_norm_ of " .. title, of_parameters(set, "SGD(params)", "SGD(params)"),
      "nn.utils.clip_grad_norm_(params, 1)", "nn.utils.clip_grad_norm_(params, 1)")
   local scaled = of_parameters(set, "SGD(params)", "SGD(params)")
   scaled[1] = scaled[1] .. [[

local grads, found, one = {}, torch.zeros(1), torch.ones(1)
for i, p in ipairs(params) do grads[i] = p.grad end]]
   scaled[2] = scaled[2] .. "\ngrads, found, one = [p.grad for p in params], torch.zeros(1), torch.ones(1)"
   row("unscale and look for infinities in " .. title, scaled,
      "torch._amp_foreach_non_finite_check_and_unscale_(grads, found, one)",
      "torch._amp_foreach_non_finite_check_and_unscale_(grads, found, one)")
end

-- Elementwise -----------------------------------------------------------------------------------

group = {name = "pointwise"}

for _, size in ipairs {{"1K", 32}, {"64K", 256}, {"4M", 2048}} do
   local n = size[2]
   local setup = {
      ("local a, b, c = torch.randn(%d, %d), torch.randn(%d, %d), torch.randn(%d, %d) " ..
       "local at, line, column = b:t(), torch.randn(%d), torch.randn(%d, 1)"):format(
         n, n, n, n, n, n, n, n),
      ("a, b, c = torch.randn(%d, %d), torch.randn(%d, %d), torch.randn(%d, %d)\n" ..
       "at, line, column = b.t(), torch.randn(%d), torch.randn(%d, 1)"):format(
         n, n, n, n, n, n, n, n),
   }
   -- Adds a row; `moved` is the number of bytes read and written per element.
   local function at(name, lua, python, moved)
      row(name .. ", " .. size[1], setup, lua, python, size[1] == "4M" and moved and moved * n * n)
   end
   at("a + b", "local r = a + b", "r = a + b", 12)
   at("a + b transposed", "local r = a + at", "r = a + at")
   at("a + row", "local r = a + line", "r = a + line", 8)
   at("a + column", "local r = a + column", "r = a + column", 8)
   at("a:add_(b)", "a:add_(b)", "a.add_(b)", 12)
   at("a * 2 + b", "local r = a * 2 + b", "r = a * 2 + b", 20)
   at("(a * b + c):relu()", "local r = (a * b + c):relu()", "r = (a * b + c).relu()", 32)
   at("a:exp()", "local r = a:exp()", "r = a.exp()", 8)
   at("b:t():exp()", "local r = at:exp()", "r = at.exp()", 8)
   at("a:tanh()", "local r = a:tanh()", "r = a.tanh()", 8)
   at("a:sigmoid() * b", "local r = a:sigmoid() * b", "r = a.sigmoid() * b", 20)
   at("gelu", "local r = F.gelu(a)", "r = F.gelu(a)", 8)
   at("a:abs():log()", "local r = a:abs():log()", "r = a.abs().log()", 16)
   at("a:sqrt()", "local r = a:sqrt()", "r = a.sqrt()", 8)
   at("a:abs() ^ 1.5", "local r = a:abs() ^ 1.5", "r = a.abs() ** 1.5")
   at("torch.where(a > b)", "local r = torch.where(a:gt(b), a, b)", "r = torch.where(a > b, a, b)", 22)
   at("clamp", "local r = a:clamp(-1, 1)", "r = a.clamp(-1, 1)", 8)
end

-- Reductions ------------------------------------------------------------------------------------

group = {name = "reduce"}

for _, size in ipairs {{"64K", 256}, {"4M", 2048}} do
   local n = size[2]
   local moved = size[1] == "4M" and 4 * n * n
   local setup = {("local a = torch.randn(%d, %d)"):format(n, n), ("a = torch.randn(%d, %d)"):format(n, n)}
   for _, op in ipairs {"sum", "mean", "amax", "var", "norm"} do
      for _, dim in ipairs {{"all", "", ""}, {"first", "1", "0"}, {"last", "2", "1"}} do
         local lua, python = dim[2], dim[3]
         if op == "norm" and lua ~= "" then lua, python = "2, " .. lua, "2, " .. python end
         row(("%s over %s, %s"):format(op, dim[1], size[1]), setup,
            ("local r = a:%s(%s)"):format(op, lua), ("r = a.%s(%s)"):format(op, python), moved)
      end
   end
   row("argmax over last, " .. size[1], setup, "local r = a:argmax(2)", "r = a.argmax(1)", moved)
   row("cumsum over last, " .. size[1], setup, "local r = a:cumsum(2)", "r = a.cumsum(1)", moved and 2 * moved)
   row("logsumexp over last, " .. size[1], setup, "local r = a:logsumexp(2)", "r = a.logsumexp(1)")
end

-- Rows of 1024 ----------------------------------------------------------------------------------

group = {name = "norm"}

local wide = {[[
local a = torch.randn(4096, 1024)
local w, b = torch.ones(1024, {requires_grad = true}), torch.zeros(1024, {requires_grad = true})
local x = torch.randn(4096, 1024, {requires_grad = true})
local g = torch.randn(4096, 1024)]], [[
a = torch.randn(4096, 1024)
w, b = torch.ones(1024, requires_grad=True), torch.zeros(1024, requires_grad=True)
x = torch.randn(4096, 1024, requires_grad=True)
g = torch.randn(4096, 1024)]]}

row("softmax 4096x1024", wide, "local r = F.softmax(a, 2)", "r = F.softmax(a, 1)")
row("softmax over the first dimension", wide, "local r = F.softmax(a, 1)", "r = F.softmax(a, 0)")
row("softmax, forward and backward", wide, "F.softmax(x, 2):backward(g)", "F.softmax(x, 1).backward(g)")
row("log_softmax 4096x1024", wide, "local r = F.log_softmax(a, 2)", "r = F.log_softmax(a, 1)")
row("layer_norm 4096x1024", wide, "local r = F.layer_norm(a, {1024})", "r = F.layer_norm(a, (1024,))")
row("layer_norm, forward and backward", wide, "F.layer_norm(x, {1024}, w, b):backward(g)",
   "F.layer_norm(x, (1024,), w, b).backward(g)")
-- Each of these rows compares one pass over memory in tlua with several operators in PyTorch.
local two = {wide[1] .. [[

local r, y = torch.randn(4096, 1024, {requires_grad = true}), torch.randn(4096, 1024)
local cos, sin = torch.rand(1024, 32), torch.rand(1024, 32)
local q = torch.randn(4, 16, 1024, 64, {requires_grad = true})
local gq = torch.randn(4, 16, 1024, 64)]], wide[2] .. [[

r, y = torch.randn(4096, 1024, requires_grad=True), torch.randn(4096, 1024)
cos, sin = torch.rand(1024, 32), torch.rand(1024, 32)
q = torch.randn(4, 16, 1024, 64, requires_grad=True)
gq = torch.randn(4, 16, 1024, 64)
def add_layer_norm(x, r):
    s = x + r
    return F.layer_norm(s, (1024,), w, b), s
def add_rms_norm(x, r):
    s = x + r
    return F.rms_norm(s, (1024,), w), s
def rotary(q):
    a, b = q[..., 0::2], q[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
def halves(q):
    return q * torch.cat((cos, cos), -1) + torch.cat((-q[..., 32:], q[..., :32]), -1) * torch.cat((sin, sin), -1)]]}
local both = "torch.autograd.backward({n, s}, {g, g})"
local both_python = "torch.autograd.backward((n, s), (g, g))"
row("layer_norm of a sum, forward and backward", two,
   "local n, s = F.add_layer_norm(x, r, {1024}, w, b) " .. both,
   "n, s = add_layer_norm(x, r); " .. both_python)
row("rms_norm of a sum, forward and backward", two,
   "local n, s = F.add_rms_norm(x, r, {1024}, w) " .. both,
   "n, s = add_rms_norm(x, r); " .. both_python)
row("swiglu 4096x1024", two, "local c = F.swiglu(a, y)", "c = a * F.silu(y)")
row("swiglu, forward and backward", two, "F.swiglu(x, r):backward(g)", "(x * F.silu(r)).backward(g)")
row("swiglu of halves, forward and backward", two,
   "F.swiglu(x:view(2048, 2048)):backward(g[{{1, 2048}}])", [[
u, v = x.view(2048, 2048).chunk(2, 1); (u * F.silu(v)).backward(g[:2048])]])
row("dropout, forward and backward", two, "F.dropout(x, 0.1):backward(g)", "F.dropout(x, 0.1).backward(g)")
row("dropout_add, forward and backward", two, "F.dropout_add(x, r, 0.1):backward(g)",
   "(r + F.dropout(x, 0.1)).backward(g)")
row("rotary_embedding, forward and backward", two, "F.rotary_embedding(q, cos, sin):backward(gq)",
   "rotary(q).backward(gq)")
row("rotary_embedding of halves, forward and backward", two,
   "F.rotary_embedding(q, cos, sin, false):backward(gq)", "halves(q).backward(gq)")
row("cross_entropy, forward and backward",
   {wide[1] .. " local y = torch.randint(1, 1025, {4096})", wide[2] .. "\ny = torch.randint(0, 1024, (4096,))"},
   "F.cross_entropy(x, y):backward()", "F.cross_entropy(x, y).backward()")

-- Products --------------------------------------------------------------------------------------

group = {name = "matmul"}

for _, n in ipairs {16, 32, 64, 128, 256, 512, 1024, 2048} do
   row(("matmul %d"):format(n), {
      ("local a, b = torch.randn(%d, %d), torch.randn(%d, %d)"):format(n, n, n, n),
      ("a, b = torch.randn(%d, %d), torch.randn(%d, %d)"):format(n, n, n, n),
   }, "local r = a:matmul(b)", "r = a.matmul(b)")
end

for _, s in ipairs {{64, 32}, {64, 64}, {16, 256}, {8, 512}} do
   row(("matmul %dx%dx%d"):format(s[1], s[2], s[2]), {
      ("local a, b = torch.randn(%d, %d, %d), torch.randn(%d, %d, %d)"):format(s[1], s[2], s[2], s[1], s[2], s[2]),
      ("a, b = torch.randn(%d, %d, %d), torch.randn(%d, %d, %d)"):format(s[1], s[2], s[2], s[1], s[2], s[2]),
   }, "local r = a:matmul(b)", "r = a.matmul(b)")
end

for _, n in ipairs {128, 512, 1024} do
   row(("matmul %d, bfloat16"):format(n), {
      ("local a, b = torch.randn(%d, %d):bfloat16(), torch.randn(%d, %d):bfloat16()"):format(n, n, n, n),
      ("a, b = torch.randn(%d, %d).bfloat16(), torch.randn(%d, %d).bfloat16()"):format(n, n, n, n),
   }, "local r = a:matmul(b)", "r = a.matmul(b)")
end

row("matmul 512, transposed", {
   "local a, b = torch.randn(512, 512), torch.randn(512, 512):t()",
   "a, b = torch.randn(512, 512), torch.randn(512, 512).t()",
}, "local r = a:matmul(b)", "r = a.matmul(b)")
row("linear 128x784 to 256, forward and backward", {
   "local x, g = torch.randn(128, 784, {requires_grad = true}), torch.randn(128, 256) " ..
      "local w = torch.randn(256, 784, {requires_grad = true}) " ..
      "local b = torch.randn(256, {requires_grad = true})",
   "x, g = torch.randn(128, 784, requires_grad=True), torch.randn(128, 256)\n" ..
      "w, b = torch.randn(256, 784, requires_grad=True), torch.randn(256, requires_grad=True)",
}, "F.linear(x, w, b):backward(g)", "F.linear(x, w, b).backward(g)")
local ffn = {[[
local x, g = torch.randn(512, 256, {requires_grad = true}), torch.randn(512, 1024)
local w = (torch.randn(1024, 256) / 16):requires_grad_() local b = torch.randn(1024, {requires_grad = true})
local relu, gelu = F.linear_relu, F.linear_gelu]], [[
x, g = torch.randn(512, 256, requires_grad=True), torch.randn(512, 1024)
w, b = (torch.randn(1024, 256) / 16).requires_grad_(), torch.randn(1024, requires_grad=True)
relu = lambda x, w, b: F.relu(F.linear(x, w, b))
gelu = lambda x, w, b: F.gelu(F.linear(x, w, b))]]}
for _, name in ipairs {"relu", "gelu"} do
   row("linear 512x256 to 1024 and " .. name, ffn,
      ("local _ <close> = torch.no_grad() local r = %s(x, w, b)"):format(name),
      ("with torch.no_grad(): r = %s(x, w, b)"):format(name))
   row("linear 512x256 to 1024 and " .. name .. ", forward and backward", ffn, name .. "(x, w, b):backward(g)",
      name .. "(x, w, b).backward(g)")
end
row("matrix 2048 times vector", {
   "local a, b = torch.randn(2048, 2048), torch.randn(2048)",
   "a, b = torch.randn(2048, 2048), torch.randn(2048)",
}, "local r = a:matmul(b)", "r = a.matmul(b)")

-- Attention -------------------------------------------------------------------------------------

group = {name = "attention"}

-- Each row has batch, heads, positions, features of a head, and an option.
for _, s in ipairs {
   {4, 8, 512, 64}, {4, 8, 512, 64, "causal"}, {4, 8, 512, 64, "masked"}, {4, 8, 512, 64, "dropout 0.1"},
   {16, 4, 64, 32}, {1, 2, 2048, 128}, {4, 8, 512, 64, "bfloat16"},
} do
   local b, h, l, d, what = table.unpack(s)
   local shape, name = ("%d, %d, %d, %d"):format(b, h, l, d), ("attention %dx%dx%dx%d"):format(b, h, l, d)
   if what then name = name .. ", " .. what end
   local options = ({causal = {"is_causal = true", "is_causal=True"}, masked = {"attn_mask = m", "attn_mask=m"},
      ["dropout 0.1"] = {"dropout_p = 0.1", "dropout_p=0.1"}})[what] or {"", ""}
   local dtype = what == "bfloat16" and what or "float32"
   local setup = {
      ("local function leaf() return torch.randn(%s, {dtype = '%s'}):requires_grad_() end " ..
       "local q, k, v, g, m = leaf(), leaf(), leaf(), leaf():detach(), torch.randn(%d, %d)"):format(shape, dtype, l, l),
      ("leaf = lambda: torch.randn(%s, dtype=torch.%s).requires_grad_()\n" ..
       "q, k, v, g, m = leaf(), leaf(), leaf(), leaf().detach(), torch.randn(%d, %d)"):format(shape, dtype, l, l),
   }
   local lua = ("F.scaled_dot_product_attention(q, k, v, {%s})"):format(options[1])
   local python = ("F.scaled_dot_product_attention(q, k, v, %s)"):format(options[2])
   row(name, setup, "local _ <close> = torch.no_grad() local r = " .. lua, "with torch.no_grad(): r = " .. python)
   row(name .. ", forward and backward", setup, lua .. ":backward(g)", python .. ".backward(g)")
end

row("Transformer layer 8x64x256, training step", {[[
local layer = nn.TransformerEncoderLayer(256, 4, {dim_feedforward = 1024, batch_first = true})
local x, g = torch.randn(8, 64, 256), torch.randn(8, 64, 256)]], [[
layer = nn.TransformerEncoderLayer(256, 4, dim_feedforward=1024, batch_first=True)
x, g = torch.randn(8, 64, 256), torch.randn(8, 64, 256)]]}, "layer(x):backward(g)", "layer(x).backward(g)")

-- Images ----------------------------------------------------------------------------------------

group = {name = "conv"}

-- Each row has batch, input channels, size, output channels, kernel, stride, padding and groups.
for _, s in ipairs {
   {8, 3, 224, 64, 7, 2, 3, 1}, {8, 64, 56, 64, 3, 1, 1, 1}, {8, 64, 56, 256, 1, 1, 0, 1},
   {8, 128, 28, 128, 3, 1, 1, 1}, {8, 256, 14, 256, 3, 1, 1, 1}, {8, 512, 7, 512, 3, 1, 1, 1},
   {8, 64, 56, 64, 3, 1, 1, 64}, {64, 1, 28, 32, 3, 1, 1, 1}, {64, 32, 8, 64, 3, 1, 1, 1},
} do
   local n, c, size, out, k, stride, padding, groups = table.unpack(s)
   local name = ("conv2d %dx%dx%dx%d, %d of %dx%d%s%s"):format(n, c, size, size, out, k, k,
      stride > 1 and " by " .. stride or "", groups > 1 and ", depthwise" or "")
   local to = (size + 2 * padding - k) // stride + 1
   local sizes = ("%d, %d, %d, %d"):format(n, c, size, size)
   local kernel = ("%d, %d, %d, %d"):format(out, c // groups, k, k)
   local grad = ("%d, %d, %d, %d"):format(n, out, to, to)
   local setup = {
      ("local x, w, g = torch.randn(%s), torch.randn(%s), torch.randn(%s) "):
         format(sizes, kernel, grad) .. "local xg = x:clone():requires_grad_() local wg = w:clone():requires_grad_()",
      ("x, w, g = torch.randn(%s), torch.randn(%s), torch.randn(%s)\n"):
         format(sizes, kernel, grad) .. "xg = x.clone().requires_grad_(); wg = w.clone().requires_grad_()",
   }
   local options = (", %d, %d, 1, %d"):format(stride, padding, groups)
   row(name, setup, "local r = F.conv2d(x, w, nil" .. options .. ")", "r = F.conv2d(x, w, None" .. options .. ")")
   row(name .. ", forward and backward", setup,
      "F.conv2d(xg, wg, nil" .. options .. "):backward(g)",
      "F.conv2d(xg, wg, None" .. options .. ").backward(g)")
end

group = {name = "pool"}

local images = {[[
local x = torch.randn(8, 64, 56, 56)
local xg = x:clone():requires_grad_()
local w, b = torch.ones(64, {requires_grad = true}), torch.zeros(64, {requires_grad = true})
local mean, var = torch.zeros(64), torch.ones(64)
local g, gp = torch.randn(8, 64, 56, 56), torch.randn(8, 64, 28, 28)]], [[
x = torch.randn(8, 64, 56, 56)
xg = x.clone().requires_grad_()
w, b = torch.ones(64, requires_grad=True), torch.zeros(64, requires_grad=True)
mean, var = torch.zeros(64), torch.ones(64)
g, gp = torch.randn(8, 64, 56, 56), torch.randn(8, 64, 28, 28)]]}

row("max_pool2d 2x2", images, "local r = F.max_pool2d(x, 2)", "r = F.max_pool2d(x, 2)")
row("max_pool2d 3x3 by 2", images, "local r = F.max_pool2d(x, 3, 2, 1)", "r = F.max_pool2d(x, 3, 2, 1)")
row("max_pool2d 3x3 by 2, forward and backward", images, "F.max_pool2d(xg, 3, 2, 1):backward(gp)",
   "F.max_pool2d(xg, 3, 2, 1).backward(gp)")
row("avg_pool2d 2x2", images, "local r = F.avg_pool2d(x, 2)", "r = F.avg_pool2d(x, 2)")
row("avg_pool2d 2x2, forward and backward", images, "F.avg_pool2d(xg, 2):backward(gp)",
   "F.avg_pool2d(xg, 2).backward(gp)")
row("adaptive_avg_pool2d to 1", images, "local r = F.adaptive_avg_pool2d(x, 1)", "r = F.adaptive_avg_pool2d(x, 1)")
row("batch_norm, evaluation", images, "local r = F.batch_norm(x, mean, var)", "r = F.batch_norm(x, mean, var)")
row("batch_norm, training, forward and backward", images,
   "F.batch_norm(xg, mean, var, w, b, true):backward(g)",
      "F.batch_norm(xg, mean, var, w, b, True).backward(g)")
row("interpolate x2, bilinear", images,
   "local r = F.interpolate(x, {scale_factor = 2, mode = 'bilinear'})",
   "r = F.interpolate(x, scale_factor=2, mode='bilinear')")

-- Sequences -------------------------------------------------------------------------------------

group = {name = "rnn"}

-- Each row has the class, the number of layers of width 128, the steps and the batch size.
for _, s in ipairs {{"LSTM", 2, 64, 16}, {"GRU", 2, 64, 16}, {"RNN", 2, 64, 16}, {"LSTM", 1, 100, 1}} do
   local setup = {
      ("local net, x = nn.%s(128, 128, %d), torch.randn(%d, %d, 128) "):format(s[1], s[2], s[3], s[4]) ..
         "local sgd = torch.optim.SGD(net:parameters(), {lr = 0.01})",
      ("net, x = nn.%s(128, 128, %d), torch.randn(%d, %d, 128)\n"):format(s[1], s[2], s[3], s[4]) ..
         "sgd = torch.optim.SGD(net.parameters(), lr=0.01)",
   }
   local name = ("%s %d x 128, %d steps, batch %d"):format(table.unpack(s))
   row(name .. ", forward", setup, "local _ <close> = torch.no_grad() local y = net(x)",
      "with torch.no_grad(): y = net(x)")
   row(name .. ", training step", setup,
      "sgd:zero_grad() local y = net(x) y:square():mean():backward() sgd:step()",
      "sgd.zero_grad(); y = net(x)[0]; y.square().mean().backward(); sgd.step()")
end

local cell = {"local cell, x = nn.LSTMCell(128, 128), torch.randn(16, 128)",
   "cell, x = nn.LSTMCell(128, 128), torch.randn(16, 128)"}
row("LSTMCell 128, batch 16, forward", cell, "local h, c = cell(x)", "h, c = cell(x)")
row("LSTMCell 128, batch 16, forward and backward", cell, "local h = cell(x) h:sum():backward()",
   "h, c = cell(x); h.sum().backward()")

-- Positions -------------------------------------------------------------------------------------

group = {name = "index"}

local lookup = {[[
local table = torch.randn(50000, 256, {requires_grad = true})
local plain = table:detach()
local i = torch.randint(1, 50001, {8192})
local g = torch.randn(8192, 256)
local square = torch.randn(2048, 2048)
local places = torch.randint(1, 2049, {2048, 2048})
local target, mask = torch.zeros(2048, 2048), square:gt(1)]], [[
table = torch.randn(50000, 256, requires_grad=True)
plain = table.detach()
i = torch.randint(0, 50000, (8192,))
g = torch.randn(8192, 256)
square = torch.randn(2048, 2048)
places = torch.randint(0, 2048, (2048, 2048))
target, mask = torch.zeros(2048, 2048), square > 1]]}

row("embedding, 8192 of 50000x256", lookup, "local r = F.embedding(i, plain)", "r = F.embedding(i, plain)")
row("embedding, forward and backward", lookup, "table.grad = nil F.embedding(i, table):backward(g)",
   "table.grad = None; F.embedding(i, table).backward(g)")
row("index_select rows", lookup, "local r = plain:index_select(1, i)", "r = plain.index_select(0, i)")
row("x[i]", lookup, "local r = plain[i]", "r = plain[i]")
row("gather 4M", lookup, "local r = square:gather(1, places)", "r = square.gather(0, places)")
row("gather 4M, last dimension", lookup, "local r = square:gather(2, places)", "r = square.gather(1, places)")
row("scatter_add 4M", lookup, "target:scatter_add_(1, places, square)", "target.scatter_add_(0, places, square)")
row("scatter_add 4M, last dimension", lookup, "target:scatter_add_(2, places, square)",
   "target.scatter_add_(1, places, square)")
row("index_add rows", lookup, "plain:index_add_(1, i, g)", "plain.index_add_(0, i, g)")
row("x[mask]", lookup, "local r = square[mask]", "r = square[mask]")
row("masked_fill 4M", lookup, "local r = square:masked_fill(mask, 0)", "r = square.masked_fill(mask, 0)")

group = {name = "sparse"}

-- The positions of the nonzero elements follow a pattern, so that both languages multiply the same matrix.
local csr = {[[
local function csr(n, density)
   local each = math.floor(n * density)
   local columns = (torch.arange(n):view(n, 1) * 7919 + torch.arange(each) * (n // each)) % n + 1
   local pointers = torch.arange(0, n * each + 1, each) + 1
   return torch.sparse_csr_tensor(pointers, columns:sort(2):view(-1), torch.randn(n * each), {n, n})
end
local x, narrow = torch.randn(4096, 4096), torch.randn(4096, 64)
local v = torch.randn(4096)]], [[
def csr(n, density):
    each = int(n * density)
    columns = (torch.arange(n).view(n, 1) * 7919 + torch.arange(each) * (n // each)) % n
    pointers = torch.arange(0, n * each + 1, each)
    return torch.sparse_csr_tensor(pointers, columns.sort(1).values.view(-1), torch.randn(n * each), (n, n))

x, narrow = torch.randn(4096, 4096), torch.randn(4096, 64)
v = torch.randn(4096)]]}
for _, percent in ipairs {1, 10, 50} do
   local made = {("%s local s = csr(4096, %g)"):format(csr[1], percent / 100),
      ("%s\ns = csr(4096, %g)"):format(csr[2], percent / 100)}
   row(("csr 4096² of %d %% x 4096x4096"):format(percent), made, "local r = torch.mm(s, x)", "r = torch.mm(s, x)")
   row(("csr 4096² of %d %% x 4096x64"):format(percent), made, "local r = torch.mm(s, narrow)",
      "r = torch.mm(s, narrow)")
   row(("csr 4096² of %d %% x vector"):format(percent), made, "local r = torch.mv(s, v)", "r = torch.mv(s, v)")
end

local coo = {[[
local i, v = torch.randint(1, 1001, {2, 1000000}), torch.randn(1000000)
local size, table = {1000, 1000}, torch.randn(1000000, 16, {requires_grad = true})
local places, g = torch.randint(1, 1000001, {8192}), torch.randn(8192, 16)
local layer = nn.Embedding(1000000, 16, {sparse = true})
local optimizer = torch.optim.SparseAdam(layer:parameters())]], [[
i, v = torch.randint(0, 1000, (2, 1000000)), torch.randn(1000000)
size, table = (1000, 1000), torch.randn(1000000, 16, requires_grad=True)
places, g = torch.randint(0, 1000000, (8192,)), torch.randn(8192, 16)
layer = nn.Embedding(1000000, 16, sparse=True)
optimizer = torch.optim.SparseAdam(layer.parameters())]]}
row("coalesce 1M", coo, "local s = torch.sparse_coo_tensor(i, v, size, {check_invariants = false}):coalesce()",
   "s = torch.sparse_coo_tensor(i, v, size, check_invariants=False).coalesce()")
row("embedding, sparse, 8192 of 1M rows of 16", coo,
   "table.grad = nil F.embedding(places, table, {sparse = true}):backward(g)",
   "table.grad = None; F.embedding(places, table, sparse=True).backward(g)")
row("SparseAdam, 8192 of 1M rows of 16", coo,
   "optimizer:zero_grad() layer(places):backward(g) optimizer:step()",
   "optimizer.zero_grad(); layer(places).backward(g); optimizer.step()")

local graph = {[[
local from, to = torch.randint(1, 100001, {1000000}), torch.randint(1, 100001, {1000000})
local nodes, messages = torch.randn(100000, 64), torch.randn(1000000, 64)
local sums, wide = torch.zeros(100000, 64), to:unsqueeze(2):expand(1000000, 64)
local edges = torch.sparse_coo_tensor(torch.stack {to, from}, torch.ones(1000000), {100000, 100000})
edges = edges:to_sparse_csr()]], [[
from_, to = torch.randint(0, 100000, (1000000,)), torch.randint(0, 100000, (1000000,))
nodes, messages = torch.randn(100000, 64), torch.randn(1000000, 64)
sums, wide = torch.zeros(100000, 64), to.unsqueeze(1).expand(1000000, 64)
edges = torch.sparse_coo_tensor(torch.stack((to, from_)), torch.ones(1000000), (100000, 100000)).to_sparse_csr()]]}
row("1M edges x 64, index_add", graph, "sums:index_add_(1, to, messages)", "sums.index_add_(0, to, messages)")
row("1M edges x 64, scatter_reduce", graph, "sums:scatter_reduce_(1, wide, messages, 'sum')",
   "sums.scatter_reduce_(0, wide, messages, 'sum')")
row("1M edges x 64, csr", graph, "local r = torch.mm(edges, nodes)", "r = torch.mm(edges, nodes)")

group = {name = "sort"}

local many = {"local a = torch.randn(1000000) local n = torch.randint(0, 1000000, {1000000})",
   "a = torch.randn(1000000); n = torch.randint(0, 1000000, (1000000,))"}
row("sort 1M floats", many, "local r = a:sort()", "r = a.sort()")
row("sort 1M integers", many, "local r = n:sort()", "r = n.sort()")
row("sort 1000 rows of 1000", many, "local r = a:view(1000, 1000):sort(2)", "r = a.view(1000, 1000).sort(1)")
row("topk 10 of 1M", many, "local r = a:topk(10)", "r = a.topk(10)")
row("topk 1000 of 1M", many, "local r = a:topk(1000)", "r = a.topk(1000)")
row("median of 1M", many, "local r = a:median()", "r = a.median()")
row("unique of 1M integers", many, "local r = n:unique()", "r = n.unique()")

-- Fourier transforms: powers of two, three times one, primes; alone, in batches, of images ------------

group = {name = "fft"}

for _, shape in ipairs {{1, 1024}, {1, 65536}, {1, 1048576}, {1, 3 * 4096}, {1, 1009}, {1, 100003}, {64, 1024},
      {1000, 100}, {64, 1009}, {512, 512}} do
   local sizes = shape[1] .. ", " .. shape[2]
   local z = {("local z = torch.randn(%s, {dtype = 'complex64'}) local x = torch.randn(%s)"):format(sizes, sizes),
      ("z = torch.randn(%s, dtype=torch.complex64); x = torch.randn(%s)"):format(sizes, sizes)}
   local name = shape[1] == 1 and shape[2] or shape[1] .. " x " .. shape[2]
   row("fft " .. name, z, "local r = torch.fft.fft(z)", "r = torch.fft.fft(z)")
   row("rfft " .. name, z, "local r = torch.fft.rfft(x)", "r = torch.fft.rfft(x)")
end
local image = {"local z = torch.randn(512, 512, {dtype = 'complex64'}) local x = torch.randn(24, 224, 224)"
      .. " local half = torch.fft.rfft2(x)",
   "z = torch.randn(512, 512, dtype=torch.complex64); x = torch.randn(24, 224, 224); half = torch.fft.rfft2(x)"}
row("fft2 512 x 512", image, "local r = torch.fft.fft2(z)", "r = torch.fft.fft2(z)")
row("rfft2 24 x 224 x 224", image, "local r = torch.fft.rfft2(x)", "r = torch.fft.rfft2(x)")
row("irfft2 24 x 224 x 224", image, "local r = torch.fft.irfft2(half)", "r = torch.fft.irfft2(half)")
local sound = {"local x, w = torch.randn(1, 160000), torch.hann_window(512)",
   "x, w = torch.randn(1, 160000), torch.hann_window(512)"}
row("stft of 10 s", sound, "local r = torch.stft(x, 512, 128, {window = w})",
   "r = torch.stft(x, 512, 128, window=w, return_complex=True)")

-- Complex numbers: pointwise functions, reductions, products, decompositions ----------------------------

group = {name = "complex"}

local complex = {[[
local z, w = torch.randn(256, 256, {dtype = "complex64"}), torch.randn(256, 256, {dtype = "complex64"})
local x, y = torch.randn(256, 256), torch.randn(256, 256)
local large = torch.randn(1024, 1024, {dtype = "complex64"})
local batch = torch.randn(64, 32, 32, {dtype = "complex64"})
local v, double = torch.randn(256, {dtype = "complex64"}), torch.randn(256, 256, {dtype = "complex128"})
local hermitian = z + z.mH
local positive = z:matmul(z.mH) + 256 * torch.eye(256)
local p, q = z:clone():requires_grad_(), w:clone():requires_grad_()
local order = torch.randperm(256)
local signal = torch.randn(8, 16, 256, {dtype = "complex64"})
local kernels = torch.randn(16, 16, 5, {dtype = "complex64"})]], [[
z, w = torch.randn(256, 256, dtype=torch.complex64), torch.randn(256, 256, dtype=torch.complex64)
x, y = torch.randn(256, 256), torch.randn(256, 256)
large = torch.randn(1024, 1024, dtype=torch.complex64)
batch = torch.randn(64, 32, 32, dtype=torch.complex64)
v, double = torch.randn(256, dtype=torch.complex64), torch.randn(256, 256, dtype=torch.complex128)
hermitian = z + z.mH
positive = z @ z.mH + 256 * torch.eye(256)
p, q = z.clone().requires_grad_(), w.clone().requires_grad_()
order = torch.randperm(256)
signal = torch.randn(8, 16, 256, dtype=torch.complex64)
kernels = torch.randn(16, 16, 5, dtype=torch.complex64)]]}
for _, each in ipairs {
   {"z + w", "z + w", "z + w"}, {"z * w", "z * w", "z * w"}, {"z / w", "z / w", "z / w"},
   {"z * x, x real", "z * x", "z * x"}, {"z * 2", "z * 2", "z * 2"},
   {"z * w:conj()", "z * w:conj()", "z * w.conj()"}, {"abs", "z:abs()", "z.abs()"},
   {"angle", "z:angle()", "z.angle()"}, {"exp", "z:exp()", "z.exp()"}, {"log", "z:log()", "z.log()"},
   {"sqrt", "z:sqrt()", "z.sqrt()"}, {"sin", "z:sin()", "z.sin()"}, {"tanh", "z:tanh()", "z.tanh()"},
   {"reciprocal", "z:reciprocal()", "z.reciprocal()"}, {"square", "z:square()", "z.square()"},
   {"sgn", "z:sgn()", "z.sgn()"}, {"z^w", "z ^ w", "z ** w"}, {"complex(x, y)", "torch.complex(x, y)",
      "torch.complex(x, y)"}, {"polar", "torch.polar(x, y)", "torch.polar(x, y)"},
   {"sum", "z:sum()", "z.sum()"}, {"sum of rows", "z:sum(2)", "z.sum(1)"},
   {"mean of columns", "z:mean(1)", "z.mean(0)"},
   {"prod", "z:prod()", "z.prod()"}, {"cumsum", "z:cumsum(2)", "z.cumsum(1)"}, {"norm", "z:norm()", "z.norm()"},
   {"real part, copied", "z.real:contiguous()", "z.real.contiguous()"},
   {"transposed copy 1024", "large:t():contiguous()", "large.t().contiguous()"},
   {"to complex128", "z:to 'complex128'", "z.to(torch.complex128)"},
   {"index_select", "z:index_select(1, order)", "z.index_select(0, order)"},
   {"cat", "torch.cat {z, w}", "torch.cat((z, w))"}, {"matmul 256", "z:matmul(w)", "z @ w"},
   {"matmul 1024", "large:matmul(large)", "large @ large"},
   {"matmul 256, complex128", "double:matmul(double)", "double @ double"},
   {"z @ w.mH", "z:matmul(w.mH)", "z @ w.mH"}, {"bmm 64 x 32", "batch:bmm(batch)", "batch.bmm(batch)"},
   {"matrix by vector", "z:mv(v)", "z.mv(v)"}, {"vdot", "torch.vdot(v, v)", "torch.vdot(v, v)"},
   {"inv 256", "torch.linalg.inv(z)", "torch.linalg.inv(z)"},
   {"solve 256", "torch.linalg.solve(z, w)", "torch.linalg.solve(z, w)"},
   {"cholesky 256", "torch.linalg.cholesky(positive)", "torch.linalg.cholesky(positive)"},
   {"qr 256", "torch.linalg.qr(z)", "torch.linalg.qr(z)"}, {"svd 256", "torch.linalg.svd(z)", "torch.linalg.svd(z)"},
   {"eigh 256", "torch.linalg.eigh(hermitian)", "torch.linalg.eigh(hermitian)"},
   {"eig 256", "torch.linalg.eig(z)", "torch.linalg.eig(z)"},
   {"conv1d 8 x 16 x 256", "F.conv1d(signal, kernels)", "F.conv1d(signal, kernels)"},
} do
   row(each[1], complex, "local r = " .. each[2], "r = " .. each[3])
end
row("product, forward and backward", complex, "p.grad, q.grad = nil (p * q):abs():sum():backward()",
   "p.grad = q.grad = None; (p * q).abs().sum().backward()")
row("matmul, forward and backward", complex, "p.grad, q.grad = nil p:matmul(q):abs():sum():backward()",
   "p.grad = q.grad = None; (p @ q).abs().sum().backward()")

-- Memory ----------------------------------------------------------------------------------------

group = {name = "memory"}

local M4 <const> = 2048 * 2048
local big = {"local a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)",
   "a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)"}
row("copy 4M", big, "b:copy_(a)", "b.copy_(a)", 8 * M4)
row("copy 4M, transposed", big, "b:copy_(a:t())", "b.copy_(a.t())")
row("clone 4M", big, "local r = a:clone()", "r = a.clone()", 8 * M4)
row("a:t():contiguous() 4M", big, "local r = a:t():contiguous()", "r = a.t().contiguous()")
row("cat 2 x 4M, first dimension", big, "local r = torch.cat {a, b}", "r = torch.cat((a, b))", 16 * M4)
row("cat 2 x 4M, last dimension", big, "local r = torch.cat({a, b}, 2)", "r = torch.cat((a, b), 1)", 16 * M4)
row("zeros 4M", big, "local r = torch.zeros(2048, 2048)", "r = torch.zeros(2048, 2048)", 4 * M4)
row("to float64 4M", big, "local r = a:double()", "r = a.double()", 12 * M4)
row("to bfloat16 4M", big, "local r = a:bfloat16()", "r = a.bfloat16()", 6 * M4)
row("randn 4M", big, "local r = torch.randn(2048, 2048)", "r = torch.randn(2048, 2048)")
row("rand 4M", big, "local r = torch.rand(2048, 2048)", "r = torch.rand(2048, 2048)")
row("dropout 4M", big, "local r = F.dropout(a, 0.5)", "r = F.dropout(a, 0.5)")

return rows
