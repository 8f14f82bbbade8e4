-- compile.lua - measures torch.compile on one thread: chains of elementwise operators, inference and training steps,
-- each eagerly and compiled. The column "program" has training steps that torch.export_step has made into programs.
-- With --python FILE, PyTorch and its torch.compile are measured too. The functions of a row are measured in turn.
-- Times are processor time, so that other processes on the machine matter less. The column "compile" has the
-- milliseconds of the first calls, until the compiled program runs.
--
--    build/tlua spec/bench/compile.lua [--python FILE] [--only NAME]

local torch = require "tlua"
local nn, F = torch.nn, torch.nn.functional

local options = {}
for i = 1, #arg, 2 do options[arg[i]:gsub("^%-%-", "")] = arg[i + 1] end
torch.set_num_threads(1)
torch.manual_seed(1)
io.stdout:setvbuf "line"

-- A row is {name, fn, Python}. fn returns the function to compile, a function that calls it once and, for a training
-- step, a function that makes the step's program and returns the function that runs it.
-- The Python text defines `fn`, and `step(f)`, which calls f once.
local rows = {}

local function row(name, make, python) rows[#rows + 1] = {name, make, python} end

local function without_gradients(fn, ...)
   local inputs = {...}
   return fn, function(f)
      local _ <close> = torch.no_grad()
      return f(table.unpack(inputs))
   end
end

-- Returns a training step: a forward pass, a loss of the model's result, a backward pass and an optimizer step. `fn` is
-- the model itself or a function that calls it.
local function training(model, optimizer, x, y, fn)
   fn = fn or model
   local function loss(out, wanted)
      return wanted and F.cross_entropy(out, wanted) or out:square():mean()
   end
   return fn, function(f)
      optimizer:zero_grad()
      loss(f(x), y):backward()
      optimizer:step()
   end, function()
      local program = torch.export_step(function(input, wanted)
         optimizer:zero_grad()
         local value = loss(fn(input), wanted)
         value:backward()
         optimizer:step()
         return value
      end, {x, y}, {model = model, optimizer = optimizer})
      return function() program(x, y) end
   end
end

for _, n in ipairs {1 << 20, 1 << 22} do
   row(("gelu(x * a + b) * c + x, %dM"):format(n >> 20), function()
      local a, b, c = torch.randn(n), torch.randn(n), torch.randn(n)
      return without_gradients(function(x) return F.gelu(x * a + b) * c + x end, torch.randn(n))
   end, ([[
n = %d
a, b, c, x = torch.randn(n), torch.randn(n), torch.randn(n), torch.randn(n)
def fn(x): return F.gelu(x * a + b) * c + x
def step(f):
    with torch.no_grad(): f(x)]]):format(n))
   row(("abs(relu(x * 2 + 1) * 3 - 1), %dM"):format(n >> 20), function()
      return without_gradients(function(x) return ((x * 2 + 1):relu() * 3 - 1):abs() end, torch.randn(n))
   end, ([[
x = torch.randn(%d)
def fn(x): return ((x * 2 + 1).relu() * 3 - 1).abs()
def step(f):
    with torch.no_grad(): f(x)]]):format(n))
end

row("the first one of 1024 x 1024, gradients", function()
   local a, b, c = nn.Parameter(torch.randn(1024)), nn.Parameter(torch.randn(1024)), torch.randn(1024, 1024)
   local x = torch.randn(1024, 1024)
   return function(input) return F.gelu(input * a + b) * c + input end, function(f)
      a.grad, b.grad = nil, nil
      f(x):sum():backward()
   end
end, [[
a, b, c = nn.Parameter(torch.randn(1024)), nn.Parameter(torch.randn(1024)), torch.randn(1024, 1024)
x = torch.randn(1024, 1024)
def fn(x): return F.gelu(x * a + b) * c + x
def step(f):
    a.grad = b.grad = None
    f(x).sum().backward()]])

local step_python <const> = [[

def step(f):
    optimizer.zero_grad()
    (F.cross_entropy(f(x), y) if y is not None else f(x).square().mean()).backward()
    optimizer.step()]]

-- The networks of small control tasks. The learning rate is small, since the gradients of a network that has learned
-- its batch are denormal numbers, with which processors calculate slowly.
for _, batch in ipairs {1, 8, 32} do
   for _, sizes in ipairs {{10, 32, 1}, {4, 64, 64, 2}, {17, 256, 256, 6}, {64, 128, 10}} do
      row(("MLP %s, batch %d, Adam"):format(table.concat(sizes, "-"), batch), function()
         local layers = {}
         for i = 2, #sizes do
            layers[#layers + 1] = nn.Linear(sizes[i - 1], sizes[i])
            if i < #sizes then layers[#layers + 1] = nn.ReLU() end
         end
         local model = nn.Sequential(table.unpack(layers))
         local wanted = sizes[#sizes] == 10 and torch.randint(1, 11, {batch}) or nil
         return training(model, torch.optim.Adam(model:parameters(), {lr = 1e-7}), torch.randn(batch, sizes[1]), wanted)
      end, ([[
sizes, batch = [%s], %d
layers = []
for m, n in zip(sizes, sizes[1:]): layers += [nn.Linear(m, n), nn.ReLU()]
fn = nn.Sequential(*layers[:-1])
x, y = torch.randn(batch, sizes[0]), torch.randint(0, 10, (batch,)) if sizes[-1] == 10 else None
optimizer = torch.optim.Adam(fn.parameters(), lr=1e-7)]]):format(table.concat(sizes, ", "), batch) .. step_python)
   end
end

row("MLP 784-512-512-10, batch 64, Adam", function()
   local model = nn.Sequential(nn.Linear(784, 512), nn.GELU(), nn.Dropout(0.2), nn.Linear(512, 512), nn.GELU(),
      nn.Dropout(0.2), nn.Linear(512, 10))
   return training(model, torch.optim.Adam(model:parameters()), torch.randn(64, 784), torch.randint(1, 11, {64}))
end, [[
fn = nn.Sequential(nn.Linear(784, 512), nn.GELU(), nn.Dropout(0.2), nn.Linear(512, 512), nn.GELU(), nn.Dropout(0.2),
                   nn.Linear(512, 10))
x, y, optimizer = torch.randn(64, 784), torch.randint(0, 10, (64,)), torch.optim.Adam(fn.parameters())]] .. step_python)

row("digits' convnet, batch 32, Adam", function()
   local model = nn.Sequential(nn.Conv2d(1, 32, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(32, 64, 3, {padding = 1}),
      nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10))
   return training(model, torch.optim.Adam(model:parameters()), torch.randn(32, 1, 8, 8), torch.randint(1, 11, {32}))
end, [[
fn = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                   nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10))
x, y, optimizer = torch.randn(32, 1, 8, 8), torch.randint(0, 10, (32,)), torch.optim.Adam(fn.parameters())]]
   .. step_python)

row("ResNet-18, 8 of 64 x 64, SGD", function()
   local model = require "tlua.vision".models.resnet18()
   return training(model, torch.optim.SGD(model:parameters(), {lr = 0.01, momentum = 0.9}), torch.randn(8, 3, 64, 64),
      torch.randint(1, 1001, {8}))
end, [[
import torchvision
fn = torchvision.models.resnet18()
x, y, optimizer = torch.randn(8, 3, 64, 64), torch.randint(0, 1000, (8,)), torch.optim.SGD(fn.parameters(), lr=0.01,
                                                                                         momentum=0.9)]] .. step_python)

row("Transformer 2x128, 16 x 64, AdamW", function()
   local layer = nn.TransformerEncoderLayer(128, 4, 512, {batch_first = true, activation = "gelu"})
   local model = nn.TransformerEncoder(layer, 2)
   return training(model, torch.optim.AdamW(model:parameters()), torch.randn(16, 64, 128))
end, [[
fn = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, activation="gelu"), 2)
x, y, optimizer = torch.randn(16, 64, 128), None, torch.optim.AdamW(fn.parameters())]] .. step_python)

