-- Trains a network over characters in the manner of char-rnn: an LSTM made with nngraph and
-- unrolled into clones that share weights, manual backpropagation through time, and optim.rmsprop.
-- Run it by:
--    tlua --torch7 char_rnn.lua [-cuda]

require "torch"
require "nn"
require "nngraph"
require "optim"

local cmd = torch.CmdLine()
cmd:option("-cuda", false, "train on the GPU, or on the simulated device")
cmd:option("-steps", 120, "number of updates")
local opt = cmd:parse(arg)

torch.manualSeed(4)
torch.setdefaulttensortype "torch.FloatTensor"

local text = ("the quick brown fox jumps over the lazy dog. "):rep(20)
local vocabulary, count = {}, 0
for c in text:gmatch "." do
   if not vocabulary[c] then
      count = count + 1
      vocabulary[c] = count
   end
end
local size, seq, batch = 32, 12, 4

local function move(x) return opt.cuda and x:cuda() or x end

-- Returns an LSTM step as a module that maps {x, c, h} to {c, h, log probabilities}.
local function lstm()
   local inputs = {nn.Identity()(), nn.Identity()(), nn.Identity()()}
   local x, c, h = inputs[1], inputs[2], inputs[3]
   local sums = nn.CAddTable()({nn.Linear(count, 4 * size)(x), nn.Linear(size, 4 * size)(h)})
   local gates = nn.SplitTable(2)(nn.Reshape(4, size)(sums))
   local i, f, o, g = gates:split(4)
   local next_c = nn.CAddTable()({
      nn.CMulTable()({nn.Sigmoid()(f), c}), nn.CMulTable()({nn.Sigmoid()(i), nn.Tanh()(g)}),
   })
   local next_h = nn.CMulTable()({nn.Sigmoid()(o), nn.Tanh()(next_c)})
   local out = nn.LogSoftMax()(nn.Linear(size, count)(next_h))
   return nn.gModule(inputs, {next_c, next_h, out})
end

local cell = lstm()
if opt.cuda then cell:cuda() end
local params, grads = cell:getParameters()
params:uniform(-0.08, 0.08)
local clones, criterions = {}, {}
local own, own_grads = cell:parameters()
for t = 1, seq do
   clones[t] = cell:clone()
   local p, g = clones[t]:parameters()
   for k = 1, #p do
      p[k]:set(own[k])
      g[k]:set(own_grads[k])
   end
   criterions[t] = nn.ClassNLLCriterion()
   if opt.cuda then criterions[t]:cuda() end
end

-- Returns two lists with a tensor for each time step: the characters as one-hot rows, and the
-- classes of the characters that follow them.
local function examples()
   local x, y = {}, {}
   for t = 1, seq do x[t], y[t] = torch.zeros(batch, count), torch.Tensor(batch) end
   for b = 1, batch do
      local first = torch.random(1, #text - seq)
      for t = 1, seq do
         x[t][b][vocabulary[text:sub(first + t - 1, first + t - 1)]] = 1
         y[t][b] = vocabulary[text:sub(first + t, first + t)]
      end
   end
   for t = 1, seq do x[t], y[t] = move(x[t]), move(y[t]) end
   return x, y
end

local function feval()
   grads:zero()
   local x, y = examples()
   local c, h = {[0] = move(torch.zeros(batch, size))}, {[0] = move(torch.zeros(batch, size))}
   local loss = 0
   local outputs = {}
   for t = 1, seq do
      c[t], h[t], outputs[t] = table.unpack(clones[t]:forward {x[t], c[t - 1], h[t - 1]})
      loss = loss + criterions[t]:forward(outputs[t], y[t])
   end
   local dc, dh = move(torch.zeros(batch, size)), move(torch.zeros(batch, size))
   for t = seq, 1, -1 do
      local d = clones[t]:backward({x[t], c[t - 1], h[t - 1]},
         {dc, dh, criterions[t]:backward(outputs[t], y[t])})
      dc, dh = d[2], d[3]
   end
   grads:div(seq):clamp(-5, 5)
   return loss / seq, grads
end

local config, first, last = {learningRate = 0.01, alpha = 0.95}, nil, nil
for step = 1, opt.steps do
   local _, losses = optim.rmsprop(feval, params, config)
   last = losses[1]
   first = first or last
   if step % 40 == 0 then print(("step %d: loss %.3f"):format(step, last)) end
end
return first, last
