-- slicing.lua - negative positions and ranges as keys of lists of modules or parameters: list[-1],
-- list[{2, 3}], list[{2, -1}]. A range includes its end. Assigning to a position outside of the
-- list is an error, because the list would hold a value that it never uses.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local item_names = require "tlua.nn.item_names"
local Module = require "tlua.nn.modules.Module"

local M = {}

-- Returns the first and last position of a range {first, last}; {} means the whole list.
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

-- Converts a negative position, counted from the end, into a positive one.
local function from_end(self, key)
   local position = #self + 1 + key
   if position >= 1 then return position end
   torch.raise(("%s: expected a position from -%d to -1, got %d"):format(torch.type(self), #self,
      key))
end

-- Returns the value for a key that neither the list nor its class has as a field: a range, a
-- module's name, or a negative position.
local function lookup(self, key, make)
   if type(key) == "table" then
      local first, last = bounds(self, key)
      return make(table.move(self, first, last, 1, {}), self, first)
   end
   local named = item_names.position(self, key)
   if named then return rawget(self, named) end
   if math.type(key) == "integer" and key < 0 then return rawget(self, from_end(self, key)) end
   if key == 0 then
      torch.raise(("%s: expected a position, counted from 1 or from the end with -1, got 0")
         :format(torch.type(self)))
   end
   return nil
end

--- Checks a list that was given to a class: it must be a plain table, or an instance of a list
--- class.
---@param who string  the class or function, for the message
---@param what string  the kind of items, such as "modules"
---@param list any
---@return table list
function M.check(who, what, list)
   if type(list) ~= "table" or class.isinstance(list, Module) and not list._is_list then
      args.refuse(who, what, "a list of " .. what, list)
   elseif not getmetatable(list) then
      local n = #list
      for key in pairs(list) do
         if math.type(key) ~= "integer" or key < 1 or key > n then
            torch.raise(("%s: %s: expected a list, got a table with the key %s, whose order "
               .. "is undefined; write {first, second}, without keys"):format(who, what,
               tostring(key)))
         end
      end
   end
   return list
end

--- Defines indexing for instances of a class. Reading the position after the end gives nil, so that
--- ipairs stops there; assigning to that position appends an item.
---@param cls table
---@param make fun(items: any[], from: nn.Module, first: integer): nn.Module  makes a list of
--- `items`, which the list `from` has from position `first` on
---@param admit fun(value: any): any  returns the value as an item, or nil if it cannot be one
---@param what string  an item, such as "a module"
function M.define(cls, make, admit, what)
   local set <const> = cls.__newindex
   cls._is_list = true

   class.index_by(cls, function(own)
      return function(self, key)
         -- Key 1 is missing only in an empty list. ipairs must run zero times for such a list, so
         -- nil is returned.
         if key == 1 then return nil end
         -- Methods are looked up before negative positions and ranges, because every method call
         -- comes here.
         local value = own[key]
         if value ~= nil then return value end
         return lookup(self, key, make)
      end
   end)

   -- Lets pairs iterate over the items, and then over children that have names.
   function cls:__pairs()
      local keys, i = {}, 0
      for position = 1, #self do keys[position] = position end
      for name in self:named_children() do
         if rawget(self, name) ~= nil and not math.tointeger(name) then keys[#keys + 1] = name end
      end
      return function()
         i = i + 1
         if keys[i] ~= nil then return keys[i], self[keys[i]] end
      end
   end

   function cls:__newindex(key, value)
      local position = type(key) == "number" and (math.tointeger(key) or 0)
      if not position then return set(self, key, value) end
      local n = #self
      if position < 0 then position = from_end(self, position) end
      -- table.remove assigns nil to the position after the end. This is allowed, and has no effect.
      if position == n + 1 and value == nil then return end
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
