-- grouping.lua - the pipes Batcher, UnBatcher and Grouper, which group items into lists and unpack
-- lists.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local rows = require "tlua.datapipes.rows"
local DataChunk = require "tlua.datapipes.DataChunk"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"

local M = {}

-- Batcher -----------------------------------------------------------------------------------------

local batcher_signature = args.signature [[data.datapipes.iter.Batcher(datapipe: any,
   batch_size: integer, drop_last: boolean = false, wrapper_class: callable?)]]

--- Groups successive items into lists of batch_size items.
---
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {1, 2, 3, 4}:batch(2)
---     for x in pipe:iter() do print(x) end
---     --> [1, 2]
---     --> [3, 4]
---@class data.datapipes.iter.Batcher: data.IterDataPipe
---@overload fun(datapipe, batch_size: integer, ...): data.datapipes.iter.Batcher
M.Batcher = class.class("data.datapipes.iter.Batcher", IterDataPipe)

local Batcher <const> = M.Batcher
local batcher <const> = "data.datapipes.iter.Batcher"

--- Creates the pipe. Its items are lists of `batch_size` items. The last list may be shorter.
---@param datapipe data.IterDataPipe
---@param batch_size integer
---@param drop_last? boolean  whether to drop the last batch if it is shorter
---@param wrapper_class? function  converts a list to a batch; DataChunk by default
function Batcher:__init(...)
   local a = batcher_signature(...)
   rows.check_stream(batcher, "datapipe", a.datapipe)
   if a.batch_size < 1 then
      args.refuse(batcher, "batch_size", "an integer of at least 1", a.batch_size)
   end
   self.datapipe, self.batch_size, self.drop_last = a.datapipe, a.batch_size, a.drop_last
   self.wrapper_class = a.wrapper_class or DataChunk
end

