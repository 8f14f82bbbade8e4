-- Tests torch.audio.models' Emformer and transducers. torchaudio's state dicts must load unchanged, and outputs,
-- gradients, streams and hypotheses must equal torchaudio's, which fixtures/rnnt.py has recorded.

local torch = require "tlua"
local device = require "spec.support.device"

local models = torch.audio.models
local saved = torch.load "rocks/audio/spec/fixtures/rnnt.pt"

local function moved(x) return x:to(device.name or "cpu") end

local function difference(expected, actual)
   assert.same({table.unpack(expected.shape)}, {table.unpack(actual.shape)})
   return (expected - actual:detach():cpu()):abs():max():item() / math.max(0.05, expected:abs():max():item())
end

local function loaded(model, state)
   model:load_state_dict(state, {names = "pytorch"})
   return model:to(device.name or "cpu"):eval()
end

local function check_gradients(model, y, expected)
   local weight = torch.cos(torch.arange(y:numel(), {device = device.name}):float()):view(y.shape);
   (y * weight):sum():backward()
   local seen, wanted = 0, 0
   for key, parameter in model:named_parameters() do
      -- PyTorch counts layers from 0.
      local theirs = key:gsub("%.(%d+)%f[.]", function(n) return "." .. math.tointeger(n) - 1 end)
      if expected[theirs] then
         seen = seen + 1
         assert.is_true(difference(expected[theirs], parameter.grad) < 1e-3, key)
      end
   end
   for _ in pairs(expected) do wanted = wanted + 1 end
   assert.equal(wanted, seen)
end

describe("audio.models.Emformer", function()
   for name, row in pairs(saved.emformers) do
      local function new()
         local options = {}
         for key, value in pairs(row.options) do options[key] = value end
         return loaded(models.Emformer(8, 2, 12, 2, 4, options), row.state)
      end

      it("has torchaudio's outputs and gradients: " .. name, function()
         local model, input = new(), moved(row.input)
         for _, case in ipairs(row.cases) do
            local lengths = moved(case[1])
            local y, sizes = model(input:narrow(1, 1, lengths:size(1)), lengths)
            assert.is_true(difference(case[2], y) < 1e-5)
            assert.same(case[1]:tolist(), sizes:tolist())
         end
         check_gradients(model, (model(input, moved(torch.tensor {10, 7}))), row.grads)
      end)

      it("encodes streams as torchaudio does: " .. name, function()
         local model, long, states = new(), moved(row.long), nil
         local piece = row.long:size(2) - 16
         for i, case in ipairs(row.stream) do
            local y, sizes
            y, sizes, states = model:infer(long:narrow(2, 4 * i - 3, piece), moved(case[1]), states)
            assert.is_true(difference(case[2], y) < 1e-5, i)
            assert.same(case[3]:tolist(), sizes:tolist())
         end
      end)
   end

   it("does not change the states that it is given", function()
      local model = models.Emformer(8, 2, 12, 1, 4, {left_context_length = 3, max_memory_size = 2}):eval()
      local x, lengths = torch.randn(1, 4, 8), torch.tensor {4}
      local _, _, states = model:infer(x, lengths)
      local first = model:infer(x, lengths, states)
      assert.is_true(torch.equal(first, (model:infer(x, lengths, states))))
   end)

   it("refuses nonsense", function()
      local function refused(message, ...)
         local call = table.pack(...)
         assert.raises("audio.models.Emformer" .. message, function()
            call[1](table.unpack(call, 2, call.n))
         end)
      end
      refused(": num_heads: expected a divisor of input_dim, 8, got 3", models.Emformer, 8, 3, 12, 1, 4)
      refused(': activation: expected "gelu" or "relu" or "silu", got "tanh"', models.Emformer, 8, 2, 12, 1, 4,
         {activation = "tanh"})
      refused(": left_context_length: expected at least 0, got -1", models.Emformer, 8, 2, 12, 1, 4,
         {left_context_length = -1})
      local model = models.Emformer(8, 2, 12, 1, 4, {right_context_length = 2})
      refused(": input: expected a tensor of shape (batch, more than 2, 8), got a float32 tensor of shape (1, 2, 8)",
         model, torch.zeros(1, 2, 8), torch.tensor {1})
      refused(": lengths: expected integers of shape (1), got a float32 tensor", model, torch.zeros(1, 6, 8),
         torch.ones(1))
      refused(": lengths: expected numbers from 0 to 4, got 6", model, torch.zeros(1, 6, 8), torch.tensor {6})
      refused(":infer: input: expected 6 frames, a segment and its right context, got a float32 tensor", model.infer,
         model, torch.zeros(1, 5, 8), torch.tensor {5})
      refused(":infer: states: expected the states that infer has returned, got a table", model.infer, model,
         torch.zeros(1, 6, 8), torch.tensor {6}, {})
   end)
end)

