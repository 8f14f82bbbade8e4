-- init.lua - torch.save and torch.load. Files are safetensors: weights as they are, and nested
-- tables of tensors and plain data (checkpoints) with their structure in the file's metadata.
-- What others write is read by the end of its name: .npy and .npz of NumPy, .pt and .pth of
-- PyTorch, .gguf, .png and .jpg, and the IDX files of MNIST, also as .gz. Loading runs no code, and
-- a file that is damaged is refused with its name.

local torch = require "tlua"
local args = require "tlua.args"
local replace_file = require "tlua.io.replace"
local safetensors = require "tlua.io.safetensors"
local source = require "tlua.io.source"
local tree = require "tlua.io.tree"

local M = {}

local take_save = args.signature [[save(object: any, path: string, metadata: table?,
   compress: boolean = false)]]
local take_load = args.signature [[load(path: string, device: string?, metadata: boolean = false,
   mmap: boolean?)]]

local function check_path(name, path)
   if path:find("\0", 1, true) then torch.raise(name .. ": path: a byte 0 is in it") end
   if not io then torch.raise(name .. ": needs Lua's io library, which was not opened") end
end

-- Formats of others by the end of the name -----------------------------------------------------

local function is_zip(bytes)
   return bytes:numel() >= 4 and torch.io.text(bytes, 1, 2) == "PK"
end

local readers = {}

function readers.npy(bytes) return require "tlua.io.npy".array(bytes) end
function readers.npz(bytes) return require "tlua.io.npy".arrays(bytes) end
function readers.gguf(bytes) return require "tlua.io.gguf".read(bytes) end
function readers.idx(bytes) return require "tlua.io.idx".read(bytes) end

function readers.png(bytes)
   local image, message = torch.io.decode_image(bytes)
   return image or source.fail("%s", message)
end
readers.jpg, readers.jpeg = readers.png, readers.png

-- torch.save of ours has written safetensors under these names.
function readers.pt(bytes, mapped)
   if is_zip(bytes) then return require "tlua.io.pickle".checkpoint(bytes, mapped) end
   local old = bytes:numel() > 2 and torch.io.text(bytes, 1, 2):find "^\x80[\2-\5]$"
   if old then source.fail "PyTorch's format from before version 1.6; save it anew there" end
   return nil
end
readers.pth = readers.pt

-- Which of them, and whether it is packed by gzip; nil: none.
local function reader_of(path)
   local name, packed = path:lower(), false
   if name:find "%.gz$" then name, packed = name:sub(1, -4), true end
   if name:find "idx%d+%-ubyte$" then return "idx", packed end
   local ending = name:match "%.(%w+)$"
   return readers[ending] and ending or nil, packed
end

local function read_other(file, path, kind, packed, mmap)
   local bytes, mapped = source.bytes(file, path, mmap)
   if packed then
      local size
      if kind == "idx" then size = require "tlua.io.idx".unpacked_size(bytes) end
      local unpacked, message = torch.io.inflate(bytes, "gzip", size)
      bytes = unpacked or source.fail("%s", message)
   end
   return readers[kind](bytes, mapped)
end

-- Saving ----------------------------------------------------------------------------------------

local writers = {}

-- Each gives a function that writes a(object) to an open file.
function writers.safetensors(a)
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
   return function(file) return safetensors.write(file, entries, metadata) end
end

local function for_numpy(write)
   return function(a)
      if a.metadata then
         torch.raise(("save: %s: metadata: NumPy's files have no place for them"):format(a.path))
      end
      return function(file) return require "tlua.io.npy"[write](file, a.object, a.compress) end
   end
end
writers.npy, writers.npz = for_numpy "write", for_numpy "write_all"

local function writer_of(path)
   local kind, packed = reader_of(path)
   if not kind or readers[kind] == readers.pt then return writers.safetensors end
   if packed or not writers[kind] then
      torch.raise(("save: %s: the name tells another format (%s); this writes safetensors, .npy "
         .. "and .npz"):format(path, packed and kind .. ".gz" or kind))
   end
   return writers[kind]
end

--- Saves a table of tensors, such as a state dict, or a table of tables, tensors, numbers, strings
--- and booleans, such as a checkpoint. Views are saved by value, on the CPU. `metadata`, a table
--- of strings, is what other programs may read from the file's header. A name that ends in .npy
--- takes one tensor, .npz a table of them, for NumPy. A name that tells another format, such as
--- x.gguf, is refused, since torch.load would read it as that.
---@param object any  of these
---@param path string
---@param options? {metadata: table<string, string>, compress: boolean}  compress: of .npz, as
--- numpy.savez_compressed does
function M.save(...)
   local a = take_save(...)
   check_path("save", a.path)
   if a.compress and reader_of(a.path) ~= "npz" then
      torch.raise(("save: %s: compress: only .npz files are written compressed"):format(a.path))
   end
   local write = writer_of(a.path)(a)
   local failure = replace_file(a.path, write)
   if failure then torch.raise(("save: %s: %s"):format(a.path, failure)) end
end

-- ------------------------------------------------------------------------------------------------

local function to_device(value, device)
   if torch.is_tensor(value) then return value:to(device) end
   if type(value) ~= "table" then return value end
   for key, item in pairs(value) do value[key] = to_device(item, device) end
   return value
end

-- The object in an open file and the file's own metadata, or a message.
local function read_own(file, path, a)
   local tensors, metadata = safetensors.read(file, path, a.mmap)
   if not tensors then return metadata end
   if a.device then to_device(tensors, a.device) end
   local structure = metadata[tree.key]
   if not structure then return tensors, metadata end
   metadata[tree.key] = nil
   local object, why = tree.rebuild(structure, tensors)
   if why then return why end
   return object, metadata
end

local function read(file, a)
   local kind, packed = reader_of(a.path)
   if kind then
      local object, metadata = source.protect(read_other, file, a.path, kind, packed, a.mmap)
      if object == nil and metadata then return metadata end
      if object ~= nil then
         if a.device then object = to_device(object, a.device) end
         return object, metadata or {}
      end
      file:seek "set"
   end
   return read_own(file, a.path, a)
end

--- Loads what save has written. Any other safetensors file gives a table from names to tensors, as
--- do .npz and .gguf; .pt and .pth give the tables, tensors and plain data of a PyTorch checkpoint
--- and refuse every class; .npy, .png and .jpg (channels, height, width; uint8) give one tensor.
--- `device` is where the tensors go, the CPU by default; with `metadata = true` the file's own
--- metadata are a second result. `mmap`: tensors are the file's bytes, read when they are first
--- looked at, and what is written to them stays in memory; by default so from 16 MB on. A mapped
--- file must keep its length: what reads behind a new end is an error in the `tlua` command, and
--- ends another program by SIGBUS. Checksums of .npz are compared, and of .pt where the file is not
--- mapped, since that reads all of it.
---@param path string
---@param options? {device: string, metadata: boolean, mmap: boolean}
---@return any object
---@return table<string, string>? metadata
function M.load(...)
   local a = take_load(...)
   check_path("load", a.path)
   local file <close>, message = io.open(a.path, "rb")
   if not file then torch.raise("load: " .. message) end
   local ok, object, metadata = pcall(read, file, a)
   if not ok then -- such as a lack of memory: it is not said yet which file is meant
      local why = tostring(object):gsub("^[^\n]-:%d+: ", "")
      torch.raise(("load: %s: %s"):format(a.path, why))
   end
   if not metadata then torch.raise(("load: %s: %s"):format(a.path, object)) end
   if a.metadata then return object, metadata end
   return object
end

return M
