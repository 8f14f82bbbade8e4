-- Fused.lua - the base of optimizers that step all parameters of a group with one call. The update
-- rules are in kernels/optim.h.
--
-- A parameter's state consists of tensors of its shape, and of clocks: numbers that advance with
-- each step, such as the step count. Clocks are float64 tensors on the CPU. With the option
-- `capturable` they are on the parameter's device, so that each replay of a captured step advances
-- them.
--
-- With `master_weights` each half-precision parameter has a float32 copy, `master`. A step updates
-- the copy and then rounds the copy into the parameter. The other state of such a parameter is also
-- float32.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local Optimizer = require "tlua.optim.Optimizer"

---@class optim.Fused: optim.Optimizer
---@field clocks string[]  names in the state
local Fused, parent = class.class("optim.Fused", Optimizer)

Fused.clocks = {}
Fused.implementations = {fused = true, foreach = true, differentiable = true}

--- Defines a class's constructor.
---@param cls table  the class
---@param defaults table<string, any>  the options of this class; the function adds the options that
--- all classes have
---@param check fun(o: table): string?, string?  returns the name of a wrong option, and which value
--- was expected
function Fused.define(cls, defaults, check)
   local all = {maximize = false, capturable = false, master_weights = false}
   for name, value in pairs(defaults) do all[name] = value end

   ---@param params Tensor[]|table[]
   ---@param options? table  any of the defaults
   function cls:__init(params, options)
      parent.__init(self, params, options, all, check)
   end
end

--- Returns the update rule of a step and the rule's arguments. Every subclass defines this method.
---@param o table  a group's options
---@return string rule  the rule's name in kernels/optim.h
---@return string[] names  the names of the state tensors that the rule takes, in order
---@return number[] options  the rule's options, the learning rate first, in a new table
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

--- Returns the initial value of the state `name`, which is a clock or a tensor filled with this
--- value.
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
   if first ~= 0 and parameter:is_complex() then first = torch.complex(first, first) end
   return first == 0 and made or made:fill_(first)
end

-- The argument lists of a step's call. They are kept for each optimizer and reused, because making
-- and collecting them would take as long as the step of a small model.
local lists_of = setmetatable({}, {__mode = "k"})

local function lists_for(self)
   local lists = lists_of[self]
   if not lists then
      lists = {params = {}, states = {}, clocks = {}}
      lists_of[self] = lists
   end
   return lists
end

local function clear(list, from)
   for i = from, #list do list[i] = nil end
end

-- For parameters that have a gradient, makes the tensors of the state that do not exist yet.
local function complete(self, params, states, offset, names, group)
   for i = 1, #params do
      local parameter = params[i]
      local grad = parameter.grad
      if grad and grad.layout == "strided" then
         local state = states[offset + i]
         if not state then
            state = {}
            states[offset + i] = state
         end
         for _, name in ipairs(names) do
            state[name] = state[name] or new_state(self, name, parameter, group)
         end
         for _, name in ipairs(self.clocks) do
            state[name] = state[name] or new_clock(self, name, parameter, group)
         end
      end
   end
end

-- Puts the parameters that have a dense gradient, and their states, into `lists`. lists.n becomes
-- the number of these parameters, or -1 if a parameter or a gradient is sparse.
local function gather(self, lists, params, states, offset, names, group)
   lists.n = torch._gather_step(params, states, offset, names, self.clocks, lists.params,
      -- The number is nil if a tensor of a state is missing. The missing tensors are then made
      -- first.
      lists.states, lists.clocks)
   if lists.n then return end
   complete(self, params, states, offset, names, group)
   lists.n = torch._gather_step(params, states, offset, names, self.clocks, lists.params,
      lists.states, lists.clocks)
end

