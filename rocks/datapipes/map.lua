-- map.lua - torch.data.datapipes.map: the classes of map-style pipes, whose items have positions
-- from 1.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local copy = require "tlua.datapipes.copy"
local items = require "tlua.data.items"
local rows = require "tlua.datapipes.rows"
local DataChunk = require "tlua.datapipes.DataChunk"
local MapDataPipe = require "tlua.datapipes.MapDataPipe"
local RandomPipe = require "tlua.datapipes.RandomPipe"

local M = {}

local function check_source(who, what, source)
   local is_object = type(source) == "table" and getmetatable(source)
   if not (is_object and items.is_dataset(source)) then
      args.refuse(who, what, "a dataset with positions", source)
   end
end

local function check_position(self, i)
   if math.type(i) ~= "integer" or i < 1 or i > #self then
      args.refuse(torch.type(self), "i", ("a position from 1 to %d"):format(#self), i)
   end
end

-- SequenceWrapper ---------------------------------------------------------------------------------

local wrapper_signature = args.signature [[data.datapipes.map.SequenceWrapper(sequence: any,
   deepcopy: boolean = true)]]

---@class data.datapipes.map.SequenceWrapper: data.MapDataPipe
---@overload fun(sequence: any, deepcopy?: boolean): data.datapipes.map.SequenceWrapper
M.SequenceWrapper = class.class("data.datapipes.map.SequenceWrapper", MapDataPipe)

local SequenceWrapper <const> = M.SequenceWrapper
SequenceWrapper.leaves = {sequence = true}

--- Wraps a list, the rows of a tensor, a dataset, or a table whose items are found by keys.
---
---     local pipe = torch.data.datapipes.map.SequenceWrapper {"a", "b"}
---     print(#pipe, pipe:get(2))
---     --> 2	b
---@param sequence any
---@param deepcopy? boolean  whether to copy the sequence and its contents first; true by default
function SequenceWrapper:__init(...)
   local a = wrapper_signature(...)
   local plain = type(a.sequence) == "table" and not getmetatable(a.sequence)
   if not plain and not items.is_dataset(a.sequence) then
      args.refuse("data.datapipes.map.SequenceWrapper", "sequence",
         "a table, a tensor or a dataset", a.sequence)
   end
   if plain then
      rows.check_list("data.datapipes.map.SequenceWrapper", "sequence", a.sequence, "a value")
   end
   self.sequence = a.deepcopy and copy.deep(a.sequence) or a.sequence
   if plain and not items.is_dataset(a.sequence) then
      self.count = 0
      for _ in pairs(a.sequence) do self.count = self.count + 1 end
   end
end

function SequenceWrapper:__len() return self.count or #self.sequence end

function SequenceWrapper:get(i)
   if not self.count then
      check_position(self, i)
      local sequence = self.sequence
      if torch.is_tensor(sequence) or not getmetatable(sequence) then return sequence[i] end
      return sequence:get(i)
   end
   if self.sequence[i] == nil then
      args.refuse("data.datapipes.map.SequenceWrapper", "i", "a key of the table", i)
   end
   return self.sequence[i]
end

-- Mapper ------------------------------------------------------------------------------------------

local mapper_signature = args.signature "data.datapipes.map.Mapper(datapipe: any, fn: callable?)"

--- Calls `fn` for each item, and returns its results (one value or several) as the new item.
--- Without fn, the items are returned unchanged.
---
---     local P = torch.data.datapipes.map
---     local pipe = P.SequenceWrapper {1, 2, 3}
---     print(P.Mapper(pipe, function(x) return 10 * x end):get(2))
---     --> 20
---@class data.datapipes.map.Mapper: data.MapDataPipe
---@overload fun(datapipe, fn?: function): data.datapipes.map.Mapper
M.Mapper = class.class("data.datapipes.map.Mapper", MapDataPipe)

function M.Mapper:__init(...)
   local a = mapper_signature(...)
   check_source("data.datapipes.map.Mapper", "datapipe", a.datapipe)
   self.datapipe, self.fn = a.datapipe, a.fn
end

function M.Mapper:__len() return #self.datapipe end

function M.Mapper:get(i)
   if not self.fn then return self.datapipe:get(i) end
   return self.fn(self.datapipe:get(i))
end

-- Batcher -----------------------------------------------------------------------------------------

local batcher_signature = args.signature [[data.datapipes.map.Batcher(datapipe: any,
   batch_size: integer, drop_last: boolean = false, wrapper_class: callable?)]]

--- Groups the items into lists of `batch_size` items. The last list may be shorter; with
--- `drop_last`, a shorter list is omitted.
---
---     local P = torch.data.datapipes.map
---     local batches = P.Batcher(P.SequenceWrapper {1, 2, 3}, 2)
---     print(#batches, #batches:get(1), #batches:get(2))
---     --> 2	2	1
---@class data.datapipes.map.Batcher: data.MapDataPipe
---@overload fun(datapipe, batch_size: integer, ...): data.datapipes.map.Batcher
M.Batcher = class.class("data.datapipes.map.Batcher", MapDataPipe)

function M.Batcher:__init(...)
   local a = batcher_signature(...)
   check_source("data.datapipes.map.Batcher", "datapipe", a.datapipe)
   if a.batch_size < 1 then
      args.refuse("data.datapipes.map.Batcher", "batch_size", "an integer of at least 1",
         a.batch_size)
   end
   self.datapipe, self.batch_size, self.drop_last = a.datapipe, a.batch_size, a.drop_last
   self.wrapper_class = a.wrapper_class or DataChunk
end

function M.Batcher:__len()
   if self.drop_last then return #self.datapipe // self.batch_size end
   return -(-#self.datapipe // self.batch_size)
end

function M.Batcher:get(i)
   check_position(self, i)
   local batch, size = {}, self.batch_size
   for k = (i - 1) * size + 1, math.min(i * size, #self.datapipe) do
      batch[#batch + 1] = rows.pack(self.datapipe:get(k))
   end
   return self.wrapper_class(batch)
end

-- Concater, Zipper --------------------------------------------------------------------------------

local function initialize(self, ...)
   if select("#", ...) == 0 then
      torch.raise(torch.type(self) .. ": expected at least one pipe, got none")
   end
   for i = 1, select("#", ...) do
      check_source(torch.type(self), ("pipe %d"):format(i), (select(i, ...)))
   end
   self.datapipes = {...}
end

--- Concatenates pipes: the items of each pipe follow those of the previous pipe.
---
---     local P = torch.data.datapipes.map
---     local pipe = P.Concater(P.SequenceWrapper {1, 2}, P.SequenceWrapper {3})
---     print(#pipe, pipe:get(3))
---     --> 3	3
---@class data.datapipes.map.Concater: data.MapDataPipe
---@overload fun(...: data.MapDataPipe): data.datapipes.map.Concater
M.Concater = class.class("data.datapipes.map.Concater", MapDataPipe)

M.Concater.__init = initialize

function M.Concater:__len()
   local total = 0
   for _, pipe in ipairs(self.datapipes) do total = total + #pipe end
   return total
end

function M.Concater:get(i)
   check_position(self, i)
   local before = 0
   for _, pipe in ipairs(self.datapipes) do
      if i - before <= #pipe then return pipe:get(i - before) end
      before = before + #pipe
   end
end

--- Combines the items that several pipes have at the same position into an item of several values.
--- The length is that of the shortest pipe.
---
---     local P = torch.data.datapipes.map
---     local numbers = P.SequenceWrapper {1, 2}
---     print(P.Zipper(numbers, P.SequenceWrapper {"a", "b"}):get(2))
---     --> 2	b
---@class data.datapipes.map.Zipper: data.MapDataPipe
---@overload fun(...: data.MapDataPipe): data.datapipes.map.Zipper
M.Zipper = class.class("data.datapipes.map.Zipper", MapDataPipe)

M.Zipper.__init = initialize

function M.Zipper:__len()
   local least = math.maxinteger
   for _, pipe in ipairs(self.datapipes) do least = math.min(least, #pipe) end
   return least
end

function M.Zipper:get(i)
   check_position(self, i)
   local values = {}
   for k, pipe in ipairs(self.datapipes) do values[k] = rows.pack(pipe:get(i)) end
   return table.unpack(values, 1, #self.datapipes)
end

-- Shuffler ----------------------------------------------------------------------------------------

local shuffler_signature = args.signature [[data.datapipes.map.Shuffler(datapipe: any,
   indices: table?)]]

--- Returns the items in random order, as an IterDataPipe.
---
---     local P = torch.data.datapipes.map
---     local sum = 0
---     for x in P.Shuffler(P.SequenceWrapper {1, 2, 3}):iter() do sum = sum + x end
---     print(sum)
---     --> 6
---@class data.datapipes.map.Shuffler: data.datapipes.RandomPipe
---@overload fun(datapipe, options?: {indices?: any[]}): data.datapipes.map.Shuffler
M.Shuffler = class.class("data.datapipes.map.Shuffler", RandomPipe)

local Shuffler <const> = M.Shuffler
Shuffler.leaves = {indices = true}

--- Creates the pipe. `indices` lists the positions or keys that are used. By default, all positions
--- are used.
function Shuffler:__init(...)
   local a = shuffler_signature(...)
   check_source("data.datapipes.map.Shuffler", "datapipe", a.datapipe)
   if a.indices then
      rows.check_list("data.datapipes.map.Shuffler", "indices", a.indices, "a position or a key")
   end
   self.datapipe, self.indices = a.datapipe, a.indices or {}
   if a.indices then return end
   for i = 1, #a.datapipe do self.indices[i] = i end
end

function Shuffler:__len() return #self.indices end

function Shuffler:iter()
   local order, at = table.move(self.indices, 1, #self.indices, 1, {}), 0
   local draw = self.enabled and self:draw()
   return function()
      at = at + 1
      if at > #order then return nil end
      if draw then
         local other = at - 1 + draw(#order - at + 1)
         order[at], order[other] = order[other], order[at]
      end
      return rows.given(self, "get", self.datapipe:get(order[at]))
   end
end

return M
