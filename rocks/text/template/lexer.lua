-- lexer.lua - splits a Jinja template into tokens. A token is {type =, value =, line =}: "data",
-- "variable_begin", "variable_end", "block_begin", "block_end", "name", "string", "integer",
-- "float", "operator" and "end". White space is trimmed as chat templates expect: the lexer removes
-- the newline after a block, and the blanks between the beginning of the line and the block.

local strings = require "tlua.text.template.strings"

local M = {}

-- Raises an error about the template.
local function fail(line, why) error({template = why, line = line}, 0) end

local operators <const> = {
   ["//"] = true, ["**"] = true, ["=="] = true, ["!="] = true, [">="] = true, ["<="] = true,
   ["+"] = true, ["-"] = true, ["/"] = true, ["*"] = true, ["%"] = true, ["~"] = true,
   ["["] = true, ["]"] = true, ["("] = true, [")"] = true, ["{"] = true, ["}"] = true,
   [">"] = true, ["<"] = true, ["="] = true, ["."] = true, [":"] = true, ["|"] = true,
   [","] = true, [";"] = true,
}

local closing <const> = {["("] = ")", ["["] = "]", ["{"] = "}"}
local opens <const> = {["{"] = "variable", ["%"] = "block", ["#"] = "comment"}

local escapes <const> = {
   n = "\n", t = "\t", r = "\r", b = "\b", f = "\f", v = "\v", a = "\a", ["\\"] = "\\",
   ["'"] = "'", ['"'] = '"', ["\n"] = "",
}
local digits <const> = {x = 2, u = 4, U = 8}

