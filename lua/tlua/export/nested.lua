-- nested.lua - converts nested tables of tensors, the arguments and results of a traced function,
-- to a list of tensors and a structure of plain data, and back.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"

local M = {}

-- The largest depth of nested tables. Files store the structure as JSON, whose nesting is limited.
local DEEPEST <const> = 24

-- Returns the keys of a table in a fixed order.
function M.sorted_keys(list)
   local keys = {}
   for key in pairs(list) do keys[#keys + 1] = key end
   table.sort(keys, function(a, b)
      local i, j = math.type(a) == "integer", math.type(b) == "integer"
      if i ~= j then return i end
      if i then return a < b end
      return tostring(a) < tostring(b)
   end)
   return keys
end

-- Raises an error if a table contains itself, or is nested too deeply. `outer` lists the tables
-- around it.
local function check_depth(title, name, value, outer)
   if #outer == DEEPEST then
      torch.raise(("%s: %s: expected tables that are nested at most %d deep"):format(title, name,
         DEEPEST))
   end
   for _, table_around in ipairs(outer) do
      if table_around == value then
         torch.raise(("%s: %s: expected no table that contains itself"):format(title, name))
      end
   end
end

--- Raises an error, which names the tensor, if a tensor cannot be part of a program: a sparse
--- tensor, or a parameter of a lazy module without a shape.
function M.check_tensor(title, name, tensor)
   if torch._sparse_parts(tensor) then
      torch.raise(("%s: %s: expected a dense tensor, got one of layout %s"):format(title, name,
         tensor.layout))
   end
   if tensor:numel() == 0 and require "tlua.nn.Uninitialized".is_lazy(tensor) then
      torch.raise(("%s: %s has no shape yet: call the model once before"):format(title, name))
   end
end

local function flatten(title, name, value, out, names, outer)
   if torch.is_tensor(value) then
      M.check_tensor(title, name, value)
      out[#out + 1] = value
      if names then names[#names + 1] = name end
      return 0
   end
   if type(value) ~= "table" or getmetatable(value) then
      args.refuse(title, name, "a tensor, or a table of tensors", value)
   end
   check_depth(title, name, value, outer)
   outer[#outer + 1] = value
   local structure = json.as_array {}
   for i, key in ipairs(M.sorted_keys(value)) do
      if math.type(key) ~= "integer" and type(key) ~= "string" then
         args.refuse(title, name, "keys that are integers or strings", key)
      end
      local inner = ("%s.%s"):format(name, key)
      structure[i] = json.as_array {key, flatten(title, inner, value[key], out, names, outer)}
   end
   outer[#outer] = nil
   return structure
end

--- Appends the tensors of a value to `out`, and returns the value's structure: 0 for a tensor, or
--- for a table a list of {key, structure of the value}.
function M.flatten(title, name, value, out, names)
   return flatten(title, name, value, out, names, {})
end

--- Returns whether two tensors have the same dtype, shape and bits. All NaNs are equal to each
--- other here.
function M.same_bits(a, b)
   return a.dtype == b.dtype and table.concat(a.shape, ",") == table.concat(b.shape, ",")
      and (a:eq(b) | (a:ne(a) & b:ne(b))):all():item()
end

--- Returns whether two structures are the same.
function M.same(a, b)
   if a == 0 or b == 0 then return a == b end
   for i = 1, math.max(#a, #b) do
      if not (a[i] and b[i]) or a[i][1] ~= b[i][1] or not M.same(a[i][2], b[i][2]) then
         return false
      end
   end
   return true
end

--- Returns a value of the given structure with the list's tensors from position `at` on, and the
--- position after the last of these tensors.
function M.unflatten(structure, list, at)
   if structure == 0 then return list[at], at + 1 end
   local value = {}
   for _, entry in ipairs(structure) do value[entry[1]], at = M.unflatten(entry[2], list, at) end
   return value, at
end

return M
