-- Tests in-place operators: how the graph records them, and how version counters detect changes of saved tensors.

local torch = require "tlua"

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

local function constant(data) return torch.tensor(data, {dtype = "float64"}) end

describe("an in-place operator", function()
   it("changes the history of its tensor", function()
      local x = leaf {1, 2}
      local h = x * 3
      assert.is_true(h:add_(1) == h)
      h:mul_(h:detach() * 0 + 2)
      assert.equal("mul", h.grad_fn.name);
      (h * h):sum():backward()
      assert.close({2 * 8 * 6, 2 * 14 * 6}, x.grad)
   end)

   it("adds a history to a tensor without one", function()
      local w = leaf {1, 2}
      local h = torch.zeros(2, {dtype = "float64"})
      h:add_(w)
      assert.is_true(h.requires_grad and not h.is_leaf);
      (h * h):sum():backward()
      assert.close({2, 4}, w.grad)
   end)

   it("saves the value that it overwrites, for its derivative", function()
      local x, w = leaf {2, 3}, leaf {5, 7}
      local h = x * 1
      h:mul_(w)
      h:sum():backward()
      assert.close({5, 7}, x.grad)
      assert.close({2, 3}, w.grad)
   end)

   it("accepts the tensor itself as an operand", function()
      local x = leaf {2, 3}
      local h = x * 1
      h:mul_(h)
      h:sum():backward()
      assert.close({4, 6}, x.grad)
   end)

   it("accepts a view of the tensor as an operand", function()
      local x = leaf {2, 3, 4}
      local h = x * 1
      h:mul_(h[2])
      assert.close({6, 9, 12}, h)
      h:sum():backward()
      assert.close({3, 2 + 6 + 4, 3}, x.grad)
   end)

   it("saves its result if the derivative needs it", function()
      local x = leaf {0.5, 1}
      local h = x * 1
      h:exp_()
      h:sum():backward()
      assert.close({math.exp(0.5), math.exp(1)}, x.grad)
   end)

   it("is differentiable twice", function()
      local x, w = leaf {2, 3}, leaf {5, 7}
      local h = x * x
      h:mul_(w):mul_(w)
      local dx = torch.autograd.grad(h:sum(), x, {create_graph = true}) -- 2 x w^2
      local dxx, dxw = torch.autograd.grad(dx:sum(), {x, w})
      assert.close({50, 98}, dxx)
      assert.close({4 * 2 * 5, 4 * 3 * 7}, dxw)
   end)

   it("is differentiable twice with respect to the overwritten value", function()
      local x, w = leaf {2, 3}, leaf {5, 7}
      local h = x * x
      h:mul_(w)
      local dw = torch.autograd.grad(h:sum(), w, {create_graph = true}) -- x^2
      assert.close({4, 9}, dw)
      assert.close({4, 6}, (torch.autograd.grad(dw:sum(), x)))
   end)

   it("ends the gradient's path to an overwritten value", function()
      local x = leaf {1, 2}
      local h = x * 2
      h:zero_()
      assert.is_true(h.requires_grad);
      (h * h):sum():backward()
      assert.close({0, 0}, x.grad)
   end)

   it("computes copy_'s gradient for the source, converted and broadcast", function()
      local w = torch.tensor({2}, {dtype = "float32", requires_grad = true})
      local h = torch.zeros(3, {dtype = "float64"})
      h:copy_(w);
      (h * constant {1, 2, 3}):sum():backward()
      assert.equal("float32", w.grad.dtype)
      assert.close({6}, w.grad)
   end)

   it("separates the gradient of an earlier value", function()
      local x = leaf {1, 2}
      local h = x * 2
      local before = h + 0
      h:mul_(10);
      (before * before + h):sum():backward()
      assert.close({8 + 20, 16 + 20}, x.grad)
   end)

   it("records nothing under no_grad but counts as a new version", function()
      local x = leaf {1, 2}
      local h = x * 2
      torch.no_grad(function() h:add_(1) end)
      assert.equal("mul", h.grad_fn.name)
      assert.equal(1, h._version)
      h:sum():backward()
      assert.close({2, 2}, x.grad)
   end)

   it("may change an integer tensor", function()
      local w = leaf {1.5, 2.5}
      local n = torch.zeros(2, {dtype = "int64"})
      n:copy_(w)
      assert.is_false(n.requires_grad)
      assert.close({1, 2}, n)
   end)
end)

