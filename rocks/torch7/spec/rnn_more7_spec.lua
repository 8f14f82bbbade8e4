-- Tests the less common modules of the package rnn. Compares values with plain Lua and gradients with finite
-- differences, and checks the distribution of NCEModule's noise samples.

local torch = require "torch7"
local nn = require "tlua.torch7.rnn"
local gradients = dofile "rocks/torch7/spec/gradients.lua"

local near, check_gradients = gradients.near, gradients.check

torch.manualSeed(5)

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end
local function tanh(x) return (math.exp(2 * x) - 1) / (math.exp(2 * x) + 1) end

describe("the package rnn has", function()
   it("SeqLSTMP, whose gates see the projected output", function()
      local lstmp = nn.SeqLSTMP(1, 2, 1)
      local w, b, o = lstmp.weight, lstmp.bias, lstmp.weightO
      assert.same({{2, 8}, {8}, {2, 1}}, {w:size():totable(), b:size():totable(), o:size():totable()})
      local x = torch.randn(3, 1, 1)
      local y = lstmp:forward(x)
      local r, c = 0, {0, 0}
      for t = 1, 3 do
         local function gate(column) return w[1][column] * x[t][1][1] + w[2][column] * r + b[column] end
         local next_r = 0
         for j = 1, 2 do
            c[j] = sigmoid(gate(2 + j)) * c[j] + sigmoid(gate(j)) * tanh(gate(6 + j))
            next_r = next_r + sigmoid(gate(4 + j)) * tanh(c[j]) * o[j][1]
         end
         r = next_r
         near(r, y[t][1][1])
      end
      check_gradients(nn.SeqLSTMP(2, 4, 3), torch.randn(3, 2, 2))
      assert.equal("nn.SeqLSTMP(2 -> 4 -> 3)", tostring(nn.SeqLSTMP(2, 4, 3)))
   end)

   it("SeqLSTMP, which computes gradients again after its weights have changed", function()
      local lstmp, x, g = nn.SeqLSTMP(2, 3, 2), torch.randn(2, 1, 2), torch.randn(2, 1, 2)
      lstmp:forward(x)
      lstmp:backward(x, g)
      lstmp.weightO:mul(2)
      local changed = lstmp:updateGradInput(x, g):clone()
      lstmp:forward(x)
      assert.same(lstmp:updateGradInput(x, g):totable(), changed:totable())
   end)

   it("RecLSTM and RecGRU with the parameters and results of SeqLSTM and SeqGRU", function()
      for name, n in pairs {LSTM = 2, GRU = 3} do
         local whole, steps = nn["Seq" .. name](n, 3), nn["Rec" .. name](n, 3)
         for i, weight in ipairs((steps:parameters())) do weight:copy(whole:parameters()[i]) end
         local x = torch.randn(4, 2, n)
         local expected = whole:forward(x)
         for t = 1, 4 do near(0, (steps:forward(x[t]) - expected[t]):abs():max()) end
         steps:forget()
         assert.same({3}, steps:forward(x[1][1]):size():totable())
         check_gradients(nn.Sequencer(steps), {x[1]:clone(), x[2]:clone()})
      end
   end)

   it("LinearRNN and LookupRNN", function()
      local rnn = nn.LinearRNN(1, 1, nn.Tanh())
      local w = rnn:parameters()
      local h = 0
      for t = 1, 3 do
         h = tanh(w[1][1][1] * t + w[2][1] + w[3][1][1] * h + w[4][1])
         near(h, rnn:forward(torch.Tensor {{t}})[1][1])
      end
      local lookup = nn.LookupRNN(5, 3)
      assert.same({2, 3}, lookup:forward(torch.LongTensor {2, 5}):size():totable())
      check_gradients(nn.Sequencer(nn.LinearRNN(2, 3)), {torch.randn(2, 2), torch.randn(2, 2)})
   end)

   it("MuFuRu, which mixes its operations by a softmax", function()
      local unit = nn.MuFuRu(1, 1, {"keep", "replace", "max"})
      local w = unit:parameters()
      local h = 0
      for t = 1, 3 do
         local x = t - 1.5
         local reset = sigmoid(w[1][1][1] * x + w[2][1] + w[3][1][1] * h + w[4][1])
         local v = sigmoid(w[5][1][1] * x + w[5][1][2] * reset * h + w[6][1])
         local total, mixed = 0, 0
         for i, result in ipairs {h, v, math.max(h, v)} do
            local share = math.exp(w[7][i][1] * x + w[7][i][2] * h + w[8][i])
            total, mixed = total + share, mixed + share * result
         end
         h = mixed / total
         near(h, unit:forward(torch.Tensor {{x}})[1][1])
      end
      check_gradients(nn.Sequencer(nn.MuFuRu(2, 3)), {torch.randn(2, 2), torch.randn(2, 2), torch.randn(2, 2)})
      assert.equal("nn.MuFuRu(2 -> 3) { keep mul }", tostring(nn.MuFuRu(2, 3, {"keep", "mul"})))
      assert.raises("nn.MuFuRu: ops[2]: expected 'keep'", function() nn.MuFuRu(1, 1, {"keep", "add"}) end)
   end)

   it("NormStabilizer, whose gradients are those of the changes of norms", function()
      local layer = nn.NormStabilizer(0.7)
      local x = {torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3)}
      local function penalty()
         local sum = 0
         for t = 2, 3 do
            for row = 1, 2 do sum = sum + (x[t][row]:norm() - x[t - 1][row]:norm()) ^ 2 / 2 end
         end
         return 0.7 * sum
      end
      for t = 1, 3 do assert.same(x[t]:totable(), layer:forward(x[t]):totable()) end
      near(penalty() / 3, layer:updateLoss())
      for t = 3, 1, -1 do
         local g = layer:backward(x[t], torch.zeros(2, 3))
         for j = 1, 3 do
            local old = x[t][2][j]
            x[t][2][j] = old + 1e-6
            local above = penalty()
            x[t][2][j] = old - 1e-6
            near((above - penalty()) / 2e-6, g[2][j], 1e-7)
            x[t][2][j] = old
         end
      end
      layer:forget()
      layer:forward(torch.zeros(1, 2))
      layer:forward(torch.ones(1, 2))
      layer:backward(torch.ones(1, 2), torch.zeros(1, 2))
      assert.same({{0.0, 0.0}}, layer:backward(torch.zeros(1, 2), torch.zeros(1, 2)):totable())
   end)

   it("SeqBLSTM and SeqBGRU, sums of both directions", function()
      for _, name in ipairs {"LSTM", "GRU"} do
         local both, x = nn["SeqB" .. name](2, 3), torch.randn(4, 2, 2)
         local back = nn.ReverseSequence():forward(both.backwardModule:forward(nn.ReverseSequence():forward(x)))
         local expected = both.forwardModule:forward(x) + back
         near(0, (both:forward(x) - expected):abs():max())
         check_gradients(both, x)
      end
      assert.same({4, 2, 2}, nn.SeqBLSTM(2, 5, 2):forward(torch.randn(4, 2, 2)):size():totable())
      assert.same({3, 2, 1}, nn.ReverseSequence():forward {1, 2, 3})
   end)
