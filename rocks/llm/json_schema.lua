-- json_schema.lua - translates JSON schemas to GBNF. A keyword that restricts values but cannot be
-- translated raises an error, so that no generated text violates the schema.

local torch = require "tlua"
local args = require "tlua.args"
local json = require "tlua.utils.json"

local M = {}

local basics <const> = [[
ws ::= [ \t\n]{0,20}
value ::= object | array | string | number | boolean | null
object ::= "{" ws (pair ("," ws pair)*)? "}" ws
pair ::= string ":" ws value
array ::= "[" ws (value ("," ws value)*)? "]" ws
char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
string ::= "\"" char* "\"" ws
integer ::= "-"? ("0" | [1-9] [0-9]{0,15}) ws
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})? ws
boolean ::= ("true" | "false") ws
null ::= "null" ws
]]

local known <const> = {}
for word in ([[type properties required additionalProperties items minItems maxItems enum
      const anyOf oneOf $ref $defs definitions minLength maxLength title description default
      examples $schema $id $comment]]):gmatch "%S+" do known[word] = true end

local Writer = {}
Writer.__index = Writer

local function refuse(path, why, ...)
   error({schema = ("%s: %s"):format(path, why:format(...))}, 0)
end

-- Writes a text as a GBNF literal.
local function literal(text)
   return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n"):gsub("\r", "\\r"):gsub("\t", "\\t")
      .. '"'
end

local function constant(value) return literal(json.encode(value)) .. " ws" end

