-- Tests backward passes that fail in the middle: no memory leaks, gradients and graphs stay correct, and later passes
-- work.

local torch = require "tlua"

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

local function used()
   collectgarbage()
   collectgarbage()
   return torch.memory_stats().used
end

describe("an error in a hook", function()
   it("is raised by backward, unchanged", function()
      local h = leaf {1, 2} * 2
      h:register_hook(function() error({text = "mine"}) end)
      local ok, object = pcall(function() h:sum():backward() end)
      assert.is_false(ok)
      assert.same({text = "mine"}, object)
   end)

   it("leaves the state unchanged", function()
      local x, w = leaf {1, 2}, leaf {3, 4}
      local function pass(fail)
         local h = x * w
         h:register_hook(function() if fail then error "oops" end end)
         local y = (h * h + x):sum()
         return pcall(y.backward, y)
      end
      assert.is_false((pass(true)))
      assert.is_true(torch.is_grad_enabled())
      x.grad, w.grad = nil, nil
      assert.is_true((pass(false)))
      assert.close({2 * 3 * 3 + 1, 2 * 8 * 4 + 1}, x.grad)
   end)

   it("can be caught in a hook", function()
      local x = leaf {1, 2}
      local inner
      x:register_hook(function()
         local w = leaf {1}
         w:register_hook(function() error("inner", 0) end)
         inner = select(2, pcall(torch.enable_grad, function() (w * 2):sum():backward() end))
      end);
      (x * 2):sum():backward()
      assert.equal("inner", inner)
      assert.close({2, 2}, x.grad)
   end)

   it("leaks no memory", function()
      local big = 1 << 14
      local x = torch.ones(big, {requires_grad = true})
      local function fail()
         local a = x * 2
         local b = a * a
         a:register_hook(function() error "oops" end)
         local y = (b * a + b):tanh():sum()
         pcall(y.backward, y)
         pcall(torch.autograd.grad, y, {a, b, x})
      end
      for _ = 1, 3 do fail() end
      torch.ones(1, {requires_grad = true}):register_hook(function() end)
      local before = used()
      for _ = 1, 20 do fail() end
      x.grad = nil
      torch.ones(1, {requires_grad = true}):register_hook(function() end)
      assert.is_true(used() <= before + 4 * big)
   end)

   it("keeps only the gradients that were accumulated before", function()
      local a, b = leaf {1, 2}, leaf {3, 4}
      local h = a * 2
      h:register_hook(function() error "oops" end)
      local y = (h + b):sum()
      assert.is_false((pcall(y.backward, y)))
      assert.is_nil(a.grad)
   end)
end)

describe("a pass that fails", function()
   it("can be repeated if it had been retained", function()
      local x = leaf {1, 2}
      local h = x * x
      local fail = true
      h:register_hook(function() if fail then error "oops" end end)
      local y = (h * h):sum()
      assert.is_false((pcall(y.backward, y, {retain_graph = true})))
      fail = false
      y:backward()
      assert.close({4, 32}, x.grad)
   end)

   it("reports a freed graph if it had not been retained", function()
      local x = leaf {1, 2}
      local h = x * x
      h:register_hook(function() error "oops" end)
      local y = (h * h):sum()
      assert.is_false((pcall(y.backward, y)))
      assert.raises("already been freed", function() y:backward() end)
   end)

   it("survives hooks that release its tensors", function()
      local x = leaf {1, 2}
      local h = x * x
      local y = (h * h):sum()
      y:register_hook(function()
         y:release()
         h:release()
         collectgarbage()
      end)
      h:register_hook(function() x:release() end)
      y:backward()
   end)
end)

describe("anomaly mode", function()
   it("names the operator and the line that produced NaN", function()
      local x = leaf {-1, 4}
      local y, line
      torch.autograd.detect_anomaly(function()
         y = x:sqrt():sum(); line = debug.getinfo(1, "l").currentline
      end)
      assert.is_false(torch.autograd.is_anomaly_enabled())
      torch.autograd.detect_anomaly(function()
         assert.raises("sqrt", "NaN", "failure_spec.lua:" .. line, function() y:backward() end)
      end)
   end)

   it("can be turned on and off", function()
      torch.autograd.set_detect_anomaly(true)
      assert.is_true(torch.autograd.is_anomaly_enabled())
      torch.autograd.set_detect_anomaly(false)
      assert.is_false(torch.autograd.is_anomaly_enabled())
      do
         local _ <close> = torch.autograd.detect_anomaly()
         local x = leaf {1, 2};
         (x * x):sum():backward()
         assert.close({2, 4}, x.grad)
      end
      assert.is_false(torch.autograd.is_anomaly_enabled())
      leaf({-1}):sqrt():sum():backward()
   end)

   it("finds the line in a coroutine", function()
      local x = leaf {-1}
      local line
      local _ <close> = torch.autograd.detect_anomaly()
      local y = coroutine.wrap(function()
         local r = x:sqrt(); line = debug.getinfo(1, "l").currentline
         return r
      end)()
      assert.raises("failure_spec.lua:" .. line, function() y:sum():backward() end)
   end)
end)
