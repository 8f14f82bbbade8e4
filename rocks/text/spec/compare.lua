-- compare.lua - compares torch.text.Tokenizer with results that fixtures/tokenizers.py has written into a folder: tlua
-- rocks/text/spec/compare.lua FOLDER [KIND...]. The specs call `kind`, which this file returns.

local json = require "tlua.utils.json"
local torch = require "tlua"

local M = {}

local function joined(list, plus)
   local copy = {}
   for i, value in ipairs(list) do copy[i] = value and tostring(value + plus) or "-1" end
   return table.concat(copy, " ")
end

-- Returns the fields of an encoding as texts. Offsets, word numbers and type numbers begin at 0 in these texts, as in
-- the fixtures; in the encoding they begin at 1.
local function fields(encoding)
   local places = {}
   for i, pair in ipairs(encoding.offsets) do
      places[2 * i - 1], places[2 * i] = pair[1] - 1, pair[2]
   end
   return {ids = joined(encoding.file_ids, 0), tokens = table.concat(encoding.tokens, "\0"),
      offsets = joined(places, 0), words = joined(encoding.word_ids, -1),
      types = joined(encoding.type_ids, -1), special = joined(encoding.special_tokens_mask, 0),
      attention = joined(encoding.attention_mask, 0)}
end

local function check(encoding, expected, name)
   local mine = fields(encoding)
   for _, key in ipairs {"ids", "tokens", "offsets", "words", "types", "special", "attention"} do
      local want = key == "tokens" and table.concat(expected[key], "\0") or joined(expected[key], 0)
      if mine[key] ~= want then
         return ("%s%s: expected\n  %s, got\n  %s"):format(name, key, want:gsub("%z", "|"),
            (mine[key]:gsub("%z", "|")))
      end
   end
end

-- Tokenizes the text of a case. Returns a description of the first difference from the expected tokens, or nil if there
-- is none.
local function compare(tokenizer, case)
   tokenizer:no_truncation():no_padding()
   local cut, pad = case.truncation, case.padding
   if cut then
      tokenizer:enable_truncation(cut.max_length, {stride = cut.stride, strategy = cut.strategy,
         direction = cut.direction})
   end
   if pad then
      tokenizer:enable_padding {direction = pad.direction, pad_id = pad.pad_id + 1,
         pad_type_id = pad.pad_type_id + 1, pad_token = pad.pad_token, length = pad.length}
   end
   local encoding = tokenizer:encode(case.text, case.pair, {add_special_tokens = not case.plain})
   local why = check(encoding, case.expected, "")
   if why then return why end
   if #encoding.overflowing ~= #case.overflowing then
      return ("%d parts were cut off, expected %d"):format(#encoding.overflowing, #case.overflowing)
   end
   for i, part in ipairs(encoding.overflowing) do
      why = check(part, case.overflowing[i], ("part %d: "):format(i))
      if why then return why end
   end
   local decoded = tokenizer:decode(encoding.ids, {skip_special_tokens = not case.keep})
   if decoded ~= case.decoded then
      return ("decode: expected %q, got %q"):format(case.decoded, decoded)
   end
end

--- Compares all texts for one kind of tokenizer. Returns the number of texts, and the list of differences.
---@param folder string
---@param name string
---@return integer
---@return string[]
function M.kind(folder, name)
   local tokenizer = assert(torch.text.Tokenizer.from_file(("%s/%s.json"):format(folder, name)))
   local count, differences = 0, {}
   for line in io.lines(("%s/%s.cases"):format(folder, name)) do
      local case = assert(json.decode(line))
      count = count + 1
      local ok, why = pcall(compare, tokenizer, case)
      if not ok or why then
         differences[#differences + 1] = ("%s: %q %q\n%s"):format(name, case.text, case.pair or "",
            tostring(why))
      end
   end
   return count, differences
end

--- The kinds of tokenizers for which fixtures/tokenizers.py writes results.
---@type string[]
M.kinds = {}
for name in ([[gpt2 roberta llama3 qwen o200k deepseek whisper clip bert bert_cased electra xlmr t5
      albert nmt llama2 mistral unknown words gpt1]]):gmatch "%S+" do
   table.insert(M.kinds, name)
end

if arg and arg[0] and arg[0]:find "compare%.lua$" then
   for _, name in ipairs(arg[2] and {table.unpack(arg, 2)} or M.kinds) do
      local count, differences = M.kind(arg[1], name)
      print(("%-10s %d texts, %d differ"):format(name, count, #differences))
      for i = 1, math.min(3, #differences) do print(differences[i]) end
   end
end

return M
