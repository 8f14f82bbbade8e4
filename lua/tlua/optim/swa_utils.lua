-- swa_utils.lua - torch.optim.swa_utils: averages a model's parameters over training, with equal
-- weights ("Averaging Weights Leads to Wider Optima", Izmailov et al., 2018) or exponentially.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local LRScheduler = require "tlua.optim.schedules.LRScheduler"
local scopes = require "tlua.scope"

local M = {}

-- Averages --------------------------------------------------------------------------------------

-- Divides the pairs of tensors in two lists. Returns {averaged, current}, two lists, for the pairs
-- of floating-point tensors, and {averaged, current} for all other pairs.
local function split(averaged, current)
   local floats, others = {{}, {}}, {{}, {}}
   for i, tensor in ipairs(averaged) do
      local list = tensor:is_floating_point() and floats or others
      table.insert(list[1], tensor)
      table.insert(list[2], current[i])
   end
   return floats, others
end

-- Computes averaged = averaged + (current - averaged) * weight, with one call for all
-- floating-point tensors. Other tensors, such as counts, are computed in floating point and
-- truncated.
local function move_towards(averaged, current, weight)
   local _ <close> = torch.no_grad()
   local floats, others = split(averaged, current)
   torch._fused_step_(floats[1], floats[2], {}, {}, "lerp", {weight})
   for i, tensor in ipairs(others[1]) do
      local value = tensor:double() * (1 - weight) + others[2][i]:double() * weight
      tensor:copy_(value)
   end
end

local function check_decay(name, decay)
   if decay == nil then return 0.999 end
   if type(decay) ~= "number" or not (decay >= 0 and decay <= 1) then
      args.refuse(name, "decay", "a number from 0 to 1", decay)
   end
   return decay
end

--- Returns a function for lists of tensors that averages exponentially: the new value has the
--- weight 1 - decay.
---@param decay? number  0.999 by default
---@return fun(averaged: Tensor[], current: Tensor[], count: integer)
function M.get_ema_multi_avg_fn(decay)
   decay = check_decay("optim.swa_utils.get_ema_multi_avg_fn", decay)
   return function(averaged, current) move_towards(averaged, current, 1 - decay) end
end

--- Returns a function for lists of tensors that computes the mean over all steps.
---@return fun(averaged: Tensor[], current: Tensor[], count: integer)
function M.get_swa_multi_avg_fn()
   return function(averaged, current, count) move_towards(averaged, current, 1 / (count + 1)) end
end

--- Returns a function that computes the same average as that of get_ema_multi_avg_fn, but for one
--- tensor: the function returns the average and changes no tensor.
---@param decay? number  0.999 by default
---@return fun(averaged: Tensor, current: Tensor, count: integer): Tensor
function M.get_ema_avg_fn(decay)
   decay = check_decay("optim.swa_utils.get_ema_avg_fn", decay)
   return function(averaged, current) return averaged * decay + current * (1 - decay) end
end

--- Returns a function that computes the same average as that of get_swa_multi_avg_fn, but for one
--- tensor: the function returns the average and changes no tensor.
---@return fun(averaged: Tensor, current: Tensor, count: integer): Tensor
function M.get_swa_avg_fn()
   return function(averaged, current, count)
      return averaged + (current - averaged) / (count + 1)
   end
end

checked.functions(M, "optim.swa_utils.",
   "get_ema_avg_fn(decay: any?) get_ema_multi_avg_fn(decay: any?)")
checked.queries(M, "optim.swa_utils.", "get_swa_avg_fn get_swa_multi_avg_fn")

-- Models ----------------------------------------------------------------------------------------

--- A copy of a model whose parameters are the average of the model's parameters at the calls of
--- update_parameters. The copy is called like the model.
---
---     local model = torch.nn.Linear(1, 1)
---     local average = torch.optim.swa_utils.AveragedModel(model)
---     for value = 1, 3 do
---        model.weight.data:fill_(value)
---        average:update_parameters(model)
---     end
---     print(average.module.weight:item())
---     --> 2.0
---@class optim.swa_utils.AveragedModel: nn.Module
---@field module nn.Module  the averaged model
---@field n_averaged Tensor  the number of calls; int64, on the CPU
local AveragedModel = class.class("optim.swa_utils.AveragedModel", Module)

