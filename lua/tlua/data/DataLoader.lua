-- DataLoader.lua - makes batches of a dataset's items, in the calling thread or in worker threads
-- with separate interpreters:
--
--    local loader = torch.data.DataLoader(dataset, {batch_size = 64, num_workers = 2})
--    for input, target in loader:iter() do ... end
--
-- Before each batch the default generator is seeded from the epoch's seed and the batch's number;
-- afterwards the program's generator continues from its old state. So random transforms give the
-- same items with any number of workers, including none.
--
-- The objects that a worker needs are sent to it: tables by copy, tensors without copying,
-- functions with their upvalues and the globals that they name, and instances of classes; modules
-- are required anew. A file, a coroutine or a device tensor cannot be sent, and the error names it.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local fetch = require "tlua.data.fetch"
local indexing = require "tlua.data.indexing"
local items = require "tlua.data.items"
local samplers = require "tlua.data.samplers"
local scopes = require "tlua.scope"
local spans = require "tlua.profiler.spans"
local workers = require "tlua.data.workers"

local name <const> = "data.DataLoader"

local signature = args.signature [[data.DataLoader(dataset: any, batch_size: integer|boolean = 1,
   shuffle: boolean?, sampler: any?, batch_sampler: any?, num_workers: count = 0,
   collate_fn: callable?, pin_memory: boolean = false, drop_last: boolean = false,
   timeout: number = 0, worker_init_fn: callable?, generator: any?, prefetch_factor: integer?,
   persistent_workers: boolean = false, pin_memory_device: device?, in_order: boolean = true)]]

--- Makes batches of a dataset's items, in the calling thread or in worker threads with separate
--- interpreters. `loader:iter()` iterates over the batches of an epoch, and `#loader` is the number
--- of batches. Workers get copies of a dataset's tables, its tensors without copying, functions
--- with their upvalues and the globals that they name; modules are required anew.
---
---     local set = torch.data.TensorDataset(torch.arange(5), torch.arange(5) * 10)
---     for x, y in torch.data.DataLoader(set, {batch_size = 2}):iter() do
---        print(table.concat(x:tolist(), " "), table.concat(y:tolist(), " "))
---     end
---     --> 0 1	0 10
---     --> 2 3	20 30
---     --> 4	40
---@class data.DataLoader
---@field dataset any  the dataset whose items are loaded
---@field num_workers integer  the number of worker threads; with 0 the calling thread makes the
--- batches
---@overload fun(dataset: data.Dataset, options?: table): data.DataLoader
local DataLoader = class.class("data.DataLoader")

DataLoader.__pairs = indexing.refuse(DataLoader,
   "for x, y in loader:iter() do, or for i, x, y in loader:enumerate() do")

-- Checks the options that have an effect only with workers.
local function check_workers(a)
   if a.timeout ~= a.timeout or a.timeout < 0 then
      args.refuse(name, "timeout", "seconds, at least 0", a.timeout)
   end
   if a.prefetch_factor and a.prefetch_factor < 1 then
      args.refuse(name, "prefetch_factor", "an integer of at least 1", a.prefetch_factor)
   end
   if a.num_workers > 0 then return end
   local wrong = a.timeout > 0 and "timeout" or a.prefetch_factor and "prefetch_factor"
      or a.persistent_workers and "persistent_workers" or a.worker_init_fn and "worker_init_fn"
   if wrong then
      torch.raise(("%s: %s: expected num_workers of at least 1 with it, got 0"):format(name, wrong))
   end
end

-- Checks the values of the options, and that no two given options exclude each other. Makes
-- samplers of lists.
local function check(a)
   if a.sampler and a.shuffle then
      torch.raise(name .. ": expected a sampler or shuffle = true, got both")
   end
   for _, option in ipairs {"sampler", "batch_sampler"} do
      if a[option] ~= nil then
         a[option] = samplers._given(name, option, a[option], option == "batch_sampler")
      end
   end
   if a.batch_sampler and (a.batch_size ~= 1 or a.shuffle or a.sampler or a.drop_last) then
      torch.raise(name .. ": batch_sampler excludes batch_size, shuffle, sampler and drop_last")
   end
   if a.batch_size == true or math.type(a.batch_size) == "integer" and a.batch_size < 1 then
      args.refuse(name, "batch_size", "an integer of at least 1, or false for single items",
         a.batch_size)
   end
   if not a.batch_size and a.drop_last then
      torch.raise(name .. ": drop_last: expected a batch_size with it, got false")
   end
   if items.is_stream(a.dataset) then
      if a.shuffle and not items.pipe_settings(a.dataset) or a.sampler or a.batch_sampler then
         torch.raise(name .. ": a dataset without positions has no order to choose: expected no "
            .. "shuffle, sampler or batch_sampler")
      end
   elseif not items.is_dataset(a.dataset) then
      args.refuse(name, "dataset", "a dataset", a.dataset)
   elseif a.shuffle and #a.dataset == 0 then
      torch.raise(name .. ": shuffle: expected a dataset with items, got one without any")
   end
   check_workers(a)
