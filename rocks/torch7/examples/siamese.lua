-- Trains a siamese network: two towers that share their parameters, and a loss that depends on the
-- distance of their outputs. Run it by:
--    tlua --torch7 siamese.lua

require "torch"
require "nn"

torch.manualSeed(5)

local tower = nn.Sequential():add(nn.Linear(4, 8)):add(nn.Tanh()):add(nn.Linear(8, 2))
local siamese = nn.ParallelTable()
siamese:add(tower)
siamese:add(tower:clone("weight", "bias", "gradWeight", "gradBias"))
local model = nn.Sequential():add(siamese):add(nn.PairwiseDistance(2))
local criterion = nn.HingeEmbeddingCriterion(1)

-- Returns a pair of vectors and its target: 1 if both vectors are of one kind, otherwise -1.
local function sample(kind)
   local x = torch.randn(4):mul(0.3)
   return x:add(kind == 1 and 1 or -1)
end

local function pair(same)
   local kind = torch.random(1, 2)
   return {sample(kind):view(1, 4), sample(same and kind or 3 - kind):view(1, 4)}
end

local p = model:getParameters()
print(("%d parameters, shared by both towers"):format(p:nElement()))
for i = 1, 600 do
   local same = i % 2 == 0
   local input, target = pair(same), torch.Tensor {same and 1 or -1}
   criterion:forward(model:forward(input), target)
   model:zeroGradParameters()
   model:backward(input, criterion:backward(model.output, target))
   model:updateParameters(0.05)
end

local near, far = 0, 0
for _ = 1, 50 do
   near = near + model:forward(pair(true))[1] / 50
   far = far + model:forward(pair(false))[1] / 50
end
print(("mean distance: %.2f of one kind, %.2f of two"):format(near, far))
return near, far
