-- Tests that examples/resnet.lua runs unchanged.

local shell = require "spec.support.shell"

local tlua = shell.start()

local function run(arguments) return shell.ok(("%s examples/resnet.lua %s"):format(tlua, arguments)) end

describe("examples/resnet.lua", function()
   it("learns directions of stripes", function()
      local output = run "--image 16 --steps 30 --width 8 --classes 4"
      local right = output:match "step 30  loss %d%.%d+  right (%d+) %%"
      assert.is_true(tonumber(right) >= 60, output)
   end)

   it("has the same losses when a device replays its steps, in float16, too", function()
      local function losses(arguments)
         local output = run("--depth 50 --width 4 --image 16 --batch 4 --steps 10 --device sim " .. arguments)
         return assert(output:match "step 10  loss (%S+)")
      end
      assert.equal(losses "--no-graph", losses "")
      assert.equal(losses "--no-graph --dtype float16", losses "--dtype float16")
   end)
end)
