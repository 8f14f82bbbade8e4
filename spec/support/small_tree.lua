-- small_tree.lua - defines a small library that the Makefile builds in seconds. Building the whole library in each test
-- would take minutes.

local shell = require "spec.support.shell"

local small_tree = {}

-- Returns Lua text that is hard to compress. It has all bytes, runs of equal bytes, and repetitions of many lengths at
-- short and long distances.
local function odd_text()
   local bytes = {}
   for byte = 0, 255 do bytes[#bytes + 1] = string.char(byte) end
   local all = table.concat(bytes)
   local parts = {"--[==[", all, ("a"):rep(10000), ("abc"):rep(3000), all}
   for length = 2, 40 do parts[#parts + 1] = all:sub(length, 2 * length) .. length end
   for i = 1, 3000 do parts[#parts + 1] = ("%d "):format(i * i * i % 9973) end
   parts[#parts + 1] = all .. "]==] return 3"
   return table.concat(parts)
end

--- Maps the path of each source file to its contents.
small_tree.sources = {
   ["src/tlua.h"] = [[
#define TL_VERSION "0.1.0"
#define TL_API __attribute__((visibility("default")))
TL_API int tl_answer(void);
]],
   ["src/tlua.map"] = "TEST { global: *; };\n",
   ["src/core/answer.h"] = "int tli_core_answer(void);\n",
   ["src/core/kernel/iter.h"] = "", -- the generator of the build reads these nine files
   ["src/core/kernel/fault.h"] = "",
   ["src/core/kernel/image_kernels.h"] = "",
   ["src/core/kernel/kernel.h"] = "",
   ["src/core/kernel/parts.h"] = "",
   ["src/core/device/api.h"] = "",
   ["src/core/device/backend.h"] = "",
   ["src/core/device/host.h"] = "",
   ["src/core/kernel/lapack.h"] = "",
   ["src/core/answer.c"] = [[
#include "core/answer.h"
#include "tlua.h"
int tli_core_answer(void) { return 42; }
int tl_answer(void) { return tli_core_answer(); }
]],
   ["src/lua/open.c"] = [[
#include <lauxlib.h>
#include <string.h>
#include "lua/embed.h"
#include "ops.h"
#include "tlua.h"
TL_API int luaopen_tlua(lua_State *L);
int luaopen_tlua(lua_State *L) {
  lua_newtable(L);
  for (const tli_Embedded *e = tli_embedded; e->module; e++) {
    luaL_Buffer text;
    tli_embedded_text(e, luaL_buffinitsize(L, &text, e->size));
    luaL_pushresultsize(&text, e->size);
    lua_setfield(L, -2, e->module);
    lua_pushfstring(L, "%s chunk", e->module);
    lua_pushstring(L, e->chunk);
    lua_settable(L, -3);
  }
  lua_pushinteger(L, tl_answer());
  lua_setfield(L, -2, "answer");
  return 1;
}
]],
   ["src/main/main.c"] = [[
#include <stdio.h>
#include "tlua.h"
int main(void) { return printf("%d\n", tl_answer()) < 0; }
]],
   ["kernels/cpu/pointwise/isa/add.c"] = [[
#define CAT2(a, b) a##b
#define CAT(a, b) CAT2(a, b)
int CAT(tlk_add_, TLK_ISA)(int a);
int CAT(tlk_add_, TLK_ISA)(int a) { return a + 1; }
]],
   -- this plugin is built only if an MPI is installed
   ["src/dist/mpi/plugin.c"] = "extern int tli_mpi;\nint tli_mpi = 1;\n",
   ["src/dist/mpi/table.h"] = "",
   ["src/ops/pointwise/pointwise.lua"] = "return {}\n",
   -- Like the whole library's generator, this generator does not write a file whose text is unchanged.
   ["src/gen/main.lua"] = [[
local function write(name, text)
   local path = arg[1] .. "/" .. name
   local old = io.open(path)
   if old and old:read("a") == text then return end
   assert(io.open(path, "w")):write(text):close()
end
for _, name in ipairs {"ops.h", "calls.h", "kernels.h", "bind.h"} do write(name, "/* */\n") end
for _, name in ipairs {"manual.lua", "signatures.lua", "gradlist.lua", "operators.lua"} do
   write(name, "return {}\n")
end
for _, name in ipairs {"ops_pointwise.c", "bind_pointwise.c", "calls.c"} do
   write(name, '#include "ops.h"\n')
end
]],
   ["lua/tlua/init.lua"] = 'return "\\"??=\\t\\0é"\n',
   ["lua/tlua/nn/init.lua"] = "return 1",
   ["lua/tlua/nn/Linear.lua"] = "\nreturn 2\n\n",
   ["lua/tlua/types.lua"] = "---@meta\n",
   ["lua/tlua/empty.lua"] = "",
   ["lua/tlua/odd.lua"] = odd_text(),
}

--- Writes the source files and our Makefile into a folder.
---@param folder string
function small_tree.write(folder)
   for path, text in pairs(small_tree.sources) do
      shell.ok("mkdir -p " .. folder .. "/" .. path:match("^(.*)/"))
      shell.write(folder .. "/" .. path, text)
   end
   shell.ok("cp Makefile LICENSE " .. folder .. " && mkdir " .. folder .. "/.ci && cp .ci/deps " .. folder .. "/.ci")
   shell.ok("cp src/gen/embed.lua src/gen/pack.lua src/gen/lua_host.c " .. folder .. "/src/gen")
   shell.ok("cp src/lua/embed.h src/lua/embed.c " .. folder .. "/src/lua")
end

return small_tree
