-- Tests `make runtime PROGRAM=model.tlp`, which builds a library that has only the operators of one program. The
-- library must be small, start fast and give the program's results.

local shell = require "spec.support.shell"

local SIZE <const>, MILLISECONDS <const> = 400 * 1024, 2

-- Debug information, which the Makefile's default options add, takes a sixth of the compile time, and the measured
-- program is stripped. So the flags leave it out.
local function make(program, flags)
   return shell.run(("env -u MAKEFLAGS -u MFLAGS make -j2 runtime CFLAGS=%s BUILD=%s PROGRAM=%s 2>&1"):format(
      flags or "-Os", shell.quote(shell.build), program))
end

describe("make runtime", function()
   it("links what a convolutional network needs", shell.in_folder(function(folder)
      local step <const>, network <const> = folder .. "/step.tlp", folder .. "/digits.tlp"
      shell.ok(("%s examples/deploy/export_step.lua --save %s --infer %s"):format(shell.tlua, step, network))
      local output, status = make(network)
      assert.equal(0, status, output)
      local size = tonumber(output:match "(%d+) bytes, stripped")
      assert(size and size <= SIZE, output)

      -- The program runs several times, and the best time counts, because other programs may be running.
      local best, answer = math.huge, nil
      for _ = 1, 20 do
         local text = shell.ok(("%s/runtime/answer %s"):format(shell.build, network))
         answer = text:match "^[^\n]*"
         best = math.min(best, tonumber(text:match "answered in ([%d.]+) ms"))
      end
      assert(best <= MILLISECONDS, best)
      local expected = shell.ok(("%s -e %s"):format(shell.tlua, shell.quote(([[
         local scores = torch.export.load(%q)(torch.zeros(1, 1, 8, 8))
         for i = 1, 10 do io.write(("%%.9g "):format(scores[{1, i}]:item())) end]]):format(network))))
      local theirs = {}
      for text in expected:gmatch "%S+" do theirs[#theirs + 1] = tonumber(text) end
      for text in answer:gmatch "%S+" do
         assert(math.abs(tonumber(text) - table.remove(theirs, 1)) < 1e-5, answer .. " ~= " .. expected)
      end
      assert.equal(0, #theirs)

      shell.ok(("%s -Isrc -o %s/run examples/deploy/run.c -Wl,--whole-archive %s/runtime/libtlua.a "
         .. "-Wl,--no-whole-archive -Wl,--gc-sections -lm -ldl -lpthread"):format(os.getenv "CC" or "cc", folder,
         shell.build))
      local right = shell.ok(("%s/run %s examples/data/digits.csv"):format(folder, network))
      assert.equal(shell.ok(("%s -e %s"):format(shell.tlua, shell.quote(([[
         local rows = torch.data.CSV("examples/data/digits.csv", {header = false}):tensor()
         local images = rows:narrow(2, 1, 64):float():div(16):view(-1, 1, 8, 8)
         local right = torch.export.load(%q)(images):argmax(2):eq(rows:select(2, 65) + 1):sum():item()
         print(("%%d of %%d digits read right"):format(right, #images))]]):format(network)))), right)

      -- For a training step, the library also contains derivatives and optimizers. Its size is not measured, so only
      -- its kernels are optimised.
      output, status = make(shell.quote(step .. " " .. network), "-O0")
      assert.equal(0, status, output)
      local saved = {}
      for i, library in ipairs {"runtime/libtlua.a", "libtlua.a"} do
         shell.ok(("%s -Isrc -o %s/train%d examples/deploy/train.c -Wl,--whole-archive %s/%s -Wl,--no-whole-archive "
            .. "-Wl,--gc-sections -lm -ldl -lpthread"):format(os.getenv "CC" or "cc", folder, i, shell.build, library))
         saved[i] = ("%s/saved%d.tlp"):format(folder, i)
         shell.ok(("%s/train%d %s %s examples/data/digits.csv %s"):format(folder, i, step, network, saved[i]))
      end
      assert.equal(0, select(2, shell.run(("cmp %s %s"):format(saved[1], saved[2]))))

      output, status = make "examples/data/digits.csv"
      assert.are_not.equal(0, status)
      assert.matches("digits.csv: expected a file of torch.export", output, 1, true)
      output, status = make "''"
      assert.are_not.equal(0, status, output)
   end))
end)
