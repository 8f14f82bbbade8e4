-- Tests builds for other processors, systems and compilers: which tools `make cross` requires, what it builds for a
-- small library, and whether the machine-dependent files compile. A test is pending if its compiler is not installed.

local shell = require "spec.support.shell"
local small_tree = require "spec.support.small_tree"

local warnings = "-Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wvla -Werror"

-- Returns the machine-dependent source files of the engine for a system.
local function core(system)
   return "src/core/memory/alloc.c src/core/platform/parallel.c src/core/device/generator.c src/ops/random/random.c " ..
      "src/core/platform/platform_" .. system .. ".c"
end

-- Returns whether a compiler and its C library's headers are installed.
local function compiles(compiler)
   return shell.has(compiler) and
      select(2, shell.run(("echo '#include <stdio.h>' | %s -E - >/dev/null"):format(compiler))) == 0
end

local function check(compiler, files, more)
   if compiler:find("^i686") then compiler = compiler .. " -msse2 -Wno-psabi" end
   shell.ok(("%s -std=gnu11 -fsyntax-only -O1 -Isrc -I. -I%s/gen %s %s %s"):format(compiler,
      shell.quote(shell.build), warnings, more or "", files))
end

describe("compiles without a warning", function()
   for _, compiler in ipairs {"aarch64-linux-gnu-gcc", "i686-linux-gnu-gcc", "arm-linux-gnueabihf-gcc",
      "musl-gcc", "clang", "emcc"} do
      it("by " .. compiler, function()
         if not compiles(compiler) then return pending("no " .. compiler) end
         check(compiler, core "posix")
         check(compiler, "kernels/cpu/random/isa/random.c kernels/cpu/matmul/isa/tile_f32.c " ..
            "kernels/cpu/conv/isa/direct_f32.c", "-DTLK_ISA=base")
      end)
   end

   it("the page's host by emcc", function()
      if not compiles("emcc") then return pending("no emcc") end
      shell.with_folder(function(folder)
         shell.ok(("cp /usr/include/lua5.4/*.h %s; find /usr/include -name lua5.4-deb-multiarch.h -exec cp {} %s \\;")
            :format(folder, folder))
         check("emcc", "examples/wasm/host.c", "-I" .. folder)
      end)
   end)

   it("by MinGW's gcc", function()
      local compiler = "x86_64-w64-mingw32-gcc"
      if not compiles(compiler) then return pending("no " .. compiler) end
      check(compiler, core "windows", "-D__USE_MINGW_ANSI_STDIO=1 -Wno-float-conversion")
      check(compiler, "src/main/terminal_windows.c src/main/edit_windows.c")
   end)
end)

it("a processor of 32 bits has the same random numbers", function()
   if not compiles("i686-linux-gnu-gcc") then return pending("no i686-linux-gnu-gcc") end
   shell.with_folder(function(folder)
      local program = folder .. "/random_test"
      shell.ok("i686-linux-gnu-gcc -static -O1 -Isrc -I. -I" .. shell.build .. "/gen -Ispec/support -o " ..
         program .. " spec/core/random_test.c")
      if select(2, shell.run(program .. " >/dev/null")) == 126 then
         return pending("this machine does not run i386")
      end
      assert.matches("4 passed, 0 failed", shell.ok(program), 1, true)
   end)
end)

describe("Lua's version", function()
   it("is named if the headers are of another version", shell.in_folder(function(folder)
      shell.write(folder .. "/lua.h", "#define LUA_VERSION_NUM 501\n")
      shell.write(folder .. "/lauxlib.h", "")
      local output, status = shell.run(("cc -fsyntax-only -Isrc -I. -I%s -I%s/gen src/lua/state.c")
         :format(folder, shell.quote(shell.build)))
      assert.not_equal(0, status)
      assert.matches("tlua needs Lua 5.4 or 5.5", output, 1, true)
   end))
end)

it("make wasm names the compiler that is missing", function()
   local output, status = shell.run("make wasm EMCC=no-such-emcc")
   assert.not_equal(0, status)
   assert.matches("no emcc was found (Debian: emscripten)", output, 1, true)
end)

