-- PostLocalSGDOptimizer.lua - an optimizer that averages the ranks' parameters after some of its
-- steps.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

---     local dist = torch.distributed
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local weight = torch.ones(1):requires_grad_()
---     local averagers = dist.algorithms.model_averaging.averagers
---     local optimizer = dist.optim.PostLocalSGDOptimizer(
---        torch.optim.SGD({weight}, {lr = 0.5}),
---        averagers.PeriodicModelAverager(2))
---     weight:sum():backward()
---     optimizer:step()
---     print(weight:detach(), optimizer.averager.step)
---     dist.destroy_process_group()
---     --> tensor([0.5000])	1
---@class distributed.optim.PostLocalSGDOptimizer: optim.Optimizer
---@field optim optim.Optimizer  the optimizer that makes the steps
---@field averager distributed.PeriodicModelAverager  averages the parameters after a step
---@overload fun(optim: optim.Optimizer, averager: table): distributed.optim.PostLocalSGDOptimizer
local PostLocal = class.class("distributed.optim.PostLocalSGDOptimizer", Optimizer)

--- Wraps an optimizer, for use with ddp_comm_hooks.post_localSGD_hook. The averager's step count is
--- part of state_dict's result.
function PostLocal:__init(optim, averager)
   local title <const> = "PostLocalSGDOptimizer"
   if not class.isinstance(optim, Optimizer) then
      args.refuse(title, "optim", "an optimizer", optim)
   end
   if type(averager) ~= "table" or not averager.average_parameters then
      args.refuse(title, "averager", "one of algorithms.model_averaging.averagers", averager)
   end
   self.optim, self.averager = optim, averager
   self.param_groups, self.state, self.defaults = optim.param_groups, optim.state, optim.defaults
end

--- Makes a step of the optimizer, and then calls the averager, which counts the step and perhaps
--- averages the parameters.
function PostLocal:step(...)
   local loss, norm = self.optim:step(...)
   local params = {}
   for _, group in ipairs(self.param_groups) do
      table.move(group.params, 1, #group.params, #params + 1, params)
   end
   self.averager:average_parameters(params)
   return loss, norm
end

for _, name in ipairs {"zero_grad", "add_param_group"} do
   PostLocal[name] = function(self, ...) return self.optim[name](self.optim, ...) end
end

function PostLocal:state_dict()
   local state = self.optim:state_dict()
   state.step = self.averager.step
   return state
end

function PostLocal:load_state_dict(state)
   if type(state) ~= "table" or math.type(state.step) ~= "integer" then
      torch.raise("PostLocalSGDOptimizer: load_state_dict: expected a state with the averager's " ..
         "step")
   end
   local rest = {}
   for key, value in pairs(state) do rest[key] = key ~= "step" and value or nil end
   self.optim:load_state_dict(rest)
   self.param_groups, self.state = self.optim.param_groups, self.optim.state
   self.averager.step = state.step
end

return PostLocal
