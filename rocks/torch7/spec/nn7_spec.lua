-- Tests Torch7's nn: the gradients of each layer against finite differences, values computed by
-- hand, and the methods of modules.

local torch = require "torch7"
local nn = require "tlua.torch7.nn"

torch.manualSeed(1)

local function values(x) return x:clone():view(-1):totable() end

local function near(expected, x, tolerance)
   local got = values(x)
   assert.equal(#expected, #got)
   for i, value in ipairs(expected) do
      assert.is_true(math.abs(value - got[i]) <= (tolerance or 1e-9),
         ("%d: expected %s, got %s"):format(i, value, got[i]))
   end
end

-- Each row has a layer and the sizes of its input. If the input is a table of tensors, the row has a list of sizes for
-- each tensor.
local rows = {
   {nn.Linear(3, 4), {2, 3}}, {nn.Linear(3, 4, false), {3}}, {nn.LinearWeightNorm(3, 4), {2, 3}},
   {nn.Bilinear(2, 3, 4), {{2, 2}, {2, 3}}}, {nn.PartialLinear(3, 4), {2, 3}}, {nn.Add(3), {2, 3}},
   {nn.Add(1, true), {2, 3}}, {nn.Mul(), {2, 3}}, {nn.CMul(3), {2, 3}}, {nn.CMul(1, 3, 1), {2, 3, 2}},
   {nn.CAdd(3), {2, 3}}, {nn.Euclidean(3, 4), {2, 3}}, {nn.WeightedEuclidean(3, 4), {2, 3}}, {nn.Cosine(3, 4), {2, 3}},
   {nn.Identity(), {2, 3}}, {nn.Contiguous(), {2, 3}}, {nn.Exp(), {2, 3}}, {nn.Abs(), {2, 3}},
   {nn.Square(), {2, 3}}, {nn.Power(2), {2, 3}}, {nn.Clamp(-1, 1), {2, 3}}, {nn.AddConstant(2), {2, 3}},
   {nn.MulConstant(2), {2, 3}}, {nn.Normalize(2), {2, 3}}, {nn.MM(), {{2, 3}, {3, 2}}},
   {nn.MM(true, true), {{3, 2}, {2, 3}}}, {nn.MV(), {{2, 3}, {3}}}, {nn.Max(2), {2, 3}}, {nn.Min(1), {2, 3}},
   {nn.Mean(1), {2, 3}}, {nn.Sum(2), {2, 3}}, {nn.Sum(1, 1), {2, 3}}, {nn.View(6), {2, 6}}, {nn.View(-1), {2, 3}},
   {nn.Reshape(3, 2), {4, 6}}, {nn.Narrow(2, 2, 2), {2, 4}}, {nn.Select(2, 1), {2, 3}}, {nn.Replicate(3, 2), {2, 3}},
   {nn.Squeeze(), {2, 1, 3}}, {nn.Unsqueeze(1, 1), {2, 3}}, {nn.Transpose({1, 2}), {2, 3}}, {nn.Collapse(2), {2, 3, 2}},
   {nn.Padding(1, 2, 1, 0.5), {2, 3}}, {nn.Padding(1, -2, 1), {2, 3}}, {nn.PixelShuffle(2), {2, 4, 2, 2}},
   {nn.Tanh(), {2, 3}}, {nn.Sigmoid(), {2, 3}}, {nn.SoftSign(), {2, 3}}, {nn.LogSigmoid(), {2, 3}},
   {nn.SoftPlus(), {2, 3}}, {nn.HardTanh(), {2, 3}}, {nn.HardShrink(), {2, 3}}, {nn.SoftShrink(), {2, 3}},
   {nn.TanhShrink(), {2, 3}}, {nn.Threshold(0.1, 0), {2, 3}}, {nn.ReLU(), {2, 3}}, {nn.ReLU6(), {2, 3}},
   {nn.ELU(), {2, 3}}, {nn.LeakyReLU(0.1), {2, 3}}, {nn.CReLU(1), {2, 3}}, {nn.GatedLinearUnit(), {2, 4}},
   {nn.PReLU(), {2, 3}}, {nn.PReLU(3), {2, 3}}, {nn.SoftMax(), {2, 3}}, {nn.LogSoftMax(), {2, 3}}, {nn.SoftMin(), {3}},
   {nn.SpatialSoftMax(), {2, 3, 2, 2}}, {nn.SpatialLogSoftMax(), {2, 3, 2, 2}},
   {nn.BatchNormalization(3), {4, 3}}, {nn.SpatialBatchNormalization(2), {3, 2, 2, 2}},
   {nn.VolumetricBatchNormalization(2), {2, 2, 2, 2, 2}}, {nn.LayerNormalization(3), {2, 3}},
   {nn.InstanceNormalization(2), {2, 2, 2, 3}},
   {nn.JoinTable(1, 1), {{2, 3}, {2, 2}}}, {nn.CAddTable(), {{2, 3}, {2, 3}}}, {nn.CMulTable(), {{2, 3}, {2, 3}}},
   {nn.CSubTable(), {{2, 3}, {2, 3}}}, {nn.CDivTable(), {{2, 3}, {2, 3}}}, {nn.CMaxTable(), {{2, 3}, {2, 3}}},
   {nn.CMinTable(), {{2, 3}, {2, 3}}}, {nn.DotProduct(), {{2, 3}, {2, 3}}}, {nn.DotProduct(), {{3}, {3}}},
   {nn.CosineDistance(), {{2, 3}, {2, 3}}}, {nn.PairwiseDistance(2), {{2, 3}, {2, 3}}},
   {nn.MixtureTable(), {{2, 3}, {{2, 4}, {2, 4}, {2, 4}}}}, {nn.SelectTable(-1), {{2}, {3}}},
   {nn.TemporalConvolution(2, 3, 2), {4, 2}}, {nn.TemporalConvolution(2, 3, 2, 2), {2, 5, 2}},
   {nn.TemporalRowConvolution(2, 2), {4, 2}}, {nn.TemporalMaxPooling(2), {4, 3}},
      {nn.TemporalSubSampling(2, 2, 2), {4, 2}},
   {nn.TemporalDynamicKMaxPooling(2), {5, 3}}, {nn.SpatialConvolution(2, 3, 2, 2), {2, 3, 3}},
   {nn.SpatialConvolution(2, 3, 3, 2, 2, 1, 1), {2, 2, 4, 5}}, {nn.SpatialConvolution(2, 2, 2, 2):noBias(), {2, 3, 3}},
   {nn.SpatialDilatedConvolution(1, 2, 2, 2, 1, 1, 0, 0, 2, 2), {1, 4, 4}},
   {nn.SpatialFullConvolution(2, 3, 3, 3, 2, 2, 1, 1, 1, 1), {2, 2, 3}},
   {nn.SpatialDepthWiseConvolution(2, 2, 2, 2), {2, 3, 3}}, {nn.SpatialConvolutionLocal(2, 2, 3, 3, 2, 2), {2, 3, 3}},
   {nn.SpatialConvolutionMap(nn.tables.oneToOne(2), 2, 2), {2, 3, 3}},
   {nn.SpatialFullConvolutionMap(nn.tables.full(2, 3), 2, 2), {2, 3, 3}},
   {nn.SpatialMaxPooling(2, 2), {2, 4, 4}}, {nn.SpatialMaxPooling(2, 2, 2, 2):ceil(), {1, 2, 5, 5}},
   {nn.SpatialDilatedMaxPooling(2, 2, 1, 1, 0, 0, 2, 2), {1, 4, 4}}, {nn.SpatialAveragePooling(2, 2, 2, 2), {2, 4, 4}},
   {nn.SpatialAdaptiveMaxPooling(2, 2), {2, 4, 5}}, {nn.SpatialAdaptiveAveragePooling(2, 3), {2, 4, 5}},
   {nn.SpatialSubSampling(2, 2, 2, 2, 2), {2, 4, 4}}, {nn.SpatialUpSamplingNearest(2), {2, 2, 3}},
   {nn.SpatialUpSamplingBilinear(2), {2, 2, 3}}, {nn.SpatialZeroPadding(1, 2, 1, -1), {2, 3, 3}},
   {nn.SpatialReflectionPadding(1, 2, 1, 1), {2, 3, 3}}, {nn.SpatialReplicationPadding(1, 1, 1, 1), {2, 3, 3}},
   {nn.SpatialCrossMapLRN(3), {4, 2, 2}}, {nn.SpatialSubtractiveNormalization(2, torch.ones(3, 3)), {2, 4, 4}},
   {nn.SpatialDivisiveNormalization(2, torch.ones(3, 3)), {2, 4, 4}},
   {nn.SpatialContrastiveNormalization(2, torch.ones(3, 3)), {2, 4, 4}},
   {nn.SpatialFractionalMaxPooling(2, 2, 2, 2):fixPoolingRegions(), {2, 5, 5}},
   {nn.VolumetricConvolution(2, 2, 2, 2, 2), {2, 3, 3, 3}}, {nn.VolumetricFullConvolution(1, 2, 2, 2, 2), {1, 2, 2, 2}},
   {nn.VolumetricDilatedConvolution(1, 2, 2, 2, 2), {1, 3, 3, 3}}, {nn.VolumetricMaxPooling(2, 2, 2), {1, 2, 4, 4}},
   {nn.VolumetricDilatedMaxPooling(2, 2, 2), {1, 2, 4, 4}}, {nn.VolumetricAveragePooling(2, 2, 2), {1, 2, 4, 4}},
   {nn.VolumetricReplicationPadding(1), {1, 2, 2, 2}},
   {nn.Sequential():add(nn.Linear(3, 2)):add(nn.Tanh()), {2, 3}},
   {nn.Concat(2):add(nn.Linear(3, 2)):add(nn.Linear(3, 1)), {2, 3}},
   {nn.DepthConcat(1):add(nn.SpatialConvolution(1, 1, 3, 3)):add(nn.SpatialConvolution(1, 2, 1, 1)), {1, 4, 4}},
   {nn.Parallel(1, 2):add(nn.Linear(3, 2)):add(nn.Linear(3, 1)), {2, 4, 3}},
   {nn.Sequential():add(nn.ConcatTable():add(nn.Linear(3, 2)):add(nn.Linear(3, 2))):add(nn.CAddTable()), {2, 3}},
   {nn.Sequential():add(nn.SplitTable(1)):add(nn.MapTable(nn.Linear(3, 2))):add(nn.JoinTable(1)), {2, 3}},
   {nn.Sequential():add(nn.SplitTable(1)):add(nn.ParallelTable():add(nn.Linear(3, 2)):add(nn.Tanh()))
      :add(nn.JoinTable(1)), {2, 3}},
   {nn.Bottle(nn.Linear(3, 2)), {2, 2, 3}}, {nn.WeightNorm(nn.Linear(3, 2)), {2, 3}}, {nn.NaN(nn.Tanh()), {2, 3}},
   {nn.SpatialLPPooling(2, 2, 2, 2), {2, 4, 4}},
   {nn.SpatialBatchNormalization(2, 1e-5, 0.1, false), {3, 2, 2, 2}}, {nn.Sqrt(1), {2, 3}, positive = true},
   {nn.Log(), {2, 3}, positive = true},
}

-- Returns random inputs at a distance from the points where the layers' functions have no derivative.
local function fill(sizes, row)
   if type(sizes[1]) == "table" then
      local list = {}
      for i, inner in ipairs(sizes) do list[i] = fill(inner, row) end
      return list
   end
   local x = torch.rand(table.unpack(sizes)):mul(2):add(row.positive and 0.1 or -1)
   return x:apply(function(v) return math.abs(v) < 0.05 and v + 0.2 or v end)
end

local function flat(tree, into)
   if torch.isTensor(tree) then
      into[#into + 1] = tree
      return into
   end
   for _, inner in ipairs(tree) do flat(inner, into) end
   return into
end

-- Compares directional derivatives of a weighted sum of the outputs with finite differences.
local function check(module, input)
   local output = module:forward(input)
   local weights = torch.rand(output:nElement()):viewAs(output)
   module:zeroGradParameters()
   module:forward(input)
   local gradInput = module:backward(input, weights)
   local parameters, grads = module:parameters()
   local xs, gs = flat(input, {}), flat(gradInput, {})
   for i, p in ipairs(parameters or {}) do xs[#xs + 1], gs[#gs + 1] = p, grads[i] end
   for i, x in ipairs(xs) do
      local along = torch.rand(x:nElement()):viewAs(x)
      local function loss(step)
         x:add(step, along)
         local sum = module:forward(input):clone():cmul(weights):sum()
         x:add(-step, along)
         return sum
      end
      local h = 1e-6
      local numeric = (loss(h) - loss(-h)) / (2 * h)
      local exact = gs[i]:clone():cmul(along):sum()
      assert.is_true(math.abs(numeric - exact) < 1e-4 * (1 + math.abs(exact)),
         ("%s, tensor %d: expected %s, got %s"):format(torch.type(module), i, numeric, exact))
   end
   module:clearState()
end

describe("Torch7's layers", function()
   for i, row in ipairs(rows) do
      it(("compute gradients as differences do, row %d: %s"):format(i, torch.type(row[1])), function()
         check(row[1], fill(row[2], row))
         check(torch.deserialize(torch.serialize(row[1])), fill(row[2], row))
      end)
   end

   it("compute values by hand", function()
      local l = nn.Linear(2, 1)
      l.weight:copy(torch.Tensor {{2, 3}})
      l.bias:fill(1)
      near({2 * 1 + 3 * 2 + 1}, l:forward(torch.Tensor {1, 2}))
      near({1, 0.5}, nn.Threshold(0.7, 0.5):forward(torch.Tensor {1, 0.6}))
      near({0, 2}, nn.ReLU():forward(torch.Tensor {-1, 2}))
      near({3, 4}, nn.Max(2):forward(torch.Tensor {{1, 3}, {4, 2}}))
      near({2, 3}, nn.Mean(2):forward(torch.Tensor {{1, 3}, {4, 2}}))
      near({3 / 5, 4 / 5}, nn.Normalize(2, 0):forward(torch.Tensor {3, 4}))
      near({5}, nn.PairwiseDistance(2):forward {torch.Tensor {0, 0}, torch.Tensor {3, 4}})
      near({11}, nn.DotProduct():forward {torch.Tensor {1, 2}, torch.Tensor {3, 4}})
      near({0, 0, 1, 2}, nn.Padding(1, -2):forward(torch.Tensor {1, 2}))
      near({1, 2, 0, 0}, nn.Padding(1, 2):forward(torch.Tensor {1, 2}))
      near({2, 4}, nn.Narrow(1, 2, -1):forward(torch.Tensor {1, 2, 4}))
      near({1, 2, 1, 2}, nn.Replicate(2):forward(torch.Tensor {1, 2}))
      near({6, 8}, nn.SpatialMaxPooling(2, 2):forward(torch.Tensor {{{1, 2, 3, 4}, {5, 6, 7, 8}}}))
      near({3.5, 5.5}, nn.SpatialAveragePooling(2, 2, 2, 2):forward(torch.Tensor {{{1, 2, 3, 4}, {5, 6, 7, 8}}}))
      near({1, 0, 0, 0, 0, 1}, nn.OneHot(3):forward(torch.LongTensor {1, 3}))
      near({3, 4}, nn.Index(1):forward {torch.Tensor {{1, 2}, {3, 4}}, torch.LongTensor {2}})
      near({1, 4}, nn.MaskedSelect():forward {torch.Tensor {1, 2, 4}, torch.ByteTensor {1, 0, 1}})
   end)

   it("look words up, and add gradients of words that occur twice", function()
      local lookup = nn.LookupTable(3, 2)
      lookup.weight:copy(torch.Tensor {{1, 2}, {3, 4}, {5, 6}})
      local words = torch.LongTensor {1, 3, 1}
      near({1, 2, 5, 6, 1, 2}, lookup:forward(words))
      lookup:zeroGradParameters()
      lookup:backward(words, torch.ones(3, 2))
      near({2, 2, 0, 0, 1, 1}, lookup.gradWeight)
   end)

   it("restore a pooled picture by the pooling layer's positions", function()
      local pool = nn.SpatialMaxPooling(2, 2)
      local unpool = nn.SpatialMaxUnpooling(pool)
      local y = unpool:forward(pool:forward(torch.Tensor {{{1, 2}, {4, 3}}}))
      near({0, 0, 4, 0}, y)
   end)

   it("drop out in training with one noise for both directions, and nothing in evaluation", function()
      local dropout, x = nn.Dropout(0.5), torch.ones(1000)
      local y = dropout:forward(x):clone()
      assert.is_true(y:eq(0):sum() > 400 and y:eq(2):sum() > 400)
      near(values(y), dropout:backward(x, torch.ones(1000)))
      dropout:evaluate()
      near(values(x), dropout:forward(x))
      near(values(torch.ones(2, 3, 2, 2):mul(0.25)), (function()
         local spatial = nn.SpatialDropout(0.75)
         spatial:evaluate()
         return spatial:forward(torch.ones(2, 3, 2, 2))
      end)())
   end)

   it("keep running averages once for a call", function()
      local norm, x = nn.BatchNormalization(1), torch.Tensor {{1}, {3}}
      norm:forward(x)
      norm:backward(x, torch.ones(2, 1))
      near({0.2}, norm.running_mean)
      near({0.9 + 0.1 * 2}, norm.running_var)
      norm:evaluate()
      local expected = (1 - 0.2) / math.sqrt(1.1 + 1e-5) * norm.weight[1] + norm.bias[1]
      assert.is_true(math.abs(expected - norm:forward(x)[1][1]) < 1e-9)
   end)
end)

describe("Torch7's protocol of modules", function()
   it("separates the halves of backward, and scales", function()
      local l, x, g = nn.Linear(2, 2), torch.randn(3, 2), torch.randn(3, 2)
      l:zeroGradParameters()
      l:forward(x)
      l:updateGradInput(x, g)
      assert.equal(0, l.gradWeight:norm())
      l:accGradParameters(x, g, 2)
      near(values(torch.mm(g:t(), x):mul(2)), l.gradWeight)
      near(values(g:sum(1):mul(2)), l.gradBias)
      near(values(torch.mm(g, l.weight)), l.gradInput)
      local before = l.weight:clone()
      l:updateParameters(0.1)
      near(values(before:add(-0.1, l.gradWeight)), l.weight)
   end)

   it("records again when an input or a parameter has changed", function()
      local l, x = nn.Linear(1, 1, false), torch.Tensor {2}
      l.weight:fill(3)
      l:forward(x)
      l.weight:fill(5)
      near({5}, l:updateGradInput(x, torch.ones(1)))
      x:fill(7)
      l:zeroGradParameters()
      l:accGradParameters(x, torch.ones(1))
      near({7}, l.gradWeight:view(1))
   end)

   it("flattens parameters once where modules share them", function()
      local a = nn.Linear(2, 3)
      local model = nn.Sequential():add(a):add(nn.Linear(3, 2)):add(a:clone("weight", "bias", "gradWeight", "gradBias"))
      local p, g = model:getParameters()
      assert.equal(9 + 8, p:nElement())
      assert.equal(17, g:nElement())
      p:fill(2)
      assert.equal(2.0, model:get(3).weight[1][1])
      local again = model:getParameters()
      assert.equal(17, again:nElement())
   end)

   it("clones, converts types and finds modules", function()
      local model = nn.Sequential():add(nn.Linear(2, 2)):add(nn.Sequential():add(nn.Tanh()))
      local copy = model:clone()
      copy:get(1).weight:zero()
      assert.is_true(model:get(1).weight:norm() > 0)
      assert.equal("torch.FloatTensor", model:float():get(1).weight:type())
      assert.equal("torch.FloatTensor", model:type())
      local found, containers = model:findModules "nn.Tanh"
      assert.equal(1, #found)
      assert.equal(model:get(2), containers[1])
      assert.equal(4, #model:listModules())
      model:replace(function(m) return torch.type(m) == "nn.Tanh" and nn.ReLU() or m end)
      assert.equal("nn.ReLU", torch.type(model:get(2):get(1)))
      model:training()
      assert.is_true(model:get(1).train)
      model:evaluate()
      assert.is_false(model:get(2):get(1).train)
   end)

   it("runs classes of programs inside of containers", function()
      local Twice, parent = torch.class("nn.SpecTwice", "nn.Module")
      function Twice:__init() parent.__init(self) end
      function Twice:updateOutput(input)
         self.output:resizeAs(input):copy(input):mul(2)
         return self.output
      end
      function Twice:updateGradInput(_, gradOutput)
         self.gradInput:resizeAs(gradOutput):copy(gradOutput):mul(2)
         return self.gradInput
      end
      local model = nn.Sequential():add(nn.Linear(2, 2)):add(nn.SpecTwice())
      assert.is_true(nn.Jacobian.testJacobian(model, torch.Tensor(2, 2)) < 1e-6)
      assert.is_true(nn.Jacobian.testJacobianParameters(nn.Linear(2, 2), torch.Tensor(2),
         model:get(1).weight, model:get(1).gradWeight) >= 0)
   end)

   it("takes a first dimension of size 1 as a batch in Reshape, unless batchMode is false", function()
      for _, case in ipairs {
         {nn.Reshape(4, 3), {1, 12}, {1, 4, 3}}, {nn.Reshape(2, 6), {1, 3, 4}, {1, 2, 6}},
         {nn.Reshape(4, 3), {12}, {4, 3}}, {nn.Reshape(4, 3, false), {1, 12}, {4, 3}},
         {nn.Reshape(4, 3), {2, 12}, {2, 4, 3}}, {nn.Reshape(12), {3, 4}, {12}},
      } do
         local y = case[1]:forward(torch.zeros(torch.LongStorage(case[2])))
         assert.same(case[3], y:size():totable())
      end
   end)

   it("updates the parameters of modules that define accGradParameters", function()
      local Scale, above = torch.class("nn.SpecScale", "nn.Module")
      function Scale:__init()
         above.__init(self)
         self.weight, self.gradWeight = torch.Tensor {2}, torch.zeros(1)
      end
      function Scale:updateOutput(x)
         self.output = x * self.weight[1]
         return self.output
      end
      function Scale:updateGradInput(_, g)
         self.gradInput = g * self.weight[1]
         return self.gradInput
      end
      function Scale:accGradParameters(x, g, scale)
         if self.bad then error "bad" end
         self.gradWeight:add((scale or 1) * x:dot(g))
      end
      local x, g = torch.Tensor {1, 3}, torch.Tensor {2, 1}
      local module = nn.SpecScale()
      module:forward(x)
      module:backwardUpdate(x, g, 0.1)
      assert.is_true(math.abs(module.weight[1] - 1.5) < 1e-12)
      assert.equal(0.0, module.gradWeight[1])
      module:sharedAccUpdateGradParameters(x, g, 0.1)
      assert.is_true(math.abs(module.weight[1] - 1) < 1e-12)
      assert.equal(5.0, module.gradWeight[1])
      module.bad = true
      assert.is_false((pcall(module.accUpdateGradParameters, module, x, g, 0.1)))
      for method, call in pairs {
         accUpdateGradParameters = function() module:accUpdateGradParameters(x, g) end,
         sharedAccUpdateGradParameters = function() module:sharedAccUpdateGradParameters(x, g, "0.1") end,
         updateParameters = function() module:updateParameters(nil) end,
      } do
         assert.raises(("nn.SpecScale: %s: rate: expected a number, got"):format(method), call)
      end
      assert.equal(5.0, module.gradWeight[1])
   end)

   it("names the place of an error", function()
      local model = nn.Sequential():add(nn.Linear(2, 3)):add(nn.Linear(2, 3))
      local ok, message = pcall(model.forward, model, torch.ones(2))
      assert.is_false(ok)
      assert.matches("In 2 module of nn.Sequential", message)
      assert.is_nil(nn.Liner)
   end)

   it("computes by the first module of a DataParallelTable", function()
      local inner = nn.Sequential():add(nn.Linear(3, 2)):add(nn.Tanh())
      local model = nn.DataParallelTable(1, true):add(inner, {1, 2}):threads(function() return nn end)
      local x, g = torch.randn(4, 3), torch.randn(4, 2)
      near(values(inner:forward(x)), model:forward(x))
      inner:zeroGradParameters()
      near(values(inner:backward(x, g)), model:backward(x, g))
      local _, sums = model:parameters()
      near(values(torch.mm(g:clone():cmul(model.output:clone():pow(2):mul(-1):add(1)):t(), x) * 2), sums[1])
      assert.equal(1, model:add(inner:clone(), 2):size())
      assert.raises("expected a call of add", function() nn.DataParallelTable(1):forward(x) end)
   end)

   it("prints containers and layers as Torch7 did", function()
      assert.equal([[nn.ConcatTable {
  input
    |`-> (1): nn.Sequential {
    |      [input -> (1) -> output]
    |      (1): nn.Tanh
    |    }
     `-> (2): nn.MapTable {
           nn.Linear(2 -> 3)
         }
     ... -> output
}]], tostring(nn.ConcatTable():add(nn.Sequential():add(nn.Tanh())):add(nn.MapTable(nn.Linear(2, 3)))))
      for expected, module in pairs {
         ["nn.SpatialMaxPooling(3x2, 2,1, 1,0)"] = nn.SpatialMaxPooling(3, 2, 2, 1, 1, 0),
         ["nn.SpatialAveragePooling(7x7, 1,1)"] = nn.SpatialAveragePooling(7, 7),
         ["nn.SpatialFullConvolution(100 -> 8, 4x4) without bias"] = nn.SpatialFullConvolution(100, 8, 4, 4):noBias(),
         ["nn.SpatialFullConvolution(8 -> 4, 4x4, 2,2, 1,1)"] = nn.SpatialFullConvolution(8, 4, 4, 4, 2, 2, 1, 1),
         ["nn.SpatialConvolution(64 -> 64, 3x3, 1,1, 1,1)"] = nn.SpatialConvolution(64, 64, 3, 3, 1, 1, 1, 1),
         ["nn.SpatialConvolution(3 -> 8, 3x1, 2,1)"] = nn.SpatialConvolution(3, 8, 3, 1, 2, 1),
         ["nn.VolumetricConvolution(1 -> 2, 2x3x4)"] = nn.VolumetricConvolution(1, 2, 2, 3, 4),
         ["nn.SpatialDropout(0.250000)"] = nn.SpatialDropout(0.25),
      } do assert.equal(expected, tostring(module)) end
   end)

   it("prints models as Torch7 did", function()
      assert.equal([[
nn.Sequential {
  [input -> (1) -> (2) -> output]
  (1): nn.Linear(2 -> 3)
  (2): nn.Tanh
}]], tostring(nn.Sequential():add(nn.Linear(2, 3)):add(nn.Tanh())))
   end)

   it("works on the simulated device", function()
      if not require "tlua".sim.is_available() then return pending "there is no simulated device" end
      local model = nn.Sequential():add(nn.SpatialConvolution(1, 2, 3,
         3)):add(nn.ReLU()):add(nn.View(-1):setNumInputDims(3))
      model:float()
      local x = torch.randn(2, 1, 5, 5):float()
      local y = model:forward(x):clone()
      model:cuda()
      local z = model:forward(x:cuda())
      assert.equal("torch.CudaTensor", z:type())
      near(values(y), z:float(), 1e-5)
      model:backward(x:cuda(), z)
   end)

   it("computes the CPU's values and gradients by each layer on the simulated device", function()
      if not require "tlua".sim.is_available() then return pending "there is no simulated device" end
      local function all(fn, tree)
         if torch.isTensor(tree) then return fn(tree) end
         local made = {}
         for i, inner in ipairs(tree) do made[i] = all(fn, inner) end
         return made
      end
      local function float(x) return x:float() end
      local function cuda(x) return x:cuda() end
      local function ones(x) return x:clone():fill(1) end
      local function close(name, a, b)
         local ours, theirs = flat(a, {}), flat(b, {})
         for i, x in ipairs(ours) do
            local far = (x:float() - theirs[i]:float()):abs():max()
            assert.is_true(far < 1e-3, ("%s: %d: %g"):format(name, i, far))
         end
      end
      for _, row in ipairs(rows) do
         local host, x = row[1]:clone():float(), all(float, fill(row[2], row))
         local device, moved = host:clone():cuda(), all(cuda, x)
         local name, y, z = torch.type(host), host:forward(x), device:forward(moved)
         close(name, y, z)
         host:zeroGradParameters()
         device:zeroGradParameters()
         close(name, host:backward(x, all(ones, y)), device:backward(moved, all(ones, z)))
         local _, sums = host:parameters()
         local _, others = device:parameters()
         close(name, sums or {}, others or {})
      end
   end)
end)

describe("Torch7's criterions", function()
   local labels = torch.Tensor {1, 3}
   local list = {
      {nn.AbsCriterion(), {2, 3}, torch.randn(2, 3)}, {nn.MSECriterion(), {2, 3}, torch.randn(2, 3)},
      {nn.SmoothL1Criterion(), {2, 3}, torch.randn(2, 3)}, {nn.SoftMarginCriterion(), {3}, torch.Tensor {1, -1, 1}},
      {nn.DistKLDivCriterion(), {2, 3}, torch.rand(2, 3)},
         {nn.WeightedMSECriterion(torch.rand(2, 3)), {2, 3}, torch.randn(2, 3)},
      {nn.BCECriterion(), {2, 3}, torch.rand(2, 3), positive = true}, {nn.ClassNLLCriterion(), {2, 3}, labels},
      {nn.ClassNLLCriterion(torch.rand(3)), {2, 3}, labels}, {nn.ClassNLLCriterion(), {3}, 2},
      {nn.CrossEntropyCriterion(), {2, 3}, labels}, {nn.CrossEntropyCriterion(), {3}, torch.Tensor {2}},
      {nn.SpatialClassNLLCriterion(), {2, 3, 2, 2}, torch.ones(2, 2, 2)},
         {nn.MarginCriterion(0.5), {3}, torch.Tensor {1, -1, 1}},
      {nn.MultiMarginCriterion(), {2, 3}, labels}, {nn.MultiLabelMarginCriterion(), {2, 3},
         torch.Tensor {{1, 3, 0}, {2, 0, 0}}},
      {nn.MultiLabelSoftMarginCriterion(), {2, 3}, torch.Tensor {{1, 0, 1}, {0, 0, 1}}},
      {nn.HingeEmbeddingCriterion(), {3}, torch.Tensor {1, -1, 1}}, {nn.L1HingeEmbeddingCriterion(9), {{3}, {3}}, -1},
      {nn.CosineEmbeddingCriterion(0.1), {{2, 3}, {2, 3}}, torch.Tensor {1, -1}},
      {nn.MarginRankingCriterion(0.1), {{3}, {3}}, torch.Tensor {1, -1, 1}},
         {nn.DistanceRatioCriterion(), {{3}, {3}}, false},
      {nn.L1Cost(), {3}, false}, {nn.ClassSimplexCriterion(3), {2, 3}, labels},
         {nn.GaussianCriterion(), {{3}, {3}}, torch.randn(3)},
      {nn.KLDCriterion(), {{3}, {3}}, false}, {nn.SpatialAutoCropMSECriterion(), {1, 2, 2}, torch.randn(1, 4, 4)},
      {nn.MultiCriterion():add(nn.MSECriterion(), 0.5):add(nn.AbsCriterion()), {2, 3}, torch.randn(2, 3)},
      {nn.ParallelCriterion():add(nn.MSECriterion(), 0.5):add(nn.AbsCriterion()), {{3}, {2}},
         {torch.randn(3), torch.randn(2)}},
      {nn.ModuleCriterion(nn.Tanh(), nil, nn.MSECriterion()), {2, 3}, torch.randn(2, 3)},
   }
   for i, row in ipairs(list) do
      it(("compute gradients as differences do, row %d: %s"):format(i, torch.type(row[1])), function()
         local criterion, input, target = row[1], fill(row[2], row), row[3]
         if row.positive then input:mul(0.4) end
         local loss = criterion:forward(input, target)
         assert.equal("number", type(loss))
         local xs, gs = flat(input, {}), flat(criterion:backward(input, target), {})
         for k, x in ipairs(xs) do
            local along, h = torch.rand(x:nElement()):viewAs(x), 1e-6
            x:add(h, along)
            local above = criterion:forward(input, target)
            x:add(-2 * h, along)
            local below = criterion:forward(input, target)
            x:add(h, along)
            local exact = gs[k]:clone():cmul(along):sum()
            assert.is_true(math.abs((above - below) / (2 * h) - exact) < 1e-4 * (1 + math.abs(exact)))
         end
      end)
   end

   it("compute the CPU's losses and gradients on the simulated device", function()
      if not require "tlua".sim.is_available() then return pending "there is no simulated device" end
      local function moved(tree)
         if torch.isTensor(tree) then return tree:cuda() end
         if type(tree) ~= "table" then return tree end
         local made = {}
         for i, inner in ipairs(tree) do made[i] = moved(inner) end
         return made
      end
      local function floats(tree)
         if torch.isTensor(tree) then return tree:float() end
         if type(tree) ~= "table" then return tree end
         local made = {}
         for i, inner in ipairs(tree) do made[i] = floats(inner) end
         return made
      end
      table.insert(list, {nn.CosineEmbeddingCriterion(0.1), {{3}, {3}}, 1})
      for i, row in ipairs(list) do
         local host = row[1]:clone():float()
         local device, x, y = host:clone():cuda(), floats(fill(row[2], row)), floats(row[3])
         if row.positive then x:mul(0.4) end
         local a, b = host:forward(x, y), device:forward(moved(x), moved(y))
         assert.is_true(math.abs(a - b) < 1e-4 * (1 + math.abs(a)), ("%d: %s and %s"):format(i, a, b))
         local g, h = flat(host:backward(x, y), {}), flat(device:backward(moved(x), moved(y)), {})
         for k, one in ipairs(g) do
            assert.equal("torch.CudaTensor", h[k]:type())
            assert.is_true((one - h[k]:float()):abs():max() < 1e-4, ("%d: gradient %d"):format(i, k))
         end
      end
   end)

   it("compute values by hand", function()
      assert.equal(2.5, nn.MSECriterion():forward(torch.Tensor {1, 2}, torch.Tensor {2, 4}))
      local sum = nn.MSECriterion()
      sum.sizeAverage = false
      assert.equal(5.0, sum:forward(torch.Tensor {1, 2}, torch.Tensor {2, 4}))
      assert.equal(1.5, nn.AbsCriterion():forward(torch.Tensor {1, 2}, torch.Tensor {2, 4}))
      assert.equal(0.25, nn.ClassNLLCriterion():forward(torch.Tensor {-1, -0.25}, 2))
      -- The scores are 0.1, 0.2, 0.4 and 0.8, and the labels are 4 and 1. The loss is the sum of the margins, divided
      -- by 4.
      local loss = nn.MultiLabelMarginCriterion():forward(torch.Tensor {0.1, 0.2, 0.4, 0.8}, torch.Tensor {4, 1, 0, 1})
      local expected = (1 - (0.8 - 0.2) + 1 - (0.8 - 0.4) + 1 - (0.1 - 0.2) + 1 - (0.1 - 0.4)) / 4
      assert.is_true(math.abs(expected - loss) < 1e-12)
      assert.equal(3.0, nn.L1HingeEmbeddingCriterion():forward({torch.Tensor {1, 2}, torch.Tensor {2, 4}}, 1))
   end)
end)
