-- Fits a linear regression in Torch7's style: optim.sgd calls a closure that returns the loss and
-- its gradient. Run it by: tlua --torch7 linear_regression.lua

require "torch"
require "nn"
require "optim"

torch.manualSeed(1)

-- Each row holds the yield of corn, the amount of fertilizer and the amount of insecticide.
local data = torch.Tensor {
   {40, 6, 4}, {44, 10, 4}, {46, 12, 5}, {48, 14, 7}, {52, 16, 9},
   {58, 18, 12}, {60, 22, 14}, {68, 24, 20}, {74, 26, 21}, {80, 32, 24},
}:div(10)

local model = nn.Sequential()
model:add(nn.Linear(2, 1))
local criterion = nn.MSECriterion()
local x, dl_dx = model:getParameters()

local nextRow = 0
local function feval(x_new)
   if x ~= x_new then x:copy(x_new) end
   nextRow = nextRow % data:size(1) + 1
   local sample = data[nextRow]
   local target, inputs = sample[{{1}}], sample[{{2, 3}}]
   dl_dx:zero()
   local loss = criterion:forward(model:forward(inputs), target)
   model:backward(inputs, criterion:backward(model.output, target))
   return loss, dl_dx
end

local config = {learningRate = 0.05, learningRateDecay = 1e-3}
local loss
for epoch = 1, 600 do
   loss = 0
   for _ = 1, data:size(1) do
      local _, fs = optim.sgd(feval, x, config)
      loss = loss + fs[1]
   end
   loss = loss / data:size(1)
   if epoch % 200 == 0 then print(("epoch %d: loss %.4f"):format(epoch, loss)) end
end

-- Compares the loss with the loss of the least-squares solution.
local A = torch.cat(data[{{}, {2, 3}}], torch.ones(data:size(1), 1), 2)
local y = data[{{}, {1}}]
-- gels returns the solution in the first rows, and further rows with residuals after them
local best = torch.gels(y, A):narrow(1, 1, 3)
local least = criterion:forward(torch.mm(A, best), y)
print(("loss %.4f, by least squares %.4f"):format(loss, least))
return loss, least