-- Replaces Python's escape sequences in a string.
local function unescape(text, line)
   if not text:find("\\", 1, true) then return text end
   local parts, at = {}, 1
   while true do
      local found = text:find("\\", at, true)
      parts[#parts + 1] = text:sub(at, (found or #text + 1) - 1)
      if not found then return table.concat(parts) end
      local letter = text:sub(found + 1, found + 1)
      local count, octal = digits[letter], text:match("^[0-7][0-7]?[0-7]?", found + 1)
      if escapes[letter] then
         parts[#parts + 1], at = escapes[letter], found + 2
      elseif count then
         local code = text:sub(found + 2, found + 1 + count):match("^%x+$")
         local number = code and #code == count and tonumber(code, 16)
         if not number or number > 0x10FFFF or number >= 0xD800 and number <= 0xDFFF then
            fail(line, ("the escape \\%s needs %d digits of a character's number"):format(letter,
               count))
         end
         parts[#parts + 1], at = utf8.char(number), found + 2 + count
      elseif octal then
         parts[#parts + 1], at = utf8.char(tonumber(octal, 8)), found + 1 + #octal
      else
         parts[#parts + 1], at = "\\", found + 1
      end
   end
end

local Lexer = {}
Lexer.__index = Lexer

function Lexer:add(kind, value)
   self.tokens[#self.tokens + 1] = {type = kind, value = value, line = self.line}
end

-- Advances to byte `to`, and counts the lines up to it.
function Lexer:move(to)
   local at = self.at
   while true do
      at = self.text:find("\n", at, true)
      if not at or at >= to then break end
      self.line, at = self.line + 1, at + 1
   end
   self.line_starting = to > self.at and self.text:byte(to - 1) == 10
   self.at = to
end

-- Returns the position after the end of a tag, or nil if the tag does not end at byte `at`. `mark`
-- is "%}", "}}" or "#}". The end includes the white space that "-" strips, and the newline after a
-- block.
function Lexer:after_end(at, mark)
   local text = self.text
   local sign = text:sub(at, at)
   if (sign == "-" or sign == "+" and mark ~= "}}") and text:sub(at + 1, at + 2) == mark then
      if sign == "+" then return at + 3 end
      return strings.skip_space(text, at + 3)
   end
   if text:sub(at, at + 1) ~= mark then return nil end
   if mark ~= "}}" and text:byte(at + 2) == 10 then return at + 3 end
   return at + 2
end

-- Returns the text before a tag. The "-" or "+" sign of the tag decides which white space is
-- stripped.
function Lexer:stripped(data, sign, kind)
   if sign == "-" then return strings.strip(data, nil, false, true) end
   if sign == "+" or kind == "variable" then return data end
   local newline = data:find "\n[^\n]*$"
   if not newline and not self.line_starting then return data end
   local tail = data:sub((newline or 0) + 1)
   if tail ~= "" and strings.skip_space(tail, 1) > #tail then
      return data:sub(1, newline or 0)
   end
   return data
end

function Lexer:add_data(data)
   if data ~= "" then self:add("data", data) end
end

-- Reads the text from {% raw %}, which ends at byte `after`, to {% endraw %}.
function Lexer:raw(after)
   local begun = self.line
   self:move(after)
   local from, at = after, after
   while true do
      local tag = self.text:find("{%", at, true)
      if not tag then fail(begun, "raw is not closed, expected {% endraw %}") end
      local sign = self.text:match("^[-+]", tag + 2) or ""
      local word = self.text:match("^%s*endraw%s*()", tag + 2 + #sign)
      local stop = word and self:after_end(word, "%}")
      if stop then
         self:add_data(self:stripped(self.text:sub(from, tag - 1), sign, "block"))
         return self:move(stop)
      end
      at = tag + 2
   end
end

function Lexer:comment(tag)
   local at = tag + 2
   while true do
      local mark = self.text:find("#}", at, true)
      if not mark then fail(self.line, "a comment is not closed, expected #}") end
      local sign = self.text:sub(mark - 1, mark - 1)
      local from = (sign == "-" or sign == "+") and mark - 1 >= tag + 2 and mark - 1 or mark
      local stop = self:after_end(from, "#}")
      if stop then return self:move(stop) end
      at = mark + 2
   end
end

function Lexer:number()
   local text, at = self.text, self.at
   local whole, stop = text:match("^([%d_]+)()", at)
   local base, letters, after = text:match("^0([bBoOxX])([%x_]+)()", at)
   if base then
      local clean = letters:gsub("_", "")
      local value = tonumber(clean, ({b = 2, o = 8, x = 16})[base:lower()])
      if not value then fail(self.line, "a malformed number") end
      self:add("integer", value)
      return self:move(after)
   end
   local fraction, rest = text:match("^(%.%d[%d_]*)()", stop)
   local exponent, last = text:match("^([eE][+-]?%d[%d_]*)()", rest or stop)
   local whole_text = ((whole .. (fraction or "") .. (exponent or "")):gsub("_", ""))
   if fraction or exponent then
      self:add("float", tonumber(whole_text) + 0.0)
      return self:move(last or rest)
   end
   local value = math.tointeger(tonumber(whole_text))
   if not value then fail(self.line, "an integer beyond 64 bits: " .. whole_text) end
   if whole_text:find "^0%d" and value ~= 0 then fail(self.line, "a malformed number") end
   self:add("integer", value)
   self:move(stop)
end

function Lexer:string(quote)
   local at = self.at + 1
   while true do
      local found = self.text:find("[\\" .. quote .. "]", at)
      if not found then fail(self.line, "a string is not closed") end
      if self.text:sub(found, found) == quote then
         self:add("string", unescape(self.text:sub(self.at + 1, found - 1), self.line))
         return self:move(found + 1)
      end
      at = found + 2
   end
end

-- Reads the next token of an expression.
function Lexer:token(open)
   local text, at = self.text, self.at
   local name, stop = text:match("^([%a_\x80-\xFF][%w_\x80-\xFF]*)()", at)
   if name then
      self:add("name", name)
      return self:move(stop)
   end
   local c = text:sub(at, at)
   if c:find "%d" then return self:number() end
   if c == "'" or c == '"' then return self:string(c) end
   local two = text:sub(at, at + 1)
   local operator = operators[two] and two or operators[c] and c
   if not operator then
      fail(self.line, ("unexpected character %q"):format(text:match(utf8.charpattern, at) or c))
   end
   if closing[operator] then
      open[#open + 1] = closing[operator]
   elseif operator == ")" or operator == "]" or operator == "}" then
      local expected = table.remove(open)
      if expected ~= operator then
         fail(self.line, expected and ("unexpected '%s', expected '%s'"):format(operator, expected)
            or ("unexpected '%s'"):format(operator))
      end
   end
   self:add("operator", operator)
   self:move(at + #operator)
end

-- Reads the tokens inside {{ }} or {% %}.
function Lexer:inside(kind, mark)
   local open, begun = {}, self.line
   while true do
      self:move(strings.skip_space(self.text, self.at))
      if self.at > #self.text then
         fail(begun, ("a tag is not closed, expected %s"):format(open[#open] or mark))
      end
      local stop = #open == 0 and self:after_end(self.at, mark)
      if stop then
         self:add(kind .. "_end", mark)
         return self:move(stop)
      end
      self:token(open)
   end
end

-- Returns the position and the kind of the next tag.
function Lexer:next_tag()
   local at = self.text:find("{[{%%#]", self.at)
   if not at then return nil end
   return at, opens[self.text:sub(at + 1, at + 1)]
end

--- Returns the tokens of a template.
---@param text string
---@return table[]
function M.tokens(text)
   text = text:gsub("\r\n?", "\n"):gsub("\n$", "")
   local self = setmetatable({text = text, at = 1, line = 1, line_starting = true, tokens = {}},
      Lexer)
   while true do
      local tag, kind = self:next_tag()
      if not tag then break end
      local sign = text:match("^[-+]", tag + 2) or ""
      if kind == "variable" and sign == "+" then sign = "" end
      local data = self:stripped(text:sub(self.at, tag - 1), sign, kind)
      self:add_data(data)
      self:move(tag)
      local raw = kind == "block" and text:match("^%s*raw%s*()", tag + 2 + #sign)
      local after = raw and (text:match("^%%}()", raw)
         or text:match("^%-%%}()", raw) and strings.skip_space(text, raw + 3))
      if after then
         self:raw(after)
      elseif kind == "comment" then
         self:comment(tag)
      else
         self:add(kind .. "_begin", text:sub(tag, tag + 1))
         self:move(tag + 2 + #sign)
         self:inside(kind, kind == "block" and "%}" or "}}")
      end
   end
   self:add_data(text:sub(self.at))
   self:move(#text + 1)
   self:add("end", "the end of the template")
   return self.tokens
end

return M
