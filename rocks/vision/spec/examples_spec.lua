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

describe("examples/transfer.lua", function()
   it("reads its data and evaluates both models", function()
      local path, lines = os.tmpname(), {}
      for line in io.lines "examples/data/digits.csv" do
         lines[#lines + 1] = line
         if #lines == 20 then break end
      end
      local file <close> = assert(io.open(path, "w"))
      file:write(table.concat(lines, "\n"), "\n")
      file:flush()
      local output = shell.ok(("%s rocks/vision/examples/transfer.lua 0 %s"):format(shell.start(), path))
      assert.matches("accuracy %d%.%d+ with the frozen body, %d%.%d+ without", output)
      os.remove(path)
   end)
end)

describe("examples/segment.lua", function()
   it("trains, evaluates and writes a picture", function()
      local folder = os.tmpname()
      os.remove(folder)
      shell.ok("mkdir " .. folder)
      local output = shell.ok(shell.start() .. " rocks/vision/examples/segment.lua 2 " .. folder)
      assert.matches("background +IoU %d%.%d+\ndisc +IoU %d%.%d+\nsquare +IoU %d%.%d+\ntriangle +IoU", output)
      assert.matches("mean IoU %d%.%d+", output)
      assert.equal("\x89PNG", io.open(folder .. "/found.png", "rb"):read(4))
      shell.ok("rm -r " .. folder)
   end)
end)
