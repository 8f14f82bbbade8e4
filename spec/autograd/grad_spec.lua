-- Tests torch.autograd.grad.

local torch = require "tlua"

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

local function constant(data) return torch.tensor(data, {dtype = "float64"}) end

-- A Function that multiplies x by 1; `counter` counts how often its derivative is computed.
local counting = torch.class("counting", torch.autograd.Function)
function counting.forward(ctx, x, counter)
   ctx.counter = counter
   return x * 1
end
function counting.backward(ctx, grad)
   ctx.counter.n = ctx.counter.n + 1
   return grad
end

describe("autograd.grad", function()
   it("returns a gradient for each input and does not change .grad", function()
      local a, b = leaf {1, 2}, leaf {3, 4}
      local da, db = torch.autograd.grad((a * b):sum(), {a, b})
      assert.close({3, 4}, da)
      assert.close({1, 2}, db)
      assert.is_nil(a.grad)
      assert.is_nil(b.grad)
   end)

   it("accepts single tensors in place of lists", function()
      local x = leaf(3)
      assert.close(6, torch.autograd.grad(x * x, x))
   end)

   it("accepts inputs that are not leaves", function()
      local x = leaf {1, 2}
      local h = x * x
      local y = (h * h * x):sum()
      local dh, dx = torch.autograd.grad(y, {h, x})
      assert.close({2 * 1 * 1, 2 * 4 * 2}, dh)
      assert.close({5 * 1, 5 * 16}, dx)
   end)

   it("accepts an output as an input", function()
      local x = leaf {1, 2}
      local y = (x * x):sum()
      local dy, dx = torch.autograd.grad(y, {y, x})
      assert.close(1, dy)
      assert.close({2, 4}, dx)
      assert.close({1, 1}, (torch.autograd.grad(x, x, {grad_outputs = constant {1, 1}})))
   end)

   it("gives the same gradient for the same input twice", function()
      local x = leaf {1, 2}
      local a, b = torch.autograd.grad((x * x):sum(), {x, x})
      assert.close({2, 4}, a)
      assert.close({2, 4}, b)
   end)

   it("weighs outputs by grad_outputs, which are ones by default", function()
      local x = leaf {1, 2}
      local a, b = x * 2, (x * x):sum()
      local dx = torch.autograd.grad({a, b}, x, {grad_outputs = {constant {10, 100}, nil}})
      assert.close({20 + 2, 200 + 4}, dx)
      local weights = {nil, constant {10, 100}}
      dx = torch.autograd.grad({(x * x):sum(), x * 2}, x, {grad_outputs = weights})
      assert.close({20 + 2, 200 + 4}, dx)
   end)

   it("runs only the part of the graph that leads to the inputs", function()
      local a, b = leaf {1, 2}, leaf {3, 4}
      local left, right = {n = 0}, {n = 0}
      local y = (counting:apply(a, left) * counting:apply(b, right)):sum()
      torch.autograd.grad(y, a, {retain_graph = true})
      assert.same({1, 0}, {left.n, right.n})
      torch.autograd.grad(y, b, {retain_graph = true})
      assert.same({1, 1}, {left.n, right.n})
      y:backward()
      assert.same({2, 2}, {left.n, right.n})
   end)

   it("does not run nodes beyond an input", function()
      local x, counter = leaf {1, 2}, {n = 0}
      local h = counting:apply(x, counter)
      local y = (h * h):sum()
      assert.close({2, 4}, (torch.autograd.grad(y, h)))
      assert.equal(0, counter.n)
   end)

   it("does not change leaves that are not among the inputs", function()
      local a, b = leaf {1, 2}, leaf {3, 4}
      torch.autograd.grad((a * b):sum(), a)
      assert.is_nil(b.grad)
   end)

   it("frees the graph unless it is retained", function()
      local x = leaf {1, 2}
      local y = (x * x):sum()
      torch.autograd.grad(y, x, {retain_graph = true})
      torch.autograd.grad(y, x)
      assert.raises("already been freed", function() torch.autograd.grad(y, x) end)
   end)

   it("refuses an input on which no output depends", function()
      local a, b = leaf {1, 2}, leaf {3, 4}
      local h = b * 2
      assert.raises("input 2", "allow_unused", function() torch.autograd.grad((a * 2):sum(), {a, b}) end)
      local da, db, dh = torch.autograd.grad((a * 2):sum(), {a, b, h}, {allow_unused = true})
      assert.close({2, 2}, da)
      assert.is_nil(db)
      assert.is_nil(dh)
   end)

   it("refuses an input that requires no gradient", function()
      local x = leaf {1, 2}
      assert.raises("input 2", "requires no gradient",
         function() torch.autograd.grad((x * 2):sum(), {x, constant {1}}) end)
   end)

   it("refuses values that are not tensors", function()
      local x = leaf {1, 2}
      assert.raises("inputs", function() torch.autograd.grad((x * 2):sum()) end)
      assert.raises("inputs", function() torch.autograd.grad((x * 2):sum(), {}) end)
      assert.raises("inputs[2]", function() torch.autograd.grad((x * 2):sum(), {x, 1}) end)
      assert.raises("grad_outputs",
         function() torch.autograd.grad({x:sum(), x:sum()}, x, {grad_outputs = {constant(1), "x"}}) end)
      assert.raises("grad_outputs",
         function() torch.autograd.grad({x:sum()}, x, {grad_outputs = {constant(1), constant(1)}}) end)
   end)

   it("returns tensors without history by default", function()
      local x = leaf {1, 2}
      local dx = torch.autograd.grad((x * x):sum(), x)
      assert.is_false(dx.requires_grad)
      dx = torch.autograd.grad((x * x):sum(), x, {create_graph = true})
      assert.is_true(dx.requires_grad)
   end)
end)

