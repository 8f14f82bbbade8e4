-- manual.lua - prints the manual: all declarations as one Markdown text, whose sections are
-- families of functions.

local torch = require "tlua"
local families = require "families"

local M = {}

local function add_entry(out, declared)
   out[#out + 1] = ("### %s\n"):format((declared.path:gsub("^torch%.(.*%.)", "%1")))
   if declared.calls[1] then
      out[#out + 1] = "```lua\n" .. table.concat(declared.calls, "\n") .. "\n```\n"
   end
   if declared.text[1] then out[#out + 1] = table.concat(declared.text, "\n") .. "\n" end
   local rows = {}
   for _, p in ipairs(declared.forms and {} or declared.params) do
      if p.text and p.text ~= "" then
         rows[#rows + 1] = ("* `%s` %s: %s"):format(p.name, p.type, p.text)
      end
   end
   for _, field in ipairs(declared.fields or {}) do
      rows[#rows + 1] = ("* field `%s` %s  %s"):format(field.name, field.type, field.text)
   end
   for _, method in ipairs(declared.methods or {}) do
      if not method.missing then
         rows[#rows + 1] = ("* method `%s`: %s"):format(method.calls[1]:gsub("^object", ""),
            table.concat(method.text, " "))
      end
   end
   if rows[1] then out[#out + 1] = table.concat(rows, "\n") .. "\n" end
end

--- Returns the manual's text.
---@param all table[]  declarations
---@return string
function M.print(all)
   local sections = families.sections(all)
   local out = {
      ("# Manual of tlua %s\n"):format(torch.__version__),
      "Dimensions and positions count from 1, negative ones from the end. Parameters with a "
         .. "default may be given by name in a table at the end.\n",
   }
   for _, section in ipairs(sections) do out[#out + 1] = "* " .. section.title end
   out[#out + 1] = ""
   for _, section in ipairs(sections) do
      out[#out + 1] = ("## %s\n"):format(section.title)
      local about = section.module and section.module.text or {}
      if about[1] then out[#out + 1] = table.concat(about, "\n") .. "\n" end
      for _, declared in ipairs(section.entries) do add_entry(out, declared) end
   end
   return table.concat(out, "\n")
end

return M