end)

describe("zero masks", function()
   local function mask() return torch.ByteTensor {{0, 0}, {1, 0}, {0, 0}} end

   it("reset steps of all kinds of recurrent modules", function()
      local x = torch.randn(3, 2, 2)
      for _, made in ipairs {function() return nn.Sequencer(nn.RecLSTM(2, 3):maskZero()) end,
         function() return nn.SeqGRU(2, 3):maskZero() end, function() return nn.SeqLSTM(2, 3):maskZero() end} do
         local module = made()
         module:setZeroMask(mask())
         local y = module:forward(x)
         assert.same({0.0, 0.0, 0.0}, y[2][1]:totable())
         local third = y[3]:clone()
         check_gradients(module, x)
         module:setZeroMask(false)
         assert.is_true((module:forward(x)[3][1] - third[1]):abs():max() > 1e-9)
         near(0, (module.output[3][2] - third[2]):abs():max())
         module:forget()
         module:setZeroMask(torch.zeros(1, 1):byte())
         near(0, (module:forward(x:narrow(1, 3, 1):narrow(2, 1, 1):clone())[1][1] - third[1]):abs():max())
      end
   end)

   it("leave steps out of criterions", function()
      local criterion = nn.SequencerCriterion(nn.MaskZeroCriterion(nn.MSECriterion()))
      criterion:setZeroMask(mask())
      local x, y = torch.randn(3, 2, 1), torch.zeros(3, 2, 1)
      local expected = (x[1][1][1] ^ 2 + x[1][2][1] ^ 2) / 2 + x[2][2][1] ^ 2 + (x[3][1][1] ^ 2 + x[3][2][1] ^ 2) / 2
      near(expected, criterion:forward(x, y))
      assert.equal(0.0, criterion:backward(x, y)[2][1][1])
      near(2 * x[2][2][1], criterion.gradInput[2][2][1])
   end)

   it("of other sizes are refused", function()
      local module = nn.SeqLSTM(2, 3)
      module:setZeroMask(torch.ByteTensor {{0}})
      assert.raises("nn.SeqLSTM: zeroMask: expected the sizes {3, 2}, got {1, 1}",
         function() module:forward(torch.randn(3, 2, 2)) end)
      local seq = nn.Sequencer(nn.RecLSTM(2, 3):maskZero())
      -- the message is searched for `text`, because containers put their names before the message
      local function refuses(text, n, layer)
         local ok, message = pcall(layer.forward, layer, torch.randn(n, 2, 2))
         assert.is_false(ok)
         assert.is_truthy(message:find(text, 1, true), message)
      end
      seq:setZeroMask(torch.ByteTensor {{0, 0}})
      refuses("nn.RecLSTM: zeroMask: expected a row for step 2, got 1 rows", 3, seq)
      seq:setZeroMask(torch.ByteTensor {{0}})
      refuses("nn.MaskZero: zeroMask: expected an element for each of 2 rows", 1, seq)
      refuses("expected a call of setZeroMask before forward", 1, nn.Sequencer(nn.RecLSTM(2, 3):maskZero()))
   end)
end)

