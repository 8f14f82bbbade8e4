-- Tests that the examples of torch.text run and print the expected lines.

local torch = require "tlua"
local shell = require "spec.support.shell"

describe("examples/finetune.lua", function()
   it("trains adapters and saves them", function()
      local folder = os.tmpname()
      os.remove(folder)
      local output = shell.ok(shell.start() .. " rocks/text/examples/finetune.lua --base-steps 20 --steps 20 --save "
         .. folder)
      local first, second = output:match "loss ([%d.]+).-adapters of %d+ parameters.-loss ([%d.]+)"
      assert.is_true(tonumber(first) < 7 and tonumber(second) < 7)
      assert.matches("before:\nlocal function .*after:\nlocal function ", output)
      assert.is_not_nil(next((torch.load(folder .. "/adapter_model.safetensors"))))
      os.execute("rm -rf '" .. folder .. "'")
   end)
end)
