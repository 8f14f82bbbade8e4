-- names.lua - walks all public names that are reachable from `torch`. Names that begin with an
-- underscore are private. The shortest path to a value is the value's name; all other paths are
-- aliases.

local lazy = require "tlua.lazy"

local M = {}

--- Returns whether a value is a class of torch.class.
---@param value any
---@return boolean
function M.is_class(value)
   local meta = type(value) == "table" and getmetatable(value)
   return type(meta) == "table" and meta.ancestors ~= nil
end

local function is_public(key) return type(key) == "string" and not key:find "^_" end

-- Returns the sorted public fields of a table, including fields that are loaded on first use.
local function fields(value)
   local seen, list, unloaded = {}, {}, lazy.fields(value)
   for _, names in ipairs {value, unloaded} do
      for key in next, names do
         if is_public(key) and not seen[key] then
            seen[key] = true
            list[#list + 1] = key
         end
      end
   end
   table.sort(list)
   return list, unloaded
end

local function kind_of(value)
   if M.is_class(value) then return "class" end
   local kind = type(value)
   if kind == "table" then
      local meta = getmetatable(value)
      return (meta == nil or rawget(meta, "lazy")) and "module" or "object"
   end
   return kind == "function" and kind or "constant"
end

-- The kinds of values that can have aliases. Constants have none, because equal constants are
-- indistinguishable.
local has_identity = {class = true, ["function"] = true, module = true, object = true}

--- Returns all public names, the shortest first.
---@param torch table
---@return {path: string, kind: string, value: any, module: string?, aliases: string[]}[]
function M.walk(torch)
   local list, met = {}, {}
   local root = {path = "torch", kind = "module", value = torch, aliases = {}}
   local waiting, at = {root}, 1
   -- the class torch.Tensor is visited last, so that a function that is also a method gets the name
   -- that it has in another table
   local of_tensor
   list[1], met[torch] = root, root
   while waiting[at] do
      local owner = waiting[at]
      at = at + 1
      local names, unloaded = fields(owner.value)
      for _, key in ipairs(names) do
         local path, value = owner.path .. "." .. key, owner.value[key]
         local kind = kind_of(value)
         local known = has_identity[kind] and met[value]
         if known then
            table.insert(known.aliases, path)
         elseif value ~= package.loaded and value ~= _G then
            local entry = {
               path = path, kind = kind, value = value, module = unloaded[key], aliases = {},
            }
            list[#list + 1] = entry
            if has_identity[kind] then met[value] = entry end
            if path == "torch.Tensor" then
               of_tensor = entry
            elseif kind == "module" then
               waiting[#waiting + 1] = entry
            end
         end
      end
      if not waiting[at] and of_tensor then
         waiting[at], of_tensor = of_tensor, nil
      end
   end
   return list
end

return M
