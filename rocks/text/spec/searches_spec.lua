-- Tests two searches of torch.text: assisted generation and contrastive search. models_spec.lua tests the others.

local torch = require "tlua"
local json = require "tlua.utils.json"
local waves = dofile "rocks/text/spec/waves.lua"

local function read_rows()
   local file <close> = assert(io.open "rocks/text/spec/fixtures/models.json")
   return assert(json.decode(file:read "a"))
end

-- The token numbers, counted from 0, that fixtures/contrastive.py prints. Each case has the name of a model in
-- models.json, penalty_alpha, top_k and no_repeat_ngram_size, followed by the expected tokens of each prompt.
local expected_tokens <const> = {
   {"gpt2", 0.6, 4, 0,
      {{25, 17, 30, 14, 28, 4, 8, 26, 14, 34, 17, 29, 2, 36, 36, 36, 36, 36, 36},
      {3, 23, 15, 7, 8, 19, 9, 3, 24, 22, 15, 6, 30, 15, 3, 30, 32, 21, 7}}},
   {"gpt2", 0.9, 6, 2,
      {{25, 17, 30, 14, 28, 4, 8, 26, 14, 34, 25, 29, 2},
      {3, 23, 15, 7, 8, 19, 9, 3, 24, 30, 23, 2, 36}}},
   {"llama2", 0.6, 4, 0,
      {{25, 17, 30, 14, 28, 4, 8, 26, 14, 21, 4, 14, 13, 12, 2, 36, 36, 36, 36},
      {3, 23, 15, 7, 8, 19, 9, 3, 24, 16, 6, 32, 30, 35, 11, 34, 1, 3, 20}}},
   {"llama2", 0.9, 6, 2,
      {{25, 17, 30, 14, 28, 4, 8, 26, 14, 21, 26, 0, 26, 31, 16, 10, 25, 21, 35},
      {3, 23, 15, 7, 8, 19, 9, 3, 24, 18, 30, 17, 14, 21, 6, 23, 2, 36, 36}}},
   {"qwen2", 0.6, 4, 0,
      {{25, 17, 30, 14, 28, 4, 8, 26, 14, 15, 5, 24, 9, 19, 2, 36, 36, 36, 36},
      {3, 23, 15, 7, 8, 19, 9, 3, 24, 7, 17, 9, 19, 9, 19, 4, 3, 29, 27}}},
   {"qwen2", 0.9, 6, 2,
      {{25, 17, 30, 14, 28, 4, 8, 26, 14, 15, 5, 24, 18, 32, 3, 9, 19, 24, 7},
      {3, 23, 15, 7, 8, 19, 9, 3, 24, 7, 17, 18, 23, 32, 3, 7, 26, 11, 14}}},
   {"t5", 0.6, 4, 0,
      {{0, 6, 1, 30, 26, 34, 34, 22, 9, 26, 30},
      {0, 35, 36, 3, 32, 11, 36, 36, 36, 7, 3}}},
   {"t5", 0.9, 6, 2,
      {{0, 6, 1, 30, 22, 17, 26, 34, 18, 5, 14},
      {0, 35, 36, 28, 3, 32, 15, 24, 7, 36, 32}}},
   {"bart", 0.6, 4, 0,
      {{2, 12, 25, 25, 25, 25, 25, 25, 25, 25, 2},
      {2, 25, 25, 25, 25, 24, 24, 25, 25, 25, 2}}},
   {"bart", 0.9, 6, 2,
      {{2, 12, 25, 24, 8, 7, 7, 23, 25, 12, 2},
      {2, 24, 8, 26, 24, 7, 6, 6, 25, 26, 2}}},
}

local prompt = torch.tensor {{1, 1, 4, 7, 9, 4, 5}}
local padding = torch.tensor {{0, 0, 1, 1, 1, 1, 1}}

