-- Tests that a captured chain of elementwise kernels becomes one generated kernel. In these tests, the compiler that
-- built the emulator compiles that kernel, and the cache on disk keeps the result. The programs are in
-- fusion_program.lua.
--
--   TLUA_FUSION_CHAINS=500 make emulated SPEC=spec/cuda/fusion_spec.lua
--
-- runs that many random chains (12 by default).

local shell = require "spec.support.shell"
local sorted = require "spec.support.sorted"
local emulated <const> = require("spec.support.device").is_emulated() and it or pending

local CHAINS <const> = tonumber(os.getenv "TLUA_FUSION_CHAINS") or 12

-- Runs a program with a kernel cache of its own and with the given settings. Returns the number of kernels in the cache
-- afterwards.
local function run(folder, program, settings, file)
   local output, status = shell.run(("TLUA_EMULATED_COMPILER=1 TLUA_CACHE=%s %s %s spec/cuda/%s.lua %s")
      :format(shell.quote(folder), settings or "", shell.start(), file or "fusion_program", program))
   assert.equal(0, status, output)
   assert.equal("the same bits\n", output)
   return tonumber(shell.ok(("ls %s | grep -c cubin || true"):format(shell.quote(folder))):match "%d+")
end

local function with_cache(fn) return function() shell.with_folder(fn) end end

describe("a chain of elementwise operators in a graph", function()
   it("has the bits of its operators, for random chains", with_cache(function(folder)
      assert.truthy(run(folder, "chains 1 " .. CHAINS) > CHAINS / 2)
   end))

   it("has these bits if it writes neighbours of elements that it reads", with_cache(function(folder)
      assert.truthy(run(folder, "windows 1 8") > 3)
   end))

   it("may contain dropout, SwiGLU, rotations, divisions of integers and gradients of activations",
      with_cache(function(folder) run(folder, shell.quote(folder), nil, "fusion_operators") end))

   it("has the bits of 50 eager training steps", with_cache(function(folder)
      assert.truthy(run(folder, "train") > 3)
   end))

   it("is launched before other kernels, events and copies on its stream", with_cache(function(folder)
      assert.truthy(run(folder, "between") > 0)
   end))

   for name, what in sorted {
      aliases = "where tensors share memory", holding = "of what somebody still has, whatever went",
      mixes = "of any shapes and dtypes", long = "of a thousand operators and of many arrays",
      captures = "after captures that were left, under autocast, on two streams",
      threads = "in captures on several threads",
      transformer = "in a transformer's steps with dropout, SwiGLU, rotations and autocast",
   } do
      it("has the same bits " .. what, with_cache(function(folder)
         assert.truthy(run(folder, name, nil, "fusion_edges") > 1)
         run(folder, name, "TLUA_EMULATED_LAZY=1", "fusion_edges")
      end))
   end

   emulated("is complete, or the capture fails, for every failing call of the runtime", with_cache(function(folder)
      local failed = 0
      run(folder, "failing", nil, "fusion_edges")
      for n = 1, 75 do
         local output, status = shell.run(("TLUA_EMULATED_COMPILER=1 TLUA_CACHE=%s TLUA_EMULATED_FAIL_AT=%d %s " ..
            "spec/cuda/fusion_edges.lua failing"):format(shell.quote(folder), n, shell.start()))
         assert.equal(0, status, n .. ": " .. output)
         if output:find "an error" then failed = failed + 1 end
      end
      assert.truthy(failed > 5 and failed < 75)
   end))

   it("has the same bits on a device that runs late", with_cache(function(folder)
      run(folder, "between", "TLUA_EMULATED_LAZY=1")
   end))

   it("is compiled once, and again if its file is damaged", with_cache(function(folder)
      assert.equal(1, run(folder, "known"))
      local file = shell.ok(("echo %s/*.cubin"):format(folder)):match "[^\n]+"
      local code = shell.read(file)
      -- the kernel comes from the cache on disk, so no compiler is needed
      assert.equal(1, run(folder, "known", "TLUA_EMULATED_COMPILER=2"))
      shell.write(file, code:sub(1, -100) .. ("x"):rep(99))
      assert.equal(1, run(folder, "known", "TLUA_EMULATED_COMPILER=2"))
      assert.equal(1, run(folder, "known"))
      assert.equal(#code, #shell.read(file))
      assert.truthy(not shell.read(file):find(("x"):rep(99), 1, true))
   end))

   it("is not confused with another chain whose file has the same name", with_cache(function(folder)
      run(folder, "known")
      local own = shell.ok(("echo %s/*.cubin"):format(folder)):match "[^\n]+"
      with_cache(function(others)
         run(others, "windows 1 2")
         local other = shell.ok(("ls %s/*.cubin | head -1"):format(others)):match "[^\n]+"
         shell.write(own, shell.read(other))
      end)()
      run(folder, "known")
      shell.write(own, "")
      run(folder, "known")
      assert.truthy(#shell.read(own) > 0)
   end))

   emulated("is not compiled if that is turned off, or if compilation fails", with_cache(function(folder)
      assert.equal(0, run(folder, "off"))
      assert.equal(0, run(folder, "known", "TLUA_EMULATED_COMPILER=0"))
      assert.equal(0, run(folder, "known", "TLUA_EMULATED_COMPILER=2"))
      assert.equal(0, run(folder, "known", "TLUA_CACHE=0"))
      assert.equal(0, run(folder, "known", "TLUA_CACHE=/proc/nowhere"))
   end))
end)
