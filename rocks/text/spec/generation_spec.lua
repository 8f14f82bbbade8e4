-- Tests torch.text's generation: sampling, stopping, streaming, processors of scores and invalid options.
-- models_spec.lua compares searches with transformers.

local torch = require "tlua"
local processors = require "tlua.text.generation.processors"

local small = {model_type = "gpt2", vocab_size = 12, n_positions = 64, n_embd = 8, n_layer = 1, n_head = 2,
   initializer_range = 0.5}

local function new_model()
   torch.manual_seed(3)
   return torch.text.from_config(small):eval()
end

local prompt = torch.tensor {{2, 5, 7}}

local function message_of(options, ids)
   local ok, message = pcall(function() new_model():generate(ids or prompt, options) end)
   assert.is_false(ok)
   return tostring(message)
end

describe("text.generate", function()
   it("reports scores that are NaN and names the weight, instead of choosing the first token", function()
      local config = {model_type = "gpt2", vocab_size = 50, n_embd = 32, n_layer = 2, n_head = 4}
      local model = torch.text.from_config(config):eval()
      torch.no_grad(function() model.transformer.h[2].mlp.c_fc.weight[{1, 1}] = 0 / 0 end)
      for _, options in ipairs {{}, {do_sample = true}, {num_beams = 3}} do
         options.max_new_tokens, options.eos_token_id = 3, {}
         assert.raises("generate: the scores of the next token are NaN: the weight transformer.h.2.mlp.c_fc.weight",
            function() model:generate(torch.tensor {{1, 2}}, options) end)
      end
      local options = {max_new_tokens = 2, eos_token_id = {}, remove_invalid_values = true}
      assert.same({1, 4}, model:generate(torch.tensor {{1, 2}}, options).shape)
   end)
end)

