-- Optimizer.lua - the base of all optimizers.
--
-- An optimizer holds groups of parameters. Each group is a table with the list `params` and the
-- options. Each parameter has a table of plain state, found by the parameter's position among the
-- parameters of all groups. state_dict returns groups and states (state.lua); nothing else is kept
-- between steps.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local scopes = require "tlua.scope"
local hooks = require "tlua.optim.hooks"
local parts = require "tlua.optim.parts"
local zero_grad = require "tlua.autograd.zero_grad"

--- The base of all optimizers. A class derived from it overrides `update`, or update_group.
---
---
---     local w = torch.tensor({1.0}):requires_grad_()
---     local optimizer = torch.optim.SGD({w}, {lr = 0.5})
---     local v = torch.zeros(2):requires_grad_()
---     optimizer:add_param_group {params = {v}, lr = 0.1}
---     for i, group in ipairs(optimizer.param_groups) do print(i, group.lr) end
---     --> 1	0.5
---     --> 2	0.1
---@class optim.Optimizer
---@field register_step_pre_hook fun(self, hook: function): table
--- returns a handle; the hook is called before each step with the optimizer and the closure
---@field register_step_post_hook fun(self, hook: function): table
--- returns a handle; the hook is called after each step with the optimizer and the closure
---@field register_state_dict_pre_hook fun(self, hook: function, options?: table): table
--- returns a handle; the hook is called before state_dict with the optimizer
---@field register_state_dict_post_hook fun(self, hook: function, options?: table): table
--- returns a handle; the hook gets the optimizer and the state, and may return another state
---@field register_load_state_dict_pre_hook fun(self, hook: function, options?: table): table
--- returns a handle; the hook gets the state to be loaded, and may return another state
---@field register_load_state_dict_post_hook fun(self, hook: function, options?: table): table
--- returns a handle; the hook is called with the optimizer after a state was loaded
---@field param_groups table[]  {params = {Tensor, ...}, lr = ..., ...}; params has the values of a
--- nested tensor in place of the tensor
---@field state table<integer, table>  maps each parameter's number to its state
---@field defaults table<string, any>  the defaults of the groups' options
---@field grad_scale Tensor?  a float32 tensor of one element by which a step divides gradients
---@field found_inf Tensor?  a float32 tensor of one element; if the element is not 0, a step
--- changes nothing
---@field needs_whole boolean?  whether a step needs whole parameters, not a rank's parts
---@field takes_rows boolean?  whether parts that consist of whole rows are accepted, too
---@field needs_real boolean?  whether complex parameters are refused
---@field needs_all boolean?  whether a step needs all parameters at once
---@field clip Tensor?  a tensor of one element by which a step multiplies gradients
local Optimizer = class.class("optim.Optimizer")

-- The names of options that are accepted but not stored; see check_implementation.
Optimizer.implementations = {}

local expected_parameters <const> =
   "a list of tensors, of {name, tensor} pairs or of groups {params = ...}"

-- Options ---------------------------------------------------------------------------------------

-- Fields that schedulers store in a group in addition to the group's options.
local of_schedules <const> = {
   initial_lr = true, max_lr = true, min_lr = true, swa_lr = true, max_momentum = true,
   base_momentum = true,
}

local none <const> = {}

-- Checks an option that selects an implementation of the step in PyTorch. In tlua each optimizer
-- has only one implementation, so the option has no effect. `differentiable = true` is refused,
-- because no implementation records steps.
local function check_implementation(name, given, key)
   if given[key] == nil then return end
   if type(given[key]) ~= "boolean" then args.refuse(name, key, "a boolean", given[key]) end
   if key == "differentiable" and given[key] then
      torch.raise(("%s: differentiable: expected false, since steps are not recorded; for "
         .. "gradients through a step compute the new weights, and call the model with them by "
         .. "torch.func.functional_call"):format(name))
   end
   if given.foreach and given.fused then
      torch.raise(name .. ": expected foreach or fused, got both")
   end
end

-- Returns the options of a group: the given options, completed by the defaults. `extra` has further
-- allowed names.
local function merge(self, given, extra)
   local name = torch.type(self)
   if type(self) ~= "table" or type(self.defaults) ~= "table" then
      torch.raise(name .. ": has no defaults; an optimizer is a class that derives from it")
   end
   local options = args.over_defaults(name, given, self.defaults, checks.kinds,
      self.implementations, extra)
   for key in pairs(self.implementations) do
      check_implementation(name, given, key)
      options[key] = nil
   end
   return options
end

--- Raises an error if the function `check` of the optimizer finds a wrong option in a group. If the
--- learning rate is a tensor, the program waits for the tensor's device to read it.
---@param group table  the options and params
function Optimizer:check_group(group)
   if not self.check_options then return end
   local plain = setmetatable({}, {__index = group})
   if torch.is_tensor(group.lr) then plain.lr = group.lr:item() end
   local option, expected = self.check_options(plain)
   if option then args.refuse(torch.type(self), option, expected, plain[option]) end
