-- Tests register_hook and retain_grad.

local torch = require "tlua"

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

describe("a hook", function()
   it("receives the gradient of a result", function()
      local x = leaf {1, 2}
      local h = x * 3
      local seen
      h:register_hook(function(grad) seen = grad end);
      (h * h):sum():backward()
      assert.close({6, 12}, seen)
      assert.close({18, 36}, x.grad)
   end)

   it("may replace the gradient", function()
      local x = leaf {1, 2}
      local h = x * 3
      h:register_hook(function(grad) return grad * 10 end)
      h:register_hook(function(grad) return grad + 1 end)
      h:sum():backward()
      assert.close({33, 33}, x.grad)
   end)

   it("of a leaf receives the sum, once for each pass, before it is accumulated", function()
      local x = leaf {1, 2}
      local seen = {}
      x:register_hook(function(grad)
         seen[#seen + 1] = grad:tolist()
         return grad * 2
      end);
      (x * 3 + x * 4):sum():backward();
      (x * 1):sum():backward()
      assert.same({{7, 7}, {1, 1}}, seen)
      assert.close({16, 16}, x.grad)
   end)

   it("is called for the gradients that autograd.grad returns", function()
      local x = leaf {1, 2}
      local h = x * 2
      h:register_hook(function(grad) return grad * 10 end)
      x:register_hook(function(grad) return grad + 1 end)
      local dh, dx = torch.autograd.grad(h:sum(), {h, x})
      assert.close({10, 10}, dh)
      assert.close({21, 21}, dx)
   end)

   it("is called for one of several results", function()
      local x = leaf {{1, 5}, {7, 3}}
      local values, positions = x:max(2)
      assert.is_false(positions.requires_grad)
      local count = 0
      values:register_hook(function() count = count + 1 end)
      values:sum():backward()
      assert.equal(1, count)
   end)

   it("runs even if its tensor is freed", function()
      local x = leaf {1, 2}
      local count = 0
      local function f()
         local h = x * 2
         h:register_hook(function() count = count + 1 end)
         return h:sum()
      end
      local y = f()
      collectgarbage()
      collectgarbage()
      y:backward()
      assert.equal(1, count)
   end)

   it("can be removed", function()
      local x = leaf {1, 2}
      local count = 0
      local handle = x:register_hook(function() count = count + 1 end);
      (x * 1):sum():backward()
      handle:remove();
      (x * 1):sum():backward()
      handle:remove()
      assert.equal(1, count)
   end)

   it("can remove itself", function()
      local x = leaf {1, 2}
      local first, second = 0, 0
      local handle
      handle = x:register_hook(function()
         first = first + 1
         handle:remove()
      end)
      x:register_hook(function() second = second + 1 end)
      for _ = 1, 3 do (x * 1):sum():backward() end
      assert.same({1, 3}, {first, second})
   end)

   it("raises an error if it gives its leaf data of another shape", function()
      for _, shape in ipairs {{4}, {2, 1}, {3, 2}, {2, 2, 2}, {}} do
         local x = leaf {1, 2}
         x:register_hook(function() x.data = torch.ones(shape) end)
         assert.raises("backward", "shape [2] arrived for a tensor whose shape is now [", "hook",
                       function() (x * 1):sum():backward() end)
         assert.is_nil(x.grad)
         assert.same(shape, x.shape)
      end
   end)

   it("can add hooks, which run from the next pass on", function()
      local x = leaf {1, 2}
      local late = 0
      local once
      once = x:register_hook(function()
         once:remove()
         for _ = 1, 5 do x:register_hook(function() late = late + 1 end) end
      end);
      (x * 1):sum():backward()
      assert.equal(0, late);
      (x * 1):sum():backward()
      assert.equal(5, late)
   end)

   it("stays with the old value when an in-place operator changes the tensor", function()
      local x = leaf {1, 2}
      local h = x * 2
      local seen = {}
      h:register_hook(function(grad) seen[1] = grad:tolist() end)
      h:mul_(10)
      h:register_hook(function(grad) seen[2] = grad:tolist() end)
      h:sum():backward()
      assert.same({{10, 10}, {1, 1}}, seen)
   end)

   it("may run backward passes", function()
      local x, w = leaf {1, 2}, leaf {3, 4}
      x:register_hook(function(grad)
         torch.enable_grad(function() (w * w):sum():backward() end)
         return grad * w.grad
      end);
      (x * 2):sum():backward()
      assert.close({6, 8}, w.grad)
      assert.close({12, 16}, x.grad)
   end)

   it("runs without recording unless a graph is made", function()
      local x = leaf {1, 2}
      local modes = {}
      x:register_hook(function() modes[#modes + 1] = torch.is_grad_enabled() end);
      (x * 2):sum():backward()
      torch.autograd.grad((x * x):sum(), x, {create_graph = true})
      assert.same({false, true}, modes)
      assert.is_true(torch.is_grad_enabled())
   end)

   it("is differentiated when a graph is made", function()
      local x = leaf {1, 2}
      local h = x * x
      h:register_hook(function(grad) return grad * h end)
      local g = torch.autograd.grad(h:sum(), x, {create_graph = true}) -- h * 2x
      assert.close({2, 16}, g)
      -- In this pass the hook also changes the gradient of h, which is 2x. So the gradient of x is 2x * h * 2x + 2h.
      assert.close({4 + 2, 64 + 8}, (torch.autograd.grad(g:sum(), x)))
   end)

   it("must return a gradient that fits", function()
      local x = leaf {1, 2}
      local h = x * 2
      local handle = h:register_hook(function() return torch.zeros(3, {dtype = "float64"}) end)
      assert.raises("[2]", "[3]", function() h:sum():backward() end)
      handle:remove()
      h = x * 2
      h:register_hook(function() return 1 end)
      assert.raises("Tensor", "1", function() h:sum():backward() end)
      assert.is_nil(x.grad)
   end)

   it("needs a tensor that requires a gradient, and a function", function()
      assert.raises("requires no gradient", function() torch.ones(2):register_hook(function() end) end)
      assert.raises("function", function() leaf({1}):register_hook(1) end)
   end)

   it("that refers to its tensor does not keep the graph", function()
      local weak = setmetatable({}, {__mode = "v"})
      local function pass()
         local x = leaf {1, 2}
         local h = x * x
         local sum = x + h
         h:register_hook(function(grad) return grad * h:detach() end)
         sum:register_hook(function(grad) return grad + sum:detach() * 0 end)
         weak[1], weak[2] = h, sum
         sum:sum():backward()
      end
      pass()
      -- The callbacks of removed hooks are freed when another hook is registered.
      leaf({1}):register_hook(function() end)
      collectgarbage()
      collectgarbage()
      assert.is_nil(weak[1])
      assert.is_nil(weak[2])
   end)
end)

describe("retain_grad", function()
   it("keeps the gradient of a result", function()
      local x = leaf {1, 2}
      local h = x * 3
      h:retain_grad()
      h:retain_grad()
      assert.is_true(h.retains_grad)
      local y = (h * h):sum()
      y:backward {retain_graph = true}
      assert.close({6, 12}, h.grad)
      y:backward()
      assert.close({12, 24}, h.grad)
      assert.close({36, 72}, x.grad)
   end)

   -- PyTorch gives the same gradients.
   it("lets a sum without retain_graph be differentiated again, and also after a hook was removed", function()
      local x = leaf {1, 2}
      local h = x + 1
      h:retain_grad()
      h:register_hook(function(grad) return grad * 10 end):remove()
      local y = h:sum()
      y:backward()
      y:backward()
      assert.close({2, 2}, h.grad)
      assert.close({2, 2}, x.grad)
   end)

   it("is not needed for leaves and absent without", function()
      local x = leaf {1, 2}
      x:retain_grad()
      assert.is_false(x.retains_grad)
      local h = x * 2
      h:sum():backward()
      assert.is_nil(h.grad)
      assert.raises("requires no gradient", function() torch.ones(1):retain_grad() end)
   end)

   it("stores the gradient that hooks return", function()
      local x = leaf {1, 2}
      local h = x * 3
      h:retain_grad()
      h:register_hook(function(grad) return grad * 10 end)
      h:sum():backward()
      assert.close({10, 10}, h.grad)
   end)

   it("follows in-place changes", function()
      local x = leaf {1, 2}
      local h = x * 3
      h:retain_grad()
      h:mul_(10)
      h:sum():backward()
      assert.close({1, 1}, h.grad)
   end)

   it("follows a view whose base was changed", function()
      local x = leaf {{1, 2}, {3, 4}}
      local h = x * 1
      local v = h[1]
      v:retain_grad()
      h:mul_(10);
      (v * v):sum():backward()
      assert.close({20, 40}, v.grad)
   end)

   it("does not keep the tensor alive", function()
      local x = leaf {1, 2}
      local y
      do
         local h = x * 3
         h:retain_grad()
         y = (h * 2):sum()
      end
      collectgarbage()
      collectgarbage()
      y:backward()
      assert.close({6, 6}, x.grad)
   end)
end)

describe("autograd.queue_callback", function()
   it("runs after the whole pass, not after one within it or one that fails", function()
      local x = torch.tensor({1.0}, {requires_grad = true})
      local log = {}
      x:register_hook(function()
         torch.autograd.queue_callback(function() log[#log + 1] = "end " .. x.grad:item() end)
         local y = torch.tensor({1.0}, {requires_grad = true})
         torch.enable_grad(function() (y * 2):sum():backward() end)
         log[#log + 1] = "hook"
      end)
      ;(x * 2):sum():backward()
      assert.same({"hook", "end 2.0"}, log)
      local handle = x:register_post_accumulate_grad_hook(function() error "bad" end)
      assert.matches("bad", select(2, pcall(function() (x * 2):sum():backward() end)))
      handle:remove()
      x.grad = nil
      ;(x * 3):sum():backward()
      assert.same({"hook", "end 2.0", "hook", "hook", "end 3.0"}, log)
   end)

   it("runs after a pass of autograd.grad, not after one that fails", function()
      local x = torch.tensor({1.0}, {requires_grad = true})
      local log = {}
      x:register_hook(function()
         torch.autograd.queue_callback(function() log[#log + 1] = "end" end)
      end)
      local function grad() return torch.autograd.grad((x * 2):sum(), x) end
      assert.close({2}, grad())
      assert.same({"end"}, log)
      local handle = x:register_hook(function() error "bad" end)
      assert.matches("bad", select(2, pcall(grad)))
      handle:remove()
      torch.ones(1, {requires_grad = true}):sum():backward()
      assert.same({"end"}, log)
   end)

   it("runs callbacks that a callback queues", function()
      local x = torch.tensor({1.0}, {requires_grad = true})
      local n = 0
      local function again()
         n = n + 1
         if n < 3 then torch.autograd.queue_callback(again) end
      end
      x:register_hook(function() torch.autograd.queue_callback(again) end)
      ;(x * 2):sum():backward()
      assert.equal(3, n)
   end)
end)
