-- slicing.lua - positions from the end and ranges as keys of lists of modules or parameters:
-- list[-1], list[{2, 3}], list[{2, -1}]. As everywhere, a range includes its end. A position that
-- is none is an error, since what stood there would belong to the list and never be used.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local M = {}

-- First and last position of a range {first, last}; {} is all.
local function bounds(self, range)
   local n, first, last = #self, range[1], range[2]
   if next(range) == nil then return 1, n end
   local fits = #range == 2 and math.type(first) == "integer" and math.type(last) == "integer"
   for key in pairs(range) do fits = fits and (key == 1 or key == 2) end
   if not fits then
      torch.raise(("%s: expected a position, or a range {first, last}"):format(torch.type(self)))
   end
   if first < 0 then first = n + 1 + first end
   if last < 0 then last = n + 1 + last end
   if first < 1 or last > n or first > last + 1 then
      torch.raise(("%s: the range %d to %d does not lie inside of 1 to %d"):format(
         torch.type(self), range[1], range[2], n))
   end
   return first, last
end

-- The position that a negative number stands for.
local function from_end(self, key)
   local position = #self + 1 + key
   if position >= 1 then return position end
   torch.raise(("%s: expected a position from -%d to -1, got %d"):format(torch.type(self), #self,
      key))
end

-- The value of a key that neither the list nor its class has.
local function lookup(self, key, make)
   if type(key) == "table" then
      local first, last = bounds(self, key)
      return make(table.move(self, first, last, 1, {}))
   end
   if math.type(key) == "integer" and key < 0 then return rawget(self, from_end(self, key)) end
   if key == 0 then
      torch.raise(("%s: expected a position, counted from 1 or from the end with -1, got 0")
         :format(torch.type(self)))
   end
   return nil
end

--- A list that was given to a class, looked at: a plain one, or an instance of such a class.
---@param who string  the class or function, for the message
---@param what string  its items, such as "modules"
---@param list any
---@return table list
function M.check(who, what, list)
   if type(list) ~= "table" or class.isinstance(list, Module) and not list._is_list then
      args.refuse(who, what, "a list of " .. what, list)
   elseif getmetatable(list) == nil then
      local n = #list
      for key in pairs(list) do
         if math.type(key) ~= "integer" or key < 1 or key > n then
            torch.raise(("%s: %s: expected a list, got a table with the key %s, of which nobody "
               .. "knows the order"):format(who, what, tostring(key)))
         end
      end
   end
   return list
end

--- Gives instances of a class these keys. A position behind the end is nil, as ipairs wants it; the
--- first one behind the end can be set.
---@param cls table
---@param make fun(items: any[]): nn.Module  makes a list that shares some of the items
---@param admit fun(value: any): any  the value as an item; nil where it is none
---@param what string  an item, such as "a module"
function M.define(cls, make, admit, what)
   local set <const> = cls.__newindex
   cls._is_list = true

   class.index_by(cls, function(own)
      return function(self, key)
         if key == 1 then return nil end -- an empty list; other modules refuse to be looped over
         local value = own[key] -- every method comes this way
         if value ~= nil then return value end
         return lookup(self, key, make)
      end
   end)

   function cls:__newindex(key, value)
      local position = type(key) == "number" and (math.tointeger(key) or 0)
      if not position then return set(self, key, value) end
      local n = #self
      if position < 0 then position = from_end(self, position) end
      if position == n + 1 and value == nil then return end -- as table.remove does
      if position < 1 or position > n + 1 then
         torch.raise(("%s: expected a position from 1 to %d, got %s"):format(torch.type(self),
            n + 1, tostring(key)))
      end
      local item = admit(value)
      if item == nil then
         args.refuse(torch.type(self), "position " .. position, what, value)
      end
      return set(self, position, item)
   end
end

return M
