-- schema.lua - operators' schemas as PyTorch writes them, "(Tensor x, float by=2, *, int[] dims=[])
-- -> Tensor": reads them, and matches arguments with them.

local torch = require "tlua"
local args = require "tlua.args"
local suggest = require "tlua.utils.suggest"

local M = {}

---@class library.Parameter
---@field name string
---@field type string  without the `?` of an optional one
---@field optional boolean  nil is accepted
---@field mutated boolean  the operator changes it in place: Tensor(a!)
---@field default any  nil where has_default is false
---@field has_default boolean
---@field keyword boolean  whether the argument is given by name only

---@class library.Schema
---@field text string
---@field params library.Parameter[]
---@field results string[]  their types

local function is_list_of(item)
   return function(value)
      if type(value) ~= "table" or getmetatable(value) then return false end
      for _, each in ipairs(value) do
         if not item(each) then return false end
      end
      return true
   end
end

local function is_tensor(value) return torch.is_tensor(value) end
local function is_integer(value) return math.type(value) == "integer" end
local function is_number(value) return type(value) == "number" end
local function is_of(kind) return function(value) return type(value) == kind end end

-- Maps a type to its name in messages, and to a function that returns whether a value has the type.
local types <const> = {
   Tensor = {"a tensor", is_tensor},
   ["Tensor[]"] = {"a list of tensors", is_list_of(is_tensor)},
   ["Tensor?[]"] = {"a list of tensors", is_list_of(is_tensor)},
   int = {"an integer", is_integer},
   ["int[]"] = {"a list of integers", is_list_of(is_integer)},
   float = {"a number", is_number},
   ["float[]"] = {"a list of numbers", is_list_of(is_number)},
   bool = {"true or false", is_of "boolean"},
   ["bool[]"] = {"a list of booleans", is_list_of(is_of "boolean")},
   str = {"a string", is_of "string"},
   Scalar = {"a number or a boolean", function(value)
      return is_number(value) or type(value) == "boolean"
   end},
   Device = {"a device", function(value) return torch._to_device(value) ~= nil end},
   ScalarType = {"a dtype", is_of "string"},
   Generator = {"a torch.Generator", function(value) return type(value) == "userdata" end},
}
types.SymInt, types["SymInt[]"] = types.int, types["int[]"]

local function trim(text) return (text:gsub("^%s+", ""):gsub("%s+$", "")) end

