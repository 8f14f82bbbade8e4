-- values.lua - the values of a template. Strings, numbers and booleans are Lua values; all other
-- values are tables with one of the metatables below, so that a template cannot reach Lua's own
-- tables and functions:
--
--    None        M.none
--    Undefined   {message =}              a name, a field or an element that does not exist
--    List        {...}                    also Tuple, Range and View (of a dict)
--    Dict        {keys = {...}, values =} the keys in their order; the values by M.key(key)
--    Generator   {next = function}        gives each element once
--    Namespace   {fields =}
--    Function    {call = function(evaluator, args, named)}

local args = require "tlua.args"
local json = require "tlua.utils.json"
local strings = require "tlua.text.template.strings"
local torch = require "tlua"

local M = {}

local function kind(name, title) return {kind = name, title = title, __name = title} end

M.None = kind("none", "None")
M.none = setmetatable({}, M.None)
M.Undefined = kind("undefined", "Undefined")
M.List = kind("list", "list object")
M.Tuple = kind("tuple", "tuple object")
M.Range = kind("range", "range object")
M.View = kind("view", "dict view")
M.Dict = kind("dict", "dict object")
M.Generator = kind("generator", "generator object")
M.Namespace = kind("namespace", "namespace object")
M.Function = kind("function", "function")
M.Loop = kind("loop", "loop object")

--- Raises an error that reports a mistake in the template.
---@param why string
---@param ... any  arguments for the format `why`
function M.fail(why, ...)
   error({template = select("#", ...) > 0 and why:format(...) or why}, 0)
end

local fail = M.fail

--- Returns the kind of a value: "string", "integer", "float" or "boolean", or for a table the field
--- `kind` of its metatable.
---@param value any
---@return string
function M.kind(value)
   local name = type(value)
   if name == "table" then return getmetatable(value).kind end
   if name == "number" then return math.type(value) end
   return name
end

local kind_of = M.kind

local types <const> = {string = "str", integer = "int", float = "float", boolean = "bool",
   none = "NoneType", undefined = "Undefined", list = "list", tuple = "tuple", range = "range",
   view = "dict view", dict = "dict", generator = "generator", namespace = "Namespace",
   ["function"] = "function", loop = "LoopContext"}

--- Returns Python's name of a value's type.
---@param value any
---@return string
function M.type_name(value) return types[kind_of(value)] end

--- Creates the undefined value that stands for a name that does not exist.
---@param why string
---@return table
function M.undefined(why) return setmetatable({message = why}, M.Undefined) end

function M.list(items) return setmetatable(items, M.List) end
function M.tuple(items) return setmetatable(items, M.Tuple) end
function M.new_function(name, call)
   return setmetatable({name = name, call = call}, M.Function)
end
function M.generator(next_value) return setmetatable({next = next_value}, M.Generator) end

-- Dicts -----------------------------------------------------------------------------------------

--- Returns the Lua key under which a dict stores an entry with the given template value as its key.
---@param key any
---@return any
function M.key(key)
   local name = kind_of(key)
   if name == "string" or name == "integer" or name == "none" then return key end
   if name == "boolean" then return key and 1 or 0 end
   if name == "float" then return key == key and key or M.none end
   if name == "undefined" then return M.Undefined end
   if name == "tuple" then
      return fail "a tuple as a key is not supported"
   end
   return fail("unhashable type: '%s'", M.type_name(key))
end

--- Makes an empty dict.
---@return table
function M.dict() return setmetatable({keys = {}, values = {}}, M.Dict) end

