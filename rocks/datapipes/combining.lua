-- combining.lua - the pipes Concater, Multiplexer and Zipper, which combine several pipes into one.

local torch = require "tlua"
local class = require "tlua.class"
local rows = require "tlua.datapipes.rows"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"

local M = {}

-- Initializes a pipe that reads from the pipes given as the constructor's arguments.
local function initialize(self, ...)
   if select("#", ...) == 0 then
      torch.raise(torch.type(self) .. ": expected at least one pipe, got none")
   end
   self.datapipes = {...}
   for i = 1, select("#", ...) do
      rows.check_stream(torch.type(self), ("pipe %d"):format(i), (select(i, ...)))
   end
end

local function begin(self)
   local iterators = {}
   for i, pipe in ipairs(self.datapipes) do iterators[i] = pipe:iter() end
   return iterators
end

local function shortest(self)
   local least = math.maxinteger
   for _, pipe in ipairs(self.datapipes) do least = math.min(least, rows.length(pipe)) end
   return least
end

--- Iterates over all items of the first pipe, then over those of the second pipe, and so on.
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {1}:concat(P.IterableWrapper {2})
---     for x in pipe:iter() do print(x) end
---     --> 1
---     --> 2
---@class data.datapipes.iter.Concater: data.IterDataPipe
---@overload fun(...: data.IterDataPipe): data.datapipes.iter.Concater
M.Concater = class.class("data.datapipes.iter.Concater", IterDataPipe)

M.Concater.__init = initialize

function M.Concater:iter()
   local k, next_item = 0, nil
   local find
   local function pass(first, ...)
      if first ~= nil then return first, ... end
      next_item = nil
      return find()
   end
   function find()
      if not next_item then
         k = k + 1
         if not self.datapipes[k] then return nil end
         next_item = self.datapipes[k]:iter()
      end
      return pass(next_item())
   end
   return find
end

function M.Concater:__len()
   local total = 0
   for _, pipe in ipairs(self.datapipes) do total = total + rows.length(pipe) end
   return total
end

--- Takes one item from each pipe in turn, until one of the pipes ends.
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {1, 2}:mux(P.IterableWrapper {3, 4})
---     for x in pipe:iter() do print(x) end
---     --> 1
---     --> 3
---     --> 2
---     --> 4
---@class data.datapipes.iter.Multiplexer: data.IterDataPipe
---@overload fun(...: data.IterDataPipe): data.datapipes.iter.Multiplexer
M.Multiplexer = class.class("data.datapipes.iter.Multiplexer", IterDataPipe)

M.Multiplexer.__init = initialize

-- Returns a list with one item from each pipe. Returns nil as soon as one pipe has ended.
local function round_of(iterators, keep)
   local round = {}
   for i, next_item in ipairs(iterators) do
      round[i] = keep(next_item())
      if round[i] == nil then return nil end
   end
   return round
end

function M.Multiplexer:iter()
   local iterators = begin(self)
   local round, at = {}, 0
   return function()
      at = at + 1
      if at > #round then
         round, at = round_of(iterators, rows.hold), 1
         if not round then return nil end
      end
      return rows.release(round[at])
   end
end

function M.Multiplexer:__len() return shortest(self) * #self.datapipes end

--- Combines one item of each pipe into an item of several values, until one of the pipes ends. An
--- item that already has several values is first packed by table.pack.
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {1, 2}:zip(P.IterableWrapper {"a", "b"})
---     for x, y in pipe:iter() do print(x, y) end
---     --> 1	a
---     --> 2	b
---@class data.datapipes.iter.Zipper: data.IterDataPipe
---@overload fun(...: data.IterDataPipe): data.datapipes.iter.Zipper
M.Zipper = class.class("data.datapipes.iter.Zipper", IterDataPipe)

M.Zipper.__init = initialize

function M.Zipper:iter()
   local iterators = begin(self)
   return function()
      local round = round_of(iterators, rows.pack)
      if not round then return nil end
      return table.unpack(round, 1, #iterators)
   end
end

function M.Zipper:__len() return shortest(self) end

return M
