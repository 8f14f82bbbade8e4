-- port.lua - translates Python programs for specs. The functions return the translated lines, or the output of the
-- programs.

local shell = require "spec.support.shell"

local M = {}

--- The path of a Python that `tlua port` can use, quoted for the shell, or nil if there is none.
M.python = shell.python "import ast, sys; sys.exit(sys.version_info < (3, 8))"

--- Translates several programs. One Python process reads all of them.
---@param texts string[]
---@return {text: string, notes: table[]}[]
function M.translate(texts)
   local port = require "tlua" and require "tlua.port"
   local reader = require "tlua.port.reader"
   return shell.with_folder(function(folder)
      local paths, results = {}, {}
      for i, text in ipairs(texts) do
         paths[i] = ("%s/script%d.py"):format(folder, i)
         shell.write(paths[i], text)
      end
      for i, script in ipairs(assert(reader.read_all(paths))) do
         if script.message then error(script.message) end
         results[i] = port.translate(script)
      end
      return results
   end)
end

--- Removes two parts of a translation: the lines at the top that load torch and the runtime and, in a file of
--- definitions, the return statement at the end.
---@param text string
---@return string
function M.strip(text)
   text = text:gsub('^local torch = require "tlua"\n', "")
   text = text:gsub('^local py = require "tlua.port.python"\n', "")
   return (text:gsub("^\n", ""):gsub("\n$", ""):gsub("\n\nreturn %b{}$", ""))
end

--- Returns the output of a program in Python, and the output of its translation in tlua. true, false and None have the
--- same spelling in both texts.
---@param text string
---@return string expected
---@return string got
function M.outputs(text)
   local tlua = shell.start(true)
   return shell.with_folder(function(folder)
      local path = folder .. "/script"
      shell.write(path .. ".py", text)
      local expected = shell.ok(("cd %s && %s script.py"):format(shell.quote(folder), M.python))
      shell.ok(("%s port %s.py -o %s.lua"):format(tlua, path, path))
      local got = shell.ok(("cd %s && %s script.lua"):format(shell.quote(folder), tlua))
      local function alike(output)
         return (output:gsub("%f[%w]True%f[%W]", "true"):gsub("%f[%w]False%f[%W]", "false")
            :gsub("%f[%w]None%f[%W]", "nil"))
      end
      return alike(expected), alike(got)
   end)
end

return M
