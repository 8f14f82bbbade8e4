-- Tests torch.autograd.forward_ad, and autograd Functions that have setup_context, jvp, vmap or once_differentiable.
-- The expected values come from closed-form derivatives.

local torch = require "tlua"
local fwd, func = torch.autograd.forward_ad, torch.func

local function double(values, options)
   options = options or {}
   options.dtype = "float64"
   return torch.tensor(values, options)
end

describe("forward_ad", function()
   local x, v = double {0.5, 2}, double {3, -1}
   local slope = double {3 * 2 * 0.5, -1 * 2 * 2} -- the derivative of x^2 along v

   it("returns the tangent of a result of dual tensors", function()
      local primal, tangent = fwd.dual_level(function() return fwd.unpack_dual(fwd.make_dual(x, v) ^ 2) end)
      assert.close({0.25, 4}, primal, 1e-12)
      assert.close(slope, tangent, 1e-12)
      assert.is_false(primal.requires_grad or tangent.requires_grad)
   end)

   it("takes complex tensors", function()
      local cpu = {device = "cpu"}
      local z = torch.complex(torch.arange(2.0, cpu), torch.ones(2, cpu))
      local w = torch.complex(torch.ones(2, cpu), torch.ones(2, cpu))
      local _, tangent = fwd.dual_level(function() return fwd.unpack_dual(fwd.make_dual(z, w) ^ 2) end)
      assert.close({{-2, 2}, {0, 4}}, tangent:view_as_real(), 1e-6)
   end)

   -- PyTorch 2.15 gives the same results for the same calls.
   it("keeps tangents under no_grad, and ends gradients there", function()
      local w = double({3, 3}, {requires_grad = true})
      local _ <close> = fwd.dual_level()
      local dual = fwd.make_dual(x, v)
      local y = torch.no_grad(function() return dual * w / 2 end)
      local primal, tangent = fwd.unpack_dual(y)
      assert.close(x * 1.5, primal, 1e-12)
      assert.close(v * 1.5, tangent, 1e-12)
      assert.is_false(primal.requires_grad or tangent.requires_grad)
      -- w is not a dual tensor, so under no_grad its product is not recorded
      local plain = torch.no_grad(function() return w * 2 end)
      assert.is_false(plain.requires_grad)
      -- a level of forward-mode differentiation may also be opened under no_grad
      torch.no_grad(function() double({1}, {requires_grad = true}):add_(1) end)
      local u = double({2, 2}, {requires_grad = true})
      local z = y * u + (dual * w - torch.no_grad(function() return dual * w end))
      local _, mixed = fwd.unpack_dual(z)
      assert.close(v * 3, mixed, 1e-12)
      local by_w, by_u = torch.autograd.grad(z:sum(), {w, u}, {allow_unused = true})
      assert.close(x, by_w, 1e-12)
      assert.close(x * 1.5, by_u, 1e-12)
   end)

   it("keeps the graph of a block under no_grad for later tangents", function()
      local _ <close> = fwd.dual_level()
      local w = double({3, 3}, {requires_grad = true})
      local y = torch.no_grad(function() return (fwd.make_dual(x, v) ^ 2):sin() end);
      (y * w):sum():backward()
      assert.close((x ^ 2):sin(), w.grad, 1e-12)
      local _, tangent = fwd.unpack_dual(y)
      assert.close((x ^ 2):cos() * slope, tangent, 1e-12)
   end)

   it("adds the tangents of several duals, and ignores other tensors", function()
      local _ <close> = fwd.dual_level()
      local a, b = fwd.make_dual(x, v), fwd.make_dual(v, x)
      local _, tangent = fwd.unpack_dual((a * b):sum())
      assert.close(v:dot(v) + x:dot(x), tangent, 1e-12)
      local _, own = fwd.unpack_dual(a)
      assert.close(v, own, 0)
      assert.is_nil((select(2, fwd.unpack_dual(x * 2))))
      assert.is_nil((select(2, fwd.unpack_dual(double({1}, {requires_grad = true}) * 2))))
   end)

   it("agrees with func.jvp for a module's function", function()
      local net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softplus()):double()
      local _, expected = func.jvp(function(a) return net(a) end, x, v)
      local _ <close> = fwd.dual_level()
      local _, tangent = fwd.unpack_dual(net(fwd.make_dual(x, v)))
      assert.close(expected, tangent, 1e-12)
   end)

   it("works inside a reverse pass", function()
      local w = double({2, 3}, {requires_grad = true})
      local _ <close> = fwd.dual_level()
      local _, tangent = fwd.unpack_dual((fwd.make_dual(x, v) * w) ^ 2)
      tangent:sum():backward() -- 2 x v w^2 by w
      assert.close({4 * 0.5 * 3 * 2, 4 * 2 * -1 * 3}, w.grad, 1e-12)
   end)

   it("ends with its level, and reports mistakes", function()
      local dual
      fwd.dual_level(function() dual = fwd.make_dual(x, v) end)
      assert.is_nil((select(2, fwd.unpack_dual(dual * 2))))
      assert.raises("forward_ad.make_dual", "no level is open", function() fwd.make_dual(x, v) end)
      fwd.dual_level(function()
         assert.raises("forward_ad.dual_level", "levels do not nest", function() fwd.dual_level() end)
         assert.raises("forward_ad.make_dual: tangent", function() fwd.make_dual(x, double {1}) end)
         assert.raises("forward_ad.make_dual: tangent", function() fwd.make_dual(x, v:float()) end)
         assert.raises("forward_ad.make_dual: tensor", function() fwd.make_dual(torch.tensor {1}, v) end)
      end)
      assert.is_false(pcall(fwd.dual_level, error))
      assert.close(slope, (select(2, fwd.dual_level(function()
         return fwd.unpack_dual(fwd.make_dual(x, v) ^ 2)
      end))), 1e-12)
   end)
