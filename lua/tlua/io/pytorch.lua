-- pytorch.lua - the files of PyTorch's torch.save since version 1.6: an uncompressed zip file with
--
--    archive/data.pkl              the object, as a pickle that names storages by their number
--    archive/data/0, 1, ...        the elements of each storage, aligned to 64 bytes
--    archive/version               of the format, and about the file: byteorder, .format_version,
--    ...                           .storage_alignment and .data/serialization_id
--
-- Reading runs no code from the file (pickle.lua); its time and memory are proportional to the
-- file's size.

local torch = require "tlua"
local pickle = require "tlua.io.pickle"
local nested = require "tlua.io.nested"
local pickle_writer = require "tlua.io.pickle_writer"
local quantized = require "tlua.io.quantized"
local rebuild = require "tlua.io.rebuild"
local source = require "tlua.io.source"
local sparse = require "tlua.io.sparse"
local storages = require "tlua.io.storages"
local zip = require "tlua.io.zip"

local M = {}

local alignment <const> = 64

-- Reading --------------------------------------------------------------------------------------

-- Returns the name of the folder in the archive, with a slash at the end.
local function prefix_of(archive)
   local found
   for name in pairs(archive) do
      local prefix = name:match "^(.*)data%.pkl$"
      if prefix and (not found or #prefix < #found) then found = prefix end
   end
   return found or source.fail "the zip file has no data.pkl; it is no checkpoint of PyTorch"
end

--- Returns the object in a checkpoint's bytes.
---@param bytes Tensor  (n) uint8
---@param mapped? boolean  whether the file is mapped; the checksums of storages are then not
--- verified
---@param place? fun(storage: Tensor, location: string): Tensor  moves a storage, (n), that was
--- saved from `location`, such as "cuda:0"; without it storages stay on the CPU
---@return any
function M.read(bytes, mapped, place)
   local archive = zip.open(bytes)
   local prefix = prefix_of(archive)
   -- Files that were written after torch.serialization.set_crc32_options(False) have only checksums
   -- of 0. Such checksums are not verified.
   local function read_file(name, check)
      local entry = archive[prefix .. name]
      if not entry then return nil end
      if entry.method ~= 0 then
         source.fail("%s is packed; expected files that are stored, as PyTorch writes them", name)
      end
      return zip.read(bytes, entry, check and entry.crc ~= 0)
   end
   local order = read_file("byteorder", true)
   if order and source.new(order):text(order:numel()) ~= "little" then
      source.fail "the checkpoint is of a big-endian machine"
   end
   local loaded = {} -- maps each storage's key to {tensor, dtype, number of elements}
   local function storage(key, dtype, n, location)
      local known = loaded[key]
      if not known then
         local data = read_file("data/" .. key, not mapped)
            or source.fail("the storage %s is missing", key)
         local tensor = source.new(data):elements(1, {n}, dtype)
         known = {place and place(tensor, location) or tensor, dtype, n}
         loaded[key] = known
      elseif known[2] ~= dtype or known[3] ~= n then
         source.fail("the storage %s is described in two ways", key)
      end
      return known[1]
   end
   return pickle.run(read_file("data.pkl", true), storage)
end

-- Writing --------------------------------------------------------------------------------------

-- Returns a function that writes a tensor into a pickle, and a list to which that function adds
-- each storage that it references.
local function tensor_writer(places)
   local list = {}
   local function number_of(storage)
      if not storage.number then
         storage.number = #list
         list[#list + 1] = storage
      end
      return tostring(storage.number)
   end
   local function put_dictionary(out)
      out:call("collections", "OrderedDict", function() end)
   end
   -- Writes a tensor's storage, and the offset, sizes and strides of the tensor in the storage.
   -- Without a class the storage consists of bytes.
   local function put_view(out, tensor, class)
      local place = places[tensor]
      out:raw "("
      out:string "storage"
      out:global(class and "torch" or "torch.storage", class or "UntypedStorage")
      out:string(number_of(place.storage))
      out:string "cpu"
      out:integer(place.storage.n * (class and 1 or tensor:element_size()))
      out:raw "tQ"
      out:integer(place.offset)
      out:integers(tensor.shape)
      out:integers(tensor:stride())
   end
   local put_plain
   function put_plain(out, tensor, requires_grad)
      local parts = torch._sparse_parts(tensor)
      if parts then return sparse.put(out, parts, put_plain) end
      if tensor.is_nested then return nested.put(out, tensor, put_plain, requires_grad) end
      if tensor.is_quantized then return quantized.put(out, tensor, put_plain, put_view) end
      local class = rebuild.storages[tensor.dtype]
      out:call("torch._utils", class and "_rebuild_tensor_v2" or "_rebuild_tensor_v3", function()
         put_view(out, tensor, class)
         out:put(requires_grad)
         put_dictionary(out)
         if not class then out:global("torch", tensor.dtype) end
      end)
   end
   return function(out, tensor)
      if not tensor.is_parameter then return put_plain(out, tensor, tensor.requires_grad) end
      out:call("torch._utils", "_rebuild_parameter", function()
         put_plain(out, tensor, false)
         out:put(tensor.requires_grad)
         put_dictionary(out)
      end)
   end, list
end

-- Returns an identifier of the content, 40 digits computed from the checksums of all files in the
-- archive.
local function identity(archive)
   local names, sums = "", ""
   for _, entry in ipairs(archive.entries) do
      names = names .. entry.name .. "\n"
      sums = sums .. ("%08x"):format(entry.crc)
   end
   return ("%020d%020d"):format(torch.io.crc32(names), torch.io.crc32(sums))
end

--- Returns a function that writes an object to an open file and returns an error message or nil.
--- Returns nil and a message if such a file cannot hold the object.
---@param object any
---@return (fun(file: file*): string?)? write
---@return string? message
function M.writer(object)
   local put_tensor, list = tensor_writer(storages.of(object))
   local text, message = pickle_writer.encode(object, put_tensor)
   if not text then return nil, message end
   return function(file)
      local archive = zip.new(file, alignment)
      local empty = torch.empty({0}, {dtype = "uint8", device = "cpu"})
      local function add(name, content, tensor)
         return archive:add("archive/" .. name, content, tensor or empty)
      end
      local why = add("data.pkl", text) or add(".format_version", "1")
         or add(".storage_alignment", tostring(alignment)) or add("byteorder", "little")
      for _, storage in ipairs(list) do
         why = why or add("data/" .. storage.number, "", storage:tensor())
      end
      return why or add("version", "3\n")
         or add(".data/serialization_id", identity(archive)) or archive:finish()
   end
end

return M
