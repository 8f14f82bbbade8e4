-- Tests the errors of torch.text for wrong arguments and damaged files, and that an error changes nothing.

local torch = require "tlua"
local shell = require "spec.support.shell"

local text = torch.text
local Tokenizer = text.Tokenizer

local function tokenizer() return assert(Tokenizer.from_str(Tokenizer.example)) end

local function gpt2()
   torch.manual_seed(1)
   return text.from_config({model_type = "gpt2", vocab_size = 20, n_embd = 4, n_head = 2, n_layer = 1}):eval()
end

local function write(path, content)
   local file <close> = assert(io.open(path, "wb"))
   assert(file:write(content))
   return path
end

describe("a wrong argument of torch.text", function()
   local template = "{{ messages[0].content }}"
   local talk = {{role = "user", content = "a"}}
   local ids = torch.tensor {{1, 2, 3}}
   for expected, fn in pairs {
      ["text.Tokenizer.encode_batch: texts[2]: expected no nil in a list of 3 elements"] =
         function() tokenizer():encode_batch {"low", nil, "low"} end,
      ["text.Tokenizer.encode: text[2]: expected a string or a list of strings, got nil"] =
         function() tokenizer():encode {"low", nil, "low"} end,
      ["text.Tokenizer.decode: ids[2]: expected no nil in a list of 3 elements"] =
         function() tokenizer():decode {1, nil, 3} end,
      ["text.Tokenizer.decode_batch: batch[2]: expected no nil in a list of 3 elements"] =
         function() tokenizer():decode_batch {{1}, nil, {3}} end,
      ["text.Tokenizer.train_from_iterator: iterator[2]: expected no nil in a list of 3 elements"] =
         function() tokenizer():train_from_iterator({"a", nil, "b"}, text.trainers.BpeTrainer()) end,
      ["text.Tokenizer.token_to_id: token: expected a string, got nil"] = function() tokenizer():token_to_id(nil) end,
      ["text.Tokenizer.id_to_token: id: expected an integer, got a table"] =
         function() tokenizer():id_to_token {} end,
      ["text.Tokenizer.add_tokens: tokens: expected a list of tokens, got \"x\""] =
         function() tokenizer():add_tokens "x" end,
      ["text.Tokenizer.get_chat_template: expected a chat_template: the tokenizer has none"] =
         function() tokenizer():get_chat_template() end,
      ["text.Tokenizer.get_chat_template: chat_template: expected a text, got 5"] =
         function() tokenizer():get_chat_template(5) end,
      ["text.Tokenizer.apply_chat_template: tokenize: expected a boolean, got 5"] =
         function() tokenizer():apply_chat_template(talk, {chat_template = template, tokenize = 5}) end,
      ["text.Tokenizer.apply_chat_template: return_tensors: expected a boolean or \"pt\", got \"np\""] =
         function() tokenizer():apply_chat_template(talk, {chat_template = template, return_tensors = "np"}) end,
      ["text.Tokenizer.apply_chat_template: max_length: expected an integer, got \"5\""] =
         function() tokenizer():apply_chat_template(talk, {chat_template = template, max_length = "5"}) end,
      ["text.Encoding.word_to_tokens: word: expected an integer, got \"x\""] =
         function() tokenizer():encode("low"):word_to_tokens "x" end,
      ["text.Encoding.byte_to_token: sequence: expected 1 or 2, got 3"] =
         function() tokenizer():encode("low"):byte_to_token(1, 3) end,
      ["text.BPE.words: text: expected a string, got 5"] = function() text.BPE.words(5) end,
      ["text.BPE.decode: numbers: expected a list of integers or a tensor, got 5"] =
         function() text.BPE.train("low low"):decode(5) end,
      ["text.BPE.decode: number 2: expected an integer from 1 to 258, got nil"] =
         function() text.BPE.train("low low"):decode {1, nil, 3} end,
      ["text.BPE.save: merges: expected a file's name, got nil"] = function() text.BPE.train("low"):save "a.json" end,
      ["generate: max_length: expected an integer, got \"x\""] =
         function() gpt2():generate(ids, {max_length = "x"}) end,
      ["generate: logits_processor: expected a list of functions, got 5"] =
         function() gpt2():generate(ids, {logits_processor = 5}) end,
      ["generate: logits_processor[1]: expected a function, got 5"] =
         function() gpt2():generate(ids, {logits_processor = {5}}) end,
      ["generate: stop_strings: expected a string or a list of strings, got 5"] =
         function() gpt2():generate(ids, {stop_strings = 5, tokenizer = tokenizer()}) end,
      ["generate: tokenizer: expected a tokenizer, got 5"] =
         function() gpt2():generate(ids, {stop_strings = "a", tokenizer = 5}) end,
      ["generate: length_penalty: expected a finite number, got"] =
         function() gpt2():generate(ids, {length_penalty = 0 / 0, num_beams = 2}) end,
      ["text.preference.pack: texts[2]: expected a list of tokens, got nil"] =
         function() text.preference.pack({{1}, nil, {2}}, 1, 5) end,
      ["text.peft.from_pretrained: missing/adapter_config.json: No such file"] =
         function() text.peft.from_pretrained(gpt2(), "missing") end,
      ["save_pretrained: /proc/none: No such file"] = function() gpt2():save_pretrained "/proc/none" end,
   } do
      it("is named: " .. expected, function() assert.raises(expected, fn) end)
   end
end)

