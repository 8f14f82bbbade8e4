-- normalizers.lua - the normalisers of tokenizer.json. A normaliser is a table:
--
--    apply(piece, ends)  changes a piece; ends.first and ends.last tell whether the piece is the
--                        first and the last of its text
--    is_local            whether the result for a text consists of the results for the text's
--                        chunks (see chunks.lua)
--    by_ends             whether the result depends on ends.first and ends.last
--    config              the normaliser's configuration; a sequence also has the field `parts`

local characters = require "tlua.text.tokenizer.characters"
local charsmap = require "tlua.text.tokenizer.charsmap"
local pieces = require "tlua.text.tokenizer.pieces"
local regex = require "tlua.text.tokenizer.regex"

local M = {}

local makers = {}

-- Returns a table that maps a character to make(code) and caches the results.
local function by_character(make)
   return setmetatable({}, {__index = function(self, character)
      local value = make(utf8.codepoint(character))
      self[character] = value
      return value
   end, __mode = "k"})
end

-- Forms -----------------------------------------------------------------------------------------

-- Sorts the combining marks between two positions of a list by their combining classes.
local function sort_marks(codes, changes, first, last)
   for i = first + 1, last do
      local code, change, k = codes[i], changes[i], i - 1
      local class = characters.combining[code]
      while k >= first and characters.combining[codes[k]] > class do
         codes[k + 1], changes[k + 1] = codes[k], changes[k]
         k = k - 1
      end
      codes[k + 1], changes[k + 1] = code, change
   end
end

local function decompose(text, is_compatible)
   local codes, changes, n, marks, changed = {}, {}, 0, 1, false
   for _, code in utf8.codes(text) do
      local parts = code >= 128 and characters.decomposition(code, is_compatible)
      if parts then changed = true end
      for i = 1, parts and #parts or 1 do
         n = n + 1
         codes[n], changes[n] = parts and parts[i] or code, i == 1 and 0 or 1
         if characters.combining[codes[n]] == 0 then
            sort_marks(codes, changes, marks, n - 1)
            marks = n + 1
         end
      end
   end
   sort_marks(codes, changes, marks, n)
   return codes, changes, changed
end

local function recompose(codes, changes)
   local new, new_changes, n = {}, {}, 0
   -- `starter` is the position of the last character that is not a combining mark. `last_class` is
   -- the combining class of the mark before the current character.
   local starter, last_class
   for i = 1, #codes do
      local code, class = codes[i], characters.combining[codes[i]]
      local free = starter and (not last_class or last_class < class)
      local whole = free and characters.compose(new[starter], code)
      if whole then
         new[starter], new_changes[starter] = whole, new_changes[starter] + changes[i] - 1
      else
         n = n + 1
         new[n], new_changes[n] = code, changes[i]
         if class == 0 then
            starter, last_class = n, nil
         elseif starter then
            last_class = class
         end
      end
   end
   return new, new_changes
end

local function form(is_compatible, composes)
   return {is_local = true, apply = function(piece)
      if pieces.is_ascii(piece.text) then return end
      local codes, changes, changed = decompose(piece.text, is_compatible)
      if composes then codes, changes = recompose(codes, changes) end
      local list, n = {}, #codes
      for i = 1, n do
         list[i] = utf8.char(codes[i])
         if changes[i] ~= 0 then changed = true end
      end
      if not changed and table.concat(list) == piece.text then return end
      pieces.transform(piece, list, changes, 0)
      piece.drifts = false
   end}
end

makers.NFD = function() return form(false, false) end
makers.NFKD = function() return form(true, false) end
makers.NFC = function() return form(false, true) end
makers.NFKC = function() return form(true, true) end

-- Characters ------------------------------------------------------------------------------------

local function lower(piece)
   if pieces.is_ascii(piece.text) then
      piece.text = piece.text:lower()
   else
      pieces.map(piece, characters.lower)
   end
end

makers.Lowercase = function() return {is_local = true, apply = lower} end

local marks = by_character(function(code) return characters.class "mark"[code] end)
local accents = by_character(function(code) return characters.class "accent"[code] end)

makers.StripAccents = function()
   return {is_local = true, apply = function(piece)
      if not pieces.is_ascii(piece.text) then pieces.filter(piece, marks) end
   end}
end

local unwanted = by_character(function(code)
   if code == 9 or code == 10 or code == 13 then return false end
   return code == 0 or code == 0xFFFD or characters.class "control"[code]
end)

local function space_for(character)
   return characters.class "space"[utf8.codepoint(character)] and " " or character
