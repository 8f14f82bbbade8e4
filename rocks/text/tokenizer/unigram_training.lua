-- unigram_training.lua - learns the vocabulary and the scores of a unigram model, as Hugging Face's
-- UnigramTrainer does. The initial pieces are all characters, and texts that occur repeatedly in
-- words, the most frequent first, up to seed_size pieces. Each round first fits the pieces' scores
-- by expectation maximisation. It then removes the pieces whose removal makes the words only
-- slightly less likely. The rounds end when the number of pieces is only a little larger than the
-- wanted number. A piece is a table {text, score}. The first piece stands for characters without a
-- piece.

local pieces = require "tlua.text.tokenizer.pieces"

local M = {}

local exp, log, sub = math.exp, math.log, string.sub

local spare <const> = 50 -- log_sum returns y if x is smaller than y by more than this

-- Returns the logarithm of exp(x) + exp(y).
local function log_sum(x, y)
   if x > y then x, y = y, x end
   if y > x + spare then return y end
   return y + log(exp(x - y) + 1.0)
end

local function digamma(x)
   local result = 0.0
   while x < 7.0 do
      result = result - 1.0 / x
      x = x + 1.0
   end
   x = x - 0.5
   local x2 = 1.0 / x * (1.0 / x)
   local x4 = x2 * x2
   return result + log(x) + (1.0 / 24.0) * x2 - (7.0 / 960.0) * x4 + (31.0 / 8064.0) * x4 * x2
      - (127.0 / 30720.0) * x4 * x4
end

-- First pieces ----------------------------------------------------------------------------------