end

-- Sets which shard of a data pipe (package datapipes) this process reads, and whether the pipe
-- shuffles its items.
local function set_up_pipe(self, settings, shuffle)
   local group = torch.distributed
   local is_group = group and group.is_initialized()
   self.is_pipe = true
   self.world_size = is_group and group.get_world_size() or 1
   self.rank = is_group and group.get_rank() or 0
   self.dataset = settings.apply_shuffle_settings(self.dataset, shuffle)
   if self.num_workers == 0 and self.world_size > 1 then
      settings.apply_sharding(self.dataset, self.world_size, self.rank)
   end
end

--- Makes the loader. The options for batches, with their defaults in parentheses, are:
--- * batch_size (1): the number of items in a batch; false gives single items.
--- * shuffle: true gives a new random order in each epoch.
--- * sampler: a sampler, or a list of positions, which determines the order of the items.
--- * batch_sampler: an object that returns the positions of each batch, or a list of such lists.
--- * drop_last (false): leaves out a smaller batch at the end.
--- * collate_fn: makes a batch from a list of items, each of which is a list of values.
--- * generator: draws the random order and the epoch's seed.
--- * pin_memory (false): has an effect if there is a GPU, or if pin_memory_device is given.
---
--- The options for workers are:
--- * num_workers (0): the number of worker threads.
--- * prefetch_factor (2): the number of batches that each worker makes ahead.
--- * persistent_workers (false): keeps the workers from epoch to epoch.
--- * worker_init_fn: is called in each worker with the worker's id, from 0.
--- * timeout (0): the number of seconds to wait for a batch; 0 means no limit.
--- * in_order (true): false returns batches as soon as they are ready.
---
--- For an IterDataPipe, `shuffle` switches the pipe's shuffles on or off, and nil leaves them
--- unchanged; true adds a shuffle to the end of a pipe that has no shuffle. The pipe's
--- sharding_filter gives each worker a shard; without that filter each worker returns all items. In
--- all workers the shuffles are seeded with the epoch's seed.
---@param dataset data.Dataset|data.IterableDataset|Tensor|any[]
---@param options? table
function DataLoader:__init(...)
   local a = signature(...)
   check(a)
   for _, field in ipairs {"dataset", "collate_fn", "batch_size", "drop_last", "num_workers",
      "timeout", "worker_init_fn", "generator", "persistent_workers", "in_order", "pin_memory"} do
      self[field] = a[field]
   end
   self.prefetch_factor = a.prefetch_factor or 2
   self.pin_device = a.pin_memory
      and (a.pin_memory_device or torch.cuda.is_available() and "cuda") or nil
   local pipe_settings = items.pipe_settings(a.dataset)
   if pipe_settings then set_up_pipe(self, pipe_settings, a.shuffle) end
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

--- Returns the number of batches.
function DataLoader:__len()
   if items.is_stream(self.dataset) then
      torch.raise("data.DataLoader: a dataset without positions has no length")
   end
   return #(self.batch_sampler or self.sampler)
end

-- Where it stands ----------------------------------------------------------------------------

-- Returns the generators, other than the default generator, that determine the order of an epoch.
local function own_generators(self)
   local sampler = self.sampler or self.batch_sampler and self.batch_sampler.sampler
   local other = type(sampler) == "table" and sampler.generator or nil
   return {self.generator, other ~= self.generator and other or nil}
end

local function get_states(self)
   local states = {default = torch.get_rng_state()}
   for i, generator in pairs(own_generators(self)) do states["own" .. i] = generator:get_state() end
   return states
end

local function set_states(self, states)
   torch.set_rng_state(states.default)
   for i, generator in pairs(own_generators(self)) do
      if states["own" .. i] then generator:set_state(states["own" .. i]) end
   end
end