end

-- Parameters ------------------------------------------------------------------------------------

--- Raises an error if `parameter` is a value that the optimizer cannot update, such as the result
--- of an operator.
---@param i integer  the parameter's position
---@param parameter any
function Optimizer:check_parameter(i, parameter)
   local name = torch.type(self)
   if not torch.is_tensor(parameter) then
      args.refuse(name, "parameter " .. i, "a tensor", parameter)
   end
   if args.kind_of(parameter) and not torch._sparse_parts(parameter) then
      args.refuse(name, "parameter " .. i, "a dense or sparse tensor", parameter)
   end
   if not (parameter.is_leaf or parameter.retains_grad) then
      torch.raise(("%s: parameter %d: expected a leaf, got the result of an operator"):format(
         name, i))
   end
   if self.needs_real and parameter:is_complex() then
      torch.raise(("%s: parameter %d: expected a real tensor, got %s; optimize its parts, a real "
         .. "leaf w, and compute with w:view_as_complex()"):format(name, i, parameter.dtype))
   end
   parts.check_parameter(self, i, parameter)
end

-- Returns a list of parameters and, for a list of {name, tensor} pairs, a list of names.
local function parameter_list(self, list)
   if torch.is_tensor(list) then list = {list} end
   local name = torch.type(self)
   if type(list) ~= "table" or getmetatable(list) then
      args.refuse(name, "params", expected_parameters, list)
   end
   local parameters, names = {}, {}
   for i = 1, #list do
      local parameter = list[i]
      if type(parameter) == "table" then names[i], parameter = parameter[1], parameter[2] end
      -- A nested parameter is represented by the tensor of its values: steps change the values in
      -- place, and the gradient of the values shares the memory of the parameter's gradient.
      if torch.is_tensor(parameter) and parameter.is_nested then parameter = parameter:values() end
      self:check_parameter(i, parameter)
      if (names[i] == nil) ~= (names[1] == nil) then
         torch.raise(("%s: parameter %d: expected all parameters with names or none"):format(
            name, i))
      end
      parameters[i] = parameter
   end
   return parameters, names[1] and names or nil
end

--- Makes the optimizer; every subclass calls this method in its constructor.
---@param params Tensor[]|table[]  parameters, {name, tensor} pairs, or groups {params = ...}
---@param given table?  options for all groups
---@param defaults table<string, any>  all existing options, with their defaults
---@param check? fun(options: table): string?, string?  returns the name of a wrong option, and
--- which value was expected
function Optimizer:__init(params, given, defaults, check)
   local name = torch.type(self)
   given = given or {}
   if type(given) ~= "table" or getmetatable(given) then
      args.refuse(name, "options", "a table", given)
   end
   self.defaults, self.check_options = defaults, check
   self.param_groups, self.state = {}, {}
   self.defaults = merge(self, given, none)
   self:check_group(self.defaults)

   if torch.is_tensor(params) then params = {params} end
   if type(params) ~= "table" or getmetatable(params) then
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

--- Adds a group of parameters. Options that are not given get their defaults. The names in {name,
--- tensor} pairs are stored in the group as `param_names`.
---@param group table  {params = ..., lr = ...}
---@return optim.Optimizer self
function Optimizer:add_param_group(group)
   local name = torch.type(self)
   if type(group) ~= "table" or group.params == nil then
      args.refuse(name, "group", "a table with the field params", group)
   end
   local given = {}
   for key, value in pairs(group) do
      if key ~= "params" and key ~= "param_names" then given[key] = value end
   end
   local added = merge(self, given, of_schedules)
   self:check_group(added)
   added.params, added.param_names = parameter_list(self, group.params)
   added.param_names = added.param_names or group.param_names

   local known = {}
   for _, parameter in self:each() do known[parameter] = true end
   for i, parameter in ipairs(added.params) do
      if known[parameter] then
         torch.raise(("%s: parameter %d of the group is in a group already"):format(name, i))
      end
      known[parameter] = true
   end
   table.insert(self.param_groups, added)
   return self
end

--- Iterates over all parameters: yields each parameter's position, the parameter, and its group.
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

-- Steps -----------------------------------------------------------------------------------------

local options_of = args.signature "optim.Optimizer.step(max_norm: number, norm_type: number = 2)"