-- Removes surplus entries from the end of the lists, which an earlier call with more parameters has
-- left there.
local function trim(self, lists, states)
   local n = lists.n
   if n == lists.last and states == lists.last_states then return end
   lists.last, lists.last_states = n, states
   clear(lists.params, n + 1)
   clear(lists.states, n * states + 1)
   clear(lists.clocks, n * #self.clocks + 1)
end

-- Returns all gradients, and whether any of them is sparse.
local function gradients(self)
   local list, sparse = {}, false
   for _, group in ipairs(self.param_groups) do
      for _, parameter in ipairs(group.params) do
         local grad = parameter.grad
         list[#list + 1] = grad
         sparse = sparse or grad and grad.layout ~= "strided"
      end
   end
   return list, sparse
end

--- Computes the numbers that a step needs to clip gradients and to detect non-finite ones. Two
--- kernels handle all gradients and leave them unchanged. Returns nil if no parameter has a
--- gradient, if a gradient is sparse, if other ranks hold parts of the parameters, or if norm_type
--- is not above 0, since such a norm could be finite although a gradient is not.
---@param max_norm number
---@param norm_type number
---@param grad_scale? Tensor  a divisor to be applied to the gradients
---@return Tensor? norm
---@return Tensor? factor
---@return Tensor? found_inf
function Fused:clip_numbers(max_norm, norm_type, grad_scale)
   local placement = package.loaded["tlua.distributed.placement"]
   local grads, sparse = gradients(self)
   if #grads == 0 or sparse or norm_type <= 0 then return nil end
   if placement and placement.splits(self) then return nil end
   return torch._clip_numbers(grads, max_norm, norm_type, grad_scale)
end

function Fused:clip_gradients(max_norm, norm_type)
   local norm, factor = self:clip_numbers(max_norm, norm_type)
   if not norm then return parent.clip_gradients(self, max_norm, norm_type) end
   return norm, factor
end

local none <const> = {}

local function call(self, lists, group, rule, states, options, masters)
   if lists.n == 0 then return end
   trim(self, lists, states)
   local lr
   if type(options[1]) ~= "number" then
      if not torch.is_tensor(options[1]) then
         args.refuse(torch.type(self) .. ".step", "lr", "a number or a tensor", options[1])
      end
      lr, options[1] = options[1], 0
   end
   local extra = none
   -- the classes do not have these fields, so looking them up in the classes would take time
   local grad_scale, found_inf = rawget(self, "grad_scale"), rawget(self, "found_inf")
   local clip = rawget(self, "clip")
   if grad_scale or found_inf or clip or masters then
      extra = {grad_scale = grad_scale, found_inf = found_inf, clip = clip, masters = masters}
   end
   torch._fused_step_(lists.params, none, lists.states, lists.clocks, rule, options, lr,
      group.maximize, extra)
end

-- Returns the parameters of a group that have a dense gradient and for which wanted(parameter,
-- state) is true, and the states of these parameters.
local function select(self, group, offset, wanted)
   local params, states = {}, {}
   for i, parameter in ipairs(group.params) do
      local grad = parameter.grad
      if grad and grad.layout == "strided" then
         local state = self:state_of(offset + i)
         if wanted(parameter, state) then
            params[#params + 1] = parameter
            states[#params] = state
         end
      end
   end
   return params, states
end

-- Returns the float32 copies of the parameters. Copies that do not exist yet are made first.
local function masters_of(params, states)
   local list = {}
   for i, state in ipairs(states) do
      state.master = state.master or params[i]:detach():to("float32")
      list[i] = state.master
   end
   return list
end

-- Sparse gradients ------------------------------------------------------------------------------

--- Updates a parameter by a sparse gradient. Optimizers that accept such gradients override this
--- method.
---@param parameter Tensor
---@param rows Tensor  positions of the gradient's rows, ascending
---@param values Tensor  the rows
---@param state table
---@param group table  the options
function Fused:update_rows(parameter, rows, values, state, group) -- luacheck: no unused args
   checks.refuse_sparse(self, parameter)
end

--- Updates a sparse parameter, whose gradient has the parameter's positions. Optimizers that accept
--- such parameters override this method.
---@param parameter Tensor
---@param values Tensor  the parameter's values
---@param grad Tensor  the gradient's values
---@param state table
---@param group table  the options
function Fused:update_sparse(parameter, values, grad, state, group) -- luacheck: no unused args
   local name = torch.type(self)
   torch.raise(("%s: parameter of layout %s and shape (%s): %s does not support sparse gradients%s")
      :format(name, parameter.layout, table.concat(parameter.shape, ", "), name:match "[^.]+$",
      name:find "Adam" and ", please consider SparseAdam with dense parameters, or SGD, instead"
      or "; SGD takes such parameters"))
end

-- Returns the values of a sparse gradient as the step uses them: divided by the scale, multiplied
-- by the clipping factor and, with the option `maximize`, negated.
local function step_values(self, values, group)
   if self.grad_scale then values = values / self.grad_scale end
   if self.clip then values = values * self.clip end
   return group.maximize and -values or values
end

-- Returns whether the flag found_inf is set, so that the step must be skipped.
local function skips(self)
   return self.found_inf and self.found_inf:item() ~= 0
end

--- Updates the parameters of a group that are sparse or have a sparse gradient.
---@param group table
---@param offset integer
function Fused:step_sparse(group, offset)
   for i, parameter in ipairs(group.params) do
      local grad = parameter.grad
      if grad and grad.layout ~= "strided" and not skips(self) then
         local state = self:state_of(offset + i)
         if torch._sparse_parts(parameter) then
            require "tlua.sparse.changes".coalesce_leaf(parameter)
            self:update_sparse(parameter, parameter:_values(),
               step_values(self, parameter.grad:_values(), group), state, group)
         else
            grad = grad:coalesce()
            self:update_rows(parameter, grad:indices()[1], step_values(self, grad:values(), group),
               state, group)
         end
      end
   end
end

--- Makes a step for the parameters of a group that have a gradient. With `wanted`, steps only
--- parameters that have a dense gradient and for whose state `wanted` returns true.
---@param group table
---@param offset integer
---@param rule string
---@param names string[]
---@param options number[]
---@param wanted? fun(state: table): boolean
function Fused:step_group(group, offset, rule, names, options, wanted)
   local lists = lists_for(self)
   if not wanted and not group.master_weights then
      gather(self, lists, group.params, self.state, offset, names, group)
      if lists.n >= 0 then return call(self, lists, group, rule, #names, options) end
   end
   if not wanted then self:step_sparse(group, offset) end
   for _, mastered in ipairs {true, false} do
      local params, states = select(self, group, offset, function(parameter, state)
         return has_master(parameter, group) == mastered and (not wanted or wanted(state))
      end)
      local masters = mastered and masters_of(params, states) or nil
      gather(self, lists, params, states, 0, names, group)
      call(self, lists, group, rule, #names, {table.unpack(options)}, masters)
   end
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

-- Options that add tensors to a state, with the values that turn them off. A saved state is checked
-- as if these options were off, because an option may have been turned on after the last step. In
-- that case the next step makes the option's tensors.
local off <const> = {amsgrad = false, centered = false, momentum = 0}

function Fused:needed_state(group)
   local options = setmetatable({}, {__index = function(_, key)
      if off[key] ~= nil then return off[key] end
      return group[key]
   end})
   local _, names = self:rule(options)
   return names
end

--- Converts a value of a loaded state. Clocks become float64 tensors, whose device `capturable`
--- determines. Floating-point tensors get the dtype of the parameter's state.
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
   if not (value:is_floating_point() or value:is_complex()) then return tensor end
   return tensor:to(state_dtype(parameter, group))
end

return Fused
