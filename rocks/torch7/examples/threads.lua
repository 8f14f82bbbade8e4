-- threads.lua - an example in the style of the package threads. Each thread computes the gradient
-- for a part of the batch with a copy of the model. The main thread adds the gradients and makes
-- the step.

local threads = require "threads"
-- luacheck: globals replica

local cmd = torch.CmdLine()
cmd:text "Training by threads"
cmd:option("-seed", 1, "the random seed")
cmd:option("-threads", 2, "threads")
cmd:option("-steps", 40, "steps of training")
cmd:option("-rate", 2, "the learning rate")
local opt = cmd:parse(arg or {})
torch.manualSeed(opt.seed)

-- the inputs are points inside and outside a circle
local inputs = torch.rand(200, 2):mul(2):add(-1)
local targets = inputs:clone():pow(2):sum(2):lt(0.6):double():add(1):view(-1)
local model = nn.Sequential()
   :add(nn.Linear(2, 16)):add(nn.Tanh())
   :add(nn.Linear(16, 2)):add(nn.LogSoftMax())
local parameters = model:getParameters()

threads.Threads.serialization "threads.sharedserialize"
local pool = threads.Threads(opt.threads, function()
   require "nn"
end, function()
   -- the copy shares the memory of the parameters, but each thread has its own gradients
   local copy = model:clone()
   copy:share(model, "weight", "bias")
   local _, gradients = copy:parameters()
   replica = {model = copy, criterion = nn.ClassNLLCriterion(), gradients = gradients}
end)

local losses = {}
local size = inputs:size(1) / opt.threads
for step = 1, opt.steps do
   local loss, sum = 0, torch.zeros(parameters:size(1))
   for part = 1, opt.threads do
      local x = inputs:narrow(1, (part - 1) * size + 1, size)
      local y = targets:narrow(1, (part - 1) * size + 1, size)
      pool:addjob(function()
         local copy, criterion = replica.model, replica.criterion
         copy:zeroGradParameters()
         local value = criterion:forward(copy:forward(x), y)
         copy:backward(x, criterion:backward(copy.output, y))
         local flat = {}
         for i, g in ipairs(replica.gradients) do flat[i] = g:view(-1) end
         return value, torch.cat(flat, 1)
      end, function(value, gradient)
         loss = loss + value / opt.threads
         sum:add(1 / opt.threads, gradient)
      end)
   end
   pool:synchronize()
   parameters:add(-opt.rate, sum)
   losses[step] = loss
   if step % 20 == 0 then print(("step %d: loss %.4f"):format(step, loss)) end
end
pool:terminate()
return losses[1], losses[opt.steps]
