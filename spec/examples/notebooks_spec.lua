-- Tests that the course's notebooks run. Their cells check their own results.
local json = require "tlua.utils.json"
local shell = require "spec.support.shell"

local tlua = shell.start()

describe("examples/notebooks", function()
   local paths = {}
   for path in shell.ok("ls examples/notebooks/*.ipynb"):gmatch "[^\n]+" do paths[#paths + 1] = path end

   it("has ten notebooks, from tensors to an agent in a game", function()
      assert.equal(10, #paths)
   end)

   for _, path in ipairs(paths) do
      it("runs " .. path:match "[^/]+$" .. " within a minute, in two folders", function()
         local begun = os.time()
         local output, status = shell.run(("%s notebook run --check %s"):format(tlua, path))
         assert.equal(0, status, output)
         assert.is_true(os.getenv "SPEC_SANITIZED" == "1" or os.time() - begun <= 60)
         local cells = json.decode(shell.read(path)).cells
         for _, cell in ipairs(cells) do assert.equal(0, #(cell.outputs or {})) end
         if not path:find "04" then return end
         output, status = shell.run(("cd examples/notebooks && %s notebook run --check %s"):format(
            shell.start(true), path:match "[^/]+$"))
         assert.equal(0, status, output)
      end)
   end
end)
