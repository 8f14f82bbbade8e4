-- Tests the built libraries and the public header from outside, as programs that use them see them.

local shell = require "spec.support.shell"

local function symbols(options, file)
   local names = {}
   for line in shell.ok(("nm %s %s/%s"):format(options, shell.build, file)):gmatch("[^\n]+") do
      local name = line:match("^%x* *%a ([%w_.]+)")
      if name then names[#names + 1] = name end
   end
   return names
end

-- Returns the names that match none of the patterns.
local function others(names, ...)
   local left = {}
   for _, name in ipairs(names) do
      local known = false
      for _, pattern in ipairs {...} do known = known or name:find(pattern) ~= nil end
      if not known then left[#left + 1] = name end
   end
   return left
end

describe("libtlua.so", function()
   it("exports the public names and nothing else", function()
      local names = symbols("-D --defined-only", "libtlua.so")
      assert.same({}, others(names, "^tl_", "^luaopen_tlua$", "^TLUA_"))
      assert.truthy(#names > 10)
   end)

   it("exports every function that tlua.h declares", function()
      local exported = {}
      for _, name in ipairs(symbols("-D --defined-only", "libtlua.so")) do exported[name] = true end
      for name in shell.read("src/tlua.h"):gmatch("TL_API[^;]-%f[%w]([tl]%w+_[%w_]+)%(") do
         assert.truthy(exported[name], name)
      end
   end)

   it("is not linked with Lua, whose functions come from the host", function()
      local needed = shell.ok(("readelf -d %s/libtlua.so"):format(shell.build))
      assert.falsy(needed:find("NEEDED[^\n]*lua"))
      assert.truthy(#others(symbols("-D --undefined-only", "libtlua.so"), "^[^l]") > 0)
   end)

   it("needs no static thread-local storage in a host", function()
      local dynamic = shell.ok(("readelf -d %s/libtlua.so"):format(shell.build))
      assert.falsy(dynamic:find("STATIC_TLS", 1, true))
   end)

   it("has no undefined symbols except Lua's functions", function()
      local output = shell.run(("ldd -r %s/libtlua.so"):format(shell.build))
      for name in output:gmatch("undefined symbol: ([%w_]+)") do assert.truthy(name:find("^luaL?_"), name) end
   end)
end)

describe("libtlua.a", function()
   it("defines only names with the project's prefixes", function()
      local names = symbols("-g --defined-only", "libtlua.a")
      assert.same({}, others(names, "^tl[iok]?_", "^luaopen_tlua$", "^_?DW%.ref"))
   end)

   it("adds no Lua to a program that uses only tensors", shell.in_folder(function(folder)
      shell.write(folder .. "/plain.c", [[
            #include "tlua.h"
            int main(void) {
              tl_Tensor *t = tl_tensor_empty(TL_F32, 2, (int64_t[]){2, 3});
              int bad = t == NULL || tl_tensor_numel(t) != 6;
              tl_tensor_release(t);
              return bad;
            }
         ]])
      shell.ok(("%s -Isrc -o %s/plain %s/plain.c %s/libtlua.a -pthread -lm"):format(
         os.getenv("CC") or "cc", folder, folder, shell.build))
      shell.ok(folder .. "/plain")
   end))
end)

describe("tlua.h", function()
   local function compiles(command)
      shell.ok([[printf '#include "tlua.h"\nint main(void) { return tl_version() == 0; }\n' | ]] ..
         command .. " -Isrc -Wall -Wextra -Werror -fsyntax-only -")
   end

   it("is plain C11", function() compiles((os.getenv("CC") or "cc") .. " -std=c11 -pedantic -x c") end)

   it("is C++", function()
      local compiler = shell.has("c++") and "c++" or shell.has("clang++") and "clang++"
      if not compiler then pending("no C++ compiler") end
      compiles(compiler .. " -std=c++17 -x c++")
   end)
end)
