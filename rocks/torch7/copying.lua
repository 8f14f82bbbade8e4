-- copying.lua - copies and converts whole objects. Tensors that share memory have copies that share
-- memory as well.

local torch = require "tlua"
local types = require "tlua.torch7.types"

local field, methods = types.field, types.methods

local M = {}

-- Returns a copy of the whole memory that a tensor or storage views, as elements of `kind`. `memo`
-- maps each memory to its copy, so that tensors which shared memory share the copy.
local function moved(elements, kind, memo)
   local key = torch._storage_key(elements)
   local known = memo[key]
   if not known or known.kind ~= kind then
      known = {kind = kind, elements = methods.to(torch.clone(torch._storage_view(elements, false)),
         types.place(kind)), keeps = elements}
      memo[key] = known
   end
   return known.elements
end

local function move_tensor(x, kind, memo)
   if methods.numel(x) == 0 then return types.new(kind) end
   local made = torch.empty(0, types.place(kind))
   methods.set_(made, moved(x, kind, memo), methods.storage_offset(x), field(x, "shape"),
      methods.stride(x))
   return debug.setmetatable(made, kind.tensor)
end

local function copy(value, memo)
   if memo[value] then return memo[value] end
   local made
   if types.is_tensor(value) then
      made = move_tensor(value, types.kind_of(value), memo)
   elseif types.is_storage(value) then
      local kind = types.kind_of_meta[getmetatable(value)]
      made = types.storage(kind, moved(value.elements, kind, memo))
   elseif type(value) == "table" then
      made = {}
      memo[value] = made
      for key, inner in next, value do made[copy(key, memo)] = copy(inner, memo) end
      return setmetatable(made, getmetatable(value))
   else
      return value
   end
   memo[value] = made
   return made
end

--- Returns a deep copy of an object.
---@param object any
---@param shared? table  maps values that the copy shares with the object to themselves
---@return any
function M.copy(object, shared) return copy(object, shared or {}) end

local floats = {float64 = true, float32 = true, float16 = true}

local function convert(value, kind, memo)
   if memo[value] then return memo[value] end
   if types.is_tensor(value) then
      local old = types.kind_of(value)
      -- Integer tensors, such as labels, stay unchanged.
      local target = kind
      if not floats[old.dtype] then return value end
      memo[value] = old == target and value or move_tensor(value, target, memo)
      return memo[value]
   elseif type(value) == "table" and not types.is_storage(value) then
      memo[value] = value
      for key, inner in next, value do value[key] = convert(inner, kind, memo) end
   end
   return value
end

--- Converts all floating-point tensors in an object to a kind. Tables are changed in place.
---@param object any
---@param kind torch7.Kind
---@param memo? table  a table; if several calls get the same table, tensors that share memory still
---  share it afterwards
---@return any
function M.convert(object, kind, memo) return convert(object, kind, memo or {}) end

return M
