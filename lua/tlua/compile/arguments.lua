-- arguments.lua - converts nested tables of tensors and plain data to a list of leaves (the values
-- that are no tables) and a template of the tables around them, and back, for torch.compile.

local torch = require "tlua"
local nested = require "tlua.export.nested"

local M = {}

-- The largest depth of nested tables.
local DEEPEST <const> = 16

local function flatten(value, leaves, around, seen)
   if type(value) ~= "table" then
      leaves.n = leaves.n + 1
      leaves[leaves.n] = value
      return 0
   end
   if getmetatable(value) or around > DEEPEST or seen[value] then return nil end
   seen[value] = true
   local template = {}
   for i, key in ipairs(nested.sorted_keys(value)) do
      if math.type(key) ~= "integer" and type(key) ~= "string" then return nil end
      local inner = flatten(value[key], leaves, around + 1, seen)
      if not inner then return nil end
      template[i] = {key, inner}
   end
   return template
end

--- Returns the template, the leaves and the set of the tables of a packed list of values. Returns
--- nil if a table has a metatable, has a key that is neither an integer nor a string, occurs twice,
--- or is nested too deeply.
function M.flatten(values)
   local template, leaves, seen = {n = values.n}, {n = 0}, {}
   for i = 1, values.n do
      local inner = flatten(values[i], leaves, 1, seen)
      if not inner then return nil end
      template[i] = inner
   end
   return template, leaves, seen
end

local function unflatten(template, leaves, at)
   if template == 0 then return leaves[at], at + 1 end
   local value = {}
   for _, entry in ipairs(template) do value[entry[1]], at = unflatten(entry[2], leaves, at) end
   return value, at
end

--- Returns the packed list that has this template and these leaves.
function M.unflatten(template, leaves)
   local values, at = {n = template.n}, 1
   for i = 1, template.n do values[i], at = unflatten(template[i], leaves, at) end
   return values
end

local function text(template, out)
   if template == 0 then
      out[#out + 1] = "."
      return
   end
   out[#out + 1] = "{"
   for _, entry in ipairs(template) do
      out[#out + 1] = ("%q="):format(entry[1])
      text(entry[2], out)
   end
   out[#out + 1] = "}"
end

--- Returns a template as a string.
function M.text(template)
   local out = {}
   for i = 1, template.n do text(template[i], out) end
   return table.concat(out)
end

--- Returns the leaves that are tensors, and their positions.
function M.tensors(leaves)
   local tensors, positions = {}, {}
   for i = 1, leaves.n do
      if torch.is_tensor(leaves[i]) then
         tensors[#tensors + 1], positions[#positions + 1] = leaves[i], i
      end
   end
   return tensors, positions
end

--- Returns the tensors among the leaves of results, each once. Also returns a list of pairs
--- {position of the leaf, number of the tensor in the first list}, one for each leaf that is a
--- tensor.
function M.results(leaves)
   local tensors, places, numbers = {}, {}, {}
   for i = 1, leaves.n do
      local leaf = leaves[i]
      if torch.is_tensor(leaf) then
         if not numbers[leaf] then
            tensors[#tensors + 1] = leaf
            numbers[leaf] = #tensors
         end
         places[#places + 1] = {i, numbers[leaf]}
      end
   end
   return tensors, places
end

--- Returns a copy of the leaves of results with the given tensors at the positions in `places`.
function M.with_results(leaves, places, tensors)
   local list = table.move(leaves, 1, leaves.n, 1, {n = leaves.n})
   for _, place in ipairs(places) do list[place[1]] = tensors[place[2]] end
   return list
end

--- Returns a copy of the leaves with the given tensors at the given positions.
function M.with_tensors(leaves, positions, tensors)
   local list = table.move(leaves, 1, leaves.n, 1, {n = leaves.n})
   for k, position in ipairs(positions) do list[position] = tensors[k] end
   return list
end

return M
