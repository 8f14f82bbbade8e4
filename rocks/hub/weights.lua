-- weights.lua - reads safetensors files and the descriptions of models in their metadata.

local torch = require "tlua"
local safetensors = require "tlua.io.safetensors"
local manifest = require "tlua.hub.manifest"

local M = {}

-- If the beginning of a file shows another format than safetensors, returns the name of this
-- format, and otherwise nil.
local function other_format(file)
   local head = file:read(16) or ""
   file:seek "set"
   if head:find "^PK\3\4" or head:find "^\x80[\2-\5]" then
      return "a pickle of PyTorch's, which is not loaded: save the weights as safetensors"
   elseif head:find "^version https:/" then
      return "a pointer of Git LFS, not the file itself"
   elseif head:find "^%s*<" then
      return "a page of HTML or XML"
   end
   return nil
end

--- Reads the tensors of a safetensors file. Large files are memory-mapped.
---@param path string
---@return table<string, Tensor>? tensors  nil on failure
---@return table<string, string>|string metadata  or a message with the file's name
function M.read(path)
   local file <close>, message = io.open(path, "rb")
   if not file then return nil, message end
   local other = other_format(file)
   if other then return nil, ("%s: expected a safetensors file, got %s"):format(path, other) end
   local tensors, metadata = safetensors.read(file, path)
   if not tensors then return nil, ("%s: %s"):format(path, metadata) end
   return tensors, metadata
end

--- Returns the models that the metadata of a packed file describe.
---@param path string
---@param metadata table<string, string>
---@return table<string, table>? models  nil on failure
---@return string? message
function M.models(path, metadata)
   local text = metadata[manifest.KEY]
   if not text then
      return nil, ("%s: expected a file that `tlua hub pack` has made; this one has weights only, "
         .. "which torch.load reads"):format(path)
   end
   local models, message = manifest.parse(text, true)
   if not models then return nil, ("%s: metadata %s: %s"):format(path, manifest.KEY, message) end
   return models
end

local function sum_of(tensor) return torch.io._sha256(tensor:detach():cpu():contiguous()) end

--- Returns a table of the checksums of tensors.
---@param tensors table<string, Tensor>
---@return table<string, string>
function M.checksums(tensors)
   local sums = {}
   for name, tensor in pairs(tensors) do sums[name] = sum_of(tensor) end
   return sums
end

--- Compares tensors with their checksums. Returns nil if all match, and otherwise a message.
---@param path string  the file, for error messages
---@param tensors table<string, Tensor>
---@param sums table<string, string>
---@return string? failure
function M.check(path, tensors, sums)
   for name in pairs(sums) do
      if not tensors[name] then return ("%s: tensor %q is missing"):format(path, name) end
   end
   for name, tensor in pairs(tensors) do
      local sum = sum_of(tensor)
      if sums[name] ~= sum then
         return ("%s: tensor %q: SHA-256: expected %s, got %s"):format(path, name,
            sums[name] or "one in checksums", sum)
      end
   end
   return nil
end

local function shape_of(tensor)
   return ("%s of shape (%s)"):format(tensor.dtype, table.concat(tensor.shape, ", "))
end

--- Compares the names and shapes of a model's tensors with those in a file. Returns nil if they are
--- the same, and otherwise a message.
---@param path string
---@param own table<string, Tensor>
---@param tensors table<string, Tensor>
---@return string? failure
function M.compare(path, own, tensors)
   local missing, unknown, names = {}, {}, {}
   for name in pairs(own) do names[#names + 1] = name end
   table.sort(names)
   for _, name in ipairs(names) do
      local tensor, given = own[name], tensors[name]
      if not given then
         missing[#missing + 1] = name
      elseif table.concat(given.shape, " ") ~= table.concat(tensor.shape, " ") then
         return ("%s: tensor %q: expected %s, got %s"):format(path, name, shape_of(tensor),
            shape_of(given))
      end
   end
   for name in pairs(tensors) do
      if not own[name] then unknown[#unknown + 1] = name end
   end
   local lists = {{"missing", missing}, {"not part of the model", unknown}}
   for _, pair in ipairs(lists) do
      local words, list = table.unpack(pair)
      table.sort(list)
      if #list > 0 then
         return ("%s: tensor %q is %s%s"):format(path, list[1], words,
            #list > 1 and (", and %d more"):format(#list - 1) or "")
      end
   end
   return nil
end

return M
