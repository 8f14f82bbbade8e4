-- selecting.lua - the pipes Shuffler, Sampler and ShardingFilter, which choose the order of items
-- or a part of the items.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local rows = require "tlua.datapipes.rows"
local samplers = require "tlua.data.samplers"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"
local RandomPipe = require "tlua.datapipes.RandomPipe"

local M = {}

-- Shuffler ----------------------------------------------------------------------------------------

local shuffler_signature = args.signature [[data.datapipes.iter.Shuffler(datapipe: any,
   buffer_size: integer = 10000, unbatch_level: integer = 0)]]

--- Shuffles items by drawing each of them from a buffer.
---
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {1, 2, 3, 4}:shuffle():set_seed(1)
---     local sum = 0
---     for x in pipe:iter() do sum = sum + x end
---     print(sum)
---     --> 10
---@class data.datapipes.iter.Shuffler: data.datapipes.RandomPipe
---@overload fun(datapipe, options?: table): data.datapipes.iter.Shuffler
M.Shuffler = class.class("data.datapipes.iter.Shuffler", RandomPipe)

local Shuffler <const> = M.Shuffler

--- Returns the items in random order. Once the buffer is full, each new item replaces a random item
--- of the buffer, which is returned. The order is fully random only if the buffer has room for all
--- items.
---@param datapipe data.IterDataPipe
---@param options? {buffer_size?: integer, unbatch_level?: integer}  buffer_size: 10000 by
--- default; unbatch_level: 0 by default, any other level unpacks batches first, as UnBatcher does
function Shuffler:__init(...)
   local a = shuffler_signature(...)
   rows.check_stream("data.datapipes.iter.Shuffler", "datapipe", a.datapipe)
   if a.buffer_size < 1 then
      args.refuse("data.datapipes.iter.Shuffler", "buffer_size", "an integer of at least 1",
         a.buffer_size)
   end
   self.datapipe, self.buffer_size = a.datapipe, a.buffer_size
   if a.unbatch_level ~= 0 then
      self.datapipe = require "tlua.datapipes.iter".UnBatcher(a.datapipe, a.unbatch_level)
   end
end

