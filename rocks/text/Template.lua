-- Template.lua - Jinja templates with the features that chat templates use. A template sees only
-- plain values. It cannot call Lua functions, read files or change the caller's variables.

local args = require "tlua.args"
local class = require "tlua.class"
local torch = require "tlua"
local evaluator = require "tlua.text.template.evaluator"
local ordered = require "tlua.text.template.ordered"
local parser = require "tlua.text.template.parser"
local values = require "tlua.text.template.values"

--- A Jinja template with the features that chat templates use.
---
---     local template = torch.text.Template
---        "{% for m in messages %}<{{ m.role }}> {{ m.content }}{% endfor %}"
---     print(template:render {messages = {{role = "user", content = "Hello"}}})
---     --> <user> Hello
---@class text.Template
---@field source string  the template's text
---@overload fun(source: string): text.Template
local Template = class.class("text.Template")

-- Raises an error about a template at the user's line. An error that is not about a template is
-- raised unchanged.
local function fail(name, why)
   if type(why) ~= "table" or not why.template then error(why, 0) end
   torch.raise(("%s: line %d of the template: %s"):format(name, why.line or 1, why.template))
end

function Template:__init(source)
   if type(source) ~= "string" then args.refuse("text.Template", "source", "a string", source) end
   local length, at = utf8.len(source)
   if not length then
      torch.raise(("text.Template: source: expected UTF-8, byte %d is not"):format(at))
   end
   self.source = source
   local ok, nodes = pcall(parser.parse, source)
   if not ok then fail("text.Template", nodes) end
   self.nodes = nodes
end

local function converted(name, variables)
   if type(variables) ~= "table" or getmetatable(variables) then
      args.refuse(name, "variables", "a table", variables)
   end
   local list = {}
   for key, value in pairs(variables) do
      if type(key) ~= "string" then args.refuse(name, "variables", "texts as keys", key) end
      local ok, result = pcall(values.from_lua, value)
      if not ok then
         if type(result) ~= "table" then error(result, 0) end
         torch.raise(("%s: %s: %s"):format(name, key, result.template))
      end
      list[key] = result
   end
   return list
end

-- Returns the rendered text, and a list with the first and last byte of each part between {%
-- generation %} and {% endgeneration %}.
function Template:_render(name, variables)
   local list = converted(name, variables)
   local ok, text, generated = pcall(evaluator.render, self.nodes, list)
   if not ok then fail(name, text) end
   return text, generated
end

--- Renders the template with the given variables. A table whose element 1 is set becomes a list.
--- Other tables become dicts. Their keys are put into the order that messages and tools usually
--- have (such as role before content); other keys follow, sorted. To keep the order of keys, pass a
--- dict that `Template.json` has returned.
---@param variables? table<string, any>
---@return string
function Template:render(variables)
   return (self:_render("text.Template.render", variables or {}))
end

--- Decodes JSON into a value for templates. Its dicts keep the order of their keys.
---@param text string
---@return table? value
---@return string? message
function Template.json(text)
   if type(text) ~= "string" then args.refuse("text.Template.json", "text", "a string", text) end
   return ordered.decode(text)
end

function Template:__tostring()
   return ("text.Template(%d bytes)"):format(#self.source)
end

return Template
