-- formats.lua - derives a file's format from its name, and lists a reader and a writer for each
-- format.

local torch = require "tlua"
local source = require "tlua.io.source"
local tree = require "tlua.io.tree"

local M = {}

-- Maps file extensions to formats. All five extensions of "pytorch" are common for files that
-- PyTorch's torch.save has written.
local endings <const> = {
   safetensors = "safetensors", st = "safetensors",
   pt = "pytorch", pth = "pytorch", bin = "pytorch", ckpt = "pytorch", tar = "pytorch",
   npy = "npy", npz = "npz", png = "png", jpg = "jpeg", jpeg = "jpeg",
   webp = "webp", gguf = "gguf", idx = "idx",
}

-- Extensions that programs append to a file's name while they write the file, before they rename
-- it.
local of_parts <const> = {
   tmp = true, temp = true, part = true, partial = true, bak = true, new = true, old = true,
}

-- Returns the file extension of a path, or nil. Digits alone are not an extension, as in step.1000
-- and model-v1.5.
local function ending_of(path)
   local ending = path:match "[^/\\]%.(%w+)$"
   return ending and not ending:find "^%d+$" and ending:lower() or nil
end

--- Returns the format that a path's file extension names, and whether gzip compresses the file. If
--- the extension is unknown, returns nil and the extension; if there is none, returns nil.
---@param path string
---@return string? format
---@return boolean|string? packed
function M.of(path)
   local ending = ending_of(path)
   local packed = ending == "gz"
   if packed or ending and of_parts[ending] then
      local inner = path:sub(1, -#ending - 2)
      local known = endings[ending_of(inner) or ""]
      if known then return known, packed end
      path = packed and inner or path
   end
   if path:lower():find "idx%d+%-%l+$" then return "idx", packed end
   local format = endings[ending or ""]
   if format then return format, packed end
   return nil, ending
end

-- Reading --------------------------------------------------------------------------------------

---@class io.Format
---@field read? fun(bytes: Tensor, mapped: boolean, place: function?): any  place: see place.lua
---@field write? fun(a: table): fun(file: file*): string?  the options of save -> what writes
---@field places? boolean  read has put the tensors where they go
---@field metadata? boolean  there is room for a table of strings

---@type table<string, io.Format>
M.formats = {
   -- torch.load itself reads safetensors files, so there is no reader here
   safetensors = {metadata = true},
   pytorch = {places = true}, npy = {}, npz = {}, png = {}, jpeg = {}, webp = {},
   gguf = {}, idx = {},
}
local formats <const> = M.formats

function formats.npy.read(bytes) return require "tlua.io.npy".array(bytes) end
function formats.npz.read(bytes) return require "tlua.io.npy".arrays(bytes) end
function formats.gguf.read(bytes) return require "tlua.io.gguf".read(bytes) end
function formats.idx.read(bytes) return require "tlua.io.idx".read(bytes) end

function formats.png.read(bytes)
   local image, message = torch.io.decode_image(bytes)
   return image or source.fail("%s", message)
end
formats.jpeg.read, formats.webp.read = formats.png.read, formats.png.read

function formats.pytorch.read(bytes, mapped, place)
   return require "tlua.io.pytorch".read(bytes, mapped, place)
end

-- Writing --------------------------------------------------------------------------------------

local function refuse(a, why) torch.raise(("save: %s: %s"):format(a.path, why)) end

function formats.safetensors.write(a)
   local entries, structure, message = tree.flatten(a.object)
   if not entries then refuse(a, message) end
   local metadata = {}
   for key, value in pairs(a.metadata or {}) do
      if torch.type(value) == "torch.device" then value = tostring(value) end
      if type(key) ~= "string" or type(value) ~= "string" then
         torch.raise("save: metadata: expected a table of strings")
      end
      metadata[key] = value
   end
   metadata[tree.key] = structure
   return function(file)
      return require "tlua.io.safetensors".write(file, entries, metadata)
   end
end

function formats.pytorch.write(a)
   local write, message = require "tlua.io.pytorch".writer(a.object)
   return write or refuse(a, message)
end

function formats.npy.write(a)
   return function(file) return require "tlua.io.npy".write(file, a.object, a.compress) end
end

function formats.npz.write(a)
   return function(file) return require "tlua.io.npy".write_all(file, a.object, a.compress) end
end

function formats.png.write(a)
   local content, message = require "tlua.io.image".png(a.object)
   if not content then refuse(a, message) end
   return function(file) return select(2, file:write(content)) end
end

function formats.jpeg.write(a)
   local content, message = require "tlua.io.image".jpeg(a.object, a.quality or 75)
   if not content then refuse(a, message) end
   return function(file) return select(2, torch.io.write(file, content)) end
end

local writes <const> = ".safetensors, .st or no ending; .pt, .pth, .bin, .ckpt and .tar for "
   .. "PyTorch; .npy and .npz for NumPy; .png; .jpg"

--- Returns the format in which torch.save writes to a path. Raises an error if the file extension
--- names no format that can be written.
---@param path string
---@return string format
function M.to_write(path)
   local format, packed = M.of(path)
   if not format and not packed then return "safetensors" end
   if not format then
      torch.raise(("save: %s: no format has the ending .%s; known are %s"):format(path, packed,
         writes))
   end
   if packed or not formats[format].write then
      local other = packed and format .. ".gz" or format
      torch.raise(("save: %s: the name tells another format (%s), which is only read; written are "
         .. "%s"):format(path, other, writes))
   end
   return format
end

return M
