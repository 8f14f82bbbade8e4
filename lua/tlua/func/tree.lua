-- tree.lua - flattens nested plain tables of tensors, such as a table of a model's parameters by
-- name, into a list, and rebuilds the tables.

local torch = require "tlua"

local M = {}

local function precedes(a, b)
   if type(a) == type(b) then return a < b end
   return type(a) == "number"
end

-- Returns the keys of a node: numbers in order, then names in alphabetical order.
local function sorted_keys(node)
   local keys = {}
   for key in pairs(node) do keys[#keys + 1] = key end
   table.sort(keys, precedes)
   return keys
end

--- Returns whether a value is a node: a table without metatable.
---@param value any
---@return boolean
function M.is_node(value)
   return type(value) == "table" and not getmetatable(value)
end

--- Raises an error if a node contains itself, so that the structure has no end.
---@param value any
---@param name string  the argument's name in the error message
function M.check(value, name)
   local open = {}
   local function visit(node)
      if open[node] then torch.raise(name .. ": a table contains itself") end
      open[node] = true
      for _, part in pairs(node) do
         if M.is_node(part) then visit(part) end
      end
      open[node] = nil
   end
   if M.is_node(value) then visit(value) end
end

local function map(value, fn, path, beside)
   if not M.is_node(value) then return fn(value, path, beside) end
   local mapped = {}
   for _, key in ipairs(sorted_keys(value)) do
      local companion = beside
      if M.is_node(beside) then companion = beside[key] end
      mapped[key] = map(value[key], fn, path == "" and tostring(key) or path .. "." .. key,
         companion)
   end
   return mapped
end

--- Returns the same structure with each leaf replaced by fn(leaf, path, companion), in a fixed
--- order.
---@param value any
---@param fn fun(leaf: any, path: string, companion: any): any
---@param path? string  a text in front of the paths
---@param beside? any  a table with a companion for each leaf, or one companion for all leaves
---@return any
function M.map(value, fn, path, beside)
   M.check(value, "torch.func")
   return map(value, fn, path or "", beside)
end

--- Returns the tensors in a fixed order, and a function that puts other tensors in their positions.
---@param value any
---@return Tensor[] leaves
---@return fun(list: any[]): any rebuild
function M.flatten(value)
   local leaves = {}
   M.map(value, function(leaf)
      if torch.is_tensor(leaf) then leaves[#leaves + 1] = leaf end
   end)
   return leaves, function(list)
      local i = 0
      return M.map(value, function(leaf)
         if not torch.is_tensor(leaf) then return leaf end
         i = i + 1
         return list[i]
      end)
   end
end

-- Returns the keys of a node that can be sorted: first the numbers, then the strings.
local function orderly_keys(node)
   local keys = {}
   for key in pairs(node) do
      if type(key) == "number" or type(key) == "string" then keys[#keys + 1] = key end
   end
   table.sort(keys, precedes)
   return keys
end

--- Flattens any values that a function may take or return. Nodes may contain themselves and have
--- keys of any type; fields whose keys are neither numbers nor strings are not changed.
---@param values table  such as table.pack gives
---@return Tensor[] leaves
---@return fun(list: any[]): table rebuild
function M.tensors(values)
   local leaves, copies = {}, {}
   local function visit(node)
      if copies[node] then return end
      copies[node] = true
      for _, key in ipairs(orderly_keys(node)) do
         local part = node[key]
         if torch.is_tensor(part) then leaves[#leaves + 1] = part end
         if M.is_node(part) then visit(part) end
      end
   end
   visit(values)
   return leaves, function(list)
      local i, made = 0, {}
      local function copy(node)
         if made[node] then return made[node] end
         local new = {}
         made[node] = new
         for key, part in pairs(node) do new[key] = part end
         for _, key in ipairs(orderly_keys(node)) do
            local part = node[key]
            if torch.is_tensor(part) then
               i = i + 1
               new[key] = list[i]
            elseif M.is_node(part) then
               new[key] = copy(part)
            end
         end
         return new
      end
      return copy(values)
   end
end

return M
