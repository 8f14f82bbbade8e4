-- Tests x:backward and torch.autograd.backward: values, accumulated gradients, refused arguments.

local torch = require "tlua"

-- Returns a leaf that requires a gradient.
local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

describe("backward", function()
   it("computes the gradients of PyTorch's tutorial", function()
      local x, w, b = leaf(2), leaf(3), leaf(1)
      local loss = (w * x + b - 10) ^ 2
      loss:backward()
      assert.close(-12, w.grad)
      assert.close(-6, b.grad)
      assert.close(-18, x.grad)
   end)

   it("sums the gradients of all paths to a tensor", function()
      local x = leaf {1, 2, 3}
      local y = x * x
      local z = y + y * x + x
      z:sum():backward()
      assert.close({1 + 2 + 3, 1 + 4 + 12, 1 + 6 + 27}, x.grad) -- 1 + 2x + 3x^2
   end)

   it("adds to an existing gradient", function()
      local x = leaf {1, 2}
      for pass = 1, 3 do
         (x * 2):sum():backward()
         assert.close({2 * pass, 2 * pass}, x.grad)
      end
      x.grad = nil
      assert.is_nil(x.grad);
      (x * 3):sum():backward()
      assert.close({3, 3}, x.grad)
   end)

   it("keeps the tensor that holds the gradient", function()
      local x = leaf {1, 2};
      (x * 2):sum():backward()
      local grad = x.grad;
      (x * 2):sum():backward()
      assert.is_true(grad == x.grad)
      assert.close({4, 4}, grad)
   end)

   it("gives two leaves separate gradients", function()
      local a, b = leaf {1, 2}, leaf {3, 4};
      (a + b):sum():backward()
      a.grad:mul_(10)
      assert.close({10, 10}, a.grad)
      assert.close({1, 1}, b.grad)
   end)

   it("does not overwrite or keep the caller's gradient", function()
      local x = leaf {1, 2}
      local gradient = torch.tensor({5, 6}, {dtype = "float64"})
      local y = x + 0
      y:backward(gradient)
      x.grad:zero_()
      assert.close({5, 6}, gradient)
      x:backward(gradient)
      x:backward(gradient)
      assert.close({10, 12}, x.grad)
      assert.close({5, 6}, gradient)
   end)

   it("starts with a given gradient", function()
      local x = leaf {1, 2};
      (x * x):backward(torch.tensor({10, 100}, {dtype = "float64"}))
      assert.close({20, 400}, x.grad);
      (x * x):backward {gradient = torch.tensor({1, 1}, {dtype = "float64"})}
      assert.close({22, 404}, x.grad)
   end)

   it("starts from a leaf itself", function()
      local x = leaf(3)
      x:backward()
      assert.close(1, x.grad)
   end)

   it("sums the gradients of broadcast operands", function()
      local a, b, c = leaf {{1, 2, 3}, {4, 5, 6}}, leaf {10, 20, 30}, leaf(2)
      local d = leaf {{1}, {2}};
      (a * b + c * d):sum():backward()
      assert.close({5, 7, 9}, b.grad)
      assert.close(9, c.grad)
      assert.close({{6}, {6}}, d.grad)
   end)

   it("casts gradients to the dtype of each operand", function()
      local a = torch.tensor({1, 2}, {dtype = "float32", requires_grad = true})
      local b = leaf {3, 4}
      local y = a * b
      assert.equal("float64", y.dtype)
      y:sum():backward()
      assert.equal("float32", a.grad.dtype)
      assert.equal("float64", b.grad.dtype)
      assert.close({3, 4}, a.grad)
      assert.close({1, 2}, b.grad)
   end)

   it("passes through several results of one operator", function()
      local x = leaf {{1, 5, 2}, {7, 3, 4}}
      local values = x:max(2);
      (values * torch.tensor({10, 100}, {dtype = "float64"})):sum():backward()
      assert.close({{0, 10, 0}, {100, 0, 0}}, x.grad)
   end)

   it("ignores tensors that require no gradient", function()
      local x, k = leaf {1, 2}, torch.tensor({3, 4}, {dtype = "float64"});
      (x * k):sum():backward()
      assert.is_nil(k.grad)
      assert.close({3, 4}, x.grad)
   end)

   it("handles empty tensors", function()
      local x = torch.zeros(0, 3, {requires_grad = true});
      (x * 2):sum():backward()
      assert.same({0, 3}, x.grad.shape)
   end)

   it("gives a gradient the memory layout of its leaf", function()
      local x = torch.zeros(3, 4, {dtype = "float64"}):t():requires_grad_()
      local y = torch.ones(4, 3, {dtype = "float64"});
      (x * y):sum():backward()
      assert.same(x:stride(), x.grad:stride())
   end)

   it("ignores a leaf that no longer requires a gradient", function()
      local x = leaf {1, 2}
      local y = (x * 2):sum()
      x:requires_grad_(false)
      y:backward()
      assert.is_nil(x.grad)
   end)
end)

