-- Tests that all ways of deployment in the README of examples/deploy give the same digits.
-- rocks/serve/spec/command_spec.lua tests the steps over HTTP, and spec/profiles/runtime_spec.lua those with the
-- library of `make runtime`.

local torch = require "tlua"
local shell = require "spec.support.shell"
local sorted = require "spec.support.sorted"

local data <const> = "examples/data/digits.csv"

describe("examples/deploy", function()
   local folder, output

   setup(function()
      folder = shell.ok("mktemp -d"):match "[^\n]+"
      output = shell.ok(("%s examples/deploy/export.lua --save %s/digits.tlp --int8 %s/int8.tlp --onnx %s/digits.onnx")
         :format(shell.start(), folder, folder, folder))
   end)

   teardown(function() shell.ok("rm -rf " .. shell.quote(folder)) end)

   it("trains, exports, and loses at most one of 360 new digits with 8-bit integers", function()
      assert.matches("return t%d+\n%d+ calls, 10 constants of %d+ bytes", output)
      local float = tonumber(output:match "\n(%d+) of 360 new digits read right\n")
      local integers = tonumber(output:match "\n(%d+) of 360 new digits read right with 8%-bit integers\n")
      assert.is_true(float >= 330, output)
      assert.is_true(integers >= float - 1, output)
      local function size(name) return #shell.read(folder .. "/" .. name) end
      assert.is_true(size "int8.tlp" < size "digits.tlp" / 2)
   end)

   it("reads the same digits in a C program without Lua", function()
      if os.getenv "SPEC_SANITIZED" == "1" then return pending "the program would need the sanitizer's options" end
      local library = shell.build .. "/libtlua.a"
      shell.ok(("%s -Isrc -o %s/run examples/deploy/run.c %s -lm -ldl -lpthread"):format(os.getenv "CC" or "cc", folder,
         shell.quote(library)))
      local right = assert(output:match "(%d+ of 1797 digits read right\n)$")
      assert.equal(right, shell.ok(("%s/run %s/digits.tlp %s"):format(folder, folder, data)))
      local rows = torch.data.CSV(data, {header = false}):tensor()
      local images = rows:narrow(2, 1, 64):float():div(16):view(-1, 1, 8, 8)
      local scores = torch.export.load(folder .. "/int8.tlp")(images)
      local count = scores:argmax(2):eq(rows:select(2, 65) + 1):sum():item()
      assert.equal(("%d of 1797 digits read right\n"):format(count), shell.ok(("%s/run %s/int8.tlp %s"):format(folder,
         folder, data)))
      local problem, status = shell.run(("%s/run %s %s"):format(folder, data, data))
      assert.equal(1, status)
      assert.matches("run: ", problem, 1, true)
   end)

   -- the compilers are in Debian's packages g++, golang-go and rustc
   for language, row in sorted {
      ["C++"] = {"c++", "c++ -Isrc -o $RUN examples/deploy/run.cpp $LIBRARY -lm -ldl -lpthread"},
      Go = {"go", "GOCACHE=$RUN.cache CGO_CFLAGS=-I$PWD/src CGO_LDFLAGS=\"$LIBRARY -lm -ldl -lpthread\" "
         .. "go build -o $RUN examples/deploy/run.go"},
      Rust = {"rustc", "rustc --edition 2021 -C link-args=\"$LIBRARY -lm -lgcc -lc\" -o $RUN examples/deploy/run.rs"},
   } do
      it("reads the same digits in " .. language, function()
         if not shell.has(row[1]) then return pending("no compiler for " .. language) end
         if os.getenv "SPEC_SANITIZED" == "1" then return pending "the program would need the sanitizer's options" end
         local command = "RUN=%s/run_language LIBRARY=$(realpath %s); export RUN LIBRARY; %s && $RUN %s/digits.tlp %s"
         local said = shell.ok(command:format(folder, shell.quote(shell.build .. "/libtlua.a"), row[2], folder, data))
         assert.equal(output:match "(%d+ of 1797 digits read right\n)$", said)
      end)
   end

   it("reads the same digits in ONNX Runtime", function()
      local python = shell.python "import numpy, onnxruntime"
      if not python then return pending "no Python with onnxruntime" end
      assert.equal(output:match "(%d+ of 1797 digits read right\n)$", shell.ok(
         ("%s examples/deploy/run.py %s/digits.onnx %s"):format(python, folder, data)))
   end)

   it("reads the same digits in WebAssembly", function()
      if not (shell.has "emcc" and shell.has "node") then return pending "no emcc or node" end
      if os.getenv "SPEC_SANITIZED" == "1" then return pending "emcc has no such sanitizers" end
      -- this build takes minutes
      shell.ok(("make runtime PROGRAM=%s/digits.tlp CC=emcc AR=emar TARGET=wasm BUILD=build/wasm LUA_INCDIR=src "
         .. "LUA_LIBS=none"):format(folder))
      shell.ok(("emcc -O1 -Isrc -sSINGLE_FILE=1 -sNODERAWFS=1 -sALLOW_MEMORY_GROWTH=1 -o %s/run.js "
         .. "examples/deploy/run.c -Wl,--whole-archive build/wasm/runtime/libtlua.a -Wl,--no-whole-archive"):format(
         folder))
      assert.equal(output:match "(%d+ of 1797 digits read right\n)$", shell.ok(
         ("node %s/run.js %s/digits.tlp %s"):format(folder, folder, data)))
   end)
end)