function Batcher:iter()
   local next_item = self.datapipe:iter()
   return function()
      local batch = {}
      while #batch < self.batch_size do
         local item = rows.pack(next_item())
         if item == nil then break end
         batch[#batch + 1] = item
      end
      if #batch == 0 or self.drop_last and #batch < self.batch_size then return nil end
      return rows.given(self, "wrapper_class", self.wrapper_class(batch))
   end
end

function Batcher:__len()
   local n = rows.length(self.datapipe)
   if self.drop_last then return n // self.batch_size end
   return -(-n // self.batch_size)
end

-- UnBatcher ---------------------------------------------------------------------------------------

local unbatcher_signature = args.signature [[data.datapipes.iter.UnBatcher(datapipe: any,
   unbatch_level: integer = 1)]]

--- Unpacks batches: returns the items of lists one by one.
---
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {{1, 2}, {3}}:unbatch()
---     for x in pipe:iter() do print(x) end
---     --> 1
---     --> 2
---     --> 3
---@class data.datapipes.iter.UnBatcher: data.IterDataPipe
---@overload fun(datapipe, unbatch_level?: integer): data.datapipes.iter.UnBatcher
M.UnBatcher = class.class("data.datapipes.iter.UnBatcher", IterDataPipe)

local UnBatcher <const> = M.UnBatcher
local unbatcher <const> = "data.datapipes.iter.UnBatcher"

--- Creates the pipe. It unpacks the given number of levels of nested lists, or all levels for -1.
---@param datapipe data.IterDataPipe
---@param unbatch_level? integer  1 by default
function UnBatcher:__init(...)
   local a = unbatcher_signature(...)
   rows.check_stream(unbatcher, "datapipe", a.datapipe)
   if a.unbatch_level < -1 then
      args.refuse(unbatcher, "unbatch_level", "-1 or an integer of at least 0",
         a.unbatch_level)
   end
   self.datapipe, self.unbatch_level = a.datapipe, a.unbatch_level
end

local function is_list(value)
   if type(value) ~= "table" then return false end
   if getmetatable(value) then return class.isinstance(value, DataChunk) end
   return (#value > 0 or next(value) == nil) and not rows.is_packed(value)
end

-- Adds a list to the set of lists that are being unpacked. If the set already has it, the list
-- contains itself, and an error is raised.
local function enter(within, list)
   if within[list] then
      torch.raise(unbatcher .. ": unbatch_level: a list that contains itself has no last level; "
         .. "expected a level of at least 0, got -1")
   end
   within[list] = true
end

function UnBatcher:iter()
   local next_item, depth = self.datapipe:iter(), self.unbatch_level
   local lists, places = {}, {} -- the lists that are being unpacked, the outermost first
   local within = {} -- the same lists as a set; it is used only when all levels are unpacked
   return function()
      while true do
         local level = #lists
         local item
         if level == 0 then
            item = rows.pack(next_item())
            if item == nil then return nil end
         else
            places[level] = places[level] + 1
            item = lists[level][places[level]]
         end
         if item == nil then
            within[lists[level]], lists[level] = nil, nil
         elseif level == depth or depth == -1 and not is_list(item) then
            return rows.unpack(item)
         elseif is_list(item) then
            if depth == -1 then enter(within, item) end
            lists[level + 1], places[level + 1] = item, 0
         else
            torch.raise(("%s: unbatch_level: expected lists %d deep, got %s at depth %d"):format(
               unbatcher, depth, args.describe(item), level))
         end
      end
   end
end

-- Grouper -----------------------------------------------------------------------------------------

local grouper_signature = args.signature [[data.datapipes.iter.Grouper(datapipe: any,
   group_key_fn: callable,
   keep_key: boolean = false, buffer_size: integer = 10000, group_size: integer?,
   guaranteed_group_size: integer?, drop_remaining: boolean = false)]]

--- Groups items with the same key into lists.
---
---
---     local P = torch.data.datapipes.iter
---     local pipe = P.IterableWrapper {1, 3, 2}
---     pipe = pipe:groupby(function(x) return x % 2 end)
---     for x in pipe:iter() do print(x) end
---     --> [1, 3]
---     --> [2]
---@class data.datapipes.iter.Grouper: data.IterDataPipe
---@overload fun(datapipe, group_key_fn: function, options?: table): data.datapipes.iter.Grouper
M.Grouper = class.class("data.datapipes.iter.Grouper", IterDataPipe)

local Grouper <const> = M.Grouper
local grouper <const> = "data.datapipes.iter.Grouper"

--- Groups items with the same key into lists. A group is returned when it has `group_size` items.
--- When the buffer is full, the largest group is removed from it. The group is returned if it has
--- at least `guaranteed_group_size` items (by default `group_size`). Otherwise it is dropped if
--- `drop_remaining` is set, and an error is raised if it is not. At the end, all remaining groups
--- are returned.
---@param datapipe data.IterDataPipe
---@param group_key_fn fun(...): any  returns the key of an item
---@param options? {keep_key?: boolean, buffer_size?: integer, group_size?: integer,
--- guaranteed_group_size?: integer, drop_remaining?: boolean}  keep_key: whether the pipe returns
--- {key, list} for each group, instead of only the list
function Grouper:__init(...)
   local a = grouper_signature(...)
   rows.check_stream(grouper, "datapipe", a.datapipe)
   if a.buffer_size < 1 then
      args.refuse(grouper, "buffer_size", "an integer of at least 1", a.buffer_size)
   end
   if a.group_size and (a.group_size < 1 or a.group_size > a.buffer_size) then
      args.refuse(grouper, "group_size",
         ("an integer from 1 to buffer_size, %d"):format(a.buffer_size), a.group_size)
   end
   local least = a.guaranteed_group_size
   if least and (not a.group_size or least < 1 or least > a.group_size) then
      args.refuse(grouper, "guaranteed_group_size", a.group_size
         and ("an integer from 1 to group_size, %d"):format(a.group_size) or "a group_size with it",
         least)
   end
   for _, field in ipairs {"datapipe", "group_key_fn", "keep_key", "buffer_size", "group_size",
      "drop_remaining"} do
      self[field] = a[field]
   end
   self.guaranteed_group_size = least or a.group_size
end

-- Returns the largest group. Of several groups of that size, the oldest is returned.
local function largest(groups)
   local found
   for _, group in pairs(groups) do
      local more = found and #group.items - #found.items
      if not found or more > 0 or more == 0 and group.since < found.since then found = group end
   end
   return found
end

-- Removes the largest group from a full buffer, and adds the group to `ready` or drops it.
local function make_room(self, groups, ready)
   local group = largest(groups)
   local least = self.guaranteed_group_size
   if not least or #group.items >= least then
      ready[#ready + 1] = group
   elseif not self.drop_remaining then
      torch.raise(("%s: the buffer of %d items is full, and the largest group, of key %s, has %d "
         .. "of at least %d; expected a larger buffer_size or drop_remaining"):format(grouper,
         self.buffer_size, tostring(group.key), #group.items, least))
   end
   groups[group.key] = nil
   return #group.items
end

local function key_of(self, ...)
   local key = self.group_key_fn(...)
   if key == nil or key ~= key then
      args.refuse(grouper, "group_key_fn", "a key as its result", key)
   end
   return key
end

function Grouper:iter()
   local next_item = self.datapipe:iter()
   local groups, serial, buffered = {}, 0, 0
   -- `ready` has the groups that are to be returned, and `given` is the number of groups that have
   -- been returned.
   local ready, given, ended = {}, 0, false

   local function take(...)
      if (...) == nil then
         ended = true
         for _, group in pairs(groups) do ready[#ready + 1] = group end
         table.sort(ready, function(a, b) return a.since < b.since end)
         return
      end
      local key = key_of(self, ...)
      serial = serial + 1
      local group = groups[key] or {key = key, items = {}, since = serial}
      groups[key] = group
      group.items[#group.items + 1] = rows.pack(...)
      buffered = buffered + 1
      if #group.items == self.group_size then
         ready[1] = group
         groups[key] = nil
         buffered = buffered - #group.items
      end
      if buffered == self.buffer_size then buffered = buffered - make_room(self, groups, ready) end
   end

   return function()
      while given == #ready do
         if ended then return nil end
         ready, given = {}, 0
         take(next_item())
      end
      given = given + 1
      local group = ready[given]
      local chunk = DataChunk(group.items)
      if self.keep_key then return group.key, chunk end
      return chunk
   end
end

return M
