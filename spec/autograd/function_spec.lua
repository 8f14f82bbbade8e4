-- Tests torch.autograd.Function, by which users define operators with derivatives of their own.

local torch = require "tlua"

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

local Exp = torch.class("Exp", torch.autograd.Function)

function Exp.forward(ctx, x)
   local y = x:exp()
   ctx:save_for_backward(y)
   return y
end

function Exp.backward(ctx, grad)
   local y = ctx:saved_tensors()
   return grad * y
end

-- A Function that computes a * b + k and a + b. It takes the plain number k, and also returns a text.
local MulAdd = torch.class("MulAdd", torch.autograd.Function)

function MulAdd.forward(ctx, a, k, b)
   ctx:save_for_backward(a, b)
   ctx.k = k
   return a * b + k, "text", a + b
end

function MulAdd.backward(ctx, grad, text, sum)
   assert(text == nil)
   local a, b = ctx:saved_tensors()
   local da = ctx.needs_input_grad[1] and grad * b + sum
   local db = ctx.needs_input_grad[3] and grad * a + sum
   return da or nil, nil, db or nil
end

describe("a Function", function()
   it("uses the derivative that it defines", function()
      local x = leaf {0, 1}
      local y = Exp:apply(x)
      assert.equal("Exp", y.grad_fn.name)
      assert.equal("<ExpBackward>", tostring(y.grad_fn));
      (y * 2):sum():backward()
      assert.close({2, 2 * math.exp(1)}, x.grad)
   end)

   it("is differentiable twice", function()
      local x = leaf {0.5, 1}
      local d = torch.autograd.grad(Exp:apply(x):sum(), x, {create_graph = true})
      local dd = torch.autograd.grad(d:sum(), x, {create_graph = true})
      local ddd = torch.autograd.grad(dd:sum(), x)
      assert.close({math.exp(0.5), math.exp(1)}, ddd)
   end)

   it("takes and returns values of any type", function()
      local a, b = leaf {2, 3}, leaf {5, 7}
      local y, text, sum = MulAdd:apply(a, 10, b)
      assert.equal("text", text)
      assert.close({20, 31}, y);
      (y * y):sum():backward {retain_graph = true}
      assert.close({2 * 20 * 5, 2 * 31 * 7}, a.grad)
      a.grad, b.grad = nil, nil;
      (y + sum):sum():backward()
      assert.close({5 + 1, 7 + 1}, a.grad)
      assert.close({2 + 1, 3 + 1}, b.grad)
   end)

   it("reports the gradients that are needed", function()
      local a, b = leaf {2, 3}, torch.tensor({5, 7}, {dtype = "float64"})
      local y = MulAdd:apply(a, 10, b)
      y:sum():backward()
      assert.close({5, 7}, a.grad)
      assert.is_nil(b.grad)
   end)

   it("records no node if no input requires a gradient", function()
      local y = Exp:apply(torch.zeros(2))
      assert.is_false(y.requires_grad)
      assert.is_false(torch.no_grad(function() return Exp:apply(leaf {1}) end).requires_grad)
   end)

   it("runs forward without recording", function()
      local mode
      local F = torch.class("F", torch.autograd.Function)
      function F.forward(_, x)
         mode = torch.is_grad_enabled()
         return x * 2
      end
      function F.backward(_, grad) return grad end -- this derivative is deliberately wrong
      local x = leaf {1, 2}
      F:apply(x):sum():backward()
      assert.is_false(mode)
      assert.close({1, 1}, x.grad)
   end)

   it("may return its argument, or a view of it", function()
      local Straight = torch.class("Straight", torch.autograd.Function)
      function Straight.forward(_, x) return x, x[1] end
      function Straight.backward(_, grad, first)
         local g = grad * 10
         g[1]:add_(first * 100)
         return g
      end
      local x = leaf {1, 2}
      local y, first = Straight:apply(x)
      assert.is_true(x.is_leaf and not y.is_leaf);
      (y:sum() + first):backward()
      assert.close({110, 10}, x.grad)
   end)

   it("receives zeros or nil for results without a gradient", function()
      local seen
      local Two = torch.class("Two", torch.autograd.Function)
      function Two.forward(ctx, x, materialize)
         ctx:set_materialize_grads(materialize)
         return x * 1, x * 2
      end
      function Two.backward(_, a, b)
         seen = b or "nil"
         return a
      end
      local x = leaf {1, 2};
      (Two:apply(x, true)):sum():backward()
      assert.close({0, 0}, seen);
      (Two:apply(x, false)):sum():backward()
      assert.equal("nil", seen)
   end)

   it("marks results that carry no gradient", function()
      local Sort = torch.class("Sort", torch.autograd.Function)
      function Sort.forward(ctx, x)
         local rank = x * 0
         ctx:mark_non_differentiable(rank)
         return x * 2, rank
      end
      function Sort.backward(_, grad) return grad * 2 end
      local x = leaf {1, 2}
      local y, rank = Sort:apply(x)
      assert.is_true(y.requires_grad)
      assert.is_false(rank.requires_grad)
      y:sum():backward()
      assert.close({2, 2}, x.grad)
   end)

   it("may return nil for a gradient", function()
      local F = torch.class("F", torch.autograd.Function)
      function F.forward(_, a, b) return a + b end
      function F.backward(_, grad) return grad, nil end
      local a, b = leaf {1}, leaf {2}
      F:apply(a, b):sum():backward()
      assert.close({1}, a.grad)
      assert.is_nil(b.grad)
      assert.raises("input 1", function() torch.autograd.grad(F:apply(a, b):sum(), {b}) end)
   end)

   it("sums and casts the gradients that backward returns", function()
      local F = torch.class("F", torch.autograd.Function)
      function F.forward(_, a, b) return a * b end
      function F.backward(_, grad) return grad:float(), grad end
      local a, b = leaf {1, 2}, leaf {{1}, {2}}
      F:apply(a, b):sum():backward()
      assert.equal("float64", a.grad.dtype)
      assert.close({2, 2}, a.grad)
      assert.close({{2}, {2}}, b.grad)
   end)

   it("detects changes of tensors that it saved", function()
      local x = leaf {1, 2}
      local y = Exp:apply(x)
      y:add_(1)
      assert.raises("Exp", "add_", function() y:sum():backward() end)
   end)

   it("is freed with its graph", function()
      local x = leaf {1, 2}
      local y = Exp:apply(x)
      y:sum():backward()
      assert.raises("Exp", "already been freed", function() y:sum():backward() end)
   end)

   it("may run a backward pass of its own", function()
      -- A Function that, like activation checkpointing, computes its forward pass again during the backward pass, this
      -- time with recording.
      local Again = torch.class("Again", torch.autograd.Function)
      function Again.forward(ctx, fn, x)
         ctx.fn = fn
         ctx:save_for_backward(x)
         return fn(x)
      end
      function Again.backward(ctx, grad)
         local x = ctx:saved_tensors():detach():requires_grad_()
         local y = torch.enable_grad(ctx.fn, x)
         y:backward(grad)
         return nil, x.grad
      end
      local w, x = leaf {2, 3}, leaf {0.5, 1}
      local function block(h) return (h * w):tanh() end
      local y = Again:apply(block, Again:apply(block, x));
      (y * y):sum():backward()
      local dx, dw = x.grad, w.grad
      x.grad, w.grad = nil, nil
      y = block(block(x));
      (y * y):sum():backward()
      assert.close(x.grad, dx)
      assert.close(w.grad, dw)
   end)

   it("nests passes deeply", function()
      local Again = torch.class("Again", torch.autograd.Function)
      function Again.forward(ctx, n, x)
         ctx.n = n
         ctx:save_for_backward(x)
         return x * 2
      end
      function Again.backward(ctx, grad)
         local x = ctx:saved_tensors():detach():requires_grad_()
         if ctx.n == 0 then return nil, grad * 2 end
         torch.enable_grad(function() return Again:apply(ctx.n - 1, x) end):backward(grad)
         return nil, x.grad
      end
      local x = leaf {1}
      Again:apply(20, x):backward()
      assert.close({2}, x.grad)
   end)
end)

