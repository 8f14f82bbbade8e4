-- ModuleDict.lua - modules by name, which belong to the module that has the table.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.Module"
local order = require "tlua.nn.order"

---@class nn.ModuleDict: nn.Module
---@overload fun(modules?: table<string, nn.Module>): nn.ModuleDict
local ModuleDict, parent = class.class("nn.ModuleDict", Module)

--- `dict.name` is the module of that name; `dict.name = module` sets it.
---@param modules? table<string, nn.Module>  taken in alphabetical order
function ModuleDict:__init(modules)
   parent.__init(self)
   if modules ~= nil and type(modules) ~= "table" then
      args.refuse("nn.ModuleDict", "modules", "a table of modules", modules)
   end
   local names = {}
   for name in pairs(modules or {}) do names[#names + 1] = name end
   table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
   for _, name in ipairs(names) do self:set(name, modules[name]) end
end

--- Sets the module of a name. Names of methods are refused: the module would hide the method.
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
   return self:named_children()
end

return ModuleDict
