-- state.lua - converts an optimizer's state to plain data and back: the methods state_dict and
-- load_state_dict of Optimizer.
--
-- With `names = "pytorch"` a state has PyTorch's form, so that PyTorch can resume from a file
-- written by torch.save(state, "x.pt"): positions count from 0, step counts are float32, and
-- options that PyTorch lacks are left out. load_state_dict accepts both forms, since a state lists
-- its own positions.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.optim.checks"
local json = require "tlua.utils.json"
local kinds = require "tlua.io.kinds"

local function copy(value)
   if type(value) ~= "table" then return value end
   local copied = {}
   for key, item in pairs(value) do copied[key] = copy(item) end
   return copied
end

-- Returns copies of the parameter groups, in which positions take the place of parameters.
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

-- PyTorch's form -------------------------------------------------------------------------------

-- Converts a value of the state to PyTorch's form: step counts, which are float64 in tlua, become
-- float32.
local function to_pytorch(key, value)
   if type(value) == "table" then
      local list = {}
      for k, item in pairs(value) do list[k] = to_pytorch(k, item) end
      return list
   end
   local is_clock = torch.is_tensor(value) and key == "step"
   return is_clock and value:to("float32") or value
end

-- Converts an option to PyTorch's form: a pair of numbers becomes a tuple, and `false` inside it
-- becomes None.
local function option_to_pytorch(value)
   if type(value) ~= "table" then return value end
   local tuple = setmetatable({}, kinds.tuple)
   for i, item in ipairs(value) do tuple[i] = item == false and json.null or item end
   return tuple
end

local only_here <const> = {master_weights = true}

-- Converts both parts of a state, parameters and groups, to PyTorch's form.
local function with_pytorch_names(self, dict)
   local state, groups = kinds.as_dict {}, {}
   for position, saved in pairs(dict.state) do
      state[position - 1] = to_pytorch(nil, saved)
   end
   for g, group in ipairs(dict.param_groups) do
      groups[g] = {params = kinds.as_list {}}
      for i, position in ipairs(group.params) do groups[g].params[i] = position - 1 end
      for key, value in pairs(group) do
         if key ~= "params" and not only_here[key] then
            groups[g][key] = key == "param_names" and value or option_to_pytorch(value)
         end
      end
   end
   for _, group in ipairs(groups) do self:options_to_pytorch(group) end
   return {state = state, param_groups = groups}
end

-- Checks and returns the option `names` of a method: "pytorch" or nil.
local function names_of(title, options)
   args.check_options(title, options, "names")
   if options == nil then return nil end
   if options.names ~= nil and options.names ~= "pytorch" then
      args.refuse(title, "names", '"pytorch" or nil', options.names)
   end
   return options.names
end

-- Loading --------------------------------------------------------------------------------------

