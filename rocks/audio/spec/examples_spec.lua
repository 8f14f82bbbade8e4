-- Tests the package's examples.

local shell = require "spec.support.shell"

describe("examples/keywords.lua", function()
   it("trains and prints its accuracy", function()
      local output = shell.ok(shell.start() .. " rocks/audio/examples/keywords.lua 2")
      assert.matches("accuracy %d+%.%d %% of 1000 words", output)
   end)
end)
