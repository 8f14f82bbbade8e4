-- Fits a logistic regression in the manner of Torch7, with optim.lbfgs over all examples at once
-- and a confusion matrix. Run it by: tlua --torch7 logistic_regression.lua

require "torch"
require "nn"
require "optim"

torch.manualSeed(2)

local n, classes = 300, {"red", "green", "blue"}
local centres = torch.Tensor {{0, 2}, {2, -1}, {-2, -1}}
local targets = torch.Tensor(n):random(1, 3)
local inputs = torch.randn(n, 2):mul(0.7)
for i = 1, n do inputs[i]:add(centres[math.tointeger(targets[i])]) end

local model = nn.Sequential()
model:add(nn.Linear(2, 3))
model:add(nn.LogSoftMax())
local criterion = nn.ClassNLLCriterion()
local x, dl_dx = model:getParameters()

local function feval(x_new)
   if x ~= x_new then x:copy(x_new) end
   dl_dx:zero()
   local loss = criterion:forward(model:forward(inputs), targets)
   model:backward(inputs, criterion:backward(model.output, targets))
   return loss, dl_dx
end

local _, losses = optim.lbfgs(feval, x, {maxIter = 50, lineSearch = optim.lswolfe})
print(("loss %.3f at first, %.3f after %d steps"):format(losses[1], losses[#losses], #losses - 1))

local confusion = optim.ConfusionMatrix(classes)
confusion:batchAdd(model:forward(inputs), targets)
print(confusion)
return confusion.totalValid
