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

-- Runs write(file) on a new file beside `path` and renames that when all of it is on the disk: a
-- crash leaves the old file or the new one. Returns what went wrong.
local function replace_file(path, write)
   local temporary = ("%s.%s.tmp"):format(path, tostring({}):match "(%w+)$")
   local file, message = io.open(temporary, "wb")
   if not file then return (message:gsub("^.*: ", "")) end
   local failure = write(file)
   if not failure then
      local ok
      ok, failure = torch.io.sync(file)
      if ok then failure = nil end
   end
   local closed, close_message = file:close()
   if not failure and not closed then failure = close_message end
   if not failure then
      local renamed, rename_message = os.rename(temporary, path)
      if not renamed then failure = rename_message end
   end
   if failure then os.remove(temporary) end
   return failure
end

--- Saves a table of tensors, such as a state dict, or a table of tables, tensors, numbers, strings
--- and booleans, such as a checkpoint. Views are saved by value, on the CPU. `metadata`, a table
--- of strings, is what other programs may read from the file's header.
---@param object any  of these
---@param path string
---@param options? {metadata: table<string, string>}
function M.save(...)
   local a = take_save(...)
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

--- Loads what save has written. Any other safetensors file gives a table from names to tensors.
--- `device` is where the tensors go, the CPU by default; with `metadata = true` the file's own
--- metadata are a second result.
---@param path string
---@param options? {device: string, metadata: boolean}
---@return any object
---@return table<string, string>? metadata
function M.load(...)
   local a = take_load(...)
   local file, message = io.open(a.path, "rb")
   if not file then torch.raise("load: " .. message) end
   local _ <close> = file
   local tensors, metadata = safetensors.read(file)
   if not tensors then torch.raise(("load: %s: %s"):format(a.path, metadata)) end
   if a.device then
      for name, tensor in pairs(tensors) do tensors[name] = tensor:to(a.device) end
   end
   local object, structure = tensors, metadata[tree.key]
   if structure then
      local why
      object, why = tree.rebuild(structure, tensors)
      if why then torch.raise(("load: %s: %s"):format(a.path, why)) end
      metadata[tree.key] = nil
   end
   if a.metadata then return object, metadata end
   return object
end

return M
