-- Tests that the GPU's kernels have no races, and that races.cc detects a race when a barrier is removed. `make races`
-- runs the kernels in 20 different orders of threads.

local shell = require "spec.support.shell"

local function run(settings, name)
   return shell.run(("TLUA_PLUGINS=%s/counted TLUA_EMULATED_MULTIPROCESSORS=1 TLUA_EMULATED_RACES=1 %s %s " ..
      "spec/cuda/races.lua %s 2>&1"):format(shell.build, settings, shell.start(), name))
end

-- Returns the line number of the first barrier in a source file.
local function barrier_of(path)
   local number = 0
   for line in io.lines(path) do
      number = number + 1
      if line:find "__syncthreads" then return number end
   end
end

describe("a GPU's kernels", function()
   it("are tested wherever a source file declares memory that threads share", function()
      local makefile = shell.read "Makefile"
      local counted = makefile:match "COUNTED_SRC := (.-)\nuncounted"
      local sources = shell.ok "grep -l __shared__ kernels/cuda/*/*.cu"
      local found = 0
      for name in sources:gmatch "kernels/cuda/(%S+)" do
         assert.truthy(counted:find(name, 1, true), name .. " is not in COUNTED_SRC of the Makefile")
         found = found + 1
      end
      assert.truthy(found > 5)
   end)

   it("have no races in shared and global memory", function()
      local output, status = run("", "")
      assert.equal(0, status, output)
      assert.is_true(select(2, output:gsub("no race", "")) >= 10, output)
   end)

   it("have one where a barrier is removed", function()
      local line = barrier_of "kernels/cuda/matmul/gemm.cu"
      local output, status = run("TLUA_EMULATED_REMOVE=gemm.cu:" .. line, "gemm")
      assert.is_true(status ~= 0, output)
      assert.matches("removed gemm%.cu:" .. line, output)
      assert.matches("kernel void product_kernel<[^>]*>%b(), block %b(), thread %b(): race in shared memory: " ..
         "it %a+ a word that ", output)
   end)
end)