describe("audio.models.RNNT", function()
   for name, row in pairs(saved.transducers) do
      local function new()
         return loaded(models.emformer_rnnt_model(row.options), row.state)
      end

      it("has torchaudio's outputs and gradients: " .. name, function()
         local model = new()
         local y, sources, targets, state = model(moved(row.input), moved(row.lengths), moved(row.targets) + 1,
            moved(row.sizes))
         assert.is_true(difference(row.output, y) < 1e-5)
         assert.same(row.source_lengths:tolist(), sources:tolist())
         assert.same(row.sizes:tolist(), targets:tolist())
         for i = 1, 2 do assert.is_true(difference(row.predictor[i], state[2][i]) < 1e-5) end
         check_gradients(model, y, row.grads)
      end)

      it("finds torchaudio's hypotheses by beam search, at once and in streams: " .. name, function()
         local model = new()
         torch.no_grad(function()
            for _, p in ipairs(model.joiner:parameters()) do p:mul_(row.scale) end
         end)
         local function check(expected, found)
            assert.equal(#expected, #found)
            for i, item in ipairs(expected) do
               assert.same((torch.tensor(item[1]) + 1):tolist(), found[i].tokens)
               assert.is_true(math.abs(item[2] - found[i].score) < 1e-4 * math.max(1, math.abs(item[2])))
            end
         end
         local input = moved(row.input)[1]
         for i, case in ipairs(row.searches) do
            local width, temperature, most, expected = table.unpack(case)
            local search = models.RNNTBeamSearch(model, 7, {temperature = temperature, step_max_tokens = most})
            check(expected, search(input, row.lengths[1], width))
            local state, found
            for k, step in ipairs(row.streams[i]) do
               found, state = search:infer(input:narrow(1, 8 * k - 7, 12), 12, width, state, found)
               check(step, found)
            end
         end
      end)
   end

   it("learns tokens by rnnt_loss, and then finds them", function()
      torch.manual_seed(4)
      local model = models.emformer_rnnt_model {input_dim = 4, encoding_dim = 16, num_symbols = 4, segment_length = 4,
         right_context_length = 2, time_reduction_input_dim = 8, time_reduction_stride = 2, transformer_num_heads = 2,
         transformer_ffn_dim = 16, transformer_num_layers = 1, symbol_embedding_dim = 8, num_lstm_layers = 1,
         lstm_layer_norm = true}
      local adam = torch.optim.Adam(model:parameters(), {lr = 0.02})
      local x, targets = torch.randn(2, 14, 4), torch.tensor {{1, 3, 2}, {2, 2, 1}}
      local lengths, sizes = torch.tensor {12, 12}, torch.tensor {3, 3}
      local started = torch.cat({torch.full({2, 1}, 4, {dtype = "int64"}), targets}, 2)
      for _ = 1, 60 do
         adam:zero_grad()
         local y, frames = model(x, lengths, started, sizes + 1)
         local loss = torch.audio.functional.rnnt_loss(y, targets:int(), frames:int(), sizes:int(), 4)
         loss:backward()
         adam:step()
      end
      local search = models.RNNTBeamSearch(model:eval(), 4, {step_max_tokens = 4})
      for i = 1, 2 do assert.same(started[i]:tolist(), search(x[i], 12, 4)[1].tokens) end
   end)

   it("builds torchaudio's basic model", function()
      local n = 0
      for _, p in ipairs(models.emformer_rnnt_base(4097):parameters()) do n = n + p:numel() end
      assert.equal(76738049, n)
   end)

   it("refuses nonsense", function()
      local row = saved.transducers.normed
      local model = models.emformer_rnnt_model(row.options)
      local x, lengths, sizes = moved(row.input), moved(row.lengths), moved(row.sizes)
      assert.raises("audio.models.RNNT: targets: expected tokens from 1 to 7 of shape (batch, length), got an int64",
         function() model(x, lengths, moved(row.targets) * 0, sizes) end)
      assert.raises("audio.models.RNNT: sources: expected a tensor of shape (batch, time, 6), got a float32 tensor",
         function() model(torch.zeros(2, 12, 5), lengths, row.targets + 1, sizes) end)
      assert.raises("audio.models.RNNT: sources: expected at least 2 frames", function()
         model(torch.zeros(2, 1, 6), lengths, row.targets + 1, sizes)
      end)
      assert.raises("audio.models.RNNTBeamSearch: blank: expected the last token, 7, got 1", function()
         models.RNNTBeamSearch(model, 1)
      end)
      local search = models.RNNTBeamSearch(model, 7)
      assert.raises("audio.models.RNNTBeamSearch: beam_width: expected a positive integer, got 0", function()
         search(x[1], 16, 0)
      end)
      assert.raises("audio.models.RNNTBeamSearch: input: expected a tensor of shape (time, features)", function()
         search(x, 16, 1)
      end)
      local options = {}
      for key, value in pairs(row.options) do options[key] = value end
      options.segment_length = 7
      assert.raises("segment_length: expected a multiple of time_reduction_stride, 2, got 7", function()
         models.emformer_rnnt_model(options)
      end)
   end)
end)