-- Splits a text at the commas outside of brackets.
local function split(text)
   local parts, depth, from = {}, 0, 1
   for at, sign in text:gmatch "()([%[%](),])" do
      if sign == "," and depth == 0 then
         parts[#parts + 1] = trim(text:sub(from, at - 1))
         from = at + 1
      elseif sign == "[" or sign == "(" then
         depth = depth + 1
      elseif sign ~= "," then
         depth = depth - 1
      end
   end
   local last = trim(text:sub(from))
   if last ~= "" or #parts > 0 then parts[#parts + 1] = last end
   return parts
end

local constants <const> = {True = true, False = false}

-- Returns the value of a default; the second result is false if the text is no value.
local function to_value(text)
   if text == "None" then return nil, true end
   if constants[text] ~= nil then return constants[text], true end
   local number = tonumber(text)
   if number then return number, true end
   local quoted = text:match '^"([^"\\]*)"$' or text:match "^'([^'\\]*)'$"
   if quoted then return quoted, true end
   local items = text:match "^%[(.*)%]$"
   if not items then return nil, false end
   local list = {}
   for i, item in ipairs(split(items)) do
      local value, good = to_value(item)
      if not good or value == nil then return nil, false end
      list[i] = value
   end
   return list, true
end

-- Reads a type such as "Tensor(a!)?". Returns the type without the annotation in parentheses and
-- the question mark, whether the annotation says that the argument is changed, and whether the
-- argument is optional.
local function read_type(text)
   local alias = text:match "%(([^)]*)%)"
   local plain = trim((text:gsub("%([^)]*%)", "")))
   plain = plain:gsub("%[%d+%]", "[]")
   local optional = plain:sub(-1) == "?"
   if optional then plain = plain:sub(1, -2) end
   return plain, alias ~= nil and alias:find("!", 1, true) ~= nil, optional
end

local function read_parameter(fail, text, keyword)
   local left, default = text:match "^(.-)%s*=%s*(.*)$"
   left = left or text
   local kind, name = left:match "^(.-)%s+([%a_][%w_]*)$"
   if not kind then fail(('expected "type name", got %q'):format(text)) end
   local plain, mutated, optional = read_type(kind)
   if not types[plain] then
      local known = {}
      for each in pairs(types) do known[#known + 1] = each end
      fail(("unknown type %s%s"):format(plain, suggest.hint(plain, known)))
   end
   local value, good = nil, true
   if default then value, good = to_value(default) end
   if not good then fail(("%s: cannot read the default %s"):format(name, default)) end
   return {
      name = name, type = plain, optional = optional, mutated = mutated, keyword = keyword,
      has_default = default ~= nil, default = value,
   }
end

--- Parses the text of an operator's schema.
---@param who string  the function, for messages
---@param text string  "(Tensor x, int n=1) -> Tensor"
---@return library.Schema
function M.read(who, text)
   local function fail(why)
      torch.raise(("%s: schema %s: %s"):format(who, tostring(text), why))
   end
   if type(text) ~= "string" then args.refuse(who, "schema", "a string", text) end
   local list, result = text:match "^%s*%((.*)%)%s*%->%s*(.-)%s*$"
   if not list then fail 'expected "(arguments) -> results"' end
   local schema = {text = trim(text), params = {}, results = {}}
   local keyword = false
   for _, part in ipairs(split(list)) do
      if part == "*" then
         keyword = true
      else
         schema.params[#schema.params + 1] = read_parameter(fail, part, keyword)
      end
   end
   for _, part in ipairs(split(result:match "^%((.*)%)$" or result)) do
      local plain = read_type(part:match "^(.-%S)%s+[%a_][%w_]*$" or part)
      if not types[plain] then fail(("unknown type %s of a result"):format(plain)) end
      schema.results[#schema.results + 1] = plain
   end
   return schema
end

-- Returns whether a value is a table from names to arguments.
local function has_names(value)
   return type(value) == "table" and not getmetatable(value) and type(next(value)) == "string"
end

local function check(who, param, value)
   if value == nil then
      if param.optional or param.has_default and param.default == nil then return end
      torch.raise(("%s: %s is missing; expected %s"):format(who, param.name, types[param.type][1]))
   end
   local expected, fits = table.unpack(types[param.type])
   if not fits(value) then args.refuse(who, param.name, expected, value) end
end

-- Moves arguments that were given by name to the positions of their parameters.
local function take_names(who, schema, given, named)
   local known = {}
   for i, param in ipairs(schema.params) do known[i], known[param.name] = param.name, i end
   for name, value in pairs(named) do
      local at = known[name]
      if type(name) ~= "string" or not at then
         torch.raise(("%s: unknown argument %s%s"):format(who, tostring(name),
            suggest.hint(tostring(name), known)))
      end
      if given[at] ~= nil then
         torch.raise(("%s: %s is given by position and by name"):format(who, name))
      end
      given[at] = value
   end
end

--- Returns the arguments of a call as a list, with defaults filled in and their number as `n`.
---@param who string  the operator
---@param schema library.Schema
---@param given table  the arguments, as table.pack returns them; a table of names may be the last
---@return table
function M.bind(who, schema, given)
   local out, n = {n = #schema.params}, given.n
   local named = n > 0 and has_names(given[n]) and given[n]
   if named then n = n - 1 end
   local positions = 0
   for _, param in ipairs(schema.params) do
      if not param.keyword then positions = positions + 1 end
   end
   if n > positions then
      torch.raise(("%s: expected at most %d arguments, got %d; the operator is %s%s"):format(who,
         positions, n, who, schema.text))
   end
   for i = 1, n do out[i] = given[i] end
   if named then take_names(who, schema, out, named) end
   for i, param in ipairs(schema.params) do
      if out[i] == nil then out[i] = param.default end
      check(who, param, out[i])
   end
   return out
end

return M
