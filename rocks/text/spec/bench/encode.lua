-- encode.lua - times a tokenizer. encode.py runs this program and compares the times with those of Hugging Face's
-- tokenizers:
--
--    tlua rocks/text/spec/bench/encode.lua TOKENIZER.json TEXTS
--
-- Prints the seconds for loading, for a first pass over the texts and for the fastest of three further passes, the
-- number of tokens, and a sum of their numbers.

local torch = require "tlua"

local texts = {}
for text in assert(io.open(arg[2], "rb")):read "a":gmatch "[^\0]+" do texts[#texts + 1] = text end

torch.set_num_threads(1)
local start = os.clock()
local tokenizer = assert(torch.text.Tokenizer.from_file(arg[1]))
local load = os.clock() - start

local function pass()
   local count, sum = 0, 0
   start = os.clock()
   local list = {}
   for i = 1, #texts do list[i] = tokenizer:encode(texts[i]) end
   local taken = os.clock() - start
   for _, encoding in ipairs(list) do
      for k, id in ipairs(encoding.ids) do sum = (sum + id * k) % 1000000007 end
      count = count + #encoding.ids
   end
   return taken, count, sum
end

local cold, count, sum = pass()
local warm = math.huge
for _ = 1, 3 do warm = math.min(warm, (pass())) end
print(("%.5f %.5f %.5f %d %d"):format(load, cold, warm, count, sum))
