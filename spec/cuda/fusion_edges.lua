-- fusion_edges.lua WHAT FOLDER: runs unusual cases of fused chains for fusion_spec.lua. Each case does the same work
-- eagerly and in a graph, and compares the results bit for bit.

local torch = require "tlua"
local bits = require "spec.cuda.bits"
local cuda, F = torch.cuda, torch.nn.functional
local same = bits.replayed

local function random(...) return torch.randn(...):to "cuda" end
torch.manual_seed(1)

local M = {}

-- Memory with two names
-- ----------------------------------------------------------------------------------------

function M.aliases()
   same("a view of itself", {random(6, 6)}, function(x)
      local a = x + 1
      a:add_(a:view(36):view(6, 6)):mul_(a)
      return {a, a * 2}
   end)
   same("itself transposed", {random(6, 6)}, function(x)
      local a = x * 2
      a:add_(a:t())
      local b = a:t() - 1
      a:mul_(b)
      return {a, b}
   end)
   same("its neighbours", {random(100)}, function(x)
      local a = x * 2
      a:narrow(1, 1, 99):add_(a:narrow(1, 2, 99))
      a:narrow(1, 2, 99):copy_(a:narrow(1, 1, 99))
      return {a + 1}
   end)
   same("its halves", {random(8, 20)}, function(x)
      local a = x * 2
      local left, right = a:narrow(2, 1, 10), a:narrow(2, 11, 10)
      left:add_(right)
      right:mul_(left)
      left:sub_(right)
      return {a, left + right}
   end)
   same("its even and odd elements", {random(64)}, function(x)
      local a = x + 0.5
      local even, odd = a:view(32, 2):select(2, 1), a:view(32, 2):select(2, 2)
      even:mul_(odd)
      odd:add_(even)
      return {a, even - odd}
   end)
   same("halves that cross", {random(8, 21)}, function(x)
      local a = x * 2
      local left, right = a:narrow(2, 1, 11), a:narrow(2, 11, 11)
      left:add_(1)
      right:mul_(left)
      left:add_(right)
      return {a}
   end)
   same("a row of itself", {random(5, 7)}, function(x)
      local a = x:exp()
      a:add_(a[1])
      a:mul_(a[{{}, {1, 1}}])
      return {a}
   end)
   same("its bytes", {random(64)}, function(x)
      local a = x * 2
      local b = a:view "int32"
      b:add_(1)
      a:mul_(3)
      return {a, b * 2}
   end)
   same("an expanded row", {random(7)}, function(x)
      local row = x * 3
      local a = row:expand(5, 7) + 1
      row:add_(1)
      return {a * row, row}
   end)
end

-- Lifetimes
-- -----------------------------------------------------------------------------------------------------

