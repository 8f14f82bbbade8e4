-- added.lua - finds added tokens in a text, from left to right. Of several tokens that begin at the
-- same byte, the longest is taken.

local characters = require "tlua.text.tokenizer.characters"

local M = {}

local Finder = {}
Finder.__index = Finder

--- Creates a finder of the given tokens.
---@param tokens table[]  {pattern =, id =, single_word =, lstrip =, rstrip =}
---@return table
function M.new(tokens)
   local finder = setmetatable({by_byte = {}, n = 0}, Finder)
   local letters = {}
   for _, token in ipairs(tokens) do
      local lead = token.pattern:byte()
      if lead then
         local group = finder.by_byte[lead]
         if not group then
            group = {tokens = {}, lengths = {}}
            finder.by_byte[lead] = group
            letters[#letters + 1] = ("%%%c"):format(lead):gsub("^%%([%w\x80-\xFF%c])", "%1")
         end
         if not group.tokens[token.pattern] then
            group.tokens[token.pattern] = token
            local length, known = #token.pattern, false
            for _, other in ipairs(group.lengths) do known = known or other == length end
            if not known then table.insert(group.lengths, length) end
            table.sort(group.lengths, function(a, b) return a > b end)
         end
         finder.n = finder.n + 1
      end
   end
   finder.pattern = "[" .. table.concat(letters) .. "]"
   return finder
end

local function matched(self, text, at)
   while true do
      at = text:find(self.pattern, at)
      if not at then return nil end
      local group = self.by_byte[text:byte(at)]
      for _, length in ipairs(group.lengths) do
         local token = at + length - 1 <= #text and group.tokens[text:sub(at, at + length - 1)]
         if token then return at, at + length - 1, token end
      end
      at = at + 1
   end
end

local function is_word(text, at)
   return characters.class "rust_word"[utf8.codepoint(text, at)]
end

local function stands_alone(text, first, last)
   local left = first == 1 or not is_word(text, utf8.offset(text, -1, first))
   return left and (last == #text or not is_word(text, last + 1))
end

--- Returns the tokens that occur in a text, as a flat list {first, last, id, ...}.
---@param text string
---@return table
function Finder:find(text)
   local list, n = {}, 0
   if self.n == 0 then return list end
   local space = characters.class "space"
   local at, taken = 1, 1
   while true do
      local first, last, token = matched(self, text, at)
      if not first then return list end
      at = last + 1
      -- `is_free` is false if the rstrip option of the previous token has taken the spaces with
      -- which this token begins.
      local is_free = first >= taken
      if is_free and (not token.single_word or stands_alone(text, first, last)) then
         if token.lstrip then
            while first > taken do
               local before = utf8.offset(text, -1, first)
               if not space[utf8.codepoint(text, before)] then break end
               first = before
            end
            first = math.max(first, taken)
         end
         if token.rstrip then
            while last < #text and space[utf8.codepoint(text, last + 1)] do
               last = utf8.offset(text, 2, last + 1) - 1
            end
         end
         list[n + 1], list[n + 2], list[n + 3] = first, last, token.id
         n, taken = n + 3, last + 1
      end
   end
end

return M
