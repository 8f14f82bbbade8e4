-- Compares trained tokenizers with those of Hugging Face's trainers.

local json = require "tlua.utils.json"
local shell = require "spec.support.shell"
local torch = require "tlua"
local Tokenizer, trainers = torch.text.Tokenizer, torch.text.trainers

local function read(name)
   local file <close> = assert(io.open(("rocks/text/spec/fixtures/training/%s.json"):format(name), "rb"))
   return assert(json.decode(file:read "a"))
end

-- Returns a copy without metatables, so that lists are plain tables.
local function plain(value)
   if type(value) ~= "table" then return value end
   local copy = {}
   for key, inner in pairs(value) do copy[key] = plain(inner) end
   return copy
end

local empty <const> = [[{"pre_tokenizer": {"type": "Whitespace"},
   "model": {"type": "%s", "vocab": {}, "merges": [], "unk_token": "[UNK]"}}]]

local function untrained(kind) return assert(Tokenizer.from_str(empty:format(kind))) end

describe("text.Tokenizer.train_from_iterator", function()
   for _, name in ipairs {"bytes", "split", "limited", "spaces", "words"} do
      it("learns the vocabulary and the merges of the library: " .. name, function()
         local case = read(name)
         local tokenizer = assert(Tokenizer.from_str(case.empty))
         tokenizer:train_from_iterator(plain(case.texts), trainers[case.trainer](plain(case.options)))
         local expected = assert(json.decode(case.expected))
         assert.same(plain(expected), plain(assert(json.decode(assert(tokenizer:to_str())))))
         local again = assert(Tokenizer.from_str(case.expected))
         assert.same(again:encode(case.texts[1]).ids, tokenizer:encode(case.texts[1]).ids)
      end)
   end

   -- Hugging Face's library may drop others of several pieces with nearly equal losses, so the vocabularies may differ
   -- in part. `least` is the least fraction of the pieces that must be in both vocabularies.
   for name, least in pairs {unigram = 1, pruned = 0.85} do
      it("learns the pieces and the scores of the library's unigram model: " .. name, function()
         local case = read(name)
         local tokenizer = assert(Tokenizer.from_str(case.empty))
         tokenizer:train_from_iterator(plain(case.texts), trainers.UnigramTrainer(plain(case.options)))
         local expected = assert(json.decode(case.expected)).model
         local got = assert(json.decode(assert(tokenizer:to_str()))).model
         assert.equal(expected.unk_id, got.unk_id)
         assert.equal(#expected.vocab, #got.vocab)
         local scores, common, furthest = {}, 0, 0
         for _, entry in ipairs(got.vocab) do scores[entry[1]] = entry[2] end
         for _, entry in ipairs(expected.vocab) do
            local score = scores[entry[1]]
            if score then
               common, furthest = common + 1, math.max(furthest, math.abs(score - entry[2]))
            end
         end
         assert.is_true(common >= least * #expected.vocab, ("%d of %d"):format(common, #expected.vocab))
         -- The library also adds characters that are not among the trained pieces. The scores of these characters fall
         -- in steps of 0.0001 in the order of its hash table, so they may differ slightly.
         if least == 1 then assert.is_true(furthest < 0.005, tostring(furthest)) end
      end)
   end

   it("learns a unigram model without a token for unknown characters", function()
      local unigram = assert(Tokenizer.from_str '{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0]]}}')
      unigram:train_from_iterator({"hugs", "hugs", "bugs"}, trainers.UnigramTrainer {vocab_size = 8})
      assert.matches('"unk_id":null', assert(unigram:to_str()), 1, true)
      local again = assert(Tokenizer.from_str(assert(unigram:to_str())))
      for _, tokenizer in ipairs {unigram, again} do
         assert.equal("hugs", table.concat(tokenizer:encode("hugs").tokens))
         assert.raises("text.Tokenizer.decode: ids: expected the numbers of one text; decode_batch takes several, "
            .. "got an int64 tensor of shape (2, 1)", function() tokenizer:decode(torch.tensor {{1}, {2}}) end)
         assert.equal("u", tokenizer:decode(torch.tensor {{1}}))
         assert.raises("text.Tokenizer.encode: the text has a character without a token, and unk_id is missing",
            function() tokenizer:encode "hz" end)
      end
   end)

   it("learns WordPiece", function()
      local tokenizer = untrained "WordPiece"
      local trainer = trainers.WordPieceTrainer {vocab_size = 40, min_frequency = 2, special_tokens = {"[UNK]"}}
      tokenizer:train_from_iterator({"low lower lowest", "low newer wider"}, trainer)
      assert.same({"low", "##er"}, tokenizer:encode("lower").tokens)
      assert.equal(1, tokenizer:token_to_id "[UNK]")
      assert.is_true(tokenizer.vocab_size <= 40)
   end)

   it("accepts texts from a function, from a list and from files", shell.in_folder(function(place)
      local trainer = trainers.BpeTrainer {vocab_size = 10,
         special_tokens = {"[UNK]", {content = "<m>", lstrip = true}}}
      local texts, i = {{"low low", "low"}, "lower"}, 0
      local first = untrained("BPE"):train_from_iterator(function()
         i = i + 1
         return texts[i]
      end, trainer)
      local second = untrained("BPE"):train_from_iterator({"low low", "low", "lower"}, trainer)
      assert.equal(assert(first:to_str()), assert(second:to_str()))
      local file = assert(io.open(place .. "/text", "wb"))
      file:write "low low\nlow\nlower"
      file:close()
      local third = assert(untrained("BPE"):train({place .. "/text"}, trainer))
      assert.equal(assert(first:to_str()), assert(third:to_str()))
      assert.same({"low", " <m>"}, first:encode("low <m>").tokens)
      assert.equal(256, #trainers.byte_alphabet())
      local none, why = untrained("BPE"):train({place .. "/none"}, trainer)
      assert.is_nil(none)
      assert.matches("/none: No such file", why, 1, true)
   end))

   it("names invalid arguments", function()
      local tokenizer, trainer = untrained "BPE", trainers.BpeTrainer()
      assert.raises("text.trainers.BpeTrainer: vocab_size: expected an integer of at least 0, got -1",
         function() trainers.BpeTrainer {vocab_size = -1} end)
      assert.raises("text.trainers.UnigramTrainer: shrinking_factor: expected a number between 0 and 1, got 1",
         function() trainers.UnigramTrainer {shrinking_factor = 1} end)
      assert.raises("text.trainers.UnigramTrainer: seed_size: expected an integer of at least 1, got 0",
         function() trainers.UnigramTrainer {seed_size = 0} end)
      assert.raises("vocab_size: expected at least 3, for the characters of the texts, got 2", function()
         local unigram = assert(Tokenizer.from_str '{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0]]}}')
         unigram:train_from_iterator({"abc"}, trainers.UnigramTrainer {vocab_size = 2})
      end)
      assert.raises("text.trainers.BpeTrainer: unknown option size", function() trainers.BpeTrainer {size = 3} end)
      assert.raises("special_tokens[2]: expected a text in UTF-8, got \"\"",
         function() trainers.WordLevelTrainer {special_tokens = {"a", ""}} end)
      assert.raises("text.Tokenizer.train_from_iterator: trainer: expected one of text.trainers, got a table",
         function() tokenizer:train_from_iterator({"a"}, {}) end)
      assert.raises("trainer: expected a trainer for WordPiece, got one for BPE",
         function() untrained("WordPiece"):train_from_iterator({"a"}, trainer) end)
      assert.raises("iterator: expected a list of texts or a function, got 3",
         function() tokenizer:train_from_iterator(3, trainer) end)
      assert.raises("text 2: expected a text, got 5", function() tokenizer:train_from_iterator({"a", 5}, trainer) end)
      assert.raises("text 1: expected UTF-8, byte 2 is not",
         function() tokenizer:train_from_iterator({"a\255"}, trainer) end)
      assert.raises("text.Tokenizer.train: files[1]: expected a file's name, got 5",
         function() tokenizer:train({5}, trainer) end)
   end)
end)
