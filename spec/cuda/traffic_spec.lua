-- Tests the number of bytes that kernels move. `make traffic` prints them as a table.

local shell = require "spec.support.shell"

describe("a GPU's kernels", function()
   it("move at most a tenth more bytes than they must", shell.in_folder(function(folder)
      local log = folder .. "/log"
      shell.write(log, "")
      local output, status = shell.run(("TLUA_PLUGINS=%s/counted TLUA_EMULATED_TRAFFIC=%s " ..
         "TLUA_EMULATED_COMPILER=1 TLUA_CACHE=%s %s spec/cuda/traffic.lua"):format(shell.build, log, folder,
         shell.start()))
      assert.equal(0, status, output)
      assert.is_true(select(2, output:gsub("\n", "")) > 30, output)
   end))
end)