row("LSTM 64-128, 32 steps of 16, SGD", function()
   local model = nn.LSTM(64, 128)
   return training(model, torch.optim.SGD(model:parameters(), {lr = 0.01}), torch.randn(32, 16, 64), nil,
      function(x) return (model(x)) end)
end, [[
model = nn.LSTM(64, 128)
def fn(x): return model(x)[0]
x, y, optimizer = torch.randn(32, 16, 64), None, torch.optim.SGD(model.parameters(), lr=0.01)]] .. step_python)

local function once(fn, n)
   local start = os.clock()
   for _ = 1, n do fn() end
   return (os.clock() - start) / n
end

-- Returns the list of the microseconds that one call of each function takes, measured in turn. Each time is the fastest
-- of several series of calls.
local function times(list)
   local n = math.max(1, math.floor(0.02 / math.max(once(list[1], 1), 1e-7)))
   local best = {}
   for _ = 1, 15 do
      for i, fn in ipairs(list) do best[i] = math.min(best[i] or math.huge, once(fn, n) * 1e6) end
   end
   return best
end

local python <const> = [[
import sys, time, torch
from torch import nn
import torch.nn.functional as F
torch.set_num_threads(1)
exec(sys.argv[1])
def once(f, n):
    t = time.process_time()
    for _ in range(n): step(f)
    return (time.process_time() - t) / n
once(fn, 3)
n = max(1, int(0.02 / max(once(fn, 1), 1e-7)))
eager = min(once(fn, n) for _ in range(10)) * 1e6
try:
    t = time.time()
    fast = torch.compile(fn)
    once(fast, 3)
    t = time.time() - t
    low = 1e9, 1e9
    for _ in range(10): low = min(low[0], once(fn, n)), min(low[1], once(fast, n))
    print("%.0f %.0f %.0f" % (low[0] * 1e6, low[1] * 1e6, t * 1e3))
except Exception as e: print("%.0f - -" % eager)
]]

