-- SyncBatchNorm.lua - batch normalisation over the batches of all ranks of a group.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local norms = require "tlua.nn.modules.BatchNorm"

--- Normalises (N, C, ...) by the mean and variance over the batches of all ranks, whose sizes may
--- differ. Without torch.distributed, in a group of one rank, and in evaluation mode, the layer
--- computes as BatchNorm does.
---
---     local norm = torch.nn.SyncBatchNorm(3):eval()
---     print(table.unpack(norm(torch.ones(2, 3, 4)).shape))
---     --> 2	3	4
---@class nn.SyncBatchNorm: nn.BatchNorm1d
---@overload fun(num_features: integer, options?: table): nn.SyncBatchNorm
local SyncBatchNorm, parent = class.class("nn.SyncBatchNorm", norms.BatchNorm1d)

local take = args.signature [[nn.SyncBatchNorm(num_features: count, eps: number = 1e-5,
   momentum: number|boolean = 0.1, affine: boolean = true, track_running_stats: boolean = true,
   process_group: object?, device: device?, dtype: string?)]]

SyncBatchNorm.ranks = {2, 3, 4, 5}

function SyncBatchNorm:__init(...)
   local a = take(...)
   rawset(self, "process_group", a.process_group)
   a.process_group = nil
   parent.__init(self, a)
end

-- Reshapes a vector (C) to (1, C, 1, ...) with n dimensions, so that it broadcasts with an input.
local function spread(vector, n)
   local shape = {1, vector:size(1)}
   for d = 3, n do shape[d] = 1 end
   return vector:view(shape)
end

-- Returns the mean, the biased variance and the number of elements per channel over all ranks. The
-- results are differentiable. The variance is a sum of squares of differences from the mean, which
-- keeps its digits if the mean is large.
local function moments(self, input)
   local dims = {1}
   for d = 3, input:dim() do dims[#dims + 1] = d end
   local channels = input:size(2)
   local n = input:numel() // channels
   local mean = input:sum(dims) / math.max(n, 1)
   local squares = (input - spread(mean, input:dim())):square():sum(dims)
   local own = torch.cat {mean, squares, input:new_tensor {n}}
   local all = torch.distributed.nn.all_gather(own:unsqueeze(1), self.process_group)
   local means, counts = all:narrow(2, 1, channels), all:narrow(2, 2 * channels + 1, 1):detach()
   local count = counts:sum(1)
   mean = (means * counts):sum(1) / count
   local apart = ((means - mean):square() * counts):sum(1)
   local var = (all:narrow(2, channels + 1, channels):sum(1) + apart) / count
   return mean, var, count
end

local function track(self, mean, var, count)
   if not self.track_running_stats then return end
   self.num_batches_tracked:add_(1)
   local factor = self.momentum or 1 / self.num_batches_tracked:item()
   local _ <close> = torch.no_grad()
   self.running_mean:mul_(1 - factor):add_(mean.data * factor)
   self.running_var:mul_(1 - factor):add_(var.data * (count / (count - 1)) * factor)
end

function SyncBatchNorm:forward(input)
   local together = self.training and torch.distributed.is_initialized() and
      torch.distributed.get_world_size(self.process_group) > 1
   if not together then return parent.forward(self, input) end
   self:check_input(input, self.ranks)
   local wide = input:float()
   if input.dtype == "float64" then wide = input end
   local mean, var, count = moments(self, wide)
   track(self, mean, var, count)
   local n = input:dim()
   local output = (wide - spread(mean, n)) * spread((var + self.eps):rsqrt(), n)
   if self.affine then
      output = output * spread(self.weight, n)
      if self.bias then output = output + spread(self.bias, n) end
   end
   return output:to(input.dtype)
end

--- Replaces all BatchNorm layers of a module, including the module itself, by SyncBatchNorm layers
--- with the same parameters and statistics.
---@param module nn.Module
---@param process_group? distributed.ProcessGroup
---@return nn.Module
function SyncBatchNorm.convert_sync_batchnorm(module, process_group)
   local is = false
   for n = 1, 3 do is = is or class.isinstance(module, norms["BatchNorm" .. n .. "d"]) end
   if is and not class.isinstance(module, SyncBatchNorm) then
      local sync = SyncBatchNorm(module.num_features, {
         eps = module.eps, momentum = module.momentum, affine = module.affine,
         track_running_stats = module.track_running_stats, process_group = process_group,
      })
      for _, field in ipairs {"weight", "bias", "running_mean", "running_var",
         "num_batches_tracked"} do
         if module[field] ~= nil then sync[field] = module[field] end
      end
      if module.bias == nil then sync.bias = nil end
      sync.training = module.training
      return sync
   end
   local children = {}
   for field, child in module:named_children() do children[field] = child end
   for field, child in pairs(children) do
      local new = SyncBatchNorm.convert_sync_batchnorm(child, process_group)
      if new ~= child then module[field] = new end
   end
   return module
end

return SyncBatchNorm
