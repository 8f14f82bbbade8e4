-- graph_settings.lua - applies settings to a pipe and to all pipes that it reads from: sharding,
-- shuffling and seeds. DataLoader uses these functions.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"
local MapDataPipe = require "tlua.datapipes.MapDataPipe"

local M = {}

local function is_pipe(value)
   return class.isinstance(value, IterDataPipe) or class.isinstance(value, MapDataPipe)
end

-- Returns whether key a comes before key b. Numbers come before strings, and both are in ascending
-- order. So all processes visit pipes in the same order.
local function before(a, b)
   if type(a) == type(b) then return a < b end
   return type(a) == "number"
end

-- Appends the pipes in the fields of a table to `found`. Plain tables in the fields are searched
-- too, except in fields that `leaves` names.
local function collect(holder, leaves, found, seen)
   seen[holder] = true
   local keys = {}
   for key in next, holder do
      if type(key) == "number" or type(key) == "string" then keys[#keys + 1] = key end
   end
   table.sort(keys, before)
   for _, key in ipairs(keys) do
      local value = rawget(holder, key)
      if is_pipe(value) then
         found[#found + 1] = value
      elseif type(value) == "table" and not getmetatable(value) and not seen[value]
         and not (leaves and leaves[key]) then
         collect(value, nil, found, seen)
      end
   end
end

-- Returns the pipes that a pipe reads from. These are the pipes in its fields. Fields that its
-- class declares as data, in its field `leaves`, are not searched.
local function sources(pipe)
   local found = {}
   collect(pipe, pipe.leaves, found, {})
   return found
end

local function check_pipe(who, datapipe)
   if not is_pipe(datapipe) then
      args.refuse("data.graph_settings." .. who, "datapipe", "a pipe", datapipe)
   end
end

--- Returns a pipe and all pipes that it reads from, directly or indirectly. Each pipe occurs once,
--- and the given pipe comes first.
---@param datapipe data.IterDataPipe|data.MapDataPipe
---@return table[]
function M.get_all_graph_pipes(datapipe)
   check_pipe("get_all_graph_pipes", datapipe)
   local list, seen = {}, {}
   local function visit(pipe)
      if seen[pipe] then return end
      seen[pipe] = true
      list[#list + 1] = pipe
      for _, source in ipairs(sources(pipe)) do visit(source) end
   end
   visit(datapipe)
   return list
end

--- Assigns a shard to each sharding_filter of a pipe. Two filters in sequence raise an error.
---@param datapipe data.IterDataPipe
---@param num_of_instances integer
---@param instance_id integer  from 0
---@param sharding_group? integer  a level of datapipes.iter.SHARDING_PRIORITIES
---@return data.IterDataPipe datapipe
function M.apply_sharding(datapipe, num_of_instances, instance_id, sharding_group)
   check_pipe("apply_sharding", datapipe)
   -- `alone` has the pipes that were reached without passing a filter, and `behind` has the pipes
   -- that were reached through a filter. A pipe may be in both sets.
   local alone, behind = {}, {}
   local function visit(pipe, applied)
      local visited = applied and behind or alone
      if visited[pipe] then return end
      visited[pipe] = true
      if pipe.apply_sharding then
         if applied then
            torch.raise(("data.graph_settings.apply_sharding: expected one sharding filter, got %s "
               .. "behind %s, and items would be lost"):format(torch.type(applied),
               torch.type(pipe)))
         end
         pipe:apply_sharding(num_of_instances, instance_id, sharding_group)
         applied = pipe
      end
      for _, source in ipairs(sources(pipe)) do visit(source, applied) end
   end
   visit(datapipe, nil)
   return datapipe
end

--- Turns shuffling on or off in a pipe and in all pipes that it reads from. If shuffling is turned
--- on and none of these pipes shuffles, a shuffle with the default buffer size is added after the
--- pipe.
---@param datapipe data.IterDataPipe
---@param shuffle? boolean  nil leaves the settings unchanged
---@return data.IterDataPipe
function M.apply_shuffle_settings(datapipe, shuffle)
   check_pipe("apply_shuffle_settings", datapipe)
   if shuffle == nil then return datapipe end
   if type(shuffle) ~= "boolean" then
      args.refuse("data.graph_settings.apply_shuffle_settings", "shuffle", "a boolean", shuffle)
   end
   local count = 0
   for _, pipe in ipairs(M.get_all_graph_pipes(datapipe)) do
      if pipe.set_shuffle and pipe.set_seed then
         pipe:set_shuffle(shuffle)
         count = count + 1
      end
   end
   if count == 0 and shuffle then return datapipe:shuffle() end
   return datapipe
end

--- Seeds all pipes that have a method `set_seed`. The seeds are drawn from a generator.
---@param datapipe data.IterDataPipe
---@param rng Generator
---@return data.IterDataPipe datapipe
function M.apply_random_seed(datapipe, rng)
   check_pipe("apply_random_seed", datapipe)
   for _, pipe in ipairs(M.get_all_graph_pipes(datapipe)) do
      if pipe.set_seed then
         pipe:set_seed(torch.randint(0, math.maxinteger, {1},
            {generator = rng, dtype = "int64", device = "cpu"}):item())
      end
   end
   return datapipe
end

return M
