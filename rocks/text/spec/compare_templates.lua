-- compare_templates.lua - compares rendered templates with jinja2's results:
--
--    python rocks/text/spec/fixtures/templates.py /tmp/templates 200 20000
--    tlua rocks/text/spec/compare_templates.lua /tmp/templates

local torch = require "tlua"
local json = require "tlua.utils.json"
local Template = torch.text.Template

local M = {}

--- The names of the chat templates in fixtures/templates.
---@type string[]
M.kinds = {"chatml", "deepseek", "documents", "gemma", "generation", "hermes_tools", "llama2",
   "llama3", "llama31", "mistral", "mistral_tools", "phi3", "qwen2", "qwen3", "zephyr"}

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read "a"
end

-- Returns the fields of a dict that Template.json has read.
local function fields(dict)
   local list = {}
   for _, key in ipairs(dict.keys) do list[key] = dict.values[key] end
   return list
end

--- Compares all cases in a file. Returns the number of cases and the list of differences.
---@param path string  the file
---@param template? string  the path of the template, if the cases have none
---@return integer count
---@return string[] differences
function M.file(path, template)
   local count, differences, source, variables = 0, {}, template and read(template), nil
   for line in io.lines(path) do
      local case = assert(Template.json(line))
      case = fields(case)
      count = count + 1
      if case.variables then variables = fields(case.variables) end
      local text = source or case.template
      local ok, result = pcall(function() return Template(text):render(variables) end)
      local differs
      if case.fails then
         differs = ok
      else
         differs = not ok or result ~= case.expected
      end
      if differs or not ok and not tostring(result):find "line %d+ of the template" then
         differences[#differences + 1] = ("%s: %q\n  got      %s%q\n  expected %q"):format(path,
            case.template or json.encode(count), ok and "" or "error: ", tostring(result),
            tostring(case.expected or case.fails))
      end
   end
   return count, differences
end

if arg and arg[0] and arg[0]:find "compare_templates%.lua$" then
   local folder, limit = arg[1], tonumber(arg[2] or 20)
   local here, total, wrong = arg[0]:match "^(.*/)" or "./", 0, 0
   for _, name in ipairs {"random", table.unpack(M.kinds)} do
      local template = name ~= "random" and ("%sfixtures/templates/%s.jinja"):format(here, name)
      local count, differences = M.file(("%s/%s.cases"):format(folder, name), template or nil)
      print(("%-15s %6d cases, %d differ"):format(name, count, #differences))
      for i = 1, math.min(limit, #differences) do print(differences[i]) end
      total, wrong = total + count, wrong + #differences
   end
   print(("all             %6d cases, %d differ"):format(total, wrong))
   os.exit(wrong == 0)
end

return M
