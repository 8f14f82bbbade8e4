-- fusion_program.lua WHAT [FIRST LAST]: programs that fusion_spec.lua runs with various settings of the emulator. Each
-- program does the same work eagerly and in a graph, and reports any difference in the bits of the results.

local numbers = require "spec.support.numbers"
local torch = require "tlua"
local compare = require "spec.cuda.bits".compare
local cuda = torch.cuda
local what, first, last = arg[1], tonumber(arg[2]), tonumber(arg[3])

-- Random chains -----------------------------------------------------------------------------------------

local FLOATING <const> = {"float32", "float64", "float16", "bfloat16"}
local INTEGER <const> = {"int64", "int32", "int16", "int8", "uint8"}

-- Functions of two tensors of the same dtype that return a tensor. This list is for floating dtypes; the next list is
-- for all dtypes.
local of_floating <const> = {
   function(a, b) return a / b end,
   function(a) return a:exp() end,
   function(a) return a:tanh() end,
   function(a) return torch.nn.functional.gelu(a) end,
   function(a) return torch.nn.functional.silu(a) end,
   function(a, b) return torch.lerp(a, b, 0.25) end,
   function(a, b) return torch.addcmul(a, a, b, {value = 0.75}) end,
   function(a) return a:abs():sqrt() end,
   function(a) return a:sigmoid() end,
}
local of_any <const> = {
   function(a, b) return a + b end,
   function(a, b) return a * b end,
   function(a, b) return a * 3 - b end,
   function(a, b) return torch.maximum(a, b) end,
   function(a, b) return (torch.where(a:gt(b), a, b)) end,
   function(a) return a:clamp(-2, 3) end,
   function(a) return a:clone() end,
   function(a) return torch.full_like(a, 5) end,
   function(a, b) return a:masked_fill(b:eq(a), 1) end,
}
local in_place <const> = {
   function(a, b) a:add_(b) end,
   function(a, b) a:mul_(b):sub_(1) end,
   function(a) a:relu_() end,
   function(a, b) a:copy_(b) end,
   function(a) a:fill_(2) end,
}

-- The shapes of the tensors in a chain. input() chooses the memory layouts.
local sizes <const> = {{1}, {7}, {128}, {1001}, {3, 5}, {9, 16}, {4, 3, 6}, {33, 31}}
local function input(draw, dtype, shape)
   local values = torch.randn(shape, {dtype = "float64", device = "cpu"}) * 3
   if draw(2) == 1 and #shape > 0 then -- about half of the inputs also contain NaN and infinities
      local flat = values:view(-1)
      flat[1] = 0 / 0
      if flat:numel() > 3 then flat[2], flat[3] = math.huge, -math.huge end
   end
   if not dtype:find "float" then values = values:nan_to_num(0, 7, -7) end
   values = values:to(dtype):to "cuda"
   local layout = draw(4)
   if layout == 1 then -- the tensor begins one element past an aligned address
      local room = torch.empty(values:numel() + 1, {dtype = dtype, device = "cuda"})
      return room:narrow(1, 2, values:numel()):view(shape):copy_(values)
   elseif layout == 2 then -- the tensor has every second element of a larger tensor
      return torch.stack({values, values}, -1):select(-1, 1)
   elseif layout == 3 and #shape > 1 then -- the tensor is one row, which is broadcast
      return values:select(1, 1):expand(shape), true
   end
   return values
end

