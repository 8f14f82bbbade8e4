-- Optimizer.lua - the base of all optimizers.
--
-- An optimizer holds groups of parameters, each a table with the list `params` and the options,
-- and for each parameter a table of plain state, by the parameter's position over all groups.
-- Both are what state_dict gives; nothing else is kept between steps.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local near = require "tlua.utils.near"

---@class optim.Optimizer
---@field param_groups table[]  {params = {Tensor, ...}, lr = ..., ...}
---@field state table<integer, table>
---@field defaults table<string, any>
local Optimizer = class.class("optim.Optimizer")

local expected_parameters <const> =
   "a list of tensors, of {name, tensor} pairs or of groups {params = ...}"

-- The options of one group: what it gives, else the defaults. `check(options)` says what is wrong.
local function merge(self, given, allowed)
   local name = torch.type(self)
   local options = {}
   for key, value in pairs(given) do
      if allowed[key] == nil then
         torch.raise(("%s: unknown option %s%s"):format(name, key, near.hint(key, allowed)))
      end
      options[key] = value
   end
   for key, value in pairs(self.defaults) do
      if options[key] == nil then
         options[key] = type(value) == "table" and {table.unpack(value)} or value
      elseif type(options[key]) ~= type(value) then
         args.refuse(name, key, "a " .. type(value), options[key])
      end
   end
   return options
end

-- A list of parameters from a list of tensors or of {name, tensor} pairs.
local function parameter_list(self, list)
   if torch.is_tensor(list) then list = {list} end
   local name = torch.type(self)
   if type(list) ~= "table" then args.refuse(name, "params", expected_parameters, list) end
   local parameters = {}
   for i = 1, #list do
      local parameter = list[i]
      if type(parameter) == "table" then parameter = parameter[2] end
      if not torch.is_tensor(parameter) then
         args.refuse(name, "parameter " .. i, "a tensor", list[i])
      end
      if not parameter.is_leaf then
         torch.raise(("%s: parameter %d: expected a leaf, got the result of an operator"):format(
            name, i))
      end
      parameters[i] = parameter
   end
   return parameters
end

--- To be called by every optimizer's constructor.
---@param params Tensor[]|table[]  parameters, {name, tensor} pairs, or groups {params = ...}
---@param given table?  options that hold for all groups
---@param defaults table<string, any>  all options there are, with their defaults
---@param check? fun(options: table): string?, string?, any  what is wrong: option, expected, value
function Optimizer:__init(params, given, defaults, check)
   local name = torch.type(self)
   given = given or {}
   if type(given) ~= "table" then args.refuse(name, "options", "a table", given) end
   self.defaults, self.check_options = defaults, check
   self.param_groups, self.state = {}, {}
   self.defaults = merge(self, given, defaults)

   if torch.is_tensor(params) then params = {params} end
   if type(params) ~= "table" or getmetatable(params) ~= nil then
      args.refuse(name, "params", expected_parameters, params)
   end
   if #params == 0 and params.params == nil then
      torch.raise(name .. ": params: expected at least one parameter, got an empty list")
   end
   if params.params then params = {params} end
   if type(params[1]) == "table" and params[1].params then
      for _, group in ipairs(params) do self:add_param_group(group) end
   else
      self:add_param_group({params = params})
   end
end

--- Adds parameters with options of their own; options that are not given have the defaults.
---@param group table  {params = ..., lr = ...}
---@return optim.Optimizer self
function Optimizer:add_param_group(group)
   local name = torch.type(self)
   if type(group) ~= "table" or group.params == nil then
      args.refuse(name, "group", "a table with the field params", group)
   end
   local allowed, given = {initial_lr = true}, {}
   for key in pairs(self.defaults) do allowed[key] = true end
   for key, value in pairs(group) do
      if key ~= "params" then given[key] = value end
   end
   local added = merge(self, given, allowed)
   if self.check_options then
      local option, expected = self.check_options(added)
      if option then args.refuse(name, option, expected, added[option]) end
   end
   added.params = parameter_list(self, group.params)

   local known = {}
   for _, parameter in self:each() do known[parameter] = true end
   for i, parameter in ipairs(added.params) do
      if known[parameter] then
         torch.raise(("%s: parameter %d of the group is there already"):format(name, i))
      end
      known[parameter] = true
   end
   table.insert(self.param_groups, added)
   return self
end

--- Iterates over position, parameter and group of all parameters.
---@return fun(): integer, Tensor, table
function Optimizer:each()
   local position, group_index, i = 0, 1, 0
   return function()
      local group = self.param_groups[group_index]
      while group and i >= #group.params do
         group_index, i = group_index + 1, 0
         group = self.param_groups[group_index]
      end
      if not group then return nil end
      position, i = position + 1, i + 1
      return position, group.params[i], group
   end
