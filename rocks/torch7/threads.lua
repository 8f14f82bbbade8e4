-- threads.lua - Torch7's package threads on top of tlua's workers: a pool of threads with an
-- interpreter each, jobs with a callback that the calling interpreter runs at their end, locks and
-- conditions.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local classes = require "tlua.torch7.classes"
local values = require "tlua.torch7.thread_values"

local M = {}
classes.root("threads", M)

local pause = tlua.distributed._sleep

local function check(condition, format, ...)
   if not condition then tlua.raise(format:format(...)) end
end

-- Threads -----------------------------------------------------------------------------------------

local Threads = classes.class "threads.Threads"
local schemes = {["threads.serialize"] = false, ["threads.sharedserialize"] = true}
local shared = false

--- Sets how values are sent to pools that are created later: "threads.serialize" copies tensors,
--- and "threads.sharedserialize" shares their memory. Without a name, returns the current setting.
---@param name? string
---@return string
function Threads.serialization(name)
   if name ~= nil then
      check(schemes[name] ~= nil, "threads.Threads.serialization: expected 'threads.serialize' or "
         .. "'threads.sharedserialize', got %s", tostring(name))
      shared = schemes[name]
   end
   return shared and "threads.sharedserialize" or "threads.serialize"
end

local function start(name, n)
   return tlua.workers.start(name, n, "tlua.torch7.thread_worker",
      {default = torch.getdefaulttensortype(), shared = shared, seed = tlua.initial_seed()})
end

