-- Tests that an error on a GPU becomes a Lua error that describes the cause and names the source line, and that the
-- program can continue.

local torch = require "tlua"
local shell = require "spec.support.shell"
local two_devices <const> = require("tlua").cuda.device_count() > 1 and it or pending
local emulated <const> = require("spec.support.device").is_emulated() and it or pending
local cuda = torch.cuda
local on <const> = {device = "cuda"}

-- Runs a program with the given settings of the emulator, and returns its output.
local function run(settings, program)
   return shell.ok(("%s %s -e %s"):format(settings, shell.start(), shell.quote(program)))
end

describe("on a GPU", function()
   it("an error about a missing device lists the existing ones", function()
      local last <const> = cuda.device_count() - 1
      assert.raises("zeros: device cuda:7: expected cuda:0 to cuda:" .. last,
         function() torch.zeros(2, {device = "cuda:7"}) end)
      assert.raises("to: device cuda:2: expected cuda:0 to cuda:" .. last, function() torch.ones(2):to("cuda:2") end)
      assert.raises("cuda.set_device: device cuda:5: expected cuda:0 to cuda:" .. last,
         function() cuda.set_device(5) end)
   end)

   two_devices("tensors of two devices are named with their arguments", function()
      local x = torch.ones(3, 4, on)
      assert.raises("add: expected all tensors on one device, got self on cuda:0 and other on cpu",
         function() return x + torch.ones(3, 4, {device = "cpu"}) end)
      assert.raises("matmul: expected all tensors on one device, got self on cuda:0 and other on cuda:1",
         function() return x:matmul(torch.ones(4, 3, {device = "cuda:1"})) end)
   end)

   it("a position out of range is reported at the next wait, with operator and line", function()
      local x, bad = torch.ones(3, 4, on), torch.tensor({1, 9}, on)
      local line = debug.getinfo(1, "l").currentline + 1
      x:index_select(1, bad)
      local ok, message = pcall(cuda.synchronize)
      assert.is_false(ok)
      assert.matches("cuda.synchronize: index_select: index: position 9 is out of range: " ..
         "expected 1 to 3 %(called at .*errors_spec%.lua:" .. line .. "%)$", message)
      assert.equal(12, x:sum():item())
   end)

   it("a capture that was not ended is closed with its graph", function()
      local x, s = torch.ones(3, 4, on), cuda.Stream()
      assert.raises("cuda.synchronize: cuda: waiting for the device: not possible while a graph is captured",
         function()
            local g = cuda.Graph()
            cuda.stream(s, function()
               g:capture_begin()
               x:add_(1)
               cuda.synchronize()
            end)
         end)
      collectgarbage()
      collectgarbage()
      assert.is_false(cuda.stream(s, cuda.is_current_stream_capturing))
      assert.equal(12, x:sum():item())
   end)

   emulated("an error for lack of memory has figures, and its history the line", function()
      -- this test needs tlua's own allocator, because only that one has statistics; other specs may select another
      -- allocator
      local output = run("TLUA_CUDA_ALLOCATOR=native TLUA_EMULATED_MEMORY=67108864", [[
         torch.cuda.memory._record_memory_history()
         local kept = torch.ones(1 << 22, {device = "cuda"})
         print(pcall(torch.ones, 1 << 24, {device = "cuda"}))
         for _, e in ipairs(torch.cuda.memory._snapshot().device_traces[1]) do
            if e.action == "oom" then print("oom", e.size, e.frames[1].name, e.frames[2].line) end
         end
         print(kept:sum():item(), torch.cuda.memory_stats().num_ooms)]])
      assert.matches("ones: out of memory on cuda:0: asked for 67.11 MB; tensors hold 16.78 MB, .* " ..
         "are cached in blocks of up to .*, .* of 67.11 MB are free; garbage was collected and the " ..
         "cache given back: release tensors .* use smaller batches", output)
      assert.matches("\noom\t67108864\tones\t3\n4194304%.?0?\t1\n$", output)
   end)

   emulated("an error for a GPU without kernels in this build names it and a remedy", function()
      local output = run("TLUA_EMULATED_FOREIGN=1", [[
         print(pcall(function() return torch.ones(8, {device = "cuda"}) + 1 end))]])
      assert.matches("^false\t.*cuda:0 has compute capability 9%.0, and this build has kernels " ..
         "for 80 90; build with make CUDA_ARCH=\"80 90 90\"\n$", output)
   end)

   it("everything except graphs works if the driver allocates each block", function()
      local output = run("TLUA_CUDA_ALLOCATOR=driver", [[
         local x = torch.ones(8, 8, {device = "cuda"})
         print(x:matmul(x):sum():item())
         x:release()
         torch.cuda.empty_cache()
         local g, s = torch.cuda.Graph(), torch.cuda.Stream()
         print(pcall(torch.cuda.stream, s, function() g:capture_begin() end))
         print(torch.ones(4, {device = "cuda"}):sum():item())]])
      assert.matches("^512%.?0?\nfalse\t.*capturing a graph: not possible while every block is the " ..
         "driver's, [^\n]*\n4%.?0?\n$", output)
   end)

   it("a copy from pinned memory is complete when its call returns, unless it is asynchronous", function()
      local output = run("TLUA_EMULATED_LAZY=1", [[
         local pinned = torch.ones(1000):pin_memory()
         local x = pinned:to "cuda"
         pinned:fill_(2)
         local y = torch.zeros(1000, {device = "cuda"})
         y:copy_(pinned)
         pinned:fill_(3)
         print(x:sum():item(), y:sum():item())]])
      assert.matches("^1000%.?0?\t2000%.?0?\n$", output)
   end)

   emulated("float32 convolutions use TF32 only if that is allowed", function()
      local output = run("", [[
         local F, cudnn = torch.nn.functional, torch.backends.cudnn
         local x, w = torch.full({1, 1, 4}, 1 + 2^-12), torch.ones(1, 1, 1)
         local function error() return (F.conv1d(x:cuda(), w:cuda()):cpu() - x):abs():max():item() end
         local rounded = error()
         cudnn.allow_tf32 = false
         print(rounded == 2^-12, error() == 0)]])
      assert.equal("true\ttrue\n", output)
   end)

   it("products of integers may have any number of rows", function()
      local output = run("TLUA_EMULATED_LAZY=1", [[
         local a = torch.zeros((65535 << 5) + 1, 1, {dtype = "uint8", device = "cuda"})
         print(a:matmul(torch.zeros(1, 1, {dtype = "uint8", device = "cuda"})).shape[1])
         os.exit(true, false)]])
      assert.equal("2097121\n", output)
   end)

   emulated("every call is an error after the driver has failed, and the program ends as usual", function()
      for _, at in ipairs {3, 10, 30, 60, 100, 200} do
         local output = run("TLUA_EMULATED_DEAD_AT=" .. at, [[
            local s, x
            local ok, message = pcall(function()
               s = torch.cuda.Stream()
               for i = 1, 60 do
                  x = torch.ones(8, 8, {device = "cuda"})
                  x:matmul(x):relu():sum():item()
               end
            end)
            print(ok, message)
            print(pcall(torch.cuda.synchronize))
            if s then print(pcall(s.synchronize, s)) end
            print(pcall(torch.zeros, 2, {device = "cuda"}))
            print("here", torch.ones(2, {device = "cpu"}):sum():item())]])
         assert.matches("^false\t.*unspecified launch failure %(cudaErrorLaunchFailure%); " ..
            "this process can use no GPU any more\nfalse\t.*", output)
         assert.falsy(output:find("\ntrue", 1, true), output)
         assert.matches("\nhere\t2%.?0?\n$", output)
      end
   end)
end)
