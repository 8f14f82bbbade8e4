-- Tests torch.text.BPE against Hugging Face's tokenizers.

local shell = require "spec.support.shell"
local torch = require "tlua"
local json = require "tlua.utils.json"
local fixture = dofile "rocks/text/spec/fixtures/bpe.lua"
local BPE = torch.text.BPE

local function write(path, text)
   local file = assert(io.open(path, "wb"))
   file:write(text)
   file:close()
end

-- Calls fn with files that contain the fixture's vocabulary.
local function with_files(fn)
   shell.with_folder(function(folder)
      local vocab, merges = folder .. "/vocab.json", folder .. "/merges.txt"
      local numbers = {}
      for i, token in ipairs(fixture.vocab) do numbers[token] = i - 1 end
      write(vocab, json.encode(numbers))
      write(merges, "#version: 0.2\n" .. table.concat(fixture.merges, "\n") .. "\n")
      fn(vocab, merges, folder)
   end)
end

local function check_cases(bpe)
   for _, case in ipairs(fixture.cases) do
      local text, numbers = case[1], {}
      for i, number in ipairs(case[2]) do numbers[i] = number + 1 end
      assert.same(numbers, bpe:encode(text), ("%q"):format(text))
      assert.equal(text, bpe:decode(numbers))
   end
end

describe("text.BPE", function()
   it("makes the tokens of Hugging Face's tokenizers", function()
      with_files(function(vocab, merges)
         local bpe = assert(BPE.load(vocab, merges))
         assert.equal(320, bpe.vocab_size)
         check_cases(bpe)
      end)
   end)

   it("writes the files that it reads", function()
      with_files(function(vocab, merges, folder)
         local bpe = assert(BPE.load(vocab, merges))
         assert.is_true(bpe:save(folder .. "/v", folder .. "/m"))
         check_cases(assert(BPE.load(folder .. "/v", folder .. "/m")))
      end)
   end)

   it("reads tiktoken's ranks", shell.in_folder(function(folder)
      local path = folder .. "/ranks"
      -- the tokens are "a", "b", " ", "ab" and " ab"
      write(path, "YQ== 0\nYg== 1\nIA== 2\nYWI= 3\nIGFi 4\n")
      local bpe = assert(BPE.load_tiktoken(path))
      assert.same({4, 5, 4, 1}, bpe:encode "ab ababa")
      assert.equal("ab ab", bpe:decode(torch.tensor {4, 5}))
      assert.raises("text.BPE.encode: the vocabulary lacks the token \"c\"", function() bpe:encode "c" end)
      write(path, "YQ== 0\nYg== 7\n")
      local none, message = BPE.load_tiktoken(path)
      assert.is_nil(none)
      assert.matches("numbers have gaps", message)
   end))

   it("learns the most frequent pairs", function()
      local bpe = BPE.train("low low low lower lowest", {vocab_size = 260})
      assert.same({"lo", "low", " low", " lowe"}, table.move(bpe.tokens, 257, 260, 1, {}))
      assert.equal(2, #bpe:encode "low lowe")
      local text = "any bytes: \0\255\200 é"
      assert.equal(text, bpe:decode(bpe:encode(text)))
      assert.equal(256, BPE.train("abc").vocab_size) -- no pair occurs twice in "abc", so nothing is merged
   end)

   it("splits words as GPT-2's pattern does", function()
      local words = {}
      for word in BPE.words "I'm  here,\n\n you're42" do words[#words + 1] = word end
      assert.same({"I", "'m", " ", " here", ",", "\n\n", " you", "'re", "42"}, words)
   end)

   it("names wrong files and arguments in its errors", function()
      shell.with_folder(function(folder)
         local path = folder .. "/file"
         assert.is_nil((BPE.load(path, path)))
         write(path, "[1, 2")
         local _, message = BPE.load(path, path)
         assert.matches("at byte", message)
         write(path, '{"a": 0, "b": 0}')
         _, message = BPE.load(path, path)
         assert.matches("has no number of its own", message)
      end)
      assert.raises("vocab_size: expected an integer of at least 256, got 3",
         function() BPE.train("a", {vocab_size = 3}) end)
      assert.raises("text.BPE.decode: number 1: expected an integer from 1 to 256, got 999",
         function() BPE.train("a"):decode {999} end)
   end)
end)
