-- state_dict.lua - states of sharded models and of their optimizers, as whole tensors. An
-- optimizer's state names its parameters by their paths in the model.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local entries = require "tlua.distributed.checkpoint.entries"
local placement = require "tlua.distributed.placement"
local from_rank0 = require "tlua.distributed.checkpoint.from_rank0"
local StateDictOptions = require "tlua.distributed.checkpoint.StateDictOptions"
local DDP = require "tlua.distributed.DistributedDataParallel"
local Module = require "tlua.nn.modules.Module"
local Optimizer = require "tlua.optim.Optimizer"

local M = {StateDictOptions = StateDictOptions}

local take_get = args.signature [[get_model_state_dict(model: any,
   full_state_dict: boolean?, cpu_offload: boolean?, ignore_frozen_params: boolean?,
   options: object?)]]
local take_set = args.signature [[set_model_state_dict(model: any, model_state_dict: table,
   full_state_dict: boolean?, strict: boolean?, broadcast_from_rank0: boolean?,
   options: object?)]]

-- Checks that the model is a module. Returns the module inside a DistributedDataParallel wrapper,
-- or the model itself if it has no wrapper.
local function check(title, model)
   if not class.isinstance(model, Module) then args.refuse(title, "model", "a module", model) end
   return class.isinstance(model, DDP) and model.module or model
end

-- Returns a table that maps the paths of a model's parameters to the parameters.
local function parameters(model)
   local list = {}
   for path, p in model:named_parameters() do list[path] = p end
   return list
end

-- Returns true if this rank gets no whole tensors, because only rank 0 keeps whole tensors, on the
-- CPU.
local function leaves_to_rank0(a)
   return a.full_state_dict and a.cpu_offload and torch.distributed.is_initialized()
      and torch.distributed.get_rank() ~= 0
end

local function same(value) return value end

-- Returns the state that all ranks load, with placeholders for tensors if only rank 0 has them, and
-- a function that returns a part of that state with tensors in place of the placeholders.
local function source(a, model, state)
   if not a.broadcast_from_rank0 then return state, same end
   local first = model:parameters()[1]
   return from_rank0.share(state, first and first.device or torch.device "cpu")
end

local function shape_text(shape) return table.concat(shape, ", ") end

-- Returns this rank's part of a whole tensor.
local function part_of(title, path, p, tensor)
   local shape = placement.of(p).shape
   if shape_text(shape) ~= shape_text(tensor.shape) then
      torch.raise(("%s: %s: expected shape (%s), got (%s)"):format(title, path, shape_text(shape),
         shape_text(tensor.shape)))
   end
   return placement.part(p, tensor)
end

