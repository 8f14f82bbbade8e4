-- Tests torch.audio.models.decoder. Some expected hypotheses are those of flashlight's decoders, which
-- fixtures/decoder/hypotheses.py has recorded. Others are found by enumerating all alignments.

local torch = require "tlua"
local json = require "tlua.utils.json"
local device = require "spec.support.device"

local ctc_decoder = torch.audio.models.decoder.ctc_decoder
local folder <const> = "rocks/audio/spec/fixtures/decoder/"

local function read(name)
   local file <close> = assert(io.open(folder .. name, "rb"))
   return file:read "a"
end

local recorded = json.decode(read "hypotheses.json")

-- Returns the lines of the lexicon that a case uses.
local function lexicon_of(case)
   return case.lexicon > 0 and table.move(recorded.lexicon, 1, case.lexicon // 1 | 0, 1, {}) or nil
end

local function decoder_of(case)
   local options = {lexicon = lexicon_of(case), tokens = recorded.tokens,
      lm = case.lm ~= "" and folder .. case.lm or nil}
   for key, value in pairs(case.options) do
      options[key] = math.type(value) == "float" and math.tointeger(value) or value
   end
   return ctc_decoder(options)
end

local function emissions_of(case)
   local x = torch.tensor(case.emissions, {dtype = "float32"}):view(#case.emissions, #recorded.tokens)
   return device.name and x:to(device.name) or x
end

local function assert_equal_lists(expected, results)
   assert.equal(#expected, #results)
   for i, e in ipairs(expected) do
      local r = results[i]
      assert.is_true(math.abs(e.score - r.score) <= 1e-5 * math.max(1, math.abs(e.score)), i .. ": " .. r.score)
      assert.same(e.tokens, r.tokens:tolist())
      assert.same(e.timesteps, r.timesteps:tolist())
      assert.same(e.words, r.words)
   end
end

-- Writes a file, calls a function with its path, and removes it.
local function with_file(text, fn)
   local path = os.tmpname()
   local file = assert(io.open(path, "wb"))
   file:write(text):close()
   local ok, message = pcall(fn, path)
   os.remove(path)
   return ok, message, path
end

describe("audio.models.decoder", function()
   it("has flashlight's hypotheses", function()
      local count = 0
      for _, case in ipairs(recorded.cases) do
         assert_equal_lists(case.hypotheses, decoder_of(case)(emissions_of(case):unsqueeze(1))[1])
         count = count + #case.hypotheses
      end
      assert.is_true(count > 150, count)
   end)

   it("decodes emissions in parts", function()
      for _, i in ipairs {5, 10, 17} do
         local case = recorded.cases[i]
         local decoder, x = decoder_of(case), emissions_of(case)
         decoder:decode_begin()
         decoder:decode_step(x:narrow(1, 1, 2))
         decoder:decode_step(x:narrow(1, 3, x:size(1) - 2))
         decoder:decode_end()
         assert_equal_lists(case.hypotheses, decoder:get_final_hypothesis())
      end
   end)

   it("decodes only the valid steps of a batch", function()
      local case = recorded.cases[12]
      local decoder, x = decoder_of(case), emissions_of(case)
      local batch = torch.stack {torch.cat {x, torch.zeros_like(x)}, torch.cat {x, torch.ones_like(x)}}
      local results = decoder(batch, torch.tensor {x:size(1), x:size(1)})
      assert_equal_lists(case.hypotheses, results[1])
      assert_equal_lists(case.hypotheses, results[2])
   end)

   it("finds what all alignments give", function()
      torch.manual_seed(3)
      local tokens, steps = {"-", "|", "a", "b"}, 5
      for _, log_add in ipairs {false, true} do
         local x = (torch.randn(steps, 4) * 2):log_softmax(2)
         local rows, scores = x:double():tolist(), {}
         for code = 0, (1 << 2 * steps) - 1 do
            -- Each path begins with silence (token 2) before the first step, and ends with silence after the last step.
            local path, score = {2}, 0
            for t = 1, steps do
               path[t + 1] = (code >> 2 * (t - 1) & 3) + 1
               score = score + rows[t][path[t + 1]]
            end
            -- The silence at the end is appended to each sequence of tokens, so it does not make different sequences
            -- equal.
            local kept = {}
            for t = 1, steps + 1 do
               if path[t] ~= 1 and path[t] ~= path[t - 1] then kept[#kept + 1] = path[t] end
            end
            local key = table.concat(kept)
            local old = scores[key]
            scores[key] = not old and score or log_add and math.log(math.exp(old) + math.exp(score))
               or math.max(old, score)
         end
         local expected = {}
         for _, score in pairs(scores) do expected[#expected + 1] = score end
         table.sort(expected, function(a, b) return a > b end)
         local found = ctc_decoder {tokens = tokens, beam_size = 5000, nbest = 5000, log_add = log_add,
            beam_threshold = 1000}(x:unsqueeze(1))[1]
         assert.equal(#expected, #found)
         for i, one in ipairs(found) do assert.is_true(math.abs(expected[i] - one.score) < 1e-6) end
      end
   end)

   it("reads tokens and a lexicon from files", function()
      local case = recorded.cases[11]
      local ok, message = with_file("-\n|\na A\n\nb\nc\n", function(tokens)
         local fine, why = with_file(table.concat(lexicon_of(case), "\r\n") .. "\n\n", function(lexicon)
            local decoder = ctc_decoder(lexicon, tokens, nil, {nbest = 10})
            assert_equal_lists(case.hypotheses, decoder(emissions_of(case):unsqueeze(1))[1])
            assert.same({"|", "a", "c"}, decoder:idxs_to_tokens(torch.tensor {2, 3, 5}))
         end)
         assert(fine, why)
      end)
      assert(ok, message)
   end)

   it("refuses tokens, lexicons and options that do not fit", function()
      local title <const> = "audio.models.decoder.ctc_decoder: "
      local tokens <const> = {"-", "|", "a"}
      for expected, options in pairs {
         ["tokens: expected a file or a list of tokens, got nil"] = {},
         ["tokens: expected at least one token, got a table"] = {tokens = {}},
         ["tokens[2]: expected a string, got 5"] = {tokens = {"-", 5}},
         ['tokens[3]: the token "-" is there twice'] = {tokens = {"-", "|", "-"}},
         ['tokens: cannot read "/nowhere"'] = {tokens = "/nowhere"},
         ['tokens: cannot read "/"'] = {tokens = "/"},
         ['blank_token: expected one of the tokens, got "-"'] = {tokens = {"|", "a"}},
         ['sil_token: expected one of the tokens, got "_"'] = {tokens = tokens, sil_token = "_"},
         ["lexicon: expected at least one word, got a table"] = {tokens = tokens, lexicon = {}},
         ['lexicon[1]: expected a spelling behind "a"'] = {tokens = tokens, lexicon = {"a"}},
         ['lexicon[2]: expected a spelling of tokens for "ab", got the unknown token "b"'] =
            {tokens = tokens, lexicon = {"a a |", "ab a b |"}},
         ['lexicon[1]: expected a spelling of tokens for "a", got the blank token "-"'] =
            {tokens = tokens, lexicon = {"a a -"}},
         ["nbest: expected at least 1, got 0"] = {tokens = tokens, nbest = 0},
         ["beam_size: expected at least 1, got 0"] = {tokens = tokens, beam_size = 0},
         ["beam_size_token: expected at least 1, got 0"] = {tokens = tokens, beam_size_token = 0},
         ["beam_threshold: expected at least 0, got -1"] = {tokens = tokens, beam_threshold = -1},
         ["lm_weight: expected a number, got nan"] = {tokens = tokens, lm_weight = math.sqrt(-1)},
         ["unk_score: expected a number or -inf, got inf"] = {tokens = tokens, unk_score = math.huge},
      } do
         local ok, message = pcall(function() ctc_decoder(options) end)
         assert.is_false(ok, expected)
         assert.is_truthy(message:gsub("%-nan", "nan"):find(title .. expected, 1, true), message)
         assert.is_truthy(message:find("decoder_spec.lua:", 1, true), message)
      end
      local _, message, path = with_file("a a |\n\nb b |\n", function(path) ctc_decoder(path, tokens) end)
      assert.is_truthy(message:find(("lexicon: %s, line 3: expected a spelling"):format(path), 1, true), message)
   end)

   it("refuses damaged language models", function()
      local text = read "words.arpa"
      local function change(from, to) return (text:gsub(from:gsub("%p", "%%%0"), (to:gsub("%%", "%%%%")), 1)) end
      local first = text:match "\\2%-grams:\n([^\n]*)\n"
      for _, case in ipairs {
         {"", 'expected "\\data\\" of an ARPA text file, got "the end of the file"'},
         {"mmap lm http://kheafield.com/code", 'line 1: expected "\\data\\" of an ARPA text file, got "mmap lm'},
         {text:sub(1, #text // 2), "got"},
         {text:gsub("\\end\\\n", ""), 'expected "\\end\\", got "the end of the file"'},
         {change("ngram 2=22", "ngram 2=23"), 'expected 23 2-grams, got "22"'},
         {change("ngram 2=22", "ngram 4=22"), 'line 3: expected "ngram 2=<count>" or "\\1-grams:", got "ngram 4=22"'},
         {change("\\2-grams:", "\\4-grams:"), 'expected "\\2-grams:", got "\\4-grams:"'},
         {change(first, "0.5" .. first:match "\t.*"), 'expected a logarithm of at most 0, got "0.5"'},
         {change(first, "x" .. first:match "\t.*"), 'expected a logarithm of at most 0, got "x"'},
         {change(first, first:match "^%S+" .. "\tab"), "expected 2 words and at most one weight"},
         {change(first, first:match "^%S+" .. "\tab zz\t-1"), 'expected words of the 1-grams, got "zz"'},
         {change(first, first:match "^%S+\t%S+ %S+" .. "\t-1-"), 'expected a number as the weight, got "-1-"'},
         {change(first, first .. "\n" .. first), "expected each n-gram once"},
      } do
         local ok, message, path = with_file(case[1], function(path) ctc_decoder(nil, recorded.tokens, path) end)
         assert.is_false(ok)
         assert.is_truthy(message:find(case[2], 1, true), message)
         assert.is_truthy(message:find(("ctc_decoder: lm: %s, line "):format(path), 1, true), message)
         assert.is_truthy(message:find("decoder_spec.lua:", 1, true), message)
      end
      local without = "\\data\\\nngram 1=1\n\\1-grams:\n-1\t<s>\n\\end\\\n"
      local _, message = with_file(without, function(path) ctc_decoder(nil, recorded.tokens, path) end)
      assert.is_truthy(message:find("expected the word </s> among the 1-grams", 1, true), message)
   end)

   it("refuses emissions and calls that do not fit", function()
      local decoder = ctc_decoder {tokens = {"-", "|", "a"}}
      local bad = torch.zeros(2, 3, 3)
      bad[2][3][1] = math.sqrt(-1)
      local title <const> = "audio.models.decoder.CTCDecoder"
      for expected, fn in pairs {
         [": emissions: expected floating-point numbers of shape (batch, time, 3), one score for each token, "
            .. "got a float32 tensor of shape (4, 3)"] = function() decoder(torch.zeros(4, 3)) end,
         ["got a float32 tensor of shape (1, 4, 2)"] = function() decoder(torch.zeros(1, 4, 2)) end,
         ["got an int64 tensor of shape (1, 4, 3)"] = function()
            decoder(torch.zeros(1, 4, 3, {dtype = "int64"}))
         end,
         [": emissions: expected no NaN and no infinity, got NaN at [2, 3, 1]"] = function() decoder(bad) end,
         ["got inf at [1, 1, 1]"] = function() decoder(torch.full({1, 1, 3}, math.huge)) end,
         [": lengths: expected integers of shape (2)"] = function()
            decoder(torch.zeros(2, 3, 3), torch.tensor {3})
         end,
         [": lengths: expected lengths from 0 to 3, got 4"] = function()
            decoder(torch.zeros(1, 3, 3), torch.tensor {4})
         end,
         [".decode_step: expected a call of decode_begin before"] = function()
            decoder:decode_step(torch.zeros(3, 3))
         end,
         [".get_final_hypothesis: expected a call of decode_end before"] = function()
            decoder:get_final_hypothesis()
         end,
         [".idxs_to_tokens: idxs: expected positions from 1 to 3, got 4"] = function()
            decoder:idxs_to_tokens {1, 4}
         end,
      } do
         local ok, message = pcall(fn)
         assert.is_false(ok, expected)
         assert.is_truthy(message:find(title, 1, true) and message:find(expected, 1, true), message)
         assert.is_truthy(message:find("decoder_spec.lua:", 1, true), message)
      end
   end)

   it("keeps scores finite where tokens are impossible", function()
      local x = torch.full({1, 3, 3}, -math.huge)
      x[1]:select(2, 3):fill_(0)
      local found = ctc_decoder {tokens = {"-", "|", "a"}, nbest = 5, log_add = true}(x)[1]
      assert.equal(1, #found)
      assert.equal(0.0, found[1].score)
      assert.same({2, 3}, found[1].tokens:narrow(1, 1, 2):tolist())
   end)
end)
