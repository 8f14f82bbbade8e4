-- ModuleDict.lua - a table of modules by name. The modules become descendants of the module that
-- holds the table. ParameterDict has most of these methods as well, so each class describes the
-- kind of its items in `_items`.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local order = require "tlua.nn.order"
local slicing = require "tlua.nn.modules.slicing"

--- A table of modules by name. The modules become descendants of the module that holds the table.
---
---     local heads = torch.nn.ModuleDict {a = torch.nn.Linear(2, 1)}
---     heads.b = torch.nn.Linear(2, 3)
---     print(heads.b)
---     --> Linear(in_features=2, out_features=3, bias=true)
---@class nn.ModuleDict: nn.Module
---@overload fun(modules?: table<string, nn.Module>): nn.ModuleDict
local ModuleDict, parent = class.class("nn.ModuleDict", Module)

ModuleDict._items = {
   title = "nn.ModuleDict", one = "module", many = "modules", a = "a module",
   all = "a table of modules",
   admit = function(value) return class.isinstance(value, Module) and value or nil end,
   class = ModuleDict,
}

--- Indexing by a name gets or sets the item: `dict.name`, `dict.name = module`.
---@param items? table<string, any>|table[]  the items: a table's items are added in alphabetical
--- order, and the items of a list of pairs {name, item} in the list's order
function ModuleDict:__init(items, ...)
   parent.__init(self)
   local n, kind = 1 + select("#", ...), self._items
   if n > 1 then
      torch.raise(("%s: expected at most 1 argument, got %d"):format(kind.title, n))
   end
   if items ~= nil and type(items) ~= "table" then
      args.refuse(kind.title, kind.many, kind.all, items)
   end
   self:update(items or {})
end

--- Sets the items of a table in alphabetical order. The items of another dictionary of this class,
--- or of a list of pairs {name, item}, are set in their own order.
---@param items table<string, any>|table[]|nn.Module
---@return nn.Module self
function ModuleDict:update(items)
   local kind = self._items
   if type(items) ~= "table" then
      args.refuse(kind.title .. ".update", kind.many, kind.all, items)
   end
   if class.isinstance(items, Module) and items._items == kind then
      for name, item in items:items() do self:set(name, item) end
      return self
   end
   if items[1] ~= nil then
      for i, pair in ipairs(slicing.check(kind.title, kind.many, items)) do
         if type(pair) ~= "table" or getmetatable(pair) or #pair ~= 2 then
            args.refuse(kind.title, "pair " .. i, ("{name, %s}"):format(kind.one), pair)
         end
         self:set(pair[1], pair[2])
      end
      return self
   end
   local names = {}
   for name in pairs(items) do names[#names + 1] = name end
   table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
   for _, name in ipairs(names) do self:set(name, items[name]) end
   return self
end

--- Sets the item with a name. Names of methods are refused: the item would hide the method.
---@param name string
---@param item nn.Module|Tensor
---@return nn.Module self
function ModuleDict:set(name, item)
   local kind = self._items
   if type(name) ~= "string" then args.refuse(kind.title, "name", "a string", name) end
   local admitted = kind.admit(item)
   if admitted == nil then args.refuse(kind.title, name, kind.a, item) end
   if kind.class[name] ~= nil then
      torch.raise(("%s: %s is the name of a method"):format(kind.title, name))
   end
   self:_admit(name, item)
   order.begin()
   self[name] = admitted
   return self
end

--- Iterates over names and modules, in the order in which the names were added.
---@return fun(): string, nn.Module
function ModuleDict:items()
   local list, i = rawget(self, "_fields"), 0
   local names = list and table.move(list.order, 1, #list.order, 1, {}) or {}
   return function()
      while true do
         i = i + 1
         local name = names[i]
         if name == nil then return nil end
         local module = rawget(self, name)
         if class.isinstance(module, Module) then return name, module end
      end
   end
end

-- Lets pairs(dict) iterate over names and items, as items() does.
function ModuleDict:__pairs() return self:items() end

-- Makes #dict the number of names.
function ModuleDict:__len() return #self:keys() end

--- Returns the names, in the order in which they were added.
---@return string[]
function ModuleDict:keys()
   local names = {}
   for name in self:items() do names[#names + 1] = name end
   return names
end

--- Returns the items, in the order in which their names were added.
---@return (nn.Module|Tensor)[]
function ModuleDict:values()
   local list = {}
   for _, item in self:items() do list[#list + 1] = item end
   return list
end

--- Removes an item.
---@param name string
---@return nn.Module|Tensor item
function ModuleDict:pop(name)
   local item = rawget(self, name)
   if item == nil or self._items.admit(item) == nil then
      torch.raise(("%s.pop: there is no %s"):format(self._items.title, tostring(name)))
   end
   self[name] = nil
   return item
end

--- Removes all items.
---@return nn.Module self
function ModuleDict:clear()
   for _, name in ipairs(self:keys()) do self[name] = nil end
   return self
end

checked.methods(ModuleDict, [[update(items: any) set(name: any, item: any) items() keys()
   values() pop(name: any) clear()]])

return ModuleDict
