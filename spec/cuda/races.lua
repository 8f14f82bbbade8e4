-- races.lua [NAME...] - runs kernels whose threads share memory, and compares the results with the CPU's. `make races`
-- runs this with a plugin that detects races (races.cc).

local torch = require "tlua"
local F = torch.nn.functional
local sorted = require "spec.support.sorted"

-- The tolerance is that of bfloat16 if an input has that dtype, otherwise that of float32.
local function on_both(fn, ...)
   local inputs = {...}
   local is_half = inputs[1].dtype == "bfloat16"
   local function run(device)
      local moved = {}
      for i, x in ipairs(inputs) do moved[i] = x:to(device) end
      local results = table.pack(fn(table.unpack(moved)))
      for i = 1, results.n do results[i] = results[i]:detach():cpu() end
      return results
   end
   local expected, actual = run "cpu", run "cuda"
   for i, e in ipairs(expected) do
      local tolerance = is_half and {rtol = 0.02, atol = 0.02} or {rtol = 1e-3, atol = 1e-4}
      assert(torch.allclose(actual[i]:double(), e:double(), tolerance),
         ("result %d differs:\n%s\nexpected %s"):format(i, actual[i], e))
   end
end

local function leaf(x) return x:detach():requires_grad_() end

local function gradients(fn)
   return function(...)
      local leaves = {}
      for i, x in ipairs {...} do leaves[i] = leaf(x) end
      local y = fn(table.unpack(leaves))
      return y, torch.autograd.grad((y * y):sum(), leaves)
   end
end

local programs = {}

function programs.attention()
   local function attend(options)
      return gradients(function(q, k, v) return F.scaled_dot_product_attention(q, k, v, options) end)
   end
   on_both(attend {}, torch.randn(1, 2, 70, 12), torch.randn(1, 2, 75, 12), torch.randn(1, 2, 75, 12))
   on_both(attend {is_causal = true}, torch.randn(1, 1, 68, 8), torch.randn(1, 1, 68, 8), torch.randn(1, 1, 68, 8))
   -- In the first call, rows are so long that a tile of attention has fewer rows than a warp has threads. Then come
   -- calls in which no query sees some of the keys, and a call without keys.
   on_both(attend {}, torch.randn(1, 1, 20, 200), torch.randn(1, 1, 21, 200), torch.randn(1, 1, 21, 200))
   on_both(attend {is_causal = true}, torch.randn(1, 1, 5, 9), torch.randn(1, 1, 75, 9), torch.randn(1, 1, 75, 9))
   on_both(attend {}, torch.randn(1, 1, 40, 9), torch.randn(1, 1, 0, 9), torch.randn(1, 1, 0, 9))
end

function programs.few_queries()
   -- The first call has one query and several blocks of keys. In the second call, heads share keys, and a mask hides
   -- some of them.
   on_both(F.scaled_dot_product_attention, torch.randn(1, 2, 1, 64), torch.randn(1, 2, 700, 64),
      torch.randn(1, 2, 700, 64))
   local k, v = torch.randn(2, 1, 300, 40), torch.randn(2, 1, 300, 40)
   on_both(function(q, keys, values, mask)
      return F.scaled_dot_product_attention(q, keys, values, {attn_mask = mask, enable_gqa = true})
   end, torch.randn(2, 4, 3, 40), k, v, torch.rand(3, 300):gt(0.4))
   -- Tensor cores compute this call. It has several blocks of keys, and a tile has rows of several heads.
   on_both(function(q, keys, values)
      return F.scaled_dot_product_attention(q, keys, values, {enable_gqa = true})
   end, torch.randn(1, 12, 2, 64):bfloat16(), torch.randn(1, 1, 400, 64):bfloat16(),
      torch.randn(1, 1, 400, 64):bfloat16())
end

function programs.sort()
   -- radix sorts of rows with equal keys, in one block and in several blocks
   on_both(function(x) return x:sort() end, torch.randint(0, 50, {2, 3000}):short())
   on_both(function(x) return x:sort() end, torch.randn(5000))
   on_both(function(x) return x:sort() end, torch.randint(0, 256, {5, 4500}):byte())
   on_both(function(x) return x:sort() end, torch.randint(0, 50, {90, 100}))
   on_both(function(x) return x:sort(1, {descending = true, stable = true}) end, torch.randint(0, 9, {700, 3}))
