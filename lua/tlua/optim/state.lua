-- state.lua - an optimizer's state as plain data, and back: the methods state_dict and
-- load_state_dict of Optimizer.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.optim.checks"

local function copy(value)
   if type(value) ~= "table" then return value end
   local copied = {}
   for key, item in pairs(value) do copied[key] = copy(item) end
   return copied
end

-- The groups with positions in place of parameters.
local function saved_groups(self)
   local groups, position = {}, 0
   for g, group in ipairs(self.param_groups) do
      groups[g] = {params = {}}
      for key, value in pairs(group) do
         if key ~= "params" then groups[g][key] = copy(value) end
      end
      for i = 1, #group.params do
         position = position + 1
         groups[g].params[i] = position
      end
   end
   return groups
end

-- Raises unless the groups of a saved state have as many parameters as ours, and options that fit.
local function check_groups(self, groups)
   local name = torch.type(self) .. ".load_state_dict"
   if type(groups) ~= "table" or #groups ~= #self.param_groups then
      torch.raise(("%s: expected %d groups, got %d"):format(
         name, #self.param_groups, type(groups) == "table" and #groups or 0))
   end
   for g, group in ipairs(groups) do
      local own, saved = #self.param_groups[g].params, #(group.params or {})
      if own ~= saved then
         torch.raise(("%s: group %d: expected %d parameters, got %d"):format(name, g, own, saved))
      end
      for key, default in pairs(self.defaults) do
         local fits, expected = checks.fits(key, group[key], default)
         if group[key] ~= nil and not fits then
            args.refuse(("%s: group %d"):format(name, g), key, expected, group[key])
         end
      end
      self:check_group(setmetatable(copy(group), {__index = self.param_groups[g]}))
   end
end

-- Raises unless what is saved of a parameter is a table in which no tensor was released.
local function check_state(self, position, saved)
   local name = ("%s.load_state_dict: state of parameter %d"):format(torch.type(self), position)
   if type(saved) ~= "table" then
      torch.raise(("%s: expected a table, got %s"):format(name, args.describe(saved)))
   end
   for key, value in pairs(saved) do
      if torch.is_tensor(value) and not pcall(value.dim, value) then
         torch.raise(("%s: %s: expected a tensor, got one that was released"):format(name, key))
      end
   end
end

-- What is saved of one parameter, as its state.
local function adopt(self, saved, parameter, group)
   local adopted = {}
   for key, value in pairs(saved) do
      if type(value) == "table" then
         adopted[key] = adopt(self, value, parameter, group)
      else
         adopted[key] = self:adopt(key, value, parameter, group)
      end
   end
   return adopted
end

-- The options of a saved group. A learning rate in a tensor is written into ours, if that is one: a
-- graph that holds a step has its address.
local function take_options(group, saved)
   for key, value in pairs(saved) do
      local own = group[key]
      if key == "lr" and torch.is_tensor(own) then
         if torch.is_tensor(value) then own:copy_(value) else own:fill_(value) end
      elseif torch.is_tensor(value) then
         group[key] = value:detach():clone()
      elseif key ~= "params" then
         group[key] = copy(value)
      end
   end
end

return function(Optimizer)
   --- The state as plain data: `state`, by the parameters' positions (its tensors are shared, not
   --- copied), and `param_groups`, with positions in place of parameters.
   ---@return {state: table<integer, table>, param_groups: table[]}
   function Optimizer:state_dict()
      self:run_hooks("state_dict_pre", function(hook) hook(self) end)
      local dict = {state = copy(self.state), param_groups = saved_groups(self)}
      self:run_hooks("state_dict_post", function(hook) dict = hook(self, dict) or dict end)
      return dict
   end

   --- A saved value as a parameter's state: a tensor is moved to its device and, where floating,
   --- cast to its dtype. A copy always, so that the saved state stays as it is.
   ---@param key string
   ---@param value any  no table
   ---@param parameter Tensor
   ---@param group table  the options that go with it
   function Optimizer:adopt(key, value, parameter, group) -- luacheck: no unused args
      if not torch.is_tensor(value) then return value end
      local tensor = value:detach():clone():to(parameter.device)
      return value:is_floating_point() and tensor:to(parameter.dtype) or tensor
   end

   --- Takes over a saved state; its parameters belong to ours in the same order. One that does not
   --- fit is refused, and changes nothing.
   ---@param dict {state: table<integer, table>, param_groups: table[]}
   function Optimizer:load_state_dict(dict)
      self:run_hooks("load_state_dict_pre", function(hook) dict = hook(self, dict) or dict end)
      if type(dict) ~= "table" or type(dict.state) ~= "table" then
         args.refuse(torch.type(self) .. ".load_state_dict", "state", "what state_dict gives", dict)
      end
      check_groups(self, dict.param_groups)
      local positions = {} -- ours -> the saved one, and its group
      for g, group in ipairs(dict.param_groups) do
         for _, saved in ipairs(group.params) do positions[#positions + 1] = {saved, g} end
      end
      local state = {}
      for position, parameter, group in self:each() do
         local from = positions[position]
         local options = setmetatable({}, {__index = function(_, key)
            local value = dict.param_groups[from[2]][key]
            if value == nil then value = group[key] end
            return value
         end})
         local saved = dict.state[from[1]]
         if saved then check_state(self, position, saved) end
         if saved then state[position] = adopt(self, saved, parameter, options) end
      end
      self.state = state
      for g, group in ipairs(dict.param_groups) do take_options(self.param_groups[g], group) end
      self:run_hooks("load_state_dict_post", function(hook) hook(self) end)
   end
end
