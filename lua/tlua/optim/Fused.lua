-- Fused.lua - the base of optimizers whose step is one call for all parameters of a group. The
-- rules themselves are in kernels/optim.h.
--
-- A parameter's state is tensors like it, and clocks: numbers that advance with each step, such as
-- the count of steps. Those are float64 tensors on the CPU, or, if the option `capturable` is set,
-- on the parameter's device: then a step that a graph has captured goes on when it is replayed.
--
-- With `master_weights` parameters of a half type have a float32 copy, `master`, which is what
-- steps change and the parameter is rounded from; their state is float32, too.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.Fused: optim.Optimizer
---@field clocks string[]  names in the state
local Fused, parent = class.class("optim.Fused", Optimizer)

Fused.clocks = {}

--- To be called by the constructors of its classes.
---@param defaults table<string, any>  to which the options are added that all of them have
function Fused:__init(params, options, defaults, check)
   local all = {maximize = false, capturable = false, master_weights = false}
   for name, value in pairs(defaults) do all[name] = value end
   parent.__init(self, params, options, all, check)
end

--- What an optimizer is.
---@param o table  a group's options
---@return string rule  its name in kernels/optim.h
---@return string[] names  of the state that the rule takes, in its order
---@return number[] options  that it takes, the learning rate first, in a new table
function Fused:rule(o) -- luacheck: no unused args
   torch.raise(("%s has no method rule"):format(torch.type(self)))
end

local halves <const> = {float16 = true, bfloat16 = true}

local function has_master(parameter, group)
   return group.master_weights and halves[parameter.dtype] == true
end

local function state_dtype(parameter, group)
   return has_master(parameter, group) and "float32" or parameter.dtype
end

--- A number that a clock, or all elements of another state, begin with.
---@param name string
---@param o table  the group's options
---@return number
function Fused:initial(name, o) -- luacheck: no unused args
   return 0
end

local function new_clock(self, name, parameter, group)
   return torch.full({}, self:initial(name, group), {
      dtype = "float64", device = group.capturable and parameter.device or "cpu",
   })
end

local function new_state(self, name, parameter, group)
   local made = torch.zeros_like(parameter, {dtype = state_dtype(parameter, group)})
   local first = self:initial(name, group)
   return first == 0 and made or made:fill_(first)
end

-- The arguments of a call, in tables that stay: to make and to collect them would cost as much as
-- the step of a small model.
local function new_lists(masters)
   return {
      n = 0, params = {}, grads = {}, states = {}, clocks = {}, masters = masters and {} or nil,
   }
end

-- Those of each optimizer, and those for parameters with masters.
local plain_lists = setmetatable({}, {__mode = "k"})
local master_lists = setmetatable({}, {__mode = "k"})

local function begin(all, self)
   local lists = all[self]
   if not lists then
      lists = new_lists(all == master_lists)
      all[self] = lists
   end
   lists.n = 0
   return lists
end

local function clear(list, from)
   for i = from, #list do list[i] = nil end
end

-- Puts a parameter behind those that are there; state that it does not have yet is made.
local function add(self, lists, state, names, parameter, grad, group)
   local n = lists.n + 1
   lists.n = n
   lists.params[n], lists.grads[n] = parameter, grad
   local list, count = lists.states, #names
   for k = 1, count do
      local value = state[names[k]]
      if not value then
         value = new_state(self, names[k], parameter, group)
         state[names[k]] = value
      end
      list[(n - 1) * count + k] = value
   end
   list, names = lists.clocks, self.clocks
   count = #names
   for k = 1, count do
      local value = state[names[k]]
      if not value then
         value = new_clock(self, names[k], parameter, group)
         state[names[k]] = value
      end
      list[(n - 1) * count + k] = value
   end
   if lists.masters then
      state.master = state.master or parameter:detach():to("float32")
      lists.masters[n] = state.master
   end
end

