-- Tests README.md: its examples run unchanged and print the output that the file shows.

local shell = require "spec.support.shell"

local readme = shell.read("README.md")
local tlua = shell.quote(shell.tlua)

-- Returns the code blocks of one language in order. The language "" stands for blocks without a language.
local function blocks(language)
   local found = {}
   for name, text in readme:gmatch("\n```(%w*)\n(.-\n)```") do
      if name == language then found[#found + 1] = text end
   end
   return found
end

describe("README.md", function()
   it("begins with a script that learns", shell.in_folder(function(folder)
      shell.write(folder .. "/first.lua", blocks("lua")[1])
      assert.equal("true\n", shell.ok(tlua .. " " .. shell.quote(folder .. "/first.lua")))
   end))

   it("shows the output of the first lines in the REPL", function()
      local typed, printed = blocks("")[1], blocks("")[2]
      local lines = {}
      for line in typed:gmatch("> ([^\n]+)") do lines[#lines + 1] = line end
      assert.equal(5, #lines)
      local short = readme:match("`x%[{2, {1, 2}}%]` prints `([^`]+)`")
      shell.with_folder(function(folder)
         shell.write(folder .. "/lines", table.concat(lines, "\n") .. "\n")
         local output = shell.ok(("%s -i <%s"):format(tlua, shell.quote(folder .. "/lines")))
         assert.matches(short, output, 1, true)
         assert.matches(printed, output, 1, true)
      end)
   end)

   it("shows a C program of ten lines that embeds tlua", shell.in_folder(function(folder)
      local path = shell.quote(folder .. "/host")
      shell.write(folder .. "/host.c", blocks("c")[1])
      shell.ok(("%s -Isrc -Wall -Werror -o %s %s.c $(pkg-config --cflags lua5.4) %s/libtlua.a " ..
         "$(pkg-config --libs lua5.4) -lm -ldl -lpthread"):format(os.getenv("CC") or "cc", path, path,
         shell.quote(shell.build)))
      assert.equal("tensor([[ 7., 10.],\n        [15., 22.]])\n", shell.ok(path))
   end))

   -- Compiles a program as C++ and returns its output.
   local function run_as_cpp(path, arguments)
      return shell.ok(("c++ -x c++ -include lua.hpp -Isrc -Wall -Wextra -Werror $(pkg-config --cflags lua5.4) " ..
         "-o %s.out %s -x none %s/libtlua.a $(pkg-config --libs lua5.4) -lm -ldl -lpthread && %s.out %s"):format(
            path, path, shell.quote(shell.build), path, arguments))
   end

   it("shows a program that is valid C++, like the example", function()
      if not shell.has("c++") then return pending("needs a C++ compiler") end
      shell.with_folder(function(folder)
         local path = shell.quote(folder .. "/host.c")
         shell.write(folder .. "/host.c", blocks("c")[1])
         assert.equal("tensor([[ 7., 10.],\n        [15., 22.]])\n", run_as_cpp(path, ""))
         shell.write(folder .. "/host.c", shell.read("examples/embed/host.c"))
         assert.matches("limited in place", run_as_cpp(path, "examples/embed/script.lua"), 1, true)
      end)
   end)

   it("names only existing targets and files", function()
      local makefile = shell.read("Makefile")
      local targets = 0
      for target in readme:gmatch("[`\n]make (%l+)[ `]") do
         targets = targets + 1
         assert.matches("\n" .. target .. ":", makefile, 1, true)
      end
      assert.is_true(targets >= 3)
      for path in readme:gmatch("| `([%w/._]+)` |") do
         local inside = path:gsub("^build/", shell.build .. "/")
         assert.equal(0, select(2, shell.run("test -e " .. shell.quote(inside))), path)
      end
   end)
end)
