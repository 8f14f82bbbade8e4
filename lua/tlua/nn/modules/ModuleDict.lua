-- ModuleDict.lua - a table of modules by name; the modules are descendants of its owner.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local order = require "tlua.nn.order"
local slicing = require "tlua.nn.modules.slicing"

--- A table of modules by name, which become descendants of the module that has it.
---
---     local heads = torch.nn.ModuleDict {a = torch.nn.Linear(2, 1)}
---     heads.b = torch.nn.Linear(2, 3)
---     print(heads.b)
---     --> Linear(in_features=2, out_features=3, bias=true)
---@class nn.ModuleDict: nn.Module
---@overload fun(modules?: table<string, nn.Module>): nn.ModuleDict
local ModuleDict, parent = class.class("nn.ModuleDict", Module)

--- Indexing by a name gets or sets the module: `dict.name`, `dict.name = module`.
---@param modules? table<string, nn.Module>|table[]  the modules, taken in alphabetical order; a
--- list of pairs {name, module} in its order
function ModuleDict:__init(modules, ...)
   parent.__init(self)
   local n = 1 + select("#", ...)
   if n > 1 then
      torch.raise(("nn.ModuleDict: expected at most 1 argument, got %d"):format(n))
   end
   if modules ~= nil and type(modules) ~= "table" then
      args.refuse("nn.ModuleDict", "modules", "a table of modules", modules)
   end
   self:update(modules or {})
end

--- Sets the modules of a table, in alphabetical order, or of another ModuleDict or a list of pairs
--- {name, module}, in its order.
---@param modules table<string, nn.Module>|table[]|nn.ModuleDict
---@return nn.ModuleDict self
function ModuleDict:update(modules)
   if type(modules) ~= "table" then
      args.refuse("nn.ModuleDict.update", "modules", "a table of modules", modules)
   end
   if class.isinstance(modules, ModuleDict) then
      for name, module in modules:items() do self:set(name, module) end
      return self
   end
   if modules[1] ~= nil then
      for i, pair in ipairs(slicing.check("nn.ModuleDict", "modules", modules)) do
         if type(pair) ~= "table" or getmetatable(pair) or #pair ~= 2 then
            args.refuse("nn.ModuleDict", "pair " .. i, "{name, module}", pair)
         end
         self:set(pair[1], pair[2])
      end
      return self
   end
   local names = {}
   for name in pairs(modules) do names[#names + 1] = name end
   table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
   for _, name in ipairs(names) do self:set(name, modules[name]) end
   return self
end

--- Sets the module with a name. Names of methods are refused: the module would hide the method.
---@param name string
---@param module nn.Module
---@return nn.ModuleDict self
function ModuleDict:set(name, module)
   if type(name) ~= "string" then args.refuse("nn.ModuleDict", "name", "a string", name) end
   if not class.isinstance(module, Module) then
      args.refuse("nn.ModuleDict", name, "a module", module)
   end
   if ModuleDict[name] ~= nil then
      torch.raise(("nn.ModuleDict: %s is the name of a method"):format(name))
   end
   self:_admit(name, module)
   order.begin()
   self[name] = module
   return self
end

--- Iterates over names and modules, in the order in which they were set.
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

-- Lets pairs(dict) iterate over names and modules, as items() does.
function ModuleDict:__pairs() return self:items() end

-- #dict is the number of names.
function ModuleDict:__len() return #self:keys() end

--- Returns the names, in the order in which they were set.
---@return string[]
function ModuleDict:keys()
   local names = {}
   for name in self:items() do names[#names + 1] = name end
   return names
end

--- Returns the modules, in the order in which they were set.
---@return nn.Module[]
function ModuleDict:values()
   local list = {}
   for _, module in self:items() do list[#list + 1] = module end
   return list
end

--- Removes a module.
---@param name string
---@return nn.Module
function ModuleDict:pop(name)
   local module = rawget(self, name)
   if not class.isinstance(module, Module) then
      torch.raise(("nn.ModuleDict.pop: there is no %s"):format(tostring(name)))
   end
   self[name] = nil
   return module
end

--- Removes all modules.
---@return nn.ModuleDict self
function ModuleDict:clear()
   for _, name in ipairs(self:keys()) do self[name] = nil end
   return self
end

checked.methods(ModuleDict, [[update(modules: any) set(name: any, module: any) items() keys()
   values() pop(name: any) clear()]])

return ModuleDict