-- Waits up to `seconds` seconds for an answer of a thread, and appends the answer to the finished
-- jobs. Returns whether an answer has arrived.
local function receive(self, seconds)
   local worker, number, good, result = self.pool:take(seconds)
   if not worker then return false end
   if number == 0 and not good then
      self:stop()
      tlua.raise(("threads.Threads: thread %d: %s"):format(worker + 1, result))
   end
   local job = self.jobs[number]
   self.jobs[number] = nil
   self.load[worker] = self.load[worker] - 1
   self.done[#self.done + 1] = {job = job, good = good, result = result, worker = worker + 1}
   return true
end

-- Returns a message of tlua's workers without the name of tlua's DataLoader.
local function own_message(text) return (tostring(text):gsub("data%.DataLoader: ", "", 1)) end

-- Sends a job to a thread. The job is counted only after it was sent, because sending fails for
-- values that cannot be sent to a thread.
local function send(self, worker, job, packed)
   local serial = self.serial + 1
   local sent, problem = pcall(self.pool.send, self.pool, worker, serial, packed)
   if not sent then
      tlua.raise("threads.Threads:addjob: " .. own_message(problem):gsub("^[^:]*:%d+: ", ""))
   end
   self.serial = serial
   self.jobs[serial] = job
   self.load[worker] = self.load[worker] + 1
end

--- Starts n threads. Each thread calls the given functions one after another, with its number from
--- 1 to n.
function Threads:__init(n, ...)
   check(math.type(n) == "integer" and n >= 1,
      "threads.Threads: N: expected a count of threads, got %s", tostring(n))
   local inits, count = {}, select("#", ...)
   if count == 1 and (...) == nil then count = 0 end
   for i = 1, count do
      local fn = select(i, ...)
      check(type(fn) == "function", "threads.Threads: f%d: expected a function, got %s", i,
         type(fn))
      inits[i] = values.pack(shared, fn)
   end
   self.N, self.shared = n, shared
   self.jobs, self.done, self.load, self.serial = {}, {}, {}, 0
   self.is_specific, self.errors = false, false
   self.pool = start("threads.Threads", n)
   for worker = 0, n - 1 do
      self.load[worker] = 0
      send(self, worker, {}, {inits = inits})
   end
   -- Each thread sends an answer when it has begun, so this loop waits for all threads.
   for _ = 1, n do receive(self, 0) end
   for _, answer in ipairs(self.done) do
      if not answer.good then
         self:stop()
         tlua.raise(("threads.Threads: thread %d: %s"):format(answer.worker, answer.result))
      end
   end
   self.done = {}
end

local function check_running(self, name)
   check(self.pool ~= nil, "threads.Threads:%s: the pool was terminated", name)
end

function Threads:stop()
   if self.pool then self.pool:stop() end
   self.pool = nil
end

-- Returns the number of the thread with the fewest jobs.
local function idlest(self)
   local best = 0
   for worker = 1, self.N - 1 do
      if self.load[worker] < self.load[best] then best = worker end
   end
   return best
end

-- A thread has at most two jobs: the one that it runs, and the next one.
local most <const> = 2

local function target(self, id)
   if not self.is_specific then
      check(id == nil, "threads.Threads:acceptsjob: a thread's number is for specific mode")
      return idlest(self)
   end
   check(math.type(id) == "integer" and id >= 1 and id <= self.N, "threads.Threads: id: expected "
      .. "a thread's number from 1 to %d in specific mode, got %s", self.N, tostring(id))
   return id - 1
end

--- Returns whether addjob would return without waiting.
function Threads:acceptsjob(id)
   check_running(self, "acceptsjob")
   while receive(self, 1e-9) do end
   return self.load[target(self, id)] < most
end

--- Returns whether there are jobs whose endcallback has not run yet.
function Threads:hasjob() return next(self.jobs) ~= nil or #self.done > 0 end
function Threads:haserror() return self.errors end

--- Sends a job to a thread. The arguments are ([id,] callback [, endcallback [, ...]]).
function Threads:addjob(...)
   check_running(self, "addjob")
   local list = table.pack(...)
   local id
   if self.is_specific then
      id = list[1]
      target(self, id)
      list = table.pack(select(2, ...))
   end
   local callback, ending = list[1], list[2]
   check(type(callback) == "function",
      "threads.Threads:addjob: callback: expected a function, got %s", type(callback))
   check(ending == nil or type(ending) == "function",
      "threads.Threads:addjob: endcallback: expected a function, got %s", type(ending))
   local packed = values.pack(self.shared, callback, table.unpack(list, 3, list.n))
   while receive(self, 1e-9) do end
   while self.load[target(self, id)] >= most do receive(self, 0) end
   send(self, target(self, id), {ending = ending}, packed)
end

--- Waits for a job, and calls its endcallback with the job's results.
function Threads:dojob()
   check_running(self, "dojob")
   check(self:hasjob(), "threads.Threads:dojob: there is no job to wait for")
   if #self.done == 0 then receive(self, 0) end
   local answer = table.remove(self.done, 1)
   if not answer.good then
      self.errors = true
      tlua.raise(("[thread %d callback] %s"):format(answer.worker, own_message(answer.result)))
   end
   if not answer.job.ending then return end
   local good, problem = pcall(answer.job.ending, values.unpack(answer.result))
   if not good then
      self.errors = true
      tlua.raise(("[thread %d endcallback] %s"):format(answer.worker, tostring(problem)))
   end
end

--- Waits for all jobs. After the last job, raises the first error if there was one.
function Threads:synchronize()
   local first
   while self.pool and self:hasjob() do
      local good, problem = pcall(self.dojob, self)
      if not good then first = first or problem end
   end
   if first then error(first, 0) end
end

--- Sets whether a thread is chosen by the program: if `flag` is true, the first argument of addjob
--- is the number of the thread. Without an argument, returns the setting.
function Threads:specific(flag)
   if flag == nil then return self.is_specific end
   check(type(flag) == "boolean", "threads.Threads:specific: expected a boolean, got %s",
      type(flag))
   if self.pool then self:synchronize() end
   self.is_specific = flag
end

--- Waits for all jobs, and then ends the threads.
function Threads:terminate()
   if not self.pool then return end
   local good, problem = pcall(self.synchronize, self)
   self:stop()
   if not good then error(problem, 0) end
end

-- One thread --------------------------------------------------------------------------------------

local Thread = classes.class "threads.Thread"

--- Runs Lua code, given as a string, in a thread. The method `free` waits for the end of the
--- thread.
function Thread:__init(code)
   check(type(code) == "string", "threads.Thread: code: expected a string, got %s", type(code))
   self.pool = start("threads.Thread", 1)
   self.pool:send(0, 1, {code = code})
end
function Thread:free()
   if not self.pool then return end
   local _, _, good, problem = self.pool:take(0)
   self.pool:stop()
   self.pool = nil
   if not good then tlua.raise("threads.Thread: " .. tostring(problem)) end
end

-- Locks -------------------------------------------------------------------------------------------

-- Interpreters share no Lua values, so a lock is a file. Its name says whether the lock is free or
-- held. To take the lock, a thread renames the file from the free name to the held name. The system
-- lets only one thread do this.

local function unique_number()
   local address = tonumber(("%p"):format({})) >> 4
   return (address ~ (os.time() << 24) ~ math.floor(tlua.io.clock() * 1e6)) & ((1 << 52) - 1)
end

local function path_of(id)
   return ("%s/tlua_lock_%d"):format(os.getenv "TMPDIR" or "/tmp", math.tointeger(id))
end

local function exists(path)
   local file = io.open(path, "r")
   if file then file:close() end
   return file ~= nil
end

local Mutex = classes.class "threads.Mutex"

--- Creates a lock. With `id`, returns the existing lock that has this id.
function Mutex:__init(id)
   check(id == nil or math.tointeger(id), "threads.Mutex: id: expected a number of a lock, got %s",
      tostring(id))
   self.number = math.tointeger(id) or unique_number()
   self.path = path_of(self.number)
   if id == nil then
      local file, problem = io.open(self.path .. ".free", "w")
      check(file, "threads.Mutex: %s", tostring(problem))
      file:close()
   end
end
function Mutex:id() return self.number end

function Mutex:lock()
   local wait, missing = 1e-5, 0
   while not os.rename(self.path .. ".free", self.path .. ".held") do
      if exists(self.path .. ".held") or exists(self.path .. ".free") then missing = 0
      else missing = missing + 1 end
      check(missing < 10, "threads.Mutex:lock: the lock was freed")
      pause(wait)
      wait = math.min(2 * wait, 0.002)
   end
end
function Mutex:unlock()
   check(os.rename(self.path .. ".held", self.path .. ".free"),
      "threads.Mutex:unlock: the lock is not held")
end
function Mutex:free()
   os.remove(self.path .. ".free")
   os.remove(self.path .. ".held")
end

-- The file "waiting" of a condition gets a byte at each call of wait, and the file "signalled" gets
-- a byte at each call of signal. Their lengths are the two counts. The system appends a byte as a
-- whole, so this needs no lock.
local Condition = classes.class "threads.Condition"

local function check_mutex(name, mutex)
   check(classes.isTypeOf(mutex, "threads.Mutex"), "%s: mutex: expected a threads.Mutex, got %s",
      name, classes.type(mutex))
end

local function length(path)
   local file = io.open(path, "rb")
   if not file then return nil end
   local n = file:seek "end"
   file:close()
   return n
end
local function append(path)
   local file = assert(io.open(path, "ab"))
   file:write "."
   file:close()
end

function Condition:__init(id)
   check(id == nil or math.tointeger(id),
      "threads.Condition: id: expected a number of a condition, got %s", tostring(id))
   self.number = math.tointeger(id) or unique_number()
   self.path = path_of(self.number)
   if id == nil then
      for _, ending in ipairs {".waiting", ".signalled"} do
         local file, problem = io.open(self.path .. ending, "w")
         check(file, "threads.Condition: %s", tostring(problem))
         file:close()
      end
   end
end
function Condition:id() return self.number end

--- Unlocks the mutex, waits for a signal, and locks the mutex again.
function Condition:wait(mutex)
   check_mutex("threads.Condition:wait", mutex)
   check(exists(mutex.path .. ".held"), "threads.Condition:wait: the lock is not held")
   append(self.path .. ".waiting")
   local ticket, wait = length(self.path .. ".waiting"), 1e-5
   mutex:unlock()
   while true do
      local signals = length(self.path .. ".signalled")
      check(signals, "threads.Condition:wait: the condition was freed")
      if signals >= ticket then break end
      pause(wait)
      wait = math.min(2 * wait, 0.002)
   end
   mutex:lock()
end

--- Wakes the thread that has waited longest; does nothing if no thread waits.
function Condition:signal()
   local waiting, signals = length(self.path .. ".waiting"), length(self.path .. ".signalled")
   check(waiting and signals, "threads.Condition:signal: the condition was freed")
   if signals < waiting then append(self.path .. ".signalled") end
end
function Condition:free()
   os.remove(self.path .. ".waiting")
   os.remove(self.path .. ".signalled")
end

--- Returns a function that holds a mutex while it calls fn. Without `mutex`, a new one is created.
---@param fn function
---@param mutex? table
---@return function
function M.safe(fn, mutex)
   check(type(fn) == "function", "threads.safe: func: expected a function, got %s", type(fn))
   local own = mutex == nil
   if not own then check_mutex("threads.safe", mutex) end
   mutex = mutex or M.Mutex()
   -- The lock is freed when the returned function is collected, and only by this interpreter.
   local keeper = own and setmetatable({}, {__gc = function() mutex:free() end}) or nil
   local function finish(good, ...)
      mutex:unlock()
      if not good then error((...), 0) end
      return ...
   end
   local made = function(...)
      mutex:lock()
      return finish(pcall(fn, ...))
   end
   M.keepers[made] = keeper
   return made
end
M.keepers = setmetatable({}, {__mode = "k"})

local later = {Queue = true, queue = true, serialize = true}

return setmetatable(M, {__call = function(_, ...) return M.Threads(...) end,
   __index = function(_, key)
      if not later[key] then return nil end
      require "tlua.torch7.thread_queue"
      return rawget(M, key)
   end})
