-- files.lua - the base class of datasets, and functions that read files and lists of names. Their
-- errors name the file.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local indexing = require "tlua.data.indexing"

local M = {}

--- The base of the datasets of torch.vision. A derived class has the method `load`, which returns
--- the image and the target of an item before they are transformed.
---
---     local VisionDataset = torch.vision.datasets.VisionDataset
---     local Dark = torch.class("Dark", VisionDataset)
---     function Dark:__len() return 3 end
---     function Dark:load(i) return torch.zeros(1, 2, 2), i end
---     print(select(2, Dark():get(3)))
---     --> 3
---     print(select(2, pcall(Dark.get, Dark(), 4)):match "Dark.*")
---     --> Dark: expected a position from 1 to 3, got 4
---@class vision.datasets.VisionDataset: data.Dataset
---@field root? string  the folder
---@field transforms? fun(image: any, target: any): any, any  is called with both values of an item
---@field transform? fun(image: any): any  is called with the image
---@field target_transform? fun(target: any): any  is called with the target
local Dataset = class.class("vision.datasets.VisionDataset", torch.data.Dataset)
M.Dataset = Dataset

--- Returns the image and the target of an item before they are transformed.
---@param i integer
---@return any image
---@return any target
function Dataset:load(i) -- luacheck: no unused args
   torch.raise(("%s has no method load"):format(torch.type(self)))
end

--- Returns an item after its transforms. Raises an error that names the dataset and its size if
--- there is no such item.
---@param i integer
---@return any image
---@return any target
function Dataset:get(i)
   indexing.check(self, i)
   local image, target = self:load(i)
   if self.transforms then return self.transforms(image, target) end
   if self.transform then image = self.transform(image) end
   if self.target_transform then target = self.target_transform(target) end
   return image, target
end

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

--- Fills a class of datasets of image files. `parameters` are those of the constructor between
--- `root` and `transform`, and `choices` maps a parameter to its values. list(title, a) returns the
--- samples, pairs of a path and a target, and the names of the classes.
---@param Class table
---@param parameters string
---@param choices table<string, string[]>
---@param list fun(title: string, a: table): table, table?
---@param read? fun(path: string): Tensor  reads an image; M.image by default
function M.fill(Class, parameters, choices, list, read)
   local title = Class.__name
   local take = args.signature(("%s(root: string, %stransform: callable?, "
      .. "target_transform: callable?)"):format(title, parameters))

   function Class:__init(...)
      local a = take(...)
      Dataset.__init(self)
      for name, values in pairs(choices) do
         M.choose(title, name, a[name], values)
         self[name] = a[name]
      end
      self.root, self.transform, self.target_transform = a.root, a.transform, a.target_transform
      self.samples, self.classes = list(title, a)
   end

   function Class:__len() return #self.samples end

   function Class:load(i)
      local path, target = table.unpack(self.samples[i], 1, 2)
      return (read or M.image)(path), target
   end
end

--- Returns the samples and the classes of a folder with a folder for each class.
---@param title string
---@param path string
---@return table samples
---@return string[] classes
function M.in_folders(title, path)
   M.list(title, path) -- raises an error that names the dataset if there is no such folder
   local folder = torch.data.ImageFolder(path)
   return folder.samples, folder.classes
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