--- Makes a step along the gradients. If a closure is given, it is called first; it must compute the
--- loss and its gradients anew and return the loss. With `max_norm` the gradients of all groups are
--- clipped together, as nn.utils.clip_grad_norm_ does. Optimizers derived from optim.Fused read the
--- clipping factor on the device and leave `grad` unchanged, unless a gradient is sparse or the
--- parameters are split over ranks; in these cases, and in other optimizers, `grad` is scaled.
---@param closure? fun(): Tensor
---@param options? {max_norm: number, norm_type: number}  may also be the only argument; norm_type
--- is 2 by default
---@return Tensor? loss  the loss that the closure returned
---@return Tensor? norm  the norm of the gradients before they were clipped, if max_norm is given
function Optimizer:step(closure, options)
   if options == nil and type(closure) == "table" and not getmetatable(closure) then
      closure, options = nil, closure
   end
   options = options and options_of(options)
   if options and (options.max_norm < 0 or options.max_norm ~= options.max_norm) then
      args.refuse("optim.Optimizer.step", "max_norm", "a number of at least 0", options.max_norm)
   end
   parts.check(self)
   if self._hooks or Optimizer._hooks or Optimizer.around then
      return self:_step_with_hooks(closure, options)
   end
   return self:make_step(closure, options)
end

local function update_groups(self)
   local offset = 0
   for _, group in ipairs(self.param_groups) do
      self:update_group(group, offset)
      offset = offset + #group.params
   end
end

