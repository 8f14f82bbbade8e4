-- heap.lua - a priority queue that returns the entry with the smallest key first.

local Heap = {}
Heap.__index = Heap

local M = {}

--- Makes an empty queue.
---@return table
function M.new() return setmetatable({n = 0, keys = {}, a = {}, b = {}}, Heap) end

--- Adds an entry, which consists of a key and two values.
---@param key integer
---@param a any
---@param b any
function Heap:push(key, a, b)
   local keys, as, bs = self.keys, self.a, self.b
   local i = self.n + 1
   self.n = i
   while i > 1 do
      local parent = i // 2
      if keys[parent] <= key then break end
      keys[i], as[i], bs[i] = keys[parent], as[parent], bs[parent]
      i = parent
   end
   keys[i], as[i], bs[i] = key, a, b
end

--- Removes the entry with the smallest key, and returns it.
---@return integer key
---@return any a
---@return any b
function Heap:pop()
   local keys, as, bs, n = self.keys, self.a, self.b, self.n
   local key, a, b = keys[1], as[1], bs[1]
   local last, last_a, last_b = keys[n], as[n], bs[n]
   keys[n], as[n], bs[n] = nil, nil, nil
   n = n - 1
   self.n = n
   local i = 1
   while 2 * i <= n do
      local child = 2 * i
      if child < n and keys[child + 1] < keys[child] then child = child + 1 end
      if keys[child] >= last then break end
      keys[i], as[i], bs[i] = keys[child], as[child], bs[child]
      i = child
   end
   if n > 0 then keys[i], as[i], bs[i] = last, last_a, last_b end
   return key, a, b
end

return M
