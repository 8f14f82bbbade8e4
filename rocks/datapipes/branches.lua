-- branches.lua - splits a pipe into several pipes, the branches. fork gives every item to each
-- branch; demux gives each item to one branch.
--
-- The branches read the same source through a shared buffer, so their iterations belong to common
-- rounds. The first iterations of all branches form the first round. When a branch of the current
-- round begins another iteration, a new round begins, and the iterations of the old round end.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local copy = require "tlua.datapipes.copy"
local guard = require "tlua.datapipes.guard"
local rows = require "tlua.datapipes.rows"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"

local M = {}

-- Maps the shared pipe to the state of its current round: the buffered items, and the position of
-- each branch.
local rounds = setmetatable({}, {__mode = "k"})

-- The pipe from which all branches of one source read. Programs must not read it directly.
local Container = class.class("data.datapipes.Container", IterDataPipe)

-- A branch: a pipe that returns the items which belong to it.
local Branch = class.class("data.datapipes.Branch", IterDataPipe)

M.Container, M.Branch = Container, Branch

function Branch:__init(main, instance_id)
   self.main_datapipe, self.instance_id = main, instance_id
end

function Branch:__len() return self.main_datapipe:length() end

function Branch:__tostring()
   return ("%s of %s"):format(torch.type(self), torch.type(self.main_datapipe))
end

local function begin(main)
   local round = {taken = {}, buffer = {}, first = 1, last = 0, used = 0}
   -- The value false means that the branch has not begun its iteration.
   for i = 1, main.num_instances do round.taken[i] = false end
   rounds[main] = round
   return round
end

-- The base class wraps each `iter` that is assigned. rawset avoids this, because an iteration of a
-- branch can also be ended by another branch, which begins a new round.
rawset(Branch, "iter", function(self)
   local main, id = self.main_datapipe, self.instance_id
   local round = rounds[main]
   if not round or round.taken[id] then round = begin(main) end
   round.taken[id] = 0
   return guard.items(main, function() return main:_take(round, id) end,
      function() return rounds[main] == round end)
end)

-- Returns the next item of the source, packed by rows.hold, or nil at the end.
local function read(main, round)
   if round.ended then return nil end
   round.next_item = round.next_item or main.datapipe:iter()
   local item = rows.hold(round.next_item())
   if item == nil then
      round.ended, round.next_item = true, nil
   end
   return item
end

local function refuse_full(main, what)
   torch.raise(("%s: buffer_size: the buffer of %d items is full, since %s; expected a larger one, "
      .. "or -1 for one without limit"):format(torch.type(main), main.buffer_size, what))
end

-- Creates a class of which a call returns several branches instead of one instance.
local function make_class(name)
   local cls = class.class(name, Container)
   local info = getmetatable(cls)
   local construct <const> = info.__call
   function info.__call(...)
      local main = construct(...)
      if main.num_instances == 1 and main.single then return main.datapipe end
      local branches = {}
      for i = 1, main.num_instances do branches[i] = Branch(main, i) end
      return table.unpack(branches)
   end
   return cls
end

local function check(who, a)
   rows.check_stream(who, "datapipe", a.datapipe)
   if a.num_instances < 1 or a.num_instances > 250 then
      args.refuse(who, "num_instances", "an integer from 1 to 250", a.num_instances)
   end
   if a.buffer_size < -1 then
      args.refuse(who, "buffer_size", "-1 or an integer of at least 0", a.buffer_size)
   end
end

-- Forker ------------------------------------------------------------------------------------------

local forker_signature = args.signature [[data.datapipes.iter.Forker(datapipe: any,
   num_instances: integer, buffer_size: integer = 1000, copy: string?)]]

--- Calling the class returns `num_instances` pipes, each of which returns all items of the given
--- pipe. If `num_instances` is 1, the given pipe itself is returned.
---
--- The pipes may be read one after another or alternately. An item that one pipe has read is
--- buffered for the others. The fastest pipe may be at most `buffer_size` items ahead of the
--- slowest pipe; -1 means no limit. If it is further ahead, reading it raises an error until the
--- slowest pipe has caught up. With `copy`, which is "shallow" or "deep", each pipe gets copies of
--- tables and tensors.
---
---     local P = torch.data.datapipes.iter
---     local a, b = P.IterableWrapper {1, 2}:fork(2)
---     for x in a:iter() do print(x) end
---     for x in b:iter() do print(x) end
---     --> 1
---     --> 2
---     --> 1
---     --> 2
---@class data.datapipes.iter.Forker: data.IterDataPipe
---@overload fun(datapipe, num_instances: integer, buffer_size?, copy?): data.IterDataPipe ...
M.Forker = make_class "data.datapipes.iter.Forker"

local Forker <const> = M.Forker

Forker.single = true

