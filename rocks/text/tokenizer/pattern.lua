-- pattern.lua - parses the regular expressions of tokenizers into syntax trees, which regex.lua
-- compiles. These are the nodes:
--
--    {kind = "set", set =, ...}        one character; `set` maps code points to booleans
--    {kind = "sequence", ...}          matches all nodes, one after the other
--    {kind = "choice", ...}            matches the first node that leads to a match
--    {kind = "repeat", node, min =, max =, mode = "greedy", "lazy" or "possessive"}
--    {kind = "look", node, negative =, behind =}
--    {kind = "line_start"}, "line_end", "text_start", "text_end", "last_line_end" (the end of the
--                           text or a line feed before it), "edge" (of a word), "no_edge"

local characters = require "tlua.text.tokenizer.characters"

local M = {}

-- Sets ------------------------------------------------------------------------------------------

-- Returns whether a set contains a code point. An item of a set is a code point, a range {first,
-- last}, or a table of code points.
local function holds(items, code)
   for _, item in ipairs(items) do
      if type(item) == "number" then
         if item == code then return true end
      elseif rawget(item, "first") then
         if code >= item.first and code <= item.last then return true end
      elseif item[code] then
         return true
      end
   end
   return false
end

local function set_node(items, negative)
   local set = characters.remember(function(code) return holds(items, code) ~= negative end)
   return {kind = "set", set = set}
end

local function negated(set)
   return characters.remember(function(code) return not set[code] end)
end

local other_cases <const> = {s = 0x17F, k = 0x212A}

