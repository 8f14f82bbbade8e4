-- traffic.lua - measures how many bytes the GPU's kernels move, and compares them with the minimum, which is to read
-- each input once and to write each result once. Fails if a row moves more than a tenth above the minimum. `make
-- traffic` runs this program with a plugin that counts the bytes (traffic.cc).

local torch = require "tlua"
local path = assert(os.getenv "TLUA_EMULATED_TRAFFIC", "make traffic runs this")
local most <const> = 1.1
local on <const> = {device = "cuda"}

local log = assert(io.open(path, "r"))

-- Returns how many bytes the launches since the last call have read and written.
local function moved()
   torch.cuda.synchronize()
   local bytes, kernels = 0, {}
   for line in log:lines() do
      local read, written, name = line:match "^(%d+) (%d+) (.*)$"
      bytes = bytes + read + written
      kernels[#kernels + 1] = ("%s %s %s"):format(read, written, name)
   end
   return bytes, kernels
end

local rows, above = 0, 0
-- Adds a row. `least` is the minimum in bytes; `launches`, if given, is the largest number of launches.
local function row(name, least, fn, launches)
   moved()
   fn()
   local bytes, kernels = moved()
   local factor = bytes / least
   rows = rows + 1
   print(("%-44s %9d %9d %6.3f%s"):format(name, bytes, least, factor, factor > most and "  <" or ""))
   if factor > most or #kernels > (launches or math.huge) then
      above = above + 1
      for _, kernel in ipairs(kernels) do print("     " .. kernel:sub(1, 150)) end
   end
   assert(#kernels > 0, name .. " has launched nothing")
end

torch.manual_seed(1)
local R <const>, C <const> = 250, 1030 -- sizes that are not powers of two
local n <const> = R * C
local function tensor(dtype) return torch.randn(R, C, on):to(dtype or "float32") end
local tensor_to_cast = tensor()

print(("%-44s %9s %9s %6s"):format("", "moved", "least", ""))
for _, kind in ipairs {{"float32", 4}, {"bfloat16", 2}} do
   local dtype, size = kind[1], kind[2]
   local x, y, z = tensor(dtype), tensor(dtype), tensor(dtype)
   local turned = tensor(dtype):view(C, R):t()
   local function of(name, arrays, fn) row(name .. ", " .. dtype, arrays * size * n, fn) end
   of("add", 3, function() return x + y end)
   of("mul by a number", 2, function() return x * 2 end)
   of("relu_", 2, function() return z:relu_() end)
   of("gelu", 2, function() return torch.nn.functional.gelu(x) end)
   of("addcmul", 4, function() return x:addcmul(y, z) end)
   of("add of a transposed one", 3, function() return x + turned end)
   of("sum", 1, function() return x:sum() end)
   of("sum of rows", 1, function() return x:sum(2) end)
   of("sum of columns", 1, function() return x:sum(1) end)
   of("amax of rows", 1, function() return x:amax(2) end)
   of("softmax of rows", 2, function() return x:softmax(2) end)
   of("softmax of columns", 2, function() return x:softmax(1) end)
   of("log_softmax of rows", 2, function() return x:log_softmax(2) end)
   local leaf = tensor(dtype):requires_grad_()
   local soft = leaf:softmax(2)
   of("gradient of softmax of rows", 3,
      function() return torch.autograd.grad(soft, leaf, {grad_outputs = y, retain_graph = true}) end)
   local weight, bias = torch.randn(C, on):to(dtype), torch.randn(C, on):to(dtype)
   of("layer_norm", 2, function() return torch.nn.functional.layer_norm(x, {C}, weight, bias) end)
   of("contiguous of a transposed one", 2, function() return x:t():contiguous() end)
   of("fill_", 1, function() return x:fill_(3) end)
end

row("float32 to bfloat16", 6 * n, function() return tensor_to_cast:bfloat16() end)

-- A step of an optimizer reads and writes the parameter and the optimizer's states, and reads the gradient. The last
-- number of a row counts these passes over memory.
for _, step in ipairs {{"SGD", {momentum = 0.9}, 5}, {"Adam", {}, 7}, {"AdamW", {}, 7}} do
   local p = tensor():requires_grad_()
   p.grad = tensor()
   local optimizer = torch.optim[step[1]]({p}, step[2])
   optimizer:step() -- the first step creates the states, so it is not measured
   row(step[1] .. " step", step[3] * 4 * n, function() optimizer:step() end)
end

-- The step divides by the scale, detects non-finite gradients and clips. For the norm, it reads the gradient once more.
-- There are four launches: for the parts of the norm, for the scalars of the step, for the step counts, and for the
-- step itself.
do
   local p = tensor():requires_grad_()
   p.grad = tensor()
   local adam = torch.optim.AdamW({p}, {capturable = true})
   local scaler = torch.amp.GradScaler "cuda"
   scaler:scale(torch.ones({}, on))
   local function step(options)
      scaler:step(adam, options)
      scaler:forget()
   end
   step()
   row("AdamW step with a scaler", 8 * 4 * n, step, 4)
   row("AdamW step with a scaler, clipped", 8 * 4 * n, function() step {max_norm = 1.0} end, 4)
   row("AdamW step, clipped", 8 * 4 * n, function() adam:step {max_norm = 1.0} end, 4)
end

-- In these rows, a graph captures a chain of operators, which becomes one kernel. The kernel need not store
-- intermediate results, but the script releases them only when its garbage is collected. Values that a gradient needs
-- are stored.
local F = torch.nn.functional
local function chain(name, arrays, size, fn)
   local g = torch.cuda.Graph()
   local results = table.pack(torch.cuda.graph(g, fn))
   row(name, arrays * size * n, function() g:replay() end, 1)
   return results
end
for _, kind in ipairs {{"float32", 4}, {"bfloat16", 2}} do
   local dtype, size = kind[1], kind[2]
   local x, y, z, bias = tensor(dtype), tensor(dtype), tensor(dtype), tensor(dtype)[1]
   local function of(name, arrays, fn) return chain("chain: " .. name .. ", " .. dtype, arrays, size, fn) end
   of("(x * y + 1):relu() * z", 4, function() return ((x * y + 1):relu() * z) end)
   of("eight steps in place and not", 3, function()
      local a = x * 2
      a:add_(y):tanh_()
      local b = F.gelu(a) - 1
      return (torch.where(b:gt(0), b, a * 0.5))
   end)
   of("bias, gelu, dropout, sum", 3, function() return F.dropout(F.gelu(x + bias), 0.1) + y end)
   of("addcmul, clamp, lerp", 4, function() return torch.lerp(x:addcmul(y, z):clamp(-1, 1), x, 0.5) end)
   of("swiglu * 2", 3, function() return F.swiglu(x, y) * 2 end)
   of("there and back in other dtypes", 2, function() return (x:double() + 1):half():to(dtype) end)
   of("a kept step", 3, function()
      local a = x:exp()
      return a, a + 1
   end)
   local leaf = tensor(dtype):requires_grad_()
   of("gradient of dropout of silu", 4, function() -- reads leaf and y, and writes the result and the gradient
      local result = F.dropout(F.silu(leaf), 0.2)
      return result, torch.autograd.grad(result, leaf, {grad_outputs = y})
   end)
end
os.exit(above == 0)
