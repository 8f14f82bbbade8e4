-- init.lua - torch.save and torch.load. Files are safetensors: weights as they are, and nested
-- tables of tensors and plain data (checkpoints) with their structure in the file's metadata.
-- Loading runs no code, and a file that is damaged is refused with its name.

local torch = require "tlua"
local args = require "tlua.args"
local safetensors = require "tlua.io.safetensors"
local tree = require "tlua.io.tree"

local M = {}

local take_save = args.signature "save(object: any, path: string, metadata: table?)"
local take_load = args.signature "load(path: string, device: string?, metadata: boolean = false)"

-- Lets write(file) make the new content of the file at `path`. Returns what went wrong, in which
-- case the old file is there as it was, and whether to try once more.
local function write_once(path, write)
   local file <close>, message = torch.io.replace(path)
   if not file then return message end
   local failure = write(file)
   if failure then return failure end
   local done, why, again = torch.io.commit(file)
   if not done then return why, again end
end

local function replace_file(path, write)
   local failure, again = write_once(path, write)
   if again then failure = write_once(path, write) end
   return failure
end

local function check_path(name, path)
   if path:find("\0", 1, true) then torch.raise(name .. ": path: a byte 0 is in it") end
   if not io then torch.raise(name .. ": needs Lua's io library, which was not opened") end
end

--- Saves a table of tensors, such as a state dict, or a table of tables, tensors, numbers, strings
--- and booleans, such as a checkpoint. Views are saved by value, on the CPU. `metadata`, a table
--- of strings, is what other programs may read from the file's header.
---@param object any  of these
---@param path string
---@param options? {metadata: table<string, string>}
function M.save(...)
   local a = take_save(...)
   check_path("save", a.path)
   local entries, structure, message = tree.flatten(a.object)
   if not entries then torch.raise(("save: %s: %s"):format(a.path, message)) end
   local metadata = {}
   for key, value in pairs(a.metadata or {}) do
      if type(key) ~= "string" or type(value) ~= "string" then
         torch.raise("save: metadata: expected a table of strings")
      end
      metadata[key] = value
   end
   metadata[tree.key] = structure
   local failure = replace_file(a.path, function(file)
      return safetensors.write(file, entries, metadata)
   end)
   if failure then torch.raise(("save: %s: %s"):format(a.path, failure)) end
end

-- The object in an open file and the file's own metadata, or a message.
local function read(file, device)
   local tensors, metadata = safetensors.read(file)
   if not tensors then return metadata end
   if device then
      for name, tensor in pairs(tensors) do tensors[name] = tensor:to(device) end
   end
   local structure = metadata[tree.key]
   if not structure then return tensors, metadata end
   metadata[tree.key] = nil
   local object, why = tree.rebuild(structure, tensors)
   if why then return why end
   return object, metadata
end

--- Loads what save has written. Any other safetensors file gives a table from names to tensors.
--- `device` is where the tensors go, the CPU by default; with `metadata = true` the file's own
--- metadata are a second result.
---@param path string
---@param options? {device: string, metadata: boolean}
---@return any object
---@return table<string, string>? metadata
function M.load(...)
   local a = take_load(...)
   check_path("load", a.path)
   local file <close>, message = io.open(a.path, "rb")
   if not file then torch.raise("load: " .. message) end
   local ok, object, metadata = pcall(read, file, a.device)
   if not ok then -- such as a lack of memory: it is not said yet which file is meant
      local why = tostring(object):gsub("^[^\n]-:%d+: ", "")
      torch.raise(("load: %s: %s"):format(a.path, why))
   end
   if not metadata then torch.raise(("load: %s: %s"):format(a.path, object)) end
   if a.metadata then return object, metadata end
   return object
end

return M
