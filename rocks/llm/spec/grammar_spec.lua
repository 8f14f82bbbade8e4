-- Tests grammars with models of torch.text. The texts that each kind of search generates must obey the grammar.

local torch = require "tlua"

local text, Grammar = torch.text, torch.llm.Grammar

local function trained()
   local trainers = text.trainers
   local tokenizer = assert(text.Tokenizer.from_str [[{"pre_tokenizer": {"type": "ByteLevel",
      "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {}, "merges": []}}]])
   tokenizer:train_from_iterator({"low lower lowest", "the lowest"}, trainers.BpeTrainer {vocab_size = 270,
      special_tokens = {"<end>"}, initial_alphabet = trainers.byte_alphabet()})
   return tokenizer
end

describe("llm.Grammar:logits_processor", function()
   local tokenizer = trained()
   local eos = tokenizer:token_to_id "<end>"
   torch.manual_seed(5)
   local model = text.from_config {model_type = "gpt2", vocab_size = #tokenizer.tokens, n_embd = 16, n_layer = 1,
      n_head = 2, n_positions = 64, initializer_range = 0.5}

   it("makes texts of all searches obey a grammar, and end", function()
      local grammar = Grammar.from_string [[root ::= "low" ("er" | "est" | "é")+ "!"{3}]]
      local found = {}
      for _, options in ipairs {{}, {num_beams = 3}, {do_sample = true, num_return_sequences = 8, top_k = 0},
            {prompt_lookup_num_tokens = 3}, {penalty_alpha = 0.5, top_k = 4}} do
         local ids = torch.tensor {{5, 6, 7}}
         options.logits_processor = {grammar:logits_processor(tokenizer, 3, eos)}
         options.eos_token_id, options.pad_token_id, options.max_new_tokens = eos, eos, 50
         for _, row in ipairs(model:generate(ids, options):tolist()) do
            local made = tokenizer:decode({table.unpack(row, 4)}, {skip_special_tokens = true})
            assert.is_true(grammar:matches(made) or row[#row] ~= eos, made)
            found[#found + 1] = row[#row] == eos and made or nil
         end
      end
      assert.is_true(#found > 0)
   end)

   it("reads the bytes of tokens as the decoder does", function()
      for name, case in pairs {
         ['{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}'] = {"▁ab", " ab"},
         ['{"type": "ByteFallback"}'] = {"<0xC3>", "\xC3"},
      } do
         local own = assert(text.Tokenizer.from_str(([[{"decoder": %s, "model": {"type": "WordLevel", "vocab":
            {"x": 0, "%s": 1, "<end>": 2}, "unk_token": "x"}}]]):format(name, case[1])))
         -- After "x", the token is allowed only if its bytes fit the grammar.
         for bytes, fits in pairs {[case[2]] = true, q = false} do
            local grammar = Grammar.from_string(('root ::= "x" ("y" | [%s] [^z]*)'):format(bytes:sub(1, 1) == "\xC3"
               and "é" or bytes:sub(1, 1)))
            local obey = grammar:logits_processor(own, 1, 3)
            local ok, scores = pcall(obey, torch.tensor {{3, 1}}, torch.zeros(1, 3))
            local allowed = ok and scores[{1, 2}]:item() == 0
            assert.equal(fits, allowed, name .. bytes)
         end
      end
   end)

   it("refuses nonsense", function()
      local grammar = Grammar.from_string 'root ::= "a"'
      local function refused(message, ...)
         local call = table.pack(...)
         assert.raises("llm.Grammar:logits_processor: " .. message, function()
            grammar:logits_processor(table.unpack(call, 1, call.n))
         end)
      end
      refused("tokenizer: expected a text.Tokenizer with a decoder, got 5", 5, 1, 1)
      refused("prompt_length: expected a positive integer, got 0", tokenizer, 0, 1)
      refused("eos_token_id: expected a token number from 1, or a list of them, got nil", tokenizer, 1)
   end)
end)