describe("torch.autograd.backward", function()
   it("takes several outputs", function()
      local x = leaf {1, 2}
      local a, b = (x * 2):sum(), x * x
      torch.autograd.backward({a, b}, {false, torch.tensor({1, 10}, {dtype = "float64"})})
      assert.close({2 + 2, 2 + 40}, x.grad)
   end)

   it("runs a node once however many outputs lead to it", function()
      local x = leaf {1, 2}
      local y = x * x
      torch.autograd.backward {y:sum(), y:sum(), y:sum()}
      assert.close({6, 12}, x.grad)
   end)

   it("accumulates only into the given inputs", function()
      local a, b = leaf {1, 2}, leaf {3, 4}
      local h = a * b
      local y = (h * h):sum()
      y:backward {inputs = {b, h}}
      assert.is_nil(a.grad)
      assert.close({2 * 3 * 1, 2 * 8 * 2}, b.grad)
      assert.close({6, 16}, h.grad)
   end)
end)

describe("a graph", function()
   it("can be used for one pass unless it is retained", function()
      local x = leaf {1, 2}
      local y = (x * x):sum()
      y:backward {retain_graph = true}
      y:backward()
      assert.close({4, 8}, x.grad)
      assert.raises("mul", "already been freed", "retain_graph = true", function() (y * 1):backward() end)
      assert.close({4, 8}, x.grad)
   end)

   it("can be used again if it has saved no tensors", function()
      local x = leaf {1, 2}
      local y = x + 1
      y:sum():backward()
      y:sum():backward()
      assert.close({2, 2}, x.grad)
   end)

   it("is freed during the pass", function()
      local x = torch.ones(1 << 16, {requires_grad = true, device = "cpu"})
      local y = x
      for _ = 1, 20 do y = (y * 1.5):tanh() end
      y = y:sum()
      collectgarbage()
      local before = torch.memory_stats().used
      y:backward()
      x.grad = nil
      collectgarbage()
      assert.is_true(torch.memory_stats().used < before - 10 * 4 * (1 << 16))
   end)
end)

describe("backward refuses", function()
   it("a tensor that requires no gradient", function()
      local x = torch.ones(1)
      assert.raises("backward", "requires no gradient", function() x:backward() end)
      assert.raises("output 2", function() torch.autograd.backward {leaf(1), x} end)
   end)

   it("a start from several elements without a gradient", function()
      local x = leaf {1, 2}
      assert.raises("[2]", "gradient", function() (x * 2):backward() end)
      assert.is_nil(x.grad)
   end)

   it("a gradient of another shape, dtype or kind", function()
      local y = leaf {1, 2} * 2
      assert.raises("[2]", "[3]", function() y:backward(torch.zeros(3, {dtype = "float64"})) end)
      assert.raises("float64", "float32", function() y:backward(torch.zeros(2)) end)
      assert.raises("gradient", "Tensor", function() y:backward("x") end)
      assert.raises("retain_grap", "retain_graph", function() y:backward {retain_grap = true} end)
   end)

   it("an integer leaf", function()
      assert.raises("int64", function() torch.tensor({1, 2}):requires_grad_() end)
      assert.raises("int64", function() torch.zeros(2, {dtype = "int64", requires_grad = true}) end)
   end)
end)

