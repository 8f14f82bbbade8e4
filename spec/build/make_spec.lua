-- The Makefile's rules, with a library of a few lines in place of ours: a full
-- build of the real one would take minutes for each question.

local shell = require "spec.support.shell"

local sources = {
   ["src/tlua.h"] = [[
#define TL_VERSION "0.1.0"
#define TL_API __attribute__((visibility("default")))
TL_API int tl_answer(void);
]],
   ["src/core/answer.h"] = "int tli_core_answer(void);\n",
   ["src/core/answer.c"] = [[
#include "core/answer.h"
#include "tlua.h"
int tli_core_answer(void) { return 42; }
int tl_answer(void) { return tli_core_answer(); }
]],
   ["src/lua/open.c"] = [[
#include <lauxlib.h>
#include <string.h>
#include "embed.h"
#include "ops.h"
#include "tlua.h"
TL_API int luaopen_tlua(lua_State *L);
int luaopen_tlua(lua_State *L) {
  lua_newtable(L);
  for (const tli_Embedded *e = tli_embedded; e->module; e++) {
    lua_pushlstring(L, e->data, e->size);
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
   ["src/ops/pointwise/pointwise.lua"] = "return {}\n",
   -- Like the real generator, it leaves a file alone whose text stays the same.
   ["src/gen/main.lua"] = [[
local function write(name, text)
   local path = arg[1] .. "/" .. name
   local old = io.open(path)
   if old and old:read("a") == text then return end
   assert(io.open(path, "w")):write(text):close()
end
for _, name in ipairs {"ops.h", "kernels.h", "bind.h"} do write(name, "/* */\n") end
for _, name in ipairs {"manual.lua", "gradlist.lua", "types/tlua.lua", "manual.md"} do
   write(name, "return {}\n")
end
for _, name in ipairs {"ops_pointwise.c", "bind_pointwise.c"} do
   write(name, '#include "ops.h"\n')
end
]],
   ["lua/tlua/init.lua"] = 'return "\\"??=\\t\\0é"\n',
   ["lua/tlua/nn/init.lua"] = "return 1",
   ["lua/tlua/nn/Linear.lua"] = "\nreturn 2\n\n",
   ["lua/tlua/types.lua"] = "---@meta\n",
   ["lua/tlua/empty.lua"] = "",
}

local function new_tree(folder)
   for path, text in pairs(sources) do
      shell.ok("mkdir -p " .. folder .. "/" .. path:match("^(.*)/"))
      shell.write(folder .. "/" .. path, text)
   end
   shell.ok("cp Makefile LICENSE " .. folder .. " && mkdir " .. folder .. "/.ci && cp .ci/deps " ..
      folder .. "/.ci")
   shell.ok("cp src/gen/embed.lua src/gen/host.c " .. folder .. "/src/gen")
   shell.ok("cp src/lua/embed.h " .. folder .. "/src/lua")
end

describe("make", function()
   local tree

   -- What make says in the tree, one short line for each thing done.
   local function make(arguments)
      return shell.ok("cd " .. tree .. " && make " .. (arguments or ""))
   end

   -- A file must be newer than what was built from it, by more than a tick of the file system.
   local function change(path, text)
      shell.ok("sleep 0.05")
      shell.write(tree .. "/" .. path, text)
   end

   setup(function()
      tree = shell.ok("mktemp -d"):match("[^\n]+")
      new_tree(tree)
   end)

   teardown(function()
      shell.ok("rm -rf " .. shell.quote(tree))
   end)

   it("builds the command and both libraries", function()
      make()
      assert.equal("42\n", shell.ok(tree .. "/tlua"))
      shell.ok(("test -f %s/build/libtlua.a -a -f %s/build/libtlua.so"):format(tree, tree))
   end)

   it("does nothing the second time", function()
      make()
      assert.equal("", make())
   end)

   it("compiles again what includes a header that changed", function()
      make()
      change("src/core/answer.h", "int tli_core_answer(void); /* changed */\n")
      local said = make()
      assert.truthy(said:find("src/core/answer.c", 1, true))
      assert.falsy(said:find("src/lua/open.c", 1, true))
      assert.truthy(said:find("LD    build/tlua", 1, true))
      assert.equal("", make())
   end)

   it("compiles nothing when the generator writes the same again", function()
      make()
      change("src/ops/pointwise/pointwise.lua", "return {} -- changed\n")
      local said = make()
      assert.truthy(said:find("GEN", 1, true))
      assert.falsy(said:find("CC", 1, true))
   end)

   it("compiles again what includes a generated header that changed", function()
      make()
      change("src/gen/main.lua", (sources["src/gen/main.lua"]:gsub("/%*", "/* new")))
      local said = make()
      assert.truthy(said:find("src/lua/open.c", 1, true))
      assert.falsy(said:find("src/core/answer.c", 1, true))
   end)

   it("finds new sources and forgets removed ones", function()
      make()
      change("src/core/extra.c", "extern int tli_core_extra;\nint tli_core_extra = 1;\n")
      make()
      local symbols = shell.ok("nm " .. tree .. "/build/libtlua.a")
      assert.truthy(symbols:find("tli_core_extra", 1, true))
      shell.ok("rm " .. tree .. "/src/core/extra.c")
      make()
      symbols = shell.ok("nm " .. tree .. "/build/libtlua.a")
      assert.falsy(symbols:find("tli_core_extra", 1, true))
   end)

   it("compiles everything again when flags change, and only then", function()
      make()
      assert.truthy(make("CFLAGS=-O0"):find("src/core/answer.c", 1, true))
      assert.equal("", make("CFLAGS=-O0"))
   end)

   it("turns warnings into errors unless told not to", function()
      change("src/core/bad.c", "int tli_core_bad(void) { int x; return 1; }\n")
      local output, status = shell.run("cd " .. tree .. " && make BUILD=other")
      local _, lax = shell.run("cd " .. tree .. " && make BUILD=other WERROR=0")
      shell.ok("rm " .. tree .. "/src/core/bad.c")
      assert.are_not.equal(0, status)
      assert.truthy(output:find("unused-variable", 1, true))
      assert.equal(0, lax)
   end)

   it("keeps variants apart", function()
      make()
      make("BUILD=other")
      assert.equal("", make())
      assert.equal("42\n", shell.ok(tree .. "/other/tlua"))
   end)

   it("runs the generators without an interpreter on the machine", function()
      assert.truthy(make("BUILD=bare LUA="):find("bare/host", 1, true))
      assert.equal("42\n", shell.ok(tree .. "/bare/tlua"))
   end)

   it("does without pkg-config", function()
      local path = tree .. "/bin"
      shell.ok(("mkdir -p %s && for f in /bin/* /usr/bin/*; do case $f in */pkg-config) ;; " ..
         "*) ln -sf $f %s/ ;; esac; done"):format(path, path))
      shell.ok(("cd %s && PATH=%s make BUILD=nopc"):format(tree, path))
      assert.equal("42\n", shell.ok(tree .. "/nopc/tlua"))
   end)

   it("says what to do where lua.h is missing", function()
      local output, status = shell.run("cd " .. tree .. " && make BUILD=none LUA_CFLAGS=")
      assert.are_not.equal(0, status)
      assert.truthy(output:find("make deps", 1, true))
   end)

   it("embeds Lua modules under their names, byte for byte", function()
      make()
      local script = tree .. "/show.lua"
      shell.write(script, ([[
         local modules = package.loadlib("%s/build/libtlua.so", "luaopen_tlua")()
         local names = {}
         for name, text in pairs(modules) do names[#names + 1] = name .. "=" .. tostring(text) end
         table.sort(names)
         io.write(table.concat(names, "|"))
      ]]):format(tree))
      local expected = {
         "answer=42",
         "tlua chunk==tlua:init.lua", "tlua.empty chunk==tlua:empty.lua", "tlua.empty=",
         "tlua.manual chunk==tlua:manual.lua", "tlua.manual=" .. "return {}\n",
         "tlua.nn chunk==tlua:nn/init.lua", "tlua.nn.Linear chunk==tlua:nn/Linear.lua",
         "tlua.nn.Linear=" .. sources["lua/tlua/nn/Linear.lua"],
         "tlua.nn=" .. sources["lua/tlua/nn/init.lua"],
         "tlua=" .. sources["lua/tlua/init.lua"],
      }
      assert.equal(table.concat(expected, "|"), shell.ok("lua5.4 " .. script))
   end)

   it("lists its targets", function()
      local help = make("help")
      for target in ([[all demo test asan tsan valgrind bench opinfo lint tidy-format deps config
         install uninstall clean help]]):gmatch("%S+") do
         assert.truthy(help:find("make " .. target .. " ", 1, true), target)
      end
   end)

   it("says what was found", function()
      local config = make("config")
      for _, word in ipairs {"compiler", "lua.h", "liblua", "isas", "version"} do
         assert.truthy(config:find(word, 1, true), word)
      end
   end)

   it("removes what it has built", function()
      make()
      make("clean")
      assert.equal("", shell.ok("cd " .. tree .. " && ls -d build tlua 2>/dev/null || true"))
   end)
end)