-- What is left of another call before goes.
local function trim(self, lists, states)
   local n = lists.n
   if n == lists.last and states == lists.last_states then return end
   lists.last, lists.last_states = n, states
   clear(lists.params, n + 1)
   clear(lists.grads, n + 1)
   clear(lists.states, n * states + 1)
   clear(lists.clocks, n * #self.clocks + 1)
   if lists.masters then clear(lists.masters, n + 1) end
end

local function gradients(self)
   local list = {}
   for _, group in ipairs(self.param_groups) do
      for _, parameter in ipairs(group.params) do list[#list + 1] = parameter.grad end
   end
   return list
end

--- What a step takes to clip gradients and to see whether they are finite, with nothing written to
--- them: two kernels for all. Nil where other ranks have parts of the parameters, or the order is
--- none that shows what is not finite.
---@param max_norm number
---@param norm_type number
---@param grad_scale? Tensor  what the gradients are yet to be divided by
---@return Tensor? norm
---@return Tensor? factor
---@return Tensor? found_inf
function Fused:clip_numbers(max_norm, norm_type, grad_scale)
   local placement = package.loaded["tlua.distributed.placement"]
   local grads = gradients(self)
   if #grads == 0 or norm_type <= 0 or placement and placement.splits(self) then return nil end
   return torch._clip_numbers(grads, max_norm, norm_type, grad_scale)
end

function Fused:clip_gradients(max_norm, norm_type)
   local norm, factor = self:clip_numbers(max_norm, norm_type)
   if not norm then return parent.clip_gradients(self, max_norm, norm_type) end
   return norm, factor
end

local no_extra <const> = {}

local function call(self, lists, group, rule, states, options)
   if lists.n == 0 then return end
   trim(self, lists, states)
   local lr = torch.is_tensor(options[1]) and options[1] or nil
   if lr then options[1] = 0 end
   local extra = no_extra
   if self.grad_scale or self.found_inf or self.clip or lists.masters then
      extra = {
         grad_scale = self.grad_scale, found_inf = self.found_inf, clip = self.clip,
         masters = lists.masters,
      }
   end
   torch._fused_step_(lists.params, lists.grads, lists.states, lists.clocks, rule, options, lr,
      group.maximize, extra)
   clear(lists.grads, 1) -- they are not kept from step to step
end

--- Steps those parameters of a group that have a gradient and that `wanted`, if given, wants.
---@param group table
---@param offset integer
---@param rule string
---@param names string[]
---@param options number[]
---@param wanted? fun(state: table): boolean
function Fused:step_group(group, offset, rule, names, options, wanted)
   local plain = begin(plain_lists, self)
   local masters = group.master_weights and begin(master_lists, self)
   local params, states = group.params, self.state
   for i = 1, #params do
      local parameter = params[i]
      local grad = parameter.grad
      if grad then
         local state = states[offset + i] or self:state_of(offset + i)
         if not wanted or wanted(state) then
            local lists = masters and has_master(parameter, group) and masters or plain
            add(self, lists, state, names, parameter, grad, group)
         end
      end
   end
   if masters then call(self, masters, group, rule, #names, {table.unpack(options)}) end
   call(self, plain, group, rule, #names, options)
end

function Fused:update_group(group, offset)
   self:step_group(group, offset, self:rule(group))
end

local function is_clock(self, key)
   for _, name in ipairs(self.clocks) do
      if name == key then return true end
   end
   return false
end

--- Clocks keep their type, and where they are is as `capturable` says.
function Fused:adopt(key, value, parameter, group)
   if is_clock(self, key) then
      local device = group.capturable and parameter.device or "cpu"
      local n = torch.is_tensor(value) and value:numel() == 1 and value:item() or value
      if type(n) ~= "number" or n ~= n or n < 0 then
         args.refuse(torch.type(self) .. ".load_state_dict: state", key, "a number of at least 0",
            value)
      end
      if not torch.is_tensor(value) then
         return torch.full({}, value, {dtype = "float64", device = device})
      end
      return value:detach():clone():to(device):to("float64"):reshape({})
   end
   if not torch.is_tensor(value) then return value end
   local tensor = value:detach():clone():to(parameter.device)
   return value:is_floating_point() and tensor:to(state_dtype(parameter, group)) or tensor
end

return Fused
