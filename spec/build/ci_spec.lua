-- Tests .ci/run and .ci/deps with replacements for make and for the other commands that they call.

local shell = require "spec.support.shell"

describe(".ci/run", function()
   -- Runs .ci/run with a replacement for `make` that runs commands[TARGET] for each target. Returns the output and
   -- status.
   local function run(commands)
      return shell.with_folder(function(folder)
         shell.ok(("mkdir %s/.ci %s/bin && cp .ci/run %s/.ci"):format(folder, folder, folder))
         local cases = {}
         for target, command in pairs(commands) do cases[#cases + 1] = ("%s) %s ;;"):format(target, command) end
         shell.write(folder .. "/bin/make", "#!/bin/sh\ncase $1 in\n" .. table.concat(cases, "\n") .. "\nesac\n")
         shell.ok("chmod +x " .. folder .. "/bin/make")
         return shell.run(("PATH=%s/bin:$PATH %s/.ci/run"):format(folder, folder))
      end)
   end

   local function last_line(output) return output:match("([^\n]*)\n$") end

   for _, row in ipairs {
      {"sums up the counts of its steps", total = "24 passed, 0 failed, 3 skipped", status = 0, steps = {
         test = "echo 10 passed, 0 failed, 2 skipped", lint = "echo 3 passed, 0 failed",
         clang = "echo 4 passed, 0 failed", asan = "echo 7 passed, 0 failed, 1 skipped",
      }},
      {"continues after a failure, and fails at the end", total = "20 passed, 2 failed", status = 1, steps = {
         test = "echo 10 passed, 2 failed; exit 1", lint = "echo 3 passed, 0 failed", asan = "echo 7 passed, 0 failed",
      }},
      {"counts a step that ended before it printed its counts", total = "3 passed, 2 failed", status = 1, steps = {
         test = "echo compiler: error >&2; exit 2", lint = "echo 3 passed, 0 failed", asan = "exit 1",
      }},
   } do
      it(row[1], function()
         local output, status = run(row.steps)
         assert.equal(row.total, last_line(output))
         assert.equal(row.status, status)
      end)
   end
end)

describe(".ci/deps", function()
   -- In this folder, all commands that .ci/deps looks for exist, so it installs nothing.
   it("is silent if nothing is missing", shell.in_folder(function(folder)
      for name in ([[cc make pkg-config lua5.4 luarocks g++ mpirun.openmpi mpirun.mpich python3
            apt-get]]):gmatch "%S+" do
         shell.write(("%s/%s"):format(folder, name), name == "apt-get" and "#!/bin/sh\necho apt-get\n" or
            "#!/bin/sh\nexit 0\n")
      end
      shell.write(folder .. "/ldconfig", "#!/bin/sh\necho libopenblas.so.0 libedit.so.2\n")
      shell.ok("chmod +x " .. folder .. "/*")
      assert.equal("", shell.ok(("PATH=%s:$PATH .ci/deps build test"):format(folder)))
   end))

   it("lists missing packages if there is no apt-get", shell.in_folder(function(folder)
      shell.ok(("for f in sh id grep; do ln -s $(command -v $f) %s; done"):format(folder))
      local output = shell.ok(("PATH=%s .ci/deps build lint"):format(folder))
      for _, package in ipairs {"gcc", "liblua5.4-dev", "cppcheck"} do
         assert.truthy(output:find(package, 1, true), output)
      end
   end))

   it("refuses a group it does not know", function()
      local output, status = shell.run(".ci/deps everything")
      assert.equal(2, status)
      assert.truthy(output:find("no group 'everything'", 1, true))
   end)
end)
