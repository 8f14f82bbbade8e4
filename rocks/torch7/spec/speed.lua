-- Measures training steps of two classic models, and the same models in PyTorch:
--    tlua --torch7 rocks/torch7/spec/speed.lua [PYTHON]
-- Each row is the median of the processor's time for a step on one thread. PYTHON, with PyTorch,
-- runs speed.py, and the last column tells how many times as fast tlua is.

require "torch"
require "nn"
require "nngraph"
require "optim"

torch.setnumthreads(1)
torch.setdefaulttensortype "torch.FloatTensor"

-- Returns the median time of n calls, in milliseconds.
local function median(fn, n)
   for _ = 1, 3 do fn() end
   local times = {}
   for i = 1, n do
      local began = os.clock()
      fn()
      times[i] = os.clock() - began
   end
   table.sort(times)
   return times[(n + 1) // 2] * 1e3
end

local function lstm(count, size)
   local inputs = {nn.Identity()(), nn.Identity()(), nn.Identity()()}
   local x, c, h = inputs[1], inputs[2], inputs[3]
   local sums = nn.CAddTable()({nn.Linear(count, 4 * size)(x), nn.Linear(size, 4 * size)(h)})
   local i, f, o, g = nn.SplitTable(2)(nn.Reshape(4, size)(sums)):split(4)
   local next_c = nn.CAddTable()({
      nn.CMulTable()({nn.Sigmoid()(f), c}), nn.CMulTable()({nn.Sigmoid()(i), nn.Tanh()(g)}),
   })
   local next_h = nn.CMulTable()({nn.Sigmoid()(o), nn.Tanh()(next_c)})
   local out = nn.LogSoftMax()(nn.Linear(size, count)(next_h))
   return nn.gModule(inputs, {next_c, next_h, out})
end

-- Times a step of char-rnn: `count` characters, `size` hidden units, `seq` time steps.
local function char_rnn(count, size, seq, batch, n)
   local cell = lstm(count, size)
   local params, grads = cell:getParameters()
   params:uniform(-0.08, 0.08)
   local clones, criterions, x, y = {}, {}, {}, {}
   local own, own_grads = cell:parameters()
   for t = 1, seq do
      clones[t] = cell:clone()
      local p, g = clones[t]:parameters()
      for k = 1, #p do
         p[k]:set(own[k])
         g[k]:set(own_grads[k])
      end
      criterions[t] = nn.ClassNLLCriterion()
      x[t], y[t] = torch.randn(batch, count), torch.Tensor(batch):random(1, count)
   end
   local function feval()
      grads:zero()
      local c, h = {[0] = torch.zeros(batch, size)}, {[0] = torch.zeros(batch, size)}
      local loss, outputs = 0, {}
      for t = 1, seq do
         c[t], h[t], outputs[t] = table.unpack(clones[t]:forward {x[t], c[t - 1], h[t - 1]})
         loss = loss + criterions[t]:forward(outputs[t], y[t])
      end
      local dc, dh = torch.zeros(batch, size), torch.zeros(batch, size)
      for t = seq, 1, -1 do
         local d = clones[t]:backward({x[t], c[t - 1], h[t - 1]},
            {dc, dh, criterions[t]:backward(outputs[t], y[t])})
         dc, dh = d[2], d[3]
      end
      grads:div(seq):clamp(-5, 5)
      return loss / seq, grads
   end
   local config = {learningRate = 0.002, alpha = 0.95}
   return median(function() optim.rmsprop(feval, params, config) end, n)
end

local function lenet(batch, n)
   local model = nn.Sequential()
      :add(nn.SpatialConvolutionMM(1, 32, 5, 5)):add(nn.Tanh())
      :add(nn.SpatialMaxPooling(3, 3, 3, 3, 1, 1))
      :add(nn.SpatialConvolutionMM(32, 64, 5, 5)):add(nn.Tanh())
      :add(nn.SpatialMaxPooling(2, 2, 2, 2))
      :add(nn.Reshape(64 * 3 * 3)):add(nn.Linear(64 * 3 * 3, 200)):add(nn.Tanh())
      :add(nn.Linear(200, 10)):add(nn.LogSoftMax())
   local criterion = nn.ClassNLLCriterion()
   local params, grads = model:getParameters()
   local x, y = torch.randn(batch, 1, 32, 32), torch.Tensor(batch):random(1, 10)
   local function feval()
      grads:zero()
      local loss = criterion:forward(model:forward(x), y)
      model:backward(x, criterion:backward(model.output, y))
      return loss, grads
   end
   local state = {learningRate = 0.05}
   return median(function() optim.sgd(feval, params, state) end, n)
end

local rows = {
   {"char-rnn, 28 characters, 32 units, 12 steps, batch 4", char_rnn, 28, 32, 12, 4, 60},
   {"char-rnn, 65 characters, 128 units, 50 steps, batch 50", char_rnn, 65, 128, 50, 50, 9},
   {"LeNet, batch 1, as StochasticGradient trains", lenet, 1, 300},
   {"LeNet, batch 10", lenet, 10, 60},
   {"LeNet, batch 64", lenet, 64, 20},
}
local theirs = {}
if arg[1] then
   local program = arg[0]:gsub("%.lua$", ".py")
   local pipe <close> = assert(io.popen(("'%s' '%s'"):format(arg[1], program)))
   for line in pipe:lines() do theirs[#theirs + 1] = tonumber(line) end
end
for i, row in ipairs(rows) do
   local ours = row[2](table.unpack(row, 3))
   print(("%-56s %8.2f ms %s"):format(row[1], ours,
      theirs[i] and ("%8.2f ms %5.2f"):format(theirs[i], theirs[i] / ours) or ""))
end
