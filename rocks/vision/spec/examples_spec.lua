-- Tests the package's examples.

local shell = require "spec.support.shell"

describe("examples/detect.lua", function()
   it("trains, evaluates and writes its files", function()
      local folder = os.tmpname()
      os.remove(folder)
      shell.ok("mkdir " .. folder)
      local output = shell.ok(shell.start() .. " rocks/vision/examples/detect.lua 2 " .. folder)
      assert.matches("mAP %d%.%d+  mAP at 0.5 %d%.%d+", output)
      for _, name in ipairs {"found.png", "truth.json", "found.json"} do
         local file = assert(io.open(folder .. "/" .. name))
         file:close()
      end
      shell.ok("rm -r " .. folder)
   end)
end)