describe("generate", function()
   it("samples the same tokens from the same generator", function()
      local model = new_model()
      local function draw(seed)
         return model:generate(prompt, {do_sample = true, max_new_tokens = 12, eos_token_id = {},
            num_return_sequences = 3, generator = torch.Generator():manual_seed(seed)}):tolist()
      end
      assert.same(draw(1), draw(1))
      assert.not_same(draw(1), draw(2))
      assert.equal(3, #draw(1))
   end)

   it("samples with the model's probabilities", function()
      local model = new_model()
      local n = 4000
      local ids = model:generate(prompt, {do_sample = true, max_new_tokens = 1, num_return_sequences = n, top_k = 0,
         temperature = 0.7, generator = torch.Generator():manual_seed(5)})
      local counts = torch.bincount(ids:select(2, 4), nil, 12):double() / n
      local expected = (model(prompt).logits[{1, -1}]:detach() / 0.7):softmax(-1):double()
      -- the bound is five standard deviations of a relative frequency
      assert.is_true((counts - expected):abs():max():item() < 5 * (0.25 / n) ^ 0.5)
   end)

   it("stops at the end-of-sequence token, and pads", function()
      local model = new_model()
      local free = model:generate(prompt, {max_new_tokens = 6, eos_token_id = {}})
      local eos = free[{1, 5}]:item()
      local ids = model:generate(torch.cat({prompt, torch.tensor {{1, 1, 1}}}), {max_new_tokens = 6,
         eos_token_id = eos, pad_token_id = 9})
      local first = ids[1]:tolist()
      assert.equal(eos, first[4] == eos and first[4] or first[5])
      for i = 6, #first do assert.equal(9, first[i]) end
   end)

   it("calls the streamer for each token, which can stop it", function()
      local seen = {}
      local ids = new_model():generate(prompt, {max_new_tokens = 10, eos_token_id = {}, streamer = function(tokens)
         seen[#seen + 1] = tokens[1]:item()
         return #seen == 4
      end})
      assert.same({1, 7}, {table.unpack(ids.shape)})
      assert.same(seen, {table.unpack(ids[1]:tolist(), 4)})
   end)

   it("stops at stop strings", function()
      local tokenizer = {decode = function(_, list)
         local letters = {}
         for i, token in ipairs(list) do letters[i] = string.char(96 + token) end
         return table.concat(letters)
      end}
      local model = new_model()
      local free = model:generate(prompt, {max_new_tokens = 8, eos_token_id = {}})[1]:tolist()
      local stop = string.char(96 + free[5], 96 + free[6])
      local ids = model:generate(prompt, {max_new_tokens = 8, eos_token_id = {}, stop_strings = stop,
         tokenizer = tokenizer})
      local made = tokenizer:decode {table.unpack(ids[1]:tolist(), 4)}
      assert.equal(stop, made:sub(-2))
   end)

   it("passes scores to the caller's processors", function()
      local ids = new_model():generate(prompt, {max_new_tokens = 3, eos_token_id = {}, logits_processor = {
         function(all, scores)
            assert.equal(3, all:size(2) < 6 and 3 or 0)
            return scores:masked_fill(torch.arange(1, 13):ne(11), -math.huge)
         end}})
      assert.same({11, 11, 11}, {table.unpack(ids[1]:tolist(), 4)})
   end)

   it("stops at a string whose space a decoder drops at the head of a text", function()
      local model = new_model()
      local first = model:generate(prompt, {max_new_tokens = 1, eos_token_id = {}})[{1, 4}]:item()
      local tokenizer = {}
      function tokenizer:decode(ids)
         assert.equal(tokenizer, self)
         return (" w" .. table.concat(ids, " w")):sub(2)
      end
      local function length(stop)
         return model:generate(prompt, {max_new_tokens = 6, eos_token_id = {}, stop_strings = stop,
            tokenizer = tokenizer}):size(2)
      end
      assert.equal(4, length(" w" .. first))
      -- the prompt ends with token 7, and a stop string that begins in the prompt does not end the text
      assert.equal(9, length "w7 w")
   end)

   it("begins the decoder with its own token, and counts its tokens in max_length", function()
      torch.manual_seed(3)
      local model = torch.text.from_config {model_type = "t5", vocab_size = 12, d_model = 8, d_kv = 4, d_ff = 8,
         num_layers = 1, num_heads = 2, decoder_start_token_id = 0}:eval()
      local function continued(rows, options)
         options.decoder_input_ids, options.eos_token_id = torch.tensor(rows), {}
         return model:generate(prompt, options)
      end
      local ids = continued({{5, 6}}, {max_length = 6})
      assert.same({1, 5, 6}, ids[{1, {1, 3}}]:tolist())
      assert.equal(6, ids:size(2))
      assert.is_true(torch.equal(ids, continued({{1, 5, 6}}, {max_length = 6})))
      assert.same({{1, 5}}, continued({{5}}, {max_new_tokens = 0}):tolist())
      assert.raises("generate: decoder_input_ids: expected token numbers of shape (1, length), got an int64 tensor of "
         .. "shape (2, 1)", function() continued({{5}, {6}}, {}) end)
      assert.match("decoder_input_ids: expected none with a model without an encoder",
         message_of {decoder_input_ids = prompt})
   end)

   it("takes forbidden tokens and numbers of sequences from generation_config.json", function()
      local model = new_model()
      local first = model:generate(prompt, {max_new_tokens = 1, eos_token_id = {}})[{1, 4}]:item()
      for _, own in ipairs {{suppress_tokens = {first - 1}}, {bad_words_ids = {{first - 1}}}} do
         model.generation_config = own
         assert.not_equal(first, model:generate(prompt, {max_new_tokens = 1, eos_token_id = {}})[{1, 4}]:item())
      end
      model.generation_config = {num_return_sequences = 2, num_beams = 3}
      assert.equal(2, model:generate(prompt, {max_new_tokens = 1, eos_token_id = {}}):size(1))
      model.generation_config = {min_new_tokens = 2, eos_token_id = first - 1}
      assert.equal(5, model:generate(prompt, {max_new_tokens = 2}):size(2))
   end)

   it("takes the fields of generation_config.json that transformers has, and refuses others by name", function()
      local model = new_model()
      local function made(own, options)
         options = options or {}
         options.max_new_tokens, options.eos_token_id = options.max_new_tokens or 1, options.eos_token_id or {}
         model.generation_config = own
         return model:generate(prompt, options)[1]:tolist()
      end
      local first = made({})[4]
      assert.not_equal(first, made({begin_suppress_tokens = {first - 1}})[4])
      assert.equal(6, made({sequence_bias = {{{5}, 1e4}}})[4])
      -- the prompt ends with token 7, which has the number 6 in files
      assert.equal(6, made({sequence_bias = {{{6, 5}, 1e4}}})[4])
      for _, token in ipairs {2, 5, 7} do
         assert.not_equal(token, made({encoder_no_repeat_ngram_size = 1, sequence_bias = {{{token - 1}, 1e4}}})[4])
      end
      local scores = select(2, model:generate(prompt, {max_new_tokens = 1, renormalize_logits = true,
         return_scores = true, eos_token_id = {}}))
      assert.is_true(math.abs(scores[1]:exp():sum():item() - 1) < 1e-5)
      assert.same(made({}), made({forced_decoder_ids = {}, guidance_scale = 1.0, num_beam_groups = 1, chat_format = "x",
         output_scores = true}))
      for text, own in pairs {
         ["field forced_decoder_ids = [[1,2]] is not supported"] = {forced_decoder_ids = {{1, 2}}},
         ["field guidance_scale = 1.5 is not supported"] = {guidance_scale = 1.5},
         ["field diversity_penalty = 0.5 is not supported"] = {diversity_penalty = 0.5},
         ["top_k: expected an integer of at least 0, got \"many\""] = {top_k = "many"},
         ["begin_suppress_tokens: expected a list of token numbers"] = {begin_suppress_tokens = {50}},
         ["forced_eos_token_id: expected a token that is not in suppress_tokens, got 4"] =
            {forced_eos_token_id = 3, suppress_tokens = {3}},
      } do
         assert.is_truthy(select(2, pcall(made, own)):find(text, 1, true), text)
      end
   end)

   it("restores the mode of each module", function()
      local model = new_model():train()
      model.transformer.h[1].attn:eval()
      model:generate(prompt, {max_new_tokens = 1})
      assert.is_true(model.training)
      assert.is_false(model.transformer.h[1].attn.training)
      assert.is_true(model.transformer.h[1].mlp.training)
      assert.has_error(function()
         model:generate(prompt, {max_new_tokens = 1, logits_processor = {function() error "stop" end}})
      end)
      assert.is_false(model.transformer.h[1].attn.training)
      assert.is_true(model.training)
   end)

   it("raises errors for invalid options", function()
      local function with_processor(result)
         return message_of {logits_processor = {function(_, scores) return scores end, function() return result end}}
      end
      assert.match("generate: logits_processor, function 2: expected scores of shape %(1, 12%), got nil",
         with_processor(nil))
      assert.match("function 2: expected scores of shape %(1, 12%), got a float32 tensor",
         with_processor(torch.ones(1)))
      assert.match("sequence_bias: expected a list of pairs", message_of {sequence_bias = {[5] = 1.0}})
      assert.match("sequence_bias: expected pairs of a list", message_of {sequence_bias = {{{5}, 0 / 0}}})
      assert.match("suppress_tokens: expected a list of token numbers", message_of {suppress_tokens = {[5] = true}})
      assert.match("generation_spec.lua:%d+: generate: unknown option max_tokens", message_of {max_tokens = 3})
      assert.match("temperature: expected a positive number, got 0", message_of {temperature = 0.0})
      assert.match("max_new_tokens: expected an integer of at least 0", message_of {max_new_tokens = 1.5})
      assert.match("num_return_sequences: expected at most num_beams = 2", message_of {num_beams = 2,
         num_return_sequences = 3})
      assert.match("early_stopping: expected true, false or \"never\"", message_of {early_stopping = "always"})
      assert.match("tokenizer: expected a tokenizer", message_of {stop_strings = "a"})
      assert.match("input_ids: expected token numbers of shape %(batch, length%)", message_of({}, torch.tensor {1}))
      assert.match("attention_mask: expected a tensor of shape %(1, 3%)",
         message_of {attention_mask = torch.ones(1, 2)})
      assert.match("expected padding on the left", message_of {attention_mask = torch.tensor {{1, 1, 0}}})
      for _, words in ipairs {{{}}, {{13}}, {5}, {{0}}} do
         assert.match("bad_words_ids: expected a list of token numbers from 1 to 12",
            message_of {bad_words_ids = words})
      end
      assert.match("bad_words_ids: expected a list of lists of tokens, got 5", message_of {bad_words_ids = 5})
      assert.match("suppress_tokens: expected a list of token numbers from 1 to 12",
         message_of {suppress_tokens = {13}})
      assert.match("forced_eos_token_id: expected a list of token numbers", message_of {forced_eos_token_id = 1.5})
      local model = new_model()
      model.generation_config = {eos_token_id = {1.5}}
      assert.match("eos_token_id: expected token numbers from 1, got 1.5",
         select(2, pcall(model.generate, model, prompt)))
      assert.match("GPT2Model cannot generate", select(2, pcall(function()
         torch.text.from_config(small, {architecture = "GPT2Model"}):generate(prompt)
      end)))
   end)
end)

describe("text.Cache", function()
   it("allocates memory for the tokens, not for a whole window", function()
      local cache, all = torch.text.Cache(), {}
      for i = 1, 300 do
         local key = torch.full({1, 1, 1, 2}, i)
         all[i] = i
         local keys, values = cache:update(1, key, -key, 1 << 20)
         assert.same(all, keys:select(4, 1):flatten():tolist())
         assert.is_true(torch.equal(keys, -values))
      end
      assert.is_true(cache.layers[1].buffers[1]:size(3) < 2000)
   end)
end)

-- The expected values are those of transformers' classes for these scores.
describe("processors", function()
   local scores = torch.tensor {{1.0, 3.0, -2.0, 0.5, 2.0}}
   local ids = torch.tensor {{2, 3, 2}}
   local none = -math.huge

   local function check(expected, process)
      assert.same(expected, process(ids, scores)[1]:tolist())
   end

   it("change scores as transformers' classes do", function()
      check({1, 1.5, -4, 0.5, 2}, processors.repetition_penalty(2.0))
      check({1, 1.5, -2, 0.5, 2}, processors.repetition_penalty(2.0, torch.tensor {2}))
      check({1, 3, none, 0.5, 2}, processors.no_repeat_ngram_size(2))
      check({none, 3, none, 0.5, 2}, processors.bad_words_ids {{1}, {2, 3}, {1, 5}})
      check({1, none, -2, 0.5, 2}, processors.min_length(4, {2}))
      check({1, 3, -2, 0.5, 2}, processors.min_length(3, {2}))
      check({2, 6, -4, 1, 4}, processors.temperature(0.5))
      check({none, 3, none, none, 2}, processors.top_k(2))
      check({none, 3, none, none, 2}, processors.top_p(0.8))
      check({none, 3, none, none, none}, processors.top_p(0.1))
      check({1, 3, none, none, 2}, processors.min_p(0.1))
      check({none, 3, none, none, 2}, processors.typical_p(0.3))
      check({1, 3, none, 0.5, 2}, processors.typical_p(0.95))
      check({none, none, none, none, 0}, processors.forced(3, {5}))
      check({3.5, 3, -2, 8.5, 1},
         processors.sequence_bias {{{1}, 2.5}, {{3, 2, 5}, -1.0}, {{2, 3, 2, 4}, 8.0}, {{1, 2, 4}, 9.0}})
      check({1, none, -2, 0.5, none}, processors.begin_suppress_tokens({2, 5}, 3))
      check({1, 3, -2, 0.5, 2}, processors.begin_suppress_tokens({2, 5}, 2))
      check({1, 3, -1, 0.5, 3}, processors.exponential_decay_length_penalty(2, 1.5, {3, 5}))
      check({1, 3, -2, 0.5, 2}, processors.exponential_decay_length_penalty(3, 1.5, {3, 5}))
      check({none, 3, none, none, 2}, processors.epsilon_cutoff(0.1))
      check({none, 3, none, none, 2}, processors.epsilon_cutoff(0.9, 2))
      check({none, 3, none, none, 2}, processors.eta_cutoff(0.1))
      check({none, 3, none, none, none}, processors.eta_cutoff(0.7))
      check({none, 3, none, none, none}, processors.top_h(0.6))
      check({1, 3, none, none, 2}, processors.top_h(0.9))
      check({1, 3, -2, 0.5, 2}, processors.top_h(1.0))
      check({1, 3, none, none, 2}, processors.top_k(1, 3))
      check({1, 3, none, none, 2}, processors.top_p(0.1, 3))
      check({none, 3, none, none, 2}, processors.min_p(0.9, 2))
      check({1, 3, none, none, 2}, processors.typical_p(0.3, 3))
      local gaps = torch.tensor {{1.0, none, -2.0, 0.5, 2.0}}
      assert.same({1, none, none, none, 2}, processors.eta_cutoff(0.2)(ids, gaps)[1]:tolist())
      assert.same({1, none, none, none, 2}, processors.top_h(0.7)(ids, gaps)[1]:tolist())
      local finite = processors.remove_invalid_values()(ids, torch.tensor {{0 / 0, 1 / 0, -1 / 0, 1}})[1]:tolist()
      assert.same({0, torch.finfo("float32").max, torch.finfo("float32").min, 1}, finite)
      assert.is_true(torch.allclose(torch.tensor {{-2.465015, -0.465015, -5.465015, -2.965015, -1.465015}},
         processors.renormalize_logits()(ids, scores)))
   end)

   it("know the tokens of the source as transformers' classes do", function()
      local source = torch.tensor {{2, 4, 3}}
      check({1, 6, -1, 1, 2}, processors.encoder_repetition_penalty(2.0, source))
      check({1, 3, -2, none, 2}, processors.encoder_no_repeat_ngram_size(2, source))
      check({1, none, none, none, 2}, processors.encoder_no_repeat_ngram_size(1, source))
      check({none, 3, -2, 0.5, none}, processors.encoder_no_repeat_ngram_size(3, torch.tensor {{3, 2, 1, 3, 2, 5}}))
      local two = processors.encoder_no_repeat_ngram_size(1, torch.tensor {{1, 1}, {2, 2}})
      local result = two(ids:repeat_interleave(4, 1), scores:repeat_interleave(4, 1)):eq(none)
      assert.same({1, 1, 2, 2}, result:long():argmax(2):tolist())
   end)
end)
