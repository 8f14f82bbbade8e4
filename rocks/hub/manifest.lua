-- manifest.lua - reads and checks descriptions of models. They are in a repository's file hub.json,
-- or in the entry "tlua.hub" of the metadata of a packed safetensors file. Both are JSON such as
--
--    {"format": "tlua-hub", "version": 1, "models": {"digits": {
--       "architecture": ["nn.Sequential", ["nn.Linear", 784, 10]],
--       "weights": "digits.safetensors", "sha256": "...",
--       "summary": "...", "license": "MIT", "card": "...", "config": {}}}}
--
-- `architecture` is described in architecture.lua. If it is a name instead of a list, the entry may
-- also have `options`, an object. `weights` is a file of the repository, or an https URL, which
-- needs `sha256`. A packed file contains the weights; in place of `weights` and `sha256`, it has
-- `checksums` of the tensors.

local args = require "tlua.args"
local json = require "tlua.utils.json"
local suggest = require "tlua.utils.suggest"
local architecture = require "tlua.hub.architecture"
local names = require "tlua.hub.names"

local M = {}

M.KEY = "tlua.hub" -- the key of the manifest in the metadata of a packed file
M.VERSION = 1

local MOST <const> = 1 << 24 -- the largest size of a manifest in bytes

local function is_object(value)
   return type(value) == "table" and value ~= json.null and not json.is_array(value)
end

local function of_type(kind, expected)
   return function(value) return type(value) ~= kind and expected or nil end
end

local function is_sum(value)
   return type(value) == "string" and #value == 64 and not value:find "[^%da-f]"
end

local function wrong_sum(value)
   return not is_sum(value) and "64 hexadecimal digits in lower case" or nil
end

-- Maps the fields of a model's entry to functions that check a value. Such a function returns nil
-- for a valid value, and otherwise a text that says which kind of value was expected.
local fields <const> = {
   architecture = architecture.wrong,
   options = function(value) return not is_object(value) and "an object" or nil end,
   config = function(value) return not is_object(value) and "an object" or nil end,
   weights = function(value)
      if type(value) == "string" and value:find "^https://" then return nil end
      local name, expected = names.file(value)
      if name and name:lower():find "%.safetensors$" then return nil end
      return name and "a safetensors file" or expected .. ", or an https URL"
   end,
   sha256 = wrong_sum,
   checksums = function(value)
      if not is_object(value) then return "an object" end
      for _, sum in pairs(value) do
         if not is_sum(sum) then return "SHA-256 checksums by the tensors' names" end
      end
      return nil
   end,
   summary = of_type("string", "a text"),
   license = of_type("string", "a text"),
   card = of_type("string", "a text"),
}

-- Copies decoded JSON values. In the copy, nil stands in place of json.null.
local function plain(value)
   if value == json.null then return nil end
   if type(value) ~= "table" then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = plain(item) end
   return json.is_array(value) and json.as_array(copy) or copy
end

--- Checks a model's entry. Returns nil, or a message that names the field.
---@param place string  the location of the entry in the file, for error messages
---@param entry any
---@param packed boolean  whether the file contains the weights
---@return string? failure
function M.check_entry(place, entry, packed)
   if not is_object(entry) then
      return ("%s: expected an object, got %s"):format(place, args.describe(entry))
   end
   for key, value in pairs(entry) do
      local wrong = fields[key]
      if not wrong or packed and (key == "weights" or key == "sha256") then
         return ("%s: unknown field %s%s"):format(place, args.describe(key),
            wrong and "; a packed file contains its weights"
            or suggest.hint(tostring(key), fields))
      end
      local expected = wrong(value)
      if expected then
         return ("%s.%s: expected %s, got %s"):format(place, key, expected, args.describe(value))
      end
   end
   if entry.architecture == nil then
      return place .. ".architecture is missing; expected " .. architecture.wrong(nil)
   elseif entry.weights and entry.weights:find "^https://" and not entry.sha256 then
      return place .. ".sha256 is missing; weights from a URL need it"
   elseif entry.options and type(entry.architecture) ~= "string" then
      return place .. ".options: expected them in the list of the architecture"
   end
   return nil
end

--- Parses a manifest. Returns a table of the models by name, or nil and a message that names the
--- field.
---@param text string
---@param packed boolean  whether the file contains the weights
---@return table<string, table>? models
---@return string? message
function M.parse(text, packed)
   if #text > MOST then return nil, "the manifest is too long" end
   local value, message = json.decode(text)
   if value == nil then return nil, message end
   if not is_object(value) then return nil, "expected a JSON object" end
   if value.format ~= "tlua-hub" then
      return nil, ('format: expected "tlua-hub", got %s'):format(args.describe(value.format))
   elseif value.version ~= M.VERSION then
      return nil, ("version: expected %d, got %s"):format(M.VERSION, args.describe(value.version))
   elseif not is_object(value.models) then
      return nil, ("models: expected an object, got %s"):format(args.describe(value.models))
   end
   for key in pairs(value) do
      if key ~= "format" and key ~= "version" and key ~= "models" then
         return nil, ("unknown field %q"):format(key)
      end
   end
   local models = {}
   for name, entry in pairs(value.models) do
      local place = "models." .. name
      if not name:find "^[%w_][%w_.-]*$" or #name > 100 then
         return nil, ("models: %q: expected a name of letters, digits, _, . and -"):format(name)
      end
      entry = plain(entry)
      local failure = M.check_entry(place, entry, packed)
      if failure then return nil, failure end
      models[name] = entry
   end
   if next(models) == nil then return nil, "models: expected at least one" end
   return models
end

--- Returns the text of a manifest that describes the given models.
---@param models table<string, table>
---@return string
function M.compose(models)
   return json.encode {format = "tlua-hub", version = M.VERSION, models = models}
end

return M
