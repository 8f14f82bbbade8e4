-- Tests torch.audio.models. torchaudio's state dicts must load unchanged, and outputs and gradients must equal
-- torchaudio's, which fixtures/models.py has recorded.

local torch = require "tlua"
local device = require "spec.support.device"

local models = torch.audio.models
local saved = torch.load "rocks/audio/spec/fixtures/models.pt"

local makers <const> = {
   DeepSpeech = function() return models.DeepSpeech(5, 8, 7) end,
   ConvTasNet = function() return models.ConvTasNet(2, 5, 6, 3, 4, 5, 2, 2) end,
   Conformer = function() return models.Conformer(8, 2, 10, 2, 3) end,
   Conformer_first = function()
      return models.Conformer(8, 2, 10, 1, 5, {use_group_norm = true, convolution_first = true})
   end,
   wav2vec2 = function()
      return models.wav2vec2_model {extractor_conv_layer_config = {{6, 10, 5}, {6, 3, 2}}, encoder_embed_dim = 8,
         encoder_projection_dropout = 0.0, encoder_pos_conv_kernel = 4, encoder_pos_conv_groups = 2,
         encoder_num_layers = 2, encoder_num_heads = 2, encoder_attention_dropout = 0.0,
         encoder_ff_interm_features = 12, encoder_ff_interm_dropout = 0.0, encoder_dropout = 0.0,
         encoder_layer_drop = 0.0, aux_num_out = 5}
   end,
   wav2vec2_first = function()
      return models.wav2vec2_model {extractor_mode = "layer_norm", extractor_conv_bias = true,
         extractor_conv_layer_config = {{6, 10, 5}, {6, 3, 2}}, encoder_embed_dim = 8,
         encoder_projection_dropout = 0.0, encoder_pos_conv_kernel = 5, encoder_pos_conv_groups = 2,
         encoder_num_layers = 2, encoder_num_heads = 2, encoder_attention_dropout = 0.0,
         encoder_ff_interm_features = 12, encoder_ff_interm_dropout = 0.0, encoder_dropout = 0.0,
         encoder_layer_drop = 0.0, encoder_layer_norm_first = true}
   end,
}

local function difference(expected, actual)
   assert.same({table.unpack(expected.shape)}, {table.unpack(actual.shape)})
   return (expected - actual:detach():cpu()):abs():max():item() / math.max(0.05, expected:abs():max():item())
end

