-- rnn.lua - an example in the style of the package rnn. A network reads binary digits and predicts
-- after each one whether the number of ones so far is odd. A Sequencer takes whole sequences.

require "rnn"

local cmd = torch.CmdLine()
cmd:text "Parity of a sequence of digits"
cmd:option("-seed", 1, "the random seed")
cmd:option("-rate", 0.05, "the learning rate")
cmd:option("-steps", 300, "steps of training")
cmd:option("-length", 6, "digits of a sequence")
cmd:option("-batch", 16, "sequences of a step")
cmd:option("-hidden", 12, "units")
cmd:option("-module", "FastLSTM", "LSTM, FastLSTM or GRU")
cmd:option("-cuda", false, "train on the device")
local opt = cmd:parse(arg or {})
torch.manualSeed(opt.seed)

local model = nn.Sequencer(nn.Sequential()
   :add(nn[opt.module](1, opt.hidden))
   :add(nn.Linear(opt.hidden, 2))
   :add(nn.LogSoftMax()))
local criterion = nn.SequencerCriterion(nn.ClassNLLCriterion())
if opt.cuda then
   require "cunn"
   model:cuda()
   criterion:cuda()
end
local parameters, gradParameters = model:getParameters()

-- Returns two lists with a tensor for each step: the digits, and their classes (1: even, 2: odd).
local function batch(size)
   local inputs, targets = {}, {}
   local odd = torch.zeros(size)
   for step = 1, opt.length do
      local digits = torch.rand(size):gt(0.5):double()
      odd:add(digits):apply(function(x) return x % 2 end)
      inputs[step], targets[step] = digits:view(size, 1):clone(), odd + 1
      if opt.cuda then inputs[step], targets[step] = inputs[step]:cuda(), targets[step]:cuda() end
   end
   return inputs, targets
end

local losses, state = {}, {learningRate = opt.rate}
for step = 1, opt.steps do
   local inputs, targets = batch(opt.batch)
   local function feval()
      gradParameters:zero()
      local outputs = model:forward(inputs)
      local loss = criterion:forward(outputs, targets)
      model:backward(inputs, criterion:backward(outputs, targets))
      return loss / opt.length, gradParameters
   end
   local _, loss = optim.adam(feval, parameters, state)
   losses[step] = loss[1]
   if step % 100 == 0 then print(("step %d: loss %.4f"):format(step, loss[1])) end
end

model:evaluate()
local inputs, targets = batch(100)
local outputs, right = model:forward(inputs), 0
for step = 1, opt.length do
   local _, class = outputs[step]:max(2)
   right = right + class:view(-1):double():eq(targets[step]:double()):sum()
end
print(("right: %.3f"):format(right / (100 * opt.length)))
return losses[1], losses[opt.steps], right / (100 * opt.length)
