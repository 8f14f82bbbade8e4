-- model_averaging.lua - averages the parameters of ranks that otherwise train independently, once
-- every few steps ("Don't Use Large Mini-Batches, Use Local SGD", Lin, Stich, Patel, Jaggi, 2020).

local torch = require "tlua"
local args = require "tlua.args"
local coalesce = require "tlua.distributed.coalesce"
local groups = require "tlua.distributed.group"

--- Classes that average the parameters of the ranks' models from time to time. Between averages the
--- ranks train independently.
---@names distributed.algorithms.model_averaging.averagers
local M = {averagers = {}}

---     local dist = torch.distributed
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local averagers = dist.algorithms.model_averaging.averagers
---     local averager = averagers.PeriodicModelAverager(4)
---     local weight = torch.ones(2)
---     for _ = 1, 8 do averager:average_parameters {weight} end
---     print(averager.step, weight)
---     dist.destroy_process_group()
---     --> 8	tensor([1., 1.])
---@class distributed.PeriodicModelAverager
---@field step integer  calls so far
---@overload fun(period: integer, options?: table): distributed.PeriodicModelAverager
local Averager = torch.class("distributed.PeriodicModelAverager")
M.averagers.PeriodicModelAverager = Averager

local take = args.signature [[PeriodicModelAverager(period: count, warmup_steps: count = 0,
   process_group: object?)]]

--- Makes an object that averages parameters in every `period`-th call of average_parameters, after
--- the first `warmup_steps` calls.
function Averager:__init(...)
   local a = take(...)
   if a.period < 1 then args.refuse("PeriodicModelAverager", "period", "at least 1", a.period) end
   self.period, self.warmup_steps, self.step = a.period, a.warmup_steps, 0
   self.group = groups.resolve("PeriodicModelAverager", a.process_group)
end

--- Counts a step. Every period-th step replaces all ranks' parameters by their mean.
---@param params Tensor[]|nn.Module
function Averager:average_parameters(params)
   if torch.isinstance(params, torch.nn.Module) then params = params:parameters() end
   if type(params) ~= "table" or not torch.is_tensor(params[1]) then
      args.refuse("average_parameters", "params", "a list of tensors or a module", params)
   end
   local past = self.step - self.warmup_steps
   self.step = self.step + 1
   if past < 0 or past % self.period ~= 0 then return end
   local _ <close> = torch.no_grad()
   coalesce.each(params, function(flat)
      self.group:run("all_reduce", {outputs = flat, op = "avg"})
   end)
end

return M