describe("an in-place operator whose operand depends on its tensor", function()
   -- Returns how many bytes 50 calls of fn leave in use after a garbage collection. fn runs only forward passes, whose
   -- graphs are freed by reference counts, so a cycle in a graph would never be freed.
   local function used_by(fn)
      for _ = 1, 3 do fn() end
      collectgarbage()
      local before = torch.memory_stats().used
      for _ = 1, 50 do fn() end
      collectgarbage()
      return torch.memory_stats().used - before
   end

   local w = torch.ones(1 << 12, {requires_grad = true})

   it("causes no cycle through saved tensors", function()
      assert.equal(0, used_by(function()
         local h = w * 2
         h:add_(h * w)
      end))
   end)

   it("causes no cycle from a tensor without history", function()
      assert.equal(0, used_by(function()
         local h = torch.zeros(1 << 12)
         h:add_(w * h)
      end))
   end)

   it("causes no cycle through views", function()
      assert.equal(0, used_by(function()
         local h = torch.zeros(2, 1 << 12)
         local v = h[1]
         h:add_(w * v)
         v:mul_(w)
         v:exp_()
         h[2] = v * w
      end))
   end)
end)

describe("an illegal in-place change", function()
   it("of a saved operand is an error that names both operators", function()
      local x = leaf {1, 2}
      local h = x * 2
      local y = h * h
      h:add_(1)
      assert.raises("mul", "add_", "version 0", "version 1", function() y:sum():backward() end)
      assert.is_nil(x.grad)
   end)

   it("of a saved result is an error", function()
      local x = leaf {1, 2}
      local y = x:exp()
      y:mul_(2)
      assert.raises("exp", "mul_", function() y:sum():backward() end)
   end)

   it("through another tensor with the same memory is an error", function()
      local x = leaf {1, 2}
      local h = x * 2
      local y = h * h
      h:detach():zero_()
      assert.raises("mul", "zero_", function() y:sum():backward() end)
      y = h * h
      h.data[1] = 7
      assert.raises("mul", function() y:sum():backward() end)
      y = h * h
      h[2]:add_(1)
      assert.raises("mul", "add_", function() y:sum():backward() end)
   end)

   it("of a leaf after its use is an error", function()
      local x = leaf {1, 2}
      local y = x * x
      torch.no_grad(function() x:add_(1) end)
      assert.raises("mul", "add_", function() y:sum():backward() end)
   end)

   it("by assigning data is an error", function()
      local x = leaf {1, 2}
      local y = x * x
      x.data = constant {3, 4}
      assert.raises("mul", "data", function() y:sum():backward() end);
      (x * x):sum():backward()
      assert.close({6, 8}, x.grad)
      x.data = x.data - x.grad * 0.5 -- as in PyTorch, assigning to x.data does not change x.grad
      assert.close({0, 0}, x)
      assert.close({6, 8}, x.grad)
      for _, other in ipairs {torch.zeros(3), torch.zeros(2, {dtype = "float16"})} do
         assert.raises("data: expected a Tensor that fits the gradient", "set grad to nil",
            function() x.data = other end)
      end
      assert.close({0, 0}, x)
      x.grad = nil
      x.data = torch.zeros(3)
   end)

   it("is allowed if the saved value is not needed", function()
      local x = leaf {1, 2}
      local h = x * 2
      local y = h + 1
      h:zero_()
      y:sum():backward()
      assert.close({2, 2}, x.grad)
   end)

   it("leaves the rest of the graph usable", function()
      local x, w = leaf {1, 2}, leaf {3, 4}
      local h = x * 2
      local y, z = h * h, x * w
      h:add_(1)
      assert.raises("mul", function() (y + z):sum():backward() end)
      x.grad, w.grad = nil, nil;
      (x * w):sum():backward()
      assert.close({3, 4}, x.grad)
   end)
end)

describe("an in-place operator refuses", function()
   it("to change a leaf that requires a gradient", function()
      local x = leaf {1, 2}
      assert.raises("add_", "leaf", "no_grad", function() x:add_(1) end)
      assert.raises("leaf", function() x[1] = 5 end)
      assert.raises("leaf", function() x[1]:mul_(5) end)
      assert.raises("leaf", function() x:t():zero_() end)
      assert.close({1, 2}, x)
      assert.equal(0, x._version)
      torch.no_grad(function()
         x:add_(1)
         x[1] = 5
      end)
      assert.close({5, 3}, x)
   end)

   it("to change elements that share memory", function()
      local x = torch.ones(1, 3):expand(2, 3)
      assert.raises("add_", "memory", "clone", function() x:add_(1) end)
      assert.close({{1, 1, 1}, {1, 1, 1}}, x)
   end)
end)

it("an update under no_grad works as in an optimizer", function()
   local w = leaf {1, 2}
   for _ = 1, 3 do
      local loss = (w * w):sum()
      loss:backward()
      torch.no_grad(function()
         w:sub_(w.grad * 0.1)
         w.grad:zero_()
      end)
   end
   assert.close({0.8 ^ 3, 2 * 0.8 ^ 3}, w)
   assert.is_true(w.is_leaf)
end)
