-- files.lua - helpers for datasets: functions that read files and lists of names, and that raise
-- errors whose message names the file.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- Raises an error whose message names a file.
---@param title string
---@param path string
---@param format string
function M.fail(title, path, format, ...)
   torch.raise(("%s: %s: %s"):format(title, path, format:format(...)))
end

--- Returns the contents of a file. Raises an error that names the file if it cannot be read.
---@param title string
---@param path string
---@return string
function M.read(title, path)
   local file, message = io.open(path, "rb")
   if not file then torch.raise(("%s: %s"):format(title, message)) end
   local bytes = file:read "a"
   file:close()
   if not bytes then M.fail(title, path, "cannot be read") end
   return bytes
end

function M.exists(path)
   local file = io.open(path, "rb")
   if file then file:close() end
   return file ~= nil
end

--- Returns the lines of a text file that are not empty.
---@param title string
---@param path string
---@return string[]
function M.lines(title, path)
   local list = {}
   for line in M.read(title, path):gmatch "[^\r\n]+" do
      if line:find "%S" then list[#list + 1] = line end
   end
   if #list == 0 then M.fail(title, path, "expected lines, got an empty file") end
   return list
end

--- Returns the sorted names of a folder's subfolders and files.
---@param title string
---@param path string
---@return string[] folders
---@return string[] files
function M.list(title, path)
   local folders, files = require "tlua.io.folder".list(path)
   if not folders then M.fail(title, path, "%s", files) end
   return folders, files
end

--- Raises an error unless an option is one of the given names.
---@param title string
---@param name string
---@param value any
---@param names string[]
function M.choose(title, name, value, names)
   for _, known in ipairs(names) do
      if value == known then return end
   end
   local list = {}
   for i, known in ipairs(names) do list[i] = ("%q"):format(known) end
   local last = table.remove(list)
   local all = #list == 0 and last or table.concat(list, ", ") .. " or " .. last
   args.refuse(title, name, all, value)
end

--- Reads an image as 3 channels. A gray channel is repeated, and an opacity channel is dropped.
---@param path string
---@return Tensor
function M.image(path)
   local image = torch.load(path)
   local channels = image:size(1)
   if channels == 4 or channels == 2 then image = image:narrow(1, 1, channels - 1) end
   return (image:size(1) == 1 and image:expand(3, -1, -1) or image):contiguous()
end

--- Converts the bytes of a string to a tensor of the given shape.
---@param title string
---@param path string  the file that the bytes come from
---@param bytes string
---@param ... integer  the shape
---@return Tensor
function M.tensor(title, path, bytes, ...)
   local n = 1
   for _, size in ipairs {...} do n = n * size end
   if #bytes ~= n then M.fail(title, path, "expected %d bytes of pixels, got %d", n, #bytes) end
   return torch.frombuffer(bytes, {dtype = "uint8"}):view(...)
end

--- Applies a dataset's transforms to an image and its target.
---@param self table
---@param image any
---@param target any
---@return any image
---@return any target
function M.transformed(self, image, target)
   if self.transforms then return self.transforms(image, target) end
   if self.transform then image = self.transform(image) end
   if self.target_transform then target = self.target_transform(target) end
   return image, target
end

--- Returns the targets of item i for a list of types, such as a dataset's `target_type`.
---@param of table<string, function>  maps the name of a type to a function that returns the target
--- of item i
---@param types string[]
---@param i integer
---@return any target  the target, or a list of targets for several types; nil for no type
function M.targets(of, types, i)
   local list = {}
   for k, name in ipairs(types) do list[k] = of[name](i) end
   if #types == 1 then return list[1] end
   return #types > 1 and list or nil
end

return M
