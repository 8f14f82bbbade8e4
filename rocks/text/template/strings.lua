-- strings.lua - Python's operations on strings. They count characters instead of bytes, and they
-- handle the white space and letter case of all of Unicode.

local characters = require "tlua.text.tokenizer.characters"

local M = {}

--- Returns whether a text has ASCII characters only.
---@param text string
---@return boolean
function M.is_ascii(text) return not text:find "[\x80-\xFF]" end

--- Returns the number of characters.
---@param text string
---@return integer
function M.length(text)
   return M.is_ascii(text) and #text or utf8.len(text)
end

--- Returns the characters from `first` to `last`, both of which must be in the text.
---@param text string
---@param first integer
---@param last integer
---@return string
function M.sub(text, first, last)
   if M.is_ascii(text) then return text:sub(first, last) end
   if last < first then return "" end
   return text:sub(utf8.offset(text, first), utf8.offset(text, last + 1) - 1)
end

--- Returns the list of characters.
---@param text string
---@return string[]
function M.characters(text)
   local list, n = {}, 0
   for character in text:gmatch "[\0-\x7F\xC2-\xF4][\x80-\xBF]*" do
      n = n + 1
      list[n] = character
   end
   return list
end

-- White space -----------------------------------------------------------------------------------

-- Python counts four ASCII separator characters as white space.
local function is_space(character)
   if #character == 1 then return character:find "[ \t-\r\x1C-\x1F]" ~= nil end
   return characters.class "space"[utf8.codepoint(character)]
end

M.is_space = is_space

--- Returns the position of the first byte at or after `at` that is not white space.
---@param text string
---@param at integer
---@return integer
function M.skip_space(text, at)
   while true do
      at = text:find("[^ \t-\r\x1C-\x1F]", at)
      if not at then return #text + 1 end
      if text:byte(at) < 128 then return at end
      local stop = utf8.offset(text, 2, at)
      if not is_space(text:sub(at, stop - 1)) then return at end
      at = stop
   end
end

--- Strips white space or the given characters from the ends of a text.
---@param text string
---@param set? string  the characters
---@param left boolean
---@param right boolean
---@return string
function M.strip(text, set, left, right)
   local test, first, last = is_space, 1, #text
   if set then
      local members = {}
      for _, character in ipairs(M.characters(set)) do members[character] = true end
      test = function(character) return members[character] end
   end
   while left and first <= last do
      local stop = utf8.offset(text, 2, first)
      if not test(text:sub(first, stop - 1)) then break end
      first = stop
   end
   while right and last >= first do
      local start = utf8.offset(text, -1, last + 1)
      if not test(text:sub(start, last)) then break end
      last = start - 1
   end
   return text:sub(first, last)
end

