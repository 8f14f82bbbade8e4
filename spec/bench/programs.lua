-- programs.lua - measures inference with batch size 1 on one thread. Each model runs eagerly, by torch.compile, as an
-- exported program, as an optimized program, and as a program of 8-bit integers. If Python has PyTorch and ONNX
-- Runtime, they are measured too. Times are processor time, so that other processes on the machine matter less.
--
--    build/tlua spec/bench/programs.lua [--python FILE] [--only NAME]

local torch = require "tlua"
local nn = torch.nn

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/../../rocks/?.lua;" .. package.path

local options = {}
for i = 1, #arg, 2 do options[arg[i]:gsub("^%-%-", "")] = arg[i + 1] end

torch.set_num_threads(1)
torch.manual_seed(1)
local _ <close> = torch.no_grad()

local vision = require "tlua.vision"

-- A row is {name, model, sizes of the input, the model in Python or nil, whether ONNX Runtime can run it}.
local rows = {
   {"MLP 64-128-10", nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), {1, 64},
      "nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))", true},
   {"MLP 784-512-512-10", nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
      nn.Linear(512, 10)), {1, 784},
      "nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))", true},
   {"convnet 28x28", nn.Sequential(nn.Conv2d(1, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
      nn.Conv2d(32, 64, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(),
      nn.Linear(128, 10)), {1, 1, 28, 28},
      "nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), "
      .. "nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))", true},
   {"MobileNetV2 224", vision.models.mobilenet_v2(), {1, 3, 224, 224}, nil, true},
   {"ResNet-18 224", vision.models.resnet18(), {1, 3, 224, 224}, nil, true},
   {"Transformer 4x256, 64", nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 1024, {batch_first = true}), 4),
      {1, 64, 256}, "nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True), 4)"},
   {"LSTM 64-128, 32 steps", nn.LSTM(64, 128), {32, 1, 64}, "nn.LSTM(64, 128)"},
}

-- Returns the CPU time of one call in microseconds, from the fastest of several series of calls.
local function time(fn)
   fn()
   local begun = os.clock()
   fn()
   local n = math.max(1, math.floor(0.02 / math.max(os.clock() - begun, 1e-7)))
   local best = math.huge
   for _ = 1, 7 do
      local start = os.clock()
      for _ = 1, n do fn() end
      best = math.min(best, (os.clock() - start) / n)
   end
   return best * 1e6
end

local python <const> = [[
import sys, time
sizes, code, path = eval(sys.argv[1]), sys.argv[2], sys.argv[3]
def best(fn):
   fn(); t = time.process_time(); fn(); n = max(1, int(0.02 / max(time.process_time() - t, 1e-7)))
   low = 1e9
   for _ in range(7):
      t = time.process_time()
      for _ in range(n): fn()
      low = min(low, (time.process_time() - t) / n)
   return low * 1e6
times = []
try:
   import torch
   from torch import nn
   torch.set_num_threads(1)
   assert code
   model, x = eval(code).eval(), torch.randn(*sizes)
   with torch.no_grad(): times.append("%.1f" % best(lambda: model(x)))
except Exception: times.append("-")
try:
   import onnxruntime, numpy
   assert path
   options = onnxruntime.SessionOptions()
   options.intra_op_num_threads = 1
   session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
   given = {session.get_inputs()[0].name: numpy.random.randn(*sizes).astype("float32")}
   times.append("%.1f" % best(lambda: session.run(None, given)))
except Exception: times.append("-")
print("\t".join(times))
]]

local function times_of_python(sizes, code, model, x)
   if not options.python then return "-", "-" end
   local script, path = os.tmpname(), ""
   if model then
      path = os.tmpname()
      torch.onnx.export(model, {x}, path)
   end
   local file = assert(io.open(script, "w"))
   file:write(python)
   file:close()
   local pipe = assert(io.popen(("%s %s '[%s]' '%s' '%s' 2>/dev/null"):format(options.python, script,
      table.concat(sizes, ","), code or "", path)))
   local line = pipe:read "l" or "-\t-"
   pipe:close()
   os.remove(script)
   if model then os.remove(path) end
   return line:match "([^\t]*)\t([^\t]*)"
end

local form <const> = "%-24s" .. (" %10s"):rep(7)
print(form:format("microseconds", "eager", "program", "optimized", "compiled", "int8", "PyTorch", "ORT"))
for _, row in ipairs(rows) do
   local name, model, sizes, code, onnx = table.unpack(row, 1, 5)
   if not options.only or name:find(options.only, 1, true) then
      model:eval()
      local x = torch.randn(sizes)
      local program, fast = torch.export(model, {x}), torch.compile(model)
      local optimized = torch.export(model, {x}, {optimize = true})
      local made, small = pcall(function()
         return torch.ao.quantization.quantize_(torch.export(model, {x}), {kind = "static", calibration = {x}})
      end)
      for _ = 1, 4 do fast(x) end
      local figures = {time(function() return model(x) end), time(function() return program(x) end),
         time(function() return optimized(x) end), time(function() return fast(x) end),
         made and time(function() return small(x) end)}
      for i = 1, 5 do figures[i] = figures[i] and ("%.1f"):format(figures[i]) or "-" end
      local pytorch, ort = times_of_python(sizes, code, onnx and model, x)
      print(form:format(name, figures[1], figures[2], figures[3], figures[4], figures[5], pytorch,
         ort))
   end
end