describe("VariableLength", function()
   local function model()
      return nn.Sequential():add(nn.SeqLSTM(2, 3):maskZero()):add(nn.SeqBLSTM(3, 2))
   end
   local function sequences() return {torch.randn(3, 2), torch.randn(1, 2), torch.randn(2, 2)} end

   it("gives each sequence the outputs that it has alone", function()
      local inner, x = model(), sequences()
      for _, seq in ipairs {inner, nn.SeqBGRU(2, 2)} do
         local y = nn.VariableLength(seq):forward(x)
         for i, one in ipairs(x) do
            assert.equal(one:size(1), y[i]:size(1))
            seq:setZeroMask(false)
            near(0, (seq:forward(one:view(-1, 1, 2)):select(2, 1) - y[i]):abs():max())
         end
      end
      check_gradients(nn.VariableLength(inner), x)
   end)

   it("gives the last steps as a tensor", function()
      local inner, x = model(), sequences()
      local all = nn.VariableLength(inner):forward(x)
      local last = nn.VariableLength(inner, true)
      local y = last:forward(x)
      for i = 1, 3 do near(0, (y[i] - all[i][all[i]:size(1)]):abs():max()) end
      check_gradients(last, x)
   end)

   it("refuses sequences without steps and steps of other sizes", function()
      local module = nn.VariableLength(nn.SeqLSTM(2, 3))
      assert.raises("input: expected a table of tensors (steps, ...), got torch.DoubleTensor",
         function() module:forward(torch.randn(2, 2)) end)
      assert.raises("input[2]: expected steps of the sizes {2}, got {3}",
         function() module:forward {torch.randn(1, 2), torch.randn(1, 3)} end)
      assert.raises("input[1]: expected a tensor with at least one step", function() module:forward {3} end)
   end)
end)