end

local function clean(piece)
   if piece.text:find "[\0-\x08\x0B\x0C\x0E-\x1F\x7F-\xFF]" then
      pieces.filter(piece, unwanted)
      pieces.map(piece, space_for)
   else
      piece.text = piece.text:gsub("[\t\n\r]", " ")
   end
end

local function is_chinese(code)
   return code >= 0x4E00 and code <= 0x9FFF or code >= 0x3400 and code <= 0x4DBF
      or code >= 0x20000 and code <= 0x2A6DF or code >= 0x2A700 and code <= 0x2B73F
      or code >= 0x2B740 and code <= 0x2B81F or code >= 0x2B920 and code <= 0x2CEAF
      or code >= 0xF900 and code <= 0xFAFF or code >= 0x2F800 and code <= 0x2FA1F
end

local chinese = by_character(is_chinese)

local function space_chinese(piece)
   if not piece.text:find "[\xE3-\xE9\xEF\xF0]" then return end
   local list, changes, n, found = {}, {}, 0, false
   for character in piece.text:gmatch(pieces.character) do
      if chinese[character] then
         found = true
         list[n + 1], list[n + 2], list[n + 3] = " ", character, " "
         changes[n + 1], changes[n + 2], changes[n + 3] = 1, 0, 1
         n = n + 3
      else
         n = n + 1
         list[n], changes[n] = character, 0
      end
   end
   if found then pieces.transform(piece, list, changes, 0) end
end

makers.BertNormalizer = function(config)
   local strips = config.strip_accents
   if strips == nil then strips = config.lowercase end
   local nfd = form(false, false)
   return {is_local = true, apply = function(piece)
      if config.clean_text then clean(piece) end
      if config.handle_chinese_chars then space_chinese(piece) end
      if strips and not pieces.is_ascii(piece.text) then
         nfd.apply(piece)
         pieces.filter(piece, accents)
      end
      if config.lowercase then lower(piece) end
   end}
end

local nmt_dropped <const> = "[\1-\8\11\14-\31\127]"
local nmt_removed, nmt_spaces = {["\u{8F}"] = true, ["\u{9F}"] = true}, {}
for code = 1, 127 do
   if string.char(code):find(nmt_dropped) then nmt_removed[string.char(code)] = true end
end
for code in ([[9 a c d 1680 200b 200c 200d 200e 200f 2028 2029 2581 feff fffd]]):gmatch "%x+" do
   nmt_spaces[utf8.char(tonumber(code, 16))] = " "
end

makers.Nmt = function()
   return {is_local = true, apply = function(piece)
      pieces.filter(piece, nmt_removed)
      pieces.map(piece, function(character) return nmt_spaces[character] or character end)
   end}
end

local byte_character

local function byte_level(piece)
   byte_character = byte_character or require "tlua.text.tokenizer.bytes".character
   local list, changes, n = {}, {}, 0
   for character in piece.text:gmatch(pieces.character) do
      for i = 1, #character do
         n = n + 1
         list[n], changes[n] = byte_character[character:byte(i)], i == 1 and 0 or 1
      end
   end
   pieces.transform(piece, list, changes, 0)
end

M.byte_level = byte_level

makers.ByteLevel = function() return {is_local = true, apply = byte_level} end

-- Texts -----------------------------------------------------------------------------------------

--- Compiles the pattern of a configuration, which is a table with the field String or the field
--- Regex.
---@param pattern table
---@param fail fun(why: string)
---@return table
function M.pattern(pattern, fail)
   if type(pattern) == "table" and type(pattern.String) == "string" then
      return regex.literal(pattern.String)
   elseif type(pattern) == "table" and type(pattern.Regex) == "string" then
      local ok, made = pcall(regex.compile, pattern.Regex, pattern.is_tiktoken)
      if not ok then fail(made) end
      return made
   end
   return fail 'expected a pattern {"String": ...} or {"Regex": ...}'
end

