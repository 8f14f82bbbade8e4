-- ParameterDict.lua - a table of parameters by name; the parameters belong to its owner.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"
local order = require "tlua.nn.order"
local slicing = require "tlua.nn.modules.slicing"

--- A table of parameters by name, which belong to the module that has it.
---
---     local parameters = torch.nn.ParameterDict {scale = torch.ones(2)}
---     print(parameters.scale.requires_grad)
---     --> true
---@class nn.ParameterDict: nn.Module
---@overload fun(parameters?: table<string, Tensor>): nn.ParameterDict
local ParameterDict, parent = class.class("nn.ParameterDict", Module)

--- Indexing by a name gets the parameter: `dict.name`.
---@param parameters? table<string, Tensor>|table[]  the parameters, taken in alphabetical order; a
--- list of pairs {name, parameter} in its order
function ParameterDict:__init(parameters, ...)
   parent.__init(self)
   local n = 1 + select("#", ...)
   if n > 1 then
      torch.raise(("nn.ParameterDict: expected at most 1 argument, got %d"):format(n))
   end
   self:update(parameters or {})
end

--- Sets the parameter with a name; a plain tensor becomes a parameter. Names of methods are
--- refused: the parameter would hide the method.
---@param name string
---@param parameter Tensor
---@return nn.ParameterDict self
function ParameterDict:set(name, parameter)
   if type(name) ~= "string" then args.refuse("nn.ParameterDict", "name", "a string", name) end
   if not torch.is_tensor(parameter) then
      args.refuse("nn.ParameterDict", name, "a tensor", parameter)
   end
   if ParameterDict[name] ~= nil then
      torch.raise(("nn.ParameterDict: %s is the name of a method"):format(name))
   end
   order.begin()
   self[name] = parameter.is_parameter and parameter or Parameter(parameter)
   return self
end

--- Sets the parameters of a table, of another dictionary, or of a list of pairs {name, parameter}.
---@param parameters table<string, Tensor>|table[]|nn.ParameterDict
---@return nn.ParameterDict self
function ParameterDict:update(parameters)
   if type(parameters) ~= "table" then
      args.refuse("nn.ParameterDict", "parameters", "a table of tensors", parameters)
   end
   if class.isinstance(parameters, ParameterDict) then
      for name, parameter in parameters:items() do self:set(name, parameter) end
      return self
   end
   if parameters[1] ~= nil then
      for i, pair in ipairs(slicing.check("nn.ParameterDict", "parameters", parameters)) do
         if type(pair) ~= "table" or getmetatable(pair) or #pair ~= 2 then
            args.refuse("nn.ParameterDict", "pair " .. i, "{name, parameter}", pair)
         end
         self:set(pair[1], pair[2])
      end
      return self
   end
   local names = {}
   for name in pairs(parameters) do names[#names + 1] = name end
   table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
   for _, name in ipairs(names) do self:set(name, parameters[name]) end
   return self
end

--- Removes a parameter.
---@param name string
---@return Tensor
function ParameterDict:pop(name)
   local parameter = rawget(self, name)
   if not torch.is_tensor(parameter) then
      torch.raise(("nn.ParameterDict.pop: there is no %s"):format(tostring(name)))
   end
   self[name] = nil
   return parameter
end

--- Iterates over names and parameters, in the order in which they were first set.
---@return fun(): string, Tensor
function ParameterDict:items()
   return self:named_parameters {remove_duplicate = false}
end

-- Lets pairs(dict) iterate over names and parameters, as items() does.
function ParameterDict:__pairs() return self:items() end

-- #dict is the number of names.
function ParameterDict:__len() return #self:keys() end

--- Returns the names, in the order in which they were first set.
---@return string[]
function ParameterDict:keys()
   local names = {}
   for name in self:items() do names[#names + 1] = name end
   return names
end

--- Returns the parameters, in the order in which they were first set.
---@return Tensor[]
function ParameterDict:values()
   local list = {}
   for _, parameter in self:items() do list[#list + 1] = parameter end
   return list
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

--- Removes the parameter that was set last.
---@return string name
---@return Tensor parameter
function ParameterDict:popitem()
   local names = self:keys()
   local name = names[#names]
   if not name then torch.raise "nn.ParameterDict.popitem: the dictionary is empty" end
   return name, self:pop(name)
end

--- Returns a dictionary with one parameter under each of the names.
---@param keys string[]
---@param default Tensor
---@return nn.ParameterDict
function ParameterDict:fromkeys(keys, default) -- luacheck: no unused args
   local other = ParameterDict()
   slicing.check("nn.ParameterDict.fromkeys", "keys", keys)
   for _, name in ipairs(keys) do other:set(name, default) end
   return other
end

--- Removes all parameters.
---@return nn.ParameterDict self
function ParameterDict:clear()
   for _, name in ipairs(self:keys()) do self[name] = nil end
   return self
end

function ParameterDict:extra_repr()
   local list = {}
   for name, parameter in self:items() do
      list[#list + 1] = ("%s: %s (%s)"):format(name, parameter.dtype,
         table.concat(parameter.shape, ", "))
   end
   return table.concat(list, ", ")
end

checked.methods(ParameterDict, [[update(parameters: any) set(name: any, parameter: any) items()
   keys() values() pop(name: any) get(name: any, default: any?) setdefault(name: any, default: any)
   copy() popitem() fromkeys(keys: table, default: any) clear()]])

return ParameterDict
