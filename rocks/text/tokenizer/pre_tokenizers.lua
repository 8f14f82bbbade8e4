-- pre_tokenizers.lua - the pre-tokenisers of tokenizer.json. A pre-tokeniser is a table:
--
--    apply(piece, into)  appends the parts of a piece to a list
--    is_local            whether the parts of a text consist of the parts of the text's chunks
--                        (see chunks.lua)
--    splits              whether a text is always split between two chunks
--    drops_spaces        whether white space is dropped from all parts
--    ignores_spaces      whether the parts of a text also consist of its chunks' parts, although
--                        is_local is false, if a later pre-tokeniser drops white space
--    needs_whole(text)   optional: whether a text is an exception to is_local
--    space               optional: the character that replaces each space
--    config              the pre-tokeniser's configuration; a sequence also has the field `parts`

local characters = require "tlua.text.tokenizer.characters"
local chunks = require "tlua.text.tokenizer.chunks"
local normalizers = require "tlua.text.tokenizer.normalizers"
local pieces = require "tlua.text.tokenizer.pieces"

local M = {}

local makers = {}

local function by_class(name)
   local class = characters.class(name)
   return setmetatable({}, {__index = function(self, character)
      local value = class[utf8.codepoint(character)]
      self[character] = value
      return value
   end, __mode = "k"})
end

local spaces = by_class "space"
local punctuation = by_class "punctuation"
local numbers = by_class "numeric"

