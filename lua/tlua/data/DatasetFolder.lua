-- DatasetFolder.lua - a dataset of files in folders named after their classes: root/cat/1.png,
-- root/cat/more/2.png, root/dog/3.png. Modelled on torchvision.datasets.DatasetFolder.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local io_folder = require "tlua.io.folder"
local Dataset = require "tlua.data.Dataset"
local indexing = require "tlua.data.indexing"

local name <const> = "data.DatasetFolder"

local signature = args.signature [[data.DatasetFolder(root: string, loader: callable,
   extensions: table?, transform: callable?, target_transform: callable?,
   is_valid_file: callable?, allow_empty: boolean = false)]]

--- A dataset of the files in a folder whose subfolders are named after the classes.
---
---     for _, class in ipairs {"cat", "dog"} do
---        torch.io.make_folder("pets/" .. class)
---        torch.save({x = torch.ones(1)}, "pets/" .. class .. "/a.st")
---     end
---     local options = {extensions = {".st"}}
---     local set = torch.data.DatasetFolder("pets", torch.load, options)
---     print(#set, set.classes[2], select(2, set:get(2)))
---     --> 2	dog	2
---@class data.DatasetFolder: data.Dataset
---@field root string  the folder
---@field classes string[]  the class names, sorted
---@field class_to_idx table<string, integer>  each class's number, from 1
---@field samples {[1]: string, [2]: integer}[]  the path and the class number of each file
---@field targets integer[]  the class number of each sample
---@overload fun(root: string, loader: function, options?: table): data.DatasetFolder
local DatasetFolder, parent = class.class(name, Dataset)

-- Returns the sorted names of a folder's subfolders, then the sorted names of its files.
local function list(path)
   local folders, files = io_folder.list(path)
   if not folders then torch.raise(("%s: %s: %s"):format(name, path, files)) end
   return folders, files
end

-- Appends {path, target} to `samples` for each valid file in a folder and in all its subfolders.
local function collect(path, is_valid, target, samples)
   local folders, files = list(path)
   for _, file in ipairs(files) do
      local full = path .. "/" .. file
      if is_valid(full) then samples[#samples + 1] = {full, target} end
   end
   for _, folder in ipairs(folders) do collect(path .. "/" .. folder, is_valid, target, samples) end
end

local function by_ending(extensions)
   local known = {}
   for _, extension in ipairs(extensions) do known[extension:lower()] = true end
   return function(path)
      local ending = path:lower():match "%.[^./\\]*$"
      return ending ~= nil and known[ending] == true
   end
end

-- Collects the samples of all classes; returns the names of the classes without any sample.
local function make_samples(self, is_valid)
   local empty = {}
   for target, folder in ipairs(self.classes) do
      local before = #self.samples
      collect(self.root .. "/" .. folder, is_valid, target, self.samples)
      if #self.samples == before then empty[#empty + 1] = folder end
   end
   return empty
end

--- Makes the dataset. An item consists of loader(path) and the file's class, counted from 1. The
--- options are:
--- * extensions, such as {".png"}, or is_valid_file(path): select the files.
--- * transform, target_transform: are called with the first and the second value of an item.
--- * allow_empty: makes folders without such files classes, too.
---@param root string
---@param loader fun(path: string): any
---@param options? table
function DatasetFolder:__init(...)
   parent.__init(self)
   local a = signature(...)
   if (a.extensions == nil) == (a.is_valid_file == nil) then
      torch.raise(name .. ": expected either extensions or is_valid_file")
   end
   self.root, self.loader = a.root, a.loader
   self.transform, self.target_transform = a.transform, a.target_transform
   self.classes, self.class_to_idx = list(a.root), {}
   if #self.classes == 0 then
      torch.raise(("%s: %s: expected a folder for each class, got none"):format(name, a.root))
   end
   for i, folder in ipairs(self.classes) do self.class_to_idx[folder] = i end
   self.samples, self.targets = {}, {}
   local empty = make_samples(self, a.is_valid_file or by_ending(a.extensions))
   if #empty > 0 and not a.allow_empty then
      torch.raise(("%s: %s: no valid file for the classes %s%s"):format(name, a.root,
         table.concat(empty, ", "), a.extensions and "; expected files that end in "
         .. table.concat(a.extensions, ", ") or ""))
   end
   for i, sample in ipairs(self.samples) do self.targets[i] = sample[2] end
end

function DatasetFolder:__len() return #self.samples end

--- Returns a loaded sample and its class, counted from 1.
---@param i integer
---@return any sample
---@return any target
function DatasetFolder:get(i)
   indexing.check(self, i)
   local path, target = table.unpack(self.samples[i])
   local sample = self.loader(path)
   if self.transform then sample = self.transform(sample) end
   if self.target_transform then target = self.target_transform(target) end
   return sample, target
end

return DatasetFolder
