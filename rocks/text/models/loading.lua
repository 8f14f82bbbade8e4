-- loading.lua - loads and saves folders of models. A folder has config.json and model.safetensors,
-- or several safetensors files with the index model.safetensors.index.json.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"
local configs = require "tlua.text.models.config"
local replace_file = require "tlua.io.replace"

local M = {}

local title <const> = "text.from_pretrained"
local index_name <const> = "model.safetensors.index.json"

local function exists(path)
   local file = io.open(path, "rb")
   if file then file:close() end
   return file ~= nil
end

-- Reads the index of a folder with several safetensors files. Returns the list of these files, and
-- a table that maps the name of each tensor to its file.
local function read_index(path)
   local index = configs.read_json(path)
   local map = index.weight_map
   if type(map) ~= "table" then
      torch.raise(("%s: %s: weight_map: expected an object, got %s"):format(title, path,
         args.describe(map)))
   end
   local names, seen = {}, {}
   for key, name in pairs(map) do
      if type(name) ~= "string" or not name:find "%.safetensors$" or name:find "[/\\]"
            or name:find("..", 1, true) or name:find "%z" then
         torch.raise(("%s: %s: %q: expected the name of a safetensors file in this folder, got %s")
            :format(title, path, key, args.describe(name)))
      end
      if not seen[name] then names[#names + 1], seen[name] = name, true end
   end
   table.sort(names)
   return names, map
end

local function load_file(path)
   local state, message = torch.load(path)
   if not state then torch.raise(("%s: %s"):format(title, message)) end
   return state
end

--- Reads all tensors of a folder. Large files are memory-mapped.
---@param folder string
---@return table<string, Tensor>
function M.read_state(folder)
   local single = folder .. "/model.safetensors"
   if exists(single) then return load_file(single) end
   local path = folder .. "/" .. index_name
   if not exists(path) then
      torch.raise(("%s: %s has neither model.safetensors nor %s"):format(title, folder, index_name))
   end
   local names, map = read_index(path)
   local state = {}
   for _, name in ipairs(names) do
      for key, tensor in pairs(load_file(folder .. "/" .. name)) do
         if map[key] ~= name then
            torch.raise(("%s: %s: tensor %q is not in the index for this file"):format(title, name,
               key))
         end
         state[key] = tensor
      end
   end
   for key, name in pairs(map) do
      if state[key] == nil then
         torch.raise(("%s: %s: expected the tensor %q, which the index has there"):format(title,
            name, key))
      end
   end
   return state
end

--- Reads generation_config.json. Returns nil if the folder has none.
---@param folder string
---@return table?
function M.read_generation(folder)
   local path = folder .. "/generation_config.json"
   return exists(path) and configs.read_json(path) or nil
end

-- Renames the tensors of a file to the names of the model's weights. Old names of norms are
-- replaced. The prefix of the base model, which only models with a head have, is added or removed.
local function fit_names(model, state)
   local prefix = model.family.prefix
   local own, renamed = model:state_dict {names = "pytorch"}, {}
   local has_prefix, needs_prefix = false, false
   local function is_below(key) return key:sub(1, #prefix + 1) == prefix .. "." end
   for key in pairs(state) do has_prefix = has_prefix or is_below(key) end
   for key in pairs(own) do needs_prefix = needs_prefix or is_below(key) end
   for key, tensor in pairs(state) do
      local name = key:gsub("LayerNorm%.gamma$", "LayerNorm.weight")
         :gsub("LayerNorm%.beta$", "LayerNorm.bias")
      if has_prefix and not needs_prefix then
         -- A model without a head ignores the head's weights.
         name = is_below(name) and name:sub(#prefix + 2) or nil
      elseif needs_prefix and not has_prefix and own[name] == nil then
         name = prefix .. "." .. name
      end
      if name and not model:_skips(name, own) then renamed[name] = tensor end
   end
   for _, pair in ipairs(model:tied_weights()) do
      local first, second = pair[1], pair[2]
      if renamed[first] == nil then renamed[first] = renamed[second] end
      if renamed[second] == nil then renamed[second] = renamed[first] end
   end
   return renamed, own
end

local function shape_of(tensor) return table.concat(tensor.shape, " ") end

--- Loads a table of tensors into a model. The tensors become the model's parameters and buffers,
--- without a copy if their dtype is a.dtype or a.dtype is "auto".
---@param model text.PreTrainedModel
---@param state table<string, Tensor>
---@param a {dtype: string?, device: any, strict: boolean, folder: string}
---@return string[] missing
---@return string[] unexpected
function M.load(model, state, a)
   local renamed, own = fit_names(model, state)
   for key, tensor in pairs(renamed) do
      local mine = own[key]
      if a.dtype ~= "auto" and tensor:is_floating_point() and tensor.dtype ~= a.dtype then
         renamed[key] = tensor:to(a.dtype)
      end
      if not a.strict and mine and shape_of(mine) ~= shape_of(tensor) then
         renamed[key] = nil
      end
   end
   local ok, missing, unexpected = pcall(model.load_state_dict, model, renamed,
      {names = "pytorch", assign = true, strict = a.strict})
   if not ok then
      local why = tostring(missing):match "load_state_dict: (.*)$" or tostring(missing)
      torch.raise(("%s: %s: %s; with strict = false missing weights are random"):format(title,
         a.folder, why:gsub("; its positions seem.*$", "")))
   end
   model:tie_weights()
   return missing, unexpected
end

-- Saving ----------------------------------------------------------------------------------------

local function write(path, value)
   local failure = replace_file(path, function(file)
      return select(2, file:write(json.encode(value), "\n"))
   end)
   if failure then torch.raise(("save_pretrained: %s: %s"):format(path, failure)) end
end

-- Splits a table of tensors into a list of tables, each of at most `most` bytes. A tensor that is
-- larger gets a table of its own.
local function shards_of(state, most)
   local keys, shards, size = {}, {{}}, 0
   for key in pairs(state) do keys[#keys + 1] = key end
   table.sort(keys)
   for _, key in ipairs(keys) do
      local bytes = state[key]:numel() * state[key]:element_size()
      if size > 0 and size + bytes > most then
         shards[#shards + 1], size = {}, 0
      end
      shards[#shards][key], size = state[key], size + bytes
   end
   return shards
end

--- Saves a model in a folder, which is created if it does not exist.
---@param model text.PreTrainedModel
---@param folder string
---@param options? {max_shard_size: integer}  in bytes
function M.save(model, folder, options)
   if type(folder) ~= "string" then
      args.refuse("save_pretrained", "folder", "a folder's path", folder)
   end
   args.check_options("save_pretrained", options, "max_shard_size")
   local most = options and options.max_shard_size or math.maxinteger
   if math.type(most) ~= "integer" or most < 1 then
      args.refuse("save_pretrained", "max_shard_size", "a number of bytes", most)
   end
   local ok, message = torch.io.make_folder(folder)
   if not ok then torch.raise(("save_pretrained: %s: %s"):format(folder, message)) end
   local config = {}
   for key, value in pairs(model.config) do config[key] = value end
   config.architectures = {torch.type(model):match "[^.]+$"}
   local state = model:state_dict {names = "pytorch"}
   for _, pair in ipairs(model:tied_weights()) do state[pair[1]] = nil end
   for key, tensor in pairs(state) do state[key] = tensor:contiguous() end
   write(folder .. "/config.json", config)
   if model.generation_config then
      write(folder .. "/generation_config.json", model.generation_config)
   end
   local shards = shards_of(state, most)
   -- The weights of an earlier model are removed from the folder, since they would be loaded
   -- instead of the new weights.
   local single, index = folder .. "/model.safetensors", folder .. "/" .. index_name
   if #shards == 1 then
      torch.save(state, single)
      os.remove(index)
      return
   end
   local map, total = {}, 0
   for i, shard in ipairs(shards) do
      local name = ("model-%05d-of-%05d.safetensors"):format(i, #shards)
      torch.save(shard, folder .. "/" .. name)
      for key, tensor in pairs(shard) do
         map[key], total = name, total + tensor:numel() * tensor:element_size()
      end
   end
   write(index, {metadata = {total_size = total}, weight_map = map})
   os.remove(single)
end

return M
