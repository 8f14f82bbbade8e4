-- Tests that the examples of torch.llm run with a small model.

local shell = require "spec.support.shell"

describe("examples/extract.lua", function()
   it("prints one row for each text, with a number as its second field", function()
      local output = shell.ok(shell.start()
         .. " rocks/llm/examples/extract.lua rocks/llm/spec/fixtures/qwen2.gguf 'Anna is 31.' 'Ben is 8.'")
      local count = 0
      for line in output:gmatch "[^\n]+" do
         count = count + 1
         assert.is_truthy(line:find "^[^\t]+\t%-?%d+\t[^\t]+$" or line:find "^no answer", line)
      end
      assert.equal(2, count)
   end)
end)