--- Returns a model's state, a table from paths to tensors. With full_state_dict every rank gets the
--- whole tensors, as before the model was split, and all ranks must call the function; otherwise
--- each rank gets its own parts. With cpu_offload tensors are on the CPU. With both options only
--- rank 0 gets the whole tensors, and the other ranks get an empty table. ignore_frozen_params
--- leaves out parameters that require no gradient. `options`, a StateDictOptions, replaces these
--- options.
---@param model nn.Module
---@param options? {full_state_dict: boolean, cpu_offload: boolean, ignore_frozen_params: boolean,
---@     options: distributed.checkpoint.StateDictOptions}
---@return table<string, Tensor>
function M.get_model_state_dict(...)
   local a = StateDictOptions.settle("get_model_state_dict", take_get(...))
   local model = check("get_model_state_dict", a.model)
   local state, named, paths = model:state_dict(), parameters(model), {}
   for path in pairs(state) do
      if a.ignore_frozen_params and named[path] and not named[path].requires_grad then
         state[path] = nil
      else
         paths[#paths + 1] = path
      end
   end
   table.sort(paths) -- all ranks gather the parameters in the same order
   for _, path in ipairs(paths) do
      if a.full_state_dict and named[path] then state[path] = placement.full(named[path]) end
      if leaves_to_rank0(a) then
         state[path] = nil
      elseif a.cpu_offload then
         local tensor = state[path]:cpu()
         state[path] = a.full_state_dict and tensor or placement.inherit(tensor, state[path])
      end
   end
   return state
end

--- Copies a state into a model. With full_state_dict the state has whole tensors, and each rank
--- takes its part; otherwise it has parts. With broadcast_from_rank0 all ranks take rank 0's state,
--- and the other ranks pass an empty table.
---@param model nn.Module
---@param model_state_dict table<string, Tensor>
---@param options? {full_state_dict: boolean, strict: boolean, broadcast_from_rank0: boolean,
---@     options: distributed.checkpoint.StateDictOptions}
function M.set_model_state_dict(...)
   local a = StateDictOptions.settle("set_model_state_dict", take_set(...))
   local model = check("set_model_state_dict", a.model)
   local state, named, paths = {}, parameters(model), {}
   local given, fetch = source(a, model, a.model_state_dict)
   for path in pairs(given) do paths[#paths + 1] = path end
   -- all ranks load the parameters in the same order
   table.sort(paths, function(x, y) return tostring(x) < tostring(y) end)
   for _, path in ipairs(paths) do
      local p, tensor = named[path], fetch(given[path])
      if p and a.full_state_dict and torch.is_tensor(tensor) then
         tensor = part_of("set_model_state_dict", path, p, tensor)
         -- copies the part, so that the whole tensor can be freed
         if a.broadcast_from_rank0 then tensor = tensor:clone() end
      end
      state[path] = tensor
   end
   return model:load_state_dict(state, {strict = a.strict})
end

-- Optimizers --------------------------------------------------------------------------------------

local take_get_optimizer = args.signature [[get_optimizer_state_dict(model: any, optimizers: any,
   full_state_dict: boolean?, cpu_offload: boolean?, ignore_frozen_params: boolean?,
   options: object?)]]
local take_set_optimizer = args.signature [[set_optimizer_state_dict(model: any, optimizers: any,
   optim_state_dict: table, full_state_dict: boolean?, broadcast_from_rank0: boolean?,
   options: object?)]]

-- Returns a list of optimizers, and the paths of their parameters in the model.
local function check_optimizers(title, optimizers, model)
   local list = class.isinstance(optimizers, Optimizer) and {optimizers} or optimizers
   if type(list) ~= "table" or getmetatable(list) or #list == 0 then
      args.refuse(title, "optimizers", "an optimizer or a list of them", optimizers)
   end
   local names = {}
   for path, p in model:named_parameters() do names[p] = path end
   for i, optimizer in ipairs(list) do
      if not class.isinstance(optimizer, Optimizer) then
         args.refuse(title, ("optimizers[%d]"):format(i), "an optimizer", optimizer)
      end
      if optimizer.local_state then
         torch.raise(("%s: optimizers: %s has the state of each parameter on one rank; save it " ..
            "with distributed.checkpoint.save"):format(title, torch.type(optimizer)))
      end
      for position, p in optimizer:each() do
         if not names[p] then
            torch.raise(("%s: optimizers: parameter %d of optimizer %d is not one of the model's")
               :format(title, position, i))
         end
      end
   end
   return list, names
end

-- Copies the state that an optimizer keeps for a parameter, with each tensor replaced by
-- change(tensor). All ranks visit the tensors in the same order.
local function map(value, change)
   if torch.is_tensor(value) then return change(value) end
   if type(value) ~= "table" then return value end
   local keys, copy = {}, {}
   for key in pairs(value) do keys[#keys + 1] = key end
   table.sort(keys, function(x, y) return tostring(x) < tostring(y) end)
   for _, key in ipairs(keys) do copy[key] = map(value[key], change) end
   return copy
end

--- Returns the states of a model's optimizers as one table: `state`, indexed by the parameters'
--- paths, and `param_groups`, with paths in place of parameters. With full_state_dict every rank
--- gets the whole tensors, and all ranks must call the function; otherwise each rank gets its own
--- parts. The options cpu_offload and options mean the same as for get_model_state_dict.
---@param model nn.Module
---@param optimizers optim.Optimizer|optim.Optimizer[]
---@param options? {full_state_dict: boolean, cpu_offload: boolean, ignore_frozen_params: boolean,
---@     options: distributed.checkpoint.StateDictOptions}
---@return {state: table<string, table>, param_groups: table[]}
function M.get_optimizer_state_dict(...)
   local title <const> = "get_optimizer_state_dict"
   local a = StateDictOptions.settle(title, take_get_optimizer(...))
   local list, names = check_optimizers(title, a.optimizers, check(title, a.model))
   local result = {state = {}, param_groups = {}}
   for _, optimizer in ipairs(list) do
      local dict, at = optimizer:state_dict(), {}
      for position, p in optimizer:each() do
         local function change(tensor)
            local split = entries.place_of(p, tensor) == placement.get(p)
            if a.full_state_dict and split then tensor = placement.full(p, tensor) end
            if leaves_to_rank0(a) then return nil end
            if a.cpu_offload then tensor = tensor:cpu() end
            if a.full_state_dict or not split then return tensor end
            return placement.inherit(tensor:detach(), p)
         end
         if p.requires_grad or not a.ignore_frozen_params then
            at[position] = names[p]
            result.state[names[p]] = map(dict.state[position], change)
         end
      end
      for _, group in ipairs(dict.param_groups) do
         local paths = {}
         for _, position in ipairs(group.params) do paths[#paths + 1] = at[position] end
         group.params = paths
         table.insert(result.param_groups, group)
      end
   end
   if leaves_to_rank0(a) then return {} end
   return result
end

-- Returns a table from each parameter's path to the saved group that contains it.
local function groups_of(title, saved)
   if type(saved.state) ~= "table" or type(saved.param_groups) ~= "table" then
      args.refuse(title, "optim_state_dict", "a result of get_optimizer_state_dict", saved)
   end
   local groups = {}
   for i, group in ipairs(saved.param_groups) do
      if type(group) ~= "table" or type(group.params) ~= "table" then
         args.refuse(title, ("optim_state_dict.param_groups[%d]"):format(i),
            "a table with params, a list of paths", group)
      end
      for _, path in ipairs(group.params) do groups[path] = group end
   end
   return groups
end

-- Returns the part of a saved state that belongs to one optimizer, in the form that its method
-- load_state_dict takes.
local function dict_for(title, optimizer, names, saved, groups, a, fetch)
   local dict, position = {state = {}, param_groups = {}}, 0
   for g, group in ipairs(optimizer.param_groups) do
      local own = {}
      for i, p in ipairs(group.params) do
         local path = names[p]
         position = position + 1
         if not groups[path] then
            torch.raise(("%s: optim_state_dict: no group has the parameter %s"):format(title, path))
         end
         if i == 1 then
            for key, value in pairs(groups[path]) do own[key] = value end
            own.params = {}
         end
         own.params[i] = position
         dict.state[position] = map(fetch(saved.state[path]), function(tensor)
            local whole = placement.product(placement.of(p).shape)
            local cut = a.full_state_dict and tensor:dim() > 0 and tensor:numel() == whole
            if not cut then return tensor end
            local part = part_of(title, path, p, tensor)
            -- copies the part, so that the whole tensor can be freed
            return a.broadcast_from_rank0 and part:clone() or part
         end)
      end
      own.params = own.params or {}
      dict.param_groups[g] = own
   end
   return dict
end

--- Copies a state that get_optimizer_state_dict has returned into a model's optimizers. With
--- full_state_dict the state has whole tensors, and each rank takes its part; otherwise it has
--- parts. A group gets the options of the saved group of its first parameter. If no saved group has
--- a parameter, the call is refused. With broadcast_from_rank0 all ranks take rank 0's state, and
--- the other ranks pass an empty table.
---@param model nn.Module
---@param optimizers optim.Optimizer|optim.Optimizer[]
---@param optim_state_dict {state: table<string, table>, param_groups: table[]}
---@param options? {full_state_dict: boolean, broadcast_from_rank0: boolean,
---@     options: distributed.checkpoint.StateDictOptions}
function M.set_optimizer_state_dict(...)
   local title <const> = "set_optimizer_state_dict"
   local a = StateDictOptions.settle(title, take_set_optimizer(...))
   local model = check(title, a.model)
   local list, names = check_optimizers(title, a.optimizers, model)
   local saved, fetch = source(a, model, a.optim_state_dict)
   local groups, dicts = groups_of(title, saved), {}
   for i, optimizer in ipairs(list) do
      dicts[i] = dict_for(title, optimizer, names, saved, groups, a, fetch)
   end
   for i, optimizer in ipairs(list) do optimizer:load_state_dict(dicts[i]) end
end

-- Both --------------------------------------------------------------------------------------------

--- Returns the results of get_model_state_dict and get_optimizer_state_dict.
---@param model nn.Module
---@param optimizers optim.Optimizer|optim.Optimizer[]
---@param options? {full_state_dict: boolean, cpu_offload: boolean, ignore_frozen_params: boolean,
---@     options: distributed.checkpoint.StateDictOptions}
---@return table<string, Tensor> model_state_dict
---@return {state: table<string, table>, param_groups: table[]} optim_state_dict
function M.get_state_dict(model, optimizers, options)
   return M.get_model_state_dict(model, options or {}),
      M.get_optimizer_state_dict(model, optimizers, options or {})
end

local take_set_both = args.signature [[set_state_dict(model: any, optimizers: any,
   model_state_dict: table, optim_state_dict: table, full_state_dict: boolean?,
   strict: boolean?, broadcast_from_rank0: boolean?, options: object?)]]

--- Calls set_model_state_dict and set_optimizer_state_dict.
---@param model nn.Module
---@param optimizers optim.Optimizer|optim.Optimizer[]
---@param options {model_state_dict: table, optim_state_dict: table, full_state_dict: boolean,
---@     strict: boolean, broadcast_from_rank0: boolean,
---@     options: distributed.checkpoint.StateDictOptions}
function M.set_state_dict(...)
   local a = StateDictOptions.settle("set_state_dict", take_set_both(...))
   local full, broadcast = a.full_state_dict, a.broadcast_from_rank0
   local keys = M.set_model_state_dict(a.model, a.model_state_dict,
      {full_state_dict = full, strict = a.strict, broadcast_from_rank0 = broadcast})
   M.set_optimizer_state_dict(a.model, a.optimizers, a.optim_state_dict,
      {full_state_dict = full, broadcast_from_rank0 = broadcast})
   return keys
end

return M