makers.Replace = function(config, fail)
   local pattern, content = M.pattern(config.pattern, fail), config.content
   if type(content) ~= "string" then fail "expected a text as content" end
   local literal = pattern.literal
   local is_local = literal and (literal == " " or not literal:find "[ \u{2581}]")
   if not literal then
      is_local = require "tlua.text.tokenizer.chunks".is_local(pattern.node)
   end
   return {is_local = is_local, pattern = pattern, apply = function(piece)
      local text, found = piece.text, {}
      if literal and #literal == 1 and #content == 1 then
         if text:find(literal, 1, true) then
            piece.text = text:gsub(literal:gsub("%p", "%%%0"), (content:gsub("%%", "%%%%")))
         end
         return
      end
      if literal and literal ~= "" and not text:find(literal, 1, true) then return end
      local list = pieces.by_regex(text, pattern)
      for k = 1, #list, 3 do
         if list[k + 2] then
            found[#found + 1], found[#found + 2] = list[k], list[k + 1]
         end
      end
      pieces.replace(piece, found, content)
   end}
end

makers.Prepend = function(config, fail)
   if type(config.prepend) ~= "string" then fail "expected a text as prepend" end
   return {is_local = true, by_ends = true, apply = function(piece, ends)
      if ends.first then pieces.prepend(piece, config.prepend) end
   end}
end

makers.Strip = function(config)
   return {is_local = true, by_ends = true, apply = function(piece, ends)
      local text, first, last = piece.text, 1, #piece.text
      local space = characters.class "space"
      if config.strip_left and ends.first then
         while first <= last and space[utf8.codepoint(text, first)] do
            first = utf8.offset(text, 2, first)
         end
      end
      if config.strip_right and ends.last then
         while last >= first do
            local at = utf8.offset(text, -1, last + 1)
            if not space[utf8.codepoint(text, at)] then break end
            last = at - 1
         end
      end
      if first == 1 and last == #text then return end
      pieces.cut(piece, first, last)
   end}
end

local function precompiled(map)
   local plain = true -- becomes false if a printable ASCII character is replaced
   for code = 32, 126 do
      if map.lookup(string.char(code), 1, false) then plain = false end
   end
   local known = {}
   local function replacement(text)
      local found = known[text]
      if found == nil then
         found = map.lookup(text, 1, false) or false
         known[text] = found
      end
      return found
   end
   return function(piece)
      local text = piece.text
      if plain and not text:find "[^\32-\126]" then return end
      local list, changes, n, modified = {}, {}, 0, false
      local function add(part, new)
         modified = true
         local old_count, count = utf8.len(part), 0
         for character in new:gmatch(pieces.character) do
            n, count = n + 1, count + 1
            list[n], changes[n] = character, count > old_count and 1 or 0
         end
         if count < old_count and n > 0 then changes[n] = changes[n] + count - old_count end
      end
      local at = 1
      while at <= #text do
         -- An ASCII character that another ASCII character follows is a grapheme of its own, except
         -- a carriage return, which forms one with a newline.
         local single = text:match("^[\0-\12\14-\127]()[\0-\127]", at)
         local stop = single or charsmap.grapheme_end(text, at)
         local grapheme = text:sub(at, stop - 1)
         local new = #grapheme < 6 and replacement(grapheme)
         if new then
            add(grapheme, new)
         else
            for part in grapheme:gmatch(pieces.character) do
               new = replacement(part)
               if new then
                  add(part, new)
               else
                  n = n + 1
                  list[n], changes[n] = part, 0
               end
            end
         end
         at = stop
      end
      if modified then pieces.transform(piece, list, changes, 0) end
   end
end

makers.Precompiled = function(config, fail)
   local encoded = config.precompiled_charsmap
   local blob = type(encoded) == "string" and charsmap.from_base64(encoded)
   if not blob then fail "expected a precompiled_charsmap in base64" end
   if blob == "" then return {is_local = true, apply = function() end} end
   local map, why = charsmap.new(blob)
   if not map then fail("precompiled_charsmap: " .. why) end
   return {is_local = true, map = map, apply = precompiled(map)}
end

makers.Sequence = function(config, fail)
   local list, whole = {}, {is_local = true, by_ends = false}
   if type(config.normalizers) ~= "table" then fail "expected a list of normalizers" end
   for i, part in ipairs(config.normalizers) do
      list[i] = M.make(part, function(why) fail(("normalizers[%d]: %s"):format(i, why)) end)
      whole.is_local = whole.is_local and list[i].is_local
      whole.by_ends = whole.by_ends or list[i].by_ends
   end
   function whole.apply(piece, ends)
      for i = 1, #list do list[i].apply(piece, ends) end
   end
   whole.parts = list
   return whole
end

--- Creates a normaliser from its configuration. Calls fail(why) if the configuration is invalid.
---@param config table
---@param fail fun(why: string)
---@return table
function M.make(config, fail)
   local maker = type(config) == "table" and makers[config.type]
   if not maker then
      fail(("expected a known type of normalizer, got %s"):format(
         tostring(type(config) == "table" and config.type or config)))
   end
   local part = maker(config, fail)
   part.config = config
   return part
end

return M
