-- compact.lua - long lists of strings or numbers, each in one string. A vocabulary takes a fraction
-- of the memory that a table of its tokens takes. `#`, indices, ipairs, pairs, torch.tensor and the
-- functions of the library `table` that keep the length work as for tables; items can be replaced.
-- `next` and `rawget` cannot read the items.

local torch = require "tlua"

local M = {}

-- The only raw key and value of a compact list: next(list) returns them. Any use of them raises an
-- error.
local guard <const> = {}
do
   local function refuse()
      torch.raise("next: a compact list, as metadata of 1024 items and more are, has no raw items; "
         .. "read it by pairs, ipairs or an index")
   end
   local events = {}
   for event in ("add sub mul div mod pow unm idiv concat len lt le index newindex call tostring"
      .. " pairs band bor bxor shl shr bnot"):gmatch "%a+" do
      events["__" .. event] = refuse
   end
   setmetatable(guard, events)
end

-- Returns a list of `count` items, of which read(i) computes item i.
local function list_of(count, read)
   local function is_item(i) return math.type(i) == "integer" and i >= 1 and i <= count end
   local function each(self)
      local i = 0
      return function()
         i = i + 1
         if i <= count then return i, self[i] end
      end
   end
   return setmetatable({[guard] = guard}, {
      __len = function() return count end,
      __tostring = function() return ("compact list of %d items"):format(count) end,
      __pairs = each,
      __index = function(_, i)
         if is_item(i) then return read(i) end
      end,
      __newindex = function(self, i, value)
         if not is_item(i) then
            torch.raise(("a compact list has items from 1 to %d, got the index %s"):format(count,
               tostring(i)))
         elseif value == nil then
            torch.raise(("a compact list keeps its length of %d, so item %d cannot be removed; "
               .. "copy the list by table.move(list, 1, #list, 1, {})"):format(count, i))
         end
         rawset(self, i, value)
      end,
   })
end

--- Returns a list of numbers.
---@param bytes string  the packed numbers
---@param format string  the format of a number for string.unpack
---@return table
function M.numbers(bytes, format)
   local size = string.packsize(format)
   return list_of(#bytes // size, function(i)
      return (string.unpack(format, bytes, (i - 1) * size + 1))
   end)
end

--- Returns two functions: one appends a list of strings, the other returns all strings as one list.
---@return fun(list: string[]) add
---@return fun(): table finish
function M.strings()
   local texts, ends, last, count = {}, {string.pack("<I5", 0)}, 0, 0
   local function add(list)
      local own = {}
      for i, text in ipairs(list) do
         last = last + #text
         own[i] = string.pack("<I5", last)
      end
      texts[#texts + 1], ends[#ends + 1] = table.concat(list), table.concat(own)
      count = count + #list
   end
   local function finish()
      local all, places = table.concat(texts), table.concat(ends)
      return list_of(count, function(i)
         local before, after = string.unpack("<I5I5", places, 5 * i - 4)
         return all:sub(before + 1, after)
      end)
   end
   return add, finish
end

return M
