-- Tests that the backward pass of a whole container gives the same gradients as the two halves of backward, which each
-- layer computes by itself.

local torch = require "torch7"
local nn = require "tlua.torch7.nn"
require "tlua.torch7.nngraph"

torch.manualSeed(5)

-- Returns all numbers in a tree of tensors.
local function numbers(tree, into)
   into = into or {}
   if torch.isTensor(tree) then
      for _, value in ipairs(tree:clone():view(-1):totable()) do into[#into + 1] = value end
   else
      for i = 1, #tree do numbers(tree[i], into) end
   end
   return into
end

local function same(expected, got)
   local a, b = numbers(expected), numbers(got)
   assert.equal(#a, #b)
   assert.is_true(#a > 0)
   for i = 1, #a do
      assert.is_true(math.abs(a[i] - b[i]) <= 1e-9 * (1 + math.abs(a[i])),
         ("%d: expected %s, got %s"):format(i, a[i], b[i]))
   end
end

local function drawn(tree)
   if torch.isTensor(tree) then return torch.randn(tree:size()) end
   local made = {}
   for i, x in ipairs(tree) do made[i] = drawn(x) end
   return made
end

-- Checks that `backward` of a model gives the same gradients as updateGradInput and accGradParameters, which are the
-- two halves of `backward`.
local function check(model, input, scale)
   local halves = model:clone()
   local _, sums = model:getParameters()
   local _, expected = halves:getParameters()
   sums:zero()
   expected:zero()
   local g = drawn(model:forward(input))
   same(halves:forward(input), model.output)
   for _ = 1, 2 do -- the second pass adds to the sums of the first
      halves:updateGradInput(input, g)
      halves:accGradParameters(input, g, scale)
      assert.is_true(rawequal(model:backward(input, g, scale), model.gradInput))
      same(halves.gradInput, model.gradInput)
      if sums:nElement() > 0 then same(expected, sums) end
   end
   return halves
end

local function mlp()
   return nn.Sequential():add(nn.Linear(3, 4)):add(nn.Tanh()):add(nn.Linear(4, 3))
end

describe("The backward pass of a container", function()
   it("gives the gradients of the halves in nested containers", function()
      local model = nn.Sequential():add(nn.Linear(3, 3))
         :add(nn.ConcatTable():add(nn.Sequential():add(nn.Sigmoid()):add(nn.Linear(3, 3))):add(nn.Identity())
            :add(nn.Linear(3, 3)))
         :add(nn.ParallelTable():add(nn.Tanh()):add(nn.Square()):add(nn.Identity()))
         :add(nn.CMulTable()):add(nn.Linear(3, 2))
      local halves = check(model, torch.randn(5, 3))
      check(model, torch.randn(5, 3), 0.3)
      halves:forward(torch.randn(5, 3))
      for i, module in ipairs(model.modules) do
         assert.is_not_nil(module.gradInput, torch.type(module) .. i)
      end
   end)

   it("gives gradInput of each layer and container inside", function()
      local model = nn.Sequential():add(nn.Linear(3, 3)):add(nn.ConcatTable():add(nn.Tanh()):add(nn.Sigmoid()))
         :add(nn.CAddTable()):add(nn.Sequential():add(nn.Square()))
      local halves, x = model:clone(), torch.randn(2, 3)
      local g = drawn(model:forward(x))
      halves:forward(x)
      model:backward(x, g)
      halves:updateGradInput(x, g)
      local ours, theirs = model:listModules(), halves:listModules()
      for i, module in ipairs(theirs) do same(module.gradInput, ours[i].gradInput) end
   end)

   it("gives the gradients of the halves in graphs whose nodes are used twice", function()
      local a, b = nn.Identity()(), nn.Identity()()
      local h = nn.Tanh()(nn.Linear(3, 4)(a))
      local both = nn.CAddTable() {nn.CMulTable() {h, h}, nn.Linear(4, 4)(h), nn.Linear(3, 4)(b)}
      local first, second = nn.SplitTable(2)(nn.Reshape(2, 2)(both)):split(2)
      check(nn.gModule({a, b}, {nn.CMulTable() {first, second}, h, second}), {torch.randn(5, 3), torch.randn(5, 3)})
      local only = nn.Linear(3, 3)()
      check(nn.gModule({only}, {nn.CDivTable() {nn.Exp()(only), nn.AddConstant(9)(only)}}), torch.randn(4, 3))
   end)

   it("adds the gradients of a split's elements and of its whole list", function()
      local a = nn.Identity()()
      local parts = nn.SplitTable(2)(nn.Reshape(2, 3)(a))
      local whole = nn.JoinTable(2)(nn.Identity()(parts))
      local first, second = parts:split(2)
      local late = nn.Sigmoid()(nn.Linear(3, 3)(first))
      check(nn.gModule({a}, {whole, late, nn.Tanh()(second), nn.CMulTable() {first, second}}), torch.randn(4, 6))
      local pair = nn.Identity()()
      local x, y = nn.Identity()(pair):split(2)
      check(nn.gModule({pair}, {nn.CMulTable() {x, y}, nn.CAddTable() {y, nn.Linear(3, 1)(x)}}),
         {torch.randn(4, 3), torch.randn(4, 3)})
   end)

   -- Returns a graph with one layer of each kind that graph_passes.lua treats differently.
   local function graph_of(inner)
      local a, b = nn.Identity()(), nn.Identity()()
      local h = nn.Dropout(0.5)(nn.BatchNormalization(6)(nn.Linear(3, 6)(a)))
      local sum = nn.CAddTable() {nn.Tanh()(h), (inner or nn.Linear(3, 6))(b)}
      local first, second = nn.SplitTable(2)(nn.Reshape(2, 3)(sum)):split(2)
      return nn.gModule({a, b}, {nn.CMulTable() {first, second}, nn.Identity()(h)})
   end

   it("gives the gradients of the halves in graphs with noise, averages and modules of other kinds", function()
      local x = {torch.randn(5, 3), torch.randn(5, 3)}
      for _, inner in ipairs {false, mlp():add(nn.Linear(3, 6)), nn.GradientReversal(2)} do
         if torch.isTypeOf(inner, "nn.GradientReversal") then x[2] = torch.randn(5, 6) end
         local model = graph_of(inner or nil)
         for scale = 1, 2 do
            local g = drawn(model:forward(x))
            local _, sums = model:parameters()
            local mean = model:findModules "nn.BatchNormalization"[1].running_mean:clone()
            model:zeroGradParameters()
            local fast = torch.Tensor(numbers(model:backward(x, g, scale)))
            local fast_sums = torch.Tensor(numbers(sums))
            model:zeroGradParameters()
            model:updateGradInput(x, g)
            model:accGradParameters(x, g, scale)
            same(fast, model.gradInput)
            same(fast_sums, sums)
            same(mean, model:findModules "nn.BatchNormalization"[1].running_mean)
         end
      end
   end)

   it("follows changes between the passes of a graph", function()
      for i, change in ipairs {
         function(model) model:findModules "nn.Linear"[1].weight:mul(2) end, function(_, x) x[1]:add(1) end,
         function(model) model:findModules "nn.Tanh"[1].output:fill(0.5) end,
         function(model) model:findModules "nn.Linear"[2].bias = torch.ones(6) end,
         function(model) model:findModules "nn.MulConstant"[1].constant_scalar = 7 end,
         function(model)
            local layer = model:findModules "nn.MulConstant"[1]
            function layer:updateGradInput(_, g)
               self.gradInput = g:clone():mul(11)
               return self.gradInput
            end
         end,
      } do
         local input, other = nn.Identity()(), nn.Identity()()
         local model = nn.gModule({input, other}, {nn.CMulTable() {nn.Tanh()(nn.Linear(3, 6)(input)),
            nn.MulConstant(3)(nn.Linear(3, 6)(other))}})
         local halves, x = model:clone(), {torch.randn(2, 3), torch.randn(2, 3)}
         local copies = {x[1]:clone(), x[2]:clone()}
         for _ = 1, 2 do
            local g = drawn(model:forward(x))
            halves:forward(copies)
            change(model, x)
            change(halves, copies)
            model:zeroGradParameters()
            halves:zeroGradParameters()
            model:backward(x, g)
            halves:updateGradInput(copies, g)
            halves:accGradParameters(copies, g)
            same(halves.gradInput, model.gradInput)
            local _, sums = model:parameters()
            local _, expected = halves:parameters()
            same(expected, sums)
            assert.is_true(i > 0)
         end
      end
   end)

   it("calls a module whose output alone is defined before the layers of a graph", function()
      local OneHot = torch.class("spec7.OneHot", "nn.Module", {})
      function OneHot:__init(size)
         nn.Module.__init(self)
         self.rows = torch.eye(size)
      end
      function OneHot:updateOutput(input)
         self.output = self.rows:index(1, input:long())
         return self.output
      end
      local x, h = nn.Identity()(), nn.Identity()()
      local model = nn.gModule({x, h}, {nn.CAddTable() {nn.Linear(4, 2)(OneHot(4)(x)), nn.Linear(2, 2)(h)}})
      local at, state, g = torch.Tensor {2, 4}, torch.randn(2, 2), torch.randn(2, 2)
      for _ = 1, 2 do
         model:forward {at, state}
         model:zeroGradParameters()
         local grads = model:backward({at, state}, g)
         local first, second = table.unpack((model:findModules "nn.Linear"))
         same(torch.mm(g, second.weight), grads[2])
         same(torch.mm(g:t(), torch.eye(4):index(1, at:long())), first.gradWeight)
         same(g:sum(1), first.gradBias:view(1, 2))
      end
   end)

   it("gives the gradients of the halves beside modules with gradients of their own", function()
      check(nn.Sequential():add(mlp()):add(nn.GradientReversal(2)):add(mlp()), torch.randn(2, 3))
      check(nn.Sequential():add(nn.Concat(2):add(mlp()):add(mlp())):add(nn.Linear(6, 2)), torch.randn(2, 3))
      check(nn.Sequential():add(nn.Bottle(mlp())):add(mlp()), torch.randn(2, 4, 3))
      check(nn.Sequential():add(nn.LinearWeightNorm(3, 3)):add(mlp()), torch.randn(2, 3))
      local patched = mlp()
      local inner = patched:get(2)
      function inner:updateGradInput(_, g)
         self.gradInput = g:clone():mul(7)
         return self.gradInput
      end
      local x, g = torch.randn(1, 3), torch.randn(1, 3)
      patched:forward(x)
      same(torch.mm(torch.mm(g, patched:get(3).weight):mul(7), patched:get(1).weight), patched:backward(x, g))
   end)

   it("uses the noise of the forward pass each time, and updates averages once", function()
      local model = nn.Sequential():add(nn.Linear(3, 50)):add(nn.Dropout(0.5)):add(nn.BatchNormalization(50))
      local x = torch.randn(8, 3)
      local g = drawn(model:forward(x))
      local mean = model:get(3).running_mean:clone()
      local first = model:backward(x, g):clone()
      same(first, model:backward(x, g))
      same(mean, model:get(3).running_mean)
   end)

   it("follows changes of inputs, parameters and inner outputs after the forward pass", function()
      for _, change in ipairs {
         function(model) model:get(3).weight:mul(2) end, function(_, x) x:add(1) end,
         function(model) model:get(1).output:fill(0.5) end,
         function(model) model:get(1).bias = torch.ones(4) end,
         function(model) model:get(2).output = torch.ones(2, 4):mul(0.5) end,
         function(model)
            model.modules[2] = nn.MulConstant(10)
            model:get(2):forward(model:get(1).output)
         end,
         function(model) model:get(2):forward(torch.ones(2, 4)) end,
      } do
         local model = mlp()
         local halves, x = model:clone(), torch.randn(2, 3)
         local other = x:clone()
         local g = drawn(model:forward(x))
         halves:forward(other)
         change(model, x)
         change(halves, other)
         model:zeroGradParameters()
         halves:zeroGradParameters()
         model:backward(x, g)
         halves:updateGradInput(other, g)
         halves:accGradParameters(other, g)
         same(halves.gradInput, model.gradInput)
         local _, ours = model:parameters()
         local _, theirs = halves:parameters()
         same(theirs, ours)
      end
   end)

   it("follows changes of a layer's options after the forward pass, alone and in containers", function()
      local factors, x, g = torch.Tensor {1, 2, 3}, torch.Tensor {{1, -2, 3}}, torch.ones(1, 3)
      for _, case in ipairs {
         {nn.MulConstant(2), function(layer) layer.constant_scalar = 5 end, {5, 5, 5}},
         {nn.MulConstant(factors), function(layer) layer.constant_scalar:fill(4) end, {4, 4, 4}},
         {nn.LeakyReLU(0.1), function(layer) layer.negval = 0.5 end, {1, 0.5, 1}},
         {nn.Dropout(0.5), function(layer) layer.noise:copy(torch.Tensor {{0, 1, 0}}) end, {0, 2, 0}},
         {nn.PReLU(), function(layer) layer.weight:fill(7) end, {1, 7, 1}},
         {nn.PartialLinear(3, 1, false), function(layer)
            layer.weight:copy(torch.Tensor {{2, 3, 4}})
            layer:setPartition {1, 1, 1}
         end, {6, 9, 12}, torch.ones(1, 1), torch.ones(1, 3)},
      } do
         local layer, change, expected, given, other = table.unpack(case)
         for _, model in ipairs {layer:clone(), nn.Sequential():add(nn.Identity()):add(layer:clone())} do
            model:forward(x)
            if given then model:backward(x, given) end
            change(model.modules and model:get(2) or model)
            if given then model:updateGradInput(x, other) end
            for _ = 1, 2 do same(torch.Tensor {expected}, model:backward(x, other or g)) end
         end
      end
      local norm = nn.Sequential():add(nn.BatchNormalization(3, 0, 0.5, false))
      norm:forward(torch.ones(2, 3))
      norm:evaluate()
      same(torch.ones(2, 3):mul(math.sqrt(2)), norm:backward(torch.ones(2, 3), torch.ones(2, 3)))
   end)

   it("follows changes of a criterion's options and targets after the forward pass", function()
      local x, y, weights = torch.Tensor {{-1, -2}}, torch.Tensor {1}, torch.Tensor {1, 1}
      local loss = nn.ClassNLLCriterion(weights, false)
      loss:forward(x, y)
      weights:copy(torch.Tensor {3, 5})
      loss.weights:copy(weights)
      same(torch.Tensor {{-3, 0}}, loss:backward(x, y))
      loss:forward(x, y)
      y:fill(2)
      same(torch.Tensor {{0, -5}}, loss:backward(x, y))
      local margin = nn.MarginCriterion(1)
      margin.sizeAverage = false
      local one = torch.Tensor {1}
      margin:forward(torch.Tensor {3}, one)
      margin.margin = 10
      same(torch.Tensor {-1}, margin:backward(torch.Tensor {3}, one))
   end)

   it("gives gradInput of containers and layers in which a layer stands twice", function()
      -- the copies of `layer` in a second model have their own gradients
      local function model(kind, layer, copy)
         local inner = nn[kind]():add(layer):add(nn.Tanh()):add(copy)
         local whole = nn.Sequential():add(nn.ConcatTable():add(nn.Identity()):add(nn.Square()):add(nn.Tanh()))
         if kind ~= "ParallelTable" then whole:add(nn.CAddTable()) end
         whole:add(inner)
         return kind == "Sequential" and whole or whole:add(nn.CAddTable()), inner
      end
      for kind, latest in pairs {ConcatTable = 3, ParallelTable = 3, Sequential = 1} do
         local layer = nn.Linear(3, 3)
         local ours, inner = model(kind, layer, layer)
         local theirs, apart = model(kind, layer:clone(), layer:clone())
         local x = torch.randn(2, 3)
         local g = drawn(ours:forward(x))
         theirs:forward(x)
         same(theirs:backward(x, g), ours:backward(x, g))
         same(apart.gradInput, inner.gradInput)
         same(apart:get(latest).gradInput, layer.gradInput)
         same(apart:get(2).gradInput, inner:get(2).gradInput)
         same(theirs:get(1).gradInput, ours:get(1).gradInput)
      end
   end)

   it("takes an input that occurs twice, and a module that is called twice", function()
      local x = torch.randn(2, 3)
      check(nn.Sequential():add(nn.ParallelTable():add(nn.Linear(3, 3)):add(nn.Square())):add(nn.CAddTable()), {x, x})
      local shared = nn.Linear(3, 3)
      local model = nn.Sequential():add(shared):add(nn.Tanh()):add(shared)
      model:zeroGradParameters()
      local g = drawn(model:forward(x))
      model:backward(x, g)
      local hidden = torch.mm(x, shared.weight:t()):add(shared.bias:view(1, 3):expand(2, 3)):tanh()
      local inner = torch.mm(g, shared.weight):cmul(hidden:clone():pow(2):mul(-1):add(1))
      same(torch.mm(g:t(), hidden):add(torch.mm(inner:t(), x)), shared.gradWeight)
   end)

   it("flattens a layer that occurs twice once, and passes empty containers", function()
      local l = nn.Linear(3, 3)
      local p, g = nn.Sequential():add(l):add(l):getParameters()
      assert.equal(12, p:nElement())
      assert.equal(12, g:nElement())
      p:fill(2)
      assert.equal(2.0, l.weight[3][3])
      check(nn.Sequential():add(nn.Linear(3, 3)):add(nn.Sequential()):add(nn.Tanh()), torch.randn(2, 3))
   end)

   it("keeps running averages after a backward pass that raised", function()
      local bn = nn.BatchNormalization(3)
      assert.is_false(pcall(bn.backward, bn, torch.randn(4, 5), torch.randn(4, 5)))
      bn:forward(torch.randn(4, 3):add(100))
      assert.is_true(bn.running_mean[1] > 5)
   end)

   it("passes frozen layers, and layers without gradients", function()
      local model = nn.Sequential():add(nn.BatchNormalization(3)):add(mlp())
      model:get(1):evaluate()
      model:get(1).running_mean:fill(2)
      check(model, torch.randn(4, 3))
      local lookup = nn.Sequential():add(nn.LookupTable(5, 3)):add(mlp())
      check(lookup, torch.Tensor {1, 5, 5, 2})
   end)

   it("leaves nothing behind when a layer raises", function()
      local bad = nn.Sequential():add(nn.Linear(3, 3)):add(nn.Linear(2, 2))
      assert.is_false(pcall(bad.forward, bad, torch.randn(2, 3)))
      check(mlp(), torch.randn(2, 3))
      assert.has_error(function() bad:backward(torch.randn(2, 3), torch.randn(2, 2)) end)
      local coroutines = {}
      for i = 1, 2 do
         local Pause = i == 1 and torch.class("nn.SpecPause", "nn.Module")
         if Pause then
            function Pause:updateOutput(x)
               coroutine.yield()
               self.output = x
               return x
            end
            function Pause:updateGradInput(_, g)
               self.gradInput = g
               return g
            end
         end
         coroutines[i] = coroutine.wrap(function()
            local model, x = nn.Sequential():add(mlp()):add(nn.SpecPause()):add(mlp()), torch.randn(2, 3)
            local g = drawn(model:forward(x))
            local first = model:get(3):updateGradInput(model:get(2).output, g)
            model:backward(x, g)
            same(first, model:get(3).gradInput)
            return "done"
         end)
      end
      coroutines[1]()
      coroutines[2]()
      assert.equal("done", coroutines[1]())
      assert.equal("done", coroutines[2]())
   end)

   it("computes a layer's gradient only from the layer's own output", function()
      local model, x = mlp(), torch.randn(2, 3)
      model:forward(x)
      local g = torch.randn(2, 4)
      same(torch.mm(g, model:get(1).weight), model:get(1):updateGradInput(x, g))
   end)
end)

it("gives gradients of a table to the outputs with the same keys", function()
   local model, x = nn.ConcatTable():add(nn.MulConstant(2)):add(nn.MulConstant(3)), torch.ones(2)
   model:forward(x)
   same(torch.Tensor {30, 30}, model:backward(x, {[2] = torch.Tensor {10, 10}}))
end)
