-- Tests the errors for wrong arguments of all public functions that are not operators. spec/ops/names_spec.lua and
-- fuzz_spec.lua test operators.

local shell = require "spec.support.shell"
local table_of = require "spec.support.table"

local here <const> = shell.ok("pwd"):match "[^\n]+"

-- Runs wrong_arguments.lua and returns its output. The program works in a separate folder, because some functions write
-- files.
local function calls(seed)
   return shell.with_folder(function(folder)
      local operators = {}
      for _, row in ipairs(table_of.rows()) do operators[row.path] = true end
      local list = {}
      for path in pairs(operators) do list[#list + 1] = path .. "\n" end
      shell.write(folder .. "/operators", table.concat(list))
      local tlua = shell.tlua:sub(1, 1) == "/" and shell.tlua or here .. "/" .. shell.tlua
      local out, status = shell.run(("cd %s && %s %s/spec/utils/wrong_arguments.lua operators %d " ..
         "2>&1 </dev/null"):format(shell.quote(folder), shell.quote(tlua), shell.quote(here), seed))
      assert.equal(0, status, out)
      return out
   end)
end

it("a public function called with wrong arguments raises an error at the user's line that names it", function()
   -- with a sanitizer, another seed gives other calls
   local seed <const> = os.getenv "SPEC_SANITIZED" == "1" and 2 or 1
   local faults, errors = calls(seed):match "^(.*)errors: (%d+)\n$"
   assert.equal("", faults, "seed " .. seed)
   assert.is_true(tonumber(errors) > 10000, errors)
end)
