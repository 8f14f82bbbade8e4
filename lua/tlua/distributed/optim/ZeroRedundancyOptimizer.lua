-- ZeroRedundancyOptimizer.lua - an optimizer whose state is sharded over the ranks. All ranks have
-- the same parameters and gradients, as DistributedDataParallel gives them. Each rank steps the
-- parameters that it owns and broadcasts them to the other ranks: stage 1 of "ZeRO: Memory
-- Optimizations Toward Training Trillion Parameter Models" (Rajbhandari et al., 2020).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local agree = require "tlua.distributed.agree"
local coalesce = require "tlua.distributed.coalesce"
local groups = require "tlua.distributed.group"
local placement = require "tlua.distributed.placement"
local Optimizer = require "tlua.optim.Optimizer"

---     local dist = torch.distributed
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local weight = torch.ones(1):requires_grad_()
---     local Zero = dist.optim.ZeroRedundancyOptimizer
---     local options = {optimizer_class = torch.optim.SGD, lr = 0.5}
---     local optimizer = Zero({weight}, options)
---     weight:sum():backward()
---     optimizer:step()
---     print(weight:detach())
---     dist.destroy_process_group()
---     --> tensor([0.5000])
---@class distributed.optim.ZeroRedundancyOptimizer: optim.Optimizer
---@field optim optim.Optimizer  steps this rank's own parameters
---@overload fun(params: Tensor[], options: table): distributed.optim.ZeroRedundancyOptimizer
local Zero, parent = class.class("distributed.optim.ZeroRedundancyOptimizer", Optimizer)

local name <const> = "ZeroRedundancyOptimizer"

-- Raises an error if other ranks have different parameters.
local function verify(self)
   local mine = {}
   for position, p in self:each() do
      mine[position] = ("(%s) %s"):format(table.concat(p.shape, ", "), p.dtype)
   end
   agree(name, "parameter", self.group, mine)
end

-- Assigns each parameter of a group to the rank that has the fewest elements so far; large
-- parameters are assigned first. Returns the list of the parameters' ranks, from 0.
local function share_out(self, params)
   local order, owners = {}, {}
   for i = 1, #params do order[i] = i end
   table.sort(order, function(a, b)
      local x, y = params[a]:numel(), params[b]:numel()
      if x ~= y then return x > y end
      return a < b
   end)
   for _, i in ipairs(order) do
      local least = 1
      for rank = 2, #self.load do
         if self.load[rank] < self.load[least] then least = rank end
      end
      self.load[least] = self.load[least] + params[i]:numel()
      owners[i] = least - 1
   end
   return owners
end

