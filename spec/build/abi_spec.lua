-- Tests that programs that were linked with an older library keep working: the functions, structs and enums of
-- src/tlua.h equal those listed in src/tlua.abi, and the library's symbols have versions.

local shell = require "spec.support.shell"

local library = shell.build .. "/libtlua.so"

describe("the shared library", function()
   it("has the binary interface that src/tlua.abi describes", function()
      if not shell.has "abidiff" then pending "no abidiff (Debian: abigail-tools)" end
      local said, status = shell.run(("abidiff --no-architecture src/tlua.abi %s 2>&1"):format(library))
      if status ~= 0 then
         error("these changes break programs that were linked with the library:\n" .. said, 0)
      end
   end)

   it("gives each public name a version", function()
      local names = shell.ok(("nm -D --defined-only %s"):format(library))
      local n = 0
      for name in names:gmatch " T (%S+)" do
         assert.matches("^tl_[%w_]+@@TLUA_0%.9$", (name:gsub("^luaopen_tlua", "tl_tlua")))
         n = n + 1
      end
      local function count(path, pattern) return (select(2, shell.read(path):gsub(pattern, ""))) end
      assert.equal(count("src/tlua.h", "\nTL_API"), n)
      if count("src/tlua.abi", "<elf%-symbol name") ~= n then
         error("`make abi` writes the names that were added to src/tlua.abi", 0)
      end
   end)
end)