-- The expected values were computed by hand. PyTorch records the same graph nodes.
describe("a Function that changes its argument in place", function()
   local Double = torch.class("Double", torch.autograd.Function)
   function Double.forward(ctx, x)
      ctx:mark_dirty(x)
      return x:mul_(2)
   end
   function Double.backward(_, grad) return grad * 2 end

   it("replaces the argument's history", function()
      local x = leaf {1, 2}
      local t = x * 3
      local u = Double:apply(t)
      assert.is_true(rawequal(t, u))
      assert.equal("Double", t.grad_fn.name)
      assert.close({6, 12}, t);
      (t * t):sum():backward()
      assert.close({2 * 6 * 6, 2 * 12 * 6}, x.grad)
   end)

   it("changes the base of a view, and other views", function()
      local x = leaf {1, 2, 3}
      local t = x * 1
      local other = t[{{2, 3}}]
      Double:apply(t[{{1, 2}}])
      assert.close({2, 4, 3}, t)
      t:sum():backward {retain_graph = true}
      assert.close({2, 2, 1}, x.grad)
      x.grad = nil
      other:sum():backward()
      assert.close({0, 2, 1}, x.grad)
   end)

   it("saves the changed argument as a result, and may return several results", function()
      local ExpInto = torch.class("ExpInto", torch.autograd.Function)
      function ExpInto.forward(ctx, k, x)
         ctx:mark_dirty(x)
         x:exp_()
         ctx:save_for_backward(x)
         ctx.k = k
         return k * x, x
      end
      function ExpInto.backward(ctx, scaled, plain)
         local y = ctx:saved_tensors()
         return nil, (scaled * ctx.k + plain) * y
      end
      local x = leaf {0, 1}
      local t = x * 1
      local scaled, same = ExpInto:apply(5, t)
      assert.is_true(rawequal(t, same));
      (scaled + t):sum():backward()
      assert.close({6, 6 * math.exp(1)}, x.grad)
   end)

   it("makes an argument without history part of the graph", function()
      local Into = torch.class("Into", torch.autograd.Function)
      function Into.forward(ctx, into, x)
         ctx:mark_dirty(into)
         return into:copy_(x)
      end
      function Into.backward(_, grad) return nil, grad end
      local x, into = leaf {1, 2}, torch.zeros(2, {dtype = "float64"})
      Into:apply(into, x)
      assert.is_true(into.requires_grad);
      (into * 3):sum():backward()
      assert.close({3, 3}, x.grad)
   end)

   it("invalidates tensors that were saved before the change", function()
      local x = leaf {1, 2}
      local t = x * 1
      local before = t * t
      Double:apply(t)
      assert.raises("mul", "changed in place", function() before:sum():backward() end)
   end)

   it("refuses leaves, tensors that are not both argument and result, and views", function()
      assert.raises("Double: a leaf that requires a gradient cannot be changed in place",
         function() Double:apply(leaf {1, 2}) end)
      local function of(forward)
         local F = torch.class("F", torch.autograd.Function)
         F.forward = forward
         function F.backward(_, grad) return grad end
         return function() F:apply((leaf {1, 2} * 1)[{{1, 2}}]) end
      end
      assert.raises("F: mark_dirty: expected arguments of forward", of(function(ctx, x)
         local y = x:clone()
         ctx:mark_dirty(y)
         return y
      end))
      assert.raises("mark_dirty: tensors that forward changed in place must be among its results",
         of(function(ctx, x) ctx:mark_dirty(x) return x:clone() end))
      assert.raises("F: a view that was changed in place must be the only result, got 2 results",
         of(function(ctx, x) ctx:mark_dirty(x) return x, x:clone() end))
      local ok, message = pcall(of(function(ctx, x) ctx:mark_dirty(3) return x end))
      assert.is_false(ok)
      assert.matches("mark_dirty: argument 1: expected a Tensor, got number", message)
   end)
end)

