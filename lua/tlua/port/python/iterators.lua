-- iterators.lua - iterators for Python's `for` loops.

local M = require "tlua.port.python.base"

local each <const>, sorted_keys <const> = M.iterator, M.sorted_keys

--- Iterates over a list's items, a dict's keys, a tensor's rows, a loader's batches, a text's
--- characters.
function M.each(thing) return each(thing) end

--- Iterates over items that are tuples, and returns the items of each tuple as several values.
--- Other items are returned as `each` returns them.
function M.tuples(thing)
   local next_item = each(thing)
   return function()
      local first, second = next_item()
      if second == nil and type(first) == "table" and not getmetatable(first) then
         return table.unpack(first)
      end
      return first, second
   end
end

--- Implements Python's enumerate: in `for i, x in py.enumerate(list)`, i counts from 0 or `start`.
--- If the iterator returns several values, all of them follow i.
---@param thing any
---@param start? integer
function M.enumerate(thing, start)
   local next_item = each(thing)
   local i = (start or 0) - 1
   local function give(first, ...)
      if first == nil then return nil end
      i = i + 1
      return i, first, ...
   end
   return function() return give(next_item()) end
end

--- Iterates over several objects in parallel, until the first one ends.
function M.zip(...)
   local iterators = {}
   for i, thing in ipairs {...} do iterators[i] = each(thing) end
   return function()
      local values = {}
      for i, iterator in ipairs(iterators) do
         values[i] = iterator()
         if values[i] == nil then return nil end
      end
      return table.unpack(values)
   end
end

--- Returns an iterator that packs the values of each step of `iterator` into one table.
function M.packed(iterator)
   return function()
      local values = {iterator()}
      return values[1] ~= nil and values or nil
   end
end

--- Iterates over a DataLoader's batches as Python does: a batch of one value is returned as that
--- value, and a batch of several values as a list.
function M.batches(iterator)
   return function()
      local values = {iterator()}
      if #values > 1 then return values end
      return values[1]
   end
end

--- Counts from `start` on without end.
function M.count(start, step)
   local i = (start or 0) - (step or 1)
   return function()
      i = i + (step or 1)
      return i
   end
end

--- Iterates like range(first, stop, step) for a step that is computed at run time.
function M.range(first, stop, step)
   local i = first - step
   return function()
      i = i + step
      if step > 0 and i >= stop or step < 0 and i <= stop then return nil end
      return i
   end
end

--- Returns range(...) as a list.
function M.range_list(first, stop, step)
   if stop == nil then first, stop = 0, first end
   local list = {}
   for i in M.range(first, stop, step or 1) do list[#list + 1] = i end
   return list
end

--- Implements itertools.product: iterates over all combinations of one item from each argument.
function M.product(...)
   local lists = {}
   for i, thing in ipairs {...} do lists[i] = M.list(thing) end
   return coroutine.wrap(function()
      local values = {}
      local function choose(i)
         if i > #lists then return coroutine.yield(table.unpack(values)) end
         for _, item in ipairs(lists[i]) do
            values[i] = item
            choose(i + 1)
         end
      end
      choose(1)
   end)
end

--- Iterates over the keys and values of a table in the order of the keys.
function M.sorted_pairs(t)
   local keys, i = sorted_keys(t), 0
   return function()
      i = i + 1
      return keys[i], t[keys[i]]
   end
end

return M
