-- init.lua - torch.save and torch.load. The file extension determines the format. A file without an
-- extension is safetensors; nested tables of tensors and plain data (checkpoints) store their
-- structure in its metadata. Other formats are PyTorch's .pt and .pth, NumPy's .npy and .npz, .png
-- and .jpg. The formats .webp, .gguf and IDX (MNIST's, also compressed as .gz) can only be read.
-- Loading runs no code, and the error for a damaged file names the file.

local torch = require "tlua"
local args = require "tlua.args"
local formats = require "tlua.io.formats"
local place = require "tlua.io.place"
local replace_file = require "tlua.io.replace"
local safetensors = require "tlua.io.safetensors"
local source = require "tlua.io.source"
local tree = require "tlua.io.tree"
local values = require "tlua.io.values"

local M = {}

local take_save = args.signature [[save(object: any, path: string, metadata: names?,
   compress: boolean = false, quality: integer?)]]
local take_load = args.signature [[load(path: string, device: device|object|callable?,
   metadata: boolean = false, mmap: boolean?, map_location: any?, weights_only: boolean = true)]]

local function check_path(name, path)
   if path:find("\0", 1, true) then torch.raise(name .. ": path: a byte 0 is in it") end
   if not io then torch.raise(name .. ": needs Lua's io library, which was not opened") end
end

--- Saves a table of tensors, such as a state dict, or a table of tables, tensors, numbers, strings
--- and booleans, such as a checkpoint. The file extension determines the format:
---
--- * `.safetensors`, `.st` or none: tensors by value, on the CPU. `metadata`, a table of strings,
---   is kept in the header, where other programs may read it. The safetensors package (0.8) has no
---   names for complex128 and complex32: files with such tensors, as C128 and C32, are for tlua.
--- * `.pt`, `.pth`, `.bin`, `.ckpt`, `.tar`: the format of PyTorch's torch.save. PyTorch's
---   torch.load reads the file with `weights_only=True`. Tensors that share memory also share it in
---   the file. A table with the keys 1 to n is a list, any other table is a dictionary with the
---   same keys, and a table that has only string keys and tensors is an OrderedDict;
---   torch.io.as_dict(t) and torch.io.as_list(t) mark a table for which these rules are wrong. For
---   modules and optimizers, save state_dict{names = "pytorch"}, in which positions count from 0 as
---   in PyTorch.
--- * `.npy`: one tensor; `.npz`: a table of tensors; `.png`, `.jpg` and `.jpeg`: an image, which is
---   a uint8 tensor (channels, height, width).
---
--- Any other extension raises an error. So does a tensor without values, which is on the meta
--- device or was released. The old file stays intact until the new one is complete.
---@param object any  the table, tensor or image to save
---@param path string
---@param options? {metadata: table<string, string>, compress: boolean, quality: integer}
--- compress: of .npz, as numpy.savez_compressed does; quality: of a .jpg, from 1 to 100, 75 by
--- default
function M.save(...)
   local object, path = ...
   -- a table after a path would be read as options
   if type(object) == "string" and type(path) == "table" and path.path == nil then
      torch.raise("save: expected the object before the path, got the path first")
   end
   local a = take_save(...)
   check_path("save", a.path)
   local name = formats.to_write(a.path)
   local format = formats.formats[name]
   if a.compress and name ~= "npz" then
      torch.raise(("save: %s: compress: only .npz files are written compressed"):format(a.path))
   end
   if a.metadata and not format.metadata then
      torch.raise(("save: %s: metadata: only .safetensors files have a place for them"):format(
         a.path))
   end
   if a.quality and name ~= "jpeg" then
      torch.raise(("save: %s: quality: only .jpg files have one"):format(a.path))
   end
   local is_general = name == "safetensors" or name == "pytorch"
   local missing = values.missing(a.object, {sparse = is_general, wrapped = is_general})
   if missing then torch.raise(("save: %s: %s"):format(a.path, missing)) end
   local failure = replace_file(a.path, format.write(a))
   if failure then torch.raise(("save: %s: %s"):format(a.path, failure)) end
end

-- Loading ---------------------------------------------------------------------------------------

-- Replaces each tensor in nested tables by the result of put(tensor, "cpu"). The function does not
-- look for tensors that occur twice, because none does.
local function place_all(value, put)
   if torch.is_tensor(value) then return put(value, "cpu") end
   if type(value) ~= "table" then return value end
   for key, item in pairs(value) do value[key] = place_all(item, put) end
   return value
end

-- Returns the object in an open safetensors file, and the file's metadata without the entry that
-- this library has added. On failure returns nil and a message.
local function read_own(file, a)
   local tensors, metadata = safetensors.read(file, a.path, a.mmap)
   if not tensors then return metadata end
   if a.place then place_all(tensors, a.place) end
   local structure = metadata[tree.key]
   if not structure then return tensors, metadata end
   metadata[tree.key] = nil
   local object, why = tree.rebuild(structure, tensors)
   if why then return why end
   return object, metadata
end

-- Reads a file of any format but safetensors, and returns {the object in the file, the file's
-- metadata}.
local function read_other(file, a, name, packed)
   local format = formats.formats[name]
   local bytes, mapped = source.bytes(file, a.path, a.mmap)
   if packed then
      local size
      if name == "idx" then size = require "tlua.io.idx".unpacked_size(bytes) end
      local unpacked, message = torch.io.inflate(bytes, "gzip", size)
      bytes = unpacked or source.fail("%s", message)
   end
   local object, metadata = format.read(bytes, mapped, a.place)
   if a.place and not format.places then object = place_all(object, a.place) end
   return {object, metadata or {}}
end

-- Recognizes PyTorch's files, including those of versions before 1.6, by their first bytes.
-- Safetensors files of this library may also have PyTorch's endings.
local function sniff(file)
   local begin = file:read(4)
   file:seek "set"
   if begin == "PK\3\4" then return "pytorch" end
   return nil, begin == "\x80\2\x8a\x0a"
end

local function read(file, a)
   local name, packed = formats.of(a.path)
   if name == nil or name == "safetensors" or name == "pytorch" then
      local old
      name, old = sniff(file)
      packed = false
      if old then return "PyTorch's format from before version 1.6; save it anew there" end
   end
   if not name then return read_own(file, a) end
   local result, message = source.protect(read_other, file, a, name, packed)
   if not result then return message end
   return result[1], result[2]
end

--- Loads a file written by `save` or by another program. Files in the formats .npz and .gguf, and
--- safetensors files from other programs, give a table from names to tensors. .pt and .pth give the
--- tables, tensors and plain data of a PyTorch checkpoint; classes are refused. .npy, IDX, .png,
--- .jpg and .webp give one tensor; an image is (channels, height, width) of uint8.
---
--- `map_location`, or `device`, says where tensors are loaded, by default on the CPU. It is a
--- device, a table such as `{["cuda:1"] = "cuda:0"}`, or a function. The function gets a tensor
--- (for .pt files, the elements of a storage) and the name of the device from which it was saved;
--- it returns the tensor, moved or not, or a device. `weights_only` may be given and is always
--- true. With `metadata = true` the second result is the file's table of metadata. `mmap` maps the
--- file: the data of a tensor is read when the tensor is first used, and changes to tensors do not
--- change the file. Files of at least 16 MB are mapped by default. A mapped file must not shrink:
--- reading past its new end is an error in the `tlua` command, and a fatal SIGBUS in other
--- programs. The checksums in .npz files are verified. Those in .pt files are verified unless the
--- file is mapped, since verifying reads the whole file.
---@param path string
---@param options? {map_location: any, weights_only: boolean, mmap: boolean, device: any,
---metadata: boolean}
---@return any object
---@return table<string, string>? metadata
function M.load(...)
   local a = take_load(...)
   check_path("load", a.path)
   if not a.weights_only then
      torch.raise("load: weights_only: expected true, got false: loading runs no code of a file, "
         .. "and so makes no objects of classes; save state_dict() in PyTorch and load that")
   end
   if a.device ~= nil and a.map_location ~= nil then
      torch.raise "load: device and map_location are the same; expected one of them"
   end
   a.place = place.of("load", a.map_location == nil and a.device or a.map_location)
   local file <close>, message = io.open(a.path, "rb")
   if not file then torch.raise("load: " .. message) end
   local ok, object, metadata = pcall(read, file, a)
   if not ok then -- some messages, such as for lack of memory, do not name the file
      local why = tostring(object):gsub("^[^\n]-:%d+: ", "")
      torch.raise(("load: %s: %s"):format(a.path, why))
   end
   if not metadata then torch.raise(("load: %s: %s"):format(a.path, object)) end
   if a.metadata then return object, metadata end
   return object
end

return M
