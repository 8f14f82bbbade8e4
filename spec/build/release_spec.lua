-- Tests the files of a release other than the sources: the version, the rockspec and the release notes.

local torch = require "tlua"
local shell = require "spec.support.shell"
local release = dofile "rocks/release.lua"

local version <const> = torch.__version__

describe("a release", function()
   it("has the same version in the header, the README and the rockspec's name", function()
      assert.equal(version, shell.read("src/tlua.h"):match 'TL_VERSION "([^"]+)"')
      assert.matches(("tlua %s "):format(version), shell.read "README.md", 1, true)
      local path = ("rocks/tlua-%s-1.rockspec"):format(version)
      local fields = {}
      assert(loadfile(path, "t", fields))()
      assert.equal(version .. "-1", fields.version)
      assert.equal("v" .. version, fields.source.tag)
   end)

   it("has the rockspec of the sources, except for the version", function()
      assert.equal(release.rockspec(shell.read "rocks/tlua-scm-1.rockspec", version),
         shell.read(("rocks/tlua-%s-1.rockspec"):format(version)))
   end)

   it("has a rockspec for each package", shell.in_folder(function(folder)
      shell.ok(("%s rocks/release.lua rockspecs 1.2.3 %s"):format(shell.quote(shell.tlua), shell.quote(folder)))
      local count = 0
      for path in shell.ok("ls " .. folder .. "/*.rockspec"):gmatch "[^\n]+" do
         local fields = {}
         assert(loadfile(path, "t", fields))()
         assert.same({"1.2.3-1", "v1.2.3"}, {fields.version, fields.source.tag})
         count = count + 1
      end
      assert.is_true(count >= 7, count)
   end))

   it("has notes in sections, without changes that users do not see", function()
      assert.equal([[
## New

* Add b
* io: Write c

## Mended

* nn: Fix a

## Other changes

* Think of d

3 further commits change specs, comments and places of files.]], release.notes {
         "Add b", "nn: Fix a", "x_spec: Add a case", "io: Write c", "Think of d", "Reword e",
         "src/README: Add a row",
      })
   end)

   -- Makes Debian packages of a source tree that has these files. Returns the command's output and status.
   local function debian_packages(folder, paths)
      for _, path in ipairs(paths) do
         local target = folder .. "/root/usr/" .. path
         local place = shell.quote(target:match "^(.*)/")
         shell.ok(("mkdir -p %s && cp -L /bin/true %s"):format(place, shell.quote(target)))
      end
      return shell.run(("%s rocks/deb.lua %s %s"):format(shell.start(), shell.quote(folder), version))
   end

   it("has Debian packages, one for each use", shell.in_folder(function(folder)
      if not shell.has "dpkg-deb" then return pending "there is no dpkg-deb" end
      local output, status = debian_packages(folder, {"bin/tlua", "include/tlua.h", "share/doc/tlua/LICENSE",
         "lib/any-linux/libtlua.so.0", "lib/any-linux/libtlua.a", "lib/any-linux/lua/5.4/tlua.so",
         "lib/any-linux/tlua/tlua_sim.so", "lib/any-linux/tlua/tlua_cuda.so", "share/lua/5.4/tlua/text/init.lua"})
      assert.equal(0, status, output)
      local function contents(name)
         return shell.ok(("cd %s && dpkg-deb -c %s_*.deb && dpkg-deb -I %s_*.deb")
            :format(shell.quote(folder), name, name))
      end
      for name, patterns in pairs {
         tlua = {"usr/bin/tlua\n", "lua/5.4/tlua.so\n", "tlua/text/init.lua\n", "man1/tlua.1.gz\n",
                 "doc/tlua/copyright\n", "Depends: libc6 (>= "},
         libtlua0 = {"any-linux/libtlua.so.0\n", "tlua/tlua_sim.so\n", "Recommends: libopenblas0\n"},
         ["libtlua-dev"] = {"include/tlua.h\n", "libtlua.a\n", ("libtlua0 (= %s-1)"):format(version)},
         ["tlua-cuda"] = {"tlua/tlua_cuda.so\n"},
      } do
         local text = contents(name)
         for _, pattern in ipairs(patterns) do assert.matches(pattern, text, 1, true) end
         assert.matches(("Version: %s-1\n"):format(version), text, 1, true)
         assert.not_matches("LICENSE", text, 1, true)
      end
   end))

   it("refuses a Debian package for a file that has no place", shell.in_folder(function(folder)
      local output, status = debian_packages(folder, {"games/tlua"})
      assert.equal(1, status)
      assert.matches("/usr/games/tlua belongs to no package; see the list in rocks/deb.lua", output, 1, true)
   end))
end)