describe("audio.models", function()
   for name, make in pairs(makers) do
      it("has torchaudio's numbers: " .. name, function()
         local case, model = saved[name], make()
         -- The state was saved after a step in training mode, so that its statistics of batch norm are not the initial
         -- ones.
         model:load_state_dict(case.state, {names = "pytorch"})
         model:to(device.name or "cpu")
         local inputs = {}
         for i, x in ipairs(case.inputs) do inputs[i] = x:to(device.name or "cpu") end
         local before = {}
         for key in pairs(case.state) do before[#before + 1] = key end
         local count = 0
         for _ in pairs(model:state_dict {names = "pytorch"}) do count = count + 1 end
         assert.equal(#before, count)
         model:eval()
         assert.is_true(difference(case.eval, (model(table.unpack(inputs)))) < 1e-4)
         model:train()
         local y = model(table.unpack(inputs))
         assert.is_true(difference(case.train, y) < 1e-4)
         local weight = torch.cos(torch.arange(y:numel(), {device = device.name}):float()):view(y.shape);
         (y * weight):sum():backward()
         local seen = 0
         for key, parameter in model:named_parameters() do
            -- PyTorch counts layers from 0.
            local theirs = key:gsub("%.(%d+)%f[.]", function(n) return "." .. math.tointeger(n) - 1 end)
            if case.grads[theirs] then
               seen = seen + 1
               assert.is_true(difference(case.grads[theirs], parameter.grad) < 2e-3, key)
            end
         end
         local expected = 0
         for _ in pairs(case.grads) do expected = expected + 1 end
         assert.equal(expected, seen)
      end)
   end

   it("refuses nonsense", function()
      assert.raises("audio.models.Conformer: depthwise_conv_kernel_size: expected an odd number, got 4",
         function() models.Conformer(8, 2, 10, 1, 4) end)
      assert.raises("audio.models.ConvTasNet: input: expected a tensor of shape (batch, 1, time), got a float32",
         function() models.conv_tasnet_base()(torch.zeros(1, 2, 100)) end)
      local wav2vec2, conformer = makers.wav2vec2(), makers.Conformer()
      assert.raises("audio.models.Wav2Vec2Model: lengths: expected numbers from 0 to 400, got 900",
         function() wav2vec2(torch.randn(1, 400), torch.tensor {900}) end)
      assert.raises("audio.models.Wav2Vec2Model: waveforms: expected floating-point numbers of shape (batch, time)",
         function() wav2vec2(torch.zeros(1, 400):int()) end)
      assert.raises("audio.models.Conformer: lengths: expected numbers from 0 to 6, got -4",
         function() conformer(torch.randn(2, 6, 8), torch.tensor {6, -4}) end)
      assert.raises("audio.models.Conformer: input: expected a tensor of shape (batch, at least 1, 8), got a float32",
         function() conformer(torch.randn(2, 0, 8), torch.tensor {0, 0}) end)
      assert.raises('audio.models.Wav2Letter: input_type: expected "waveform", "power_spectrum" or "mfcc", got "mp3"',
         function() models.Wav2Letter(40, "mp3") end)
      assert.raises("audio.models.ConvTasNet: msk_kernel_size: expected 3, got 5",
         function() models.ConvTasNet {msk_kernel_size = 5} end)
      assert.raises("audio.models.Emformer: num_heads: expected a divisor of input_dim, 8, got 0",
         function() models.Emformer(8, 0, 8, 1, 4) end)
      assert.raises("audio.models.wav2vec2_model: extractor_conv_layer_config: expected a list of",
         function() models.wav2vec2_model {extractor_conv_layer_config = {}} end)
      assert.raises("audio.models.wav2vec2_model: extractor_conv_layer_config[2]: expected {channels, kernel, stride}, "
         .. "three integers of at least 1, got 2",
         function() models.wav2vec2_model {extractor_conv_layer_config = {{8, 4, 2}, 2}} end)
      assert.raises("audio.models.wav2vec2_model: encoder_layer_drop: expected a probability from 0 to 1, got 5",
         function() models.wav2vec2_model {encoder_layer_drop = 5} end)
   end)
end)

describe("audio.models.Whisper", function()
   local case = torch.load "rocks/audio/spec/fixtures/whisper.pt"
   local model = models.Whisper {d_model = 16, vocab_size = 30, encoder_layers = 2, decoder_layers = 2,
      encoder_attention_heads = 2, decoder_attention_heads = 4, encoder_ffn_dim = 24, decoder_ffn_dim = 20,
      num_mel_bins = 8, max_source_positions = 10, max_target_positions = 16}
   model:load_state_dict(case.state, {names = "pytorch"})
   model:to(device.name or "cpu")
   local features = case.features:to(device.name or "cpu")

   it("has the logits of Hugging Face's transformers", function()
      assert.is_true(difference(case.logits, model(features, (case.tokens + 1):to(device.name or "cpu"))) < 1e-4)
   end)

   it("generates its greedy tokens, with remembered keys and values", function()
      local tokens = model:generate(features:narrow(1, 1, 1), {2, 6}, 3, 12)
      assert.same((case.greedy + 1):tolist(), tokens)
   end)

   it("makes its features", function()
      local made = models.whisper_features(case.wave:to(device.name or "cpu"))
      assert.same({1, 80, 3000}, {table.unpack(made.shape)})
      assert.is_true(difference(case.made, made:narrow(3, 1, 40)) < 1e-4)
   end)

   it("can be exported, takes tokens as a tensor, and computes shapes on the device meta", function()
      local tokens = (case.tokens + 1):to(device.name or "cpu")
      local logits = model(features, tokens)
      assert.is_true(difference(logits:cpu(), torch.export(model, {features, tokens})(features, tokens)) < 1e-4)
      local one = features:narrow(1, 1, 1)
      assert.same(model:generate(one, {2, 3}, 5, 2), model:generate(one, torch.tensor {2, 3}, 5, 2))
      local shadow = models.Whisper(model.config):to "meta"
      assert.same(logits.shape, shadow(features:to "meta", tokens:to "meta").shape)
   end)

   it("refuses nonsense", function()
      assert.raises("audio.models.Whisper: features: expected a tensor of shape (batch, 8, 20), got a float32 tensor",
         function() model(torch.zeros(1, 8, 10), torch.ones(1, 1)) end)
      assert.raises("audio.models.whisper_features: sample_rate: expected 16000 samples per second",
         "got 44100", function() models.whisper_features(torch.zeros(1, 10), 44100) end)
      assert.raises("audio.models.Whisper: encoder_attention_heads: expected a divisor of d_model, 384, got 5",
         function() models.Whisper {encoder_attention_heads = 5} end)
      local one = features:narrow(1, 1, 1)
      for message, arguments in pairs {
         ["tokens[2]: expected a token from 1 to 30, got 31"] = {one, {2, 31}, 3},
         ["tokens[2]: expected an integer, got \"x\""] = {one, {2, "x"}, 3},
         ["tokens is missing"] = {one},
         ["tokens: expected a list or a tensor of integers, got 2"] = {one, 2, 3},
         ["eos is missing"] = {one, {2}},
         ["max_new_tokens: expected an integer of at least 0, got -1"] = {one, {2}, 3, -1},
         ["features: expected the features of one waveform"] = {torch.cat {one, one}, {2}, 3},
      } do
         assert.raises("audio.models.Whisper.generate: " .. message,
            function() model:generate(table.unpack(arguments)) end)
      end
      assert.raises("audio.models.Whisper: tokens: expected integers of shape (1, 1 to 16), got nil",
         function() model(one) end)
      assert.raises("audio.models.Whisper: tokens: expected integers of shape (1, 1 to 16), got an int64 tensor",
         function() model(one, torch.ones(1, 17, {dtype = "int64"})) end)
   end)
end)
