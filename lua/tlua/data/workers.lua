-- workers.lua - manages a DataLoader's workers from the program's side: sends each worker a limited
-- number of jobs ahead, and puts the workers' answers in order.

local torch = require "tlua"

local M = {}

local open = setmetatable({}, {__mode = "k"}) -- the groups of workers whose loops have not ended

---@class data.Crew
local Crew = {}
Crew.__index = Crew

local standard <const> = {"_G", "string", "table", "math", "utf8", "io", "os", "coroutine", "debug",
   "package"}

-- Returns a table from the names of this program's standard libraries to the sets of their
-- functions' names.
local function libraries()
   local there = {standard = {}}
   for _, name in ipairs(standard) do
      there.standard[name] = true
      local library = name == "_G" and _G or rawget(_G, name)
      if type(library) == "table" then
         there[name] = {}
         for field in pairs(library) do there[name][field] = true end
      end
   end
   there._G = there._G or {}
   for _, name in ipairs {"torch", "nn", "optim"} do there._G[name] = true end
   return there
end

--- Starts the workers of a loader.
---@param loader data.DataLoader
---@param base integer  the seed of the first epoch
---@return data.Crew
function M.start(loader, base)
   -- A loop that was left early may still have workers; collecting the garbage stops them.
   if next(open) ~= nil then collectgarbage() end
   local source = {
      dataset = loader.dataset, collate_fn = loader.collate_fn, batch_size = loader.batch_size,
      drop_last = loader.drop_last, worker_init_fn = loader.worker_init_fn,
      num_workers = loader.num_workers, pin_device = loader.pin_device,
      default_dtype = torch.get_default_dtype(),
      default_device = tostring(torch.get_default_device()), libraries = libraries(),
      is_pipe = loader.is_pipe, world_size = loader.world_size, rank = loader.rank,
   }
   local crew = setmetatable({
      pool = torch.workers.start("data.DataLoader", loader.num_workers, "tlua.data.worker", source,
         base),
      n = loader.num_workers, serial = 0, load = {},
   }, Crew)
   for id = 0, crew.n - 1 do crew.load[id] = 0 end
   open[crew] = true
   return crew
end

--- Stops the workers, each after its current item.
function Crew:stop()
   open[self] = nil
   if self.pool then self.pool:stop() end
   self.pool = nil
end

--- Sends a job, the arguments after `worker`, to a worker. Returns the job's number.
function Crew:send(worker, ...)
   self.serial = self.serial + 1
   self.pool:send(worker, self.serial, ...)
   self.load[worker] = self.load[worker] + 1
   return self.serial
end

-- Returns the worker that has the fewest unfinished jobs.
local function idlest(crew)
   local best = 0
   for id = 1, crew.n - 1 do
      if crew.load[id] < crew.load[best] then best = id end
   end
   return best
end

---@class data.Batches
---@field close fun(self)
local Batches = {}
Batches.__index = Batches
Batches.__name = "data.Batches"

--- Iterates over the batches of one epoch. `crew` is the group of workers. `order` returns the
--- positions of one batch at each call, and is nil for a dataset that is a stream.
---@param loader data.DataLoader
---@param crew data.Crew
---@param base integer  the seed of the epoch
---@param order? fun(): any
---@return data.Batches
function M.batches(loader, crew, base, order)
   crew.user = setmetatable({
      loader = loader, crew = crew, base = base, order = order,
      sent = 0, delivered = 0, limit = loader.prefetch_factor * loader.num_workers,
      numbers = {}, ready = {}, ended = {}, turn = 0,
   }, Batches)
   return crew.user
end

-- Returns the next worker in turn whose stream has not ended, or nil if all streams have ended.
local function next_worker(self)
   for i = 0, self.crew.n - 1 do
      local id = (self.turn + i) % self.crew.n
      if not self.ended[id] then
         self.turn = id + 1
         return id
      end
   end
end

local function fill(self)
   while not self.last and self.sent - self.delivered < self.limit do
      local positions, worker
      if self.order then
         positions = self.order()
         worker = idlest(self.crew)
         if positions == nil then self.last = true end
      else
         worker = next_worker(self)
         if not worker then self.last = true end
      end
      if self.last then return end
      self.sent = self.sent + 1
      local number = self.order and self.sent or (worker << 40) + self.sent
      self.numbers[self.crew:send(worker, self.base, number, positions)] = self.sent
   end
end

local function fail(self, worker, message)
   self:close()
   torch.raise(("data.DataLoader: worker %d of %d: %s"):format(worker, self.crew.n, message))
end

-- Receives one answer from a worker, and drops it if it belongs to an abandoned loop.
local function receive(self)
   local answer = table.pack(self.crew.pool:take(self.loader.timeout))
   local worker, job, done = answer[1], answer[2], answer[3]
   if not worker then
      local busy = {}
      for id = 0, self.crew.n - 1 do
         if self.crew.load[id] > 0 then busy[#busy + 1] = id end
      end
      self:close()
      torch.raise(("data.DataLoader: batch %d did not arrive within the timeout of %g s; still at "
         .. "work: worker %s of %d"):format(self.delivered + 1, self.loader.timeout,
         table.concat(busy, ", "), self.crew.n))
   end
   if job > 0 then self.crew.load[worker] = self.crew.load[worker] - 1 end
   local number = self.numbers[job]
   if not done and (number or job == 0) then fail(self, worker, answer[4]) end
   if not number then return end
   self.numbers[job] = nil
   if not self.order and answer[4] == nil then
      self.ended[worker] = true
      answer = false
   end
   self.ready[number] = answer
end

-- Returns the number of a batch to deliver, or nil. With in_order, only the next batch in order can
-- be delivered, once it has arrived; otherwise any batch that has arrived.
local function ready(self)
   if not self.loader.in_order then return next(self.ready) end
   local number = self.delivered + 1
   return self.ready[number] ~= nil and number or nil
end

--- Returns the next batch, or nil at the end.
---@return any ...
function Batches:__call()
   if self.closed then return nil end
   if self.crew.user ~= self then
      torch.raise("data.DataLoader: another loop has begun with the persistent workers of this one")
   end
   while true do
      fill(self)
      if self.delivered == self.sent then
         self:finish()
         return nil
      end
      local number = ready(self)
      while not number do
         receive(self)
         number = ready(self)
      end
      local answer = self.ready[number]
      self.ready[number] = nil
      self.delivered = self.delivered + 1
      if answer then
         fill(self)
         return table.unpack(answer, 4, answer.n)
      end
   end
end

-- Ends the epoch, and stops the workers unless they are persistent.
function Batches:finish()
   self.closed = true
   if self.loader.crew ~= self.crew then self.crew:stop() end
end

--- Stops the workers even if some batches have not arrived. The garbage collector calls this for an
--- abandoned loop.
function Batches:close()
   if self.closed then return end
   self.closed = true
   if self.loader.crew == self.crew then self.loader.crew = nil end
   self.crew:stop()
end

Batches.__close = Batches.close

return M
