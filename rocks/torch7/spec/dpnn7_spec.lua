-- Tests the package dpnn: rewards and gradients against formulas in plain Lua, and
-- RecurrentAttention against its steps.

local torch = require "torch7"
local nn = require "tlua.torch7.rnn"

torch.manualSeed(3)

local function near(expected, got, tolerance)
   assert.is_true(math.abs(expected - got) <= (tolerance or 1e-9), ("%s and %s"):format(expected, got))
end
local function same(expected, got, tolerance)
   assert.same(expected:size():totable(), got:size():totable())
   assert.is_true((expected - got):abs():max() <= (tolerance or 1e-9))
end

describe("Torch7's dpnn", function()
   it("draws from a Bernoulli distribution, and passes rewards back", function()
      local p, reward = torch.Tensor {{0.2, 0.9}, {0.5, 0.4}}, torch.Tensor {2, -1}
      local module = nn.ReinforceBernoulli()
      local x = module:forward(p)
      module:reinforce(reward)
      local g = module:backward(p, torch.zeros(2, 2))
      for i = 1, 2 do
         for j = 1, 2 do
            assert.is_true(x[i][j] == 0 or x[i][j] == 1)
            near(-(x[i][j] - p[i][j]) / (p[i][j] * (1 - p[i][j])) * reward[i], g[i][j])
         end
      end
      module:evaluate()
      same(p, module:forward(p))
      near(0.25, nn.ReinforceBernoulli():forward(torch.zeros(4000, 1):fill(0.25)):mean(), 0.03)
   end)

   it("draws from normal and categorical distributions", function()
      local mean, reward = torch.Tensor {{1, -2}}, torch.Tensor {3}
      local module = nn.ReinforceNormal(0.5)
      local x = module:forward(mean):clone()
      module:reinforce(reward)
      local g = module:backward(mean, mean)
      for j = 1, 2 do near(-(x[1][j] - mean[1][j]) / 0.25 * 3, g[1][j]) end
      local both, deviation = nn.ReinforceNormal(), torch.Tensor {{0.5, 2}}
      x = both:forward {mean, deviation}:clone()
      both:reinforce(reward)
      g = both:backward({mean, deviation}, mean)[2]
      for j = 1, 2 do
         local d, s = x[1][j] - mean[1][j], deviation[1][j]
         near(-(d * d - s * s) / s ^ 3 * 3, g[1][j])
      end
      local p = torch.Tensor {{0.1, 0.6, 0.3}, {1, 0, 0}}
      local choice = nn.ReinforceCategorical()
      x = choice:forward(p)
      same(torch.ones(2), x:sum(2):view(-1))
      assert.equal(1, x[2][1])
      choice:reinforce(torch.Tensor {1, 2})
      near(-2, choice:backward(p, p)[2][1], 1e-6)
      assert.raises("expected a reward for each of 2 examples", function()
         choice:reinforce(torch.ones(3))
         choice:backward(p, p)
      end)
   end)

   it("subtracts a baseline from the rewards of right classes", function()
      local module = nn.Sequential():add(nn.ReinforceBernoulli())
      local loss = nn.VRClassReward(module, 2)
      local scores, baseline = torch.Tensor {{0.1, 0.9}, {0.8, 0.2}}, torch.Tensor {{0.5}, {0.25}}
      near(-1, loss:forward({scores, baseline}, torch.Tensor {2, 2}))
      local g = loss:backward({scores, baseline}, torch.Tensor {2, 2})
      same(torch.Tensor {(2 - 0.5) / 2, -0.25 / 2}, module:get(1).reward)
      same(torch.zeros(2, 2), g[1])
      same(torch.Tensor {{0.5 - 2}, {0.25}}, g[2]) -- 2 (b - r) / n
      near(-2, nn.BinaryClassReward(module, 4):forward({torch.Tensor {{0.9}, {0.2}}, baseline}, torch.Tensor {1, 1}))
   end)

   it("has modules of recurrent attention", function()
      local rnn = nn.Recurrent(3, nn.Sequential():add(nn.JoinTable(2)):add(nn.Linear(6, 3)), nn.Linear(3, 3), nn.Tanh())
      local noise = nn.ReinforceNormal(0.1)
      local action = nn.Sequential():add(nn.Linear(3, 2)):add(noise)
      local ram = nn.RecurrentAttention(rnn, action, 3, 3)
      local x, reward = torch.randn(2, 4), torch.Tensor {1, -1}
      local outputs = ram:forward(x)
      assert.equal(3, #outputs)
      same(torch.zeros(2, 3), ram.before)
      assert.same({2, 2}, ram.actions[2]:size():totable())
      ram:reinforce(reward)
      ram:zeroGradParameters()
      local given = {torch.zeros(2, 3), torch.zeros(2, 3), torch.randn(2, 3)}
      local g = ram:backward(x, given)
      assert.same({2, 4}, g:size():totable())
      local bias, expected = action:get(1).gradBias, torch.zeros(2)
      for t = 1, 3 do -- the difference between the output and the mean is the noise that was drawn
         local mean = torch.mm(t == 1 and ram.before or outputs[t - 1], action:get(1).weight:t())
            + action:get(1).bias:view(1, 2):expand(2, 2)
         local far = (ram.actions[t] - mean):div(0.01)
         for i = 1, 2 do expected:add(-reward[i], far[i]) end
      end
      same(expected, bias)
      assert.raises("gradOutput: expected 3 steps", function() ram:backward(x, {given[1]}) end)
      assert.raises("nStep: expected a count", function() nn.RecurrentAttention(rnn, action, 0, 3) end)
   end)

   it("trains without optim", function()
      local m = nn.Sequential():add(nn.Linear(3, 2))
      local layer = m:get(1)
      layer.gradWeight:fill(1)
      layer.gradBias:fill(2)
      near(math.sqrt(6 + 8), m:gradParamClip(1))
      near(1, math.sqrt(layer.gradWeight:norm() ^ 2 + layer.gradBias:norm() ^ 2))
      layer.gradWeight:fill(1)
      m:updateGradParameters(0.9)
      layer.gradWeight:fill(2)
      m:updateGradParameters(0.9)
      near(0.9 + 0.1 * 2, layer.gradWeight[1][1])
      layer.weight:fill(3)
      m:maxParamNorm(1)
      near(1, layer.weight[1]:norm(), 1e-5)
      layer.gradWeight:zero()
      local bias = layer.gradBias:clone()
      m:weightDecay(0.5)
      same(layer.weight * 0.5, layer.gradWeight)
      same(bias, layer.gradBias)
   end)

   it("has layers for tables and images", function()
      same(torch.Tensor {-1, 1}, nn.Clip(-1, 1):forward(torch.Tensor {-3, 2}))
      local a, b = torch.ones(2), torch.zeros(2)
      assert.is_true(nn.ReverseTable():forward({a, b})[1]:sum() == 0)
      same(torch.ones(2) * 2, nn.CAddTensorTable():forward({a, {b, a}})[2])
      local image = torch.range(1, 16):view(1, 1, 4, 4)
      local crop = nn.SpatialUniformCrop(2, 2)
      for _ = 1, 5 do
         local x = crop:forward(image)
         assert.equal(1, x[1][1][1][2] - x[1][1][1][1])
         assert.equal(4, x[1][1][2][1] - x[1][1][1][1])
      end
      crop:evaluate()
      same(torch.Tensor {{6, 7}, {10, 11}}, crop:forward(image)[1][1])
      assert.raises("at least 5 x 2", function() nn.SpatialUniformCrop(5, 2):forward(image) end)
      local glimpse = nn.SpatialGlimpse(2, 2, 2)
      local parts = glimpse:forward {image, torch.Tensor {{-1, -1}}}
      same(torch.Tensor {{1, 2}, {5, 6}}, parts[1][1])
      -- The expected values are means over the image with its padding of zeros.
      same(torch.Tensor {{1 / 4, 5 / 4}, {14 / 4, 34 / 4}}, parts[1][2])
      local g = glimpse:backward({image, torch.Tensor {{-1, -1}}}, torch.ones(1, 2, 2, 2))
      near(1 + 1 / 4, g[1][1][1][1][1])
   end)

   it("builds Inception's columns, and saves light files", function()
      local net = nn.Inception {inputSize = 3, outputSize = {4, 5}, reduceSize = {2, 2, 6, 7}}
      assert.same({2, 22, 6, 6}, net:forward(torch.randn(2, 3, 6, 6)):size():totable())
      local heavy = nn.Serial(nn.Linear(3, 3))
      local x = torch.randn(2, 3)
      heavy:forward(x)
      local light = torch.deserialize(torch.serialize(heavy:clone():lightSerial "torch.FloatTensor"))
      assert.equal("torch.FloatTensor", light.modules[1].weight:type())
      assert.equal(0, light.modules[1].gradWeight:nElement())
      same(heavy:forward(x), light:forward(x:float()):double(), 1e-6)
   end)

   it("has logistic criterions", function()
      local x, y = torch.Tensor {0.3, -0.6}, torch.Tensor {1, -1}
      local sum = math.log(1 + math.exp(-0.3)) + math.log(1 + math.exp(-0.6))
      near(sum / 2, nn.BinaryLogisticRegression():forward(x, y))
      near(sum / 4, nn.SpatialBinaryLogisticRegression():forward(x:view(1, 1, 2), y:view(1, 1, 2)))
      near(-1 / (1 + math.exp(0.3)) / 2, nn.BinaryLogisticRegression():backward(x, y)[1])
   end)
end)
