-- architecture.lua - creates modules from an architecture, which is plain data. An architecture is
-- the name of a class or builder of this library, or a list of such a name and its arguments. An
-- argument that is itself such a list is a module:
--
--    "vision.models.resnet18"
--    {"nn.Sequential", {"nn.Linear", 784, 64}, {"nn.ReLU"}, {"nn.Linear", 64, 10}}
--
-- Names are looked up in the tables below and nowhere else, and arguments are plain data. A file
-- from a stranger therefore runs no code of its own and opens no other file.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

local MOST_PARTS <const> = 100000 -- the largest number of modules and tables in an architecture
local DEEPEST <const> = 50

local expected <const> = 'a name such as "nn.Sequential" or "vision.models.resnet18", or a list of '
   .. "a name and its arguments"

-- Throws an error about the data. `build` catches it, and returns a message that names the field.
local function fail(place, message) error({place = place, message = message}, 0) end

local function public(group, name)
   return name:find "^%a[%w_]*$" and pcall(function() return group[name] end) and group[name] or nil
end

local function class_in(group)
   return function(name)
      local found = public(group(), name)
      if class.issubclass(found, torch.nn.Module) then return found end
      return nil
   end
end

-- Wraps a builder of torch.vision so that it refuses options such as weights and weights_backbone,
-- because a builder would open the files that these options name.
local function without_files(builder)
   return function(options, ...)
      for key in pairs(type(options) == "table" and options or {}) do
         if type(key) == "string" and key:find "^weights" then
            error(("option %s: a model from data reads no other file"):format(key), 0)
         end
      end
      return builder(options, ...)
   end
end

-- Maps a name without its last part, such as "graphs.nn", to a function. This function maps the
-- last part of the name to a class or builder, or to nil if there is none.
local groups <const> = {
   nn = class_in(function() return torch.nn end),
   ["graphs.nn"] = class_in(function() return torch.graphs.nn end),
   ["vision.models"] = function(name)
      local known = {}
      for _, model in ipairs(torch.vision.models.list_models()) do known[model] = true end
      return known[name] and without_files(torch.vision.models.get_model_builder(name)) or nil
   end,
   ["audio.models"] = function(name)
      local found = not name:find "features$" and public(torch.audio.models, name)
      return class.issubclass(found, torch.nn.Module) and found
         or type(found) == "function" and without_files(found) or nil
   end,
   text = function(name)
      if not name:find "^%u%w*$" then return nil end
      return function(config) return torch.text.from_config(config, {architecture = name}) end
   end,
}

local function names_of_groups()
   local list = {}
   for name in pairs(groups) do list[#list + 1] = name .. "." end
   table.sort(list)
   return table.concat(list, ", ")
end

-- Splits a name into its group and its last part. A name such as vision.models.detection.NAME
-- belongs to the group vision.models.
local function split(name)
   local group, last = name:match "^(.*)%.([%w_]+)$"
   if group and group:find "^vision%.models%.%l+$" then group = "vision.models" end
   return group, last
end

-- Returns the class or builder with the given name, which creates a module. Raises an error if
-- there is none.
local function maker(name, place)
   local group, last = split(name)
   if not groups[group] then
      fail(place, ("expected a name that begins with one of %s; got %q"):format(names_of_groups(),
         name))
   end
   local ok, found = pcall(groups[group], last)
   -- The call fails if the package is not installed.
   if not ok then fail(place, (tostring(found):gsub("^[^\n]-:%d+: ", ""))) end
   return found or fail(place, "there is no " .. name)
end

local function is_module_name(value)
   return type(value) == "string" and groups[split(value)] ~= nil
end

local make

-- Converts an argument of a class or builder. Numbers, strings and booleans are returned unchanged.
-- A list that begins with a name becomes a module. In any other table, each value is converted.
local function argument(value, place, state, depth)
   if type(value) ~= "table" then
      local kind = type(value)
      if kind ~= "number" and kind ~= "string" and kind ~= "boolean" then
         fail(place, ("expected data, got %s"):format(args.describe(value)))
      end
      return value
   end
   if is_module_name(value[1]) then return make(value, place, state, depth) end
   state.parts = state.parts + 1
   if depth > DEEPEST then fail(place, "nested too deeply") end
   if state.parts > MOST_PARTS then fail(place, "too many modules") end
   if getmetatable(value) and not torch.utils.json.is_array(value) then
      fail(place, ("expected data, got %s"):format(args.describe(value)))
   end
   local copy = {}
   for key, item in pairs(value) do
      copy[key] = argument(item, ("%s[%s]"):format(place, tostring(key)), state, depth + 1)
   end
   return copy
end

-- Creates a module from a list that begins with a name. Each call counts the parts and the depth,
-- both of which are limited.
function make(list, place, state, depth)
   state.parts = state.parts + 1
   if depth > DEEPEST then fail(place, "nested too deeply") end
   if state.parts > MOST_PARTS then fail(place, "too many modules") end
   local name = list[1]
   if type(name) ~= "string" then fail(place, ("expected %s, got %s"):format(expected,
      args.describe(name or list))) end
   local build, arguments = maker(name, place), {}
   local n = #list
   for i = 2, n do
      arguments[i - 1] = argument(list[i], ("%s[%d]"):format(place, i), state, depth + 1)
   end
   for key in pairs(list) do
      if math.type(key) ~= "integer" or key < 1 or key > n then
         fail(place, ("expected a list, got the key %s"):format(args.describe(key)))
      end
   end
   local ok, module = pcall(build, table.unpack(arguments, 1, n - 1))
   if not ok then
      if type(module) == "table" then error(module, 0) end
      fail(place, (tostring(module):gsub("^[^\n]-:%d+: ", ""):gsub("\nstack traceback:.*", "")))
   end
   if not class.isinstance(module, torch.nn.Module) then
      fail(place, ("%s: expected a module, got %s"):format(name, args.describe(module)))
   end
   return module
end

--- Checks the form of an architecture. Returns nil if it is valid, and otherwise a text that says
--- what was expected.
---@param value any
---@return string? expected
function M.wrong(value)
   if type(value) == "string" then return nil end
   if type(value) == "table" and type(value[1]) == "string" then return nil end
   return expected
end

--- Creates a module.
---@param value string|table
---@param options? table<string, any>  the options, if the architecture is a name
---@param place string  the field, for error messages
---@return nn.Module? module  nil on failure
---@return string? message
function M.build(value, options, place)
   local list = value
   if type(value) == "string" then
      list = {value}
      if options and next(options) ~= nil then list[2] = options end
   end
   local ok, module = pcall(make, list, place, {parts = 0}, 0)
   if ok then return module end
   if type(module) ~= "table" or not module.place then error(module, 0) end
   return nil, ("%s: %s"):format(module.place, module.message)
end

return M
