-- lists.lua - implements Python's functions and methods of lists.

local torch = require "tlua"
local M = require "tlua.port.python.base"

local each <const>, less <const>, show <const> = M.iterator, M.less, M.show

--- Returns a list of all values of an iterator.
function M.collect(iterator)
   local list = {}
   for item in iterator do list[#list + 1] = item end
   return list
end

--- Implements list(thing): returns a new list of an object's items.
function M.list(thing)
   if thing == nil then return {} end
   return M.collect(each(thing))
end

--- Returns the items from the first to the last position, both counted from 1, or from the end if
--- negative.
function M.slice(list, first, last, step)
   local n, result = #list, {}
   step = step or 1
   local function place(position) return position < 0 and n + 1 + position or position end
   first, last = place(first), place(last or -1)
   if step < 0 then first, last = math.min(last, n), math.max(first, 1) end
   for i = step > 0 and math.max(first, 1) or first, step > 0 and math.min(last, n) or last, step do
      result[#result + 1] = list[i]
   end
   return torch._is_size(list) and torch.Size(result) or result
end

--- Concatenates lists. The result is a torch.Size if the first list is one.
function M.concat(first, ...)
   local result = table.move(first, 1, #first, 1, {})
   for _, list in ipairs {...} do table.move(list, 1, #list, #result + 1, result) end
   return torch._is_size(first) and torch.Size(result) or result
end

--- list * n.
function M.rep(list, n)
   local result = {}
   for _ = 1, n do table.move(list, 1, #list, #result + 1, result) end
   return result
end

function M.extend(list, more)
   for item in each(more) do M.append(list, item) end
end

--- Returns the item at a position from the end: 1 is the last one.
function M.from_end(list, position) return list[#list + 1 - position] end

--- Replaces the items from the first to the last position by any number of other items. Positions
--- have the same meaning as for `slice`.
function M.set_slice(list, first, last, items)
   local n, new = #list, M.list(items)
   if first < 0 then first = n + 1 + first end
   if last < 0 then last = n + 1 + last end
   first = math.max(1, math.min(first, n + 1))
   last = math.max(first - 1, math.min(last, n))
   table.move(list, last + 1, n, #new + 1, new)
   for i = n, first, -1 do list[i] = nil end
   table.move(new, 1, #new, first, list)
end

function M.reversed(list)
   local result = {}
   for i = #list, 1, -1 do result[#result + 1] = list[i] end
   return result
end

function M.reverse(list)
   for i = 1, #list // 2 do list[i], list[#list + 1 - i] = list[#list + 1 - i], list[i] end
end

function M.clear(t)
   for key in pairs(t) do t[key] = nil end
end

function M.copy(t)
   local result = setmetatable({}, getmetatable(t))
   for key, value in pairs(t) do result[key] = value end
   return result
end

--- Copies nested tables and the tensors in them.
function M.deepcopy(value, seen)
   seen = seen or {}
   if torch.is_tensor(value) then
      seen[value] = seen[value] or value:detach():clone():requires_grad_(value.requires_grad)
      return seen[value]
   end
   if type(value) ~= "table" then return value end
   if seen[value] then return seen[value] end
   local result = setmetatable({}, getmetatable(value))
   seen[value] = result
   for key, item in next, value do rawset(result, M.deepcopy(key, seen), M.deepcopy(item, seen)) end
   return result
end

-- Sorts a list in place; equal items keep their order.
local function stable_sort(list, options)
   local key = options and options.key or function(item) return item end
   local rows = {}
   for i, item in ipairs(list) do rows[i] = {key(item), i, item} end
   local reverse = options and options.reverse
   table.sort(rows, function(a, b)
      local x, y = a[1], b[1]
      if reverse then x, y = y, x end
      if less(x, y) then return true end
      if less(y, x) then return false end
      return a[2] < b[2]
   end)
   for i, row in ipairs(rows) do list[i] = row[3] end
   return list
end

--- Implements sorted(thing): returns a new list; the options are {key = fn, reverse = true}.
function M.sorted(thing, options) return stable_sort(M.list(thing), options) end
--- Implements list.sort(...): sorts a list in place.
function M.sort(list, options) stable_sort(list, options) end

function M.sum(thing, start)
   local total = start or 0
   for item in each(thing) do total = total + item end
   return total
end

function M.prod(thing)
   local total = 1
   for item in each(thing) do total = total * item end
   return total
end

local function extreme(name, better)
   M[name] = function(thing, key)
      local best, best_key
      for item in each(thing) do
         local value = key and key(item) or item
         if best == nil or better(value, best_key) then best, best_key = item, value end
      end
      return best == nil and error(name .. ": expected at least one item", 2) or best
   end
end
extreme("max", function(a, b) return less(b, a) end)
extreme("min", less)

-- Returns whether a value is false in Python.
local function is_false(value)
   return not value or value == 0 or value == ""
      or type(value) == "table" and not getmetatable(value) and next(value) == nil
end

function M.any(thing)
   for item in each(thing) do
      if not is_false(item) then return true end
   end
   return false
end

function M.all(thing)
   -- The items are read by position, because an iterator would end at an item that is nil or false.
   if type(thing) == "table" and not getmetatable(thing) then
      for i = 1, #thing do
         if is_false(thing[i]) then return false end
      end
      return true
   end
   for item in each(thing) do
      if is_false(item) then return false end
   end
   return true
end

function M.map(fn, thing, other)
   local result = {}
   for a, b in M.zip(thing, other or thing) do
      result[#result + 1] = other and fn(a, b) or fn(a)
   end
   return result
end

function M.filter(fn, thing)
   local result = {}
   for item in each(thing) do
      if (fn or function(x) return not is_false(x) end)(item) then result[#result + 1] = item end
   end
   return result
end

function M.reduce(fn, thing, start)
   local result = start
   for item in each(thing) do
      if result == nil then result = item else result = fn(result, item) end
   end
   return result
end

function M.zip_list(...)
   return M.collect(M.packed(M.zip(...)))
end

function M.enumerate_list(thing, start)
   return M.collect(M.packed(M.enumerate(thing, start)))
end

--- Implements list.index(item): returns the position of an item, from 0.
function M.index(list, item)
   for i, other in ipairs(list) do
      if M.equal(other, item) then return i - 1 end
   end
   error(("index: %s is not in the list"):format(show(item)), 2)
end

function M.count_items(list, item)
   local n = 0
   for other in each(list) do n = n + (M.equal(other, item) and 1 or 0) end
   return n
end

function M.remove(list, item)
   table.remove(list, M.index(list, item) + 1)
end

--- Makes a list that keeps only its last `maxlen` items when py.append adds to it.
function M.deque(list, maxlen)
   local result = setmetatable({}, {maxlen = maxlen})
   for item in each(list) do M.append(result, item) end
   return result
end

local function limit_of(list)
   local meta = getmetatable(list)
   return type(meta) == "table" and meta.maxlen or math.huge
end

function M.append(list, item)
   list[#list + 1] = item
   if #list > limit_of(list) then table.remove(list, 1) end
end

--- Adds an item at the beginning of a list; a full deque loses its last item.
function M.appendleft(list, item)
   table.insert(list, 1, item)
   if #list > limit_of(list) then table.remove(list) end
end

--- Returns whether two values are equal; tables are compared by their items.
function M.equal(a, b)
   if type(a) ~= "table" or type(b) ~= "table" or getmetatable(a) and getmetatable(a).__eq then
      return a == b
   end
   for key, value in pairs(a) do
      if not M.equal(value, b[key]) then return false end
   end
   for key in pairs(b) do
      if a[key] == nil then return false end
   end
   return true
end

--- Implements `item in thing`: an item of a list, a key of a dict or set, or a part of a text.
function M.contains(thing, item)
   if type(thing) == "string" then return thing:find(item, 1, true) ~= nil end
   if type(thing) == "table" and not getmetatable(thing) and #thing == 0 then
      return thing[item] ~= nil
   end
   if getmetatable(thing) == M.set_class then return thing[item] == true end
   if type(thing) == "table" and type(thing.contains) == "function" then
      return thing:contains(item)
   end
   if torch.isinstance(thing, torch.nn.Module) and thing.items then
      for name in thing:items() do
         if name == item then return true end
      end
      return false
   end
   for other in each(thing) do
      if torch.is_tensor(other) and type(item) == "number" then other = other:item() end
      if M.equal(other, item) then return true end
   end
   return false
end

return M