--- Sets a field of a dict.
function M.put(dict, key, value)
   local at = M.key(key)
   if dict.values[at] == nil then dict.keys[#dict.keys + 1] = key end
   dict.values[at] = value
end

--- Returns a field of a dict, or nil.
function M.get(dict, key) return dict.values[M.key(key)] end

-- The usual order of the keys of messages and tools. Lua tables have no order, so their keys are
-- put into this order. All other keys follow, sorted.
local usual <const> = {}
for i, name in ipairs {"id", "type", "function", "role", "name", "description", "parameters",
   "arguments", "properties", "items", "enum", "required", "return", "content", "text",
   "reasoning_content", "tool_calls", "tool_call_id"} do
   usual[name] = i
end

local function before(a, b)
   local x, y = usual[a] or math.huge, usual[b] or math.huge
   if x ~= y then return x < y end
   return a < b
end

local most_nested <const> = 100

local function from_table(value, depth)
   if depth > most_nested then fail("a value is nested more than %d deep", most_nested) end
   local is_list = json.is_array(value) or #value > 0 or torch._is_size(value)
   if is_list then
      local list = M.list {}
      for i = 1, #value do list[i] = M.from_lua(value[i], depth + 1) end
      return list
   end
   local keys = {}
   for key in pairs(value) do
      if type(key) ~= "string" then
         fail("expected texts as keys of a table, got %s", args.describe(key))
      end
      keys[#keys + 1] = key
   end
   table.sort(keys, before)
   local dict = M.dict()
   for i, key in ipairs(keys) do
      dict.keys[i], dict.values[key] = key, M.from_lua(value[key], depth + 1)
   end
   return dict
end

--- Converts a Lua value. Tables with a first element become lists, and all other tables become
--- dicts. Values of other types, such as tensors, become a text with the name of their type.
---@param value any
---@param depth? integer
---@return any
function M.from_lua(value, depth)
   local name = type(value)
   if name == "string" then
      local length, at = utf8.len(value)
      if not length then fail("expected UTF-8, byte %d of a text is not", at) end
      return value
   elseif name == "number" or name == "boolean" then
      return value
   elseif name == "nil" or rawequal(value, json.null) then
      return M.none
   elseif name == "table" then
      local meta = getmetatable(value)
      if type(meta) == "table" and (meta == M.Dict or meta == M.List or meta == M.None) then
         return value
      end
      if not meta or json.is_array(value) or torch._is_size(value) then
         return from_table(value, depth or 0)
      end
   end
   -- Templates only test whether an image or a sound is present, so a placeholder represents it.
   return ("<%s>"):format(torch.type(value))
end

-- Elements --------------------------------------------------------------------------------------

--- Returns an iterator function that returns the next element at each call, and nil at the end.
---@param value any
---@return fun(): any
function M.iterate(value)
   local name, i = kind_of(value), 0
   local list = value
   if name == "string" then
      list = strings.characters(value)
   elseif name == "dict" then
      list = value.keys
   elseif name == "generator" then
      return value.next
   elseif name == "undefined" then
      return function() return nil end
   elseif name ~= "list" and name ~= "tuple" and name ~= "range" and name ~= "view" then
      fail("'%s' object is not iterable", M.type_name(value))
   end
   return function()
      i = i + 1
      return list[i]
   end
end

--- Returns a value's elements as a Lua list.
---@param value any
---@return any[]
function M.elements(value)
   local list, n = {}, 0
   for item in M.iterate(value) do
      n = n + 1
      list[n] = item
   end
   return list
end

--- Returns the number of elements, or nil if the value has none.
---@param value any
---@return integer?
function M.length(value)
   local name = kind_of(value)
   if name == "string" then return strings.length(value) end
   if name == "dict" then return #value.keys end
   if name == "undefined" then return 0 end
   if name == "list" or name == "tuple" or name == "range" or name == "view" then return #value end
   if name == "loop" then return value.length end
   return nil
end

--- Returns whether a value counts as true.
---@param value any
---@return boolean
function M.truth(value)
   local name = type(value)
   if name == "boolean" then return value end
   if name == "string" then return value ~= "" end
   if name == "number" then return value ~= 0 end
   if value == M.none then return false end
   local length = kind_of(value) ~= "loop" and M.length(value)
   return not length or length > 0
end

-- Comparison ------------------------------------------------------------------------------------

--- Converts a number or a boolean to a number; returns nil for other values.
---@param value any
---@return number?
function M.number(value)
   if type(value) == "number" then return value end
   if type(value) == "boolean" then return value and 1 or 0 end
   return nil
end

--- Returns whether two values are equal.
---@param a any
---@param b any
---@return boolean
function M.equal(a, b)
   local x, y = M.number(a), M.number(b)
   if x or y then return x == y end
   if type(a) == "string" or type(b) == "string" or rawequal(a, b) then return a == b end
   local name = kind_of(a)
   if name ~= kind_of(b) then return false end
   if name == "undefined" then return true end
   if name == "dict" then
      if #a.keys ~= #b.keys then return false end
      for key, value in pairs(a.values) do
         if b.values[key] == nil or not M.equal(value, b.values[key]) then return false end
      end
      return true
   elseif name == "list" or name == "tuple" or name == "range" then
      if #a ~= #b then return false end
      for i = 1, #a do
         if not M.equal(a[i], b[i]) then return false end
      end
      return true
   end
   return false
end

-- Compares strings by code points. This is the same as the order of the bytes of UTF-8.
local function text_less(a, b)
   local length = math.min(#a, #b)
   for i = 1, length do
      local x, y = a:byte(i), b:byte(i)
      if x ~= y then return x < y end
   end
   return #a < #b
end

--- Returns whether a is less than b.
---@param a any
---@param b any
---@param sign? string  the operator, for error messages
---@return boolean
function M.less(a, b, sign)
   local x, y = M.number(a), M.number(b)
   if x and y then return x < y end
   if type(a) == "string" and type(b) == "string" then return text_less(a, b) end
   for _, value in ipairs {a, b} do
      if kind_of(value) == "undefined" then fail(value.message) end
   end
   local name = kind_of(a)
   if name == kind_of(b) and (name == "list" or name == "tuple") then
      for i = 1, math.min(#a, #b) do
         if not M.equal(a[i], b[i]) then return M.less(a[i], b[i], sign) end
      end
      return #a < #b
   end
   return fail("'%s' not supported between instances of '%s' and '%s'", sign or "<",
      M.type_name(a), M.type_name(b))
end

--- Returns whether a value is in a container, as Python's operator `in` does.
---@param container any
---@param value any
---@return boolean
function M.contains(container, value)
   local name = kind_of(container)
   if name == "string" then
      if type(value) ~= "string" then
         fail("'in <string>' requires string as left operand, not %s", M.type_name(value))
      end
      return container:find(value, 1, true) ~= nil
   elseif name == "dict" then
      return M.get(container, value) ~= nil
   elseif name == "integer" or name == "float" or name == "boolean" or name == "none" then
      fail("argument of type '%s' is not a container or iterable", M.type_name(container))
   end
   for item in M.iterate(container) do
      if M.equal(item, value) then return true end
   end
   return false
end

-- Text ------------------------------------------------------------------------------------------

local function joined(list, open, close, depth)
   local parts = {}
   for i, item in ipairs(list) do parts[i] = M.repr(item, depth + 1) end
   return open .. table.concat(parts, ", ") .. close
end

--- Returns a value as Python's repr does.
---@param value any
---@param depth? integer
---@return string
function M.repr(value, depth)
   depth = depth or 0
   if depth > most_nested then fail("a value is nested more than %d deep", most_nested) end
   local name = kind_of(value)
   if name == "string" then return strings.repr(value) end
   if name == "integer" or name == "float" then return strings.number(value) end
   if name == "boolean" then return value and "True" or "False" end
   if name == "none" then return "None" end
   if name == "undefined" then return "Undefined" end
   if name == "list" then return joined(value, "[", "]", depth) end
   if name == "tuple" then return joined(value, "(", #value == 1 and ",)" or ")", depth) end
   if name == "view" then return joined(value, value.name .. "([", "])", depth) end
   if name == "range" then
      local tail = value.step == 1 and "" or ", " .. value.step
      return ("range(%d, %d%s)"):format(value.start, value.stop, tail)
   elseif name == "dict" then
      local parts = {}
      for i, key in ipairs(value.keys) do
         parts[i] = M.repr(key, depth + 1) .. ": " .. M.repr(M.get(value, key), depth + 1)
      end
      return "{" .. table.concat(parts, ", ") .. "}"
   end
   if value.is_macro then
      return value.name == "caller" and "<Macro anonymous>"
         or ("<Macro %s>"):format(strings.repr(value.name))
   end
   return ("<%s>"):format(M.type_name(value))
end

--- Returns the text that a template outputs for a value.
---@param value any
---@return string
function M.text(value)
   if type(value) == "string" then return value end
   if type(value) == "table" and getmetatable(value) == M.Undefined then return "" end
   return M.repr(value)
end

-- JSON ------------------------------------------------------------------------------------------

local function escaped(character)
   local code = utf8.codepoint(character)
   if code < 0x10000 then return ("\\u%04x"):format(code) end
   code = code - 0x10000
   return ("\\u%04x\\u%04x"):format(0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))
end

local json_short <const> = {['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f",
   ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function json_text(text, ascii)
   text = text:gsub('[\0-\31"\\]', function(c) return json_short[c] or escaped(c) end)
   if ascii then
      text = text:gsub("[\xC2-\xF4][\x80-\xBF]+", escaped)
   end
   return '"' .. text .. '"'
end

local function json_number(value)
   local text = strings.number(value)
   return ({nan = "NaN", inf = "Infinity", ["-inf"] = "-Infinity"})[text] or text
end

local write_json

local function json_key(key, options)
   local name = kind_of(key)
   if name == "string" then return json_text(key, options.ascii) end
   if name == "integer" or name == "float" then return '"' .. json_number(key) .. '"' end
   if name == "boolean" then return key and '"true"' or '"false"' end
   if name == "none" then return '"null"' end
   return fail("keys must be str, int, float, bool or None, not %s", M.type_name(key))
end

local function json_list(parts, open, close, options, level)
   if #parts == 0 then return open .. close end
   if not options.indent then return open .. table.concat(parts, options.comma) .. close end
   local line = "\n" .. options.indent:rep(level + 1)
   return open .. line .. table.concat(parts, options.comma .. line) .. "\n"
      .. options.indent:rep(level) .. close
end

function write_json(value, options, level)
   if level > most_nested then fail("a value is nested more than %d deep", most_nested) end
   local name = kind_of(value)
   if name == "string" then return json_text(value, options.ascii) end
   if name == "integer" or name == "float" then return json_number(value) end
   if name == "boolean" then return tostring(value) end
   if name == "none" then return "null" end
   local parts = {}
   if name == "list" or name == "tuple" then
      for i, item in ipairs(value) do parts[i] = write_json(item, options, level + 1) end
      return json_list(parts, "[", "]", options, level)
   elseif name == "dict" then
      local keys = table.move(value.keys, 1, #value.keys, 1, {})
      if options.sorts then table.sort(keys, M.less) end
      for i, key in ipairs(keys) do
         parts[i] = json_key(key, options) .. options.colon
            .. write_json(M.get(value, key), options, level + 1)
      end
      return json_list(parts, "{", "}", options, level)
   end
   return fail("Object of type %s is not JSON serializable", M.type_name(value))
end

--- Returns a value as JSON.
---@param value any
---@param options {ascii: boolean, indent?: string, comma: string, colon: string, sorts: boolean}
---@return string
function M.to_json(value, options) return write_json(value, options, 0) end

return M