local families = {
   gpt2 = {n_embd = 16, n_layer = 2, n_head = 2, n_positions = 64},
   mistral = {hidden_size = 16, intermediate_size = 20, num_attention_heads = 4, num_key_value_heads = 2,
      num_hidden_layers = 2, sliding_window = 4},
   t5 = {d_model = 16, d_kv = 4, d_ff = 24, num_layers = 2, num_heads = 4, decoder_start_token_id = 0,
      pad_token_id = 0},
   bart = {d_model = 16, encoder_layers = 2, decoder_layers = 2, encoder_attention_heads = 4,
      decoder_attention_heads = 4, encoder_ffn_dim = 24, decoder_ffn_dim = 24, max_position_embeddings = 64,
      decoder_start_token_id = 2},
}

local function new_model(kind, seed, vocabulary)
   local config = {model_type = kind, vocab_size = vocabulary or 30, initializer_range = 0.3}
   for key, value in pairs(families[kind]) do config[key] = value end
   torch.manual_seed(seed)
   return torch.text.from_config(config):eval()
end

-- Returns a model, and a second model whose weights differ slightly from those of the first.
local function pair_of(kind)
   local model, other = new_model(kind, 1), new_model(kind, 2)
   torch.no_grad(function()
      local own = model:parameters()
      for i, p in ipairs(other:parameters()) do p:mul_(0.2):add_(own[i]) end
   end)
   return model, other
end

-- Returns fn's result, and the number of steps that the model has computed.
local function with_steps(model, fn)
   local compute, n = model.compute, 0
   model.compute = function(...)
      n = n + 1
      return compute(...)
   end
   local result = fn()
   model.compute = nil
   return result, n
end