local function theirs(code)
   if not options.python then return "", "", "" end
   local name = os.tmpname()
   local file <close> = assert(io.open(name, "w"))
   file:write(code)
   file:flush()
   local script = os.tmpname()
   local other <close> = assert(io.open(script, "w"))
   other:write(python)
   other:flush()
   local pipe <close> = io.popen(("%s %s \"$(cat %s)\" 2>/dev/null"):format(options.python, script, name))
   local a, b, c = pipe:read "a":match "(%S+) (%S+) (%S+)"
   os.remove(name)
   os.remove(script)
   return a or "-", b or "-", c or "-"
end

local form <const> = "%-42s %9s %9s %6s %9s %6s %8s %9s %9s %8s"
print(form:format("microseconds", "eager", "compiled", "times", "program", "times", "compile", "PyTorch", "compiled",
   "compile"))
local sum, count = 0, 0
for _, entry in ipairs(rows) do
   local name, make, code = table.unpack(entry)
   if not options.only or name:find(options.only, 1, true) then
      local fn, step, make_program = make()
      for _ = 1, 3 do step(fn) end
      local fast = torch.compile(fn)
      local compile = once(function() step(fast) end, 4) * 4 - 4 * once(function() step(fn) end, 4)
      local best = times {
         function() step(fn) end, function() step(fast) end, make_program and make_program(),
      }
      local function ratio(k) return best[k] and ("%.2f"):format(best[1] / best[k]) or "" end
      local function text(k) return best[k] and ("%.1f"):format(best[k]) or "" end
      sum, count = sum + math.log(best[1] / best[2]), count + 1
      local a, b, c = theirs(code)
      print(form:format(name, text(1), text(2), ratio(2), text(3), ratio(3),
         ("%.0f"):format(math.max(compile, 0) * 1e3), a, b, c))
   end
end
if count > 1 then print(("geometric mean: %.2f"):format(math.exp(sum / count))) end
