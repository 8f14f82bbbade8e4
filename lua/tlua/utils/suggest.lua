-- suggest.lua - makes suggestions for mistyped names, as in "did you mean".

local M = {}

-- Returns the edit distance of two words: the number of insertions, deletions, replacements and
-- swaps of neighbours.
local function distance(a, b)
   local before, last = {}, {}
   for j = 0, #b do last[j] = j end
   for i = 1, #a do
      local row = {[0] = i}
      for j = 1, #b do
         local same = a:byte(i) == b:byte(j)
         row[j] = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same and 0 or 1))
         local swapped = i > 1 and j > 1
            and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j)
         if swapped then row[j] = math.min(row[j], before[j - 2] + 1) end
      end
      before, last = last, row
   end
   return last[#b]
end

-- Returns the edit distance of two words, but at most 1.5 if one word is a prefix of the other
-- word.
local function cost_of(word, other)
   local cost = distance(word, other)
   local shorter = math.min(#word, #other)
   local begins = shorter >= 2 and word:sub(1, shorter) == other:sub(1, shorter)
   return begins and math.min(cost, 1.5) or cost
end

local function check(title, name, names)
   local refuse = require "tlua.args".refuse
   if type(name) ~= "string" then refuse(title, "name", "a string", name) end
   if type(names) ~= "table" then refuse(title, "names", "a table", names) end
end

--- Returns the name closest to a mistyped one, or nil if no name is close. A name is close if one
--- letter or at most a third of the letters differ, or if one word is a prefix of the other word.
---@param name string
---@param names string[]|table<string, any>  a list, or a table with names as keys
---@return string?
function M.nearest(name, names)
   check("suggest.nearest", name, names)
   local word = name:lower()
   local best, best_cost = nil, math.max(1, #word // 3) + 1
   for key, value in pairs(names) do
      local candidate = type(key) == "string" and key or value
      local cost = type(candidate) == "string" and cost_of(word, candidate:lower()) or math.huge
      if cost < best_cost or cost == best_cost and best and candidate < best then
         best, best_cost = candidate, cost
      end
   end
   return best
end

--- Returns `; did you mean X?`, or the empty string if no name is near.
---@param name string
---@param names string[]|table<string, any>
---@return string
function M.hint(name, names)
   check("suggest.hint", name, names)
   local found = M.nearest(name, names)
   return found and ("; did you mean %s?"):format(found) or ""
end

return M
