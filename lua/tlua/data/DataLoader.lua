-- DataLoader.lua - makes batches of a dataset's items:
--
--    local loader = torch.data.DataLoader(dataset, {batch_size = 64, shuffle = true})
--    for input, target in loader:iter() do ... end

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local collate = require "tlua.data.collate"
local items = require "tlua.data.items"
local samplers = require "tlua.data.samplers"
local spans = require "tlua.profiler.spans"

local signature = args.signature [[data.DataLoader(dataset: any, batch_size: integer|boolean = 1,
   shuffle: boolean = false, sampler: any?, batch_sampler: any?, drop_last: boolean = false,
   collate_fn: callable?, generator: any?, num_workers: count = 0)]]

---@class data.DataLoader
---@overload fun(dataset: data.Dataset, options?: table): data.DataLoader
local DataLoader = class.class("data.DataLoader")

-- Options that exclude each other.
local function check(a)
   local name = "data.DataLoader"
   if a.num_workers > 0 then
      torch.raise(name .. ": num_workers: expected 0: workers are not there yet, items are loaded "
         .. "in the calling thread")
   end
   if a.sampler and a.shuffle then
      torch.raise(name .. ": expected a sampler or shuffle = true, got both")
   end
   if a.batch_sampler and (a.batch_size ~= 1 or a.shuffle or a.sampler or a.drop_last) then
      torch.raise(name .. ": batch_sampler excludes batch_size, shuffle, sampler and drop_last")
   end
   if a.batch_size == true or math.type(a.batch_size) == "integer" and a.batch_size < 1 then
      args.refuse(name, "batch_size", "an integer of at least 1, or false for single items",
         a.batch_size)
   end
   if items.is_stream(a.dataset) then
      if a.shuffle or a.sampler or a.batch_sampler then
         torch.raise(name .. ": a dataset without positions has no order to choose: expected no "
            .. "shuffle, sampler or batch_sampler")
      end
   elseif not items.is_dataset(a.dataset) then
      args.refuse(name, "dataset", "a dataset", a.dataset)
   end
end

--- Options: batch_size (1; false gives single items), shuffle, sampler, batch_sampler, drop_last
--- (no smaller batch at the end), collate_fn (makes a batch of a list of items, each a list of
--- values), generator (of the random order).
---@param dataset data.Dataset|data.IterableDataset|Tensor|any[]
---@param options? table
function DataLoader:__init(...)
   local a = signature(...)
   check(a)
   self.dataset, self.collate_fn = a.dataset, a.collate_fn
   self.batch_size, self.drop_last = a.batch_size, a.drop_last
   if items.is_stream(a.dataset) then return end
   if a.batch_sampler then
      self.batch_sampler, self.batch_size = a.batch_sampler, nil
      return
   end
   self.sampler = a.sampler
      or a.shuffle and samplers.RandomSampler(a.dataset, {generator = a.generator})
      or samplers.SequentialSampler(a.dataset)
   if a.batch_size then
      self.batch_sampler = samplers.BatchSampler(self.sampler, a.batch_size, a.drop_last)
   end
end

--- The number of batches.
function DataLoader:__len()
   if items.is_stream(self.dataset) then
      torch.raise("data.DataLoader: a dataset without positions has no length")
   end
   return #(self.batch_sampler or self.sampler)
end

-- The batch of what `positions`, a tensor or a list, denotes.
local function fetch(self, positions)
   local dataset = self.dataset
   if not self.collate_fn and items.gives_batches(dataset) then
      if type(positions) == "table" then
         positions = torch.tensor(positions, {dtype = "int64", device = "cpu"})
      end
      return dataset:get_items(positions)
   end
   if torch.is_tensor(positions) then positions = positions:tolist() end
   local batch = {}
   for i, position in ipairs(positions) do batch[i] = {items.get(dataset, position)} end
   return (self.collate_fn or collate.default_collate)(batch)
end

-- Batches of a dataset without positions.
local function iterate_stream(self)
   local next_item = self.dataset:iter()
   if not self.batch_size then return next_item end
   local ended = false
   return function()
      local batch = {}
      while not ended and #batch < self.batch_size do
         local item = {next_item()}
         if item[1] == nil then
            ended = true
         else
            batch[#batch + 1] = item
         end
      end
      if #batch == 0 or self.drop_last and #batch < self.batch_size then return nil end
      return (self.collate_fn or collate.default_collate)(batch)
   end
end

local function iterate(self)
   if items.is_stream(self.dataset) then return iterate_stream(self) end
   if not self.batch_sampler then
      local next_position = self.sampler:iter()
      return function()
         local position = next_position()
         if position == nil then return nil end
         return items.get(self.dataset, position)
      end
   end
   local next_batch = self.batch_sampler:iter()
   return function()
      local positions = next_batch()
      if positions == nil then return nil end
      return fetch(self, positions)
   end
end

--- Iterates over the batches of one epoch.
---@return fun(): any ...
function DataLoader:iter()
   return spans.watched("data", "DataLoader.next", iterate(self))
end

return DataLoader