--- Splits a text at white space, at most `most` times.
---@param text string
---@param most integer  a negative number for no limit
---@return string[]
function M.words(text, most)
   local list, at = {}, M.skip_space(text, 1)
   while at <= #text do
      if #list == most then
         list[#list + 1] = text:sub(at)
         break
      end
      local stop = at
      while stop <= #text do
         local after = utf8.offset(text, 2, stop)
         if is_space(text:sub(stop, after - 1)) then break end
         stop = after
      end
      list[#list + 1] = text:sub(at, stop - 1)
      at = M.skip_space(text, stop)
   end
   return list
end

--- Splits a text at white space like M.words, but from the right.
---@param text string
---@param most integer
---@return string[]
function M.words_from_right(text, most)
   local all = M.words(text, -1)
   if most < 0 or #all <= most then return all end
   local list, rest = {}, M.strip(text, nil, false, true)
   for i = 1, most do
      local word = all[#all - i + 1]
      table.insert(list, 1, word)
      rest = M.strip(rest:sub(1, #rest - #word), nil, false, true)
   end
   table.insert(list, 1, rest)
   return list
end

-- Cases -----------------------------------------------------------------------------------------

-- Characters whose upper case cannot be found by inverting the lower-case mappings. An entry has
-- the code point of the character and, joined by "+", those of its upper case, in hexadecimal.
local uppers <const> = [[
   b5=39c df=53+53 131=49 149=2bc+4e 17f=53 1c5=1c4 1c8=1c7 1cb=1ca 1f0=4a+30c 1f2=1f1 345=399
   390=399+308+301 3b0=3a5+308+301 3c2=3a3 3d0=392 3d1=398 3d5=3a6 3d6=3a0 3f0=39a 3f1=3a1 3f5=395
   587=535+552 1c80=412 1c81=414 1c82=41e 1c83=421 1c84=422 1c85=422 1c86=42a 1c87=462 1c88=a64a
   1e96=48+331 1e97=54+308 1e98=57+30a 1e99=59+30a 1e9a=41+2be 1e9b=1e60 1f50=3a5+313
   1f52=3a5+313+300 1f54=3a5+313+301 1f56=3a5+313+342 1fb2=1fba+399 1fb3=391+399 1fb4=386+399
   1fb6=391+342 1fb7=391+342+399 1fbc=391+399 1fbe=399 1fc2=1fca+399 1fc3=397+399 1fc4=389+399
   1fc6=397+342 1fc7=397+342+399 1fcc=397+399 1fd2=399+308+300 1fd3=399+308+301 1fd6=399+342
   1fd7=399+308+342 1fe2=3a5+308+300 1fe3=3a5+308+301 1fe4=3a1+313 1fe6=3a5+342 1fe7=3a5+308+342
   1ff2=1ffa+399 1ff3=3a9+399 1ff4=38f+399 1ff6=3a9+342 1ff7=3a9+342+399 1ffc=3a9+399 fb00=46+46
   fb01=46+49 fb02=46+4c fb03=46+46+49 fb04=46+46+4c fb05=53+54 fb06=53+54 fb13=544+546
   fb14=544+535 fb15=544+53b fb16=54e+546 fb17=544+53d]]

local upper_of

local function upper_table()
   local list = {}
   for code = 0x80, 0x1E943 do
      if characters.category[code] == "Lu" or characters.category[code] == "Lt"
         or characters.category[code] == "Nl" or characters.category[code] == "So" then
         local character = utf8.char(code)
         local lower = characters.lower(character)
         if lower ~= character and not list[lower] then list[lower] = character end
      end
   end
   for code, parts in uppers:gmatch "(%x+)=([%x+]+)" do
      local codes = {}
      for part in parts:gmatch "%x+" do codes[#codes + 1] = tonumber(part, 16) end
      list[utf8.char(tonumber(code, 16))] = utf8.char(table.unpack(codes))
   end
   for base = 0x1F80, 0x1FA0, 0x10 do -- Greek letters with an iota subscript
      for i = 0, 15 do
         local capital = ({0x1F08, 0x1F28, 0x1F68})[(base - 0x1F70) // 0x10] + i % 8
         list[utf8.char(base + i)] = utf8.char(capital, 0x399)
      end
   end
   return list
end

--- Returns a text in upper case.
---@param text string
---@return string
function M.upper(text)
   if M.is_ascii(text) then return text:upper() end
   upper_of = upper_of or upper_table()
   return (text:gsub("[\0-\x7F\xC2-\xF4][\x80-\xBF]*", function(character)
      return #character == 1 and character:upper() or upper_of[character]
   end))
end

local function is_cased(character)
   return M.upper(character) ~= character or characters.lower(character) ~= character
end

-- Returns whether the sigma at index i is the last letter of a word.
local function ends_word(list, i)
   local function letter_at(from, step)
      for k = from, step > 0 and #list or 1, step do
         local category = characters.category[utf8.codepoint(list[k])]
         local ignorable = category == "Mn" or category == "Me" or category == "Cf"
            or category == "Lm" or category == "Sk" or list[k]:find "^['.:\u{B7}^`]$"
         if not ignorable then return is_cased(list[k]) end
      end
      return false
   end
   return letter_at(i - 1, -1) and not letter_at(i + 1, 1)
end

--- Returns a text in lower case.
---@param text string
---@return string
function M.lower(text)
   if M.is_ascii(text) then return text:lower() end
   local list = M.characters(text)
   local new = {}
   for i, character in ipairs(list) do
      new[i] = character == "Σ" and ends_word(list, i) and "ς" or characters.lower(character)
   end
   return table.concat(new)
end

local titles <const> = {["Ǆ"] = "ǅ", ["ǆ"] = "ǅ", ["ǅ"] = "ǅ", ["Ǉ"] = "ǈ", ["ǈ"] = "ǈ",
   ["ǉ"] = "ǈ", ["Ǌ"] = "ǋ", ["ǋ"] = "ǋ", ["ǌ"] = "ǋ", ["Ǳ"] = "ǲ", ["ǲ"] = "ǲ", ["ǳ"] = "ǲ"}

-- Returns a character in title case.
local function title_of(character)
   if titles[character] then return titles[character] end
   local upper = M.upper(character)
   local first = utf8.offset(upper, 2)
   return upper:sub(1, first - 1) .. M.lower(upper:sub(first))
end

--- Returns a text with a capital first letter and the rest in lower case.
---@param text string
---@return string
function M.capitalize(text)
   if text == "" then return "" end
   local after = utf8.offset(text, 2)
   return title_of(text:sub(1, after - 1)) .. M.lower(text:sub(after))
end

--- Returns a text with a capital first letter in each word.
---@param text string
---@return string
function M.title(text)
   local list, inside = M.characters(text), false
   for i, character in ipairs(list) do
      local cased = is_cased(character)
      if cased then list[i] = inside and characters.lower(character) or title_of(character) end
      inside = cased
   end
   return table.concat(list)
end

--- Returns a text with upper and lower case swapped.
---@param text string
---@return string
function M.swapcase(text)
   local list = M.characters(text)
   for i, character in ipairs(list) do
      local lower = characters.lower(character)
      list[i] = lower ~= character and lower or M.upper(character)
   end
   return table.concat(list)
end

-- Returns whether a text has cased characters, and `change` leaves all of them unchanged.
local function all_cased(text, change)
   local found = false
   for _, character in ipairs(M.characters(text)) do
      if is_cased(character) then
         if change(character) ~= character then return false end
         found = true
      end
   end
   return found
end

--- Returns whether a text has cased letters, all of them in lower case.
---@param text string
---@return boolean
function M.is_lower(text) return all_cased(text, characters.lower) end

--- Returns whether a text has cased letters, all of them in upper case.
---@param text string
---@return boolean
function M.is_upper(text) return all_cased(text, M.upper) end

--- Returns whether a text is not empty and the categories of all its characters match `pattern`.
---@param text string
---@param pattern string  a Lua pattern for general categories
---@return boolean
function M.all_of(text, pattern)
   for _, character in ipairs(M.characters(text)) do
      if not characters.category[utf8.codepoint(character)]:find(pattern) then return false end
   end
   return text ~= ""
end

-- Representation --------------------------------------------------------------------------------

local short <const> = {["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\"}

local function printed(character)
   if short[character] then return short[character] end
   local code = utf8.codepoint(character)
   if code >= 32 and code < 127 then return character end
   local category = characters.category[code]
   if not category:find "^[CZ]" then return character end
   if code < 0x100 then return ("\\x%02x"):format(code) end
   return (code < 0x10000 and "\\u%04x" or "\\U%08x"):format(code)
end

--- Returns a text as a Python string literal, as repr does.
---@param text string
---@return string
function M.repr(text)
   local quote = text:find("'", 1, true) and not text:find('"', 1, true) and '"' or "'"
   local body = text:gsub("[\0-\x7F\xC2-\xF4][\x80-\xBF]*", function(character)
      if character == quote then return "\\" .. quote end
      return printed(character)
   end)
   return quote .. body .. quote
end

--- Returns a number as Python prints it.
---@param value number
---@return string
function M.number(value)
   if math.type(value) == "integer" then return ("%d"):format(value) end
   if value ~= value then return "nan" end
   if value == math.huge then return "inf" elseif value == -math.huge then return "-inf" end
   if value == 0 then return 1 / value < 0 and "-0.0" or "0.0" end
   local text
   for digits = 0, 16 do
      text = ("%." .. digits .. "e"):format(value)
      if tonumber(text) == value then break end
   end
   local sign, lead, rest, exponent = text:match "^(%-?)(%d)%.?(%d*)e([+-]%d+)$"
   local power = math.tointeger(tonumber(exponent))
   local figures = lead .. rest
   if power < -4 or power >= 16 then
      local mantissa = lead .. (rest ~= "" and "." .. rest or "")
      return ("%s%se%s%02d"):format(sign, mantissa, power < 0 and "-" or "+", math.abs(power))
   elseif power < 0 then
      return sign .. "0." .. ("0"):rep(-power - 1) .. figures
   elseif #figures <= power + 1 then
      return sign .. figures .. ("0"):rep(power + 1 - #figures) .. ".0"
   end
   return sign .. figures:sub(1, power + 1) .. "." .. figures:sub(power + 2)
end

return M
