-- Tests memory reports: statistics, peaks, the source lines that allocated the tensors in use, and leaks.

local torch = require "tlua"

local function line_of(fn) return debug.getinfo(fn, "S").linedefined end

describe("memory_stats", function()
   it("has the CPU's figures by PyTorch's names", function()
      local before = torch.memory_allocated()
      local t = torch.empty(1 << 20)
      local s = torch.memory_stats()
      assert.equal(s.used, s["allocated_bytes.all.current"])
      assert.equal(s.used + s.cached, s["reserved_bytes.all.current"])
      assert.is_true(torch.memory_allocated "cpu" >= before + 4 * t:numel())
   end)

   it("counts the peak of memory used", function()
      torch.reset_peak_memory_stats()
      local t = torch.empty(1 << 20)
      t:release()
      local peak = torch.max_memory_allocated()
      assert.is_true(peak >= 4 << 20, peak)
      assert.is_true(torch.memory_allocated() < peak)
      torch.reset_peak_memory_stats()
      assert.is_true(torch.max_memory_allocated() < peak)
   end)

   it("asks a device for its figures", function()
      local t = torch.empty(1000, {device = "sim"})
      assert.is_true(torch.memory_allocated "sim" >= 4000)
      assert.equal(torch.sim.memory_allocated(), torch.memory_allocated "sim:0")
      assert.matches("memory of", torch.memory_summary "sim")
      t:release()
      assert.raises('device: expected a device such as "cpu" or "cuda:0", got "gpu"',
         function() torch.memory_stats "gpu" end)
   end)
end)

describe("memory_snapshot", function()
   after_each(function() torch.record_memory_history(false) end)

   it("requires a recording", function()
      assert.raises("call torch.record_memory_history() first", function() torch.memory_snapshot() end)
   end)

   it("names line, operator, size and dtype of each live tensor", function()
      torch.record_memory_history()
      local kept = {}
      local function make()
         for i = 1, 3 do kept[i] = torch.zeros(1000, {dtype = "float64"}) end
         return kept
      end
      make()
      local _ = torch.ones(50000):release()
      local group = torch.memory_snapshot()[1]
      assert.equal(3, group.count)
      assert.equal(24000, group.bytes)
      assert.equal("float64", group.dtype)
      assert.equal(("spec/memory/snapshot_spec.lua:%d"):format(line_of(make) + 1), group.line)
      assert.equal("zeros", group.operator)
      assert.matches("snapshot_spec.lua:%d+ +zeros", torch.memory_summary())
   end)

   it("begins the message of an error for lack of memory", function()
      torch.record_memory_history()
      local kept = torch.ones(100000)
      torch.set_memory_limit(torch.memory_stats().used + 1000000)
      local ok, message = pcall(torch.empty, 1 << 22)
      torch.set_memory_limit(0)
      assert.is_false(ok)
      assert.matches("most of it: 1 x 390.6 KB of float32 at spec/memory/snapshot_spec.lua:%d+ "
         .. "%(ones%)", message)
      kept:release()
   end)
end)

describe("leaks", function()
   it("names the line whose tensors are kept", function()
      local list = {}
      local function body()
         local _ = torch.randn(100)
         list[#list + 1] = torch.ones(10) + 1
      end
      local report = torch.utils.leaks(body)
      assert.equal(1, #report)
      assert.equal(("spec/memory/snapshot_spec.lua:%d"):format(line_of(body) + 2), report[1].line)
      assert.equal(4, report[1].count)
      assert.equal("add", report[1].operator)
      assert.matches("in 4 calls these stayed", tostring(report))
      assert.raises("nothing was recorded", function() torch.memory_snapshot() end)
   end)

   it("finds nothing in a training step", function()
      local model = torch.nn.Linear(3, 2)
      local adam = torch.optim.Adam(model:parameters())
      local report = torch.utils.leaks(function()
         adam:zero_grad()
         model(torch.randn(4, 3)):sum():backward()
         adam:step()
      end)
      assert.equal("no tensors stay from call to call", tostring(report))
   end)

   it("passes an error on, and records no more", function()
      local ok, message = pcall(torch.utils.leaks, function() error "mine" end)
      assert.is_false(ok)
      assert.matches("mine", message)
   end)

   it("does not nest, and is usable after that", function()
      local kept = {}
      local function leak() kept[#kept + 1] = torch.ones(3) end
      assert.raises("utils.leaks: called by the function that it calls", function()
         torch.utils.leaks(function() torch.utils.leaks(leak) end)
      end)
      assert.equal(1, #torch.utils.leaks(leak))
   end)
end)