local take = args.signature [[optim.swa_utils.AveragedModel(model: any, device: device?,
   avg_fn: callable?, multi_avg_fn: callable?, use_buffers: boolean = false)]]

--- Makes the copy, on the given device or, without one, on the model's device.
---@param model nn.Module
---@param options? table  device; avg_fn(averaged, current, count) gives a tensor's new average;
--- multi_avg_fn(averaged, current, count) changes lists of tensors in place; use_buffers: whether
--- buffers are averaged as well, instead of copied
function AveragedModel:__init(...)
   local a = take(...)
   local name = torch.type(self)
   if not class.isinstance(a.model, Module) then
      args.refuse(name, "model", "a module", a.model)
   end
   if a.avg_fn and a.multi_avg_fn then
      torch.raise(name .. ": avg_fn: expected it or multi_avg_fn, got both")
   end
   self.module = a.model:clone()
   if a.device then self.module:to(a.device) end
   self:register_buffer("n_averaged", torch.tensor(0, {dtype = "int64", device = "cpu"}))
   self.avg_fn, self.multi_avg_fn = a.avg_fn, a.multi_avg_fn
   self.use_buffers = a.use_buffers
end

function AveragedModel:forward(...)
   return self.module(...)
end

-- Returns the tensors of a model that are averaged, detached from the graph.
local function averaged_of(self, model)
   local list = model:parameters()
   if self.use_buffers then
      for _, buffer in ipairs(model:buffers()) do list[#list + 1] = buffer end
   end
   for i, tensor in ipairs(list) do list[i] = tensor:detach() end
   return list
end

-- Returns the model's tensors on the devices of the averages, after checking that they match.
local function current_of(self, model, own)
   local list = averaged_of(self, model)
   local fits = #list == #own
   for i = 1, fits and #list or 0 do
      fits = fits and table.concat(list[i].shape, ",") == table.concat(own[i].shape, ",")
      list[i] = list[i]:to(own[i].device)
   end
   if not fits then
      torch.raise(torch.type(self) .. ".update_parameters: model: expected one with the parameters"
         .. " of the model that was averaged")
   end
   return list
end

local function average(self, own, current, count)
   if self.multi_avg_fn then return self.multi_avg_fn(own, current, count) end
   if not self.avg_fn then return M.get_swa_multi_avg_fn()(own, current, count) end
   for i, tensor in ipairs(own) do tensor:copy_(self.avg_fn(tensor, current[i], count)) end
end

--- Updates the average with the model's present parameters; the first call copies them.
---@param model nn.Module
function AveragedModel:update_parameters(model)
   if not class.isinstance(model, Module) then
      args.refuse(torch.type(self) .. ".update_parameters", "model", "a module", model)
   end
   if torch.compiler.is_exporting() then
      torch.raise(torch.type(self) .. ".update_parameters: a program does not read n_averaged; "
         .. "export the step without this call, and make the call after each step of the program")
   end
   local _ <close> = torch.no_grad()
   local own, count = averaged_of(self, self.module), self.n_averaged:item()
   local current = current_of(self, model, own)
   if count > 0 then
      average(self, own, current, count)
   else
      for i, tensor in ipairs(own) do tensor:copy_(current[i]) end
   end
   if not self.use_buffers then
      local buffers = model:buffers()
      for i, buffer in ipairs(self.module:buffers()) do buffer:copy_(buffers[i]) end
   end
   self.n_averaged:add_(1)
end

M.AveragedModel = AveragedModel

-- Calls fn with each batch of a data loader, a list, or an iterator.
local function each_batch(loader, fn)
   if type(loader) == "table" and not getmetatable(loader) then
      for _, batch in ipairs(loader) do fn(batch) end
   elseif type(loader) == "table" then
      for batch in loader:iter() do fn(batch) end
   else
      for batch in loader do fn(batch) end
   end
end

-- Returns the batch norm layers of a model that keep running statistics.
local function norms_of(model)
   local list = {}
   for _, module in ipairs(model:modules()) do
      local kind = torch.type(module)
      local is_norm = kind:find "^nn%.BatchNorm" or kind == "nn.SyncBatchNorm"
      if is_norm and module.track_running_stats then list[#list + 1] = module end
   end
   return list
end

-- Returns a to-be-closed value that restores the present training modes of all modules and the
-- present momenta of `layers`.
local function restorer(model, layers)
   local modes, momenta = {}, {}
   for _, module in ipairs(model:modules()) do modes[module] = module.training end
   for _, layer in ipairs(layers) do momenta[layer] = layer.momentum end
   return scopes.new(function()
      for module, mode in pairs(modes) do module.training = mode end
      for layer, momentum in pairs(momenta) do layer.momentum = momentum end
   end)
end

--- Sets the running statistics of batch norm layers to the statistics of the data, for a model with
--- averaged weights.
---@param loader any  batches: a data loader, a list, or an iterator; if a batch is a list, its
--- first element is the input
---@param model nn.Module
---@param device? string|torch.device  the device that the inputs are moved to
function M.update_bn(loader, model, device)
   if not class.isinstance(model, Module) then
      args.refuse("optim.swa_utils.update_bn", "model", "a module", model)
   end
   local layers = norms_of(model)
   if #layers == 0 then return end
   local _ <close> = restorer(model, layers)
   model:train()
   for _, layer in ipairs(layers) do
      layer:reset_running_stats()
      layer.momentum = false -- false means that the running statistics are means over all batches
   end
   torch.no_grad(function()
      each_batch(loader, function(batch)
         local input = torch.is_tensor(batch) and batch or batch[1]
         model(device and input:to(device) or input)
      end)
   end)
end

-- Rates -----------------------------------------------------------------------------------------

local shapes <const> = {
   linear = function(t) return t end,
   cos = function(t) return (1 - math.cos(math.pi * t)) / 2 end,
}

local function clamp(t) return math.max(0, math.min(1, t)) end

--- Moves each rate from its present value to swa_lr over anneal_epochs steps, then keeps it there.
--- Each group stores its target rate as `swa_lr`.
---
---     local optim = torch.optim
---     local sgd = optim.SGD({torch.ones(1, {requires_grad = true})}, {lr = 1})
---     local schedule = optim.swa_utils.SWALR(sgd, 0.5, 2, "linear")
---     sgd:step()
---     schedule:step()
---     print(schedule:get_last_lr()[1])
---     --> 0.75
M.SWALR = LRScheduler.define("SWALR", [[swa_lr: number|numbers, anneal_epochs: count = 10,
   anneal_strategy: string = 'cos']], function(self, lr, _, g)
   local goal, n = self.optimizer.param_groups[g].swa_lr, math.max(1, self.anneal_epochs)
   local step = self.anneal_epochs == 0 and math.max(1, self.steps) or self.steps
   local shape = shapes[self.anneal_strategy]
   local before, now = shape(clamp((step - 1) / n)), shape(clamp(step / n))
   local first = before == 1 and goal or (lr - before * goal) / (1 - before)
   return goal * now + first * (1 - now)
end, function(self, name)
   if not shapes[self.anneal_strategy] then
      args.refuse(name, "anneal_strategy", "cos or linear", self.anneal_strategy)
   end
   self:check_lists("swa_lr")
   for g, group in ipairs(self.optimizer.param_groups) do
      group.swa_lr = LRScheduler.of_group(self.swa_lr, g)
   end
   self.steps = -1
end)

--- Converts the state to PyTorch's form: PyTorch counts the steps from 1, and stores the target
--- rates in the optimizer's groups.
---@return table
function M.SWALR:to_pytorch()
   local state = LRScheduler.to_pytorch(self)
   state.swa_lr, state.anneal_strategy = nil, nil
   state._anneal_strategy, state._step_count = self.anneal_strategy, self.steps + 1
   return state
end

function M.SWALR:from_pytorch(state)
   if not state._anneal_strategy then return state end
   return {
      base_lrs = state.base_lrs, last_epoch = state.last_epoch, steps = state._step_count - 1,
      anneal_epochs = state.anneal_epochs, anneal_strategy = state._anneal_strategy,
   }
end

function M.SWALR:step()
   self.steps = self.steps + 1
   LRScheduler.step(self)
end

return M
