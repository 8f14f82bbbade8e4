-- characters.lua - classes of characters, decompositions and lower case, from the tables in
-- classes.lua, forms.lua and scripts.lua. A class is a table that maps code points to true or
-- false. It computes an entry when the entry is first read.

local classes = require "tlua.text.tokenizer.classes"

local M = {}

local most_entries <const> = 100000

-- Returns a table that computes a missing entry with make(key) and caches at most most_entries
-- entries.
local function remembering(make)
   local count = 0
   return setmetatable({}, {__index = function(self, key)
      local value = make(key)
      if count < most_entries then
         count = count + 1
         rawset(self, key, value)
      end
      return value
   end})
end

-- Returns the index of the last element of `list` that is at most `value`, or 0.
local function search(list, value)
   local low, high = 1, #list
   while low <= high do
      local middle = (low + high) // 2
      if list[middle] <= value then low = middle + 1 else high = middle - 1 end
   end
   return high
end

-- Returns a function that tells whether a code point is in one of the ranges that a text lists. A
-- range is written in hexadecimal as the number of code points between the previous range and this
-- one, and the range's length minus 1 if it is not 0.
local function in_ranges(text)
   local first, last, at = {}, {}, -1
   for gap, more in text:gmatch "(%x+)%-?(%x*)" do
      first[#first + 1] = at + tonumber(gap, 16) + 1
      at = first[#first] + (more == "" and 0 or tonumber(more, 16))
      last[#last + 1] = at
   end
   return function(code)
      local i = search(first, code)
      return i > 0 and code <= last[i]
   end
end

-- Returns a function that maps a code point to the letter of the run that contains it. The text
-- lists the runs as a letter and a hexadecimal length, which is left out if it is 1.
local function in_runs(text)
   local first, letters, at = {}, {}, 0
   for letter, count in text:gmatch "([G-Zg-p])(%x*)" do
      first[#first + 1], letters[#letters + 1] = at, letter
      at = at + (count == "" and 1 or tonumber(count, 16))
   end
   return function(code) return letters[search(first, code)] end
end

local names <const> = {
   G = "Lu", H = "Ll", I = "Lt", J = "Lm", K = "Lo", L = "Mn", M = "Mc", N = "Me", O = "Nd",
   P = "Nl", Q = "No", R = "Pc", S = "Pd", T = "Ps", U = "Pe", V = "Pi", W = "Pf", X = "Po",
   Y = "Sm", Z = "Sc", g = "Sk", h = "So", i = "Zs", j = "Zl", k = "Cs", l = "Cc", m = "Cf",
   n = "Co", o = "Cs", p = "Cn",
}

local letter_of

--- Maps a code point to its general category, such as "Lu".
---@type table<integer, string>
M.category = remembering(function(code)
   letter_of = letter_of or in_runs(classes.categories)
   return names[letter_of(code)]
end)

local function based(text)
   local bases, differences = text:match "^%s*([^:]*):(.*)$"
   local base = {}
   for name in bases:gmatch "%a+" do base[name] = true end
   local differs = in_ranges(differences)
   return function(code) return differs(code) ~= (base[M.category[code]] or false) end
end

local spaces = {}
for code in ([[9 a b c d 20 85 a0 1680 2000 2001 2002 2003 2004 2005 2006 2007 2008 2009 200a 2028
      2029 202f 205f 3000]]):gmatch "%x+" do
   spaces[tonumber(code, 16)] = true
end

local makers = {
   space = function() return function(code) return spaces[code] or false end end,
   linker = function() return in_ranges(classes.linker) end,
   consonant = function() return in_ranges(classes.consonant) end,
}

local made = {}

--- Returns a class as a table from code points to booleans: "space", "word", "rust_word",
--- "numeric", "punctuation", "control", "accent", "mark", "linker", "consonant" or "extend".
---@param name string
---@return table<integer, boolean>
function M.class(name)
   if not made[name] then
      local test = makers[name] and makers[name]() or based(classes[name])
      made[name] = remembering(test)
   end
   return made[name]
end

local by_name = {}

--- Returns a script or class of properties.lua as a table from code points to booleans, or nil for
--- an unknown name.
---@param name string  such as "Han"
---@return table<integer, boolean>?
function M.named_class(name)
   local ranges = require "tlua.text.tokenizer.properties"[name]
   if not ranges then return nil end
   by_name[name] = by_name[name] or remembering(in_ranges(ranges))
   return by_name[name]
end

--- Returns a table from code points to booleans that caches the results of `test`.
---@param test fun(code: integer): boolean
---@return table<integer, boolean>
function M.remember(test) return remembering(test) end

local graphemes <const> = {
   G = "CR", H = "LF", I = "CN", J = "EX", K = "PP", L = "SM", M = "L", N = "V", O = "T",
   P = "RI", Q = "ZWJ", R = "pictograph",
}

local grapheme_of

--- Maps a code point to its kind in the rules for grapheme boundaries.
---@type table<integer, string>
M.grapheme = remembering(function(code)
   if code >= 0xAC00 and code <= 0xD7A3 then
      return (code - 0xAC00) % 28 == 0 and "LV" or "LVT"
   end
   grapheme_of = grapheme_of or in_runs(classes.graphemes)
   return graphemes[grapheme_of(code)] or "other"
end)

-- Returns a function that maps a code point to the number of the range that contains it, or to
-- `default` if no range does. The text lists the ranges with their numbers.
local function numbered(text, default)
   local first, last, numbers, at = {}, {}, {}, -1
   for gap, more, number in text:gmatch "(%x+)%-(%x+):(%x+)" do
      first[#first + 1] = at + tonumber(gap, 16) + 1
      at = first[#first] + tonumber(more, 16)
      last[#last + 1] = at
      numbers[#numbers + 1] = number
   end
   return function(code)
      local i = search(first, code)
      return i > 0 and code <= last[i] and numbers[i] or default
   end
end

local script_of

--- Maps a code point to the number of its script, as a string. "0" stands for characters that are
--- common to all scripts.
---@type table<integer, string>
M.script = remembering(function(code)
   script_of = script_of or numbered(require "tlua.text.tokenizer.scripts".scripts, "0")
   return script_of(code)
end)

-- Forms -----------------------------------------------------------------------------------------

local function forms() return require "tlua.text.tokenizer.forms" end

local function decompositions(text)
   local list, at = {}, -1
   for gap, codes in text:gmatch "(%x+)=([%x+]+)" do
      at = at + tonumber(gap, 16) + 1
      local parts = {}
      for code in codes:gmatch "%x+" do parts[#parts + 1] = tonumber(code, 16) end
      list[at] = parts
   end
   return list
end

local function hangul(code)
   local index = code - 0xAC00
   local parts = {0x1100 + index // 588, 0x1161 + index % 588 // 28}
   if index % 28 ~= 0 then parts[3] = 0x11A7 + index % 28 end
   return parts
end

local canonical, compatible, combining

local function canonical_parts(code)
   if code >= 0xAC00 and code <= 0xD7A3 then return hangul(code) end
   canonical = canonical or decompositions(forms().canonical)
   return canonical[code]
end

--- Returns the code points into which a code point is decomposed, or nil.
---@param code integer
---@param is_compatible boolean  for NFKD instead of NFD
---@return integer[]?
function M.decomposition(code, is_compatible)
   if is_compatible then
      compatible = compatible or decompositions(forms().compatible)
      if compatible[code] then return compatible[code] end
   end
   return canonical_parts(code)
end

--- Maps a code point to its canonical combining class.
---@type table<integer, integer>
M.combining = remembering(function(code)
   if code < 0x300 then return 0 end
   combining = combining or numbered(forms().combining, "0")
   return tonumber(combining(code), 16)
end)

local pairs_of

-- Returns a table that maps the first and the second part of a decomposition to the composed
-- character.
local function compositions()
   canonical = canonical or decompositions(forms().canonical)
   local excluded = in_ranges(forms().excluded)
   local whole = {} -- maps full decompositions, as UTF-8 texts, to code points
   for code, parts in pairs(canonical) do
      if not excluded(code) then whole[utf8.char(table.unpack(parts))] = code end
   end
   local list = {}
   for code, parts in pairs(canonical) do
      if not excluded(code) then
         local before = #parts == 2 and parts[1]
            or whole[utf8.char(table.unpack(parts, 1, #parts - 1))]
         if before then list[before << 21 | parts[#parts]] = code end
      end
   end
   return list
end

--- Returns the character that is composed of two characters, or nil.
---@param a integer
---@param b integer
---@return integer?
function M.compose(a, b)
   if a >= 0x1100 and a <= 0x1112 and b >= 0x1161 and b <= 0x1175 then
      return 0xAC00 + (a - 0x1100) * 588 + (b - 0x1161) * 28
   end
   if a >= 0xAC00 and a <= 0xD7A3 and (a - 0xAC00) % 28 == 0 and b > 0x11A7 and b <= 0x11C2 then
      return a + b - 0x11A7
   end
   pairs_of = pairs_of or compositions()
   return pairs_of[a << 21 | b]
end

local function lower_table()
   local list, at = {}, -1
   for gap, equals, rest in forms().lower:gmatch "(%x+)([-=])(%S+)" do
      local first = at + tonumber(gap, 16) + 1
      if equals == "=" then
         local codes = {}
         for code in rest:gmatch "%x+" do codes[#codes + 1] = tonumber(code, 16) end
         list[first], at = utf8.char(table.unpack(codes)), first
      else
         local more, comma, sign, delta = rest:match "^(%x+)(,?):(%-?)(%x+)$"
         local step = comma == "," and 2 or 1
         local change = tonumber(delta, 16) * (sign == "-" and -1 or 1)
         at = first + tonumber(more, 16) * step
         for code = first, at, step do list[code] = utf8.char(code + change) end
      end
   end
   return list
end

local lower

--- Returns a character's lower case.
---@param character string
---@return string
function M.lower(character)
   if #character == 1 then return character:lower() end
   lower = lower or lower_table()
   return lower[utf8.codepoint(character)] or character
end

return M
