-- pointers.lua - the pointers that tensor:data() and storage:data() return. They are used like
-- LuaJIT's pointers to numbers: p[i] is an element, counted from 0, and p + n is another pointer.
-- Unlike LuaJIT's pointers, they keep the memory alive and raise an error for positions outside the
-- storage.

local torch = require "tlua"
local types = require "tlua.torch7.types"

local field, methods = types.field, types.methods

local M = {}
local pointer = {}

-- These tables map pointers to their storages and positions. A pointer has no fields for them,
-- since p[i] reads an element.
local storages, positions = setmetatable({}, {__mode = "k"}), setmetatable({}, {__mode = "k"})

local function point(elements, position)
   local made = setmetatable({}, pointer)
   storages[made], positions[made] = elements, position
   return made
end

--- Returns a pointer to the memory of a tensor or of a storage's elements, `offset` elements after
--- the beginning of the memory.
---@param x Tensor
---@param offset integer
---@return table
function M.to(x, offset) return point(torch._storage_view(x, false), offset) end

-- Returns the position in the storage, counted from 1, of element i of a pointer.
local function position_of(self, i)
   local whole = math.tointeger(i)
   if not whole then
      torch.raise(("data: expected an integer as an index, got %s"):format(tostring(i)))
   end
   local at, n = positions[self] + whole, field(storages[self], "shape")[1]
   if at < 0 or at >= n then
      torch.raise(("data: index %d: expected a position inside of the storage, from %d to %d")
         :format(whole, -positions[self], n - 1 - positions[self]))
   end
   return at + 1
end

function pointer:__index(i)
   return methods.item(torch.select(storages[self], 1, position_of(self, i)))
end

function pointer:__newindex(i, value)
   if type(value) ~= "number" then
      torch.raise(("data: expected a number as an element, got %s"):format(type(value)))
   end
   methods.fill_(torch.select(storages[self], 1, position_of(self, i)), value)
end

-- Returns the pointer p + n or n + p. Like p, it can reach only the elements of the storage.
local function moved(self, n)
   if not storages[self] then self, n = n, self end
   if not math.tointeger(n) then
      torch.raise(("data: expected an integer to add to a pointer, got %s"):format(tostring(n)))
   end
   return point(storages[self], positions[self] + math.tointeger(n))
end
pointer.__add = moved

local function is_same_storage(a, b)
   return storages[a] and storages[b]
      and types.storage_key(storages[a]) == types.storage_key(storages[b])
end

function pointer.__sub(a, b)
   if math.type(b) then return moved(a, -b) end
   if not is_same_storage(a, b) then
      torch.raise "data: expected pointers to one storage"
   end
   return positions[a] - positions[b]
end

function pointer.__eq(a, b)
   return is_same_storage(a, b) and positions[a] == positions[b]
end

function pointer:__tostring()
   return ("pointer to element %d of %s"):format(positions[self], field(storages[self], "dtype"))
end

return M
