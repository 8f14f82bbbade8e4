-- DistributedSampler.lua - gives each of several processes its own share of a dataset.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Sampler = require "tlua.data.samplers".Sampler

local signature = args.signature [[data.DistributedSampler(dataset: any, num_replicas: count?,
   rank: count?, shuffle: boolean = true, seed: integer = 0, drop_last: boolean = false)]]

--- Gives each process a share of a dataset's positions. All processes share one order, which
--- depends on the seed and on the epoch that `set_epoch` sets. Process `rank`, from 0, of
--- `num_replicas` takes the positions rank + 1, rank + 1 + num_replicas and so on of this order.
--- All processes get the same number of positions. If num_replicas does not divide the dataset's
--- size, some positions are therefore used twice or, with drop_last, not at all. By default, rank
--- and num_replicas come from the default process group.
---
---     local options = {num_replicas = 2, rank = 1, shuffle = false}
---     local sampler = torch.data.DistributedSampler({"a", "b", "c", "d"}, options)
---     for i in sampler:iter() do print(i) end -- each rank has its share
---     --> 2
---     --> 4
---@class data.DistributedSampler: data.Sampler
---@overload fun(dataset: data.Dataset, options?: table): data.DistributedSampler
local DistributedSampler = class.class("data.DistributedSampler", Sampler)

-- Returns the process group's rank or number of ranks for the option `what`, which the user has not
-- given. Raises an error if there is no process group.
local function of_group(what)
   local group = torch.distributed
   if not group then
      torch.raise(("data.DistributedSampler: %s is missing; expected an integer, since there is no "
         .. "process group"):format(what))
   end
   return what == "rank" and group.get_rank() or group.get_world_size()
end

function DistributedSampler:__init(...)
   local a = signature(...)
   self.dataset, self.shuffle, self.seed = a.dataset, a.shuffle, a.seed
   self.drop_last, self.epoch = a.drop_last, 0
   self.num_replicas = a.num_replicas or of_group "num_replicas"
   self.rank = a.rank or of_group "rank"
   if self.num_replicas < 1 then
      args.refuse("data.DistributedSampler", "num_replicas", "at least 1", self.num_replicas)
   end
   if self.rank >= self.num_replicas then
      args.refuse("data.DistributedSampler", "rank",
         ("an integer from 0 to %d"):format(self.num_replicas - 1), self.rank)
   end
end

--- Sets the epoch; each epoch has a different order, which is the same in all processes.
---@param epoch integer
function DistributedSampler:set_epoch(epoch)
   if math.type(epoch) ~= "integer" then
      args.refuse("data.DistributedSampler.set_epoch", "epoch", "an integer", epoch)
   end
   self.epoch = epoch
end

function DistributedSampler:__len()
   local n, parts = #self.dataset, self.num_replicas
   if self.drop_last and n % parts ~= 0 then return math.max(0, -((parts - n) // parts)) end
   return -(-n // parts)
end

function DistributedSampler:indices()
   local n, total = #self.dataset, #self * self.num_replicas
   local order
   if self.shuffle then
      local generator = torch.Generator():manual_seed(self.seed + self.epoch)
      order = torch.randperm(n, {generator = generator, device = "cpu"})
   else
      order = torch.arange(1, n + 1, {device = "cpu"})
   end
   if total > n and n > 0 then order = order:tile(-(-total // n)) end
   local mine = torch.arange(self.rank + 1, total + 1, self.num_replicas, {device = "cpu"})
   return order:index_select(1, mine)
end

return DistributedSampler
