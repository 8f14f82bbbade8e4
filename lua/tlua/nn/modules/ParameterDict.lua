-- ParameterDict.lua - a table of parameters by name. They become parameters of the module that
-- holds the table.

local torch = require "tlua"
local checked = require "tlua.checked"
local class = require "tlua.class"
local members = require "tlua.nn.members"
local Module = require "tlua.nn.modules.Module"
local ModuleDict = require "tlua.nn.modules.ModuleDict"
local Parameter = require "tlua.nn.Parameter"
local slicing = require "tlua.nn.modules.slicing"

--- A table of parameters by name. They become parameters of the module that holds the table.
---
---     local parameters = torch.nn.ParameterDict {scale = torch.ones(2)}
---     print(parameters.scale.requires_grad)
---     --> true
---@class nn.ParameterDict: nn.Module
---@overload fun(parameters?: table<string, Tensor>): nn.ParameterDict
local ParameterDict = class.class("nn.ParameterDict", Module)

-- Converts a tensor to a parameter; returns nil for other values.
local function parameter_of(value)
   if not torch.is_tensor(value) then return nil end
   return value.is_parameter and value or Parameter(value)
end

ParameterDict._items = {
   title = "nn.ParameterDict", one = "parameter", many = "parameters", a = "a tensor",
   all = "a table of tensors", admit = parameter_of, class = ParameterDict,
}

for _, name in ipairs {"__init", "update", "set", "__pairs", "__len", "keys", "values", "pop",
   "clear"} do
   ParameterDict[name] = checked.origin(ModuleDict[name])
end

local set <const> = ParameterDict.__newindex

-- Makes a parameter of a plain tensor that is assigned to a new name, as the method `set` does. A
-- buffer stays a buffer. The call at the end must be a tail call, because Module's __newindex looks
-- up the line of its caller.
function ParameterDict:__newindex(name, value)
   if torch.is_tensor(value) and not members.buffer_kind(self, name, value) then
      value = parameter_of(value)
   end
   return set(self, name, value)
end

--- Iterates over names and parameters, in the order in which they were added.
---@return fun(): string, Tensor
function ParameterDict:items()
   return self:named_parameters {remove_duplicate = false}
end

--- Returns the parameter with a name, or `default` if there is none.
---@param name string
---@param default? Tensor
---@return Tensor?
function ParameterDict:get(name, default)
   local parameter = rawget(self, name)
   if torch.is_tensor(parameter) then return parameter end
   return default
end

--- Returns the parameter with a name. If there is none, the name is first set to `default`.
---@param name string
---@param default Tensor
---@return Tensor
function ParameterDict:setdefault(name, default)
   if not self:get(name) then self:set(name, default) end
   return self:get(name)
end

--- Returns another dictionary with the same parameters.
---@return nn.ParameterDict
function ParameterDict:copy()
   local other = ParameterDict()
   for name, parameter in self:items() do other:set(name, parameter) end
   return other
end

--- Removes the last parameter in the order of `items`.
---@return string name
---@return Tensor parameter
function ParameterDict:popitem()
   local names = self:keys()
   local name = names[#names]
   if not name then torch.raise "nn.ParameterDict.popitem: the dictionary is empty" end
   return name, self:pop(name)
end

--- Returns a new dictionary in which each of the names has a parameter made from `default`.
---@param keys string[]
---@param default Tensor
---@return nn.ParameterDict
function ParameterDict:fromkeys(keys, default) -- luacheck: no unused args
   local other = ParameterDict()
   slicing.check("nn.ParameterDict.fromkeys", "keys", keys)
   for _, name in ipairs(keys) do other:set(name, default) end
   return other
end

function ParameterDict:extra_repr()
   local list = {}
   for name, parameter in self:items() do
      list[#list + 1] = ("%s: %s (%s)"):format(name, parameter.dtype,
         table.concat(parameter.shape, ", "))
   end
   return table.concat(list, ", ")
end

checked.methods(ParameterDict, [[update(items: any) set(name: any, item: any) items()
   keys() values() pop(name: any) get(name: any, default: any?) setdefault(name: any, default: any)
   copy() popitem() fromkeys(keys: table, default: any) clear()]])

return ParameterDict