describe("higher derivatives", function()
   it("exist for a power", function()
      local x = leaf(2)
      local d = x ^ 5
      for n, expected in ipairs {5 * 16, 20 * 8, 60 * 4, 120 * 2, 120} do
         d = torch.autograd.grad(d, x, {create_graph = n < 5})
         assert.close(expected, d)
      end
   end)

   it("exist for two variables", function()
      local x, y = leaf(2), leaf(3)
      local f = x * x * y + y * y * x
      local fx, fy = torch.autograd.grad(f, {x, y}, {create_graph = true})
      local fxx, fxy = torch.autograd.grad(fx, {x, y}, {retain_graph = true})
      local fyx, fyy = torch.autograd.grad(fy, {x, y})
      assert.close({2 * 3, 2 * 2 + 2 * 3, 2 * 2 + 2 * 3, 2 * 2}, {fxx:item(), fxy:item(), fyx:item(), fyy:item()})
   end)

   it("make a gradient penalty", function()
      local w, x = leaf {1, 2, 3}, leaf {4, 5, 6}
      local y = (w * x):tanh():sum()
      local dx = torch.autograd.grad(y, x, {create_graph = true})
      local penalty = (dx * dx):sum()
      penalty:backward()
      -- The expected values use this derivative with t = tanh(wx): d/dw of (w (1 - t^2))^2 is 2 w (1-t^2)^2 (1 - 2 w x
      -- t).
      local expected = {}
      for i, v in ipairs {{1, 4}, {2, 5}, {3, 6}} do
         local a, b = v[1], v[2]
         local e = math.exp(2 * a * b)
         local t = (e - 1) / (e + 1)
         expected[i] = 2 * a * (1 - t * t) ^ 2 * (1 - 2 * a * b * t)
      end
      assert.close(expected, w.grad, 1e-12)
   end)

   it("use a result that was saved", function()
      local x = leaf {0.5, -1}
      local y = x:exp()
      local d = torch.autograd.grad(y:sum(), x, {create_graph = true})
      local dd = torch.autograd.grad(d:sum(), x, {create_graph = true})
      local ddd = torch.autograd.grad(dd:sum(), x)
      assert.close({math.exp(0.5), math.exp(-1)}, ddd)
   end)

   it("sum broadcast gradients", function()
      local a, b = leaf {{1, 2}, {3, 4}}, leaf {5, 6}
      local db = torch.autograd.grad((a * b * b):sum(), b, {create_graph = true})
      local da = torch.autograd.grad((db * db):sum(), a)
      -- The gradient with respect to b is db = 2 b (a1 + a2). The derivative of db^2 with respect to a1 or a2 is 2 db *
      -- 2 b.
      assert.close({{2 * 40 * 10, 2 * 72 * 12}, {2 * 40 * 10, 2 * 72 * 12}}, da)
   end)

   it("can be accumulated", function()
      local x = leaf {1, 2};
      (x * x * x):sum():backward {create_graph = true}
      local first = x.grad
      assert.is_true(first.requires_grad)
      first:sum():backward()
      assert.close({3 + 6, 12 + 12}, x.grad)
      x.grad = nil -- breaks the reference cycle between x and its gradient
   end)

   it("are added to a gradient that already exists", function()
      local x = leaf {1, 2}
      local g = constant {1, 1}
      x.grad = g;
      (x * x):sum():backward {create_graph = true}
      assert.close({1, 1}, g)
      assert.close({3, 5}, x.grad)
      assert.is_true(x.grad.requires_grad)
      x.grad = nil
   end)
end)
