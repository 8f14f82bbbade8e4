-- command.lua - the commands `tlua notebook install`, `run` and `kernel`.

local torch = require "tlua"
local suggest = require "tlua.utils.suggest"

local M = {}

local usage <const> = [[
usage: tlua notebook install [--user | --prefix folder] [--name name] [--display-name text]
       tlua notebook run file.ipynb ... [--output file] [--allow-errors] [--check]
       tlua notebook kernel connection_file
install  tells Jupyter of the kernel, for the user (the default) or below a prefix
run      runs the cells of notebooks without Jupyter and writes their outputs into the files
  --output file    writes the outputs of one notebook into this file instead
  --allow-errors   goes on after a cell that has failed
  --check          writes nothing
kernel   the kernel itself, which Jupyter starts
]]

local function fail(text) error({usage = text}, 0) end

-- Splits the arguments into options and other words. `known` maps each option to whether it takes a
-- value.
local function parse(words, known)
   local options, others = {}, {}
   local i = 2
   while i <= #words do
      local name, value = words[i]:match "^%-%-([%w-]+)=(.*)$"
      name = name or words[i]:match "^%-%-([%w-]+)$"
      if not name then
         if words[i]:find "^%-." then fail(("unknown option %s"):format(words[i])) end
         others[#others + 1] = words[i]
      elseif known[name] == nil then
         fail(("unknown option --%s%s"):format(name, suggest.hint(name, known)))
      elseif known[name] == "value" then
         if not value then
            i = i + 1
            value = words[i] or fail(("--%s: expected a value after it"):format(name))
         end
         options[name] = value
      elseif value then
         fail(("--%s: expected no value, got %s"):format(name, value))
      else
         options[name] = true
      end
      i = i + 1
   end
   return options, others
end

local commands = {}

function commands.install(words)
   local options, others = parse(words, {user = "flag", prefix = "value", name = "value",
      ["display-name"] = "value"})
   if others[1] then fail(("unexpected argument '%s'"):format(others[1])) end
   if options.user and options.prefix then fail "--user and --prefix: expected only one of them" end
   local folder = torch.notebook.install {name = options.name, prefix = options.prefix,
      display_name = options["display-name"]}
   print("installed the kernel in " .. folder)
   local socket, why = torch._kernel.socket(1)
   if socket then
      socket:close()
   else
      io.stderr:write("it ", why, "\n")
   end
   return true
end

function commands.run(words)
   local options, others = parse(words, {output = "value", ["allow-errors"] = "flag",
      check = "flag"})
   if #others == 0 then fail "expected a notebook, an .ipynb file" end
   if options.output and #others > 1 then
      fail(("--output: expected a single notebook, got %d"):format(#others))
   end
   if options.output and options.check then
      fail "--output and --check: expected only one of them"
   end
   local good = true
   for _, path in ipairs(others) do
      local _, failure = torch.notebook.run(path, {quiet = false,
         output = options.check and "" or options.output,
         allow_errors = options["allow-errors"] or false})
      if failure then
         io.stderr:write(("tlua notebook: %s: %s\n"):format(path, failure))
         good = false
      end
   end
   return good
end

function commands.kernel(words)
   local _, others = parse(words, {})
   if #others ~= 1 then fail "expected a connection file" end
   local kernel = require "tlua.notebook.kernel"
   local config, why = kernel.read_connection(others[1])
   if not config then
      io.stderr:write("tlua notebook: ", why, "\n")
      return false
   end
   kernel.run(config)
   return true
end

--- Runs `tlua notebook`. Returns whether it has succeeded.
---@param words string[]  the arguments
---@return boolean
function M.command(words)
   local word = words[1]
   if word == "--help" or word == "help" or words[2] == "--help" then
      io.write(usage)
      return true
   end
   local ok, result = pcall(function()
      local command = commands[word]
      if not command then
         fail(word and ("unknown command '%s'%s"):format(word, suggest.hint(word, commands))
            or "expected install, run or kernel")
      end
      return command(words)
   end)
   if ok then return result end
   if type(result) == "table" and result.usage then
      io.stderr:write("tlua notebook: ", result.usage, "\n", usage)
   else
      io.stderr:write("tlua notebook: ", tostring(result), "\n")
   end
   return false
end

return M
