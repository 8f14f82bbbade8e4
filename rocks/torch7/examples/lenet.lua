-- Trains LeNet on images of bars with nn.StochasticGradient. Run it by:
--    tlua --torch7 lenet.lua [-cuda]

require "torch"
require "nn"

local cmd = torch.CmdLine()
cmd:text "LeNet on pictures of bars"
cmd:option("-cuda", false, "train on the GPU, or on the simulated device")
cmd:option("-epochs", 5, "number of passes over the data")
cmd:option("-examples", 60, "number of pictures")
local opt = cmd:parse(arg)

torch.manualSeed(3)
torch.setdefaulttensortype "torch.FloatTensor"

-- Returns an image (1, 32, 32) with a horizontal bar (class 1), a vertical bar (2) or none (3).
local function picture(class)
   local x = torch.randn(1, 32, 32):mul(0.1)
   local at = torch.random(5, 25)
   if class == 1 then x[{1, {at, at + 3}, {}}]:add(1) end
   if class == 2 then x[{1, {}, {at, at + 3}}]:add(1) end
   return x
end

local dataset = {}
function dataset:size() return opt.examples end
for i = 1, opt.examples do
   local class = i % 3 + 1
   local target = torch.Tensor {class}
   dataset[i] = {picture(class), target}
   if opt.cuda then dataset[i] = {dataset[i][1]:cuda(), target:cuda()} end
end

local net = nn.Sequential()
net:add(nn.SpatialConvolution(1, 6, 5, 5))
net:add(nn.ReLU())
net:add(nn.SpatialMaxPooling(2, 2, 2, 2))
net:add(nn.SpatialConvolution(6, 16, 5, 5))
net:add(nn.ReLU())
net:add(nn.SpatialMaxPooling(2, 2, 2, 2))
net:add(nn.View(16 * 5 * 5))
net:add(nn.Linear(16 * 5 * 5, 120))
net:add(nn.ReLU())
net:add(nn.Linear(120, 84))
net:add(nn.ReLU())
net:add(nn.Linear(84, 3))
net:add(nn.LogSoftMax())
local criterion = nn.ClassNLLCriterion()
if opt.cuda then
   require "cunn"
   net:cuda()
   criterion:cuda()
end

local trainer = nn.StochasticGradient(net, criterion)
trainer.learningRate, trainer.maxIteration = 0.03, opt.epochs
trainer:train(dataset)

local correct = 0
for i = 1, dataset:size() do
   local _, best = net:forward(dataset[i][1]):max(1)
   if best[1] == dataset[i][2][1] then correct = correct + 1 end
end
print(("%d of %d correct"):format(correct, dataset:size()))
return correct / dataset:size()
