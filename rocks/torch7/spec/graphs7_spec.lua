-- Tests the nodes of Torch7's nngraph: splits, annotations, criterions, files, and debug mode.

local shell = require "spec.support.shell"
local torch = require "torch7"
local nn = require "tlua.torch7.nn"
local nngraph = require "tlua.torch7.nngraph"

torch.manualSeed(9)

local function close(a, b) assert.is_true((a - b):abs():max() < 1e-12) end

local function lstm()
   local x, c, h = nn.Identity()(), nn.Identity()(), nn.Identity()()
   local sums = nn.CAddTable() {nn.Linear(3, 8)(x):annotate {name = "i2h_1"}, nn.Linear(2, 8)(h)}
   local i, f, o, g = nn.SplitTable(2)(nn.Reshape(4, 2)(sums)):split(4)
   local next_c = nn.CAddTable() {nn.CMulTable() {nn.Sigmoid()(f), c}, nn.CMulTable() {nn.Sigmoid()(i), nn.Tanh()(g)}}
   return nn.gModule({x, c, h}, {next_c, nn.CMulTable() {nn.Sigmoid()(o), nn.Tanh()(next_c)}})
end

describe("Torch7's nngraph", function()
   it("lists its nodes, whose modules programs change by name", function()
      local model = lstm()
      local count = 0
      for _, node in ipairs(model.forwardnodes) do
         if node.data.annotations.name == "i2h_1" then
            node.data.module.bias:fill(7)
            count = count + 1
         end
      end
      assert.equal(1, count)
      assert.equal("nn.gModule", tostring(model))
      local found = model:findModules "nn.Linear"
      assert.equal(56, found[1].bias:sum())
      assert.equal(0, #model:findModules "nn.SelectTable")
   end)

   -- Returns a random graph of n layers over tensors {rows, 4}, which has three inputs, and the number of its outputs.
   local function random_graph(n)
      local x = {nn.Identity()(), nn.Identity()(), nn.Identity()()}
      local nodes, is_used = {nn.CAddTable()(x)}, {}
      local function any()
         local node = nodes[torch.random(1, #nodes)]
         is_used[node] = true
         return node
      end
      local makers = {
         function() return nn.Linear(4, 4)(any()) end, function() return nn.Linear(4, 4, false)(any()) end,
         function() return nn.CAddTable() {any(), any()} end, function() return nn.CMulTable() {any(), any()} end,
         function() return nn.CAddTable() {any(), any(), any()} end,
         function() return nn.CMulTable() {any(), any(), any()} end,
         function() return nn.CSubTable() {any(), any()} end, function() return nn.ReLU()(any()) end,
         function() return nn.Tanh()(any()) end, function() return nn.Sigmoid()(any()) end,
         function() return nn.LogSoftMax()(any()) end, function() return nn.Identity()(any()) end,
         function() return nn.View(-1, 4)(any()) end,
         function() return nn.Sequential():add(nn.Linear(4, 4)):add(nn.Tanh())(any()) end,
         function()
            local a, b = nn.SplitTable(2)(nn.Reshape(2, 2)(any())):split(2)
            return nn.JoinTable(2) {a, torch.random(2) == 1 and a or b}
         end,
      }
      for _ = 1, n do nodes[#nodes + 1] = makers[torch.random(1, #makers)]() end
      local ends = {nodes[#nodes]}
      for _, node in ipairs(nodes) do
         if not is_used[node] then ends[#ends + 1] = node end
      end
      return nn.gModule(x, ends), #ends
   end

   it("computes the gradients that the layers' two halves compute", function()
      for trial = 1, 60 do
         local model, n = random_graph(trial % 15)
         local x, g = {torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)}, {}
         for i = 1, n do g[i] = torch.randn(3, 4) end
         local kept = g[1]:clone()
         model:forward(x)
         model:zeroGradParameters()
         local grads = model:backward(x, n == 1 and g[1] or g, 0.5)
         local _, sums = model:parameters()
         local copies = {}
         for i, sum in ipairs(sums or {}) do copies[i] = sum:clone() end
         model:zeroGradParameters()
         model:forward(x)
         local expected = model:updateGradInput(x, n == 1 and g[1] or g)
         model:accGradParameters(x, n == 1 and g[1] or g, 0.5)
         for i = 1, 3 do close(expected[i], grads[i]) end
         for i, sum in ipairs(sums or {}) do close(sum, copies[i]) end
         -- The gradients do not share memory, so filling one of them leaves the others unchanged.
         grads[1]:fill(7)
         close(expected[2], grads[2])
         close(kept, g[1])
      end
   end)

   it("refuses gradients of another kind than the outputs", function()
      local x = nn.Identity()()
      local model, input = nn.gModule({x}, {nn.Tanh()(x)}), torch.randn(2, 3)
      for problem, g in pairs {
         ["expected a tensor, got a table"] = {input}, ["expected 6 elements, got 2"] = torch.ones(2),
      } do
         model:forward(input)
         assert.raises(problem, function() model:backward(input, g) end)
      end
      model:forward(input)
      assert.raises("expected a tensor or a table, got nil", function() model:backward(input) end)
      assert.raises("updateGradInput: gradOutput: expected a tensor or a table, got nil",
         function() model:updateGradInput(input) end)
   end)

   it("computes an LSTM's step and its gradients", function()
      local model = lstm()
      local x = {torch.randn(2, 3), torch.randn(2, 2), torch.randn(2, 2)}
      local out = model:forward(x)
      local first, second = model:findModules "nn.Linear"[1], model:findModules "nn.Linear"[2]
      local sums = torch.mm(x[1], first.weight:t()) + torch.mm(x[3], second.weight:t())
      for r = 1, 2 do sums[r]:add(first.bias):add(second.bias) end
      local gates = sums:view(2, 4, 2)
      local s = torch.sigmoid(gates)
      local c = torch.cmul(s[{{}, 2}], x[2]) + torch.cmul(s[{{}, 1}], torch.tanh(gates[{{}, 4}]))
      close(c, out[1])
      close(torch.cmul(s[{{}, 3}], torch.tanh(c)), out[2])
      local g = {torch.randn(2, 2), torch.randn(2, 2)}
      model:zeroGradParameters()
      local fast = model:backward(x, g)
      local sum = first.gradWeight:clone()
      model:zeroGradParameters()
      local halves = model:updateGradInput(x, g)
      model:accGradParameters(x, g)
      for i = 1, 3 do close(fast[i], halves[i]) end
      close(sum, first.gradWeight)
   end)

   it("computes gates, whose factors may differ in size, and have other users", function()
      local function gates(other)
         local x, c = nn.Identity()(), nn.Identity()()
         local s, t = nn.Sigmoid()(x), nn.Tanh()(c)
         local squashed, plain = nn.CMulTable() {nn.Tanh()(x), nn.Sigmoid()(c)}, nn.CMulTable() {nn.Sigmoid()(x), c}
         local both = nn.CMulTable() {nn.Sigmoid()(c), nn.Sigmoid()(nn.MulConstant(2)(x))}
         local list = {squashed, plain, both, nn.CMulTable() {s, t}, nn.CMulTable() {s, s}}
         if other then list[#list + 1] = t end
         return nn.gModule({x, c}, list), list
      end
      for _, sizes in ipairs {{2, 3}, {1, 3}} do
         local model, list = gates(sizes[1] == 2)
         local x, c = torch.randn(2, 3), torch.randn(table.unpack(sizes))
         local out = model:forward {x, c}
         local s, t = torch.sigmoid(x), torch.tanh(c)
         if sizes[1] == 2 then
            close(torch.cmul(torch.tanh(x), torch.sigmoid(c)), out[1])
            close(torch.cmul(s, c), out[2])
            close(torch.cmul(torch.sigmoid(c), torch.sigmoid(x * 2)), out[3])
            close(torch.cmul(s, t), out[4])
            close(torch.cmul(s, s), out[5])
            close(torch.sigmoid(c), list[1].data.mapindex[2].module.output)
            close(torch.tanh(x), list[1].data.mapindex[1].module.output)
         end
         local g = {}
         for i, y in ipairs(out) do g[i] = torch.randn(y:size()) end
         local fast = model:backward({x, c}, g)
         nngraph.setDebug(true)
         finally(function() nngraph.setDebug(false) end)
         model:forward {x, c}
         local slow = model:updateGradInput({x, c}, g)
         nngraph.setDebug(false)
         for i = 1, 2 do
            assert.same(slow[i]:size():totable(), fast[i]:size():totable())
            close(slow[i], fast[i])
         end
      end
   end)

   it("computes outputs that only a sum has used again when a program reads them", function()
      local x = nn.Identity()()
      local first, second, product = nn.Linear(3, 2), nn.Linear(3, 2), nn.CMulTable()
      local sum = nn.CAddTable() {nn.CAddTable() {first(x), product {nn.Tanh()(second(x)), nn.Linear(3, 2)(x)}},
         nn.Linear(3, 2)(x)}
      local model, input = nn.gModule({x}, {sum}), torch.randn(4, 3)
      local out = model:forward(input)
      local function linear(layer) return torch.mm(input, layer.weight:t()):add(layer.bias:view(1, 2):expand(4, 2)) end
      assert.is_nil(rawget(first, "output"))
      close(linear(first), first.output)
      close(linear(first), rawget(first, "output"))
      local layers = model:findModules "nn.Linear"
      close(torch.cmul(torch.tanh(linear(second)), linear(layers[3])), product.output)
      close(linear(first) + product.output + linear(layers[4]), out)
      local g = torch.randn(4, 2)
      local fast = model:backward(input, g):clone()
      model:forward(input)
      close(model:updateGradInput(input, g), fast)
      -- a file has all fields that Torch7 needs
      model:forward(input)
      local loaded = torch.deserialize(torch.serialize(model))
      assert.equal(0, loaded:findModules "nn.Linear"[1].output:nElement())
      assert.equal("torch.DoubleTensor", loaded:findModules "nn.Linear"[1].output:type())
      first.weight:fill(1) -- since the weight has changed, the layer's output can no longer be computed
      assert.is_nil(first.output)
      local again = model:forward(input)
      close(linear(first) + product.output + linear(layers[4]), again)
   end)

   it("gives a layer that a graph calls twice the output of the last call", function()
      local x, y, shared = nn.Identity()(), nn.Identity()(), nn.Linear(3, 2)
      local model = nn.gModule({x, y}, {nn.CAddTable() {shared(x), shared(nn.Tanh()(y))}})
      local input = {torch.randn(4, 3), torch.randn(4, 3)}
      local function linear(z) return torch.mm(z, shared.weight:t()):add(shared.bias:view(1, 2):expand(4, 2)) end
      for _ = 1, 2 do
         local out = model:forward(input)
         close(linear(input[1]) + linear(torch.tanh(input[2])), out)
         assert.is_nil(rawget(shared, "output"))
         close(linear(torch.tanh(input[2])), shared.output)
         model:zeroGradParameters()
         local g = torch.randn(4, 2)
         local grads = model:backward(input, g)
         close(torch.mm(g, shared.weight), grads[1])
         close(torch.mm(g:t(), input[1]) + torch.mm(g:t(), torch.tanh(input[2])), shared.gradWeight)
      end
   end)

   it("keeps that output when a program reads another layer's output or gradInput", function()
      local x, other, shared, total = nn.Identity()(), nn.Linear(3, 3), nn.Linear(3, 3), nn.CAddTable()
      local model = nn.gModule({x}, {nn.Tanh()(shared(total {other(x), shared(x)}))})
      local input = torch.randn(4, 3)
      local out = model:forward(input)
      model:backward(input, torch.ones(4, 3))
      close(out, torch.tanh(shared.output))
      for _, layer in ipairs {other, total} do
         assert.is_not_nil(layer.output)
         assert.is_not_nil(layer.gradInput)
         close(out, torch.tanh(shared.output))
      end
   end)

   it("leaves layers that derive from others their own methods", function()
      local layer = nn.LinearWeightNorm(3, 2)
      layer.g:fill(2)
      local rows = layer:forward(torch.eye(3)):clone()
      for i = 1, 3 do rows[i]:csub(layer.bias) end
      close(torch.Tensor {2, 2}, rows:norm(2, 1):view(2))
   end)

   it("gives gradients of zero to elements of a split that nothing uses", function()
      local input = nn.Identity()()
      local _, second = nn.SplitTable(2)(nn.Linear(2, 3)(input)):split(3)
      local model = nn.gModule({input}, {nn.Tanh()(second)})
      local x = torch.randn(4, 2)
      model:forward(x)
      local g = torch.randn(4)
      local fast = model:backward(x, g):clone()
      close(fast, model:updateGradInput(x, g))
   end)

   it("replaces modules in graphs, and saves and clones graphs", function()
      local model = lstm()
      local x = {torch.randn(2, 3), torch.randn(2, 2), torch.randn(2, 2)}
      local before = model:forward(x)
      local other = model:clone()
      local loaded = torch.deserialize(torch.serialize(model))
      close(before[2], other:forward(x)[2])
      close(before[2], loaded:forward(x)[2])
      loaded:double():float()
      assert.equal("torch.FloatTensor", loaded:forward({x[1]:float(), x[2]:float(), x[3]:float()})[1]:type())
      model:replace(function(module)
         return torch.type(module) == "nn.Tanh" and nn.MulConstant(2) or module
      end)
      assert.equal(2, #model:findModules "nn.MulConstant")
      assert.is_true((model:forward(x)[2] - before[2]):abs():max() > 1e-3)
   end)

   it("runs graphs from Torch7's files, which have split nodes and no plan", function()
      local model = lstm()
      local x = {torch.randn(2, 3), torch.randn(2, 2), torch.randn(2, 2)}
      local expected = model:forward(x)
      local split
      for _, node in ipairs(model.forwardnodes) do
         local data = node.data
         -- Torch7 puts another node between a node that is split and the nodes of its elements.
         if data.selectindex then
            local parent = data.mapindex[1]
            split = split or {nSplitOutputs = 4, annotations = {}, mapindex = {parent, [parent] = 1}}
            data.mapindex = {split, [split] = 1}
         end
         local map = data.mapindex
         for i, parent in ipairs(model.innode.data.mapindex) do
            if data == parent then data.mapindex = {model.innode.data, [model.innode.data] = i} end
         end
         assert.is_table(map)
      end
      model.fg, model.bg, model.nInputs = nil, nil, nil
      local loaded = torch.deserialize(torch.serialize(model))
      local out = loaded:forward(x)
      for i = 1, 2 do close(expected[i], out[i]) end
      assert.equal(3, #loaded:backward(x, out))
   end)

   it("takes criterions as nodes, and nests nodes", function()
      local x, y = nn.Identity()(), nn.Identity()()
      local model = nn.gModule({x, y}, {nn.MSECriterion()({nn.MulConstant(2)(x), y})})
      local input = {torch.Tensor {1, 2}, torch.Tensor {0, 1}}
      assert.same({(4 + 9) / 2}, model:forward(input):totable())
      local g = model:backward(input, torch.Tensor {10})
      assert.same({10 * 2 * 2, 10 * 3 * 2}, g[1]:totable())
      assert.same({0, 0}, g[2]:totable())
      local a, b = nn.Identity()(), nn.Identity()()
      local nested = nn.gModule({a, b}, {nngraph.nest {a, {b}}}):forward {torch.ones(1), torch.zeros(1)}
      assert.equal(1, nested[1][1])
      assert.equal(0, nested[2][1][1])
      local single = nn.Identity()()
      assert.equal(3, nn.gModule({single}, {nn.JustElement()(nn.JustTable()(single))}):forward(torch.ones(3)):sum())
   end)

   it("writes annotations into graphs, and marks the node that fails", function()
      local input = nn.Identity()()
      local layer = nn.Linear(3, 2)(input):annotate {name = "L1", description = "Level 1",
         graphAttributes = {color = "red", style = "filled"}}
      nngraph.annotateNodes()
      local model = nn.gModule({input}, {layer})
      local text = nngraph.graph.dot(model.fg, "a graph")
      assert.matches('label="3: L1\\nLevel 1" color="red" style="filled"', text, 1, true)
      assert.matches('label="2: input"', text, 1, true)
      assert.matches("L1 %(3%)", model.forwardnodes[3]:graphNodeName())
      assert.matches("3: nn.Linear%(3 %-> 2%) %(2%)", nngraph.simple_print(model))
      model.name = os.tmpname()
      nngraph.setDebug(true)
      assert.raises("linear", function() model:forward(torch.ones(4)) end)
      nngraph.setDebug(false)
      assert.matches('fillcolor="red"', (shell.read(model.name .. ".dot")))
      for _, ending in ipairs {"", ".dot", ".svg"} do os.remove(model.name .. ending) end
   end)

   it("gives layers their gradInput, which it computes again when a program reads it", function()
      local first, inner, last, side = nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Linear(3, 2)
      local chain = nn.Sequential():add(first:clone()):add(nn.Tanh()):add(last:clone())
      local x = nn.Identity()()
      local model = nn.gModule({x}, {nn.CAddTable() {last(inner(first(x))), side(x)}})
      local input, g = torch.randn(2, 3), torch.randn(2, 2)
      chain:forward(input)
      chain:backward(input, g)
      local function run()
         model:forward(input)
         return model:backward(input, g)
      end
      local function check()
         local expected = run():clone()
         local sums = first.gradWeight:clone()
         for i, layer in ipairs {first, inner, last} do close(chain:get(i).gradInput, layer.gradInput) end
         close(expected, first.gradInput + side.gradInput)
         close(expected, model.gradInput)
         close(sums, first.gradWeight)
      end
      check()
      run()
      assert.is_nil(rawget(last, "gradInput"))
      g:mul(2) -- The layer's gradient would be computed from g, which changes here.
      assert.is_nil(last.gradInput)
      g:div(2)
      run()
      model:updateParameters(0)
      assert.is_nil(last.gradInput)
      run()
      model:forward(input)
      assert.is_nil(last.gradInput)
      run()
      model:clearState()
      assert.is_nil(last.gradInput)
      nngraph.setDebug(true)
      finally(function() nngraph.setDebug(false) end)
      for _ = 1, 2 do check() end
      assert.is_not_nil(rawget(last, "gradInput"))
   end)

   it("draws no new random numbers for the gradients of inner layers", function()
      local dropout, last, x = nn.Dropout(0.5), nn.Linear(50, 50), nn.Identity()()
      local model, input = nn.gModule({x}, {last(dropout(nn.Tanh()(x)))}), torch.randn(2, 50)
      local out = model:forward(input)
      local kept = dropout.output:ne(0):double()
      local g = torch.randn(2, 50)
      model:backward(input, g)
      close(torch.mm(g, last.weight):cmul(kept):mul(2), dropout.gradInput)
      close(torch.mm(g, last.weight), last.gradInput)
      close(torch.mm(torch.tanh(input):cmul(kept):mul(2), last.weight:t()) + last.bias:view(1, 50):expand(2, 50), out)
   end)

   it("refuses inputs that do not fit", function()
      local model = lstm()
      assert.raises("expected a table of 3 inputs, got torch.DoubleTensor", function() model:forward(torch.ones(3)) end)
      assert.raises("expected a table of 3 inputs, got 2", function() model:forward {torch.ones(3), torch.ones(2)} end)
      assert.raises("input 2: expected a node, got number", function() nn.CAddTable() {nn.Identity()(), 3} end)
      assert.raises("split: expected a count of at least 2", function() nn.Identity()():split(1) end)
   end)
end)
