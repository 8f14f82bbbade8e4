-- Tests what a release has besides its sources: the version, the rockspec and the notes.

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

   it("has the rockspec of the sources but for the version", function()
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
end)
