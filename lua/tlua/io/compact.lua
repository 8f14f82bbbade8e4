-- compact.lua - long lists of strings or numbers, each in one string. A vocabulary takes a fraction
-- of the memory that a table of its tokens takes. `#`, indices, ipairs, pairs and the functions of
-- the library `table` that only read a list work as for tables; items can be replaced.

local M = {}

local function length(self) return self.count end

local function each(self)
   local i = 0
   return function()
      i = i + 1
      if i <= self.count then return i, self[i] end
   end
end

local function replace(self, i, value)
   if math.type(i) ~= "integer" or i < 1 or i > self.count then
      error(("a compact list has items from 1 to %d, got the index %s"):format(self.count,
         tostring(i)), 2)
   end
   rawset(self, i, value)
end

-- Returns the metatable of lists that compute item i by read(list, i).
local function kind(read)
   return {__len = length, __pairs = each, __newindex = replace, __index = function(self, i)
      if math.type(i) == "integer" and i >= 1 and i <= self.count then return read(self, i) end
   end}
end

local Numbers = kind(function(self, i)
   return (string.unpack(self.format, self.bytes, (i - 1) * self.size + 1))
end)

--- Returns a list of numbers.
---@param bytes string  the packed numbers
---@param format string  the format of a number for string.unpack
---@return table
function M.numbers(bytes, format)
   local size = string.packsize(format)
   return setmetatable({bytes = bytes, format = format, size = size, count = #bytes // size},
      Numbers)
end

local Strings = kind(function(self, i)
   local before, last = string.unpack("<I5I5", self.ends, 5 * i - 4)
   return self.text:sub(before + 1, last)
end)

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
      return setmetatable({text = table.concat(texts), ends = table.concat(ends), count = count},
         Strings)
   end
   return add, finish
end

return M
