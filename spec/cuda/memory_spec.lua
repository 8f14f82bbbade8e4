-- Tests the memory of GPUs: addresses, virtual memory and segments, also when the driver grants less than requested.
-- Each test runs a separate program with its own settings of the emulator.

local shell = require "spec.support.shell"
local emulated <const> = require("spec.support.device").is_emulated() and it or pending

-- Runs a program with tlua's own allocator and the given settings, and returns its output.
local function run(settings, program)
   return shell.ok(("TLUA_CUDA_ALLOCATOR=native %s %s -e %s"):format(settings, shell.start(), shell.quote(program)))
end

-- the settings for a GPU with 80 GB of memory; its address space has 47 bits
local H100 <const> = "TLUA_EMULATED_MEMORY=85899345920"

describe("a GPU's addresses", function()
   -- If each pool reserved eight times the device's memory, the address space would be exhausted before 204 pools.
   it("suffice for 220 pools of graphs on 80 GB", function()
      local output = run(H100, [[
         local cuda = torch.cuda
         local graphs, x = {}, torch.zeros(1, {device = "cuda"})
         for i = 1, 220 do
            graphs[i] = cuda.Graph()
            cuda.graph(graphs[i], function() return x + 1 end)
         end
         local s = cuda.memory_stats()
         print(s.num_alloc_retries, s.num_address_retries, s.reserved_addresses < 2^43)]])
      assert.equal("0\t0\ttrue\n", output)
   end)

   emulated("are asked for in small ranges when they run short", function()
      local output = run(H100 .. " TLUA_EMULATED_ADDRESSES=" .. (12 << 30), [[
         local kept = {}
         for i = 1, 20 do
            torch.cuda.stream(torch.cuda.Stream(),
               function() kept[i] = torch.full({1 << 10}, i, {device = "cuda"}) end)
         end
         torch.cuda.synchronize()
         local sum = 0
         for _, x in ipairs(kept) do sum = sum + x[1]:item() end
         local s = torch.cuda.memory_stats()
         print(math.tointeger(sum), s.num_address_retries > 0, s.reserved_addresses < 12 << 30)]])
      assert.equal("210\ttrue\ttrue\n", output)
   end)

   emulated("grow with what a stream needs", function()
      -- The first address range has a sixteenth of 2 GiB, rounded up to a multiple of 20 MiB. Each further range is as
      -- large as all earlier ranges together.
      local output = run("TLUA_EMULATED_MEMORY=" .. (2 << 30), [[
         local list = {}
         for i = 1, 7 do
            list[i] = torch.empty(1 << 24, {device = "cuda"}) -- 64 MiB
            io.write(torch.cuda.memory_stats().reserved_addresses >> 20, " ")
         end]])
      assert.equal("140 280 560 560 560 560 1120 ", output)
   end)
end)

describe("without virtual memory", function()
   local function ways(program)
      for _, settings in ipairs {"TLUA_EMULATED_LEGACY=1", "TLUA_CUDA_ALLOCATOR=segments"} do program(settings) end
   end

   emulated("a GPU's memory is divided from segments, and the statistics and the doctor say so", function()
      ways(function(settings)
         local output = run(settings, [[
            local x = torch.ones(8, 8, {device = "cuda"})
            local large = torch.ones(1 << 20, {device = "cuda"})
            local s = torch.cuda.memory_stats()
            print(s.expandable_segments, s["allocation.all.current"] >= 2, s.reserved_addresses / 2^20)
            print(x:matmul(x):sum():item() + large:sum():item() == 512 + (1 << 20))
            x, large = nil, nil
            collectgarbage() collectgarbage()
            torch.cuda.empty_cache()
            print(torch.cuda.memory_stats().reserved_addresses)]])
         assert.equal("0\ttrue\t40.0\ntrue\n0\n", output)
         assert.matches("missing  GPU memory", shell.ok(settings .. " " .. shell.start() .. " doctor"))
      end)
      assert.matches("found    GPU memory         mapped on demand", shell.ok(shell.start() .. " doctor"))
      assert.equal("1\n", run("", "print(torch.cuda.memory_stats().expandable_segments)"))
   end)

   it("graphs can be captured and replayed", function()
      ways(function(settings)
         assert.equal("12\n", run(settings, [[
            local x, g = torch.ones(4, {device = "cuda"}), torch.cuda.Graph()
            local y = torch.cuda.graph(g, function() return (x * 2 + 1):sum() end)
            g:replay()
            print(math.tointeger(y:item()))]]))
      end)
   end)

   emulated("a smaller segment is allocated if the driver refuses a larger one", function()
      assert.equal("true\n", run("TLUA_EMULATED_LEGACY=1 TLUA_EMULATED_MEMORY=12582912", [[
         local x = torch.ones(1 << 20, {device = "cuda"})
         print(x:sum():item() == 1 << 20)]]))
   end)
end)

it("a GPU's memory by cudaMalloc alone is counted", function()
   assert.equal("1\t1024\t1024\ttrue\n0\t0\n", run("TLUA_CUDA_ALLOCATOR=driver", [[
         local x = torch.empty(256, {device = "cuda"})
         local s = torch.cuda.memory_stats()
         print(s["allocation.all.current"], s["allocated_bytes.all.current"],
            s["reserved_bytes.small_pool.current"], s.num_device_alloc >= 1)
         x:release()
         s = torch.cuda.memory_stats()
         print(s["allocation.all.current"], s["allocated_bytes.all.current"])]]))
end)

describe("a copy from pageable memory", function()
   it("counts as a wait if it is larger than the driver's own buffer, and pinned memory's does not", function()
      assert.equal("0\t1\n", run("TLUA_EMULATED_LAZY=1", [[
         local small, large = torch.ones(1 << 10), torch.ones(1 << 20)
         local a, b = torch.empty(1 << 10, {device = "cuda"}), torch.empty(1 << 20, {device = "cuda"})
         local function waits(fn)
            local before = torch.cuda.waits()
            fn()
            return torch.cuda.waits() - before
         end
         print(waits(function() a:copy_(small) end), waits(function() b:copy_(large) end))]]))
   end)
end)