function Forker:__init(...)
   local a = forker_signature(...)
   check("data.datapipes.iter.Forker", a)
   if a.copy and a.copy ~= "shallow" and a.copy ~= "deep" then
      args.refuse("data.datapipes.iter.Forker", "copy", [["shallow", "deep" or nil]], a.copy)
   end
   for name, value in pairs(a) do self[name] = value end
end

--- Returns the number of items of the source, which is also the number of items of each branch.
---@return integer
function Forker:length() return rows.length(self.datapipe) end

-- Returns the number of items that the slowest branch has read.
local function slowest(round)
   local least = math.maxinteger
   for i = 1, #round.taken do
      local taken = round.taken[i] or 0
      if taken < least then least = taken end
   end
   return least
end

-- Returns item number `at`. If it is not in the buffer, it is read from the source and buffered.
-- The buffer begins with the next item of the slowest branch.
local function item_at(self, round, at)
   if at <= round.last then return round.buffer[at] end
   if self.buffer_size >= 0 and at - (round.first - 1) > self.buffer_size then
      refuse_full(self, "a branch has not read the items that wait in it")
   end
   local item = read(self, round)
   if item ~= nil then round.last, round.buffer[at] = at, item end
   return item
end

-- Returns the next item for the branch number `id`, or nil at the end.
function Forker:_take(round, id)
   local at = round.taken[id] + 1
   local item = item_at(self, round, at)
   if item == nil then return nil end
   round.taken[id] = at
   if at == round.first then
      for i = round.first, slowest(round) do
         round.buffer[i] = nil
         round.first = i + 1
      end
   end
   if self.copy then item = copy[self.copy](item) end
   return rows.release(item)
end

-- Demultiplexer -----------------------------------------------------------------------------------

local demux_signature = args.signature [[data.datapipes.iter.Demultiplexer(datapipe: any,
   num_instances: integer, classifier_fn: callable, drop_none: boolean = false,
   buffer_size: integer = 1000)]]

--- Calling the class returns `num_instances` pipes, among which the given pipe's items are divided.
--- `classifier_fn` is called with an item and returns the number, from 1, of the pipe that gets the
--- item. With `drop_none` it may return nil; then no pipe gets the item.
---
--- An item that belongs to another pipe than the one being read is buffered. At most `buffer_size`
--- items are buffered; -1 means no limit. When the buffer is full, reading on raises an error until
--- a buffered item is taken.
---
---     local P = torch.data.datapipes.iter
---     local odd, even = P.IterableWrapper {1, 2, 3}:demux(2, function(x)
---        return x % 2 == 1 and 1 or 2
---     end)
---     for x in odd:iter() do print(x) end
---     for x in even:iter() do print("even", x) end
---     --> 1
---     --> 3
---     --> even	2
---@class data.datapipes.iter.Demultiplexer: data.IterDataPipe
---@overload fun(datapipe, num_instances, classifier_fn, ...): data.IterDataPipe ...
M.Demultiplexer = make_class "data.datapipes.iter.Demultiplexer"

local Demultiplexer <const> = M.Demultiplexer
local demux <const> = "data.datapipes.iter.Demultiplexer"

function Demultiplexer:__init(...)
   local a = demux_signature(...)
   check(demux, a)
   for name, value in pairs(a) do self[name] = value end
end

--- Raises an error, because the number of items of each pipe is not known before they are read.
function Demultiplexer:length() torch.raise(demux .. " has no length") end

-- Returns the number of the pipe that gets an item, or nil if no pipe gets it.
local function classify(self, item)
   local number = self.classifier_fn(rows.release(item))
   if number == nil and self.drop_none then return nil end
   local whole = math.type(number) and math.tointeger(number)
   if not whole or whole < 1 or whole > self.num_instances then
      args.refuse(demux, "classifier_fn", ("an integer from 1 to %d%s as its result"):format(
         self.num_instances, self.drop_none and " or nil" or ""), number)
   end
   return whole
end

local function push(buffer, number, item)
   local queue = buffer[number] or {first = 1, last = 0}
   buffer[number] = queue
   queue.last = queue.last + 1
   queue[queue.last] = item
end

local function pop(queue)
   local item = queue[queue.first]
   queue[queue.first] = nil
   queue.first = queue.first + 1
   return item
end

-- Returns the next item for the branch number `id`, or nil at the end.
function Demultiplexer:_take(round, id)
   local queue = round.buffer[id]
   if queue and queue.first <= queue.last then
      round.used = round.used - 1
      return rows.release(pop(queue))
   end
   while true do
      if self.buffer_size >= 0 and round.used > self.buffer_size then
         refuse_full(self, "the items that wait in it have not been read")
      end
      local item = read(self, round)
      if item == nil then return nil end
      local number = classify(self, item)
      if number == id then return rows.release(item) end
      if number then
         push(round.buffer, number, item)
         round.used = round.used + 1
      end
   end
end

return M
