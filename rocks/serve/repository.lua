-- repository.lua - finds models in a folder with Triton's layout, NAME/VERSION/model.tlp. The
-- folder of a version contains one model: a program of torch.export (model.tlp); a language model
-- (config.json with safetensors and a tokenizer, or model.gguf); or a model in Lua (model.lua).
-- NAME/config.json may set options.

local torch = require "tlua"
local args = require "tlua.args"
local errors = require "tlua.serve.errors"
local io_folder = require "tlua.io.folder"
local json = require "tlua.utils.json"
local suggest = require "tlua.utils.suggest"

local M = {}

--- Maps each option of a model to its default.
M.defaults = {
   max_batch_size = 32, max_queue_delay = 0.0, queue = 1024, timeout = 60.0, instances = 1,
   threads = false, versions = "latest", outputs = false, device = false,
   cache_type = "f32", draft_model = false,
}

local checks <const> = {
   max_batch_size = {"an integer from 1 to 256", function(v)
      return math.type(v) == "integer" and v >= 1 and v <= 256
   end},
   max_queue_delay = {"seconds, at most 10", function(v)
      return type(v) == "number" and v >= 0 and v <= 10
   end},
   queue = {"an integer from 1 to 1048576", function(v)
      return math.type(v) == "integer" and v >= 1 and v <= 1 << 20
   end},
   timeout = {"a positive number of seconds, at most 1e9", function(v)
      return type(v) == "number" and v > 0 and v <= 1e9
   end},
   instances = {"an integer from 1 to 64", function(v)
      return math.type(v) == "integer" and v >= 1 and v <= 64
   end},
   threads = {"an integer from 1 to 4096", function(v)
      return math.type(v) == "integer" and v >= 1 and v <= 4096
   end},
   versions = {'"latest", "all" or a list of numbers from 1', function(v)
      if type(v) ~= "table" then return v == "latest" or v == "all" end
      for _, number in pairs(v) do
         if math.type(number) ~= "integer" or number < 1 then return false end
      end
      return #v > 0
   end},
   outputs = {"a list of different names", function(v)
      local seen = {[""] = true}
      for _, name in pairs(type(v) == "table" and v or {}) do
         if type(name) ~= "string" or seen[name] or not utf8.len(name) then return false end
         seen[name] = true
      end
      return type(v) == "table" and #v > 0
   end},
   cache_type = {'"f32", "f16" or "q8_0"', function(v)
      return v == "f32" or v == "f16" or v == "q8_0"
   end},
   draft_model = {'"prompt_lookup" or the name of a GGUF file', function(v)
      return v == "prompt_lookup" or type(v) == "string" and v:find "%.gguf$" ~= nil
   end},
   device = {"a device", function(v) return type(v) == "string" and pcall(torch.device, v) end},
}

