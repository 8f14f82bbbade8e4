-- Tests `make install` and the installed files: the command, pkg-config, a C program, and the module in the system's
-- Lua.

local shell = require "spec.support.shell"

-- The output that the example in examples/embed prints.
local expected = [[
-1.162 -1.162 -1.265
-0.387 -0.387 -0.316
 0.387  0.387  0.632
 1.162  1.162  0.949
the last reading, limited in place: 10
]]

describe("make install", function()
   local prefix

   local function make(target, more)
      return shell.ok(("make %s BUILD=%s PREFIX=%s %s"):format(target, shell.build, prefix, more or ""))
   end

   local function files(folder) return shell.ok("find " .. folder .. " ! -type d | sort") end

   local pkg_config = "PKG_CONFIG_PATH=%s/lib/pkgconfig "

   -- Builds a copy of examples/embed against the installed library. Returns the command that runs
   -- it.
   local function build_example(folder, lua)
      shell.ok(("cp examples/embed/* %s && cd %s && "):format(folder, folder) ..
         pkg_config:format(prefix) .. "make -B LUA=" .. lua)
      return ("LD_LIBRARY_PATH=%s/lib %s/host "):format(prefix, folder)
   end

   local function need(package)
      local _, status = shell.run("pkg-config --exists " .. package)
      if status ~= 0 then pending("no " .. package) end
   end

   setup(function()
      prefix = shell.ok("mktemp -d"):match("[^\n]+")
      make("install")
   end)

   teardown(function() shell.ok("rm -rf " .. shell.quote(prefix)) end)

   it("installs a command that runs", function()
      assert.equal("2.0\n", shell.ok(prefix .. "/bin/tlua -e 'print(torch.ones(2):sum():item())'"))
   end)

   it("installs a module for the system's Lua", function()
      if not shell.has("lua5.4") then pending("no lua5.4 command") end
      local output = shell.ok(([[cd / && LUA_CPATH='%s/lib/lua/5.4/?.so' ]] ..
         [[lua5.4 -e 'print(require "tlua".ones(2):sum():item())']]):format(prefix))
      assert.equal("2.0\n", output)
   end)

   it("installs a module whose workers run in the system's Lua", function()
      if not shell.has("lua5.4") then pending("no lua5.4 command") end
      local script = [[
         local torch = require "tlua"
         local sum, seen = 0, 0
         local double = function(i) return {torch.tensor(2.0 * i)} end
         local Set = torch.class("Set", torch.data.Dataset)
         function Set:__len() return 40 end
         function Set:get(i) return double(i)[1] end
         for x in torch.data.DataLoader(Set(), {batch_size = 8, num_workers = 2}):iter() do
            sum, seen = sum + x:sum():item(), seen + 1
         end
         print(seen, sum)]]
      local output = shell.ok(([[cd / && LUA_CPATH='%s/lib/lua/5.4/?.so' lua5.4 -e %s]]):format(prefix,
         shell.quote(script)))
      assert.equal("5\t1640.0\n", output)
   end)

   it("installs the manual, compressed, and annotations for editors", function()
      local manual = shell.ok(("gzip -dc %s/share/doc/tlua/manual.md.gz"):format(prefix))
      assert.matches("\n### nn%.Linear\n", manual)
      assert.equal(shell.read(shell.build .. "/reference/manual.md"), manual)
      assert.matches("%-%-%-@class nn%.Linear: nn%.Module\n", shell.read(prefix .. "/share/tlua/types/tlua.lua"))
      assert.matches("\nfunction torch%.vision%.", shell.read(prefix .. "/share/tlua/types/vision.lua"))
   end)

   it("installs the static library on request, without debug information", function()
      assert.are_not.equal(0, (select(2, shell.run("test -e " .. prefix .. "/lib/libtlua.a"))))
      shell.with_folder(function(folder)
         shell.ok(("make install STATIC=1 BUILD=%s PREFIX=%s"):format(shell.build, folder))
         assert.equal("0\n", shell.ok(("readelf -S %s/lib/libtlua.a | grep -c debug_info || true"):format(folder)))
         shell.ok(("%s -I%s/include -o %s/host examples/embed/host.c $(pkg-config --cflags lua5.4) " ..
            "%s/lib/libtlua.a $(pkg-config --libs lua5.4) -lm -ldl -lpthread"):format(
               shell.cc or "cc", folder, folder, folder))
         assert.equal(expected, shell.ok(("%s/host examples/embed/script.lua"):format(folder)))
         shell.ok(("make uninstall BUILD=%s PREFIX=%s && rm %s/host"):format(shell.build, folder, folder))
         assert.equal("", files(folder))
      end)
   end)

   it("installs no debug information; install-debug installs it separately", function()
      local sections = shell.ok(("cd %s && readelf -S lib/libtlua.so.0 bin/tlua | " ..
         "grep -c debug_info || true"):format(prefix))
      assert.equal("0\n", sections)
      shell.with_folder(function(folder)
         shell.ok(("make install-debug BUILD=%s PREFIX=%s"):format(shell.build, folder))
         for path, debug in pairs {["bin/tlua"] = "bin/.debug/tlua.debug",
               ["lib/libtlua.so.0"] = "lib/.debug/libtlua.so.0.debug"} do
            local link = shell.ok(("readelf -p .gnu_debuglink %s/%s"):format(folder, path))
            assert.matches(debug:match "[^/]+$", link, 1, true)
            assert.matches("debug_info", shell.ok(("readelf -S %s/%s"):format(folder, debug)))
         end
         assert.equal("2.0\n", shell.ok(folder .. "/bin/tlua -e 'print(torch.ones(2):sum():item())'"))
         shell.ok(("make uninstall BUILD=%s PREFIX=%s"):format(shell.build, folder))
         assert.equal("", files(folder))
      end)
   end)

   it("gives pkg-config its version", function()
      local version = shell.read("src/tlua.h"):match('define TL_VERSION "([^"]+)"')
      local output = shell.ok(pkg_config:format(prefix) .. "pkg-config --modversion tlua")
      assert.equal(version .. "\n", output)
   end)

   for _, lua in ipairs {"lua5.4", "lua5.4-c++"} do
      describe("with the example of embedding and " .. lua, function()
         it("builds a program that runs a script on its own memory", function()
            need(lua)
            shell.with_folder(function(folder)
               local host = build_example(folder, lua)
               local output = shell.ok(host .. folder .. "/script.lua")
               assert.equal(expected, output)
            end)
         end)

         it("reports a script's error with its line", function()
            need(lua)
            shell.with_folder(function(folder)
               local host = build_example(folder, lua)
               shell.write(folder .. "/bad.lua", "function normalise(x)\n   return x:view(5)\nend\n")
               local output, status = shell.run(host .. folder .. "/bad.lua")
               assert.equal(1, status)
               assert.truthy(output:find("bad.lua:2: view", 1, true), output)
            end)
         end)
      end)
   end

   it("installs everything below DESTDIR if it is set", shell.in_folder(function(folder)
      make("install", "DESTDIR=" .. folder)
      local inside = files(folder .. prefix):gsub(folder:gsub("%p", "%%%0"), "")
      assert.equal(files(prefix), inside)
      make("uninstall", "DESTDIR=" .. folder)
      assert.equal("", files(folder))
   end))

   it("installs a library that the system's Lua finds after the prefix has moved", shell.in_folder(function(folder)
      shell.ok(("cp -a %s %s/moved"):format(prefix, folder))
      local link = folder .. "/moved/lib/lua/5.4/tlua.so"
      assert.equal("../../libtlua.so.0\n", shell.ok("readlink " .. link))
      shell.ok("cmp " .. link .. " " .. folder .. "/moved/lib/libtlua.so.0")
      local elsewhere = folder .. "/lua"
      make("install", "LUA_CDIR=" .. elsewhere)
      assert.equal(prefix .. "/lib/libtlua.so.0\n", shell.ok("readlink " .. elsewhere .. "/tlua.so"))
   end))

   -- The path begins with the name of an existing file and a blank. If the Makefile's commands did not quote the path,
   -- they would change this file.
   it("accepts folders with blanks, quotes and semicolons", shell.in_folder(function(folder)
      local odd, root = folder .. "/it's a; touch b \"c\"", folder .. "/stage $HOME d"
      local bystander = folder .. "/it's"
      shell.ok("touch " .. shell.quote(bystander))
      local function run(target, destination)
         shell.ok(("make %s BUILD=%s PREFIX=%s DESTDIR=%s"):format(target, shell.build,
            shell.quote(odd), shell.quote((destination:gsub("%$", "$$")))))
      end
      run("install", "")
      local tlua = shell.quote(odd .. "/bin/tlua")
      assert.equal("2.0\n", shell.ok(tlua .. " -e 'print(torch.ones(2):sum():item())'"))
      shell.ok("test -e " .. shell.quote(odd .. "/lib/lua/5.4/tlua.so"))
      run("install", root)
      local names = files(shell.quote(odd)):gsub(odd:gsub("%p", "%%%0"), "")
      local staged = files(shell.quote(root)):gsub((root .. odd):gsub("%p", "%%%0"), "")
      assert.equal(names, staged)
      run("uninstall", root)
      run("uninstall", "")
      assert.equal(bystander .. "\n", files(folder))
   end))

   it("is undone by make uninstall", function()
      make("uninstall")
      assert.equal("", files(prefix))
   end)
end)