end

--- Makes a step along the gradients. With a closure, which computes the loss and its gradients
--- anew and returns the loss, that is called first.
---@param closure? fun(): Tensor
---@return Tensor? loss  what the closure returned
function Optimizer:step(closure)
   local loss
   if closure then
      local _ <close> = torch.enable_grad()
      loss = closure()
   end
   local _ <close> = torch.no_grad()
   for position, parameter, group in self:each() do
      local grad = parameter.grad
      if grad then
         local state = self.state[position]
         if not state then
            state = {}
            self.state[position] = state
         end
         if group.maximize then grad = -grad end
         self:update(parameter, grad, state, group)
      end
   end
   return loss
end

--- What an optimizer does with one parameter, in place; gradients are not recorded.
---@param parameter Tensor
---@param grad Tensor  not to be changed
---@param state table  empty at first
---@param group table  the options
function Optimizer:update(parameter, grad, state, group) -- luacheck: no unused args
   torch.raise(("%s has no method update"):format(torch.type(self)))
end

--- Drops all gradients, or zeroes them with `{set_to_none = false}`.
---@param options? {set_to_none: boolean}
function Optimizer:zero_grad(options)
   local keep = options == false or type(options) == "table" and options.set_to_none == false
   for _, group in ipairs(self.param_groups) do
      for _, parameter in ipairs(group.params) do
         if keep and parameter.grad then
            parameter.grad:detach_()
            parameter.grad:zero_()
         else
            parameter.grad = nil
         end
      end
   end
end

local function copy(value)
   if type(value) ~= "table" then return value end
   local copied = {}
   for key, item in pairs(value) do copied[key] = copy(item) end
   return copied
end

--- The state as plain data: `state`, by the parameters' positions (its tensors are shared, not
--- copied), and `param_groups`, with positions in place of parameters.
---@return {state: table<integer, table>, param_groups: table[]}
function Optimizer:state_dict()
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
   return {state = copy(self.state), param_groups = groups}
end

-- A saved tensor as a parameter's state: moved to its device and, where floating, cast to its
-- dtype. A copy always, so that the saved state stays as it is.
local function adopt(value, parameter)
   if type(value) == "table" then
      local adopted = {}
      for key, item in pairs(value) do adopted[key] = adopt(item, parameter) end
      return adopted
   end
   if not torch.is_tensor(value) then return value end
   local tensor = value:detach():clone():to(parameter.device)
   return value:is_floating_point() and tensor:to(parameter.dtype) or tensor
end

-- Raises unless the groups of a saved state have as many parameters as ours.
local function check_groups(self, groups)
   local name = torch.type(self)
   if type(groups) ~= "table" or #groups ~= #self.param_groups then
      torch.raise(("%s.load_state_dict: expected %d groups, got %d"):format(
         name, #self.param_groups, type(groups) == "table" and #groups or 0))
   end
   for g, group in ipairs(groups) do
      local own, saved = #self.param_groups[g].params, #(group.params or {})
      if own ~= saved then
         torch.raise(("%s.load_state_dict: group %d: expected %d parameters, got %d"):format(
            name, g, own, saved))
      end
   end
end

--- Takes over a saved state; its parameters belong to ours in the same order.
---@param dict {state: table<integer, table>, param_groups: table[]}
function Optimizer:load_state_dict(dict)
   if type(dict) ~= "table" or type(dict.state) ~= "table" then
      args.refuse(torch.type(self) .. ".load_state_dict", "state", "what state_dict gives", dict)
   end
   check_groups(self, dict.param_groups)
   local positions = {} -- ours -> the saved one
   for _, group in ipairs(dict.param_groups) do
      for _, saved in ipairs(group.params) do positions[#positions + 1] = saved end
   end
   local state = {}
   for position, parameter in self:each() do
      local saved = dict.state[positions[position]]
      if saved then state[position] = adopt(saved, parameter) end
   end
   self.state = state
   for g, group in ipairs(dict.param_groups) do
      for key, value in pairs(group) do
         if key ~= "params" then self.param_groups[g][key] = copy(value) end
      end
   end
end

function Optimizer:__tostring()
   local lines = {torch.type(self):match "[^.]*$" .. " ("}
   for g, group in ipairs(self.param_groups) do
      lines[#lines + 1] = ("  group %d: %d parameters"):format(g, #group.params)
      local names = {}
      for key in pairs(group) do
         if key ~= "params" then names[#names + 1] = key end
      end
      table.sort(names)
      for _, key in ipairs(names) do
         local value = group[key]
         if type(value) == "table" then value = "{" .. table.concat(value, ", ") .. "}" end
         lines[#lines + 1] = ("    %s: %s"):format(key, value)
      end
   end
   return table.concat(lines, "\n") .. "\n)"
end

return Optimizer