-- Adds a rule, and returns the rule's name.
function Writer:add(text)
   self.count = self.count + 1
   local name = "r" .. self.count
   self.rules[#self.rules + 1] = ("%s ::= %s"):format(name, text)
   return name
end

local function count_of(schema, name, path, default)
   local n = schema[name]
   if n == nil then return default end
   n = math.tointeger(n)
   if not n or n < 0 or n > 1000 then
      refuse(path, "%s: expected an integer from 0 to 1000, got %s", name,
         args.describe(schema[name]))
   end
   return n
end

function Writer:array(schema, path)
   local item = schema.items == nil and "value" or self:rule(schema.items, path .. ".items")
   local least = count_of(schema, "minItems", path, 0)
   local most = count_of(schema, "maxItems", path, nil)
   if most and most < least then
      refuse(path, "maxItems: expected at least minItems, %d, got %d", least, most)
   end
   if most == 0 then return '"[" ws "]" ws' end
   local more = ('("," ws %s){%d,%s}'):format(item, math.max(least - 1, 0), most and most - 1 or "")
   local inner = item .. " " .. more
   if least == 0 then inner = "(" .. inner .. ")?" end
   return '"[" ws ' .. inner .. ' "]" ws'
end

-- Writes the rule for an object. Required properties come first and optional properties second,
-- each in alphabetical order, because Lua tables do not keep the order of the schema.
function Writer:object(schema, path)
   local properties, is_required = {}, {}
   for name, value in pairs(schema.properties or {}) do properties[name] = value end
   for _, name in ipairs(schema.required or {}) do
      if properties[name] == nil then
         if schema.additionalProperties == false then
            refuse(path, "required: %s is not in properties", tostring(name))
         end
         properties[name] = {}
      end
      is_required[name] = true
   end
   local required, optional = {}, {}
   for name in pairs(properties) do
      if type(name) ~= "string" then
         refuse(path, "properties: expected an object, got the key %s", args.describe(name))
      end
      table.insert(is_required[name] and required or optional, name)
   end
   table.sort(required)
   table.sort(optional)
   local extra = schema.additionalProperties
   if extra == nil and #required + #optional > 0 then extra = false end
   local function pair(name)
      return ('%s ":" ws %s'):format(constant(name),
         self:rule(properties[name], path .. "." .. name))
   end
   local parts = {}
   for i, name in ipairs(required) do parts[i] = pair(name) end
   local text = table.concat(parts, ' "," ws ')
   local others = {}
   for i, name in ipairs(optional) do others[i] = self:add(pair(name)) end
   if extra ~= false then
      local value = type(extra) == "table" and self:rule(extra, path .. ".additionalProperties")
         or "value"
      local rule = self:add('string ":" ws ' .. value)
      others[#others + 1] = ('%s ("," ws %s)*'):format(rule, rule)
   end
   -- tails[i] is a rule for the properties from the i-th optional property on: this property,
   -- optionally followed by a tail of a later property.
   local tails = {}
   for i = #others, 1, -1 do
      local later = {}
      for k = i + 1, #others do later[#later + 1] = '"," ws ' .. tails[k] end
      local more = #later > 0 and " (" .. table.concat(later, " | ") .. ")?" or ""
      tails[i] = self:add(others[i] .. more)
   end
   if #tails > 0 then
      local comma = #required > 0 and '"," ws ' or ""
      text = ("%s (%s(%s))?"):format(text, comma, table.concat(tails, " | "))
   end
   return ('"{" ws %s "}" ws'):format(text)
end

function Writer:string(schema, path)
   local least = count_of(schema, "minLength", path, 0)
   local most = count_of(schema, "maxLength", path, nil)
   if least == 0 and not most then return "string" end
   if most and most < least then
      refuse(path, "maxLength: expected at least minLength, %d, got %d", least, most)
   end
   return ('"\\"" char{%d,%s} "\\"" ws'):format(least, most or "")
end

function Writer:reference(path, at)
   local schema = self.root
   if type(path) ~= "string" or path:sub(1, 1) ~= "#" then
      refuse(at, "$ref: expected a path such as #/$defs/name, got %s", args.describe(path))
   end
   if not self.references[path] then
      for part in path:sub(2):gmatch "[^/]+" do
         schema = type(schema) == "table" and schema[part] or nil
      end
      if schema == nil then refuse(at, "$ref: there is no %s in the schema", path) end
      self.count = self.count + 1
      local name = "ref" .. self.count
      self.references[path] = name
      local rule = self:rule(schema, path)
      self.rules[#self.rules + 1] = ("%s ::= %s"):format(name, rule)
   end
   return self.references[path]
end

-- Returns the GBNF expression for a schema.
function Writer:expression(schema, path)
   for name in pairs(schema) do
      if not known[name] then
         refuse(path, "the keyword %s is not supported", tostring(name))
      end
   end
   for name, kind in pairs {properties = "an object", required = "a list"} do
      local value = schema[name]
      if value ~= nil and type(value) ~= "table" then
         refuse(path, "%s: expected %s, got %s", name, kind, args.describe(value))
      end
   end
   if schema["$ref"] then return self:reference(schema["$ref"], path) end
   if schema.const ~= nil then return constant(schema.const) end
   for _, name in ipairs {"enum", "anyOf", "oneOf"} do
      local list, parts = schema[name], {}
      if list ~= nil then
         if type(list) ~= "table" or #list == 0 then
            refuse(path, "%s: expected a list, got %s", name, type(list) == "table"
               and "one without elements" or args.describe(list))
         end
         for i, item in ipairs(list) do
            parts[i] = name == "enum" and constant(item) or self:rule(item, path .. "." .. name)
         end
         return "(" .. table.concat(parts, " | ") .. ")"
      end
   end
   local kind = schema.type
   if type(kind) == "table" then
      local parts = {}
      for i, one in ipairs(kind) do
         local copy = {}
         for key, value in pairs(schema) do copy[key] = value end
         copy.type = one
         parts[i] = self:rule(copy, path)
      end
      return "(" .. table.concat(parts, " | ") .. ")"
   end
   if kind == nil then
      kind = schema.properties and "object" or schema.items and "array" or "value"
   end
   if kind == "object" then
      return next(schema.properties or {}) == nil and schema.required == nil
         and (schema.additionalProperties == nil or schema.additionalProperties == true)
         and "object" or self:object(schema, path)
   end
   if kind == "array" then return self:array(schema, path) end
   if kind == "string" then return self:string(schema, path) end
   if kind == "value" or kind == "integer" or kind == "number" or kind == "boolean"
         or kind == "null" then
      return kind
   end
   return refuse(path, "type: expected object, array, string, number, integer, boolean or null, "
      .. "got %s", tostring(kind))
end

function Writer:rule(schema, path)
   if schema == true then return "value" end
   if type(schema) ~= "table" then
      refuse(path, "expected an object, got %s", args.describe(schema))
   end
   local text = self:expression(schema, path)
   return text:find "^%w+$" and text or self:add(text)
end

--- Returns the grammar for a JSON schema, in GBNF.
---@param schema table|string  a table, or JSON
---@return string
function M.to_gbnf(schema)
   local name = "llm.Grammar.from_json_schema"
   if type(schema) == "string" then
      local decoded, why = json.decode(schema)
      if type(decoded) ~= "table" then
         torch.raise(("%s: schema: %s"):format(name, why or "expected an object, got "
            .. args.describe(decoded)))
      end
      schema = decoded
   end
   if type(schema) ~= "table" then args.refuse(name, "schema", "a table, or JSON", schema) end
   local self = setmetatable({rules = {}, references = {}, count = 0, root = schema}, Writer)
   local ok, root = pcall(self.rule, self, schema, "schema")
   if not ok then
      if type(root) == "table" and root.schema then
         torch.raise(("%s: %s"):format(name, root.schema))
      end
      error(root, 0)
   end
   return ("root ::= %s\n%s\n%s"):format(root, table.concat(self.rules, "\n"), basics)
end

return M