end)

describe("a Function", function()
   -- A Function that computes x^3 * factor, and counts the calls of its methods jvp and vmap.
   local calls = {jvp = 0, vmap = 0}
   local Cube = torch.class("spec.Cube", torch.autograd.Function)
   function Cube.forward(x, factor) return x ^ 3 * factor end
   function Cube.setup_context(ctx, inputs, output)
      ctx:save_for_backward(inputs[1])
      ctx.factor, ctx.shape = inputs[2], output.shape
   end
   function Cube.backward(ctx, grad) return grad * 3 * ctx:saved_tensors() ^ 2 * ctx.factor end
   function Cube.jvp(ctx, tangent, factor)
      calls.jvp = calls.jvp + 1
      assert(factor == nil)
      return tangent * 3 * ctx:saved_tensors() ^ 2 * ctx.factor
   end
   function Cube.vmap(info, in_dims, x, factor)
      calls.vmap = calls.vmap + 1
      assert(info.batch_size == 3 and in_dims[1] == 1 and in_dims[2] == false)
      return Cube:apply(x, factor), 1
   end
   local x = double {1, 2, -1}
   local function cube(a) return Cube:apply(a, 2) end

   it("has a separate context with setup_context", function()
      local own = x:clone():requires_grad_()
      local y = cube(own)
      assert.close({2, 16, -2}, y, 0)
      y:sum():backward()
      assert.close({6, 24, 6}, own.grad, 0)
      assert.is_true(torch.autograd.gradcheck(cube, {own}))
      assert.is_true(torch.autograd.gradgradcheck(cube, {own}))
   end)

   it("raises an error if its jvp returns another shape than the result's", function()
      local Wrong = torch.class("spec.Wrong", torch.autograd.Function)
      function Wrong.forward(_, a) return a * 2 end
      local function push()
         local _, tangent = func.jvp(function(a) return Wrong:apply(a) end, x, x)
         return tangent
      end
      for message, jvp in pairs {
         ["expected a tensor of shape (3) for result 1"] = function() return double {1, 2} end,
         ["got a float64 tensor of shape ()"] = function(_, t) return t:sum() end,
         ["or nil, got 3"] = function() return 3 end,
         ["expected 1 tangents"] = function(_, t) return t, t end,
      } do
         Wrong.jvp = jvp
         assert.raises("spec.Wrong: jvp", message, push)
      end
      Wrong.jvp = function() end
      assert.close({0, 0, 0}, push(), 0)
   end)

   it("computes its jvp for func.jvp and forward_ad", function()
      calls.jvp = 0
      local _, tangent = func.jvp(cube, x, double {1, 10, 100})
      assert.close({6, 240, 600}, tangent, 1e-12)
      assert.equal(1, calls.jvp)
      local _, dual = fwd.dual_level(function()
         return fwd.unpack_dual(cube(fwd.make_dual(x, double {1, 10, 100})))
      end)
      assert.close(tangent, dual, 0)
      assert.equal(2, calls.jvp)
      assert.close(torch.diag(double {12, 24, -12}), func.jacrev(func.grad(function(a)
         return cube(a):sum()
      end))(x), 1e-12)
      assert.equal(2, calls.jvp)
      assert.close(torch.diag(double {12, 24, -12}), func.jacfwd(function(a)
         return select(2, func.jvp(cube, a, torch.ones(3):double()))
      end)(x), 1e-12)
   end)

   it("needs no backward for jvp", function()
      local Twice = torch.class("spec.Twice", torch.autograd.Function)
      function Twice.forward(ctx, a, b)
         ctx:save_for_forward(a, b)
         return a * b, a + b
      end
      function Twice.jvp(ctx, s, t)
         local a, b = ctx:saved_tensors()
         return s * b + t * a, s + t
      end
      local function both(a, b) return Twice:apply(a, b) end
      local _, tangents = func.jvp(both, {x, x * 2}, {torch.ones(3):double(), x})
      assert.close(x * 2 + x * x, tangents[1], 1e-12)
      assert.close(x + 1, tangents[2], 1e-12)
   end)

   it("works on batches by its vmap", function()
      calls.vmap = 0
      assert.close({2, 16, -2}, func.vmap(cube)(x), 0)
      assert.equal(1, calls.vmap)
      assert.close({6, 24, 6}, func.vmap(func.grad(cube))(x), 0)
   end)

   it("refuses a second derivative if it is once_differentiable", function()
      local Once = torch.class("spec.Once", torch.autograd.Function)
      function Once.forward(ctx, a)
         ctx:save_for_backward(a)
         return a * a
      end
      Once.backward = torch.autograd.Function.once_differentiable(function(ctx, grad)
         assert(not torch.is_grad_enabled())
         return grad * 2 * ctx:saved_tensors()
      end)
      local own = x:clone():requires_grad_()
      local grad = torch.autograd.grad(Once:apply(own):sum(), own, {create_graph = true})
      assert.close({2, 4, -2}, grad, 0)
      assert.raises("once_differentiable", "second time", function() grad:sum():backward() end)
      local plain = torch.autograd.grad(Once:apply(own):sum(), own)
      assert.is_false(plain.requires_grad)
   end)
end)

