-- ParameterList.lua - a list of parameters. They become parameters of the module that holds the
-- list.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local slicing = require "tlua.nn.modules.slicing"
local Parameter = require "tlua.nn.Parameter"

--- A list of parameters. They become parameters of the module that holds the list.
---
---     local list = torch.nn.ParameterList {torch.zeros(2), torch.zeros(3)}
---     print(#list, list[2].requires_grad)
---     --> 2	true
---@class nn.ParameterList: nn.Module
---@overload fun(parameters?: Tensor[]): nn.ParameterList
local ParameterList, parent = class.class("nn.ParameterList", Module)

-- Converts a tensor to a parameter; returns nil for other values.
local function parameter_of(value)
   if not torch.is_tensor(value) then return nil end
   return value.is_parameter and value or Parameter(value)
end

slicing.define(ParameterList, function(parameters) return ParameterList(parameters) end,
   parameter_of, "a tensor")

--- Makes the list. `list[i]` is the i-th parameter, `list[-1]` the last, `list[{i, j}]` a
--- ParameterList of the parameters i to j, and `#list` the number of parameters; `ipairs(list)`
--- iterates over the parameters.
---@param parameters? Tensor[]
function ParameterList:__init(parameters)
   parent.__init(self)
   if parameters ~= nil then self:extend(parameters) end
end

--- Adds a parameter at the end; a plain tensor becomes a parameter.
---@param parameter Tensor
---@return nn.ParameterList self
function ParameterList:append(parameter)
   if not torch.is_tensor(parameter) then
      args.refuse("nn.ParameterList", "parameter " .. #self + 1, "a tensor", parameter)
   end
   self[#self + 1] = parameter
   return self
end

--- Adds the parameters of a list, or of another ParameterList, at the end.
---@param parameters Tensor[]|nn.ParameterList
---@return nn.ParameterList self
function ParameterList:extend(parameters)
   slicing.check("nn.ParameterList", "parameters", parameters)
   for i = 1, #parameters do self:append(parameters[i]) end
   return self
end

function ParameterList:extra_repr()
   local lines = {}
   for i, parameter in ipairs(self) do
      lines[i] = ("%d: %s (%s)"):format(i, parameter.dtype, table.concat(parameter.shape, ", "))
   end
   return table.concat(lines, ", ")
end

return ParameterList