describe("the information about a tensor's history", function()
   it("has grad_fn, next_functions and names of nodes", function()
      local x = leaf {1, 2}
      local y = x * 2
      assert.is_true(x.is_leaf and x.requires_grad)
      assert.is_nil(x.grad_fn)
      assert.is_true(y.requires_grad and not y.is_leaf)
      assert.equal("mul", y.grad_fn.name)
      assert.equal("<MulBackward0>", tostring(y.grad_fn))
      assert.is_true(y.grad_fn == y.grad_fn)
      local z = y:clamp_min(1)
      assert.equal("<ClampMinBackward0>", tostring(z.grad_fn))
      assert.is_true(z.grad_fn.next_functions[1][1] == y.grad_fn)
      assert.is_true(y.grad_fn.next_functions[1][1] == x)
      assert.same({}, y.grad_fn.next_functions[2])
   end)

   it("is empty for operators without a gradient", function()
      local x = leaf {1, 2}
      assert.is_false(x:gt(1).requires_grad)
      assert.is_false(x:argmax().requires_grad)
      assert.is_false((torch.ones(2) * 2).requires_grad)
      assert.is_true((torch.ones(2) * 2).is_leaf)
   end)

   it("is that of a leaf after detach", function()
      local x = leaf {1, 2}
      local y = (x * 2):detach()
      assert.is_false(y.requires_grad)
      assert.is_true(y.is_leaf)
      y:add_(1)
      assert.close({3, 5}, y)
      assert.is_false(x.data.requires_grad)
      assert.equal(x:data_ptr(), x.data:data_ptr())
   end)
end)

describe("detach_", function()
   it("turns a result into a leaf", function()
      local x = leaf {1, 2}
      local y = x * 2
      assert.is_true(y:detach_() == y)
      assert.is_nil(y.grad_fn)
      assert.is_false(y.requires_grad)
      y:requires_grad_();
      (y * y):sum():backward()
      assert.close({4, 8}, y.grad)
      assert.is_nil(x.grad)
   end)

   it("refuses a view", function()
      local h = leaf {1, 2} * 1
      assert.raises("view", function() h[1]:detach_() end)
   end)
end)

it("requires_grad_ can be turned off only for leaves", function()
   local x = leaf {1, 2}
   assert.is_true(x:requires_grad_(false) == x)
   assert.is_false(x.requires_grad)
   x.requires_grad = true
   assert.raises("leaf", function() (x * 2):requires_grad_(false) end)
   assert.is_true((x * 2):requires_grad_().requires_grad)
end)

describe("setting grad", function()
   it("accepts a gradient that fits", function()
      local x = leaf {1, 2}
      x.grad = torch.tensor({5, 6}, {dtype = "float64"});
      (x * 2):sum():backward()
      assert.close({7, 8}, x.grad)
      assert.raises("[2]", "[3]", function() x.grad = torch.zeros(3, {dtype = "float64"}) end)
      assert.raises("float64", "float32", function() x.grad = torch.zeros(2) end)
      assert.raises("Tensor", function() x.grad = 1 end)
      assert.raises("own", function() x.grad = x end)
   end)

   it("is refused if the tensor would own itself", function()
      local a, b, c = torch.zeros(2), torch.zeros(2), torch.zeros(2)
      a.grad, b.grad = b, c
      assert.raises("grad", "leads back", function() b.grad = a end)
      assert.raises("grad", "leads back", function() c.grad = a end)
      assert.raises("grad", "leads back", function() c.grad = b:view(2) end)
      assert.is_true(b.grad == c and c.grad == nil)
      c.grad = a:clone()
   end)
end)