describe("make cross", function()
   local tree

   setup(function()
      tree = shell.ok("mktemp -d"):match("[^\n]+")
      small_tree.write(tree)
      shell.ok(("mkdir %s/lua54 && cp /usr/include/lua5.4/*.h %s/lua54 2>/dev/null || true"):format(tree, tree))
      shell.ok(("find /usr/include -name lua5.4-deb-multiarch.h -exec cp {} %s/lua54 \\;"):format(tree))
      -- A replacement for Lua's library, so that programs can be linked. The programs are never executed.
      local stub = {}
      for _, name in ipairs {"lua_createtable", "lua_pushlstring", "lua_setfield", "lua_pushfstring", "lua_pushstring",
         "lua_settable", "lua_pushinteger", "luaL_buffinitsize", "luaL_pushresultsize"} do
         stub[#stub + 1] = ("void %s(void) {}"):format(name)
      end
      shell.write(tree .. "/lua54/stub.c", table.concat(stub, "\n"))
   end)

   teardown(function() shell.ok("rm -rf " .. shell.quote(tree)) end)

   local function make(arguments) return shell.run(("cd %s && make %s"):format(tree, arguments)) end

   local function build(target)
      shell.ok(("cd %s/lua54 && %s-gcc -fno-builtin -c stub.c && rm -f liblua.a && %s-ar rcs liblua.a stub.o")
         :format(tree, target, target))
      local output, status = make(("cross TARGET=%s LUA_INCDIR=$PWD/lua54 LUA_LIBS=$PWD/lua54/liblua.a")
         :format(target))
      assert.equal(0, status, output)
   end

   it("asks for a TARGET and gives an example", function()
      local output, status = make("cross")
      assert.not_equal(0, status)
      assert.matches("TARGET=aarch64-linux-gnu", output, 1, true)
   end)

   it("names the compiler that is missing", function()
      local output, status = make("cross TARGET=pdp11-dec-aout")
      assert.not_equal(0, status)
      assert.matches("pdp11-dec-aout-gcc", output, 1, true)
   end)

   it("uses no part of this machine's Lua", function()
      if not shell.has("arm-linux-gnueabihf-gcc") then return pending("no arm-linux-gnueabihf-gcc") end
      local output = make("config CC=arm-linux-gnueabihf-gcc")
      assert.matches("another than this one", output, 1, true)
      assert.falsy(output:match("liblua[^\n]*x86_64"))
      output = make("CC=arm-linux-gnueabihf-gcc BUILD=build/arm LUA_CFLAGS= LUA_LIBS=")
      assert.matches("give LUA_INCDIR=FOLDER", output, 1, true)
      assert.matches("LUA_LIBS=FILE", output, 1, true)
   end)

   it("builds for ARM, with its own ar and strip", function()
      if not shell.has("aarch64-linux-gnu-gcc") then return pending("no aarch64-linux-gnu-gcc") end
      build("aarch64-linux-gnu")
      local program = tree .. "/build/aarch64-linux-gnu/tlua"
      -- this machine number in an ELF header is EM_AARCH64
      assert.equal("\xB7\x00", shell.read(program):sub(19, 20))
      local output, status = make("install CC=aarch64-linux-gnu-gcc BUILD=build/aarch64-linux-gnu " ..
         "LUA_INCDIR=$PWD/lua54 LUA_LIBS=$PWD/lua54/liblua.a DESTDIR=$PWD/root")
      assert.equal(0, status, output)
      if not shell.has("qemu-aarch64") then return pending("no qemu-aarch64") end
      assert.equal("42\n", shell.ok("qemu-aarch64 -L /usr/aarch64-linux-gnu " .. program))
   end)

   it("builds for Windows", function()
      if not shell.has("x86_64-w64-mingw32-gcc") then return pending("no x86_64-w64-mingw32-gcc") end
      build("x86_64-w64-mingw32")
      assert.equal("MZ", shell.read(tree .. "/build/x86_64-w64-mingw32/tlua.exe"):sub(1, 2))
   end)
end)
