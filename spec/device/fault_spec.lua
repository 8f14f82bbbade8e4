-- Tests faults that a kernel finds in its data, such as an index out of range. The next wait raises an error with the
-- operator, the argument, the position, and the line of the call.

local torch = require "tlua"
local sim = torch.sim

-- Runs fn, which calls the operator on its first line. Returns the error message of the next wait.
local function fault_of(fn)
   sim.synchronize()
   local line = debug.getinfo(fn, "S").linedefined
   fn()
   local ok, message = pcall(sim.synchronize)
   assert.is_false(ok)
   assert.matches(("%%(called at .*fault_spec%%.lua:%d%%)$"):format(line), message)
   assert.is_true(pcall(sim.synchronize)) -- the fault is reported only once
   return message
end

it("a number is assigned to positions of a device's tensor", function()
   local y = torch.ones(3, 2, {device = "sim"})
   y[torch.tensor({1, 3}, {device = "sim"})] = 5
   assert.same({{5, 5}, {1, 1}, {5, 5}}, y:tolist())
   assert.raises("index", "sim:0", "cpu",
      function() y[torch.tensor({1}, {device = "sim"})] = torch.ones(2, {device = "cpu"}) end)
end)

describe("a fault of a device", function()
   local x = torch.ones(3, 4, {device = "sim"})
   local bad = torch.tensor({1, 9}, {device = "sim"})

   it("names operator, argument, position and line", function()
      assert.matches("index_select: index: position 9 is out of range: expected 1 to 3",
         fault_of(function() return x:index_select(1, bad) end))
      assert.matches("position 9 is out of range", fault_of(function() return x[bad] end))
      assert.matches("position 9 is out of range", fault_of(function() x[bad] = 1 end))
      assert.matches("gather: .*position 9", fault_of(function() return x:gather(1, bad:view(1, 2)) end))
      assert.matches("label 9 is out of range: expected 1 to 4",
         fault_of(function() return torch.nn.functional.cross_entropy(x[{{1, 2}}], bad) end))
   end)

   it("is one of the operator that was called, and of its argument", function()
      local F <const> = torch.nn.functional
      assert.matches("synchronize: embedding: input: position 9", fault_of(function() return F.embedding(bad, x) end))
      assert.matches("synchronize: embedding_bag: input: position 9",
         fault_of(function() return F.embedding_bag(bad:view(1, 2), x) end))
      assert.matches("synchronize: one_hot: self: position 9", fault_of(function() return F.one_hot(bad, 3) end))
      assert.matches("synchronize: index: index: position 9", fault_of(function() x[bad] = 1 end))
      assert.matches("synchronize: take_along_dim: indices: position 9",
         fault_of(function() return x:take_along_dim(bad:view(1, 2), 2) end))
   end)

   it("keeps its operator's name in the message of another that waits", function()
      x:index_select(1, bad)
      assert.raises("nonzero: index_select: index: position 9", function() return x:nonzero() end)
      assert.raises("item: index_select: index: position 9", function()
         x:index_select(1, bad)
         return x:sum():item()
      end)
   end)

   it("names the line of a call in a coroutine that has ended", function()
      local line
      coroutine.wrap(function()
         line = debug.getinfo(1, "l").currentline + 1
         x:index_select(1, bad)
      end)()
      collectgarbage()
      collectgarbage()
      local _, message = pcall(function() return x:sum():item() end)
      assert.matches(("fault_spec%%.lua:%d%%)$"):format(line), message)
   end)

   it("does not affect later work", function()
      x:index_select(1, bad)
      local y = x * 2
      assert.is_false(pcall(sim.synchronize))
      assert.equal(24, y:sum():item())
      local z = x:index_select(1, torch.tensor({1, 3}, {device = "sim"}))
      assert.equal(8, z:sum():item())
   end)

   it("belongs to one device", function()
      x:index_select(1, bad)
      sim.synchronize(1)
      assert.is_false(pcall(sim.synchronize, 0))
   end)

   it("is reported by the first wait", function()
      x:index_select(1, bad)
      assert.raises("item: index_select: index: position 9", function() return x:sum():item() end)
      assert.equal(12, x:sum():item())
   end)
end)
