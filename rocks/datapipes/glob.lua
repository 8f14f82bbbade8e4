-- glob.lua - patterns for file names. * matches any characters, ? matches any single character,
-- [abc] and [a-z] match one of the characters in brackets, and [!abc] matches any other single
-- character.

local M = {}

-- Converts one element of a pattern, such as * or [abc], to a Lua pattern. `at` is the element's
-- position. Also returns the position after the element.
local function piece(mask, at)
   local c = mask:sub(at, at)
   if c == "*" then return ".*", at + 1 end
   if c == "?" then return ".", at + 1 end
   if c == "[" then
      local negated, set, after = mask:match("^%[(!?)(%]?[^%]]*)%]()", at)
      if set and set ~= "" then
         set = set:gsub("[%%%]%^%[]", "%%%0")
         return ("[%s%s]"):format(negated == "!" and "^" or "", set), after
      end
   end
   return c:gsub("%W", "%%%0"), at + 1
end

local function pattern(mask)
   local pieces, at = {}, 1
   while at <= #mask do
      local text
      text, at = piece(mask, at)
      pieces[#pieces + 1] = text
   end
   return ("^%s$"):format(table.concat(pieces))
end

--- Returns a function that tells whether a name matches one of the patterns. The pattern "" and an
--- empty list match every name.
---@param masks string[]
---@return fun(name: string): boolean
function M.any(masks)
   local patterns = {}
   for i, mask in ipairs(masks) do
      if mask == "" then return function() return true end end
      patterns[i] = pattern(mask)
   end
   return function(name)
      for _, wanted in ipairs(patterns) do
         if name:find(wanted) then return true end
      end
      return #patterns == 0
   end
end

return M