describe("after an error", function()
   it("a tokenizer has none of the tokens of the refused list", function()
      local own = tokenizer()
      assert.raises("add_tokens: token 2: expected a text, or a table with content, got 5",
         function() own:add_tokens {"<a>", 5} end)
      assert.equal(12, own.vocab_size)
      assert.is_nil(own:token_to_id "<a>")
   end)

   it("a model has no adapters, and its weights are still trained", function()
      shell.with_folder(function(folder)
         local model, trained, kinds = gpt2(), 0, {}
         for _, p in ipairs(model:parameters()) do trained = trained + (p.requires_grad and 1 or 0) end
         local function check()
            local count = 0
            for _, p in ipairs(model:parameters()) do count = count + (p.requires_grad and 1 or 0) end
            assert.equal(trained, count)
            for _, layer in ipairs(model:modules()) do assert.not_equal("text.peft.LoraLinear", torch.type(layer)) end
         end
         write(folder .. "/adapter_config.json", '{"peft_type": "LORA", "r": 2, "target_modules": ["c_attn"]}')
         for _, make in ipairs {function() end, function(path) write(path, "abc") end,
            function(path) torch.save({x = torch.ones(1)}, path) end} do
            make(folder .. "/adapter_model.safetensors")
            kinds[#kinds + 1] = pcall(text.peft.from_pretrained, model, folder)
            os.remove(folder .. "/adapter_model.safetensors")
            check()
         end
         assert.same({false, false, false}, kinds)
         assert.raises("several names with different values fit", function()
            text.peft.get_peft_model(model, {target_modules = {"c_proj", "c_attn"},
               rank_pattern = {c_attn = 1, ["attn.c_attn"] = 2}})
         end)
         check()
      end)
   end)

   it("a model with a weight that is not finite is not quantized", function()
      local model = text.from_config {model_type = "gpt2", vocab_size = 20, n_embd = 64, n_head = 2, n_layer = 2}
      local last
      for _, layer in ipairs(model:modules()) do
         if torch.type(layer) == "text.models.Conv1D" then last = layer end
      end
      torch.no_grad(function() last.weight[{1, 1}] = 0 / 0 end)
      assert.raises("text.nf4.quantize: x: expected finite numbers", function() text.nf4.load_in_4bit(model) end)
      for _, layer in ipairs(model:modules()) do assert.not_equal("text.Linear4bit", torch.type(layer)) end
   end)
end)

describe("BPE's files", function()
   it("may have tokens that are not UTF-8", function()
      shell.with_folder(function(folder)
         local vocab = write(folder .. "/vocab.json", '{"a": 0, "b": 1}')
         local bpe = assert(text.BPE.load(vocab, write(folder .. "/merges.txt", "a \xff\xff\n")))
         assert.same({1, 2}, bpe:encode "ab")
      end)
   end)

   it("are refused with a message if a rank is too large", function()
      shell.with_folder(function(folder)
         local path = write(folder .. "/ranks", "YQ== 99999999999999999999999\n")
         local bpe, message = text.BPE.load_tiktoken(path)
         assert.is_nil(bpe)
         assert.matches("ranks: expected a token in base64 and a number, got \"YQ== 9", message)
      end)
   end)
end)

describe("a model of torch.text", function()
   local ids = torch.tensor {{1, 2, 3}}

   local function small(config, architecture)
      for key, value in pairs {vocab_size = 20, hidden_size = 4, num_attention_heads = 2, num_hidden_layers = 1,
         intermediate_size = 4, max_position_embeddings = 6} do
         if config[key] == nil then config[key] = value end
      end
      return text.from_config(config, {architecture = architecture}):eval()
   end

   it("names the largest number of tokens", function()
      local distilbert = small({model_type = "distilbert", dim = 4, n_heads = 2, n_layers = 1, hidden_dim = 4}, "Model")
      for title, model in pairs {["text.DistilBert"] = distilbert,
         ["text.Deberta"] = small({model_type = "deberta"}, "Model")} do
         assert.raises(title .. ": input_ids: expected at most 6 tokens (max_position_embeddings), got 9",
            function() model(torch.ones({1, 9}, {dtype = "int64"})) end)
      end
   end)

   it("generates with a list of processors that has a metatable, and a whole float as max_length", function()
      local list = setmetatable({function(_, scores) return scores end}, {})
      local made = gpt2():generate(ids, {max_length = 5.0, logits_processor = list})
      assert.same({1, 5}, made.shape)
   end)

   it("refuses a cache that is none", function()
      assert.raises("text.GPT2LMHeadModel: past_key_values: expected a text.Cache, got an instance of nn.ReLU",
         function() gpt2()(ids, {past_key_values = torch.nn.ReLU()}) end)
      assert.raises('text.Cache: max_length: expected an integer of at least 1, got "x"', function() text.Cache "x" end)
      local cache = text.Cache()
      torch.no_grad(function() gpt2()(ids, {past_key_values = cache}) end)
      for _, length in ipairs {-1, 1.5} do
         assert.raises("text.Cache:crop: length: expected an integer of at least 0, got " .. length,
            function() cache:crop(length) end)
      end
      assert.raises("text.Cache:copy: length: expected an integer from 0 to 3, the number of tokens, got 4",
         function() cache:copy(4) end)
      assert.equal(3, cache:get_seq_length())
      assert.equal(2, cache:copy(2.0):get_seq_length())
      assert.is_true(cache:crop(1.0))
      assert.equal("integer", math.type(cache:get_seq_length()))
      assert.equal(8, text.Cache(8.0).max_length)
   end)

   it("with an encoder and a decoder computes the logits of the given positions", function()
      local t5 = small {model_type = "t5", d_model = 4, d_kv = 2, num_heads = 2, num_layers = 1, d_ff = 4}
      local all = t5(ids, {decoder_input_ids = ids}).logits
      local some = t5(ids, {decoder_input_ids = ids, logits_to_keep = torch.tensor {1, 3}}).logits
      assert.is_true(torch.allclose(some, all:index_select(2, torch.tensor {1, 3})))
   end)

   it("of texts and images names wrong arguments of its features", function()
      local part = {hidden_size = 4, num_attention_heads = 2, num_hidden_layers = 1, intermediate_size = 4,
         vocab_size = 10, eos_token_id = 9, image_size = 4, patch_size = 2}
      local clip = text.from_config {model_type = "clip", projection_dim = 4, text_config = part, vision_config = part}
      assert.raises("text.CLIPModel.get_text_features: input_ids is missing", function() clip:get_text_features() end)
      assert.raises("text.CLIPModel.get_text_features: input_ids: expected token numbers of shape (batch, length)",
         function() clip:get_text_features(torch.tensor {1, 2}) end)
      assert.raises('text.CLIPModel.get_image_features: pixel_values: expected a tensor, got "x"',
         function() clip:get_image_features "x" end)
      assert.same({1, 4}, clip:get_text_features(ids, torch.ones(1, 3)).shape)
   end)

   it("without its adapters stays so after an inner call of disable_adapter", function()
      local prompts = text.peft.get_peft_model(gpt2(), {peft_type = "PROMPT_TUNING", num_virtual_tokens = 2})
      local lora = text.peft.get_peft_model(gpt2(), {target_modules = {"c_attn"}, init_lora_weights = false})
      for _, model in ipairs {prompts, lora} do
         local plain = model:disable_adapter(function() return model(ids).logits end)
         local inner = model:disable_adapter(function()
            model:disable_adapter(function() end)
            return model(ids).logits
         end)
         assert.is_true(torch.equal(plain, inner))
         assert.is_false(torch.equal(plain, model(ids).logits:narrow(2, -3, 3)))
      end
   end)
end)
