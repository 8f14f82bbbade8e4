-- swap_in.lua - torch.optim.swap_in_optimizer_params_and_state: replaces an optimizer's parameters
-- and state until a scope ends.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"
local scopes = require "tlua.scope"

local name <const> = "optim.swap_in_optimizer_params_and_state"

local M = {}

local function check(optimizer, parameters, saved)
   if not class.isinstance(optimizer, Optimizer) then
      args.refuse(name, "optimizer", "an optimizer", optimizer)
   end
   if type(parameters) ~= "table" then
      args.refuse(name, "parameters", "a list of tensors", parameters)
   end
   local groups = type(saved) == "table" and saved.param_groups
   if type(groups) ~= "table" or type(saved.state) ~= "table" then
      args.refuse(name, "state", "a result of state_dict", saved)
   elseif #groups ~= #optimizer.param_groups then
      torch.raise(("%s: state: expected %d groups, got %d"):format(name, #optimizer.param_groups,
         #groups))
   end
   local position = 0
   for _, group in ipairs(optimizer.param_groups) do
      for _, own in ipairs(group.params) do
         position = position + 1
         local other = parameters[position]
         if not torch.is_tensor(other)
            or table.concat(other.shape, ",") ~= table.concat(own.shape, ",") then
            args.refuse(name, "parameter " .. position, ("a tensor of shape (%s)"):format(
               table.concat(own.shape, ", ")), other)
         end
      end
   end
   if #parameters ~= position then
      torch.raise(("%s: expected %d parameters, got %d"):format(name, position, #parameters))
   end
end

local function shallow(from)
   local copy = {}
   for key, value in pairs(from) do copy[key] = value end
   return copy
end

--- Replaces an optimizer's parameters and state until the scope ends: `local _ <close> =
--- torch.optim.swap_in_optimizer_params_and_state(adam, others, state)`. Steps change the
--- replacements in place, and leave the optimizer's own parameters and state unchanged.
---@param optimizer optim.Optimizer
---@param parameters Tensor[]  the replacements, in the order and with the shapes of the optimizer's
--- own parameters
---@param state table  a state in the form of state_dict; its tensors are changed in place
---@return any scope  a scope to be closed
function M.swap_in_optimizer_params_and_state(optimizer, parameters, state)
   check(optimizer, parameters, state)
   local own_state, own_groups = optimizer.state, {}
   for g, group in ipairs(optimizer.param_groups) do own_groups[g] = shallow(group) end
   local scope = scopes.new(function()
      for g, group in ipairs(optimizer.param_groups) do
         for key in pairs(shallow(group)) do group[key] = nil end
         for key, value in pairs(own_groups[g]) do group[key] = value end
      end
      optimizer.state = own_state
   end)
   local swapped, position = {}, 0
   for g, group in ipairs(optimizer.param_groups) do
      local list = {}
      for i in ipairs(group.params) do
         position = position + 1
         list[i] = parameters[position]
         local saved = state.state[position]
         swapped[position] = saved and shallow(saved) or nil
      end
      for key, value in pairs(state.param_groups[g]) do
         if key ~= "params" then group[key] = value end
      end
      group.params = list
   end
   optimizer.state = swapped
   return scope
end

return M