end

function programs.select()
   on_both(function(x) return x:topk(5) end, torch.randn(2, 3000))
   on_both(function(x) return (x:topk(40)) end, torch.randint(0, 30, {1, 2500}):float())
   on_both(function(x) return (x:topk(3)) end, torch.randn(70, 1100):bfloat16())
   on_both(function(x) return (x:kthvalue(700)) end, torch.randn(2, 1500))
   on_both(function(x) return (x:median(-1)) end, torch.randn(3, 1200))
   local holes = torch.where(torch.rand(2, 1500):gt(0.3), torch.randn(2, 1500), 0 / 0)
   on_both(function(x) return (x:nanmedian(-1)) end, holes)
   on_both(function(x) return (x:mode(-1)) end, torch.randint(0, 7, {2, 600}))
end

function programs.ctc()
   local targets = torch.randint(1, 6, {2, 7}, {dtype = "int64"}) + 1
   on_both(gradients(function(x)
      return F.ctc_loss(x:log_softmax(-1), targets, {30, 25}, {7, 5}, {reduction = "none"})
   end), torch.randn(30, 2, 8))
end

function programs.gemm()
   on_both(function(a, b) return a:matmul(b) end, torch.randint(-9, 9, {40, 70}), torch.randint(-9, 9, {70, 35}))
end

function programs.scan()
   on_both(function(x) return x:cumsum(1), x:cumsum(2) end, torch.randint(-9, 9, {70, 900}))
   on_both(function(x) return x:cumsum(1) end, torch.randint(-9, 9, {20000}))
end

function programs.lines()
   on_both(function(x) return x:sum(1), x:sum(2), x:sum() end, torch.randn(300, 70))
   on_both(function(x) return x:amax(1), x:amax(2) end, torch.randn(9, 5000))
   on_both(function(x) return x:sum(1), x:amax(1) end, torch.randn(900, 4))
end

function programs.walk()
   on_both(function(x) return x:softmax(1), x:softmax(2), x:log_softmax(1) end, torch.randn(200, 40))
   on_both(gradients(function(x) return x:softmax(1) end), torch.randn(100, 9))
   on_both(gradients(function(x, w, b) return F.layer_norm(x, {900}, w, b) end), torch.randn(3, 900),
      torch.randn(900), torch.randn(900))
   on_both(gradients(function(x) return x:softmax(2) end), torch.randn(2, 3000))
end

function programs.blocks()
   on_both(function(x) return x:nonzero() end, torch.randint(0, 2, {30000}))
   torch.backends.cudnn.enabled = false
   on_both(gradients(function(x, w) return F.conv2d(x, w, nil, {groups = 2}) end), torch.randn(2, 8, 9, 9),
      torch.randn(4, 4, 3, 3))
   on_both(function(x) return torch.nn.utils.get_total_norm {x} end, torch.randn(5000))
end

function programs.copy()
   on_both(function(x) return x:t():contiguous() end, torch.randn(300, 200))
   on_both(function(x) return x:transpose(2, 3):contiguous() end, torch.randn(2, 70, 65):half())
end

function programs.fault()
   local x = torch.ones(300, {device = "cuda"})
   local positions = torch.full({200}, 999, {dtype = "int64", device = "cuda"})
   local ok, message = pcall(function()
      local y = x:index_select(1, positions)
      torch.cuda.synchronize()
      return y
   end)
   assert(not ok and tostring(message):find("position 999 is out of range", 1, true), message)
end

local names = #arg > 0 and arg or {}
if #arg == 0 then
   for name in sorted(programs) do names[#names + 1] = name end
end
for _, name in ipairs(names) do
   torch.manual_seed(1)
   assert(programs[name], "there is no program of that name: " .. name)()
   torch.cuda.synchronize()
   print(name .. ": no race")
end
