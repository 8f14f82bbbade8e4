-- Tests recurrent layers and cells, packed sequences, and the operators that compute them.
local torch = require "tlua"
local formulas = require "spec.support.nn_utils"
local sorted = require "spec.support.sorted"
local nn = torch.nn
local R <const> = nn.utils.rnn
local rows = dofile "spec/fixtures/rnn.lua"

local f64 <const> = {dtype = "float64"}

local function product(shape)
   local n = 1
   for _, size in ipairs(shape) do n = n * size end
   return n
end

local function numbers(shape, which, dtype)
   local values = formulas.sequence(product(shape), function(k) return math.sin(1 + 1.37 * k + which) end)
   return values:to(dtype):view(shape):requires_grad_()
end

local function build(name, options, dtype)
   return formulas.filled(load(("return (...)(3, 4, {%s})"):format(options))(nn[name]), dtype)
end

local function states_for(module, row, dtype)
   local name, shape = row[1], row.shape
   if not row.states then return {} end
   local sizes
   if name:find "Cell" then
      local size = {table.unpack(shape)}
      size[#size] = 4
      sizes = {size, name == "LSTMCell" and size or nil}
   else
      local lines = module.num_layers * (module.bidirectional and 2 or 1)
      local function size(n)
         if #shape == 2 then return {lines, n} end
         return {lines, shape[module.batch_first and 1 or 2], n}
      end
      sizes = {size(module.proj_size > 0 and module.proj_size or 4), name == "LSTM" and size(4) or nil}
   end
   local states = {}
   for i, size in ipairs(sizes) do states[i] = numbers(size, i, dtype) end
   return states
end

-- Returns the results of a layer or cell as a list; the state of an LSTM counts as two results.
local function results_of(module, input, state)
   local output, h, c = module(input, state)
   if type(h) == "table" then h, c = table.unpack(h) end
   return output, h, c
end

-- PyTorch's values are in float64. In float32, one rounding has an error of 6e-8, and a sum of some hundred numbers
-- around 1 has an error of several times that.
local function matches_pytorch(dtype, limit)
   for _, row in ipairs(rows) do
      local kind = row.lengths and "packed " .. table.concat(row.lengths, " ") or table.concat(row.shape, " x ")
      it(("nn.%s(%s), %s%s"):format(row[1], row[2], kind, row.states and ", states" or ""), function()
         local module = build(row[1], row[2], dtype)
         local given, states = numbers(row.shape, 0, dtype), states_for(module, row, dtype)
         local input = given
         if row.lengths then input = R.pack_padded_sequence(given, row.lengths, module.batch_first, false) end
         local outputs = {results_of(module, input, states[2] and states or states[1])}
         if row.lengths then outputs[1] = R.pad_packed_sequence(outputs[1], module.batch_first) end
         assert.equal(#row.shapes, #outputs)
         for i, shape in ipairs(row.shapes) do
            assert.same(shape, outputs[i].shape)
            assert.close(row.outputs[i], formulas.projection(outputs[i], 0.11), limit)
         end
         formulas.weighted_sum(outputs):backward()
         local leaves = module:parameters()
         leaves[#leaves + 1] = given
         for _, state in ipairs(states) do leaves[#leaves + 1] = state end
         assert.equal(#row.grads, #leaves)
         for i, leaf in ipairs(leaves) do assert.close(row.grads[i], formulas.projection(leaf.grad, 0.17), limit) end
      end)
   end
end

describe("a recurrent layer matches PyTorch:", function() matches_pytorch("float64", 1e-10) end)
describe("a recurrent layer in float32 matches PyTorch:", function()
   matches_pytorch("float32", 1e-5)
end)

-- The kinds of recurrent networks. Each has a class and options.
local kinds <const> = {
   {"RNN"}, {"RNN", {nonlinearity = "relu"}}, {"GRU"}, {"LSTM"}, {"LSTM", {proj_size = 3}},
   {"GRU", {bidirectional = true, num_layers = 2}}, {"LSTM", {bidirectional = true, num_layers = 2, bias = false}},
}

local function options_with(kind, more)
   local options = {}
   for key, value in pairs(kind[2] or {}) do options[key] = value end
   for key, value in pairs(more or {}) do options[key] = value end
   return options
end

local function title(kind)
   local list = {}
   for key, value in pairs(kind[2] or {}) do list[#list + 1] = key .. " = " .. tostring(value) end
   table.sort(list)
   return "nn." .. kind[1] .. (#list > 0 and " with " .. table.concat(list, ", ") or "")
end

-- Computes a layer by plain operators, for one step and one sample at a time.
local function by_steps(layer, x, h, c)
   local w, u, b, v, p = layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0,
      layer.weight_hr_l0
   local n, outputs = layer.hidden_size, {}
   for t = 1, x:size(1) do
      local from_x, from_h = w:mv(x[t]) + b, u:mv(h) + v
      local function gate(source, k) return source:narrow(1, (k - 1) * n + 1, n) end
      local both = from_x + from_h
      if layer.mode == "LSTM" then
         local new = gate(both, 3):tanh()
         c = gate(both, 2):sigmoid() * c + gate(both, 1):sigmoid() * new
         h = gate(both, 4):sigmoid() * c:tanh()
         if p then h = p:mv(h) end
      elseif layer.mode == "GRU" then
         local update = gate(both, 2):sigmoid()
         local new = (gate(from_x, 3) + gate(both, 1):sigmoid() * gate(from_h, 3)):tanh()
         h = (1 - update) * new + update * h
      else
         h = layer.mode == "RNN_TANH" and both:tanh() or both:relu()
      end
      outputs[t] = h
   end
   return torch.stack(outputs, 1), h, c
end

describe("a recurrent layer agrees with its formula, for every dtype:", function()
   -- The tolerances are relative to 1. Half-precision types are computed in float32 and rounded at the end.
   local tolerance <const> = {float64 = 1e-12, float32 = 2e-6, float16 = 2e-3, bfloat16 = 1.6e-2}
   for i = 1, 5 do
      for dtype, limit in sorted(tolerance) do
         it(title(kinds[i]) .. " in " .. dtype, function()
            torch.manual_seed(i)
            -- These sizes are no multiples of the length of a vector register.
            local layer = nn[kinds[i][1]](7, 19, options_with(kinds[i], {dtype = dtype}))
            local x = torch.randn(9, 5, 7, {dtype = dtype})
            local output, h, c = results_of(layer, x)
            assert.equal(dtype, output.dtype)
            local wide = layer:double()
            local zeros, cells = torch.zeros(output:size(3), f64), torch.zeros(19, f64)
            for n = 1, 5 do
               local y, last, cell = by_steps(wide, x:select(2, n):double(), zeros, cells)
               assert.close(y, output:select(2, n):double(), limit)
               assert.close(last, h[1][n]:double(), limit)
               if c then assert.close(cell, c[1][n]:double(), limit) end
            end
         end)
      end
   end
end)

describe("gradients of a recurrent layer", function()
   for _, kind in ipairs(kinds) do
      it(title(kind) .. " are those by differences, twice", function()
         torch.manual_seed(3)
         local options = options_with(kind, f64)
         if options.proj_size then options.proj_size = 1 end
         local layer = nn[kind[1]](1, options.proj_size and 2 or 1, options)
         local inputs = layer:parameters()
         inputs[#inputs + 1] = torch.randn(2, 1, 1, f64):requires_grad_()
         local function run() return results_of(layer, inputs[#inputs]) end
         assert.gradcheck(run, inputs)
         -- One layer suffices here: several layers take long, and only repeat the same operators.
         if not options.num_layers then assert.is_true(torch.autograd.gradgradcheck(run, inputs)) end
      end)
   end

   it("of packed sequences agree with differences, in first and second order", function()
      torch.manual_seed(4)
      for _, kind in ipairs {{"RNN"}, {"GRU", {bidirectional = true}}, {"LSTM"}} do
         local layer = nn[kind[1]](1, 1, options_with(kind, f64))
         local x = torch.randn(3, 3, 1, f64):requires_grad_()
         local function run(input)
            local output, h = results_of(layer, R.pack_padded_sequence(input, {2, 3, 1}, false, false))
            return output.data, h
         end
         assert.gradcheck(run, {x})
         assert.is_true(torch.autograd.gradgradcheck(run, {x}))
      end
   end)

   -- Inputs may depend on each other, or one tensor may be passed twice. Each argument must still get its own gradient.
   it("are right for inputs that depend on each other", function()
      torch.manual_seed(5)
      local w, u = torch.randn(3, 3, f64):requires_grad_(), torch.randn(3, 3, f64):requires_grad_()
      local x = torch.randn(2, 2, 3, f64)
      assert.is_true(torch.autograd.gradgradcheck(function(a, b)
         return torch.rnn_tanh(x, (a * b):narrow(1, 1, 2):unsqueeze(1), {a, a}, false)
      end, {w, u}))
   end)

   it("are computed only for the requested inputs", function()
      torch.manual_seed(6)
      for _, kind in ipairs(kinds) do
         local layer = nn[kind[1]](3, 4, options_with(kind))
         local x = torch.randn(3, 2, 3):requires_grad_()
         layer(x):sum():backward()
         local whole = {x.grad}
         for _, p in ipairs(layer:parameters()) do whole[#whole + 1] = p.grad end
         local leaves = {x, table.unpack(layer:parameters())}
         for i, leaf in ipairs(leaves) do
            local grad = torch.autograd.grad(layer(x):sum(), {leaf})
            assert.is_true(torch.equal(whole[i], grad), title(kind) .. " " .. i)
         end
      end
   end)

   it("can be taken twice from a graph that is kept", function()
      local layer = nn.LSTM(3, 4)
      local loss = layer(torch.randn(3, 2, 3)):sum()
      loss:backward {retain_graph = true}
      local first = layer.weight_hh_l0.grad:clone()
      loss:backward()
      assert.close(first * 2, layer.weight_hh_l0.grad, 1e-6)
   end)
end)

describe("a recurrent layer", function()
   before_each(function() torch.manual_seed(7) end)

   it("gives the same for one step as its cell", function()
      for _, name in ipairs {"RNN", "GRU", "LSTM"} do
         local layer, cell = nn[name](3, 4), nn[name .. "Cell"](3, 4)
         for _, part in ipairs {"weight_ih", "weight_hh", "bias_ih", "bias_hh"} do
            cell[part] = layer[part .. "_l0"]
         end
         local x = torch.randn(1, 5, 3)
         local _, h, c = results_of(layer, x)
         local cell_h, cell_c = cell(x[1])
         assert.is_true(torch.equal(h[1], cell_h))
         assert.is_true(c == nil or torch.equal(c[1], cell_c))
      end
   end)

   it("continues from its last state", function()
      for _, kind in ipairs {kinds[1], kinds[3], kinds[4], kinds[5]} do
         local layer = nn[kind[1]](3, 4, options_with(kind, {num_layers = 2}))
         local x = torch.randn(6, 2, 3)
         local whole, last = results_of(layer, x)
         local first, state = layer(x:narrow(1, 1, 4))
         local second, h = results_of(layer, x:narrow(1, 5, 2), state)
         assert.close(whole, torch.cat {first, second}, 1e-6)
         assert.close(last, h, 1e-6)
      end
   end)

   it("takes zeros for a state that is not given", function()
      local layer, x, zeros = nn.LSTM(3, 4), torch.randn(2, 2, 3), torch.zeros(1, 2, 4)
      assert.is_true(torch.equal(layer(x), (layer(x, {zeros, zeros}))))
      assert.is_true(torch.equal(layer(x), (layer(x, nil))))
      local cell = nn.LSTMCell(3, 4)
      assert.is_true(torch.equal(cell(x[1]), (cell(x[1], {zeros[1], zeros[1]}))))
   end)

   it("keeps the cell state in a loop with one variable, as PyTorch's", function()
      local layer, x = nn.LSTM(3, 4), torch.randn(6, 2, 3)
      local whole, last = layer(x)
      local hidden, output
      for t = 1, 6 do
         output, hidden = layer(x:narrow(1, t, 1), hidden)
         assert.close(whole[t], output[1], 1e-6)
      end
      assert.close(last[1], hidden[1], 1e-6)
      assert.close(last[2], hidden[2], 1e-6)
      local cell, h, c = nn.LSTMCell(3, 4), nil, nil
      for _, part in ipairs {"weight_ih", "weight_hh", "bias_ih", "bias_hh"} do cell[part] = layer[part .. "_l0"] end
      for t = 1, 6 do
         h, c = cell(x[t], h and {h, c})
         assert.close(whole[t], h, 1e-6)
      end
      assert.close(last[2][1], c, 1e-6)
   end)

   it("is checkpointed with its state, whose gradients are those without", function()
      local layer, x = nn.LSTM(3, 4), torch.randn(2, 2, 3)
      local function run(call)
         local h, c = torch.ones(1, 2, 4):requires_grad_(), torch.ones(1, 2, 4):requires_grad_()
         layer:zero_grad()
         local _, state = call(x, {h, c})
         local sum = (state[1] + 2 * state[2]):sum()
         sum:backward()
         return {h.grad, c.grad, layer.weight_hh_l0.grad}
      end
      local expected = run(layer)
      local actual = run(function(...) return torch.utils.checkpoint(layer, ...) end)
      for i = 1, 3 do assert.close(expected[i], actual[i], 1e-6) end
   end)

   it("is the same for one sequence and a batch of one", function()
      local layer, x = nn.GRU(3, 4, {bidirectional = true}), torch.randn(5, 3)
      local many, last = layer(x:unsqueeze(2))
      local one, h = layer(x)
      assert.is_true(torch.equal(many:squeeze(2), one))
      assert.is_true(torch.equal(last:squeeze(2), h))
   end)

   it("takes a batch of no samples", function()
      for _, kind in ipairs(kinds) do
         local layer = nn[kind[1]](3, 4, options_with(kind))
         local x = torch.randn(5, 0, 3):requires_grad_()
         local output, h = results_of(layer, x)
         assert.same({5, 0}, {output:size(1), output:size(2)})
         assert.equal(0, h:size(2))
         output:sum():backward()
         assert.same({5, 0, 3}, x.grad.shape)
         for _, p in ipairs(layer:parameters()) do
            assert.is_true(torch.equal(torch.zeros_like(p), p.grad), title(kind))
         end
      end
   end)

   it("spreads NaN only within its sample", function()
      for _, kind in ipairs(kinds) do
         local layer = nn[kind[1]](3, 4, options_with(kind))
         local x = torch.randn(4, 3, 3)
         local clean = layer(x)
         x[{2, 2, 1}] = 0 / 0
         local output = layer(x)
         assert.is_true(torch.equal(clean:select(2, 1), output:select(2, 1)))
         assert.is_true(output:select(2, 2):narrow(1, 2, 3):isnan():all():item(), title(kind))
      end
   end)

   it("saturates without giving NaN", function()
      for _, kind in ipairs {kinds[1], kinds[3], kinds[4]} do
         local layer = nn[kind[1]](3, 4, options_with(kind))
         for _, size in ipairs {200.0, 1e30, -1e30, math.huge} do
            local x = torch.full({2, 1, 3}, size):requires_grad_()
            torch.no_grad(function()
               for _, p in ipairs(layer:parameters()) do p:fill_(1) end
            end)
            local output = layer(x)
            assert.is_true(output:abs():le(1):all():item())
         end
      end
   end)

   it("drops between layers, while training only", function()
      local layer, x = nn.GRU(3, 4, {num_layers = 2, dropout = 1}), torch.randn(3, 2, 3)
      local alone = nn.GRU(4, 4)
      for _, part in ipairs {"weight_ih", "weight_hh", "bias_ih", "bias_hh"} do
         alone[part .. "_l0"] = layer[part .. "_l1"]
      end
      local without, with = alone(torch.zeros(3, 2, 4)), layer(x)
      assert.is_true(torch.equal(without, with))
      with = layer:evaluate()(x)
      assert.is_false(torch.equal(without, with))
   end)

   it("lists its weights, and prints as PyTorch's", function()
      local layer = nn.LSTM(3, 4, {num_layers = 2, proj_size = 2, bidirectional = true})
      local weights = layer:all_weights()
      assert.equal(4, #weights)
      assert.equal(layer.weight_hr_l1_reverse, weights[4][5])
      assert.equal(layer, layer:flatten_parameters())
      assert.equal("LSTM(3, 4, proj_size=2, num_layers=2, bidirectional=true)", tostring(layer))
      assert.equal("RNNCell(3, 4, bias=false, nonlinearity=relu)",
         tostring(nn.RNNCell(3, 4, {bias = false, nonlinearity = "relu"})))
      assert.equal("GRUCell(3, 4)", tostring(nn.GRUCell(3, 4)))
   end)

   it("is made of any of the four modes", function()
      local base = nn.RNNBase("LSTM", 3, 4, {proj_size = 2})
      assert.same({16, 2}, base.weight_hh_l0.shape)
      assert.equal(2, #select(2, base(torch.randn(2, 1, 3))))
      assert.same({8, 4}, nn.RNNCellBase(3, 4, false, 2).weight_hh.shape)
   end)
end)

describe("recurrent layers refuse", function()
   local x = torch.randn(2, 2, 3)
   local function refuses(what, fn) assert.raises(what, fn) end

   it("options that make no network", function()
      refuses("nn.LSTM: hidden_size: expected at least 1, got 0", function() nn.LSTM(3, 0) end)
      refuses("nn.GRU: num_layers: expected at least 1, got 0", function() nn.GRU(3, 4, {num_layers = 0}) end)
      refuses("nn.RNN: dropout: expected a probability from 0 to 1, got 2",
         function() nn.RNN(3, 4, {dropout = 2}) end)
      refuses("nn.LSTM: proj_size: expected less than hidden_size, which is 4, got 4",
         function() nn.LSTM(3, 4, {proj_size = 4}) end)
      refuses("nn.GRU: unknown option proj_size", function() nn.GRU(3, 4, {proj_size = 2}) end)
      refuses("nn.RNN: nonlinearity: expected tanh or relu, got \"sigmoid\"",
         function() nn.RNN(3, 4, {nonlinearity = "sigmoid"}) end)
      refuses("nn.RNNBase: mode: expected RNN_TANH, RNN_RELU, LSTM or GRU, got \"CNN\"",
         function() nn.RNNBase("CNN", 3, 4) end)
      refuses("nn.GRUCell: hidden_size: expected at least 1, got 0", function() nn.GRUCell(3, 0) end)
   end)

   it("inputs that do not fit", function()
      refuses("nn.GRU: input: expected a tensor of 2 or 3 dimensions, the last of size 3",
         function() nn.GRU(3, 4)(torch.randn(2, 4)) end)
      refuses("nn.GRU: input: expected at least one step", function() nn.GRU(3, 4)(torch.randn(0, 2, 3)) end)
      refuses("nn.GRU: input: expected float32, as weight_ih_l0 is", function() nn.GRU(3, 4)(x:double()) end)
      refuses("nn.GRU: data: expected a packed sequence of rows of size 3",
         function() nn.GRU(3, 4)(R.pack_sequence {torch.randn(2, 2)}) end)
      refuses("nn.LSTMCell: input: expected shape (N, 3) or (3)", function() nn.LSTMCell(3, 4)(x) end)
   end)

   it("states that do not fit", function()
      refuses("nn.LSTM: c0: expected shape (1, 2, 4), got a float32 tensor of shape (1, 2, 3)",
         function() nn.LSTM(3, 4)(x, {torch.zeros(1, 2, 4), torch.zeros(1, 2, 3)}) end)
      refuses("nn.GRU: h0: expected shape (1, 4)", function() nn.GRU(3, 4)(x[1], torch.zeros(1, 2, 4)) end)
      refuses("nn.GRU: h0: expected float32, as the input is",
         function() nn.GRU(3, 4)(x, torch.zeros(1, 2, 4, f64)) end)
      refuses("nn.GRU: expected at most 2 arguments, got 3",
         function() nn.GRU(3, 4)(x, torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)) end)
      refuses("nn.GRU: h0: expected shape (1, 2, 4), got a table",
         function() nn.GRU(3, 4)(x, {torch.zeros(1, 2, 4)}) end)
   end)

   it("a state of an LSTM that is not {h, c}, and say how it is written", function()
      local layer, cell = nn.LSTM(3, 4), nn.LSTMCell(3, 4)
      local h, c = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
      local usage = "; local output, state = lstm(input, state) returns and takes that table"
      local expected = "nn.LSTM: hx: expected {h0, c0}, a table of two tensors, got "
      refuses(expected .. "a float32 tensor of shape (1, 2, 4)" .. usage, function() layer(x, h) end)
      refuses(expected .. "2 arguments" .. usage, function() layer(x, h, c) end)
      refuses(expected .. "2 arguments" .. usage, function() layer(x, nil, c) end)
      refuses(expected .. "a table of 1 with a float32 tensor", function() layer(x, {h}) end)
      refuses(expected .. "a table of 0 with nil first", function() layer(x, {}) end)
      refuses(expected .. "3" .. usage, function() layer(x, 3) end)
      refuses("nn.LSTM: c0: expected shape (1, 2, 4), got a table", function() layer(x, {h, {c}}) end)
      -- This call passes the two parts of the state as if they were separate results. A layer returns the state as one
      -- table.
      refuses(expected, function()
         local _, first, second = layer(x)
         layer(x, {first, second})
      end)
      usage = "; h, c = cell(input, {h, c}) returns two tensors and takes a table of them"
      expected = "nn.LSTMCell: hx: expected {h, c}, a table of two tensors, got "
      refuses(expected .. "a float32 tensor of shape (2, 4)" .. usage, function()
         local state = cell(x[1]) -- `state` is only h, because a cell returns h and c as two results
         cell(x[1], state)
      end)
      refuses(expected .. "2 arguments" .. usage, function() cell(x[1], h[1], c[1]) end)
   end)
end)

describe("torch.lstm and its like refuse", function()
   local x, w, u = torch.randn(2, 2, 3), torch.randn(4, 3), torch.randn(4, 4)
   local hx = torch.zeros(1, 2, 4)

   it("parameters that do not fit", function()
      assert.raises("gru: params: expected 4 tensors for each of 1 layers and directions, got 2 tensors",
         function() torch.gru(x, nil, {w, u}) end)
      assert.raises("rnn_tanh: params[1]: expected shape [4, 3], got [3, 4]",
         function() torch.rnn_tanh(x, nil, {w:t(), u}, false) end)
      assert.raises("lstm: params[2]: expected shape (4 * hidden, out), got [3, 4]",
         function() torch.lstm(x, nil, {w, torch.randn(3, 4)}, false) end)
      assert.raises("rnn_relu: params[2]: expected float32, as the input is, got float64",
         function() torch.rnn_relu(x, nil, {w, u:double()}, false) end)
      assert.raises("gru_cell: b_hh: expected shape [12], got [4]",
         function() torch.gru_cell(x[1], nil, torch.randn(12, 3), torch.randn(12, 4), nil, torch.randn(4)) end)
   end)

   it("inputs and states that do not fit", function()
      assert.raises("rnn_tanh: input: expected 3 dimensions, got [2, 3]",
         function() torch.rnn_tanh(x[1], nil, {w, u}, false) end)
      assert.raises("rnn_tanh: input: expected a floating tensor, got int64",
         function() torch.rnn_tanh(x:long(), nil, {w, u}, false) end)
      assert.raises("rnn_tanh: hx: expected shape [1, 2, 4], got [1, 3, 4]",
         function() torch.rnn_tanh(x, torch.zeros(1, 3, 4), {w, u}, false) end)
      assert.raises("lstm: hx: expected {h, c}, got 1 tensors",
         function() torch.lstm(x, {hx}, {torch.randn(16, 3), torch.randn(16, 4)}, false) end)
      assert.raises("rnn_tanh: num_layers: expected at least 1, got 0",
         function() torch.rnn_tanh(x, nil, {w, u}, false, 0) end)
      assert.raises("rnn_tanh: params: expected 2 tensors or more for each of 4611686018427387904 "
         .. "layers, got 2 tensors", function() torch.rnn_tanh(x, nil, {w, u}, false, 1 << 62) end)
   end)

   it("batch sizes that do not fit", function()
      local function packed(sizes, data)
         return function() torch.rnn_tanh(data or torch.randn(5, 3), torch.tensor(sizes), nil, {w, u}, false) end
      end
      assert.raises("rnn_tanh: batch_sizes[2]: expected a number from 1 to the one before, got 3", packed {2, 3})
      assert.raises("rnn_tanh: batch_sizes[1]: expected a number from 1 to the one before, got 0", packed {0})
      assert.raises("rnn_tanh: data: expected 4 rows, the sum of batch_sizes, got shape [5, 3]", packed {2, 2})
      assert.raises("rnn_tanh: data: expected shape (rows, size), got [2, 2, 3]", packed({2, 2}, x))
   end)
end)

describe("packed sequences", function()
   local a, b, c = torch.tensor {1.0, 2, 3}, torch.tensor {4.0}, torch.tensor {5.0, 6}

   it("have the steps of all samples one after another", function()
      local packed = R.pack_sequence({a, b, c}, false)
      assert.same({1, 5, 4, 2, 6, 3}, packed.data:tolist())
      assert.same({3, 2, 1}, packed.batch_sizes:tolist())
      assert.same({1, 3, 2}, packed.sorted_indices:tolist())
      assert.same({1, 3, 2}, packed.unsorted_indices:tolist())
      assert.equal(torch.device "cpu", packed.batch_sizes.device)
   end)

   it("come back in the order in which they were given", function()
      local list = {a, b, c}
      for i, s in ipairs(R.unpack_sequence(R.pack_sequence(list, false))) do
         assert.is_true(torch.equal(list[i], s))
      end
      local padded, lengths = R.pad_packed_sequence(R.pack_sequence(list, false), true, -1, 4)
      assert.same({{1, 2, 3, -1}, {4, -1, -1, -1}, {5, 6, -1, -1}}, padded:tolist())
      assert.same({3, 1, 2}, lengths:tolist())
   end)

   it("need no indices where the longest come first", function()
      local packed = R.pack_sequence {a, c, b}
      assert.is_nil(packed.sorted_indices)
      assert.same({1, 5, 4, 2, 6, 3}, packed.data:tolist())
      assert.same({{1, 5, 4}, {2, 6, 0}, {3, 0, 0}}, (R.pad_packed_sequence(packed):tolist()))
   end)

   it("are moved and cast together with their indices", function()
      local packed = R.pack_sequence({a, b, c}, false)
      assert.equal("float64", packed:double().data.dtype)
      assert.equal("float16", packed:to("float16").data.dtype)
      assert.equal(packed, packed:to("float32"))
      assert.equal(a.is_cuda, packed.is_cuda)
      assert.is_false(packed:is_pinned())
      local there = packed:to("sim")
      local sim <const> = torch.device "sim:0"
      assert.same({sim, sim, torch.device "cpu"},
         {there.data.device, there.sorted_indices.device, there.batch_sizes.device})
      assert.truthy(tostring(packed):find("PackedSequence(data=tensor", 1, true))
   end)

   it("can be made of their parts", function()
      local sizes = torch.tensor({2, 1}, {device = "cpu"})
      local packed = R.PackedSequence(torch.randn(3, 2), sizes, torch.tensor {2, 1})
      assert.same({2, 1}, packed.unsorted_indices:tolist())
      assert.same({2, 3, 1}, R.invert_permutation(torch.tensor {3, 1, 2}):tolist())
      assert.is_nil(R.invert_permutation(nil))
   end)

   it("of more dimensions keep them", function()
      local x = torch.randn(4, 3, 2, 5)
      local packed = R.pack_padded_sequence(x, torch.tensor {4, 2, 1})
      assert.same({7, 2, 5}, packed.data.shape)
      local padded = R.pad_packed_sequence(packed)
      assert.is_true(torch.equal(x[1], padded[1]))
      assert.equal(0, padded[3][2]:abs():sum():item())
   end)

   it("give the layer's outputs of each sequence alone", function()
      torch.manual_seed(8)
      for _, kind in ipairs(kinds) do
         local layer = nn[kind[1]](3, 4, options_with(kind))
         local list = {torch.randn(2, 3), torch.randn(5, 3), torch.randn(1, 3), torch.randn(5, 3)}
         local output, h = results_of(layer, R.pack_sequence(list, false))
         for i, y in ipairs(R.unpack_sequence(output)) do
            local alone, last = results_of(layer, list[i])
            assert.close(alone, y, 1e-6)
            assert.close(last, h:select(2, i), 1e-6)
         end
      end
   end)

   it("are refused if they do not fit", function()
      local x = torch.randn(4, 2, 3)
      local pack <const> = "nn.utils.rnn.pack_padded_sequence: "
      assert.raises(pack .. "lengths: expected 1 to 4, got 5", function() R.pack_padded_sequence(x, {5, 3}) end)
      assert.raises(pack .. "lengths: expected 1 to 4, got 0", function() R.pack_padded_sequence(x, {4, 0}) end)
      assert.raises(pack .. "lengths: expected 2 integers, one for each sequence",
         function() R.pack_padded_sequence(x, {4}) end)
      assert.raises(pack .. "lengths: expected integers, got 1.5", function() R.pack_padded_sequence(x, {4, 1.5}) end)
      assert.raises(pack .. "lengths: expected the longest first", function() R.pack_padded_sequence(x, {1, 3}) end)
      assert.raises(pack .. "input: expected a tensor that is not empty",
         function() R.pack_padded_sequence(torch.randn(0, 2), {}) end)
      assert.raises("nn.utils.rnn.pad_packed_sequence: sequence: expected a PackedSequence",
         function() R.pad_packed_sequence(x) end)
      assert.raises("nn.utils.rnn.pad_packed_sequence: total_length: expected at least 3",
         function() R.pad_packed_sequence(R.pack_sequence {a}, {total_length = 2}) end)
      assert.raises("nn.utils.rnn.pack_sequence: sequences: expected a list of tensors",
         function() R.pack_sequence {} end)
      assert.raises("nn.utils.rnn.PackedSequence: batch_sizes: expected a tensor on the CPU",
         function() R.PackedSequence(a, torch.tensor {1}:to("sim")) end)
   end)
end)

describe("pad_sequence", function()
   it("pads on either side, to (T, B, ...) or (B, T, ...)", function()
      local list = {torch.tensor {1.0, 2}, torch.tensor {3.0}}
      assert.same({{1, 3}, {2, 0}}, R.pad_sequence(list):tolist())
      assert.same({{1, 2}, {3, -1}}, R.pad_sequence(list, true, -1):tolist())
      assert.same({{1, 2}, {9, 3}}, R.pad_sequence(list, {batch_first = true, padding_value = 9,
         padding_side = "left"}):tolist())
      assert.same({3, 2, 4}, R.pad_sequence({torch.randn(3, 4), torch.randn(1, 4)}).shape)
   end)

   it("is undone by unpad_sequence", function()
      local list = {torch.randn(2, 3), torch.randn(4, 3)}
      for _, first in ipairs {true, false} do
         local back = R.unpad_sequence(R.pad_sequence(list, first), {2, 4}, first)
         for i, s in ipairs(back) do assert.is_true(torch.equal(list[i], s)) end
      end
   end)

   it("has gradients", function()
      local list = {torch.randn(2, f64):requires_grad_(), torch.randn(3, f64):requires_grad_()}
      assert.gradcheck(function(...) return R.pad_sequence {...} end, list)
   end)

   it("refuses sequences that it cannot pad", function()
      assert.raises("nn.utils.rnn.pad_sequence: sequences: expected a list of tensors, each (length, ...)",
         function() R.pad_sequence {3} end)
      assert.raises("nn.utils.rnn.pad_sequence: padding_side: expected right or left, got \"up\"",
         function() R.pad_sequence({torch.randn(2)}, {padding_side = "up"}) end)
      assert.raises("nn.utils.rnn.unpad_sequence: lengths[1]: expected 0 to 2, got 3",
         function() R.unpad_sequence(torch.randn(2, 1), {3}) end)
   end)
end)

-- The sizes are such that the threads share the samples, share the columns, or share neither.
describe("a recurrent layer has the same bits", function()
   local sizes = {{20, 37, 50, 61}, {3, 1, 70, 300}, {4, 3, 30, 260}, {2, 5, 3, 4}}

   local function results(kind, size, lengths, device)
      torch.manual_seed(9)
      local layer = nn[kind[1]](size[3], size[4], options_with(kind))
      local x = torch.randn(size[1], size[2], size[3])
      layer, x = layer:to(device), x:to(device):requires_grad_()
      local input = lengths and R.pack_padded_sequence(x, lengths, false, false) or x
      local output, h, c = results_of(layer, input)
      if lengths then output = output.data end
      local loss = (output * torch.linspace(-1, 1, output:numel(), {device = device}):view_as(output)):sum()
      loss = loss + h:sum()
      if c then loss = loss + (c * c):sum() end
      loss:backward()
      local list = {output, h, x.grad}
      for _, p in ipairs(layer:parameters()) do list[#list + 1] = p.grad end
      for i, t in ipairs(list) do list[i] = t:detach():cpu() end
      return list
   end

   local function agree(expected, actual, what)
      for i, t in ipairs(expected) do assert.is_true(torch.equal(t, actual[i]), what .. ": tensor " .. i) end
   end

   local before = torch.get_num_threads()
   after_each(function() torch.set_num_threads(before) end)

   it("for every number of threads", function()
      for _, kind in ipairs(kinds) do
         for k, size in ipairs(sizes) do
            local lengths
            if k == 1 then
               lengths = {}
               for n = 1, size[2] do lengths[n] = n * 7 % size[1] + 1 end
            end
            torch.set_num_threads(1)
            local expected = results(kind, size, lengths, "cpu")
            for threads = 2, 4 do
               torch.set_num_threads(threads)
               agree(expected, results(kind, size, lengths, "cpu"),
                  ("%s, sizes %d, %d threads"):format(title(kind), k, threads))
            end
         end
      end
   end)

   it("on the simulated device", function()
      for _, kind in ipairs(kinds) do
         for _, lengths in ipairs {false, {2, 3, 1, 3, 3}} do
            local size = {3, 5, 6, 7}
            agree(results(kind, size, lengths, "cpu"), results(kind, size, lengths, "sim"), title(kind))
         end
      end
   end)

   it("whether or not a gradient is recorded", function()
      for _, kind in ipairs(kinds) do
         torch.manual_seed(10)
         local layer, x = nn[kind[1]](5, 6, options_with(kind)), torch.randn(4, 3, 5)
         local recorded = {results_of(layer, x)}
         local plain = {torch.no_grad(function() return results_of(layer, x) end)}
         for i, t in ipairs(recorded) do assert.is_true(torch.equal(t, plain[i]), title(kind)) end
      end
   end)
end)
