-- Tests the package rnn: values against the formulas in plain Lua, and gradients through time against finite
-- differences.

local torch = require "torch7"
local nn = require "tlua.torch7.rnn"
local gradients = dofile "rocks/torch7/spec/gradients.lua"

local near, check_gradients = gradients.near, gradients.check

torch.manualSeed(11)

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end
local function tanh(x) return (math.exp(2 * x) - 1) / (math.exp(2 * x) + 1) end

-- Sets the parameters of a module to the given numbers, one after another.
local function set(module, numbers)
   local at = 0
   for _, x in ipairs((module:parameters())) do
      local flat = x:view(-1)
      for i = 1, flat:size(1) do
         flat[i] = numbers[at % #numbers + 1]
         at = at + 1
      end
   end
   return module
end

local function steps(n, ...)
   local made = {}
   for t = 1, n do made[t] = torch.randn(...) end
   return made
end

describe("the package rnn computes", function()
   local numbers <const> = {0.3, -0.5, 0.2, 0.7, -0.1, 0.4, -0.6, 0.9, 0.1, -0.3, 0.8}
   local inputs <const> = {0.5, -1.2, 0.8}

   local function run(module)
      local outputs = {}
      for t, x in ipairs(inputs) do outputs[t] = module:forward(torch.Tensor {{x}})[1][1] end
      return outputs
   end

   it("LSTM by its six equations", function()
      local lstm = nn.LSTM(1, 1)
      set(lstm, numbers)
      local h, c = 0, 0
      local outputs = run(lstm)
      local function gate(module, x, previous, cell)
         local w = module:parameters()
         return sigmoid(w[1][1][1] * x + w[2][1] + w[3][1][1] * previous + w[4][1] * cell)
      end
      for t, x in ipairs(inputs) do
         local i, f = gate(lstm.inputGate, x, h, c), gate(lstm.forgetGate, x, h, c)
         local w = lstm.hiddenLayer:parameters()
         c = f * c + i * tanh(w[1][1][1] * x + w[2][1] + w[3][1][1] * h)
         h = gate(lstm.outputGate, x, h, c) * tanh(c)
         near(h, outputs[t])
         near(c, lstm.cells[t][1][1])
      end
      assert.equal(4, lstm.step)
   end)

   it("FastLSTM without weights from the cell to the gates", function()
      local lstm = nn.FastLSTM(1, 1)
      set(lstm, numbers)
      assert.equal(3, #lstm:parameters())
      local h, c = 0, 0
      for t, y in ipairs(run(lstm)) do
         local function sum(k)
            return lstm.i2g.weight[k][1] * inputs[t] + lstm.i2g.bias[k] + lstm.o2g.weight[k][1] * h
         end
         c = sigmoid(sum(3)) * c + sigmoid(sum(1)) * tanh(sum(2))
         h = sigmoid(sum(4)) * tanh(c)
         near(h, y)
      end
   end)

   it("GRU by its four equations", function()
      local gru = nn.GRU(1, 1)
      set(gru, numbers)
      local s = 0
      for t, y in ipairs(run(gru)) do
         local x = inputs[t]
         local function gate(k)
            return sigmoid(gru.i2g.weight[k][1] * x + gru.i2g.bias[k] + gru.o2g.weight[k][1] * s)
         end
         local h = tanh(gru.t2h.weight[1][1] * x + gru.t2h.bias[1] + gru.r2h.weight[1][1] * s * gate(1))
         s = (1 - gate(2)) * h + gate(2) * s
         near(s, y)
      end
   end)

   it("Recurrent with a start of its own, and Recurrence from zeros", function()
      local first, back = nn.Linear(1, 1), nn.Linear(1, 1)
      local rnn = nn.Recurrent(1, first, back, nn.Tanh())
      set(rnn, numbers)
      local h
      for t, y in ipairs(run(rnn)) do
         local fed = h and back.weight[1][1] * h + back.bias[1] or rnn.startModule.bias[1]
         h = tanh(first.weight[1][1] * inputs[t] + first.bias[1] + fed)
         near(h, y)
      end
      local inner = nn.Sequential():add(nn.ParallelTable():add(nn.Identity()):add(nn.MulConstant(0.5)))
         :add(nn.CAddTable())
      local outputs, sum = run(nn.Recurrence(inner, 1, 1)), 0
      for t, x in ipairs(inputs) do
         sum = x + 0.5 * sum
         near(sum, outputs[t])
      end
   end)

   it("SeqLSTM and SeqGRU as the modules for one step do", function()
      local seq, x = nn.SeqLSTM(2, 3), torch.randn(4, 2, 2)
      near(0, (seq:forward(x) - nn.Sequencer(seq:toFastLSTM()):forward(x)):abs():max())
      seq.batchfirst = true
      near(0, (seq:forward(x:transpose(1, 2)) - nn.Sequencer(seq:toFastLSTM()):forward(x):transpose(1, 2)):abs():max())
      local gru, one = nn.SeqGRU(2, 3), nn.GRU(2, 3)
      -- the order of SeqGRU's columns is update, reset, candidate; the order of GRU's gates is reset, update
      for place, gate in ipairs {2, 1} do
         local columns = gru.weight:narrow(2, (gate - 1) * 3 + 1, 3)
         one.i2g.weight:narrow(1, (place - 1) * 3 + 1, 3):copy(columns:narrow(1, 1, 2):t())
         one.o2g.weight:narrow(1, (place - 1) * 3 + 1, 3):copy(columns:narrow(1, 3, 3):t())
      end
      one.i2g.bias:zero()
      one.t2h.bias:zero()
      one.t2h.weight:copy(gru.weight:narrow(2, 7, 3):narrow(1, 1, 2):t())
      one.r2h.weight:copy(gru.weight:narrow(2, 7, 3):narrow(1, 3, 3):t())
      near(0, (gru:forward(x) - nn.Sequencer(one):forward(x)):abs():max())
      assert.same({1, 1, 5}, nn.SeqBRNN(5, 5):forward(torch.rand(1, 1, 5)):size():totable())
   end)
end)

describe("the package rnn passes gradients through time in", function()
   local function recurrent() return nn.Recurrent(3, nn.Linear(2, 3), nn.Linear(3, 3), nn.Tanh()) end
   local two = nn.ParallelTable():add(nn.Linear(2, 3)):add(nn.Linear(3, 3))
   local cases = {
      LSTM = function() return nn.Sequencer(nn.LSTM(2, 3)) end,
      FastLSTM = function() return nn.Sequencer(nn.FastLSTM(2, 3)) end,
      GRU = function() return nn.Sequencer(nn.GRU(2, 3)) end,
      Recurrent = function() return nn.Sequencer(recurrent()) end,
      Recurrence = function()
         return nn.Sequencer(nn.Recurrence(nn.Sequential():add(two:clone()):add(nn.CAddTable()):add(nn.Tanh()), 3, 1))
      end,
      ["a stack in one Sequencer"] = function()
         return nn.Sequencer(nn.Sequential():add(nn.LSTM(2, 3)):add(nn.Linear(3, 3)):add(nn.GRU(3, 2)))
      end,
      ["a stack of Sequencers"] = function()
         return nn.Sequential():add(nn.Sequencer(nn.FastLSTM(2, 3))):add(nn.Sequencer(nn.Linear(3, 2)))
      end,
      BiSequencer = function() return nn.BiSequencer(nn.FastLSTM(2, 3)) end,
      BiSequencerLM = function() return nn.BiSequencerLM(nn.GRU(2, 3), nil, 1) end,
      ["a masked LSTM"] = function() return nn.Sequencer(nn.LSTM(2, 3):maskZero(1)) end,
      ["a trimmed Recurrent"] = function() return nn.Sequencer(recurrent():trimZero(1)) end,
   }
   for name, make in pairs(cases) do
      it(name, function() check_gradients(make(), steps(3, 2, 2)) end)
   end
   it("sequences as tensors", function()
      check_gradients(nn.Sequencer(nn.LSTM(2, 3)), torch.randn(3, 2, 2))
      check_gradients(nn.SeqLSTM(2, 3), torch.randn(3, 2, 2))
      check_gradients(nn.SeqGRU(2, 3), torch.randn(3, 2, 2))
      check_gradients(nn.SeqBRNN(2, 3, true), torch.randn(3, 2, 2))
      local reverse = nn.SeqReverseSequence(1)
      assert.same({{2.0}, {1.0}}, reverse:forward(torch.Tensor {{1}, {2}}):totable())
   end)
   it("Repeater", function() check_gradients(nn.Repeater(nn.GRU(2, 3), 3), torch.randn(2, 2)) end)
   it("inputs without a batch", function() check_gradients(nn.Sequencer(nn.LSTM(2, 3)), steps(2, 2)) end)
end)

describe("a recurrent module of the package rnn", function()
   it("goes back step by step in the order of the calls", function()
      local one = nn.FastLSTM(2, 3)
      local seq = nn.Sequencer(one:clone())
      local x, g = steps(3, 2, 2), steps(3, 2, 3)
      local expected = seq:forward(x)
      local grads = seq:backward(x, g)
      for t = 1, 3 do assert.same(expected[t]:totable(), one:forward(x[t]):totable()) end
      for t = 3, 1, -1 do near(0, (one:backward(x[t], g[t]) - grads[t]):abs():max()) end
      local _, a = one:parameters()
      local _, b = seq:parameters()
      for i = 1, #a do near(0, (a[i] - b[i]):abs():max()) end
      assert.raises("expected a call of forward for each call", function() one:backward(x[1], g[1]) end)
      one:forget()
      assert.equal(1, one.step)
   end)

   it("starts anew unless it remembers", function()
      local seq, x = nn.Sequencer(nn.GRU(2, 3)), steps(2, 1, 2)
      local first = seq:forward(x)[2]:clone()
      assert.same(first:totable(), seq:forward(x)[2]:totable())
      seq:remember()
      assert.is_true((seq:forward(x)[2] - first):abs():max() > 1e-4)
      seq:forget()
      assert.same(first:totable(), seq:forward(x)[2]:totable())
      seq:remember "eval"
      assert.same(first:totable(), seq:forward(x)[2]:totable())
      local lstm, y = nn.SeqLSTM(2, 3), torch.randn(4, 1, 2)
      local whole = lstm:forward(y):clone()
      lstm:remember "both"
      lstm:forget()
      lstm:forward(y:narrow(1, 1, 2))
      near(0, (lstm:forward(y:narrow(1, 3, 2)) - whole:narrow(1, 3, 2)):abs():max())
      assert.raises("expected 'both', 'eval', 'train' or 'neither'", function() seq:remember "always" end)
   end)

   it("keeps only the previous step in evaluation mode", function()
      local lstm, x = nn.LSTM(2, 3), steps(5, 1, 2)
      local seq = nn.Sequencer(lstm)
      local expected = seq:forward(x)[5]:clone()
      seq:evaluate()
      assert.same(expected:totable(), seq:forward(x)[5]:totable())
      assert.is_nil(lstm.states[2])
      assert.raises("evaluate() keeps no earlier steps", function() lstm:backward(x[5], expected) end)
      seq:training()
      seq:forward(x)
      seq:backward(x, steps(5, 1, 3))
   end)

   it("goes back at most rho steps", function()
      local seq = nn.Sequencer(nn.Recurrent(1, nn.Identity(), nn.MulConstant(0.5), nn.Identity(), 2))
      local x = steps(4, 1, 1)
      seq:zeroGradParameters()
      seq:forward(x)
      local g = {torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1)}
      local grads = seq:backward(x, g)
      for t, expected in ipairs {0, 0, 0.5, 1} do near(expected, grads[t][1][1]) end
      assert.equal(2, #seq.module.sharedClones)
      assert.raises("rho: expected a count of steps, got 0", function() nn.LSTM(1, 1, 0) end)
   end)

   it("couples an encoder and a decoder by its states", function()
      local whole = nn.LSTM(2, 3)
      local encoder, decoder = whole:clone(), whole:clone()
      local x, g = steps(4, 1, 2), steps(4, 1, 3)
      g[1]:zero()
      g[2]:zero()
      local seq = nn.Sequencer(whole)
      seq:forward(x)
      local expected = seq:backward(x, g)
      for t = 1, 2 do encoder:forward(x[t]) end
      decoder.userPrevOutput, decoder.userPrevCell = encoder.outputs[2], encoder.cells[2]
      for t = 3, 4 do
         near(0, (decoder:forward(x[t]) - whole.outputs[t]):abs():max())
      end
      for t = 4, 3, -1 do near(0, (decoder:backward(x[t], g[t]) - expected[t]):abs():max()) end
      encoder.gradPrevOutput, encoder.userNextGradCell = decoder.userGradPrevOutput, decoder.userGradPrevCell
      for t = 2, 1, -1 do near(0, (encoder:backward(x[t], g[t]) - expected[t]):abs():max()) end
   end)

   it("couples the states of layers that take sequences as tensors", function()
      for _, name in ipairs {"SeqLSTM", "SeqGRU"} do
         local whole = nn[name](2, 3)
         local encoder, decoder = whole:clone(), whole:clone()
         local x, g = torch.randn(5, 2, 2), torch.randn(5, 2, 3)
         local y = whole:forward(x)
         whole:zeroGradParameters()
         local expected = whole:backward(x, g)
         for _, wrap in ipairs {false, true} do
            local first, second = encoder, decoder
            if wrap then first, second = nn.Sequential():add(encoder), nn.Sequential():add(decoder) end
            first:zeroGradParameters()
            second:zeroGradParameters()
            local x1, x2 = x:narrow(1, 1, 2), x:narrow(1, 3, 3)
            first:forward(x1)
            decoder.userPrevOutput = encoder.output[2]
            decoder.userPrevCell = encoder.cell and encoder.cell[2]
            near(0, (second:forward(x2) - y:narrow(1, 3, 3)):abs():max())
            second:backward(x2, g:narrow(1, 3, 3))
            near(0, (second.gradInput - expected:narrow(1, 3, 3)):abs():max())
            encoder.gradPrevOutput, encoder.userNextGradCell = decoder.userGradPrevOutput, decoder.userGradPrevCell
            first:backward(x1, g:narrow(1, 1, 2))
            near(0, (first.gradInput - expected:narrow(1, 1, 2)):abs():max())
            near(0, (encoder.gradWeight + decoder.gradWeight - whole.gradWeight):abs():max())
            near(0, (encoder.gradBias + decoder.gradBias - whole.gradBias):abs():max())
            assert.equal(name == "SeqLSTM", encoder.cell ~= nil and decoder.userGradPrevCell ~= nil)
            encoder.gradPrevOutput, encoder.userNextGradCell = torch.ones(7), nil
            assert.raises("backward: gradPrevOutput: expected 6 elements, got 7",
               function() encoder:backward(x1, g:narrow(1, 1, 2)) end)
            encoder.gradPrevOutput = 5
            assert.raises("backward: gradPrevOutput: expected a tensor, got a number",
               function() encoder:backward(x1, g:narrow(1, 1, 2)) end)
            assert.raises("backward: gradOutput: expected a tensor, got a nil", function() encoder:backward(x1) end)
            encoder.gradPrevOutput = nil
         end
      end
   end)

   it("shares parameters between steps after getParameters, type, clone and files", function()
      local seq, x = nn.Sequencer(nn.GRU(2, 3)), steps(3, 1, 2)
      seq:forward(x)
      local flat = seq:getParameters()
      flat:mul(0.5)
      local expected = seq:forward(x)[3]:clone()
      local again = torch.deserialize(torch.serialize(seq))
      assert.same(expected:totable(), again:forward(x)[3]:totable())
      assert.same(expected:totable(), seq:clone():forward(x)[3]:totable())
      seq:float()
      local y = {}
      for t = 1, 3 do y[t] = x[t]:float() end
      assert.equal("torch.FloatTensor", seq:forward(y)[3]:type())
      near(0, (seq.output[3]:double() - expected):abs():max(), 1e-6)
      assert.matches("nn.Sequencer @ nn.GRU%(2 %-> 3%)", tostring(seq))
   end)
end)

describe("masks of the package rnn", function()
   it("set outputs to zero and restart rows", function()
      local seq = nn.Sequencer(nn.FastLSTM(2, 3):maskZero(1))
      local x = steps(3, 2, 2)
      x[2][1]:zero()
      local y = seq:forward(x)
      assert.same({0.0, 0.0, 0.0}, y[2][1]:totable())
      local third, second = y[3][1]:clone(), y[3][2]:clone()
      local fresh = seq:forward {x[3]}[1]
      near(0, (fresh[1] - third):abs():max())
      assert.is_true((fresh[2] - second):abs():max() > 1e-6)
      local seq_lstm = nn.SeqLSTM(2, 3)
      seq_lstm.maskzero = true
      local z = torch.randn(3, 2, 2)
      z[2][1]:zero()
      local expected = nn.Sequencer(seq_lstm:toFastLSTM():maskZero(1)):forward(z)
      near(0, (seq_lstm:forward(z) - expected):abs():max())
   end)

   it("look up zeros, whose row gets no gradient", function()
      local lookup = nn.LookupTableMaskZero(4, 2)
      local x = torch.LongTensor {0, 3, 0}
      local y = lookup:forward(x)
      assert.same({0.0, 0.0}, y[1]:totable())
      assert.same(lookup.weight[4]:totable(), y[2]:totable())
      lookup:zeroGradParameters()
      lookup:backward(x, torch.ones(3, 2))
      assert.same({{0.0, 0.0}, {0.0, 0.0}, {0.0, 0.0}, {1.0, 1.0}, {0.0, 0.0}}, lookup.gradWeight:totable())
   end)

   it("leave rows out of a criterion", function()
      local criterion = nn.MaskZeroCriterion(nn.MSECriterion(), 1)
      local x, y = torch.Tensor {{1, 3}, {0, 0}}, torch.Tensor {{0, 1}, {5, 5}}
      near((1 + 4) / 2, criterion:forward(x, y))
      assert.same({{1.0, 2.0}, {0.0, 0.0}}, criterion:backward(x, y):totable())
      assert.equal(0, criterion:forward(torch.zeros(2, 2), y))
      assert.equal(0.0, criterion:backward(torch.zeros(2, 2), y):sum())
   end)
end)

describe("criterions of the package rnn", function()
   it("add the losses of the steps", function()
      local criterion = nn.SequencerCriterion(nn.MSECriterion())
      local x = {torch.Tensor {1}, torch.Tensor {3}}
      local y = {torch.Tensor {0}, torch.Tensor {1}}
      near(5, criterion:forward(x, y))
      local g = criterion:backward(x, y)
      assert.same({2.0, 4.0}, {g[1][1], g[2][1]})
      near(5, criterion:forward(torch.Tensor {{1}, {3}}, torch.Tensor {{0}, {1}}))
      assert.same({{2.0}, {4.0}}, criterion:backward(torch.Tensor {{1}, {3}}, torch.Tensor {{0}, {1}}):totable())
      near(1 + 9, nn.RepeaterCriterion(nn.MSECriterion()):forward(x, torch.Tensor {0}))
      assert.raises("target: expected 2 steps, got 1", function() criterion:forward(x, {y[1]}) end)
   end)
end)

it("rnn's modules refuse wrong arguments", function()
   assert.raises("nn.Sequencer: module: expected a module, got number", function() nn.Sequencer(3) end)
   assert.raises("nn.Sequencer: input: expected a table with one element for each step",
      function() nn.Sequencer(nn.LSTM(1, 1)):forward(3) end)
   assert.raises("nn.Repeater: nStep: expected a count", function() nn.Repeater(nn.LSTM(1, 1)) end)
   assert.raises("nn.SeqLSTM: input: expected (steps, batch, 2), got (1, 1, 3)",
      function() nn.SeqLSTM(2, 2):forward(torch.zeros(1, 1, 3)) end)
   assert.raises("nn.MaskZero: nInputDim: expected a count", function() nn.MaskZero(nn.Linear(1, 1), "1") end)
   assert.raises("nn.MaskZero: expected a call of setZeroMask before forward",
      function() nn.MaskZero(nn.Linear(1, 1)):forward(torch.zeros(2, 1)) end)
end)
