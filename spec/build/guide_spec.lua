-- Tests the guides: every block of Lua code runs, and prints the lines that the guide shows after `-->`.

local shell = require "spec.support.shell"

local tlua = shell.start(true)

-- Splits a block into its program and the lines that the program should print.
local function program(block)
   local expected = {}
   for line in block:gmatch "[^\n]+" do expected[#expected + 1] = line:match "^%-%-> (.*)" end
   return block, table.concat(expected, "\n")
end

-- This list has the guides that show the output of their Lua code.
for _, path in ipairs {"lua/tlua/from_pytorch.md"} do
   describe(path, function()
      local n = 0
      for block in shell.read(path):gmatch "\n```lua\n(.-)\n```" do
         n = n + 1
         local first = block:match "[^\n]+"
         it(("runs block %d, which begins with %s"):format(n, first), function()
            local text, expected = program(block)
            shell.with_folder(function(folder)
               shell.write(folder .. "/guide.lua", text)
               local output = shell.ok(("cd %s && %s guide.lua"):format(shell.quote(folder), tlua))
               assert.equal(expected, (output:gsub("\n$", "")))
            end)
         end)
      end
      it("has blocks", function() assert.is_true(n >= 5) end)

      it("names programs that are there", function()
         local seen = 0
         for name in shell.read(path):gmatch "`(examples/[%w_/]+%.lua)`" do
            seen = seen + 1
            assert.equal(0, (select(2, shell.run("test -e " .. shell.quote(name)))), name)
         end
         assert.is_true(seen >= 10)
      end)
   end)
end
