-- tables.lua - implements Python's dicts and sets, and the collections module.

local M = require "tlua.port.python.base"

local each <const>, show <const>, sorted_keys <const> = M.iterator, M.show, M.sorted_keys

--- Returns the number of keys of a dict or set, or of items of a list.
function M.len(t)
   local meta = getmetatable(t)
   if type(t) ~= "table" or meta and meta.__len then return #t end
   local n = 0
   for _ in pairs(t) do n = n + 1 end
   return n
end

--- The metatable of sets. The items of a set are keys with the value true.
M.set_class = {
   __tostring = function(set)
      local parts = {}
      for i, key in ipairs(sorted_keys(set)) do parts[i] = show(key) end
      return #parts > 0 and "{" .. table.concat(parts, ", ") .. "}" or "set()"
   end,
   __bor = function(a, b) return M.set_update(M.copy(a), b) end,
   __band = function(a, b)
      local result = M.set()
      for key in pairs(a) do result[key] = b[key] end
      return result
   end,
   __sub = function(a, b)
      local result = M.set()
      for key in pairs(a) do
         if not b[key] then result[key] = true end
      end
      return result
   end,
}

function M.set(thing)
   return M.set_update(setmetatable({}, M.set_class), thing or {})
end

function M.set_update(set, thing)
   for item in each(thing) do set[item] = true end
   return set
end

--- Returns a new dict with the keys of several dicts; the last dict that has a key gives its value.
function M.merge(...)
   local result = {}
   for _, t in ipairs {...} do
      for key, value in pairs(t) do result[key] = value end
   end
   return result
end

function M.update(t, other)
   for key, value in pairs(other or {}) do t[key] = value end
end

--- Returns the keys, sorted if they can be compared.
function M.keys(t) return sorted_keys(t) end

function M.values(t)
   local list = {}
   for i, key in ipairs(sorted_keys(t)) do list[i] = t[key] end
   return list
end

function M.items(t)
   local list = {}
   for i, key in ipairs(sorted_keys(t)) do list[i] = {key, t[key]} end
   return list
end

function M.setdefault(t, key, default)
   if t[key] == nil then t[key] = default end
   return t[key]
end

--- Implements dict.pop(key, default).
function M.pop(t, key, default)
   local value = t[key]
   t[key] = nil
   if value == nil then return default end
   return value
end

--- Implements collections.Counter: counts how often each item occurs; an absent item's count is 0.
function M.Counter(thing)
   local counts = setmetatable({}, {__index = function() return 0 end})
   for item in each(thing or {}) do counts[item] = counts[item] + 1 end
   return counts
end

function M.most_common(counts, n)
   local list = M.sorted(M.items(counts), {key = function(pair) return pair[2] end, reverse = true})
   return n and M.slice(list, 1, n) or list
end

--- Implements collections.defaultdict(make).
function M.defaultdict(make)
   return setmetatable({}, {__index = function(t, key)
      local value = type(make) == "function" and make() or make
      t[key] = value
      return value
   end})
end

return M
