-- ModuleList.lua - a list of modules. The modules become descendants of the module that holds the
-- list.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local slicing = require "tlua.nn.modules.slicing"
local Sequential = require "tlua.nn.modules.Sequential"

--- A list of modules. The modules become descendants of the module that holds the list.
---
---     local layers = torch.nn.ModuleList {torch.nn.Linear(2, 2)}
---     layers:append(torch.nn.Linear(2, 2))
---     local count = 0
---     for _, layer in ipairs(layers) do count = count + layer.weight:numel() end
---     print(#layers, count)
---     --> 2	8
---@class nn.ModuleList: nn.Module
---@overload fun(modules?: nn.Module[]): nn.ModuleList
local ModuleList, parent = class.class("nn.ModuleList", Module)

slicing.define(ModuleList, function(modules) return ModuleList(modules) end,
   function(value) return class.isinstance(value, Module) and value or nil end, "a module")

--- Makes the list. `list[i]` is the i-th module, `list[-1]` the last, `list[{i, j}]` a ModuleList
--- of the modules i to j, and `#list` the number of modules; `ipairs(list)` iterates over the
--- modules.
---@param modules? nn.Module[]
function ModuleList:__init(modules, ...)
   parent.__init(self)
   if select("#", ...) > 0 then
      torch.raise(("%s: modules: expected one list of modules, got %d arguments"):format(
         torch.type(self), 1 + select("#", ...)))
   end
   if modules ~= nil then self:extend(modules) end
end

--- Adds a module at the end.
---@param module nn.Module
---@return nn.ModuleList self
function ModuleList:append(module)
   if not class.isinstance(module, Module) then
      args.refuse("nn.ModuleList", "module " .. #self + 1, "a module", module)
   end
   self[#self + 1] = module
   return self
end

--- Adds the modules of a list at the end.
---@param modules nn.Module[]
---@return nn.ModuleList self
function ModuleList:extend(modules)
   slicing.check(torch.type(self), "modules", modules)
   for i = 1, #modules do self:append(modules[i]) end
   return self
end

--- Inserts a module at a position.
---@param position integer  from 1 to #list + 1
---@param module nn.Module
---@return nn.ModuleList self
ModuleList.insert = Sequential.insert

--- Removes a module.
---@param position? integer  the last by default
---@return nn.Module
ModuleList.pop = Sequential.remove

checked.methods(ModuleList, "append(module: any) extend(modules: any)")
ModuleList.add = ModuleList.append

return ModuleList