describe("a Function's mistakes", function()
   it("raise errors with its name if it saves a value that cannot be saved", function()
      local Times = torch.class("Times", torch.autograd.Function)
      function Times.forward(ctx, a, b)
         ctx:save_for_backward(a)
         return a * b
      end
      local made = torch.inference_mode(function() return torch.ones(2) end)
      assert.raises("Times: a tensor of shape [2] that was made in inference mode",
         function() Times:apply(made, torch.ones(2, {requires_grad = true})) end)
   end)

   local function broken(backward)
      local F = torch.class("Broken", torch.autograd.Function)
      function F.forward(_, x) return x * 1 end
      F.backward = backward
      return F:apply(leaf {1, 2})
   end

   it("raise an error of the backward pass", function()
      local y = broken(function() error({code = 7}) end)
      local ok, object = pcall(function() y:sum():backward() end)
      assert.is_false(ok)
      assert.same({code = 7}, object)
      y = broken(function(ctx) return ctx.nothing.at_all end)
      ok, object = pcall(function() y:sum():backward() end)
      assert.is_false(ok)
      assert.matches("function_spec.lua:%d+: attempt to index", object)
   end)

   it("raise an error if backward returns wrong values", function()
      assert.raises("Broken", "Tensor", "string", function() broken(function() return "x" end):sum():backward() end)
      assert.raises("Broken", "expected 1 gradients", function()
         broken(function(_, g) return g, g end):sum():backward()
      end)
      assert.raises("Broken", "[2]", "[3]", function()
         broken(function() return torch.zeros(3) end):sum():backward()
      end)
      assert.raises("Broken", "int64", function()
         broken(function() return torch.zeros(2, {dtype = "int64"}) end):sum():backward()
      end)
   end)

   it("raise an error if the class is used wrongly", function()
      assert.raises("apply", function() Exp(leaf {1}) end)
      assert.raises("F:apply", function() Exp.apply(leaf {1}) end)
      local F = torch.class("F", torch.autograd.Function)
      function F.forward(ctx, x)
         ctx:save_for_backward(x, 5)
         return x
      end
      local ok, message = pcall(F.apply, F, leaf {1})
      assert.is_false(ok)
      assert.matches("function_spec.lua:%d+: save_for_backward: argument 2: .*number", message)
   end)

   it("raise an error for invalid counts", function()
      for _, n in ipairs {-1, math.mininteger, math.maxinteger, 1 << 32, 0.5, "x"} do
         local F = torch.class("F", torch.autograd.Function)
         function F.forward(ctx, x)
            ctx.saved = {n = n}
            return x * 2
         end
         local ok, message = pcall(F.apply, F, leaf {1})
         assert.is_false(ok)
         assert.matches("record: saved: expected a field n, a count of values, got", message, 1, true)
      end
      local record, none = torch.autograd.record, {n = 0}
      assert.raises("record: inputs: ", function() record("f", {n = -1}, none, {}, none, print) end)
      assert.raises("record: outputs: ", function() record("f", none, {n = -1}, {}, none, print) end)
      assert.raises("got nil", function() record("f", {}, none, {}, none, print) end)
   end)

   it("raise an error if backward returns too few gradients", function()
      local x = leaf {2}
      local function product(backward)
         local F = torch.class("F", torch.autograd.Function)
         function F.forward(_, a, b) return a * b end
         F.backward = backward
         return F
      end
      for i, backward in ipairs {function() end, function(_, grad) return grad end} do
         local y = product(backward):apply(x, x)
         assert.raises(("F: backward: expected a gradient or nil for each argument of forward, 2 in all, got %d")
            :format(i - 1), function() y:backward() end)
      end
      -- nil stands for no gradient, and an argument that needs none may be left out
      product(function(_, grad) return grad * 5, nil end):apply(x, x):backward()
      product(function(_, grad) return grad * 2 end):apply(x, 7):backward()
      assert.close({7}, x.grad)
   end)

   it("count needs_input_grad from 1", function()
      local F = torch.class("F", torch.autograd.Function)
      function F.forward(_, x) return x * 2 end
      local failed, message
      function F.backward(ctx, grad)
         failed, message = pcall(function() return ctx.needs_input_grad[0] end)
         return grad
      end
      F:apply(leaf {2}):backward()
      assert.is_false(failed)
      assert.matches("function_spec.lua:%d+: needs_input_grad: expected a position, counted from 1, got 0", message)
      function F.backward(ctx, grad)
         for i, needed in ipairs(ctx.needs_input_grad) do assert(i == 1 and needed) end
         return grad
      end
      F:apply(leaf {2}):backward()
   end)

   it("raise an error if backward is missing", function()
      local Half = torch.class("Half", torch.autograd.Function)
      function Half.forward(_, x) return x / 2 end
      local y = Half:apply(leaf {1})
      assert.raises("Half: backward is missing; expected a method of that name", function() y:sum():backward() end)
   end)
end)
