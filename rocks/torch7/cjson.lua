-- cjson.lua - the package lua-cjson, by which programs of Torch7's time read and write JSON. It
-- uses tlua's own reader and writer, which accept only what the standard allows.

local tlua = require "tlua"
local json = require "tlua.utils.json"

local M = {_NAME = "cjson", _VERSION = "2.1.0", null = json.null}

-- An array up to this index may have any number of gaps, which are written as null. In longer
-- arrays at least half of the elements must exist.
local most_sparse <const> = 10

-- Returns the greatest key of a table whose keys are all positive integers. Returns nil for other
-- tables and for an empty table.
local function length_of(value)
   local most, count = 0, 0
   for key in pairs(value) do
      local n = type(key) == "number" and math.tointeger(key)
      if not n or n < 1 then return nil end
      most, count = math.max(most, n), count + 1
   end
   if most > most_sparse and most > 2 * count then
      tlua.raise "cjson.encode: cannot serialise table: excessively sparse array"
   end
   return count > 0 and most or nil
end

local function key_of(key)
   if type(key) == "string" then return key end
   if type(key) ~= "number" then
      tlua.raise("cjson.encode: cannot serialise table: table key must be a number or string, got "
         .. type(key))
   end
   return ("%.14g"):format(key)
end

-- Converts a value to the form that tlua's JSON writer expects. For example, nil becomes json.null
-- and a float with an integral value becomes an integer.
local function to_json(value, seen)
   if value == nil then return json.null end
   if math.type(value) == "float" then return math.tointeger(value) or value end
   if type(value) ~= "table" or value == json.null then return value end
   if seen[value] then tlua.raise "cjson.encode: cannot serialise: a table contains itself" end
   seen[value] = true
   local made, n = {}, length_of(value)
   if n then
      for i = 1, n do made[i] = to_json(value[i], seen) end
      json.as_array(made)
   else
      for key, element in pairs(value) do made[key_of(key)] = to_json(element, seen) end
   end
   seen[value] = nil
   return made
end

-- Removes the metatables with which tlua's JSON reader marks arrays from a value and everything in
-- it.
local function from_json(value)
   if type(value) ~= "table" or value == json.null then return value end
   for _, element in next, value do from_json(element) end
   return setmetatable(value, nil)
end

--- Returns the JSON text of a value. A table whose keys are positive integers becomes an array; any
--- other table, even an empty one, becomes an object. Raises an error if JSON cannot represent the
--- value.
---@param value any
---@return string
function M.encode(value) return json.encode(to_json(value, {})) end

--- Parses a JSON text and returns its value. null becomes cjson.null. Raises an error if the text
--- is not JSON.
---@param text string
---@return any
function M.decode(text)
   if type(text) ~= "string" then
      tlua.raise("cjson.decode: text: expected a string, got " .. type(text))
   end
   local value, problem = json.decode(text)
   if value == nil then tlua.raise("cjson.decode: " .. tostring(problem)) end
   return from_json(value)
end

--- Returns an independent copy of the package.
---@return table
function M.new()
   local copy = {}
   for name, value in pairs(M) do copy[name] = value end
   return copy
end

return M
