-- fetch.lua - makes batches of a dataset, in the calling thread or in the thread of a worker.
--
-- A `source` has the fields {dataset, collate_fn, batch_size, drop_last}; in a worker it also has a
-- function `stopped`, which is called between items and returns whether the batch is no longer
-- needed.

local torch = require "tlua"
local collate = require "tlua.data.collate"
local items = require "tlua.data.items"

local M = {}

--- Returns a batch's seed, which depends on the batch's number but not on the worker.
---@param base integer
---@param number integer
---@return integer
function M.seed(base, number) -- splitmix64
   local z = base + number * 0x9E3779B97F4A7C15
   z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
   z = (z ~ (z >> 27)) * 0x94D049BB133111EB
   return (z ~ (z >> 31)) & math.maxinteger
end

local function check_stopped(source)
   if source.stopped and source.stopped() then error("the worker was stopped", 0) end
end

-- Returns the values of a batch, which are its arguments after `what`. Raises an error if the first
-- value is nil, because nil would end the caller's loop.
local function given(what, first, ...)
   if first == nil then
      torch.raise(("data.DataLoader: %s, which would end the loop; expected a value"):format(what))
   end
   return first, ...
end

local function collated(source, batch)
   local fn = source.collate_fn
   if not fn then return collate.default_collate(batch) end
   return given("collate_fn returned nil", fn(batch))
end

--- Returns the batch of the items at `positions`, a tensor or a list; one integer gives one item.
---@param source table
---@param positions Tensor|integer[]|integer
---@return any ...
function M.batch(source, positions)
   local dataset = source.dataset
   if math.type(positions) == "integer" then
      return given(("the item at position %d is nil"):format(positions),
         items.get(dataset, positions))
   end
   if not source.collate_fn and items.gives_batches(dataset) then
      if type(positions) == "table" then
         positions = torch.tensor(positions, {dtype = "int64", device = "cpu"})
      end
      return given("the dataset's get_items returned nil", dataset:get_items(positions))
   end
   if torch.is_tensor(positions) then positions = positions:tolist() end
   local batch = {}
   for i, position in ipairs(positions) do
      batch[i] = {items.get(dataset, position)}
      check_stopped(source)
   end
   return collated(source, batch)
end

-- Begins to iterate over the items of an epoch. A data pipe's random parts, such as shuffles, are
-- seeded with `base` in all workers.
local function begin(dataset, base)
   local settings = items.pipe_settings(dataset)
   if settings then
      settings.apply_random_seed(dataset, torch.Generator("cpu"):manual_seed(base))
   end
   return dataset:iter()
end

--- Returns an iterator over the batches of a dataset that is a stream.
---@param source table
---@param base integer  the seed of the epoch
---@return fun(): any ...
function M.stream(source, base)
   local next_item = begin(source.dataset, base)
   if not source.batch_size then return next_item end
   local ended = false
   return function()
      local batch = {}
      while not ended and #batch < source.batch_size do
         local item = {next_item()}
         if item[1] == nil then
            ended = true
         else
            batch[#batch + 1] = item
         end
         check_stopped(source)
      end
      if #batch == 0 or source.drop_last and #batch < source.batch_size then return nil end
      return collated(source, batch)
   end
end

local function pin(value, device)
   if torch.is_tensor(value) then return value:pin_memory(device) end
   if type(value) ~= "table" then return value end
   for key, item in pairs(value) do value[key] = pin(item, device) end
   return value
end

--- Returns the values of a batch in pinned memory, so that a copy to a device can be asynchronous.
---@param device string|torch.device
---@param ... any
---@return any ...
function M.pin(device, ...)
   local values = table.pack(...)
   for i = 1, values.n do values[i] = pin(values[i], device) end
   return table.unpack(values, 1, values.n)
end

return M
