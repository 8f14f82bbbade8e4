-- examples.lua - finds and runs the example programs in doc comments. An example consists of indented lines of a
-- comment, and must print the texts that follow `--> ` in these lines.

local shell = require "spec.support.shell"

local M = {}

-- Runs every example of a file in a separate environment. Writes the number of each example, and then its output.
local runner <const> = [[
local out = assert(io.open("output.txt", "w"))
for number, text in ipairs(dofile "examples.lua") do
   local printed = {}
   local env = setmetatable({print = function(...)
      local values = table.pack(...)
      for i = 1, values.n do values[i] = tostring(values[i]) end
      printed[#printed + 1] = table.concat(values, "\t")
   end}, {__index = _G})
   local fn, message = load(text, "=example", "t", env)
   local worked = fn ~= nil
   if fn then worked, message = xpcall(fn, tostring) end
   if not worked then printed[#printed + 1] = "error: " .. message end
   out:write("=", number, "\n", table.concat(printed, "\n"), "\n")
end
out:close()
]]

--- Returns the example in the text of a doc comment, and the expected output, or nil if there is no example. Indented
--- lines without an expected output are no example.
---@param lines? string[]
---@return string? program
---@return string? expected
function M.of(lines)
   local program, expected, block, first = {}, {}, {}, 1
   local function finish()
      if #expected >= first then table.move(block, 1, #block, #program + 1, program) end
      block, first = {}, #expected + 1
   end
   for _, line in ipairs(lines or {}) do
      if line:find "^%s%s" then
         block[#block + 1] = line
         expected[#expected + 1] = line:match "^%s*%-%-> (.*)$" or line:match "^%s*%-%->$" and ""
      elseif line:find "%S" then
         finish()
      end
   end
   finish()
   if #expected == 0 then return nil end
   return table.concat(program, "\n") .. "\n", table.concat(expected, "\n")
end

--- Runs programs in one process, in a folder that is removed afterwards.
---@param programs string[]
---@return string[] outputs  with trailing spaces removed from lines
function M.run(programs)
   local outputs = {}
   shell.with_folder(function(folder)
      local quoted = {}
      for i, text in ipairs(programs) do quoted[i] = ("%q"):format(text) end
      shell.write(folder .. "/examples.lua", "return {" .. table.concat(quoted, ",\n") .. "}\n")
      shell.write(folder .. "/run.lua", runner)
      shell.ok(("cd %s && %s run.lua"):format(shell.quote(folder), shell.start(true)))
      local text = "\n" .. shell.read(folder .. "/output.txt"):gsub("[ \t]+\n", "\n")
      for i = 1, #programs do
         local from = select(2, text:find("\n=" .. i .. "\n", 1, true))
         local to = text:find("\n=" .. i + 1 .. "\n", from, true) or #text
         outputs[i] = text:sub(from + 1, to - 1)
      end
   end)
   return outputs
end

return M
