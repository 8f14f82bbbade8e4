-- buckets.lua - stores the gradients of DistributedDataParallel in a few large tensors, so that few
-- collective calls average them.

local torch = require "tlua"

local M = {}

--- A part of a model's gradients that is reduced in one call.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
---     model:register_comm_hook(nil, function(_, bucket)
---        print(bucket:index(), #bucket:parameters(), bucket:is_last())
---        local hooks = dist.algorithms.ddp_comm_hooks.default_hooks
---        return hooks.allreduce_hook(nil, bucket)
---     end)
---     model(torch.ones(1, 2)):sum():backward()
---     dist.destroy_process_group()
---     --> 1	2	true
---@class distributed.GradBucket
---@field flat Tensor  (n) all gradients, concatenated
---@field list integer[]  indices of the bucket's parameters, in the order of `flat`
---@field views Tensor[]  parts of `flat`, in the parameters' shapes
local Bucket = torch.class("distributed.GradBucket")

function Bucket:__init(parameters, list, number, group)
   local n = 0
   for _, i in ipairs(list) do n = n + parameters[i]:numel() end
   local like = parameters[list[1]]
   self.flat = group:common(like, n) or
      torch.zeros({n}, {dtype = like.dtype, device = like.device})
   self.list, self.views, self.owners, self.number = list, {}, {}, number
   local at = 1
   for k, i in ipairs(list) do
      local parameter = parameters[i]
      -- `.data` makes a tensor of the same memory that autograd does not treat as a view. A program
      -- can detach such a gradient in place.
      self.views[k] = self.flat:narrow(1, at, parameter:numel()):view(parameter.shape).data
      self.owners[k] = parameter
      at = at + parameter:numel()
   end
end

--- Returns all gradients of the bucket as a tensor of one dimension.
---@return Tensor
function Bucket:buffer() return self.flat end

--- Returns the bucket's number. The buckets of a pass are reduced in the order of their numbers,
--- from 1.
---@return integer
function Bucket:index() return self.number end

--- Returns whether the bucket is the last one that a pass reduces.
---@return boolean
function Bucket:is_last() return self.last == true end

--- Returns the gradient of each parameter, as a view of the bucket's tensor.
---@return Tensor[]
function Bucket:gradients() return self.views end

--- Returns the parameters of the bucket, in the order of their gradients.
---@return Tensor[]
function Bucket:parameters() return self.owners end

--- Divides parameters, in the given order, into buckets of one dtype and device. A bucket takes
--- parameters until it has at least `bytes`. The first bucket takes them only until it has at least
--- first_bytes, so that its reduction begins early. On the CPU of one machine the buckets lie in
--- memory shared by the ranks of the group (a raw group), so that a reduction copies nothing. All
--- ranks make the same buckets.
---@param parameters Tensor[]
---@param order integer[]
---@param group userdata
---@return distributed.GradBucket[] buckets
---@return table[] place  maps each parameter's index to {bucket, position in the bucket, view, the
--- view's address}
function M.make(parameters, order, first_bytes, bytes, group)
   local lists, open = {}, {}
   for _, i in ipairs(order) do
      local parameter = parameters[i]
      local kind = parameter.dtype .. " " .. parameter.device
      local list = open[kind]
      if not list then
         list = {bytes = 0}
         open[kind] = list
         lists[#lists + 1] = list
      end
      list[#list + 1] = i
      list.bytes = list.bytes + parameter.nbytes
      if list.bytes >= (#lists == 1 and first_bytes or bytes) then open[kind] = nil end
   end
   local buckets, place = {}, {}
   for number, list in ipairs(lists) do
      buckets[number] = Bucket(parameters, list, number, group)
      for position, i in ipairs(list) do
         local view = buckets[number].views[position]
         place[i] = {buckets[number], position, view, view:data_ptr()}
      end
   end
   if #buckets > 0 then buckets[#buckets].last = true end
   return buckets, place
end

return M