describe("assisted generation", function()
   for kind in pairs(families) do
      it("has the tokens of greedy search in fewer steps: " .. kind, function()
         local model, other = pair_of(kind)
         for _, common in ipairs {{}, {attention_mask = padding}, {cache = "static"},
               {repetition_penalty = 1.3, no_repeat_ngram_size = 3}} do
            common.max_new_tokens, common.eos_token_id = 40, {}
            local function made(extra)
               for key, value in pairs(common) do extra[key] = value end
               return with_steps(model, function() return model:generate(prompt, extra) end)
            end
            local expected = made {}
            for _, extra in ipairs {
               {assistant_model = other, assistant_confidence_threshold = 0.0, num_assistant_tokens = 5},
               {assistant_model = other, num_assistant_tokens_schedule = "heuristic_transient"},
               {prompt_lookup_num_tokens = 6},
               {prompt_lookup_num_tokens = 2, max_matching_ngram_size = 1},
            } do
               local ids, steps = made(extra)
               assert.same(expected:tolist(), ids:tolist())
               assert.is_true(steps < 40, steps)
            end
         end
      end)
   end

   it("needs one step for five tokens if the assistant is the model itself", function()
      local model = new_model("gpt2", 1)
      local options = {assistant_model = new_model("gpt2", 1), num_assistant_tokens = 4, max_new_tokens = 20,
         eos_token_id = {}, assistant_confidence_threshold = 0.0}
      local ids, steps = with_steps(model, function() return model:generate(prompt, options) end)
      assert.equal(27, ids:size(2))
      assert.equal(4, steps)
      options.num_assistant_tokens_schedule = "heuristic"
      model:generate(prompt, options)
      -- All proposals are accepted, so the limit of 4 tokens grows by 2 in each of three steps. The remaining length
      -- allows only 7 tokens in the third step.
      assert.equal(10, options.assistant_model.generation_config.num_assistant_tokens)
   end)

   it("proposes the tokens that followed the first occurrence of the last ones", function()
      local model = new_model("gpt2", 1, 9)
      local order = {[1] = 2, [2] = 3, [3] = 4, [4] = 1} -- the model repeats the tokens 1 2 3 4
      local processor = function(ids, scores)
         return scores:masked_fill(torch.arange(1, 10):ne(order[ids[{1, -1}]:item()]), -math.huge)
      end
      local ids, steps = with_steps(model, function()
         return model:generate(torch.tensor {{1, 2, 3, 4, 1}}, {logits_processor = {processor}, max_new_tokens = 12,
            prompt_lookup_num_tokens = 3, eos_token_id = {}})
      end)
      assert.same({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1}, ids[1]:tolist())
      assert.equal(3, steps)
   end)

   it("samples with the model's distribution", function()
      local model, other = new_model("gpt2", 1, 6), new_model("gpt2", 2, 6)
      local ids, n = torch.tensor {{2, 5, 3, 2, 5}}, 1500
      local options = {do_sample = true, max_new_tokens = 2, eos_token_id = {}, top_k = 0, temperature = 0.8}
      -- The next lines compute the model's probabilities of all pairs of two new tokens.
      local first = (model(ids).logits[{1, -1}]:detach() / 0.8):softmax(-1):double()
      local expected = torch.zeros(6, 6, {dtype = "float64"})
      for token = 1, 6 do
         local longer = torch.cat({ids, torch.tensor {{token}}}, 2)
         expected[token] = (model(longer).logits[{1, -1}]:detach() / 0.8):softmax(-1):double() * first[token]
      end
      for _, extra in ipairs {{assistant_model = other, assistant_confidence_threshold = 0.0},
            {prompt_lookup_num_tokens = 1}} do
         options.assistant_model, options.assistant_confidence_threshold = extra.assistant_model,
            extra.assistant_confidence_threshold
         options.prompt_lookup_num_tokens = extra.prompt_lookup_num_tokens
         options.generator = torch.Generator():manual_seed(7)
         local counts = torch.zeros(6, 6, {dtype = "float64"})
         for _ = 1, n do
            local made = model:generate(ids, options)[1]:tolist()
            counts[{made[6], made[7]}] = counts[{made[6], made[7]}] + 1
         end
         -- the bound is five standard deviations of each relative frequency
         local bound = (expected * (1 - expected) / n):sqrt() * 5
         assert.is_true(((counts / n - expected):abs() - bound):max():item() < 0)
      end
   end)

   it("stops at the end-of-sequence token, at stop strings and when the streamer returns true", function()
      local model, other = pair_of "gpt2"
      local tokenizer = {decode = function(_, list) return table.concat(list, " ") .. " " end}
      local free = model:generate(prompt, {max_new_tokens = 20, eos_token_id = {}})[1]:tolist()
      local from_stop = free[11] .. " " .. free[12] .. " "
      for _, way in ipairs {{assistant_model = other}, {assistant_model = model}, {prompt_lookup_num_tokens = 4}} do
         for _, ending in ipairs {{eos_token_id = free[12]}, {eos_token_id = {}, stop_strings = from_stop,
               tokenizer = tokenizer}} do
            ending.max_new_tokens = 20
            local expected = model:generate(prompt, ending):tolist()
            for key, value in pairs(way) do ending[key] = value end
            assert.same(expected, model:generate(prompt, ending):tolist())
         end
         local seen = {}
         local streamed = {max_new_tokens = 20, eos_token_id = {}, streamer = function(tokens)
            seen[#seen + 1] = tokens[1]:item()
            return #seen == 6
         end}
         for key, value in pairs(way) do streamed[key] = value end
         assert.same({table.unpack(free, 1, 13)}, model:generate(prompt, streamed)[1]:tolist())
         assert.same({table.unpack(free, 8, 13)}, seen)
      end
   end)

   it("refuses options that do not fit", function()
      local model, other = pair_of "gpt2"
      local function refused(text, options, ids)
         options.max_new_tokens = 2
         assert.raises("generate: " .. text, function() model:generate(ids or prompt, options) end)
      end
      refused("input_ids: expected one text with assistant_model", {assistant_model = other},
         prompt:repeat_interleave(2, 1))
      refused("num_beams: expected 1 with prompt_lookup_num_tokens, got 2",
         {prompt_lookup_num_tokens = 2, num_beams = 2})
      refused("use_cache: expected true with assistant_model, got false", {assistant_model = other, use_cache = false})
      refused("assistant_model: expected a model that can generate, got 5", {assistant_model = 5})
      refused("assistant_model: expected a model of the same kind with vocab_size = 30",
         {assistant_model = new_model("gpt2", 1, 9)})
      refused("assistant_model: expected a model of the same kind", {assistant_model = new_model("t5", 1)})
      refused("prompt_lookup_num_tokens: expected an integer of at least 1, got 0", {prompt_lookup_num_tokens = 0})
      refused("max_matching_ngram_size: expected an integer of at least 1, got 0",
         {prompt_lookup_num_tokens = 2, max_matching_ngram_size = 0})
      refused('num_assistant_tokens_schedule: expected "constant", "heuristic" or "heuristic_transient"',
         {assistant_model = other, num_assistant_tokens_schedule = "often"})
      refused("assistant_confidence_threshold: expected a number from 0 to 1, got 2",
         {assistant_model = other, assistant_confidence_threshold = 2})
      refused("prompt_lookup_num_tokens: expected none with assistant_model, got 3",
         {assistant_model = other, prompt_lookup_num_tokens = 3})
   end)
end)

describe("contrastive search", function()
   it("has the tokens of transformers", function()
      local rows = read_rows()
      for _, case in ipairs(expected_tokens) do
         local name, alpha, k, ngram, tokens = table.unpack(case)
         local row = rows[name]
         local ids = waves.model(row):generate(torch.tensor(row.input_ids) + 1, {penalty_alpha = alpha, top_k = k,
            no_repeat_ngram_size = ngram, attention_mask = torch.tensor(row.mask), max_new_tokens = 10,
            pad_token_id = 37})
         assert.same((torch.tensor(tokens) + 1):tolist(), ids:tolist(), name)
      end
   end)

   it("refuses options that do not fit, and ignores its default for samples", function()
      local model = new_model("gpt2", 1)
      local function refused(text, options)
         assert.raises("generate: " .. text, function() model:generate(prompt, options) end)
      end
      refused("penalty_alpha: expected a number from 0 to 1, got 1.5", {penalty_alpha = 1.5})
      refused("penalty_alpha: expected none with do_sample or num_beams above 1, got 0.5",
         {penalty_alpha = 0.5, do_sample = true})
      refused("top_k: expected at least 2 with penalty_alpha, got 1", {penalty_alpha = 0.5, top_k = 1})
      refused("use_cache: expected true with penalty_alpha, got false", {penalty_alpha = 0.5, use_cache = false})
      refused("penalty_alpha: expected none with prompt_lookup_num_tokens",
         {penalty_alpha = 0.5, prompt_lookup_num_tokens = 2})
      local options = {num_beams = 2, max_new_tokens = 4, eos_token_id = {}}
      local expected = model:generate(prompt, options):tolist()
      model.generation_config = {penalty_alpha = 0.6}
      assert.same(expected, model:generate(prompt, options):tolist())
   end)
end)

describe("a quantized cache", function()
   it("keeps keys and values in 8 bits, and changes scores by little", function()
      local config = {model_type = "llama", vocab_size = 30, hidden_size = 128, intermediate_size = 32,
         num_attention_heads = 4, num_key_value_heads = 2, num_hidden_layers = 2, initializer_range = 0.1}
      torch.manual_seed(3)
      local model = torch.text.from_config(config):eval()
      local options = {max_new_tokens = 2, eos_token_id = {}, return_scores = true, attention_mask = padding}
      local _, expected = model:generate(prompt, options)
      options.cache = "quantized"
      local _, scores = model:generate(prompt, options)
      for i, score in ipairs(scores) do
         local error = ((score - expected[i]):abs():max() / expected[i]:abs():max()):item()
         assert.is_true(error > 0 and error < 0.02, error)
      end
      options.max_new_tokens, options.return_scores = 12, false
      local ids = model:generate(prompt, options):tolist()
      options.prompt_lookup_num_tokens = 3
      assert.same(ids, model:generate(prompt, options):tolist())
      options.prompt_lookup_num_tokens, options.num_beams = nil, 3
      assert.same({1, 19}, model:generate(prompt, options).shape)
   end)

   it("refuses heads that are not groups of 32 features", function()
      assert.raises("a cache of 8 bits needs heads of a multiple of 32 features, and the model's have 8", function()
         new_model("gpt2", 1):generate(prompt, {cache = "quantized"})
      end)
   end)
end)