--- Returns the position in the running epoch, as plain data for a checkpoint. The position consists
--- of the number of batches already returned, and the state of the random generators when the epoch
--- began.
---@return {position: integer, generators: table?}
function DataLoader:state_dict()
   local place = self.place
   if self.resume then return self.resume end
   if not place or place.ended then return {position = 0} end
   return {position = place.position, generators = place.generators}
end

--- Makes the next epoch continue at the position in `state`: in the same order, after the batches
--- that were already returned. This method does not restore the default generator, so the program
--- must restore it as well. For a user-defined sampler, the loader restores only the field
--- `generator`.
---@param state {position: integer, generators: table?}
---@return data.DataLoader self
function DataLoader:load_state_dict(state)
   if type(state) ~= "table" or math.type(state.position) ~= "integer"
      or state.generators ~= nil and type(state.generators) ~= "table" then
      args.refuse(name .. ".load_state_dict", "state", "a result of state_dict", state)
   end
   self.resume = state.generators and {position = state.position, generators = state.generators}
   return self
end

-- Iterating ----------------------------------------------------------------------------------

-- Returns an iterator over the positions of each batch, or over single positions. Returns nil for a
-- stream.
local function make_order(self)
   if items.is_stream(self.dataset) then return nil end
   return (self.batch_sampler or self.sampler):iter()
end

-- Returns a function that makes the batches in the calling thread; each batch has its own seed.
local function make_here(self, base, order)
   local number = 0
   local next_batch = not order and fetch.stream(self, base)
   local function make()
      number = number + 1
      local positions
      if order then
         positions = order()
         if positions == nil then return nil end
      end
      local state = torch.get_rng_state()
      local _ <close> = scopes.new(function() torch.set_rng_state(state) end)
      torch.set_rng_state {fetch.seed(base, number), 0}
      if next_batch then return next_batch() end
      return fetch.batch(self, positions)
   end
   if not self.pin_device then return make end
   return function()
      local batch = table.pack(make())
      return fetch.pin(self.pin_device, table.unpack(batch, 1, batch.n))
   end
end

local function make_with_workers(self, base, order)
   local crew = self.crew or workers.start(self, base)
   if self.persistent_workers then self.crew = crew end
   return workers.batches(self, crew, base, order)
end

local function note(place, first, ...)
   if first == nil then
      place.ended = true
   else
      place.position = place.position + 1
   end
   return first, ...
end

---@class data.Epoch
local Epoch = {__name = "data.Epoch"}

function Epoch:__index(key)
   if math.type(key) == "integer" then
      torch.raise "an epoch has no numbered batches: write for x, y in loader:iter() do"
   end
   return Epoch[key]
end

function Epoch:__call()
   if self.place.ended then return nil end
   if torch._spans_seen() then
      return note(self.place, spans.call("data", "DataLoader.next", self.next))
   end
   return note(self.place, self.next())
end

--- Ends the epoch early, and stops the workers of the epoch.
function Epoch:close()
   self.place.ended = true
   if self.batches then self.batches:close() end
end

Epoch.__close = Epoch.close

--- Iterates over the batches of one epoch. The result is an object; calling it returns the next
--- batch. The object has a method `close` and can be a to-be-closed variable, but a loop that is
--- left early needs neither of them.
---@return fun(): any ...
function DataLoader:iter()
   local resume, now = self.resume, nil
   self.resume = nil
   if resume then
      now = torch.get_rng_state()
      set_states(self, resume.generators)
   end
   local place = {position = 0, generators = get_states(self)}
   local epoch = setmetatable({place = place}, Epoch)
   local base = torch.randint(0, math.maxinteger, {1},
      {generator = self.generator, dtype = "int64", device = "cpu"}):item()
   local order = make_order(self)
   if self.num_workers > 0 then
      epoch.batches = make_with_workers(self, base, order)
      epoch.next = epoch.batches
   else
      epoch.next = make_here(self, base, order)
   end
   if resume then
      torch.set_rng_state(now)
      for _ = 1, resume.position do epoch() end
   end
   -- The loader stores only `place`, the position, and not the epoch itself, so that the epoch of a
   -- loop that was left early can be collected.
   self.place = place
   return epoch
end

--- Iterates over the batches of one epoch and their numbers, which count from 1: `for i, x, y in
--- loader:enumerate() do`.
---@return fun(): integer, any ...
function DataLoader:enumerate()
   local epoch, number = self:iter(), 0
   local function count(first, ...)
      if first == nil then return nil end
      number = number + 1
      return number, first, ...
   end
   return function() return count(epoch()) end, nil, nil, epoch
end

return DataLoader