--- Returns a copy of `options` in which the values of `given` replace the old ones. If an option in
--- `given` is unknown or has a wrong value, returns nil and a message.
---@param options table
---@param given table
---@return table? options
---@return string? message
function M.merge(options, given)
   local all, names = {}, {}
   for name, value in pairs(options) do all[name] = value end
   for name in pairs(M.defaults) do names[#names + 1] = name end
   for name, value in pairs(given) do
      local check = checks[name]
      if not check then
         return nil, ("unknown option %s%s"):format(tostring(name), suggest.hint(tostring(name),
            names))
      end
      if value ~= M.defaults[name] and not check[2](value) then
         local fine, text = pcall(json.encode, value)
         return nil, ("%s: expected %s, got %s"):format(name, check[1], fine and text
            or args.describe(value))
      end
      all[name] = value
   end
   return all
end

local function size_of(path)
   local file <close> = io.open(path, "rb")
   return file and file:seek "end"
end

-- Returns a function that maps the name of a file in `folder` to the size of the file, or to nil if
-- there is no such file. It ignores pipes, because opening a pipe would wait for a writer.
local function sizes_in(folder)
   local kinds = io_folder.kinds(folder)
   return function(name)
      if kinds and (not kinds[name] or kinds[name] == "s") then return nil end
      return size_of(folder .. "/" .. name)
   end
end

-- Returns the size of the file at a path, or nil if there is no file.
local function size_at(path)
   local folder, name = path:match "^(.*)/([^/]*)$"
   if not folder then folder, name = ".", path end
   return sizes_in(folder == "" and "/" or folder)(name)
end

--- Examines the model at a path. Returns the model's kind, the path that the loader of this kind
--- takes, and the size of the model's file in bytes. Returns nil if there is no model.
---@param path string  a file, or a folder
---@return string? kind  "program", "language" or "script"; nil if there is no model
---@return string? path
---@return integer? size
function M.kind(path)
   if path:find "%.tlp$" then return "program", path, size_at(path) end
   if path:find "%.gguf$" then return "language", path, size_at(path) end
   if path:find "%.lua$" then return "script", path, size_at(path) end
   local size_in = sizes_in(path)
   for _, entry in ipairs {{"model.tlp", "program"}, {"model.gguf", "language"},
      {"model.lua", "script"}} do
      local size = size_in(entry[1])
      if size then return entry[2], path .. "/" .. entry[1], size end
   end
   local config = size_in "config.json"
   local weights = size_in "model.safetensors" or size_in "model.safetensors.index.json"
   if config and weights then return "language", path, weights end
end

--- Returns the sorted names of the folders in a folder. If the folder does not exist, returns nil
--- and a message.
---@param path string
---@return string[]?
---@return string? message
function M.folders(path)
   local kinds, message = io_folder.kinds(path)
   if not kinds then return nil, message end
   local names = {}
   for name, kind in pairs(kinds) do
      if (kind == "d" or kind == "l") and name:sub(1, 1) ~= "." then names[#names + 1] = name end
   end
   table.sort(names)
   return names
end

-- Returns the options of a model: the defaults, overridden by the config.json in the model's
-- folder.
local function read_config(folder, defaults)
   local kinds = io_folder.kinds(folder) or {}
   if kinds["config.json"] == "s" then return nil, "expected a file, got a pipe or a device" end
   local file <close> = io.open(folder .. "/config.json", "rb")
   if not file then return defaults end
   local text, why = file:read "a"
   if not text then return nil, why end
   local value, message = json.decode(text)
   if value == nil then return nil, message end
   if type(value) ~= "table" or value == json.null or json.is_array(value) then
      return nil, "expected an object, got " .. errors.kind(value)
   end
   return M.merge(defaults, value)
end

-- Returns the versions in a model's folder, sorted by number; each has the fields number, kind,
-- path and size.
local function versions_of(folder)
   local list = {}
   for _, name in ipairs(M.folders(folder) or {}) do
      local number = name:match "^[1-9]%d*$" and math.tointeger(tonumber(name))
      if number then
         local kind, path, size = M.kind(folder .. "/" .. name)
         if kind and size then
            list[#list + 1] = {number = number, kind = kind, path = path, size = size}
         end
      end
   end
   table.sort(list, function(a, b) return a.number < b.number end)
   return list
end

-- Returns those versions that the option `versions` selects. `policy` is the value of this option.
local function chosen(versions, policy)
   if policy == "all" then return versions end
   if policy == "latest" then return {versions[#versions]} end
   local list = {}
   for _, version in ipairs(versions) do
      for _, number in ipairs(policy) do
         if version.number == number then list[#list + 1] = version end
      end
   end
   return list
end

-- Returns an error message for the case that the option `versions` selects none of the existing
-- versions.
local function none_chosen(versions, policy)
   local numbers = {}
   for i, version in ipairs(versions) do numbers[i] = version.number end
   return ("versions: expected some of %s, which are there, got %s"):format(
      table.concat(numbers, ", "), table.concat(policy, ", "))
end

-- Returns the table that describes a model in the result of `scan`.
local function read_model(folder, name, versions, defaults)
   local function refuse(message) return {options = defaults, versions = {}, message = message} end
   if not utf8.len(name) then return refuse "the folder's name is not UTF-8" end
   local options, why = read_config(folder, defaults)
   if not options then return refuse("config.json: " .. why) end
   local list = chosen(versions, options.versions)
   if #list == 0 then return refuse(none_chosen(versions, options.versions)) end
   return {options = options, versions = list}
end

--- Returns the models at a path, by name. A model has the fields options, versions, and, if it
--- cannot be served, message. A version has the fields number, kind, path and size.
---@param path string  a program (.tlp), a GGUF file, a model in Lua (.lua), a language model's
--- folder, or a folder of models
---@param defaults table  the default options
---@return table? models
---@return string? message
function M.scan(path, defaults)
   path = path:gsub("(.)/+$", "%1")
   local kind, inner, size = M.kind(path)
   if kind then
      if not size then return nil, path .. ": no such file" end
      local name = path:match "([^/]+)$":gsub("%.%w+$", "")
      local versions = {{number = 1, kind = kind, path = inner, size = size}}
      if #chosen(versions, defaults.versions) == 0 then
         return nil, ("%s: %s"):format(path, none_chosen(versions, defaults.versions))
      end
      return {[name] = {options = defaults, versions = versions}}
   end
   local names, message = M.folders(path)
   if not names and size_at(path) then
      message = "expected a program (.tlp), a language model (.gguf), a model in Lua (.lua) or a "
         .. "folder of models"
   end
   if not names then return nil, ("%s: %s"):format(path, message) end
   local models = {}
   for _, name in ipairs(names) do
      local versions = versions_of(path .. "/" .. name)
      if #versions > 0 then
         models[errors.text(name)] = read_model(path .. "/" .. name, name, versions, defaults)
      end
   end
   return models
end

return M