-- Raises an error unless the groups of a saved state have as many parameters as this optimizer's
-- groups, and options of the right types.
local function check_groups(self, groups)
   local name = torch.type(self) .. ".load_state_dict"
   if type(groups) ~= "table" or #groups ~= #self.param_groups then
      torch.raise(("%s: expected %d groups, got %d"):format(
         name, #self.param_groups, type(groups) == "table" and #groups or 0))
   end
   for g, group in ipairs(groups) do
      if type(group) ~= "table" then
         args.refuse(name, ("param_groups[%d]"):format(g), "a table", group)
      elseif group.params ~= nil and type(group.params) ~= "table" then
         args.refuse(name, ("param_groups[%d].params"):format(g), "a list of positions",
            group.params)
      end
      local own, saved = #self.param_groups[g].params, #(group.params or {})
      if own ~= saved then
         torch.raise(("%s: group %d: expected %d parameters, got %d"):format(name, g, own, saved))
      end
      for key, default in pairs(self.defaults) do
         local fits, expected = args.fits_default(group[key], default, checks.kinds[key])
         if group[key] ~= nil and not fits then
            args.refuse(("%s: group %d"):format(name, g), key, expected, group[key])
         end
      end
      self:check_group(setmetatable(copy(group), {__index = self.param_groups[g]}))
   end
end

-- Tensors that have a parameter's shape and that only some options add to the parameter's state.
local optional <const> = {"grad_avg", "master", "max_exp_avg_sq", "momentum_buffer"}

-- Raises an error unless a parameter's saved state is a table in which no tensor was released. The
-- table must be empty or have all tensors that the state has after a step, because a missing tensor
-- would start again from its initial value. Tensors that only some options add may be missing.
local function check_state(self, position, saved, parameter, group)
   local name = ("%s.load_state_dict: state of parameter %d"):format(torch.type(self), position)
   if type(saved) ~= "table" then
      torch.raise(("%s: expected a table, got %s"):format(name, args.describe(saved)))
   end
   for key, value in pairs(saved) do
      if torch.is_tensor(value) and not pcall(value.dim, value) then
         torch.raise(("%s: %s: expected a tensor, got one that was released"):format(name, key))
      end
   end
   if next(saved) == nil then return end
   for _, clock in ipairs(self.clocks or {}) do
      if saved[clock] == nil then args.refuse(name, clock, "a number of at least 0", nil) end
   end
   local shape = table.concat(parameter.shape, ", ")
   local keys = {table.unpack(self:needed_state(group))}
   for _, key in ipairs(optional) do
      if saved[key] ~= nil then keys[#keys + 1] = key end
   end
   for _, key in ipairs(keys) do
      local part = saved[key]
      if not torch.is_tensor(part) or parameter.layout == "strided"
            and table.concat(part.shape, ", ") ~= shape then
         args.refuse(name, key, ("a tensor of shape (%s)"):format(shape), part)
      end
   end
end

-- Returns the saved state of one parameter, converted for use by this optimizer.
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

-- Copies the options of a saved group. If this optimizer's learning rate is a tensor, the saved
-- rate is written into it, because a captured step reads the rate at the tensor's address.
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
   --- Returns the state as plain data: `state`, indexed by the parameters' positions (its tensors
   --- are shared, not copied), and `param_groups`, with positions in place of parameters. With
   --- `{names = "pytorch"}` positions count from 0 and the state has PyTorch's form, for
   --- torch.save(..., "x.pt").
   ---@param options? {names: string}
   ---@return {state: table<integer, table>, param_groups: table[]}
   function Optimizer:state_dict(options)
      local names = names_of(torch.type(self) .. ".state_dict", options)
      self:run_hooks("state_dict_pre", function(hook) hook(self) end)
      local dict = {state = copy(self.state), param_groups = saved_groups(self)}
      if names then dict = with_pytorch_names(self, dict) end
      self:run_hooks("state_dict_post", function(hook) dict = hook(self, dict) or dict end)
      return dict
   end

   --- Converts the options of a group that have another form in PyTorch. Optimizers with such
   --- options override this method.
   ---@param group table  a copy
   function Optimizer:options_to_pytorch(group) end -- luacheck: no unused args

   --- Returns the names of the tensors, of a parameter's shape, that the parameter's state contains
   --- after a step. Optimizers with such tensors override this method.
   ---@param group table  the group's options
   ---@return string[]
   function Optimizer:needed_state(group) return {} end -- luacheck: no unused args

   --- Converts a saved value to a parameter's state: a tensor is moved to the parameter's device
   --- and, if floating-point, cast to the parameter's dtype. The tensor is always copied, so that
   --- later steps do not change the saved state.
   ---@param key string
   ---@param value any  the saved value, which is no table
   ---@param parameter Tensor
   ---@param group table  the group's options
   function Optimizer:adopt(key, value, parameter, group) -- luacheck: no unused args
      if not torch.is_tensor(value) then return value end
      local tensor = value:detach():clone():to(parameter.device)
      return value:is_floating_point() and tensor:to(parameter.dtype) or tensor
   end

   --- Loads a saved state. The saved parameters are matched with this optimizer's parameters by
   --- their order. A state that does not fit is refused, and changes nothing. States of PyTorch are
   --- accepted; `names` is optional and has no effect.
   ---@param dict {state: table<integer, table>, param_groups: table[]}
   ---@param options? {names: string}
   function Optimizer:load_state_dict(dict, options)
      names_of(torch.type(self) .. ".load_state_dict", options)
      self:run_hooks("load_state_dict_pre", function(hook) dict = hook(self, dict) or dict end)
      if type(dict) ~= "table" or type(dict.state) ~= "table" then
         args.refuse(torch.type(self) .. ".load_state_dict", "state", "a result of state_dict",
            dict)
      end
      check_groups(self, dict.param_groups)
      -- maps this optimizer's positions to {position, group} in the saved state
      local positions = {}
      for g, group in ipairs(dict.param_groups) do
         for _, saved in ipairs(group.params) do positions[#positions + 1] = {saved, g} end
      end
      local state = {}
      for position, parameter, group in self:each() do
         local from = positions[position]
         local both = setmetatable({}, {__index = function(_, key)
            local value = dict.param_groups[from[2]][key]
            if value == nil then value = group[key] end
            return value
         end})
         local saved = dict.state[from[1]]
         if saved then
            check_state(self, position, saved, parameter, both)
            state[position] = adopt(self, saved, parameter, both)
         end
      end
      self.state = state
      for g, group in ipairs(dict.param_groups) do take_options(self.param_groups[g], group) end
      self:run_hooks("load_state_dict_post", function(hook) hook(self) end)
   end
end
