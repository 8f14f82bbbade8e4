-- Tests torch.text.Tokenizer against Hugging Face's tokenizers.

local compare = dofile "rocks/text/spec/compare.lua"
local json = require "tlua.utils.json"
local shell = require "spec.support.shell"
local torch = require "tlua"
local Tokenizer = torch.text.Tokenizer
local folder = "rocks/text/spec/fixtures/tokenizers"

local function load_kind(name) return assert(Tokenizer.from_file(("%s/%s.json"):format(folder, name))) end

local function example() return assert(Tokenizer.from_str(Tokenizer.example)) end

-- Returns the text of the example's tokenizer.json after `change` has modified its fields.
local function changed(change)
   local config = json.decode(Tokenizer.example)
   change(config)
   return json.encode(config)
end

-- Checks that a tokenizer.json is refused with the given message. `change` is its text, or a function that modifies the
-- example's fields.
local function refused(message, change)
   local none, why = Tokenizer.from_str(type(change) == "string" and change or changed(change))
   assert.is_nil(none)
   assert.matches(message, why, 1, true)
end

local function write(path, text)
   local file = assert(io.open(path, "wb"))
   file:write(text)
   file:close()
end

describe("text.Tokenizer", function()
   for _, name in ipairs(compare.kinds) do
      it("makes the tokens, places and texts of the library: " .. name, function()
         local count, differences = compare.kind(folder, name)
         assert.equal(12, count)
         assert.same({}, differences)
      end)
   end

   it("counts numbers, types, words and bytes from 1", function()
      local encoding = load_kind("bert"):encode("été a", "b")
      assert.same({3, 4}, {encoding.ids[1], encoding.ids[#encoding.ids]}) -- [CLS] has the number 2 in the file
      assert.same({2, 3}, {encoding.file_ids[1], encoding.file_ids[#encoding.ids]})
      assert.same({1, 1}, {encoding.type_ids[1], encoding.type_ids[2]})
      assert.equal(2, encoding.type_ids[#encoding.ids])
      assert.same({1, 0}, encoding.offsets[1])
      assert.equal(1, encoding.offsets[2][1])
      assert.is_false(encoding.word_ids[1])
      assert.equal(1, encoding.word_ids[2])
      assert.equal(2, encoding.sequence_ids[#encoding.ids - 1])
      assert.equal(#encoding.ids, #encoding)
      assert.equal("int64", encoding:tensor().dtype)
   end)

   it("gives places that cut the tokens out of the text", function()
      local text = "the naïve tensor 日本語"
      local encoding = load_kind("gpt2"):encode(text)
      local parts = {}
      for i, place in ipairs(encoding.offsets) do
         local before = encoding.offsets[i - 1]
         if not before or before[1] ~= place[1] then parts[#parts + 1] = text:sub(place[1], place[2]) end
      end
      assert.equal(text, table.concat(parts))
   end)

   -- The parts into which a pattern splits a text. Hugging Face's tokenizers 0.23.3 gave the expected parts.
   local function parts_of(pattern, text)
      local tokenizer = assert(Tokenizer.from_str(json.encode {
         model = {type = "WordLevel", vocab = {["?"] = 0}, unk_token = "?"},
         pre_tokenizer = {type = "Split", pattern = {Regex = pattern}, behavior = "Isolated",
            invert = false}}))
      local parts = {}
      for i, place in ipairs(tokenizer:encode(text).offsets) do
         parts[i] = text:sub(place[1], place[2])
      end
      return table.concat(parts, "|")
   end

   it("matches patterns as Oniguruma does", function()
      for _, case in ipairs {{"(?:a|ab)+?c", "xabcx", "x|abc|x"}, {"(?<=a|ab)c", "abcac", "ab|c|a|c"},
         {"b{2}?", "abcbb", "a|b|c|bb"}, {"\\b.", "ab cd", "a|b| |c|d"}, {"(?i:é)", "xÉéx", "x|É|é|x"},
         {"(?i:[à-ü])x", "ÀxB", "Àx|B"}, {"(?:c)*\\bb|$", " ba b", " |b|a |b"},
         {"\\S{2,}", "a b cd", "a b |cd"}, {"x*$", "a b", "a b"}} do
         assert.equal(case[3], parts_of(case[1], case[2]), case[1])
      end
   end)

   it("refuses texts that need too many attempts of a pattern", function()
      assert.has_error(function() parts_of("(?:a|a)+b", ("a"):rep(40)) end, "text.Tokenizer.encode: "
         .. "the text needs more than 10000000 attempts for one match of a pattern")
   end)

   it("keeps the sequence of tokens that truncation leaves", function()
      local encoding = load_kind "bert":enable_truncation(6):encode("the the tensor", "the the")
      local count = 0
      for _, sequence in ipairs(encoding.sequence_ids) do count = count + (sequence or 0) end
      assert.equal(4, count) -- two tokens of the first text (1 each), and one of the second (2)
      assert.is_number(encoding:byte_to_token(1))
   end)

   it("finds a short added token at the end of a text", function()
      local tokenizer = load_kind "bert"
      tokenizer:add_tokens {"<x>", {content = "<x", single_word = true}}
      local encoding = tokenizer:encode("a <x")
      assert.same({"a", "<x"}, {encoding.tokens[2], encoding.tokens[3]})
      assert.same({3, 4}, encoding.offsets[3])
   end)

   it("takes spaces once for adjacent added tokens", function()
      local tokenizer = load_kind "roberta"
      tokenizer:add_tokens {{content = "  ", lstrip = true, rstrip = true}}
      local found = 0
      for _, token in ipairs(tokenizer:encode("x    ").tokens) do
         found = found + (token == "    " and 1 or 0)
      end
      assert.equal(1, found)
   end)

   it("refuses damaged settings, which it does not take for defaults", function()
      refused("truncation: direction: expected Left or Right, got left", function(config)
         config.truncation = {max_length = 3, direction = "left", strategy = "LongestFirst", stride = 0}
      end)
      refused("truncation: strategy: expected LongestFirst or OnlyFirst or OnlySecond, got longest",
         function(config) config.truncation = {max_length = 3, strategy = "longest"} end)
      refused("truncation: expected an object, got x", function(config) config.truncation = "x" end)
      refused("padding: strategy: expected BatchLongest or Fixed, got Fixed", function(config)
         config.padding = {strategy = "Fixed"}
      end)
      refused("added_tokens: expected a list, got true", function(config) config.added_tokens = true end)
      refused("added_tokens[1].special: expected true or false, got 0", function(config)
         config.added_tokens = {{id = 12, content = "x", special = 0}}
      end)
      refused("pre_tokenizer: add_prefix_space: expected true or false, got no", function(config)
         config.pre_tokenizer.add_prefix_space = "no"
      end)
      refused("model: continuing_subword_prefix: expected a text, got 5", function(config)
         config.model.continuing_subword_prefix = 5
      end)
      refused('post_processor: entry 1: expected the Sequence A or B, got C', function(config)
         config.post_processor = {type = "TemplateProcessing", special_tokens = {},
            single = {{Sequence = {id = "C", type_id = 0}}}, pair = {}}
      end)
      local tokenizer = example()
      assert.has_error(function() tokenizer:enable_padding {pad_id = 0} end,
         "text.Tokenizer.enable_padding: pad_id: expected at least 1, got 0")
      assert.has_error(function() tokenizer:enable_padding {pad_to_multiple_of = -8} end,
         "text.Tokenizer.enable_padding: pad_to_multiple_of: expected at least 0, got -8")
      assert.has_error(function() tokenizer:encode_batch {{"a", "b", "c"}} end,
         'text.Tokenizer.encode_batch: texts[1]: expected a text or a pair {a, b}, got "a list of 3"')
   end)

   it("remembers chunks without changing the tokens", function()
      local tokenizer = load_kind "llama2"
      local text = "the tensor  and the\ttensor, the naïve \u{3000} tensor "
      local first = tokenizer:encode(text)
      local again = tokenizer:encode(text)
      assert.same(first.ids, again.ids)
      assert.same(first.offsets, again.offsets)
      tokenizer.chunked = false
      local whole = tokenizer:encode(text)
      assert.same(first.ids, whole.ids)
      assert.same(first.offsets, whole.offsets)
      assert.same(first.word_ids, whole.word_ids)
   end)

   it("encodes texts that are split into words", function()
      local encoding = example():encode {"low", "lower"}
      assert.same({"low", "low", "er"}, encoding.tokens)
      assert.same({1, 2, 2}, encoding.word_ids)
      assert.same({{1, 3}, {1, 3}, {4, 5}}, encoding.offsets)
      assert.same({2, 3}, {encoding:word_to_tokens(2)})
   end)

   it("encodes and decodes batches", function()
      local tokenizer = example():enable_padding {pad_id = 3, pad_token = "w"}
      local list = tokenizer:encode_batch {"low", "lower low", {"low", "er"}}
      assert.same({10, 3, 3}, list[1].ids)
      assert.same({1, 0, 0}, list[1].attention_mask)
      assert.same({1, 2, 3}, {list[2]:byte_to_token(3), list[2]:byte_to_token(5), list[2]:byte_to_token(9)})
      assert.same({"low", "lower low"}, tokenizer:decode_batch {{10}, torch.tensor {10, 12, 11}})
      assert.same({10, 12, 3}, list[3].ids)
      assert.same({1, 2, 1}, list[3].type_ids)
   end)

   it("adds tokens", function()
      local tokenizer = example()
      assert.equal(1, tokenizer:add_special_tokens {"<end>"})
      assert.equal(1, tokenizer:add_tokens {{content = "tow", single_word = true}})
      assert.equal(0, tokenizer:add_tokens {"tow"})
      assert.equal(14, tokenizer.vocab_size)
      assert.equal(13, tokenizer:token_to_id "<end>")
      assert.equal("<end>", tokenizer:id_to_token(13))
      assert.equal(14, tokenizer:get_vocab()["tow"])
      assert.same({10, 13, 10}, tokenizer:encode("low<end>low").ids)
      assert.equal("lowlow", tokenizer:decode {10, 13, 10})
      assert.equal("low<end>low", tokenizer:decode({10, 13, 10}, {skip_special_tokens = false}))
   end)

   it("reads tiktoken's ranks", shell.in_folder(function(place)
      local lines, alphabet = {}, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
      local function digit(value) return alphabet:sub(value + 1, value + 1) end
      for byte = 0, 255 do lines[#lines + 1] = ("%s%s== %d"):format(digit(byte >> 2), digit((byte & 3) << 4), byte) end
      lines[#lines + 1] = "bG8= 256\nbG93 257" -- the tokens are "lo" and "low"
      local path = place .. "/ranks"
      write(path, table.concat(lines, "\n"))
      local tokenizer = assert(Tokenizer.from_tiktoken(path, {special_tokens = {["<end>"] = 300}}))
      assert.same({257, 32, 108, 101, 300}, tokenizer:encode("low le<end>").file_ids)
      assert.equal("low \u{FFFD}", tokenizer:decode {258, 33, 256})
      local again = assert(Tokenizer.from_str(assert(tokenizer:to_str())))
      assert.same({257, 32, 108, 101, 300}, again:encode("low le<end>").file_ids)
      assert.equal("low \u{FFFD}", again:decode {258, 33, 256})
      write(path, "bG8= 256\n")
      local none, why = Tokenizer.from_tiktoken(path)
      assert.is_nil(none)
      assert.matches("ranks: expected a token for each byte, byte 0 has none", why)
   end))

   for _, name in ipairs {"unigram", "bpe", "bytes"} do
      it("makes the tokens of SentencePiece: " .. name, function()
         local path = "rocks/text/spec/fixtures/sentencepiece/" .. name
         local tokenizer = assert(Tokenizer.from_sentencepiece(path .. ".model"))
         for line in io.lines(path .. ".cases") do
            local case = json.decode(line)
            local encoding = tokenizer:encode(case.text)
            assert.same(case.ids, json.as_array(encoding.file_ids), case.text)
            assert.equal(case.decoded, tokenizer:decode(encoding.ids))
            for _, place in ipairs(encoding.offsets) do
               assert.is_true(place[1] >= 1 and place[2] <= #case.text and place[1] <= place[2] + 1)
            end
         end
      end)
   end

   it("names the fault of SentencePiece's file", shell.in_folder(function(place)
      local file = assert(io.open("rocks/text/spec/fixtures/sentencepiece/unigram.model", "rb"))
      local whole, path = file:read "a", place .. "/model"
      file:close()
      local failed = 0
      for length = 0, #whole, 97 do
         write(path, whole:sub(1, length))
         local tokenizer, why = Tokenizer.from_sentencepiece(path)
         if not tokenizer then
            failed = failed + 1
            assert.matches(path .. ": ", why, 1, true)
            assert.matches("expected", why, 1, true)
         end
      end
      assert.is_true(failed > 20)
   end))

   it("saves what it reads again", shell.in_folder(function(place)
      local path = place .. "/tokenizer.json"
      for _, name in ipairs {"bert", "llama2", "gpt2", "xlmr"} do
         local tokenizer = load_kind(name)
         tokenizer:add_special_tokens {{content = "<m>", lstrip = true}}
         tokenizer:enable_truncation(9, {stride = 1, direction = "left"}):enable_padding {length = 12, pad_id = 2}
         assert.is_true(tokenizer:save(path))
         local again = assert(Tokenizer.from_file(path))
         assert.equal(assert(tokenizer:to_str()), assert(again:to_str()))
         local text = "the naïve <m> tensor 日本語, and more of it"
         assert.same(tokenizer:encode(text).ids, again:encode(text).ids)
         assert.same(tokenizer:encode(text).offsets, again:encode(text).offsets)
      end
      local saved = json.decode(assert(example():enable_padding():to_str()))
      assert.same({content = "BatchLongest", id = 0}, {content = saved.padding.strategy, id = saved.padding.pad_id})
   end))

   it("saves folders", shell.in_folder(function(place)
      local tokenizer = example()
      tokenizer.special_tokens, tokenizer.chat_template = {bos_token = "l"}, "{{ bos_token }}\n"
      assert.is_true(tokenizer:save_pretrained(place .. "/new"))
      local again = assert(Tokenizer.from_pretrained(place .. "/new"))
      assert.same({tokenizer.special_tokens, tokenizer.chat_template}, {again.special_tokens, again.chat_template})
      assert.same({10, 11}, again:encode("low low").ids)
      tokenizer.chat_template = {default = "a", tool_use = "b"}
      assert.is_true(tokenizer:save_pretrained(place .. "/several"))
      assert.same(tokenizer.chat_template, assert(Tokenizer.from_pretrained(place .. "/several")).chat_template)
      local model = assert(Tokenizer.from_sentencepiece "rocks/text/spec/fixtures/sentencepiece/bpe.model")
      local none, why = model:save(place .. "/x")
      assert.is_nil(none)
      assert.matches("/x: expected a tokenizer of tokenizer.json or of tiktoken's ranks", why, 1, true)
      none, why = example():save "/none/there"
      assert.is_nil(none)
      assert.matches("/none/there", why, 1, true)
      assert.raises("text.Tokenizer.save: path: expected a file's name, got nil", function() example():save() end)
   end))

   it("matches scripts, classes and intersections as the library does", function()
      local normalizers = require "tlua.text.tokenizer.normalizers"
      local pieces = require "tlua.text.tokenizer.pieces"
      local file <close> = assert(io.open("rocks/text/spec/fixtures/patterns.json", "rb"))
      local cases = assert(json.decode(file:read "a"))
      for _, case in ipairs(cases) do
         local piece = pieces.new(case.text, 0)
         normalizers.make({type = "Replace", pattern = {Regex = case.pattern}, content = "#"}, error).apply(piece, {})
         assert.equal(case.expected, piece.text, case.pattern)
      end
      assert.is_true(#cases > 60)
      local function split(pattern)
         return function(config)
            config.pre_tokenizer = {type = "Split", pattern = {Regex = pattern}, behavior = "Isolated"}
         end
      end
      refused("the property \\p{Klingon} is not supported", split "\\p{Klingon}")
      refused("the intersection && is not supported in (?i)", split "(?i:[a&&b])")
   end)

   -- The expected numbers were computed by tokenizers 0.23.
   it("does not cut texts where the parts would have other tokens", function()
      local words = [["model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2, ",": 3},
         "unk_token": "[UNK]"}]]
      local scripts = assert(Tokenizer.from_str([[{"pre_tokenizer": {"type": "Sequence", "pretokenizers":
         [{"type": "UnicodeScripts"}, {"type": "Whitespace"}]}, ]] .. words .. "}"))
      local wide = assert(Tokenizer.from_str([[{"normalizer": {"type": "NFKC"}, "pre_tokenizer": {"type":
         "WhitespaceSplit"}, "added_tokens": [{"id": 4, "content": "b a", "single_word": true, "lstrip": false,
         "rstrip": true, "normalized": true, "special": false}], ]] .. words .. "}"))
      for _, case in ipairs {
         {scripts, "a \u{16C20}a b", {1, 0, 1, 2}}, -- a character without a script
         {scripts, "\u{16C20}a a", {1, 1}},
         {scripts, "a, a,b ab_a5 дa a", {1, 3, 1, 3, 2, 0, 0, 1, 0, 0, 1, 1}},
         {wide, "a b a  a", {1, 4, 1}}, {wide, "a ｂ a a", {1, 4, 1}}, {wide, "b  a b a", {2, 1, 4}},
         {wide, "ab a a", {0, 1, 1}},
      } do
         -- the second pass takes chunks from the cache
         for _ = 1, 2 do assert.same(case[3], case[1]:encode(case[2]).file_ids) end
      end
   end)

   it("names the fault of a file", function()
      refused("text.Tokenizer.from_str: at byte 1: the text ends too early", "")
      refused("at byte", '{"model": {"type": "BPE", "vocab": {"a"')
      refused("expected a field model, an object", "{}")
      refused("model: expected BPE, WordPiece, Unigram or WordLevel, got Other",
         function(config) config.model.type = "Other" end)
      refused('model: merges[5]: the vocabulary lacks the token "q"',
         function(config) config.model.merges[5] = "q r" end)
      refused("model: merges[1]: expected two tokens, got l",
         function(config) config.model.merges[1] = "l" end)
      refused('model: vocab: "l": expected a number from 0 to 2147483647, got -1',
         function(config) config.model.vocab.l = -1 end)
      refused("have the same number 0", function(config) config.model.vocab.new = 0 end)
      refused("model: expected no dropout, which gives random tokens, got 0.1",
         function(config) config.model.dropout = 0.1 end)
      refused("pre_tokenizer: expected a known type of pre-tokenizer, got Other",
         function(config) config.pre_tokenizer.type = "Other" end)
      refused("normalizer: normalizers[1]: expected a text as content", function(config)
         config.normalizer = {type = "Sequence", normalizers = {{type = "Replace", pattern = {String = "a"}}}}
      end)
      refused("pre_tokenizer: the pattern \"(a\": at byte 3: a group is not closed", function(config)
         config.pre_tokenizer = {type = "Split", pattern = {Regex = "(a"}, behavior = "Isolated"}
      end)
      refused("normalizer: precompiled_charsmap: expected a trie of", function(config)
         config.normalizer = {type = "Precompiled", precompiled_charsmap = "/////w=="}
      end)
      refused('added_tokens: "<x>" has the number of "l", 0', function(config)
         config.added_tokens = {{content = "<x>", id = 0}}
      end)
      refused('special_tokens: expected an entry for "<s>"', function(config)
         config.post_processor = {type = "TemplateProcessing", pair = {},
            single = {{SpecialToken = {id = "<s>", type_id = 0}}}}
      end)
      refused("unk_id: expected a number from 0 to 0, got 4",
         '{"model": {"type": "Unigram", "unk_id": 4, "vocab": [["a", 0]]}}')
      local none, why = Tokenizer.from_file "/none/there.json"
      assert.is_nil(none)
      assert.matches("/none/there.json", why, 1, true)
   end)

   it("reads scores as the library does", function()
      -- tokenizers' to_str writes -3.6511831888252657 for this score, which differs in the last bit
      local tokenizer = assert(Tokenizer.from_str
         '{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["|", -3.6511831888252653], ["a", -2], ["b", -0.5]]}}')
      assert.same({-3.6511831888252657, -2.0, -0.5}, tokenizer.model.scores)
   end)

   it("refuses damaged descriptions of tokenizers in C", function()
      local function config(fields)
         local whole = {kind = 0, ids = {a = 1}, merges = {}, byte_ids = {}}
         for key, value in pairs(fields) do whole[key] = value end
         return whole
      end
      assert.truthy(torch.io._tokens(config {}))
      for why, fields in pairs {
         ["ids: expected an integer of at least 0, got -1"] = {ids = {a = -1}},
         ["next: expected a later node"] = {nodes = {{kind = 0, next = 1}}, steps = {}},
         ["nodes: expected a node that follows"] = {nodes = {{kind = 0}}, steps = {}},
         ["steps: expected a pattern or a text"] = {nodes = {}, steps = {{kind = 6, pattern = 1}}},
         ["kind: expected a kind of steps"] = {nodes = {}, steps = {{kind = 12}}},
         ["prefix: expected at most 256 bytes"] = {prefix = ("x"):rep(257)},
      } do
         assert.raises(why, function() torch.io._tokens(config(fields)) end)
      end
      local tokens = torch.io._tokens(config {})
      assert.raises("expected a part of the text", function() tokens:encode("ab", 1, 3, 1, {}, 0) end)
      assert.raises("expected places of this object",
         function() tokens:place(("i8i8"):pack(40, 0), 0, {}, {}, {}, 0, true) end)
      tokens:put("a", 5, {n = 1, word = 1, ids = {7}, first = {1}, last = {1}, words = {1}})
      local after, ids, n, words, places = tokens:encode("a", 1, 1, 1, {}, 0)
      assert.same({2, {7}, 1, 1, 16}, {after, ids, n, words, #places})
   end)

   it("names wrong arguments", function()
      local tokenizer = example()
      assert.raises("text.Tokenizer.encode: text: expected UTF-8, byte 2 is not",
         function() tokenizer:encode "a\255" end)
      assert.raises("text: expected a string or a list of strings, got 3", function() tokenizer:encode(3) end)
      assert.raises("unknown option adds", function() tokenizer:encode("a", {adds = true}) end)
      assert.raises("text.Tokenizer.decode: id 1: expected the number of a token, from 1 to 12, got 99",
         function() tokenizer:decode {99} end)
      assert.raises("strategy: expected longest_first, only_first or only_second, got \"x\"",
         function() tokenizer:enable_truncation(3, {strategy = "x"}) end)
      assert.raises("max_length: expected at least 2, for the special tokens, got 1",
         function() load_kind("bert"):enable_truncation(1):encode "a" end)
      assert.raises("stride: expected less than the 2 tokens that are left, got 5",
         function() tokenizer:enable_truncation(2, {stride = 5}):encode "low low low low" end)
      assert.raises("direction: expected right or left, got \"up\"",
         function() tokenizer:enable_padding {direction = "up"} end)
      for name, call in pairs {
         encode = function() tokenizer:encode("a", nil, {add_special_tokens = 0}) end,
         encode_batch = function() tokenizer:encode_batch({"a"}, {add_special_tokens = 0}) end,
         decode = function() tokenizer:decode({1}, {skip_special_tokens = 0}) end,
         to_str = function() tokenizer:to_str {pretty = 0} end,
      } do
         assert.raises("text.Tokenizer." .. name .. ": ", "expected a boolean, got 0", call)
      end
      assert.raises("text.Tokenizer.encode: options: expected a table, got 3",
         function() tokenizer:encode("a", nil, 3) end)
      assert.raises("text.Tokenizer.decode_batch: batch: expected a list, got 3",
         function() tokenizer:decode_batch(3) end)
      assert.raises("text.Tokenizer.add_tokens: token 1: lstrip: expected a boolean, got 1",
         function() tokenizer:add_tokens {{content = "x", lstrip = 1}} end)
      assert.raises("text.Tokenizer.from_tiktoken: pattern: expected a string, got 3",
         function() Tokenizer.from_tiktoken("x", {pattern = 3}) end)
   end)

   it("refuses a list of another type in the loops in C", function()
      local loops = torch.io._tokens {kind = 0, ids = {a = 0}, merges = {}, byte_ids = {}}
      for _, list in ipairs {true, 3, "x", print} do
         assert.raises("table expected", function() loops:encode("a", 1, 1, 1, {}, 0, list) end)
      end
   end)
end)
