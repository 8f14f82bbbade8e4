-- Tests a device's memory: statistics, the cache of free blocks, how the cache is released, and what happens when
-- memory is exhausted.

local device = require "spec.support.device"
local shell = require "spec.support.shell"
local torch = require "tlua"
local sim = torch.sim

local MB = 1000 * 1000

local MIB = 1 << 20

-- Frees all device memory that earlier specs have left in use.
local function settle()
   collectgarbage()
   collectgarbage()
   sim.synchronize()
   sim.empty_cache()
   sim.reset_peak_memory_stats()
   return sim.memory_allocated()
end

describe("memory of a device", function()
   it("is used only by live tensors, through a training step", function()
      local base = settle()
      local function used() return (sim.memory_allocated() - base) / MIB end
      local x = torch.randn(1024, 1024, {device = "sim"}) -- 4 MiB
      local w = torch.randn(1024, 1024, {device = "sim", requires_grad = true})
      assert.equal(8, used())
      local h = x:matmul(w)
      local y = h:relu()
      assert.equal(16, used())
      h = nil -- luacheck: ignore
      local loss = y:sum()
      y = nil -- luacheck: ignore
      loss:backward()
      collectgarbage()
      collectgarbage()
      assert.equal(12, math.floor(used())) -- tensors in use: x, w, the gradient of w, and the loss
      local peak = (sim.max_memory_allocated() - base) / MIB
      assert.is_true(peak >= 20 and peak <= 28, peak)
      sim.reset_peak_memory_stats()
      assert.equal(sim.memory_allocated(), sim.max_memory_allocated())
      x:release()
   end)

   -- Runs in a separate process, so that memory that earlier tests use does not count.
   it("equals PyTorch's bytes for a small training step", function()
      local output = shell.ok(shell.start() .. [[ -e '
         local function row() print(torch.sim.memory_allocated() / (96 << 20)) end
         local x = torch.randn(5000, 5000, {device = "sim"})
         local w = torch.randn(5000, 5000, {device = "sim", requires_grad = true})
         row()
         local h = x:matmul(w)
         local y = h:relu()
         row()
         local loss = y:sum()
         h:release() y:release() row()
         loss:backward() row()
         w.grad = nil row()
         assert(torch.sim.max_memory_allocated() <= 5 * (96 << 20)) ']])
      local small = 512 / (96 << 20) -- the size of the loss, as a fraction of the device's memory
      local expected = {2, 4, 3 + small, 3 + small, 2 + small}
      local i = 0
      for units in output:gmatch "%S+" do
         i = i + 1
         assert.close(expected[i], tonumber(units), 1e-12)
      end
      assert.equal(5, i, output)
   end)

   it("is kept for reuse until it is released", function()
      local base = settle()
      local x = torch.ones(MB, {device = "sim"})
      x:release()
      assert.equal(base, sim.memory_allocated())
      assert.is_true(sim.memory_reserved() >= base + 4 * MB)
      assert.is_true(sim.max_memory_reserved() >= sim.memory_reserved())
      local free, total = sim.mem_get_info()
      assert.equal(total - sim.memory_reserved(), free)
      sim.empty_cache()
      assert.is_true(sim.memory_reserved() < base + 4 * MB)
   end)

   it("has statistics under PyTorch's names, and a text", function()
      local base = settle()
      local x = torch.ones(MB, {device = "sim"})
      local s = sim.memory_stats()
      -- allocations are rounded up to multiples of 512 bytes
      assert.equal(base + 4 * MB + 256, s["allocated_bytes.all.current"])
      assert.equal(sim.max_memory_allocated(), s["allocated_bytes.all.peak"])
      assert.is_true(s["allocation.all.allocated"] > s["allocation.all.freed"])
      assert.equal(torch.device "sim:0", x.device)
   end)

   it("is exhausted only after garbage and the cache were released", function()
      local base = settle()
      local _, total = sim.mem_get_info()
      sim.configure {memory = sim.memory_reserved() + 40 * MB}
      for _ = 1, 100 do torch.ones(MB, {device = "sim"}) end -- these tensors fit, since garbage is collected
      local small = torch.ones(MB * 4, {device = "sim"}) -- 16 MB
      small:release()
      local other = torch.ones(MB * 8, {device = "sim"}) -- the cached block of 16 MB is too small for this tensor
      sim.reset_accumulated_memory_stats()
      local ok, message = pcall(torch.ones, MB * 8, {device = "sim"})
      sim.configure {memory = total}
      assert.is_false(ok)
      assert.matches("memory_spec.lua:%d+: ones: out of memory on sim:0: asked for 32.00 MB; " ..
         "tensors hold 3[23].%d+ MB, .* cached in blocks of up to .*, .* of %d+.%d+ MB are free; " ..
         "garbage was collected", message)
      assert.equal(1, sim.memory_stats().num_ooms)
      assert.is_true(base < sim.memory_allocated())
      assert.equal(8 * MB, other:sum():item())
   end)
end)

describe("pinned memory", function()
   before_each(function() torch.set_default_device "cpu" end)
   after_each(function() torch.set_default_device(device.name or "cpu") end)

   it("is kept and reused, and has statistics", function()
      collectgarbage()
      sim.synchronize()
      sim.empty_host_cache()
      sim.reset_peak_host_memory_stats()
      sim.reset_accumulated_host_memory_stats()
      local before = sim.host_memory_stats()
      assert.equal(before["active_bytes.current"], before["allocated_bytes.current"])
      local function since(name) return sim.host_memory_stats()[name] - before[name] end
      local a = torch.ones(300):pin_memory("sim") -- takes 1200 bytes, for which a block of 2048 is allocated
      local b = torch.ones(300):pin_memory("sim")
      assert.equal(2, since "allocations.current")
      assert.equal(4096, since "active_bytes.current")
      local place = a:data_ptr()
      a:release()
      assert.equal(2048, since "active_bytes.current")
      assert.equal(4096, since "allocated_bytes.current")
      local c = torch.zeros(257):pin_memory("sim") -- `c` fits into the cached block of `a`
      assert.equal(place, c:data_ptr())
      assert.equal(0, c:sum():item())
      assert.equal(2, since "num_host_alloc")
      assert.equal(3, sim.host_memory_stats_as_nested_dict().active_requests.allocated)
      local late = torch.ones(300):pin_memory("sim")
      local there = late:to("sim", {non_blocking = true})
      local from = late:data_ptr()
      late:release() -- the copy from `late` may still be pending
      local other = torch.full({300}, 7.0):pin_memory("sim")
      assert.equal(300, there:sum():item())
      sim.synchronize()
      local reused = torch.ones(300):pin_memory("sim")
      assert.equal(from, reused:data_ptr())
      b:release()
      c:release()
      other:release()
      reused:release()
      assert.equal(0, since "active_bytes.current")
      sim.empty_host_cache()
      assert.equal(0, since "allocated_bytes.current")
      assert.equal(4, since "allocations.peak")
      assert.equal(4, since "num_host_free")
   end)

   it("is the target of pin_memory's copies", function()
      local x = torch.arange(10)
      local pinned = x:pin_memory("sim")
      assert.is_false(x:is_pinned())
      assert.is_true(pinned:is_pinned())
      assert.is_true(pinned:view(2, 5):is_pinned())
      assert.same(x:tolist(), pinned:tolist())
      assert.is_true(rawequal(pinned, pinned:pin_memory("sim")))
      assert.is_true(torch.zeros(0):pin_memory("sim"):is_pinned())
      assert.raises("pin_memory: expected a tensor of the CPU", "sim:0", function() x:sim():pin_memory() end)
      assert.raises("pin_memory: device:", "got string 'cpu'", function() x:pin_memory("cpu") end)
   end)

   it("allows copies to the device to continue in the background", function()
      local pinned = torch.ones(100):pin_memory("sim")
      local waits = sim.waits()
      local x = pinned:to("sim", nil, true)
      pinned:fill_(2) -- This write comes too early on purpose: the copy has not run yet, so it copies the new values.
      assert.equal(200, x:sum():item())
      assert.equal(waits + 1, sim.waits())
      x = pinned:to("sim") -- without non_blocking, the copy is complete when `to` returns
      pinned:fill_(3)
      assert.equal(200, x:sum():item())
      local plain = torch.ones(100)
      x = plain:to("sim", nil, true) -- memory that is not pinned is copied immediately
      plain:fill_(2)
      assert.equal(100, x:sum():item())
   end)

   it("allows copies from the device to arrive later", function()
      local x = torch.ones(100, {device = "sim"}) * 5
      local waits = sim.waits()
      local here = x:to("cpu", nil, true)
      assert.is_true(here:is_pinned())
      assert.equal(waits, sim.waits())
      sim.synchronize()
      assert.equal(500, here:sum():item())
      local there = torch.zeros(100):pin_memory("sim")
      there:copy_(x, true)
      assert.equal(0, there:sum():item())
      sim.synchronize()
      assert.equal(500, there:sum():item())
      there = torch.zeros(100, {dtype = "float64"}):pin_memory("sim")
      there:copy_(x, true) -- the host converts the dtype, so it waits until the data have arrived
      assert.equal(500, there:sum():item())
      assert.equal(500, x:to("cpu", "float64", true):sum():item())
   end)

   it("stays until the copy has been made", function()
      local x
      do
         local pinned = torch.full({1000}, 7):pin_memory("sim")
         x = pinned:to("sim", nil, true)
         pinned:release()
      end
      for _ = 1, 20 do torch.full({1000}, 9):pin_memory("sim"):release() end
      assert.equal(7000, x:sum():item())
   end)
end)