local function split_spaces(piece, into)
   if not pieces.is_ascii(piece.text) then
      return pieces.split(piece, pieces.by_character(piece.text, spaces), "Removed", into)
   end
   local at, text = 1, piece.text
   while true do
      local first, last = text:find("[^ \t-\r]+", at)
      if not first then return end
      into[#into + 1] = pieces.slice(piece, first, last)
      at = last + 1
   end
end

makers.WhitespaceSplit = function()
   return {is_local = true, splits = true, drops_spaces = true, apply = split_spaces}
end

local function split_punctuation(piece, into)
   if not piece.text:find "[%p\x80-\xFF]" then
      into[#into + 1] = piece
      return
   end
   pieces.split(piece, pieces.by_character(piece.text, punctuation), "Isolated", into)
end

makers.BertPreTokenizer = function()
   return {is_local = true, splits = true, drops_spaces = true, apply = function(piece, into)
      local words = {}
      split_spaces(piece, words)
      for i = 1, #words do split_punctuation(words[i], into) end
   end}
end

local function inverted(list)
   for k = 3, #list, 3 do list[k] = not list[k] end
   return list
end

local function is_word(code) return characters.class "rust_word"[code] end
local function is_mark(code)
   return not (characters.class "space"[code] or characters.class "rust_word"[code])
end

-- Returns the runs of characters of the same kind (word or punctuation mark) in a text.
local function words_and_marks(text)
   local list, at, length = {}, 1, #text
   while at <= length do
      local _, last = text:find("^[%w_]+", at)
      if not last then _, last = text:find("^[^%w%s_\x80-\xFF]+", at) end
      local next_byte = last and text:byte(last + 1)
      if last and not (next_byte and next_byte >= 128) then
         list[#list + 1], list[#list + 2], list[#list + 3] = at, last, true
         at = last + 1
      else
         local code = utf8.codepoint(text, at)
         local kind = is_word(code) and is_word or is_mark(code) and is_mark
         local stop = utf8.offset(text, 2, at)
         while kind and stop <= length and kind(utf8.codepoint(text, stop)) do
            stop = utf8.offset(text, 2, stop)
         end
         if kind then list[#list + 1], list[#list + 2], list[#list + 3] = at, stop - 1, true end
         at = stop
      end
   end
   return list
end

makers.Whitespace = function()
   return {is_local = true, splits = true, drops_spaces = true, apply = function(piece, into)
      pieces.split(piece, words_and_marks(piece.text), "Isolated", into)
   end}
end

local function behavior_of(config, fail)
   local behavior = config.behavior or "Isolated"
   if not pieces.behaviors[behavior] then
      fail(("expected a known behavior, got %s"):format(tostring(behavior)))
   end
   return behavior
end

makers.Punctuation = function(config, fail)
   local behavior = behavior_of(config, fail)
   return {is_local = true, apply = function(piece, into)
      pieces.split(piece, pieces.by_character(piece.text, punctuation), behavior, into)
   end}
end

makers.Digits = function(config)
   local behavior = config.individual_digits and "Isolated" or "Contiguous"
   return {is_local = true, apply = function(piece, into)
      pieces.split(piece, pieces.by_character(piece.text, numbers), behavior, into)
   end}
end

local function one_character(text, name, fail)
   if type(text) ~= "string" or utf8.len(text) ~= 1 then
      fail(("expected one character as %s, got %s"):format(name, tostring(text)))
   end
   return text
end

makers.CharDelimiterSplit = function(config, fail)
   local delimiter = one_character(config.delimiter, "delimiter", fail)
   local test = {[delimiter] = true}
   return {is_local = true, splits = delimiter == " ", apply = function(piece, into)
      pieces.split(piece, pieces.by_character(piece.text, test), "Removed", into)
   end}
end

-- Returns whether a pattern, used with these options, always splits a text between two chunks.
local function splits_chunks(pattern, behavior, inverts)
   return chunks.splits(function(text)
      local list, into, stops = pieces.by_regex(text, pattern), {}, {}
      pieces.split(pieces.new(text, 0), inverts and inverted(list) or list, behavior, into)
      for i, piece in ipairs(into) do
         stops[2 * i - 1], stops[2 * i] = piece.base, piece.base + #piece.text
      end
      return stops
   end)
end

makers.Split = function(config, fail)
   local pattern = normalizers.pattern(config.pattern, fail)
   local behavior, inverts = behavior_of(config, fail), config.invert
   local is_local
   if pattern.literal then
      is_local = not pattern.literal:find("[ \u{2581}]", 2)
   else
      is_local = chunks.is_local(pattern.node)
   end
   -- In the most frequent case, the parts are the matches and the texts between them, which `apply`
   -- finds without the general method.
   local direct = not pattern.literal and not inverts and behavior == "Isolated"
   return {
      pattern = pattern, is_local = is_local,
      splits = is_local and splits_chunks(pattern, behavior, inverts),
      apply = function(piece, into)
         local text = piece.text
         if direct and not piece.starts then
            local match, at, n, length, base = pattern.match, 1, #into, #text, piece.base
            local begun, first = n, nil
            while at <= length do
               local last
               first, last = match(text, at)
               if not first or last < first then break end
               if first > at then
                  n = n + 1
                  into[n] = {text = text:sub(at, first - 1), base = base + at - 1}
               end
               n = n + 1
               into[n] = {text = text:sub(first, last), base = base + first - 1}
               at = last + 1
            end
            if at > length then return end
            if not first then
               into[n + 1] = {text = text:sub(at), base = base + at - 1}
               return
            end
            -- The pattern has matched an empty text, which only the general method handles. So the
            -- parts that were added are removed, and the whole text is split again.
            for i = n, begun + 1, -1 do into[i] = nil end
         end
         local list = pieces.by_regex(text, pattern)
         pieces.split(piece, inverts and inverted(list) or list, behavior, into)
      end,
   }
end

makers.Metaspace = function(config, fail)
   local mark = one_character(config.replacement, "replacement", fail)
   local scheme = config.prepend_scheme
   if not scheme then scheme = config.add_prefix_space == false and "never" or "always" end
   if scheme ~= "always" and scheme ~= "first" and scheme ~= "never" then
      fail(("expected always, first or never as prepend_scheme, got %s"):format(tostring(scheme)))
   end
   local splits, length = config.split ~= false, #mark
   return {is_local = true, splits = splits, space = mark, apply = function(piece, into)
      local text = piece.text
      if text:find(" ", 1, true) then
         local found, at = {}, 1
         while true do
            local space = text:find(" ", at, true)
            if not space then break end
            found[#found + 1], found[#found + 2] = space, space
            at = space + 1
         end
         pieces.replace(piece, found, mark)
      end
      local prepends = scheme == "always" or scheme == "first" and piece.base == 0
      if prepends and piece.text:sub(1, length) ~= mark then pieces.prepend(piece, mark) end
      text = piece.text
      if not splits then
         into[#into + 1] = piece
         return
      end
      local at = 1
      while at <= #text do
         local stop = (text:find(mark, at + 1, true) or #text + 1) - 1
         into[#into + 1] = pieces.slice(piece, at, stop)
         at = stop + 1
      end
   end}
end

local gpt2 <const> = [['s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+]]

makers.ByteLevel = function(config, fail)
   local uses_regex, prefixes = config.use_regex ~= false, config.add_prefix_space
   if prefixes == nil then prefixes = true end
   local split = uses_regex
      and makers.Split({pattern = {Regex = gpt2}, behavior = "Isolated"}, fail)
   local self = {is_local = true, splits = uses_regex, is_byte_level = true, split = split}
   function self.apply(piece, into)
      if prefixes and piece.text:byte() ~= 32 then pieces.prepend(piece, " ") end
      local from = #into + 1
      if split then split.apply(piece, into) else into[from] = piece end
      if self.keeps_bytes then return end -- the model's tokens are bytes already
      for i = from, #into do normalizers.byte_level(into[i]) end
   end
   return self
end

local function split_scripts(piece, into)
   local text, at, first, last = piece.text, 1, nil, nil
   for _, code in utf8.codes(text) do
      local script = characters.script[code]
      if script ~= "0" and last ~= script then
         if first then into[#into + 1] = pieces.slice(piece, first, at - 1) end
         first, last = at, script
      end
      at = at + #utf8.char(code)
   end
   if first then into[#into + 1] = pieces.slice(piece, first, #text) end
end

-- Returns whether a text has a character other than a space that belongs to no script. Such
-- characters are dropped at the beginning of a text, so a text that has them is not cut into
-- chunks.
local function lacks_script(text)
   for character in text:gmatch "[\xC2-\xF4][\x80-\xBF]*" do
      if characters.script[utf8.codepoint(character)] == "0" then return true end
   end
   return false
end

makers.UnicodeScripts = function()
   return {is_local = false, ignores_spaces = true, needs_whole = lacks_script,
      apply = split_scripts}
end

makers.FixedLength = function(config, fail)
   local length = config.length or 5
   if math.type(length) ~= "integer" or length < 1 then fail "expected a length of at least 1" end
   return {is_local = false, apply = function(piece, into)
      local text, at = piece.text, 1
      while at <= #text do
         local stop = utf8.offset(text, length + 1, at) or #text + 1
         into[#into + 1] = pieces.slice(piece, at, stop - 1)
         at = stop
      end
   end}
end

makers.Sequence = function(config, fail)
   local list, whole = {}, {is_local = true, splits = false}
   if type(config.pretokenizers) ~= "table" then fail "expected a list of pretokenizers" end
   for i, part in ipairs(config.pretokenizers) do
      list[i] = M.make(part, function(why) fail(("pretokenizers[%d]: %s"):format(i, why)) end)
      whole.splits = whole.splits or list[i].splits
      whole.needs_whole = whole.needs_whole or list[i].needs_whole
   end
   local drops_spaces = false -- becomes true if a later pre-tokeniser drops spaces
   for i = #list, 1, -1 do
      whole.is_local = whole.is_local
         and (list[i].is_local or drops_spaces and list[i].ignores_spaces or false)
      drops_spaces = drops_spaces or list[i].drops_spaces
   end
   whole.parts = list
   whole.last = list[#list] and (list[#list].last or list[#list])
   function whole.apply(piece, into)
      local parts = {piece}
      for i = 1, #list do
         local new = i == #list and into or {}
         for k = 1, #parts do list[i].apply(parts[k], new) end
         parts = new
      end
      if #list == 0 then into[#into + 1] = piece end
   end
   return whole
end

--- Creates a pre-tokeniser from its configuration. Calls fail(why) if the configuration is invalid.
---@param config table
---@param fail fun(why: string)
---@return table
function M.make(config, fail)
   local maker = type(config) == "table" and makers[config.type]
   if not maker then
      fail(("expected a known type of pre-tokenizer, got %s"):format(
         tostring(type(config) == "table" and config.type or config)))
   end
   local part = maker(config, fail)
   part.config = config
   return part
end

return M