-- Adds a list `ends` to each word: 0, followed by the last byte of each of its characters.
local function split(words)
   for _, word in ipairs(words) do
      local ends, at = {0}, 0
      for character in word.text:gmatch(pieces.character) do
         at = at + #character
         ends[#ends + 1] = at
      end
      word.ends = ends
   end
end

-- Counts the texts of at least two characters that occur in the list of words. A word of the list
-- counts once, even if it is frequent. A text is kept only if different characters follow its
-- occurrences, where the end of a word counts as a character.
local function repeated(words, most)
   local counts, followers = {}, {}
   for _, word in ipairs(words) do
      local text, ends = word.text, word.ends
      local n = #ends
      for i = 1, n - 2 do
         for j = i + 2, math.min(n, i + most) do
            local part = sub(text, ends[i] + 1, ends[j])
            local follower = j < n and sub(text, ends[j] + 1, ends[j + 1]) or ""
            local count = counts[part]
            if not count then
               counts[part], followers[part] = 1, follower
            else
               counts[part] = count + 1
               if followers[part] ~= follower then followers[part] = true end
            end
         end
      end
   end
   for part in pairs(counts) do
      if followers[part] ~= true then counts[part] = nil end
   end
   return counts
end

local function by_value(a, b)
   if a[2] ~= b[2] then return a[2] > b[2] end
   return a[1] > b[1]
end

local function first_pieces(words, options)
   local characters, single, list = {}, {}, {}
   for _, word in ipairs(words) do
      for character in word.text:gmatch(pieces.character) do
         single[character] = (single[character] or 0) + word.count
      end
   end
   for character, count in pairs(single) do characters[#characters + 1] = {character, count} end
   table.sort(characters, by_value)
   for text, count in pairs(repeated(words, options.max_piece_length)) do
      list[#list + 1] = {text, count * utf8.len(text)}
   end
   table.sort(list, by_value)
   local sum = 0
   for i = 1, math.min(#list, options.seed_size - #characters) do
      characters[#characters + 1] = list[i]
   end
   for _, piece in ipairs(characters) do sum = sum + piece[2] end
   local log_of_sum, all = log(sum), {{"<UNK>", 0 / 0}}
   for i, piece in ipairs(characters) do all[i + 1] = {piece[1], log(piece[2]) - log_of_sum} end
   return all
end

-- Paths -----------------------------------------------------------------------------------------

-- Returns a model as a table. It maps the text of a piece to the piece's number, and has the
-- pieces' scores, and the score of a character without a piece.
local function model_of(list)
   local model, least = {ids = {}, scores = {}, most = 1}, math.huge
   for id, piece in ipairs(list) do
      model.ids[piece[1]], model.scores[id] = id, piece[2]
      if piece[2] < least then least = piece[2] end
      model.most = math.max(model.most, utf8.len(piece[1]))
   end
   model.least, model.unknown = least, least - 10.0
   return model
end

-- Finds all pieces in a text. For each, it writes four values to `nodes`: the position where it
-- begins, the position after it, its number and its score. Returns the number of pieces found.
local function find(model, text, ends, nodes)
   local ids, scores, most = model.ids, model.scores, model.most
   local from, to, id_of, score_of = nodes.from, nodes.to, nodes.id, nodes.score
   local n, k = #ends, 0
   for i = 1, n - 1 do
      local single, first = false, ends[i] + 1
      for j = i + 1, i + most < n and i + most or n do
         local id = ids[sub(text, first, ends[j])]
         if id then
            k = k + 1
            from[k], to[k], id_of[k], score_of[k] = i, j, id, scores[id]
            if j == i + 1 then single = true end
         end
      end
      if not single then
         k = k + 1
         from[k], to[k], id_of[k], score_of[k] = i, i + 1, 1, model.unknown
      end
   end
   return k
end

local function new_nodes() return {from = {}, to = {}, id = {}, score = {}} end

-- Returns the expected number of occurrences of each piece in the words.
local function expectation(model, words, count)
   local expected, nodes = {}, new_nodes()
   for id = 1, count do expected[id] = 0.0 end
   local from, to, id_of, score_of = nodes.from, nodes.to, nodes.id, nodes.score
   for _, word in ipairs(words) do
      local k = find(model, word.text, word.ends, nodes)
      local n, before, after = #word.ends, {0.0}, {}
      for i = 1, k do
         local stop, value = to[i], score_of[i] + before[from[i]]
         local old = before[stop]
         before[stop] = old and log_sum(old, value) or value
      end
      after[n] = 0.0
      local i = k
      while i >= 1 do
         local start = from[i]
         local first = i
         while first > 1 and from[first - 1] == start do first = first - 1 end
         local sum
         for m = first, i do
            local value = score_of[m] + after[to[m]]
            sum = sum and log_sum(sum, value) or value
         end
         after[start], i = sum, first - 1
      end
      local whole, times = before[n], word.count
      for m = 1, k do
         local total = before[from[m]] + score_of[m] + after[to[m]] - whole
         expected[id_of[m]] = expected[id_of[m]] + times * exp(total)
      end
   end
   return expected
end

local function maximisation(list, expected)
   local kept, sum = {{list[1][1], 0 / 0}}, 0.0
   for id = 2, #list do
      if expected[id] >= 0.5 then
         kept[#kept + 1] = {list[id][1], expected[id]}
         sum = sum + expected[id]
      end
   end
   local whole = digamma(sum)
   for i = 2, #kept do kept[i][2] = digamma(kept[i][2]) - whole end
   return kept
end

-- Returns how often each piece occurs on the best paths of the words, which are their most likely
-- divisions into pieces.
local function best_paths(model, words, count)
   local frequency, nodes = {}, new_nodes()
   for id = 1, count do frequency[id] = 0.0 end
   for _, word in ipairs(words) do
      local k = find(model, word.text, word.ends, nodes)
      local best, node = {0.0}, {}
      for i = 1, k do
         local stop, value = nodes.to[i], nodes.score[i] + best[nodes.from[i]]
         if not node[stop] or value > best[stop] then best[stop], node[stop] = value, i end
      end
      local at = #word.ends
      while at > 1 do
         local i = node[at]
         frequency[nodes.id[i]] = frequency[nodes.id[i]] + word.count
         at = nodes.from[i]
      end
   end
   return frequency
end

-- Returns the two most likely divisions of a text into pieces, as lists of the numbers of pieces,
-- the last piece first.
local function two_best(model, text, ends, nodes)
   local k, n = find(model, text, ends, nodes), #ends
   local paths = {{{score = 0.0}}}
   for i = 2, n do paths[i] = {} end
   for i = 1, k do
      local list = paths[nodes.to[i]]
      for _, path in ipairs(paths[nodes.from[i]]) do
         local new = {score = path.score + nodes.score[i], id = nodes.id[i], before = path}
         local place = #list + 1
         while place > 1 and new.score > list[place - 1].score do place = place - 1 end
         table.insert(list, place, new)
         list[3] = nil
      end
   end
   local found = {}
   for i, path in ipairs(paths[n]) do
      found[i] = {}
      while path.id do
         table.insert(found[i], path.id)
         path = path.before
      end
   end
   return found
end

-- Sorts by score (field 2), the highest first. Equal scores are sorted by position (field 3).
local function by_score(a, b)
   if a[2] ~= b[2] then return a[2] > b[2] end
   return a[3] < b[3]
end

-- Removes the pieces whose removal lowers the likelihood of the words the least.
local function prune(model, list, words, options)
   local frequency, nodes = best_paths(model, words, #list), new_nodes()
   local sum, texts, all = 0.0, {}, 0.0
   for _, value in ipairs(frequency) do sum = sum + value end
   for _, word in ipairs(words) do all = all + word.count end
   for id, piece in ipairs(list) do texts[id] = {text = piece[1]} end
   split(texts)
   local kept, candidates, log_of_sum = {list[1]}, {}, log(sum)
   for id = 2, #list do
      local paths = two_best(model, texts[id].text, texts[id].ends, nodes)
      local is_whole = #paths[1] == 1
      local others = is_whole and paths[2] or nil
      local often = frequency[id]
      if not others and (often > 0 or #paths == 1) then
         kept[#kept + 1] = list[id]
      elseif others and often > 0 then
         local log_of_all, loss = log(sum + often * (#others - 1)), log(often) - log_of_sum
         for i = #others, 1, -1 do
            loss = loss - (log(frequency[others[i]] + often) - log_of_all)
         end
         candidates[#candidates + 1] = {id, often / all * loss, id}
      end
   end
   table.sort(candidates, by_score)
   local size = math.max(options.vocab_size * 11 // 10, #list * options.shrinking_factor // 1)
   for _, candidate in ipairs(candidates) do
      if #kept == size then break end
      kept[#kept + 1] = list[candidate[1]]
   end
   return kept
end

-- The vocabulary --------------------------------------------------------------------------------

local function required(words, options)
   local seen, list = {}, {}
   local function add(character)
      if not seen[character] then
         seen[character] = true
         list[#list + 1] = character
      end
   end
   for _, word in ipairs(words) do
      for character in word.text:gmatch(pieces.character) do add(character) end
   end
   for _, text in ipairs(options.initial_alphabet) do add(text:match(pieces.character)) end
   table.sort(list)
   return list
end

local function finish(list, characters, options)
   local model, found, inserted, penalty = model_of(list), {}, {["<UNK>"] = true}, 0.0
   local function insert(text, score)
      found[#found + 1], inserted[text] = {text, score, #found}, true
   end
   for _, character in ipairs(characters) do
      local id = model.ids[character]
      if id then
         insert(character, list[id][2])
      else
         insert(character, model.least + penalty)
         penalty = penalty + 0.0001
      end
   end
   local special, unknown = {}, nil
   for i, token in ipairs(options.special_tokens) do
      special[i] = {type(token) == "table" and token.content or token, 0.0}
      if special[i][1] == options.unk_token then unknown = unknown or i - 1 end
   end
   if options.unk_token and not unknown then
      table.insert(special, 1, {options.unk_token, 0.0})
      unknown = 0
   end
   local room = options.vocab_size - #special
   for _, piece in ipairs(list) do
      if not inserted[piece[1]] then
         insert(piece[1], piece[2])
         if #found == room then break end
      end
   end
   table.sort(found, by_score)
   for _, piece in ipairs(found) do special[#special + 1] = {piece[1], piece[2]} end
   return special, unknown
end

--- Learns a vocabulary. Raises a string as the error if vocab_size is too small for the characters
--- of the words.
---@param words {text: string, count: integer}[]
---@param options table  of trainers.lua
---@return table[] vocab  a list of {token, score}
---@return integer? unknown  the number of the unknown token, from 0
function M.train(words, options)
   split(words)
   local characters = required(words, options)
   if #characters > options.vocab_size then
      error(("vocab_size: expected at least %d, for the characters of the texts, got %d"):format(
         #characters, options.vocab_size), 0)
   end
   if #words == 0 then return finish({{"<UNK>", 0 / 0}}, characters, options) end
   local list = first_pieces(words, options)
   local most, model = options.vocab_size * 11 // 10, model_of(list)
   while true do
      for _ = 1, options.n_sub_iterations do
         list = maximisation(list, expectation(model, words, #list))
         model = model_of(list)
      end
      if #list <= most then break end
      local pruned = prune(model, list, words, options)
      if #pruned == #list then break end
      list, model = pruned, model_of(pruned)
   end
   return finish(list, characters, options)
end

return M
