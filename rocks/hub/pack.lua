-- pack.lua - writes a model as one safetensors file that describes itself.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local json = require "tlua.utils.json"
local safetensors = require "tlua.io.safetensors"
local suggest = require "tlua.utils.suggest"
local architecture = require "tlua.hub.architecture"
local manifest = require "tlua.hub.manifest"
local weights = require "tlua.hub.weights"

local fields <const> = {name = true, architecture = true, options = true, weights = true,
   license = true, licence = true, card = true, summary = true, config = true}

-- Returns weights as a table of tensors with PyTorch's names. `given` is a module, the path of a
-- file, or a table of tensors.
local function state_of(title, given, model)
   if class.isinstance(given, torch.nn.Module) then
      return given:state_dict {names = "pytorch"}
   elseif type(given) == "string" then
      local tensors, message = weights.read(given)
      if not tensors then torch.raise(("%s: weights: %s"):format(title, message)) end
      return tensors
   elseif type(given) ~= "table" or getmetatable(given) then
      args.refuse(title, "weights",
         "a module, a table of tensors or the path of a safetensors file", given)
   end
   for key, value in pairs(given) do
      if type(key) ~= "string" or not torch.is_tensor(value) then
         args.refuse(title, "weights", "tensors by name", value)
      end
   end
   -- In tlua's state dicts, layers count from 1; in PyTorch's names, they count from 0. So the
   -- table may fit only with tlua's names.
   if weights.compare("", model:state_dict {names = "pytorch"}, given)
         and not weights.compare("", model:state_dict(), given) then
      model:load_state_dict(given)
      return model:state_dict {names = "pytorch"}
   end
   return given
end

-- Returns the manifest's entry for a model, and the model's weights.
local function entry_of(title, model)
   for key in pairs(model) do
      if not fields[key] then
         torch.raise(("%s: unknown field %s%s"):format(title, args.describe(key),
            suggest.hint(tostring(key), fields)))
      end
   end
   if model.license and model.licence then torch.raise(title .. ": license: given twice") end
   local entry = {architecture = model.architecture, options = model.options, card = model.card,
      license = model.license or model.licence, summary = model.summary, config = model.config}
   -- The data are encoded as JSON and decoded again, so that the checks see the values that a
   -- reader will see.
   for key, value in pairs(entry) do
      local ok, text = pcall(json.encode, value)
      if not ok then
         torch.raise(("%s: %s: expected data that JSON can represent: %s"):format(title, key,
            (tostring(text):gsub("^[^\n]-:%d+: ", ""))))
      end
      entry[key] = json.decode(text)
   end
   local failure = manifest.check_entry("model", entry, true)
   if failure then torch.raise(("%s: %s"):format(title, failure)) end
   local built, message = architecture.build(entry.architecture, entry.options, "architecture")
   if not built then torch.raise(("%s: %s"):format(title, message)) end
   if model.weights == nil then
      torch.raise(title .. ": weights is missing; expected a module, a table of tensors or a file")
   end
   local state = state_of(title, model.weights, built)
   local problem = weights.compare("weights", built:state_dict {names = "pytorch"}, state)
   if problem then torch.raise(("%s: %s"):format(title, problem)) end
   return entry, state
end

--- Writes a model as one file. See hub.pack.
---@param title string
---@param model table
---@param path? string
---@return string path
return function(title, model, path)
   local name = model.name
   if type(name) ~= "string" or not name:find "^[%w_][%w_.-]*$" or #name > 100 then
      args.refuse(title, "name", "a name of letters, digits, _, . and -", name)
   end
   path = path or name .. ".safetensors"
   if not path:find "%.safetensors$" then
      args.refuse(title, "path", "a name that ends with .safetensors", path)
   end
   local entry, state = entry_of(title, model)
   entry.checksums = weights.checksums(state)
   local list = {}
   for key, tensor in pairs(state) do
      list[#list + 1] = {name = key, tensor = tensor:detach():cpu():contiguous()}
   end
   local failure = require "tlua.io.replace"(path, function(file)
      return safetensors.write(file, list, {format = "pt",
         [manifest.KEY] = manifest.compose {[name] = entry}})
   end)
   if failure then torch.raise(("%s: %s: %s"):format(title, path, failure)) end
   return path
end
