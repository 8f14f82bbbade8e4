-- constraints.lua - reads the grammars that requests ask for: JSON, JSON that obeys a schema
-- (`response_format`), and GBNF (`grammar`, as in llama.cpp's server).

local torch = require "tlua"
local json = require "tlua.utils.json"
local errors = require "tlua.serve.errors"

local M = {}

-- The number of grammars that are cached: those used last, each with the sets of tokens that it
-- allows.
local kept <const> = 16

local function is_object(value)
   return type(value) == "table" and value ~= json.null and not json.is_array(value)
end

-- Returns the JSON schema in a request's response_format. Returns nil if the format allows any
-- text.
local function schema_of(format, refuse)
   if format == nil or format == json.null then return nil end
   local name <const> = "response_format"
   if not is_object(format) then refuse(name, "expected an object, got %s", errors.kind(format)) end
   if format.type == "text" then return nil end
   local schema
   if format.type == "json_object" then
      schema = format.schema
      if schema == nil or schema == json.null then return {} end
   elseif format.type == "json_schema" then
      local holder = format.json_schema
      if not is_object(holder) then
         refuse(name, "expected an object json_schema, got %s", errors.kind(holder))
      end
      schema = holder.schema
   else
      refuse(name, 'expected the type "text", "json_object" or "json_schema", got %s',
         errors.kind(format.type))
   end
   if not is_object(schema) then
      refuse(name, "expected an object schema, got %s", errors.kind(schema))
   end
   return schema
end

--- Returns the grammar for a request that asks for one, and nil for all other requests.
---@param cache table  the grammars of earlier requests
---@param body table
---@param refuse fun(param: string, message: string, ...)  raises an error for the client
---@return llm.Grammar?
function M.read(cache, body, refuse)
   local schema, text = schema_of(body.response_format, refuse), body.grammar
   local name = schema and "response_format" or "grammar"
   if text == json.null then text = nil end
   if schema then
      if text then refuse("grammar", "expected none beside a response_format") end
      local ok, result = pcall(torch.llm.Grammar.from_json_schema, schema)
      if not ok then
         refuse(name, "%s", errors.text(result):match "from_json_schema: (.*)"
            or errors.text(result))
      end
      text = result.text
   end
   if text == nil then return nil end
   if type(text) ~= "string" then refuse(name, "expected GBNF, got %s", errors.kind(text)) end
   for i, grammar in ipairs(cache) do
      if grammar.text == text then
         table.insert(cache, 1, table.remove(cache, i))
         return grammar
      end
   end
   local ok, grammar = pcall(torch.llm.Grammar.from_string, text)
   if not ok then
      refuse(name, "%s", errors.text(grammar):match "from_string: (.*)" or errors.text(grammar))
   end
   table.insert(cache, 1, grammar)
   cache[kept + 1] = nil
   return grammar
end

return M