--- Clips the gradients of all parameters.
---@param max_norm number
---@param norm_type number
---@return Tensor norm
---@return Tensor? factor  a factor that the step must apply to the gradients
function Optimizer:clip_gradients(max_norm, norm_type)
   local list = {}
   for _, parameter in self:each() do list[#list + 1] = parameter end
   return torch.nn.utils.clip_grad_norm_(list, max_norm, norm_type), nil
end

--- Makes a step without calling hooks. Optimizers that need more than one update for each call,
--- such as LBFGS, override this method.
function Optimizer:make_step(closure, options)
   local loss
   if closure and not args.is_callable(closure) then
      args.refuse(torch.type(self) .. ".step", "closure", "a function", closure)
   end
   if closure then
      local _ <close> = torch.enable_grad()
      loss = closure()
   end
   local _ <close> = torch.no_grad()
   if not options then
      update_groups(self)
      return loss
   end
   local norm, factor = self:clip_gradients(options.max_norm, options.norm_type)
   local _ <close> = scopes.new(function() self.clip = nil end) -- luacheck: ignore 421
   self.clip = factor
   update_groups(self)
   return loss, norm
end

--- Updates the parameters of a group, without recording gradients. Optimizers override this method
--- or `update`.
---@param group table  the options and params
---@param offset integer  the number of parameters in the groups before this one
function Optimizer:update_group(group, offset)
   for i, parameter in ipairs(group.params) do
      local grad = parameter.grad
      if grad then
         local state = self:state_of(offset + i)
         if group.maximize then grad = -grad end
         self:update(parameter, grad, state, group)
      end
   end
end

--- Updates one parameter in place. An optimizer overrides this method unless it overrides
--- update_group.
---@param parameter Tensor
---@param grad Tensor  the gradient, which must not be changed
---@param state table  empty at first
---@param group table  the options
function Optimizer:update(parameter, grad, state, group) -- luacheck: no unused args
   torch.raise(("%s has no method update"):format(torch.type(self)))
end

--- Returns a parameter's state, which is initially empty.
---@param position integer  the parameter's position among the parameters of all groups
---@return table
function Optimizer:state_of(position)
   local state = self.state[position]
   if not state then
      state = {}
      self.state[position] = state
   end
   return state
end

--- Drops all gradients, or zeroes them with `{set_to_none = false}`.
---@param set_to_none? boolean  true by default
function Optimizer:zero_grad(set_to_none)
   for _, group in ipairs(self.param_groups) do zero_grad(group.params, set_to_none) end
end

-- Hooks -----------------------------------------------------------------------------------------

-- Returns the list of the hooks of a kind that `owner` has, which may be empty. `owner` is an
-- optimizer or, for the hooks of all optimizers, the class.
local function hooks_of(owner, kind)
   local all = rawget(owner, "_hooks")
   return all and all[kind] or {}
end

local function add_hook(owner, kind, name, hook, prepend)
   local all = rawget(owner, "_hooks") or {}
   all[kind] = all[kind] or {}
   local handle = hooks.add(all[kind], name, hook, prepend)
   rawset(owner, "_hooks", all)
   return handle
end

--- Calls fn with each hook of a kind that this optimizer has.
function Optimizer:run_hooks(kind, fn)
   for hook in hooks.each(hooks_of(self, kind)) do fn(hook) end
end

--- A function that the profiler sets, or false. If it is set, each step is made by the call
--- around(step, optimizer, closure, options).
Optimizer.around = false
Optimizer._hooks = false -- as a field of the class, it is found without a call of __index

local function step_with_hooks(self, closure, options)
   for hook in hooks.each(hooks_of(Optimizer, "step_pre"), hooks_of(self, "step_pre")) do
      local replaced = hook(self, closure)
      if replaced ~= nil then closure = replaced end
   end
   local loss, norm = self:make_step(closure, options)
   for hook in hooks.each(hooks_of(self, "step_post"), hooks_of(Optimizer, "step_post")) do
      hook(self, closure)
   end
   return loss, norm
end

function Optimizer:_step_with_hooks(closure, options)
   if Optimizer.around then return Optimizer.around(step_with_hooks, self, closure, options) end
   return step_with_hooks(self, closure, options)
end

-- Maps kinds of hooks to the methods that register such hooks. All methods except those for hooks
-- of steps take {prepend = true}, which calls the hook before the existing ones.
local kinds <const> = {
   step_pre = "register_step_pre_hook", step_post = "register_step_post_hook",
   state_dict_pre = "register_state_dict_pre_hook",
   state_dict_post = "register_state_dict_post_hook",
   load_state_dict_pre = "register_load_state_dict_pre_hook",
   load_state_dict_post = "register_load_state_dict_post_hook",
}

--- Registers a hook and returns a handle with the method `remove`. A hook of register_step_pre_hook
--- is called as `hook(optimizer, closure)` before each step; a closure that it returns replaces the
--- given one. A hook of register_step_post_hook is called in the same way after each step. A hook
--- of register_state_dict_pre_hook is called as `hook(optimizer)` before state_dict, one of
--- register_state_dict_post_hook as `hook(optimizer, dict)` with the result of state_dict; a table
--- that the hook returns replaces the result. A hook of register_load_state_dict_pre_hook is called
--- as `hook(optimizer, dict)` with the state to be loaded; a table that the hook returns replaces
--- the state. A hook of register_load_state_dict_post_hook is called as `hook(optimizer)` after
--- loading.
---@names optim.Optimizer:register_step_pre_hook optim.Optimizer:register_step_post_hook
---@names optim.Optimizer:register_state_dict_pre_hook optim.Optimizer:register_state_dict_post_hook
---@names optim.Optimizer:register_load_state_dict_pre_hook
---@names optim.Optimizer:register_load_state_dict_post_hook
---@param hook function
---@param prepend? {prepend: boolean}  true calls the hook before the existing ones; not accepted
--- for hooks of steps
---@return {remove: fun(self: table)} handle
for kind, method in pairs(kinds) do
   Optimizer[method] = function(self, hook, prepend)
      return add_hook(self, kind, torch.type(self) .. "." .. method, hook, prepend)
   end
end

--- Registers a hook that is called before, or after, each step of every optimizer.
---@param kind "step_pre"|"step_post"
---@param hook function
---@return {remove: fun(self: table)} handle
function Optimizer.register_for_all(kind, hook)
   return add_hook(Optimizer, kind, "optim.register_optimizer_" .. kind .. "_hook", hook)
end

-- Printing --------------------------------------------------------------------------------------

local function option_text(value)
   if type(value) ~= "table" then return tostring(value) end
   local items = {}
   for i, item in ipairs(value) do items[i] = tostring(item) end
   return "{" .. table.concat(items, ", ") .. "}"
end

function Optimizer:__tostring()
   local lines = {torch.type(self):match "[^.]*$" .. " ("}
   for g, group in ipairs(self.param_groups) do
      lines[#lines + 1] = ("  group %d: %d parameters"):format(g, #group.params)
      local names = {}
      for key in pairs(group) do
         if key ~= "params" and key ~= "param_names" then names[#names + 1] = key end
      end
      table.sort(names)
      for _, key in ipairs(names) do
         lines[#lines + 1] = ("    %s: %s"):format(key, option_text(group[key]))
      end
   end
   return table.concat(lines, "\n") .. "\n)"
end

require "tlua.optim.state" (Optimizer)

checked.methods(Optimizer, [[zero_grad(set_to_none: boolean = true) add_param_group(group: table)
   each() register_step_pre_hook(hook: callable) register_step_post_hook(hook: callable)
   register_state_dict_pre_hook(hook: callable, prepend: boolean = false)
   register_state_dict_post_hook(hook: callable, prepend: boolean = false)
   register_load_state_dict_pre_hook(hook: callable, prepend: boolean = false)
   register_load_state_dict_post_hook(hook: callable, prepend: boolean = false)]])

-- An optimizer is not a list. Without an error, `for _, p in ipairs(optimizer)` would silently run
-- zero times.
getmetatable(Optimizer).__index = function(_, key)
   if math.type(key) ~= "integer" then return nil end
   torch.raise(("optim: an optimizer has no item %d; its parameters are in optimizer.param_groups, "
      .. "and `for i, parameter, group in optimizer:each() do` iterates over them"):format(key))
end

return Optimizer
