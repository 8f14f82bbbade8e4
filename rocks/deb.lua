-- deb.lua - makes Debian packages of an installed tree, for `make deb`:
--
--    tlua rocks/deb.lua FOLDER VERSION
--
-- FOLDER/root has the files that `make install DESTDIR=FOLDER/root PREFIX=/usr
-- LIBDIR=/usr/lib/TRIPLET` has copied. They are moved into one folder for each package, and FOLDER
-- gets the packages. A file that belongs to no package is an error, so that a new file of `make
-- install` is not forgotten.
-- The environment variables DEBFULLNAME and DEBEMAIL have the maintainer's name and address, as for
-- Debian's other tools.

local folder <const>, version <const> = arg[1], arg[2]
if not version then
   io.stderr:write "usage: tlua rocks/deb.lua FOLDER VERSION\n"
   os.exit(2)
end
local root <const> = folder .. "/root"

--- Quotes a text for the shell.
local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Runs a command and returns the lines of its output. Raises an error if the command fails.
local function run(command)
   local pipe <close> = assert(io.popen(command))
   local lines = {}
   for line in pipe:lines() do lines[#lines + 1] = line end
   if not pipe:close() then error("failed: " .. command, 0) end
   return lines
end

local function write(path, text)
   run("mkdir -p " .. quote(path:match "^(.*)/"))
   local file <close> = assert(io.open(path, "w"))
   assert(file:write(text))
end

-- The Debian packages. A file belongs to the first package that has a pattern matching its path.
-- Most dependencies follow from the symbols that a package's files use; `needs` lists all other
-- dependencies.
local packages <const> = {
   {
      name = "tlua-cuda", section = "science", needs = {"libtlua0 (= VERSION)"},
      suggests = "nvidia-driver-libs",
      files = {"/tlua_cuda%.so$"},
      short = "kernels for NVIDIA's GPUs for tlua",
      long = "With this plugin tlua computes on NVIDIA's GPUs. It opens the driver and\n" ..
         " CUDA's libraries when a program first uses a GPU.",
   },
   {
      name = "libtlua-dev", section = "libdevel", needs = {"libtlua0 (= VERSION)", "liblua5.4-dev"},
      files = {"^/usr/include/", "%.a$", "%.pc$", "/libtlua%.so$"},
      short = "tensors and automatic differentiation for programs in C (headers)",
      long = "The header, the static library and the data for pkg-config, for programs\n" ..
         " in C that train and run models in their own process, with Lua 5.4 or without.",
   },
   {
      name = "libtlua0", section = "libs", needs = {}, recommends = "libopenblas0",
      files = {"/libtlua%.so%.0$", "^/usr/lib/[^/]+/tlua/"},
      short = "tensors and automatic differentiation for programs in C and Lua",
      long = "The shared library with tensors, operators, their gradients, layers and\n" ..
         " optimizers, with its plugins except the one for GPUs.",
   },
   {
      name = "tlua", section = "interpreters", needs = {"libtlua0 (= VERSION)"},
      suggests = "libtlua-dev",
      files = {"^/usr/bin/", "^/usr/lib/[^/]+/lua/", "^/usr/share/"},
      short = "Lua 5.4 with tensors, to train neural networks and to run them",
      long = "The command tlua runs scripts and has an interactive mode; the module tlua\n" ..
         " is for Lua 5.4 in other programs. Names and numbers are those of PyTorch 2.",
   },
}

local function package_of(path)
   for _, package in ipairs(packages) do
      for _, pattern in ipairs(package.files) do
         if path:find(pattern) then return package end
      end
   end
   error(("%s belongs to no package; see the list in rocks/deb.lua"):format(path), 0)
end

-- Moves the files --------------------------------------------------------------------------------

for _, path in ipairs(run(("cd %s && find . -type f -o -type l"):format(quote(root)))) do
   path = path:sub(2)
   local package = package_of(path)
   local target = ("%s/%s%s"):format(folder, package.name, path)
   run(("mkdir -p %s && mv %s %s"):format(quote(target:match "^(.*)/"), quote(root .. path),
                                          quote(target)))
   package.there = true
end

--- Returns the dependencies that follow from the symbols which a package's programs and libraries
--- use. These are the dependencies on the C library, at least in the version of the newest symbol.
local function needed_libraries(place)
   local newest = {0, 0}
   local symbols = run(("find %s -type f \\( -name '*.so*' -o -path '*/bin/*' \\) " ..
      "-exec objdump -T {} + 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -u || true")
      :format(quote(place)))
   for _, symbol in ipairs(symbols) do
      local major, minor = symbol:match "GLIBC_(%d+)%.(%d+)"
      major, minor = tonumber(major), tonumber(minor)
      if major and (major > newest[1] or major == newest[1] and minor > newest[2]) then
         newest = {major, minor}
      end
   end
   return newest[1] > 0 and {("libc6 (>= %d.%d)"):format(newest[1], newest[2])} or {}
end

-- Writes the descriptions, and packs -------------------------------------------------------------

local architecture <const> = run "dpkg --print-architecture"[1]
local date <const> = run "LC_ALL=C date -R"[1]
local maintainer <const> = ("%s <%s>"):format(os.getenv "DEBFULLNAME" or "tlua authors",
                                              os.getenv "DEBEMAIL" or "tlua@localhost")

local license_file <close> = assert(io.open "LICENSE")
local license <const> = license_file:read "a"

local copyright <const> = [[
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tlua

Files: *
Copyright: the authors of tlua
License: Expat

License: Expat
]] .. (license:gsub("\n\n", "\n.\n"):gsub("([^\n]+)", " %1"))

local manual_page <const> = [==[
.TH TLUA 1
.SH NAME
tlua \- Lua 5.4 with tensors
.SH SYNOPSIS
.B tlua
[options] [script [arguments]]
.SH DESCRIPTION
.B tlua
runs a script in Lua 5.4 that has tensors, automatic differentiation, neural networks and
optimizers as the globals
.BR torch ,
.B nn
and
.BR optim .
Without a script it reads lines from the terminal. Its options and commands are those that
.B tlua \-\-help
prints;
.B tlua help
.I name
prints the manual's text on a name.
.SH FILES
.I /usr/share/doc/tlua/manual.md.gz
has the whole reference, which
.B zless
shows,
.I /usr/share/tlua/types
the annotations for editors.
]==]

for _, package in ipairs(packages) do
   if package.there then
      local place = folder .. "/" .. package.name
      local docs = place .. "/usr/share/doc/" .. package.name
      -- The file `copyright` contains this text, so the file LICENSE is removed.
      run("rm -f " .. quote(place .. "/usr/share/doc/tlua/LICENSE"))
      write(docs .. "/copyright", copyright)
      write(docs .. "/changelog.Debian",
            ("%s (%s-1) unstable; urgency=medium\n\n  * Package tlua %s.\n\n -- %s  %s\n")
            :format(package.name, version, version, maintainer, date))
      run("gzip -9n " .. quote(docs .. "/changelog.Debian"))
      -- These packages are not uploaded to Debian. So they close no request for packaging, which
      -- lintian would expect.
      write(place .. "/usr/share/lintian/overrides/" .. package.name,
            package.name .. ": initial-upload-closes-no-bugs\n")
      run(("find %s -name '*.so*' -type f -exec chmod -x {} +"):format(quote(place)))
      if package.name == "tlua" then
         write(place .. "/usr/share/man/man1/tlua.1", manual_page)
         run("gzip -9n " .. quote(place .. "/usr/share/man/man1/tlua.1"))
      end
      if package.name == "libtlua0" then
         write(place .. "/DEBIAN/triggers", "activate-noawait ldconfig\n")
         write(place .. "/DEBIAN/shlibs", "libtlua 0 libtlua0\n")
      end
      local needs = needed_libraries(place)
      for _, need in ipairs(package.needs) do
         needs[#needs + 1] = need:gsub("VERSION", version .. "-1")
      end
      local fields = {
         "Package: " .. package.name,
         ("Version: %s-1"):format(version),
         "Architecture: " .. architecture,
         "Section: " .. package.section,
         "Priority: optional",
         "Maintainer: " .. maintainer,
         "Installed-Size: " ..
            run(("du -sk --exclude=DEBIAN %s"):format(quote(place)))[1]:match "%d+",
         #needs > 0 and "Depends: " .. table.concat(needs, ", ") or false,
         package.recommends and "Recommends: " .. package.recommends or false,
         package.suggests and "Suggests: " .. package.suggests or false,
         ("Description: %s\n %s"):format(package.short, package.long),
      }
      local lines = {}
      for _, field in ipairs(fields) do lines[#lines + 1] = field or nil end
      write(place .. "/DEBIAN/control", table.concat(lines, "\n") .. "\n")
      run(("cd %s && find . -type f -not -path './DEBIAN/*' -printf '%%P\\n' | LC_ALL=C sort | " ..
           "xargs -d '\\n' md5sum >DEBIAN/md5sums && chmod -R u+w,go-w,a+rX .")
          :format(quote(place)))
      run(("dpkg-deb --root-owner-group --build %s %s >/dev/null")
          :format(quote(place), quote(folder)))
      run("rm -r " .. quote(place))
   end
end
run(("find %s -depth -type d -empty -delete"):format(quote(root)))
for _, line in ipairs(run(("wc -c %s/*.deb"):format(quote(folder)))) do
   local bytes, path = line:match "(%d+) (.+%.deb)$"
   if path then print(("%6.2f MB  %s"):format(bytes / 1e6, path)) end
end
