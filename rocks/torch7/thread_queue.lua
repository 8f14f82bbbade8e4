-- thread_queue.lua - threads.serialize, which converts values and functions to bytes, and
-- threads.queue, a queue of jobs that all threads may use. Each thread has its own Lua interpreter,
-- and interpreters share no Lua values. So a queue consists of a lock, a file with two counts, and
-- a file for each job.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local classes = require "tlua.torch7.classes"
local types = require "tlua.torch7.types"
local values = require "tlua.torch7.thread_values"
local threads = require "tlua.torch7.threads"
local read_file = require "tlua.utils.read_file"

local M = {serialize = {}}

local pause = tlua.distributed._sleep

local function check(condition, format, ...)
   if not condition then tlua.raise(format:format(...)) end
end

-- Bytes -------------------------------------------------------------------------------------------

--- Serializes a value, including functions with their upvalues, to a CharStorage.
---@param value any
---@return table storage
function M.serialize.save(value)
   return torch.CharStorage():string(torch.serialize(values.pack(false, value)))
end

--- Returns the value that `save` has stored. Functions in it are code, so a program should load
--- only what it has saved itself.
---@param storage table
---@return any
function M.serialize.load(storage)
   check(types.is_storage(storage), "threads.serialize.load: expected a CharStorage, got %s",
      classes.type(storage))
   return (values.unpack(torch.deserialize(storage:string())))
end

-- Queue -------------------------------------------------------------------------------------------

local Queue = classes.class("threads.Queue", nil, threads)
M.Queue = Queue

local function write(path, text)
   local file, problem = io.open(path, "wb")
   check(file, "threads.Queue: %s", tostring(problem))
   file:write(text)
   file:close()
end

--- Creates a queue for at most n jobs, which may be sent to threads. With `id`, opens the existing
--- queue that has this id.
function Queue:__init(n, id)
   check(id ~= nil or math.tointeger(n) and n >= 1,
      "threads.Queue: N: expected a count of jobs, got %s", tostring(n))
   self.mutex = threads.Mutex(id)
   self.path = self.mutex.path .. ".queue"
   if id == nil then
      self.N = math.tointeger(n)
      write(self.path, ("%d 0 0"):format(self.N))
   end
end

function Queue:id() return self.mutex:id() end

-- Calls step(first, last, most) while the lock is held. The jobs in the queue have the numbers
-- first + 1 to last. If step returns nil, the call is repeated later; otherwise the results of step
-- are the new counts.
local function change(self, step)
   local wait = 1e-5
   while true do
      self.mutex:lock()
      local text = read_file(self.path)
      if not text then
         self.mutex:unlock()
         tlua.raise "threads.Queue: the queue was freed"
      end
      local most, first, last = text:match "(%d+) (%d+) (%d+)"
      most = math.tointeger(tonumber(most))
      local good, begin, ending = pcall(step, math.tointeger(tonumber(first)),
         math.tointeger(tonumber(last)), most)
      if good and begin then write(self.path, ("%d %d %d"):format(most, begin, ending)) end
      self.mutex:unlock()
      if not good then error(begin, 0) end
      if begin then return end
      pause(wait)
      wait = math.min(2 * wait, 0.002)
   end
end

--- Adds a job: a thread will call the function with the other arguments. Waits while the queue is
--- full.
function Queue:addjob(callback, ...)
   check(type(callback) == "function",
      "threads.Queue:addjob: callback: expected a function, got %s", type(callback))
   local text = torch.serialize(values.pack(false, callback, ...))
   change(self, function(first, last, most)
      if last - first >= most then return nil end
      write(self.path .. last + 1, text)
      return first, last + 1
   end)
end

--- Takes the oldest job, calls it and returns its results. Waits while the queue is empty.
---@return any ...
function Queue:dojob()
   local text
   change(self, function(first, last)
      if first == last then return nil end
      text = read_file(self.path .. first + 1)
      os.remove(self.path .. first + 1)
      return first + 1, last
   end)
   local list = table.pack(values.unpack(torch.deserialize(text)))
   return list[1](table.unpack(list, 2, list.n))
end

--- Removes the queue and the jobs that are left in it.
function Queue:free()
   local first, last = (read_file(self.path) or ""):match "%d+ (%d+) (%d+)"
   for i = (tonumber(first) or 0) + 1, tonumber(last) or 0 do
      os.remove(self.path .. math.tointeger(i))
   end
   os.remove(self.path)
   self.mutex:free()
end

threads.queue, threads.serialize = Queue, M.serialize

return M
