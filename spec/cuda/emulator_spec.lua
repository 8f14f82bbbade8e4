-- Tests that the emulator, which runs GPU kernels on the CPU, detects errors in kernels. `make emulator` builds the
-- test programs, which contain deliberate errors.

local shell = require "spec.support.shell"

local plain = shell.build .. "/emulated/emulator_test"
local sanitized = shell.build .. "/asan/emulated/emulator_test"

-- Runs a deliberate error of a test program. Returns the program's output and status.
local function wrong(program, name, seed)
   return shell.run(("TLUA_EMULATED_SEED=%d %s %s"):format(seed or 1, program, name))
end

local function aborted(name, ...)
   for seed = 1, 3 do
      local output, status = wrong(plain, name, seed)
      assert.equal(128 + 6, status, output)
      for _, text in ipairs {...} do assert.truthy(output:find(text), output) end
   end
end

describe("the emulator", function()
   it("gives CUDA's results", function()
      for seed = 1, 5 do
         local output, status = shell.run(("TLUA_EMULATED_SEED=%d %s"):format(seed, plain))
         assert.equal(0, status, output)
         assert.truthy(output:find("13 passed, 0 failed.*14 passed, 0 failed"), output)
      end
   end)

   it("gives them under the address sanitizer", function()
      local output, status = shell.run("TLUA_EMULATED_SEED=7 " .. sanitized)
      assert.equal(0, status, output)
   end)

   it("names kernel, block and threads if some threads miss a barrier", function()
      aborted("barrier_of_half", "kernel barrier_of_half%(int%*%), block %(0, [01], 0%): a barrier " ..
         "is not reached by all who must", "and 47 more wait in __syncthreads, [^\n]*wrong_test.cu:%d+",
         "and 15 more ended")
      aborted("barrier_and_shuffle", "kernel barrier_and_shuffle", "thread %(3, 0, 0%) waits in " ..
         "__syncthreads", "and 30 more wait in __shfl_sync", "and 31 more ended")
   end)

   it("detects threads that wait at two barriers", function()
      aborted("two_barriers", "kernel two_barriers[^\n]*: __syncthreads at [^\n]*wrong_test.cu:%d+, " ..
         "while others of the block wait at [^\n]*wrong_test.cu:%d+")
   end)

   it("detects a lane that its own mask does not contain", function()
      aborted("stranger_to_the_mask", "thread %(%d+, 0, 0%): __ballot_sync at [^\n]*: the mask " ..
         "0x0000ffff does not name the calling lane, %d+")
   end)

   it("detects a thread that traps", function()
      aborted("gives_up", "kernel gives_up[^\n]*, thread %(2, 0, 0%): __trap")
   end)

   it("makes a missing barrier give wrong numbers", function()
      for _, name in ipairs {"without_barrier", "without_second_barrier", "without_warp_barrier"} do
         local output = wrong(plain, name)
         local count = tonumber(output:match "^(%d+) of 20 launches gave wrong numbers")
         assert.truthy(count and count >= 5, name .. ": " .. output)
      end
   end)

   it("lets the address sanitizer detect accesses beyond an end", function()
      local function seen(name, kind)
         local output, status = wrong(sanitized, name)
         assert.not_equal(0, status)
         assert.truthy(output:find("ERROR: AddressSanitizer: " .. kind), output)
      end
      seen("past_the_end", "heap%-buffer%-overflow on address.-past_the_end")
      seen("past_shared", "heap%-buffer%-overflow on address.-past_shared")
      seen("freed", "heap%-use%-after%-free on address.-past_the_end")
   end)
end)
