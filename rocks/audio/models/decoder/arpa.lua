-- arpa.lua - n-gram language models in the ARPA text format.
--
-- A model is a table {order, probs, backoffs}. The keys of `probs` and `backoffs` are n-grams:
-- words joined by spaces. `probs` has the base-10 logarithm of the probability of an n-gram's last
-- word after its other words. `backoffs` has the base-10 logarithm of the weight of an n-gram as a
-- context. This weight is added if the model does not know the n-gram followed by the next word, so
-- that a shorter context is used.

local torch = require "tlua"

local M = {}

-- The base-10 logarithm of an unknown word's probability in a model that lacks <unk>.
local unknown <const> = -100.0

local function to_number(text) return text:find "^[%d.eE+-]+$" and tonumber(text) end

-- Reads a line "ngram <order>=<count>", and appends the count to a list.
local function read_count(counts, line, fail)
   local order, count = line:match "^ngram%s+(%d+)%s*=%s*(%d+)$"
   if not order or tonumber(order) ~= #counts + 1 then
      fail(("expected \"ngram %d=<count>\" or \"\\1-grams:\""):format(#counts + 1), line)
   end
   counts[#counts + 1] = tonumber(count)
end

-- Reads an n-gram of a given order. Its line has the probability, the words, and, except for the
-- highest order, the backoff weight.
local function read_ngram(model, order, line, fail)
   local parts = {}
   for part in line:gmatch "%S+" do parts[#parts + 1] = part end
   local prob = to_number(parts[1])
   if not prob or prob > 0 then fail("expected a logarithm of at most 0", parts[1]) end
   if #parts ~= order + 1 and (#parts ~= order + 2 or order == model.order) then
      fail(("expected %d %s%s"):format(order, order == 1 and "word" or "words",
         order < model.order and " and at most one weight" or ""), line)
   end
   local key = table.concat(parts, " ", 2, order + 1)
   if model.probs[key] then fail("expected each n-gram once", key) end
   for i = 2, order > 1 and order + 1 or 0 do
      if not model.probs[parts[i]] then fail("expected words of the 1-grams", parts[i]) end
   end
   model.probs[key] = prob + 0.0
   if parts[order + 2] then
      local weight = to_number(parts[order + 2])
      if not weight then fail("expected a number as the weight", parts[order + 2]) end
      model.backoffs[key] = weight + 0.0
   end
end

--- Reads a language model.
---@param title string  the function's name, for error messages
---@param path string
---@return table model
function M.read(title, path)
   local file <close>, why = io.open(path, "rb")
   local text = file and file:read "a"
   if not text then
      torch.raise(("%s: lm: cannot read %q: %s"):format(title, path, why or "not a file"))
   end
   local number = 0
   local function fail(expected, got)
      got = ("%q"):format(#got > 60 and got:sub(1, 60) .. "..." or got):gsub("\\\\", "\\")
      torch.raise(("%s: lm: %s, line %d: %s, got %s"):format(title, path, number, expected, got))
   end
   local model, counts, order, seen = {probs = {}, backoffs = {}}, {}, nil, 0
   local function close_section()
      if order > 0 and seen ~= counts[order] then
         fail(("expected %d %d-grams"):format(counts[order], order), tostring(seen))
      end
   end
   local ended = false
   for line in (text .. "\n"):gmatch "(.-)\r?\n" do
      number, line = number + 1, line:match "^%s*(.-)%s*$"
      if line == "" or ended then
         goto next -- lines after the end of the model are ignored
      elseif not order then
         if line ~= "\\data\\" then fail("expected \"\\data\\\" of an ARPA text file", line) end
         order = 0
      elseif line:find "^\\%d+%-grams:$" or line == "\\end\\" then
         close_section()
         local after = order == #counts and order > 0 and "\\end\\"
            or ("\\%d-grams:"):format(order + 1)
         if line ~= after or #counts == 0 then fail('expected "' .. after .. '"', line) end
         order, seen, model.order, ended = order + 1, 0, #counts, line == "\\end\\"
      elseif order == 0 then
         read_count(counts, line, fail)
      else
         seen = seen + 1
         read_ngram(model, order, line, fail)
      end
      ::next::
   end
   if not ended then
      fail(order and "expected \"\\end\\\"" or "expected \"\\data\\\" of an ARPA text file",
         "the end of the file")
   end
   for _, word in ipairs {"<s>", "</s>"} do
      if not model.probs[word] then
         torch.raise(("%s: lm: %s: expected the word %s among the 1-grams"):format(title, path,
            word))
      end
   end
   model.probs["<unk>"] = model.probs["<unk>"] or model.probs["<UNK>"] or unknown
   return model
end

--- Returns the base-10 logarithm of a word's probability after a context. Also returns the context
--- of the next word.
---@param model table
---@param context string[]  at most order - 1 words
---@param word string
---@return number
---@return string[]
function M.score(model, context, word)
   if not model.probs[word] then word = "<unk>" end
   local score, n = 0.0, #context
   for first = 1, n + 1 do
      local before = table.concat(context, " ", first)
      local prob = model.probs[first > n and word or before .. " " .. word]
      if prob then
         score = score + prob
         break
      end
      score = score + (model.backoffs[before] or 0.0)
   end
   local all = table.move(context, 1, n, 1, {})
   all[n + 1] = word
   return score, table.move(all, math.max(1, n + 3 - model.order), n + 1, 1, {})
end

return M
