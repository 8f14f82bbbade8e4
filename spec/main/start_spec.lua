-- Tests that the command starts fast, because shells start scripts in loops, and users wait for scripts. `make bench`
-- measures the time itself. This spec tests the causes of a slow start: the command must not open, load or start
-- anything that the program does not use.

local shell = require "spec.support.shell"

-- Code that prints a program's libraries (except the system's own), its threads, and its Lua modules.
local look <const> = [[
local libraries, known = {}, {}
for line in io.lines "/proc/self/maps" do
   local name = line:match "([^/]*)%.so[^/]*$"
   if name and not known[name] then
      known[name] = true
      local own = name == "libc" or name == "libm" or name == "libmvec" or name:find "^ld%-" or
         -- before glibc 2.34, these parts of the C library were separate libraries
         name == "libdl" or name == "libpthread" or name == "librt" or
         name:find "^liblua" or -- liblua is loaded if the system has no static library of Lua
         (os.getenv "LD_PRELOAD" or ""):find(name, 1, true)
      local sanitizer = name:find "san$" or name == "libgcc_s" or name:find "^libstdc"
      if not own and not sanitizer then
         libraries[#libraries + 1] = name
      end
   end
end
local modules = {}
for name in pairs(package.loaded) do
   if name:find "^tlua" then modules[#modules + 1] = name end
end
table.sort(modules)
print(("libraries: %s; threads: %s; modules: %s"):format(table.concat(libraries, " "),
   io.open "/proc/self/status":read "a":match "Threads:%s*(%d+)", table.concat(modules, " ")))
]]

-- Each program runs in a separate process, and only on Linux. Programs that watch the process, such as sanitizers, load
-- additional libraries.
local function starts(name, expected, code)
   it(name, function()
      local maps = io.open "/proc/self/maps"
      if not maps or (os.getenv "SPEC_WRAP" or "") ~= "" then return pending "needs /proc" end
      maps:close()
      assert.equal(expected .. "\n", shell.ok(("%s -e %s"):format(shell.quote(shell.tlua),
         shell.quote(code .. look))))
   end)
end

describe("starting", function()
   starts("opens no library, begins no thread and loads no module", "libraries: ; threads: 1; modules: ", "")

   starts("does not for a first sum either, but for the list of modules",
      "libraries: ; threads: 1; modules: tlua tlua.lazy",
      "assert(torch.ones(3):sum():item() == 3) ")
end)
