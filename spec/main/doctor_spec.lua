-- Tests `tlua doctor`.

local session = require "spec.main.session"
local shell = require "spec.support.shell"

describe("tlua doctor", function()
   local report = session.run("doctor")

   it("ends with status 0 whatever is missing", function()
      assert.equal(0, report.status)
      assert.equal("", report.err)
   end)

   it("takes no arguments but --help", function()
      for _, wrong in ipairs {"--x", "file", "--help --x", "--device sim"} do
         local result = session.run("doctor " .. wrong)
         assert.equal(1, result.status)
         assert.equal("", result.out)
         assert.matches(("^tlua doctor: unexpected argument '%s'\nusage: tlua doctor\n"):format(
            wrong:match("%S+"):gsub("%p", "%%%0")), result.err)
      end
      local help = session.run("doctor --help")
      assert.equal(0, help.status)
      assert.matches("^usage: tlua doctor\n", help.out)
      assert.equal("", help.err)
   end)

   it("names versions", function() assert.matches("^tlua %d+%.%d+%.%d+, Lua 5%.[45]", report.out) end)

   it("says for each part whether it was found", function()
      for _, part in ipairs {"instruction set", "threads", "BLAS", "line editing",
         "device cuda", "device sim", "CUDA driver", "cuDNN", "NCCL", "MPI"} do
         local line = report.out:match("\n  (%a+) +[%a ]*" .. part)
         assert.is_true(line == "found" or line == "missing", part)
      end
   end)

   it("shows the instruction set named by TLUA_ISA, or says that it is unavailable", function()
      local wish = io.popen("uname -m"):read() == "x86_64" and not os.getenv("SPEC_SANITIZED") and "x86-64-v2" or nil
      if wish then
         local out = session.run("doctor", {env = "TLUA_ISA=" .. wish}).out
         assert.matches("found +instruction set +x86%-64%-v2\n", out)
         assert.falsy(out:find("TLUA_ISA", 1, true))
      end
      local wrong = session.run("doctor", {env = "TLUA_ISA=z80"})
      assert.equal(0, wrong.status)
      assert.matches("missing +z80 +wanted by TLUA_ISA\n +not built", wrong.out)
   end)

   it("shows the devices and where a plugin was looked for", function()
      assert.matches("found +device sim +2: the first is simulated device 0, %d+ MB", report.out)
      local poor = session.run("doctor", {env = "TLUA_PLUGINS=/nowhere"})
      assert.equal(0, poor.status)
      assert.matches("missing +device sim +[^\n]*\n +there is no /nowhere/tlua_sim.so\n", poor.out)
      assert.matches("missing +device cuda +[^\n]*\n +there is no /nowhere/tlua_cuda.so: " ..
         "build tlua where CUDA's nvcc is\n", poor.out)
   end)

   it("names the folder of the disk cache and its contents", shell.in_folder(function(folder)
      local name = "0123456789abcdef.code"
      shell.ok("mkdir " .. shell.quote(folder .. "/tlua"))
      shell.write(folder .. "/tlua/" .. name, ("x"):rep(1500000))
      shell.write(folder .. "/tlua/notes.txt", "not ours")
      local out = session.run("doctor", {env = "TLUA_CACHE= XDG_CACHE_HOME=" .. shell.quote(folder)}).out
      assert.truthy(out:find(("%s/tlua, files: 1, 1.5 MB\n"):format(folder), 1, true), out)
      shell.ok("chmod a+w " .. shell.quote(folder .. "/tlua"))
      out = session.run("doctor", {env = "TLUA_CACHE= XDG_CACHE_HOME=" .. shell.quote(folder)}).out
      assert.matches("missing +disk cache +[^\n]*\n +not used: others may write into /", out)
      out = session.run("doctor", {env = "TLUA_CACHE=0"}).out
      assert.matches("missing +disk cache +[^\n]*\n +turned off by TLUA_CACHE=0", out)
   end))

   it("says what a missing part would add and how to get it", shell.in_folder(function(folder)
      -- These files are not valid libraries, so loading them fails.
      for _, name in ipairs {"libnccl.so.2", "libnccl.so"} do shell.write(folder .. "/" .. name, "no library") end
      local poor = session.run("doctor", {env = "LD_LIBRARY_PATH=" .. shell.quote(folder)})
      assert.equal(0, poor.status)
      assert.matches("missing +NCCL +[^\n]*\n +https://developer.nvidia.com/nccl", poor.out)
   end))
end)