function M.holding()
   local kept = {}
   local function steps(x)
      local a = x * 2 + 1
      local b = a:relu()
      kept[#kept + 1] = {a, b[{{2, 5}}], (b - 1):view(-1)}
      return (b * 0.5):tanh()
   end
   local x = random(9, 5)
   local eager = {steps(x)}
   local g = cuda.Graph()
   local result = cuda.graph(g, steps, x)
   collectgarbage()
   g:replay()
   bits.compare("what is held", {eager[1], table.unpack(kept[1])}, {result, table.unpack(kept[2])})
   -- results that become garbage during the capture need not be written to memory
   local other = x:clone()
   do
      local h = cuda.Graph()
      local gone = cuda.graph(h, function() return {other * 2 + 1, (other - 1):exp()} end)
      local first = table.remove(gone, 1)
      table.remove(gone)
      collectgarbage()
      local between = random(9, 5)
      local copy = between:clone()
      h:replay()
      bits.compare("what others have", {copy, other * 2 + 1}, {between, first})
   end
   -- the sum, an input of the chain, is released in the middle of the chain
   g = cuda.Graph()
   result = cuda.graph(g, function()
      local b = other + other:sum(1, true)
      collectgarbage()
      local c = torch.empty(1, 5, {device = "cuda"}):fill_(7)
      return b * c
   end)
   g:replay()
   bits.compare("an input that goes", {(other + other:sum(1, true)) * 7}, {result})
   -- a finalizer calls operators while the library launches a chain
   local made
   g = cuda.Graph()
   result = cuda.graph(g, function()
      local a = x * 2
      setmetatable({}, {__gc = function() made = (x + 1) * 3 end})
      local b = (a + 1):exp()
      return {b:sum(), b}
   end)
   g:replay()
   bits.compare("what a finalizer has made", {(x + 1) * 3}, {made})
   bits.compare("beside a finalizer", {(x * 2 + 1):exp():sum(), (x * 2 + 1):exp()}, result)
end

-- Shapes, dtypes, lengths --------------------------------------------------------------------------------------

function M.mixes()
   local edges = torch.tensor {0 / 0, 1 / 0, -1 / 0, 0.0, -0.0, 1e-45, 65504, -65520}
   for _, dtype in ipairs {"float16", "bfloat16", "float64"} do
      same("float32 and " .. dtype, {edges:to "cuda", edges:to(dtype):flip(1):to "cuda"}, function(a, b)
         local c = a * b + 1
         return {c, -c:to(dtype), c:to(dtype) * b, (c:gt(0)), a:copysign(b), c:neg():relu():float()}
      end)
   end
   same("bool and integers", {torch.arange(-20, 20):to "cuda", torch.arange(40):remainder(3):eq(1):to "cuda"},
      function(n, mask)
         local m = mask:logical_xor(n:gt(3))
         return {n * mask + 1, m:to "int8" - 1, (n & 7) + m, torch.where(m, n, -n):float() / 2, m & mask}
      end)
   same("one element", {random(1):view {}, random(3, 4)}, function(s, x)
      local t = s * 2 + 1
      return {t, t:exp() - s, x * t + s}
   end)
   same("no element", {random(0, 4), random(4)}, function(none, x)
      local a = none * 2 + 1
      return {a:relu() - 1, x * 2 + 1, a + x}
   end)
   same("rows and columns", {random(5, 1), random(1, 6), random(6)}, function(a, b, c)
      local d = a * b + c
      return {d - a, (d * c):sum(2, true) + a, d:expand(3, 5, 6) * b}
   end)
   same("seven dimensions", {random(2, 3, 2, 3, 2, 3, 2):transpose(1, 6)},
      function(x) return {x * 2 + 1, x:permute(7, 1, 6, 2, 5, 3, 4):exp() - 1} end)
   same("numbers of the host", {random(9)}, function(x)
      local s = torch.tensor(2.5)
      return {x * s + torch.tensor(3), x * -0.0 + 1e-3, (x * 0.0):copysign(-0.0)}
   end)
end

function M.long()
   same("a thousand steps", {random(33)}, function(x)
      local a = x
      for i = 1, 500 do a = (a * 1.001):add_(i % 3 - 1) end
      return {a}
   end)
   local many = {}
   for i = 1, 120 do many[i] = random(17) end
   same("a hundred and twenty arrays", many, function(...)
      local all = 0
      for _, x in ipairs {...} do all = (x - 1) * 0.5 + all end
      return {all, (select(1, ...)) * 2 + all}
   end)
end

-- Captures ------------------------------------------------------------------------------------------------------

function M.captures()
   local x = random(40)
   -- each of these captures ends early, by an error of the script or of an operator
   local live = cuda.memory_allocated()
   for i = 1, 5 do
      local ok, message = pcall(cuda.graph, cuda.Graph(), function()
         local a = x * 2 + i
         local b = a:exp() - a
         if i % 2 == 0 then b:sum():item() end
         error "stop here"
      end)
      assert(not ok and (message:find "stop here" or message:find "while a graph is captured"), message)
   end
   collectgarbage()
   assert(cuda.memory_allocated() == live, "a capture that was left keeps memory")
   local fed = x:clone()
   local g = cuda.Graph()
   local result = cuda.graph(g, function() return ((fed * 2 + 1):exp() - fed) end)
   for i = 1, 3 do -- the tensor that the graph reads gets new values before each replay
      fed:copy_(x * i)
      g:replay()
      bits.compare("replay " .. i, {(x * i * 2 + 1):exp() - x * i}, {result})
   end
   -- under autocast, the first use of a weight casts it, and later calls use the cached cast
   local w = random(8, 8):requires_grad_()
   same("autocast", {random(4, 8), random(4, 8)}, function(a, b)
      local _ <close> = torch.autocast("cuda", {dtype = "bfloat16"})
      local y = F.linear(a * 2, w) * b + F.linear(b, w)
      return {y, (F.gelu(y) * 0.5):float() - a}
   end)
   -- one stream begins a chain, and another stream continues with its result
   local side = cuda.Stream()
   same("two streams", {x}, function(a)
      local here, b = cuda.current_stream(), a * 2 + 1
      side:wait_stream(here)
      local c = cuda.stream(side, function()
         local t = b * 3 - 1
         return t:relu() + b
      end)
      local d = b:exp() - 1 -- meanwhile the first stream computes d, which does not depend on c
      b:record_stream(side)
      local event = cuda.Event()
      event:record(side)
      here:wait_event(event)
      return {(c + d) * 2, b}
   end)
end

-- Lets two threads capture and replay at the same time. Each capture must contain only the calls of its own thread.
function M.threads()
   local torch_data = torch.data
   local function collate(items)
      local t = require "tlua"
      local device, results = t.cuda, {}
      local own = device.Stream()
      for k, item in ipairs(items) do
         local i = item[1]
         local x = (t.arange(100):float() * i / 10):to "cuda"
         local g, y = device.Graph(), nil
         device.stream(own, function() -- cuda.graph would wait for the device, so it is not used here
            own:wait_stream(device.default_stream())
            g:capture_begin(nil, "thread_local")
            local a = ((x + 1):sqrt() * i - x):tanh()
            y = (a * 2 + x):relu() - i
            g:capture_end()
            g:replay()
         end)
         device.current_stream():wait_stream(own)
         results[k] = {y:cpu(), ((((x + 1):sqrt() * i - x):tanh() * 2 + x):relu() - i):cpu()}
      end
      return results
   end
   local list, seen = {}, 0
   for i = 1, 12 do list[i] = {i} end
   for results in torch_data.DataLoader(list, {num_workers = 3, batch_size = 2, collate_fn = collate}):iter() do
      for _, pair in ipairs(results) do
         bits.compare("a thread's", {pair[2]}, {pair[1]})
         seen = seen + 1
      end
   end
   assert(seen == 12)
end

-- Runs training steps of a small transformer language model under autocast.
function M.transformer()
   local nn, size, length, batch, heads, layers = torch.nn, 32, 12, 2, 4, {}
   local parameters = {}
   for i = 1, 2 do
      layers[i] = {norm = nn.RMSNorm(size), qkv = nn.Linear(size, 3 * size), out = nn.Linear(size, size),
         next_norm = nn.LayerNorm(size), up = nn.Linear(size, 8 * size), down = nn.Linear(4 * size, size)}
      for _, name in ipairs {"norm", "qkv", "out", "next_norm", "up", "down"} do
         for _, w in ipairs(layers[i][name]:to "cuda":parameters()) do parameters[#parameters + 1] = w end
      end
   end
   local start = {}
   for i, w in ipairs(parameters) do start[i] = w:detach():clone() end
   local angles = random(length, 1, size // heads // 2)
   local cos, sin = angles:cos(), angles:sin()
   local function block(layer, h)
      local qkv = layer.qkv(layer.norm(h)):view(batch, length, 3 * heads, size // heads)
      local q = F.rotary_embedding(qkv:narrow(3, 1, heads), cos, sin):transpose(2, 3)
      local k = F.rotary_embedding(qkv:narrow(3, heads + 1, heads), cos, sin):transpose(2, 3)
      local a = F.scaled_dot_product_attention(q, k, qkv:narrow(3, 2 * heads + 1, heads):transpose(2, 3))
      h = h + F.dropout(layer.out(a:transpose(2, 3):contiguous():view(batch, length, size)), 0.1)
      return h + F.dropout(layer.down(F.swiglu(layer.up(layer.next_norm(h)))), 0.2)
   end
   local function train(captured)
      torch.no_grad(function() for i, w in ipairs(parameters) do w:copy_(start[i]) end end)
      torch.manual_seed(3)
      local optimizer = torch.optim.AdamW(parameters, {lr = 0.01, capturable = true})
      local function step(x, y)
         local _ <close> = torch.autocast("cuda", {dtype = "bfloat16"})
         local h = x
         for _, layer in ipairs(layers) do h = block(layer, h) end
         local loss = (h - y):square():mean()
         optimizer:zero_grad()
         loss:backward()
         optimizer:step()
         return loss:detach()
      end
      local shape = torch.zeros(batch, length, size)
      local one = captured and cuda.capture_step(step, {shape, shape})
         or function(x, y) return step(x:to "cuda", y:to "cuda") end
      local data, results = torch.Generator():manual_seed(5), {}
      for i = 1, 8 do
         local x = torch.randn(batch, length, size, {generator = data})
         results[i] = one(x, x * 0.5):clone()
      end
      for _, w in ipairs(parameters) do results[#results + 1] = w:detach():clone() end
      return results
   end
   bits.compare("transformer", train(false), train(true))
end

-- Makes the n-th call of the CUDA runtime fail (TLUA_EMULATED_FAIL_AT). Either the capture must fail, or its results
-- must be complete.
function M.failing()
   local ok, message = pcall(function()
      local x = torch.ones(9):to "cuda"
      local g = cuda.Graph()
      local result = cuda.graph(g, function()
         local a = (x * 2 + 1):exp()
         return a:sum() + (a - 1):relu() * 2
      end)
      g:replay()
      local a = math.exp(3)
      assert((result - (9 * a + (a - 1) * 2)):abs():max():item() < 1e-3, "something is missing")
   end)
   if not ok then
      assert(message:find "cuda" and not message:find "missing", message)
      print "an error"
   end
end

M[arg[1]]()
print "the same bits"