-- Adds a character to the items of a set, in both upper and lower case if `folds` is true.
local function add_code(items, code, folds)
   items[#items + 1] = code
   if not folds then return end
   if code < 128 then
      local letter = string.char(code)
      items[#items + 1] = letter:lower():byte()
      items[#items + 1] = letter:upper():byte()
      items[#items + 1] = other_cases[letter:lower()]
   else
      local lower = characters.lower(utf8.char(code))
      items[#items + 1] = characters.remember(function(other)
         return characters.lower(utf8.char(other)) == lower
      end)
   end
end

local last_cased <const> = 0x1E943

-- Adds a range of characters to the items of a set, in both upper and lower case.
local function add_folded_range(items, first, last)
   for code = math.max(first, 65), math.min(last, 122) do add_code(items, code, true) end
   local lowers = {}
   for code = math.max(first, 128), math.min(last, last_cased) do
      lowers[characters.lower(utf8.char(code))] = true
   end
   if next(lowers) then
      items[#items + 1] = characters.remember(function(code)
         return code >= 128 and lowers[characters.lower(utf8.char(code))] or false
      end)
   end
end

local properties <const> = {
   White_Space = "space", Space = "space", Word = "word",
}

local names <const> = {Alpha = "Alphabetic", Punct = "Punctuation", Upper = "Uppercase",
   Lower = "Lowercase"}

local function property(state, name)
   local negative = name:sub(1, 1) == "^"
   if negative then name = name:sub(2) end
   local set
   if name:find "^[LMNPSZC][a-z]?&?$" then
      local cased = name == "L&" or name == "LC"
      set = characters.remember(function(code)
         local category = characters.category[code]
         if cased then return category == "Lu" or category == "Ll" or category == "Lt" end
         return category == name or category:sub(1, 1) == name
      end)
   elseif properties[name] then
      set = characters.class(properties[name])
   else
      set = characters.named_class(names[name] or name)
         or state.fail(("the property \\p{%s} is not supported"):format(name))
   end
   return negative and negated(set) or set
end

local function digits(code) return characters.category[code] == "Nd" end

local classes = {
   s = function() return characters.class "space" end,
   d = function() return characters.remember(digits) end,
   w = function() return characters.class "word" end,
   h = function()
      return characters.remember(function(code)
         return code < 128 and string.char(code):find "%x" ~= nil
      end)
   end,
}

local controls <const> = {n = 10, r = 13, t = 9, f = 12, v = 11, a = 7, e = 27}

-- Reads an escape sequence, whose backslash has been read. Returns a code point, or a table of code
-- points.
local function escape(state)
   local text, at = state.text, state.at
   local letter = text:match("^" .. "[\0-\x7F\xC2-\xF4][\x80-\xBF]*", at)
   if not letter then state.fail "it ends with a backslash" end
   state.at = at + #letter
   if classes[letter] then return classes[letter]() end
   if classes[letter:lower()] then return negated(classes[letter:lower()]()) end
   if letter == "p" or letter == "P" then
      local name, after = text:match("^{([^}]*)}()", at + 1)
      if not name then name, after = text:match("^(%a)()", at + 1) end
      if not name then state.fail "a property has no name" end
      state.at = after
      local set = property(state, name)
      return letter == "P" and negated(set) or set
   end
   local code, after
   if letter == "x" then
      code, after = text:match("^{(%x+)}()", at + 1)
      if not code then code, after = text:match("^(%x%x?)()", at + 1) end
   elseif letter == "u" then
      code, after = text:match("^(%x%x%x%x)()", at + 1)
   end
   if code then
      state.at = after
      return tonumber(code, 16)
   end
   if controls[letter] then return controls[letter] end
   if letter:find "^%w$" then
      state.fail(("the escape \\%s is not supported"):format(letter))
   end
   return utf8.codepoint(letter)
end

local function next_code(state)
   local letter = state.text:match("^" .. "[\0-\x7F\xC2-\xF4][\x80-\xBF]*", state.at)
   if not letter then state.fail "a bracket is not closed" end
   state.at = state.at + #letter
   return utf8.codepoint(letter)
end

-- Returns the class that \w stands for inside brackets. It excludes fractions and similar
-- characters, which \w elsewhere includes.
local function word_in_brackets()
   local word = characters.class "word"
   return characters.remember(function(code)
      return word[code] and characters.category[code] ~= "No"
   end)
end

local function posix(state)
   local name, after = state.text:match("^%[:(%^?%a+):%]()", state.at)
   if not name then return nil end
   state.at = after
   local negative = name:sub(1, 1) == "^"
   if negative then name = name:sub(2) end
   if name == "word" then
      local set = word_in_brackets()
      return negative and negated(set) or set
   end
   local named = {alpha = "Alpha", digit = "Nd", punct = "Punct", space = "White_Space",
      upper = "Upper", lower = "Lower"}
   if not named[name] then
      state.fail(("the class [:%s:] is not supported"):format(name))
   end
   return property(state, (negative and "^" or "") .. named[name])
end

-- Returns the set of the characters that are in `items` and in all sets of `parts`.
local function intersection(parts, items, negative)
   if #parts == 0 then return set_node(items, negative) end
   parts[#parts + 1] = items
   return {kind = "set", set = characters.remember(function(code)
      for _, part in ipairs(parts) do
         if not holds(part, code) then return negative end
      end
      return not negative
   end)}
end

-- Reads a bracketed set, after its opening bracket.
local function bracket(state)
   local items, negative, parts = {}, false, {}
   if state.text:sub(state.at, state.at) == "^" then
      negative, state.at = true, state.at + 1
   end
   local is_first = true
   while true do
      local letter = state.text:sub(state.at, state.at)
      if letter == "" then state.fail "a bracket is not closed" end
      if letter == "]" and not is_first then
         state.at = state.at + 1
         return intersection(parts, items, negative)
      end
      is_first = false
      if state.text:sub(state.at, state.at + 1) == "&&" then
         if state.folds then state.fail "the intersection && is not supported in (?i)" end
         parts[#parts + 1], items, state.at = items, {}, state.at + 2
         goto continue
      end
      local item = letter == "[" and posix(state)
      if not item and letter == "[" then
         state.at = state.at + 1
         item = bracket(state).set
      elseif not item and letter == "\\" then
         local w = state.text:match("^\\([wW])", state.at)
         state.at = state.at + (w and 2 or 1)
         item = not w and escape(state) or word_in_brackets()
         if w == "W" then item = negated(item) end
      elseif not item then
         item = next_code(state)
      end
      local dash, after = state.text:match("^(%-)()[^%]]", state.at)
      if type(item) == "number" and dash then
         state.at = after
         local last
         if state.text:sub(state.at, state.at) == "\\" then
            state.at = state.at + 1
            last = escape(state)
         else
            last = next_code(state)
         end
         if type(last) ~= "number" or last < item then state.fail "a range is reversed" end
         items[#items + 1] = {first = item, last = last}
         if state.folds then add_folded_range(items, item, last) end
      elseif type(item) == "number" then
         add_code(items, item, state.folds)
      else
         items[#items + 1] = item
      end
      ::continue::
   end
end

-- Trees -----------------------------------------------------------------------------------------

local choice

local openings <const> = {
   {"^%?:()"}, {"^%?=()", look = true}, {"^%?!()", look = true, negative = true},
   {"^%?<=()", look = true, behind = true},
   {"^%?<!()", look = true, behind = true, negative = true}, {"^%?>()", atomic = true},
}

-- Reads a group, after its opening parenthesis.
local function group(state)
   local opening, folds = {}, state.folds
   for _, candidate in ipairs(openings) do
      local after = state.text:match(candidate[1], state.at)
      if after then
         opening, state.at = candidate, after
         break
      end
   end
   local flags, closing, after = state.text:match("^%?([%a%-]*)([:)])()", state.at)
   if flags then
      if flags ~= "i" and flags ~= "-i" then
         state.fail(("the flags (?%s) are not supported"):format(flags))
      end
      state.folds, state.at = flags == "i", after
      -- Options such as (?i) apply up to the end of the enclosing group.
      if closing == ")" then return {kind = "sequence"} end
   elseif not opening[1] and state.text:sub(state.at, state.at) == "?" then
      state.fail "this kind of group is not supported"
   end
   local node = choice(state)
   if state.text:sub(state.at, state.at) ~= ")" then state.fail "a group is not closed" end
   state.at, state.folds = state.at + 1, folds
   if opening.look then
      return {kind = "look", node, negative = opening.negative, behind = opening.behind}
   elseif opening.atomic then
      return {kind = "repeat", node, min = 1, max = 1, mode = "possessive"}
   end
   return node
end

local anchors <const> = {A = "text_start", z = "text_end", Z = "last_line_end", b = "edge",
   B = "no_edge"}

local function atom(state)
   local letter = state.text:sub(state.at, state.at)
   if letter == "(" then
      state.at = state.at + 1
      return group(state)
   elseif letter == "[" then
      state.at = state.at + 1
      return bracket(state)
   elseif letter == "." then
      state.at = state.at + 1
      return set_node({10}, true)
   elseif letter == "^" or letter == "$" then
      state.at = state.at + 1
      local whole = state.whole_text
      return {kind = letter == "^" and (whole and "text_start" or "line_start")
         or whole and "text_end" or "line_end"}
   elseif letter == "\\" then
      local anchor = anchors[state.text:sub(state.at + 1, state.at + 1)]
      if anchor then
         state.at = state.at + 2
         return {kind = anchor}
      end
      state.at = state.at + 1
      local item = escape(state)
      if type(item) == "table" then return {kind = "set", set = item} end
      local items = {}
      add_code(items, item, state.folds)
      return set_node(items, false)
   elseif letter:find "^[*+?]$" then
      state.fail(("nothing stands before %s"):format(letter))
   end
   local items = {}
   add_code(items, next_code(state), state.folds)
   return set_node(items, false)
end

local marks <const> = {["*"] = {0, math.huge}, ["+"] = {1, math.huge}, ["?"] = {0, 1}}

-- Reads a quantifier. Returns its lower bound, its upper bound, and whether it is written in
-- braces.
local function bounds(state)
   local mark = marks[state.text:sub(state.at, state.at)]
   if mark then
      state.at = state.at + 1
      return mark[1], mark[2], false
   end
   local low, comma, high, after = state.text:match("^{(%d*)(,?)(%d*)}()", state.at)
   if not low or low == "" and high == "" then return nil end
   state.at = after
   local min = tonumber(low) or 0
   local max = comma == "" and min or tonumber(high) or math.huge
   if max < min or min > 1000 then state.fail "the bounds of a repetition are wrong" end
   return min, max, true
end

local function repeated(state)
   local node = atom(state)
   while true do
      local min, max, braces = bounds(state)
      if not min then return node end
      local mode, mark = "greedy", state.text:sub(state.at, state.at)
      if mark == "?" and braces and min == max and not state.whole_text then
         state.at = state.at + 1 -- In Ruby's syntax, x{2}? means (?:x{2})?
         node, min, max = {kind = "repeat", node, min = min, max = max, mode = mode}, 0, 1
      elseif mark == "?" then
         mode, state.at = "lazy", state.at + 1
      elseif mark == "+" and (not braces or state.whole_text) then
         mode, state.at = "possessive", state.at + 1
      end
      node = {kind = "repeat", node, min = min, max = max, mode = mode}
   end
end

local function sequence(state)
   local list = {kind = "sequence"}
   while true do
      local letter = state.text:sub(state.at, state.at)
      if letter == "" or letter == "|" or letter == ")" then return list end
      list[#list + 1] = repeated(state)
   end
end

function choice(state)
   state.depth = state.depth + 1
   if state.depth > 100 then state.fail "groups are nested too deeply" end
   local list, folds = {kind = "choice"}, state.folds
   repeat
      list[#list + 1] = sequence(state)
      local more = state.text:sub(state.at, state.at) == "|"
      if more then state.at = state.at + 1 end
   until not more
   state.folds, state.depth = folds, state.depth - 1
   return #list == 1 and list[1] or list
end

--- Parses a regular expression in Oniguruma's syntax. Raises a string as the error if the
--- expression is invalid.
---@param text string
---@param is_tiktoken? boolean  for tiktoken's syntax: `$` matches only at the end of the text, and
--- `{1,3}+` is possessive
---@return table node
function M.parse(text, is_tiktoken)
   local state = {text = text, at = 1, depth = 0, folds = false, whole_text = is_tiktoken}
   function state.fail(why)
      error(("the pattern %q: at byte %d: %s"):format(text, state.at, why), 0)
   end
   local node = choice(state)
   if state.at <= #text then state.fail "a parenthesis was never opened" end
   return node
end

return M