describe("autograd.grad with is_grads_batched", function()
   local x = double({1, 2}, {requires_grad = true})

   it("gives the rows of a Jacobian", function()
      local y = torch.stack {x[1] * x[2], x[1] ^ 2, x[2]}
      local J = torch.autograd.grad(y, x, {grad_outputs = torch.eye(3):double(), is_grads_batched = true})
      assert.close({{2, 1}, {2, 0}, {0, 1}}, J, 0)
   end)

   it("takes several outputs, inputs without part, and second derivatives", function()
      local w = double({3}, {requires_grad = true})
      local a, b = x ^ 2, x:sum()
      local grad, none = torch.autograd.grad({a, b}, {x, w}, {
         grad_outputs = {double {{1, 0}, {0, 1}}, double {0, 10}}, is_grads_batched = true,
         allow_unused = true, create_graph = true,
      })
      assert.is_nil(none)
      assert.close({{2, 0}, {10, 14}}, grad, 0)
      local again = torch.autograd.grad(grad:sum(), x)
      assert.close({2, 2}, again, 0)
   end)

   it("frees the graph after the last example, unless it is retained", function()
      local y = x ^ 2
      local options = {grad_outputs = torch.eye(2):double(), is_grads_batched = true, retain_graph = true}
      assert.close({{2, 0}, {0, 4}}, torch.autograd.grad(y, x, options), 0)
      options.retain_graph = nil
      assert.close({{2, 0}, {0, 4}}, torch.autograd.grad(y, x, options), 0)
      assert.raises("freed", function() torch.autograd.grad(y, x, options) end)
   end)

   it("describes the gradients that it expects", function()
      local y = x ^ 2
      local function refuse(grads)
         assert.raises("autograd.grad: is_grads_batched", "at least one",
            function() torch.autograd.grad(y, x, {grad_outputs = grads, is_grads_batched = true}) end)
      end
      refuse(nil)
      refuse(double(1))
      refuse(torch.ones(0, 2):double())
   end)
end)