-- Assigns the parameters of group g to ranks. Adds this rank's own parameters to a group of its
-- optimizer.
local function place(self, g)
   local group, own = self.param_groups[g], {}
   local owners = share_out(self, group.params)
   for i, p in ipairs(group.params) do
      self.owner[#self.owner + 1] = owners[i]
      table.insert(self.owned[owners[i] + 1], p)
      if owners[i] == self.group.group_rank then
         own[#own + 1] = p
         table.insert(self.places[g], #self.owner)
      end
   end
   return own
end

-- Copies all options of a parameter group into another group; the lists of parameters are not
-- copied.
local function copy_options(from, to)
   for key, value in pairs(from) do
      if key ~= "params" and key ~= "param_names" then to[key] = value end
   end
end

--- Makes the optimizer. On each rank, optimizer_class makes an optimizer for the rank's own
--- parameters, and gets the options that are not described here. process_group: the ranks, all by
--- default.
---@param params Tensor[]|table[]
---@param options table  optimizer_class, process_group, and the options of that class
function Zero:__init(params, options)
   if type(options) ~= "table" then args.refuse(name, "options", "a table", options) end
   local rest = {}
   for key, value in pairs(options) do rest[key] = value end
   local kind, group = rest.optimizer_class, groups.resolve(name, rest.process_group)
   rest.optimizer_class, rest.process_group = nil, nil
   if type(kind) ~= "table" or not class.isinstance(setmetatable({}, kind), Optimizer) then
      torch.raise(name .. ": optimizer_class: expected a class of torch.optim, got " ..
         args.describe(kind))
   end
   if not group then torch.raise(name .. ": process_group: this rank is not in it") end
   if kind.needs_all then
      torch.raise(name .. ": optimizer_class: a step of LBFGS needs all parameters, of which " ..
         "each rank has a part; expected an optimizer that steps each parameter by itself")
   end
   -- an optimizer for all parameters, which only makes the groups and checks the arguments
   local whole = kind(params, rest)
   self.group, self.defaults, self.check_options = group, whole.defaults, whole.check_options
   self.param_groups, self.state = whole.param_groups, {}
   for _, given in ipairs(self.param_groups) do
      placement.refuse_split(name, given.params, group)
   end
   verify(self)
   self.load, self.owned, self.owner, self.places = {}, {}, {}, {}
   for rank = 1, #group.ranks do self.load[rank], self.owned[rank] = 0, {} end
   local own = {}
   for g, from in ipairs(self.param_groups) do
      self.places[g] = {}
      own[g] = {params = place(self, g)}
      copy_options(from, own[g])
   end
   for g in ipairs(own) do -- removes fields that are not options, such as one that a scheduler sets
      for key in pairs(own[g]) do
         if key ~= "params" and self.defaults[key] == nil then own[g][key] = nil end
      end
   end
   self.optim = kind(own, rest)
end

function Zero:add_param_group(group)
   parent.add_param_group(self, group)
   local g = #self.param_groups
   self.places[g] = {}
   local own = {params = place(self, g)}
   for key in pairs(self.defaults) do own[key] = self.param_groups[g][key] end
   self.optim:add_param_group(own)
   return self
end

-- Broadcasts the parameters from the ranks that own them, and so have stepped them, to all other
-- ranks.
local function give_out(self)
   for rank, list in ipairs(self.owned) do
      if #list > 0 then
         coalesce.each(list, function(flat)
            self.group:run("broadcast", {outputs = flat, root = rank - 1})
         end)
      end
   end
end

function Zero:make_step(closure, options)
   local loss, norm
   if closure then
      local _ <close> = torch.enable_grad()
      loss = closure()
   end
   if options then norm = self:clip_gradients(options.max_norm, options.norm_type) end
   for g, group in ipairs(self.param_groups) do copy_options(group, self.optim.param_groups[g]) end
   self.optim.grad_scale, self.optim.found_inf = self.grad_scale, self.found_inf
   self.optim:step()
   give_out(self)
   self.whole_state = nil
   return loss, norm
end

-- State ----------------------------------------------------------------------------------------

-- Returns the state that this rank keeps, as a table indexed by each parameter's position among all
-- parameters.
local function own_state(self)
   local state, at = {}, 0
   for _, list in ipairs(self.places) do
      for _, position in ipairs(list) do
         at = at + 1
         state[position] = self.optim.state[at]
      end
   end
   return state
end

-- Converts a parameter's position among all parameters to its position among the parameters that
-- this rank owns. Returns nil if another rank owns the parameter.
local function own_position(self, position)
   local at = 0
   for _, list in ipairs(self.places) do
      for _, own in ipairs(list) do
         at = at + 1
         if own == position then return at end
      end
   end
end

--- Returns whether this rank steps a parameter.
function Zero:owns(position) return own_position(self, position) ~= nil end

--- Returns the state of a parameter that this rank owns, otherwise nil.
function Zero:local_state(position)
   local at = own_position(self, position)
   return at and self.optim:state_of(at)
end

--- Replaces the state of a parameter that this rank owns.
---@param position integer  the parameter's number, from 1
---@param state table  a state that local_state has returned
function Zero:set_local_state(position, state)
   self.optim.state[own_position(self, position)] = state
end

-- Describes a state without the contents of tensors, as {[position] = {[key] = value or {shape,
-- dtype}}}: plain values are kept, and a tensor is described by shape and dtype.
local function describe(state)
   local all = {}
   for position, values in pairs(state) do
      local entry = {}
      for key, value in pairs(values) do
         if torch.is_tensor(value) then
            value = {shape = {n = value:dim(), table.unpack(value.shape)}, dtype = value.dtype}
         elseif type(value) == "table" then
            torch.raise(("%s.consolidate_state_dict: state %s: a table cannot be sent"):format(name,
               key))
         end
         entry[key] = value
      end
      all[tostring(position)] = entry
   end
   return all
end

local function sorted(t)
   local keys = {}
   for key in pairs(t) do keys[#keys + 1] = key end
   table.sort(keys)
   return keys
end

--- Collects the states of all ranks on one rank, where state_dict then returns them. All ranks must
--- call this method.
---@param to? integer  a rank of the world, 0 by default
function Zero:consolidate_state_dict(to)
   to = to or 0
   local root = groups.position(name .. ".consolidate_state_dict", "to", self.group, to)
   local dist, mine, all, whole = torch.distributed, own_state(self), {}, {}
   local here = self.group.group_rank == root
   dist.all_gather_object(all, describe(mine), self.group)
   for rank, entries in ipairs(all) do
      local own = rank - 1 == self.group.group_rank
      for _, text in ipairs(sorted(entries)) do
         local position, state = math.tointeger(text), {}
         for _, key in ipairs(sorted(entries[text])) do
            local value, kept = entries[text][key], own and mine[math.tointeger(text)][key]
            if type(value) == "table" then
               if own and here then
                  value = kept
               elseif own then
                  dist.send(kept:contiguous(), to, {group = self.group})
               elseif here then
                  local shape = table.move(value.shape, 1, value.shape.n, 1, {})
                  value = torch.empty(shape, {dtype = value.dtype})
                  dist.recv(value, self.group.ranks[rank], {group = self.group})
               end
            end
            state[key] = value
         end
         whole[position] = state
      end
   end
   self.whole_state = here and whole or nil
end

--- Returns the state of all parameters, in the form of a single optimizer's state. The method may
--- be called only on the rank that was passed to consolidate_state_dict, after that call.
---@return {state: table<integer, table>, param_groups: table[]}
function Zero:state_dict()
   if not self.whole_state then
      torch.raise(name .. ".state_dict: the state is shared out; call consolidate_state_dict on " ..
         "all ranks, and this one on the rank that it brings the state to")
   end
   local own = self.state
   self.state = self.whole_state
   local dict = parent.state_dict(self)
   self.state = own
   return dict
end

--- Loads a whole state. Every rank must pass the whole state, and keeps its own part.
---@param dict {state: table<integer, table>, param_groups: table[]}
function Zero:load_state_dict(dict)
   if type(dict) ~= "table" or type(dict.state) ~= "table" then
      args.refuse(name .. ".load_state_dict", "state", "a result of state_dict", dict)
   end
   parent.load_state_dict(self, {state = {}, param_groups = dict.param_groups})
   local sub, at = {state = {}, param_groups = {}}, 0
   for g, list in ipairs(self.places) do
      sub.param_groups[g] = {params = {}}
      copy_options(self.param_groups[g], sub.param_groups[g])
      for _, position in ipairs(list) do
         at = at + 1
         table.insert(sub.param_groups[g].params, at)
         sub.state[at] = dict.state[position]
      end
   end
   self.optim:load_state_dict(sub)
end

return Zero
