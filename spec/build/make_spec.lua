-- Tests the Makefile's rules with a small library.

local shell = require "spec.support.shell"
local small_tree = require "spec.support.small_tree"

describe("make", function()
   local tree

   -- Runs make in the tree, and returns its output, which has one short line for each step.
   local function make(arguments) return shell.ok("cd " .. tree .. " && make " .. (arguments or "")) end

   -- Rewrites a source file. Waits first, until the new time stamp will be later than the built file's at the
   -- resolution of the file system.
   local function change(path, text)
      shell.ok("sleep 0.05")
      shell.write(tree .. "/" .. path, text)
   end

   setup(function()
      tree = shell.ok("mktemp -d"):match("[^\n]+")
      small_tree.write(tree)
   end)

   teardown(function() shell.ok("rm -rf " .. shell.quote(tree)) end)

   it("builds the command and both libraries", function()
      make()
      assert.equal("42\n", shell.ok(tree .. "/tlua"))
      shell.ok(("test -f %s/build/libtlua.a -a -f %s/build/libtlua.so"):format(tree, tree))
   end)

   it("builds nothing the second time", function()
      make()
      assert.equal("", make())
   end)

   it("compiles files again if a header that they include has changed", function()
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

   it("compiles files again that include a changed generated header", function()
      make()
      change("src/gen/main.lua", (small_tree.sources["src/gen/main.lua"]:gsub("/%*", "/* new")))
      local said = make()
      assert.truthy(said:find("src/lua/open.c", 1, true))
      assert.falsy(said:find("src/core/answer.c", 1, true))
   end)

   it("compiles new sources and drops removed ones", function()
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

   it("turns warnings into errors by default", function()
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

   it("works without pkg-config", function()
      local path = tree .. "/bin"
      shell.ok(("mkdir -p %s && for f in /bin/* /usr/bin/*; do case $f in */pkg-config) ;; " ..
         "*) ln -sf $f %s/ ;; esac; done"):format(path, path))
      shell.ok(("cd %s && PATH=%s make BUILD=nopc"):format(tree, path))
      assert.equal("42\n", shell.ok(tree .. "/nopc/tlua"))
   end)

   it("explains what to install if lua.h is missing", function()
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
         "tlua.nn.Linear=" .. small_tree.sources["lua/tlua/nn/Linear.lua"],
         "tlua.nn=" .. small_tree.sources["lua/tlua/nn/init.lua"],
         "tlua.odd chunk==tlua:odd.lua",
         "tlua.odd=" .. small_tree.sources["lua/tlua/odd.lua"],
         "tlua.port.signatures chunk==tlua:signatures.lua",
         "tlua.port.signatures=" .. "return {}\n",
         "tlua=" .. small_tree.sources["lua/tlua/init.lua"],
      }
      assert.equal(table.concat(expected, "|"), shell.ok("lua5.4 " .. script))
   end)

   it("measures sizes, and fails above their limits", function()
      local output = make("size")
      assert.matches("  0%.0%d MB  text of the library", output)
      for _, limit in ipairs {"MOST_TEXT=0.0001", "MOST_INSTALLED=0.0001"} do
         local _, status = shell.run(("cd %s && make size %s"):format(tree, limit))
         assert.are_not.equal(0, status, limit)
      end
   end)

   it("lists its targets", function()
      local help = make("help")
      for target in ([[all demo test asan tsan valgrind bench opinfo lint tidy-format deps config
         install uninstall clean help]]):gmatch("%S+") do
         assert.truthy(help:find("make " .. target .. " ", 1, true), target)
      end
   end)

   it("lists the libraries that it found", function()
      local config = make("config")
      for _, word in ipairs {"compiler", "lua.h", "liblua", "isas", "version"} do
         assert.truthy(config:find(word, 1, true), word)
      end
   end)

   it("removes the files that it has built", function()
      make()
      make("clean")
      assert.equal("", shell.ok("cd " .. tree .. " && ls -d build tlua 2>/dev/null || true"))
   end)
end)