function Shuffler:iter()
   local next_item = self.datapipe:iter()
   if not self.enabled then return next_item end
   local draw, buffer, ended = self:draw(), {}, false
   local function read()
      local item = rows.hold(next_item())
      if item == nil then ended = true end
      return item
   end
   return function()
      while not ended and #buffer < self.buffer_size do buffer[#buffer + 1] = read() end
      if #buffer == 0 then return nil end
      local place = draw(#buffer)
      local given, following = buffer[place], nil
      if not ended then following = read() end
      if following == nil then
         following = buffer[#buffer]
         buffer[#buffer] = nil
         if place > #buffer then return rows.release(given) end
      end
      buffer[place] = following
      return rows.release(given)
   end
end

function Shuffler:__len() return rows.length(self.datapipe) end

-- Sampler -----------------------------------------------------------------------------------------

local sampler_signature = args.signature [[data.datapipes.iter.Sampler(datapipe: any,
   sampler: callable?, sampler_args: table?, sampler_kwargs: names?)]]

---@class data.datapipes.iter.Sampler: data.IterDataPipe
---@overload fun(datapipe, sampler?, sampler_args?, sampler_kwargs?): data.datapipes.iter.Sampler
M.Sampler = class.class("data.datapipes.iter.Sampler", IterDataPipe)

--- Iterates over the positions that a sampler chooses among those of a pipe. The pipe must have a
--- length.
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.Sampler(P.IterableWrapper {"a", "b"})
---     for position in pipe:iter() do print(position) end
---     --> 1
---     --> 2
---@param datapipe data.IterDataPipe
---@param sampler? table  a class, SequentialSampler by default; it is called with the pipe,
--- `sampler_args` and the options `sampler_kwargs`
---@param sampler_args? any[]
---@param sampler_kwargs? table
function M.Sampler:__init(...)
   local a = sampler_signature(...)
   rows.check_stream("data.datapipes.iter.Sampler", "datapipe", a.datapipe)
   rows.length(a.datapipe)
   local values = {table.unpack(a.sampler_args or {})}
   values[#values + 1] = a.sampler_kwargs
   self.datapipe = a.datapipe
   self.sampler = (a.sampler or samplers.SequentialSampler)(a.datapipe, table.unpack(values))
   if type(self.sampler) ~= "table" or self.sampler.iter == nil then
      args.refuse("data.datapipes.iter.Sampler", "sampler", "a class of samplers", a.sampler)
   end
end

function M.Sampler:iter() return self.sampler:iter() end

function M.Sampler:__len() return rows.length(self.sampler) end

-- ShardingFilter ----------------------------------------------------------------------------------

--- The levels of sharding. Items are first divided among processes and then among their workers.
--- DEFAULT is used if there is only one level.
---@names data.datapipes.iter.SHARDING_PRIORITIES
M.SHARDING_PRIORITIES = {DEFAULT = 1, DISTRIBUTED = 2, MULTIPROCESSING = 3}

local sharding_signature = args.signature [[data.datapipes.iter.ShardingFilter(source_datapipe: any,
   sharding_group_filter: integer?)]]

--- Divides items among n instances: each instance gets every n-th item.
---
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {1, 2, 3, 4}:sharding_filter()
---     pipe:apply_sharding(2, 1) -- the second of two processes
---     for x in pipe:iter() do print(x) end
---     --> 2
---     --> 4
---@class data.datapipes.iter.ShardingFilter: data.IterDataPipe
---@overload fun(source_datapipe, sharding_group_filter?): data.datapipes.iter.ShardingFilter
M.ShardingFilter = class.class("data.datapipes.iter.ShardingFilter", IterDataPipe)

local ShardingFilter <const> = M.ShardingFilter
local sharding <const> = "data.datapipes.iter.ShardingFilter"

--- Creates the pipe. Each of n instances returns every n-th item, and each begins at a different
--- item. In a DataLoader, the instances are the workers. With a process group, they are the workers
--- of all processes.
---@param source_datapipe data.IterDataPipe
---@param sharding_group_filter? integer  the only level of SHARDING_PRIORITIES that is used
function ShardingFilter:__init(...)
   local a = sharding_signature(...)
   rows.check_stream(sharding, "source_datapipe", a.source_datapipe)
   local only = a.sharding_group_filter
   if only and (only < 1 or only > 3) then
      args.refuse(sharding, "sharding_group_filter", "a number of SHARDING_PRIORITIES", only)
   end
   self.source_datapipe, self.sharding_group_filter = a.source_datapipe, a.sharding_group_filter
   self.groups, self.num_of_instances, self.instance_id = {}, 1, 0
end

-- Computes the number of instances over all levels of sharding, and the number of this instance.
-- Instances that differ only in the last level have adjacent numbers.
local function update(self)
   self.num_of_instances, self.instance_id = 1, 0
   for group = 3, 1, -1 do
      local share = self.groups[group]
      if share and (not self.sharding_group_filter or self.sharding_group_filter == group) then
         self.instance_id = self.instance_id + self.num_of_instances * share[2]
         self.num_of_instances = self.num_of_instances * share[1]
      end
   end
end

--- Sets the shard that this instance returns.
---@param num_of_instances integer
---@param instance_id integer  from 0
---@param sharding_group? integer  a level of SHARDING_PRIORITIES; DEFAULT must be the only level
function ShardingFilter:apply_sharding(num_of_instances, instance_id, sharding_group)
   local group = sharding_group or 1
   if math.type(num_of_instances) ~= "integer" or num_of_instances < 1 then
      args.refuse(sharding, "num_of_instances", "an integer of at least 1", num_of_instances)
   end
   if math.type(instance_id) ~= "integer" or instance_id < 0 or instance_id >= num_of_instances then
      args.refuse(sharding, "instance_id", ("an integer from 0 to %d"):format(num_of_instances - 1),
         instance_id)
   end
   if group ~= 1 and group ~= 2 and group ~= 3 then
      args.refuse(sharding, "sharding_group", "a number of SHARDING_PRIORITIES", sharding_group)
   end
   if group == 1 and (self.groups[2] or self.groups[3]) or group ~= 1 and self.groups[1] then
      torch.raise(sharding .. ": sharding_group: expected DEFAULT alone or others, got both")
   end
   self.groups[group] = {num_of_instances, instance_id}
   update(self)
end

function ShardingFilter:iter()
   local next_item, i = self.source_datapipe:iter(), -1
   local n, own = self.num_of_instances, self.instance_id
   local find
   local function pass(...)
      i = i + 1
      if (...) == nil or i % n == own then return ... end
      return find()
   end
   function find() return pass(next_item()) end
   return find
end

function ShardingFilter:__len()
   local whole, n = rows.length(self.source_datapipe), self.num_of_instances
   return whole // n + (self.instance_id < whole % n and 1 or 0)
end

return M