-- Returns the inputs of random chain `number`, and a function that runs the chain's steps on a list of the inputs.
local function chain(number)
   local draw = numbers(number)
   torch.manual_seed(number)
   local shape, dtype = sizes[draw(#sizes)], (draw(3) > 1 and FLOATING or INTEGER)
   dtype = dtype[draw(#dtype)]
   local inputs, fixed, steps, count = {}, {}, {}, 2 + draw(2)
   for i = 1, count do inputs[i], fixed[i] = input(draw, dtype, shape) end
   for i = 1, 4 + draw(8) do
      local a, b, kind = draw(count), draw(count), draw(6)
      if kind == 1 then
         if fixed[a] then a = b end
         local change = in_place[draw(#in_place)]
         if not fixed[a] then steps[i] = function(list) change(list[a], list[b]:to(list[a].dtype)) end end
      elseif kind == 2 then
         local to = draw(2) == 1 and FLOATING[draw(#FLOATING)] or INTEGER[draw(#INTEGER)]
         -- Values are clamped, because processors differ in how they convert numbers outside an integer's range.
         steps[i] = function(list)
            local x = list[a]
            if x.dtype:find "float" and not to:find "float" then x = x:nan_to_num(0, 100, 0):clamp(0, 100) end
            list[#list + 1] = x:to(to)
         end
         count = count + 1
      else
         local anything, floating = of_any[draw(#of_any)], of_floating[draw(#of_floating)]
         steps[i] = function(list)
            local x, y = list[a], list[b]:to(list[a].dtype)
            list[#list + 1] = (kind > 3 and x.dtype:find "float" and floating or anything)(x, y)
         end
         count = count + 1
      end
   end
   -- an intermediate result that is dropped before the end of the chain need not be stored
   local dropped = {}
   for i = #inputs + 1, count do dropped[i] = draw(3) == 1 end
   return inputs, function(list)
      local uses = {}
      for i = 1, #list do uses[i] = list[i] end
      for i = 1, 12 do if steps[i] then steps[i](uses) end end
      local results = {}
      for i, x in ipairs(uses) do
         if dropped[i] then x:release() else results[#results + 1] = x end
      end
      return results
   end
end

local function clones(list)
   local copies = {}
   for i, x in ipairs(list) do -- a clone must have the same layout as the original
      if x:dim() > 1 and x:stride(1) == 0 then
         copies[i] = x:select(1, 1):clone():expand(x.shape)
      elseif x:storage_offset() > 1 then
         local room = torch.empty(x:numel() + 1, {dtype = x.dtype, device = "cuda"})
         copies[i] = room:narrow(1, 2, x:numel()):view(x.shape):copy_(x)
      else
         copies[i] = torch.empty_strided(x.shape, x:stride(), {dtype = x.dtype, device = "cuda"}):copy_(x)
      end
   end
   return copies
end

local function run_chains()
   for number = first, last do
      local inputs, run = chain(number)
      local eager = run(clones(inputs))
      local static, g = clones(inputs), cuda.Graph()
      local replayed = cuda.graph(g, function() return run(static) end)
      g:replay()
      compare("chain " .. number, eager, replayed)
   end
end

-- Overlapping windows
-- --------------------------------------------------------------------------------------

-- Steps on overlapping windows of one base tensor; each window is shifted by one element, so each write also changes
-- other windows. The whole base is compared, so that a write past the end of a window is detected.
local window_steps <const> = {
   function(a, b, _, made) made[#made + 1] = a * 0.5 + b end,
   function(a, b, c) a:add_(b * 0.25 - c) end,
   function(a, _, _, made) a:copy_(made[#made] or a:clone()) end,
   function(a) a:mul_(0.5):neg_() end,
   function(a, b, _, made) made[#made + 1] = torch.maximum(a, b) end,
   function(a, _, c, made) made[#made + 1] = a:clone():sub_(c) end,
}

local function run_windows()
   for number = first, last do
      local draw, steps = numbers(number), {}
      local n = ({64, 100, 1001})[draw(3)]
      for i = 1, 10 do steps[i] = {window_steps[draw(#window_steps)], draw(3), draw(3), draw(3)} end
      torch.manual_seed(number)
      local values = torch.randn(n + 2, {device = "cpu"})
      local function run(base)
         local windows, made = {}, {}
         for i = 1, 3 do windows[i] = base:narrow(1, i, n) end
         for _, step in ipairs(steps) do step[1](windows[step[2]], windows[step[3]], windows[step[4]], made) end
         made[#made + 1] = base
         return made
      end
      local eager = run(values:to "cuda")
      local static, g = values:to "cuda", cuda.Graph()
      local replayed = cuda.graph(g, run, static)
      g:replay()
      compare("windows " .. number, eager, replayed)
   end
end

-- Training ------------------------------------------------------------------------------------------------

-- Trains a model whose activations and optimizer are written with elementwise operators.
local function train(captured)
   torch.manual_seed(3)
   local nn = torch.nn
   local net = nn.Sequential(nn.Linear(6, 17), nn.Linear(17, 5)):to "cuda"
   local p = net:parameters()
   local momenta = {}
   for i, w in ipairs(p) do momenta[i] = torch.zeros_like(w) end
   local function step(x, y)
      local h = net[1](x)
      local gate = (h * 1.702):sigmoid() * h + (h - 0.5):tanh():square() * 0.25
      local loss = ((net[2](gate) - y):square() + 1e-6):sqrt():mean()
      net:zero_grad()
      loss:backward()
      torch.no_grad(function()
         for i, w in ipairs(p) do
            momenta[i]:mul_(0.9):add_(w.grad * 0.1 + w * 1e-3)
            w:sub_(momenta[i] * 0.05)
         end
      end)
      return loss:detach()
   end
   local one = captured and cuda.capture_step(step, {torch.zeros(9, 6), torch.zeros(9, 5)})
      or function(x, y) return step(x:to "cuda", y:to "cuda") end
   local data, results = torch.Generator():manual_seed(5), {}
   for i = 1, 50 do
      results[i] = one(torch.randn(9, 6, {generator = data}), torch.randn(9, 5, {generator = data})):clone()
   end
   for _, w in ipairs(p) do results[#results + 1] = w:detach() end
   return results
end

-- A fixed chain
-- -----------------------------------------------------------------------------------------------

local function run_known()
   local x, y = torch.linspace(-3, 3, 1001):to "cuda", torch.linspace(1, 2, 1001):to "cuda"
   local function run() return {((x * y + 1):relu() * 0.5 - y):tanh()} end
   local g = cuda.Graph()
   local replayed = cuda.graph(g, run)
   g:replay()
   compare("known", run(), replayed)
end

-- Chains that must be launched
-- --------------------------------------------------------------------------------

local function run_between()
   local x, side = torch.linspace(-3, 3, 1001):to "cuda", cuda.Stream()
   local function run()
      local a = x * 2 + 1
      local b = a:sum() -- another kernel reads `a`, so the fused chain must be launched before that kernel
      local c = a - 1
      local here = cuda.current_stream()
      side:wait_stream(here)
      local d = cuda.stream(side, function() return c * 3 + 1 end) -- another stream reads `c`
      here:wait_stream(side)
      local e = (d + c) * 2
      local f = torch.zeros(1001, {device = "cuda"}):copy_(e) + 1
      return {a, b, c, d, e, f}
   end
   local g = cuda.Graph()
   local replayed = cuda.graph(g, run)
   for _ = 1, 3 do g:replay() end
   compare("between", run(), replayed)
   local ok, message = pcall(cuda.graph, cuda.Graph(), function() return (x * 2 + 1):sum():item() end)
   assert(not ok and message:find "while a graph is captured", message)
   ok, message = pcall(cuda.graph, cuda.Graph(), function()
      local _ = x * 2 + 1
      error "stop here"
   end)
   assert(not ok and message:find "stop here", message)
   compare("after", {x * 2 + 1}, {x + x + 1})
end

if what == "off" then
   torch.backends.cuda.fusion.enabled = false
   run_known()
elseif what == "train" then
   compare("training", train(false), train(true))
else
   ({chains = run_chains, windows = run_windows, known = run_known, between = run_between})[what]()
end
print "the same bits"
