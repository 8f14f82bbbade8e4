-- files.lua - the folder of a checkpoint, and the exchange of messages about its contents between
-- ranks.
--
-- While a save runs, its first rank keeps the file of the new index open in the folder, under the
-- temporary name .tlua-PROCESS-COUNT-TIME.tmp. At its end, a save removes the temporary files of
-- dead processes (core/platform/scratch.h). A temporary file that is still there then belongs to
-- another running save. If there is none, the save also removes the parts that killed saves left.

local torch = require "tlua"
local boxes = require "tlua.distributed.checkpoint.boxes"
local folder_of = require "tlua.io.folder"
local json = require "tlua.utils.json"
local tree = require "tlua.io.tree"

local M = {}

function M.path(folder, name) return folder .. "/" .. name end

--- Returns the name of a rank's file.
function M.name(token, rank) return ("%s-%d.safetensors"):format(token, rank) end

--- Makes a folder unless it exists. Returns nil, or an error message.
function M.make_folder(folder)
   local made, message = torch.io.make_folder(folder)
   if not made then return ("%s: %s"):format(folder, message) end
   local probe = M.path(folder, "probe")
   local file, why = io.open(probe, "w")
   if not file then return why end
   file:close()
   os.remove(probe)
end

-- Returns whether a value is a list of n integers. Integer d must be from 0 to limits[d], or at
-- least 0 if no limits are given.
local function is_list(value, n, limits)
   if type(value) ~= "table" or #value ~= n then return false end
   for d = 1, n do
      local size = value[d]
      local limit = limits and limits[d] or math.maxinteger
      if math.type(size) ~= "integer" or size < 0 or size > limit then return false end
   end
   return true
end

-- Returns whether a part lies within a tensor of the given shape, and whether its file lies
-- directly in the folder.
local function is_chunk(chunk, shape)
   if type(chunk) ~= "table" or type(chunk.name) ~= "string" or type(chunk.file) ~= "string"
      or chunk.file:find "[/\\]" or not is_list(chunk.offset, #shape, shape)
      or not is_list(chunk.size, #shape, shape) then
      return false
   end
   for d = 1, #shape do
      if chunk.offset[d] + chunk.size[d] > shape[d] then return false end
   end
   return true
end

-- Returns whether an index's entry describes a tensor whose parts contain all of its elements.
local function is_entry(entry)
   if type(entry) ~= "table" or type(entry.shape) ~= "table" or type(entry.chunks) ~= "table"
      or not is_list(entry.shape, #entry.shape) or type(entry.dtype) ~= "string"
      or not pcall(torch.empty, 0, {dtype = entry.dtype}) then
      return false
   end
   local missing = boxes.product(entry.shape)
   for _, chunk in ipairs(entry.chunks) do
      if not is_chunk(chunk, entry.shape) then return false end
      missing = missing - boxes.product(chunk.size)
   end
   return missing == 0
end

--- Reads the index of a folder. Returns {token, ranks, tensors, values}, or nil and an error
--- message.
function M.read_index(folder)
   local path = M.path(folder, "index.json")
   local file, why = io.open(path, "rb")
   if not file then return nil, why end
   local text = file:read "a"
   file:close()
   local index, message = json.decode(text)
   if type(index) ~= "table" or type(index.tensors) ~= "table" or type(index.values) ~= "string"
      or type(index.token) ~= "string" or math.type(index.ranks) ~= "integer" then
      return nil, ("%s: not the index of a checkpoint%s"):format(path,
         index == nil and ": " .. tostring(message) or "")
   end
   for name, entry in pairs(index.tensors) do
      if not is_entry(entry) then
         return nil, ("%s: its entry %s describes no tensor and its parts"):format(path, name)
      end
   end
   local values, bad = tree.rebuild(index.values, {})
   if bad then return nil, path .. ": " .. bad end
   index.values = type(values) == "table" and values[1] or {}
   return index
end

local part <const> = "^part(%d+)%-%d+%.safetensors$"
local writer <const> = "^%.tlua%-%d+%-%d+%-%x+%.tmp$"

--- Returns a prefix for the file names of a new checkpoint that no existing file in the folder has.
function M.new_token(folder)
   local index = M.read_index(folder)
   local number = index and math.tointeger(tonumber(index.token:match "%d+$")) or 0
   local _, names = folder_of.list(folder)
   for _, name in ipairs(type(names) == "table" and names or {}) do
      number = math.max(number, math.tointeger(tonumber(name:match(part))) or 0)
   end
   return ("part%d"):format(number + 1)
end

--- Begins a save: creates, under a temporary name, the file that will become the index. The
--- temporary file shows other processes that a save is running. Returns the file, or nil and a
--- message if it cannot be created.
function M.begin(folder)
   return torch.io.replace(M.path(folder, "index.json"), true)
end

-- Removes the files that the index does not name, unless another save is running.
local function sweep(folder, token)
   local _, names = folder_of.list(folder)
   if type(names) ~= "table" then return end
   for _, name in ipairs(names) do
      if name:find(writer) then return end
   end
   for _, name in ipairs(names) do
      if name:find(part) and name:match "^part%d+" ~= token then os.remove(M.path(folder, name)) end
   end
end

--- Moves the index that `begin` has opened into place, and removes the files of the previous
--- checkpoint and of killed saves. Returns an error message or nil.
function M.commit(file, folder, token, tensors, values, ranks)
   local entries, structure, why = tree.flatten({values})
   if not entries then return why end
   structure = structure or "[]"
   for _, entry in pairs(tensors) do
      entry.shape = json.as_array(entry.shape)
      for _, chunk in ipairs(entry.chunks) do
         chunk.offset, chunk.size = json.as_array(chunk.offset), json.as_array(chunk.size)
      end
      entry.chunks = json.as_array(entry.chunks)
   end
   local ok, failure = file:write(json.encode {
      token = token, ranks = ranks, tensors = tensors, values = structure,
   })
   if not ok then return failure end
   local done, reason = torch.io.commit(file)
   if not done then return reason end
   sweep(folder, token)
end

--- Returns two functions with which the ranks exchange objects; without a group the functions serve
--- this process alone. gather(object) returns the list of all ranks' objects, and share(object) the
--- first rank's object, both on every rank.
---@return {rank: integer, first: boolean, gather: function, share: function}
function M.talk(group)
   if not group then
      return {
         rank = 0, first = true, gather = function(object) return {object} end,
         share = function(object) return object end,
      }
   end
   local dist = torch.distributed
   local first = group.ranks[1]
   return {
      rank = group.group_rank, first = group.group_rank == 0,
      gather = function(object)
         local list = {}
         dist.all_gather_object(list, object, group)
         return list
      end,
      share = function(object)
         local list = {object}
         dist.broadcast_object_list(list, first, group)
         return list[1]
      end,
   }
end

return M