describe("NCEModule", function()
   local unigrams <const> = {1, 2, 3, 4}
   local function made(k, Z) return nn.NCEModule(3, 4, k, torch.Tensor(unigrams), Z) end
   local x, target = torch.randn(2, 3), torch.LongTensor {4, 1}

   it("returns the probabilities of targets and noise under both distributions", function()
      for _, batchnoise in ipairs {true, false} do
         local module = made(5, 2)
         module.batchnoise = batchnoise
         local p_target, p_noise, q_target, q_noise = table.unpack(module:forward {x, target})
         local scores = x * module.weight:t() + module.bias:view(1, 4):expand(2, 4)
         local by_q = {[0.1] = 1, [0.2] = 2, [0.3] = 3, [0.4] = 4}
         for row = 1, 2 do
            near(math.exp(scores[row][target[row]]) / 2, p_target[row])
            near(unigrams[target[row]] / 10, q_target[row])
            for j = 1, 5 do
               local class = by_q[tonumber(("%.1f"):format(q_noise[row][j]))]
               near(math.exp(scores[row][class]) / 2, p_noise[row][j])
            end
         end
         assert.equal(batchnoise, torch.all(torch.eq(q_noise[1], q_noise[2])) and
            torch.all(torch.eq(p_noise[1], p_noise[1])) and batchnoise)
      end
   end)

   it("draws noise by the frequencies of the classes", function()
      local module, counts = made(1000, 1), {}
      local q = module:forward({x, target})[4][1]
      for j = 1, 1000 do
         local key = ("%.1f"):format(q[j])
         counts[key] = (counts[key] or 0) + 1
      end
      -- The counts may differ from their means by four standard deviations of a binomial distribution.
      for class, share in ipairs {0.1, 0.2, 0.3, 0.4} do
         near(1000 * share, counts[("%.1f"):format(class / 10)], 4 * math.sqrt(1000 * share * (1 - share)))
      end
   end)

   it("computes all classes in evaluation", function()
      local module = made(2)
      module:evaluate()
      module.normalized = true
      local scores = x * module.weight:t() + module.bias:view(1, 4):expand(2, 4)
      local y = module:forward {x, target}
      near(0, (y - nn.SoftMax():forward(scores)):abs():max())
      module.logsoftmax = true
      near(0, (module:forward {x, target} - nn.LogSoftMax():forward(scores)):abs():max())
   end)

   it("estimates its constant from the first batch", function()
      local module = made(3)
      module:forward {x, target}
      near(1, module.output[2]:mean() * 4, 1e-12)
      local Z = module.Z[1]
      module:forward {x, target}
      assert.equal(Z, module.Z[1])
   end)

   it("has the gradients of its criterion", function()
      for _, batchnoise in ipairs {true, false} do
         local module, criterion = made(3, 2), nn.NCECriterion()
         module.batchnoise = batchnoise
         local parameters, grads = module:getParameters()
         torch.manualSeed(9)
         local output = module:forward {x, target}
         local k, loss = 3, 0
         for row = 1, 2 do
            loss = loss - math.log(output[1][row] / (output[1][row] + k * output[3][row] + 1e-7))
            for j = 1, k do
               loss = loss - math.log(k * output[4][row][j] / (output[2][row][j] + k * output[4][row][j] + 1e-7))
            end
         end
         near(loss / 2, criterion:forward(output, target))
         grads:zero()
         local gradInput = module:backward({x, target}, criterion:backward(output, target))
         local function at()
            torch.manualSeed(9)
            return criterion:forward(module:forward {x, target}, target)
         end
         local along = torch.randn(parameters:size())
         parameters:add(1e-5, along)
         local above = at()
         parameters:add(-2e-5, along)
         near((above - at()) / 2e-5, grads:dot(along), 1e-6)
         parameters:add(1e-5, along)
         local side = torch.randn(2, 3)
         x:add(1e-5, side)
         above = at()
         x:add(-2e-5, side)
         near((above - at()) / 2e-5, gradInput[1]:dot(side), 1e-6)
         x:add(1e-5, side)
      end
   end)

   it("refuses wrong arguments", function()
      assert.raises("nn.NCEModule: k: expected a positive integer, got 0", function() made(0) end)
      assert.raises("nn.NCEModule: unigrams: expected a tensor with 4 elements, got 2",
         function() nn.NCEModule(3, 4, 1, torch.Tensor {1, 2}) end)
      assert.raises("a positive sum, got the sum 0", function() nn.NCEModule(3, 2, 1, torch.zeros(2)) end)
      assert.raises("nn.NCEModule: input: expected {tensor (batch, 3), targets (batch)}",
         function() made(2):forward(x) end)
      assert.raises("nn.NCECriterion: input: expected the four tensors", function() nn.NCECriterion():forward {x} end)
   end)

   it("learns the distribution of a small language", function()
      torch.manualSeed(1)
      local n, shares = 6, {0.3, 0.05, 0.25, 0.1, 0.1, 0.2}
      local module = nn.NCEModule(1, n, 10, torch.ones(n), 1)
      local criterion, one = nn.NCECriterion(), torch.ones(200, 1)
      local drawn = torch.multinomial(torch.Tensor(shares), 200, true)
      local expected = torch.zeros(n)
      for i = 1, 200 do expected[drawn[i]] = expected[drawn[i]] + 1 / 200 end
      for _ = 1, 300 do
         module:zeroGradParameters()
         local output = module:forward {one, drawn}
         criterion:forward(output, drawn)
         module:backward({one, drawn}, criterion:backward(output, drawn))
         module:updateParameters(0.1)
      end
      module:evaluate()
      module.normalized = true
      local p = module:forward({one, drawn})[1]
      for class = 1, n do near(expected[class], p[class], 0.03) end
   end)
end)
