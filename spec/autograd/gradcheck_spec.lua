local torch = require "tlua"
local gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck

local function float64(...) return torch.randn(..., {dtype = "float64", requires_grad = true}) end

-- Returns a Function that computes x^3, but with a wrong derivative: it is `factor` times too large.
local function cube(factor)
   local Cube = torch.class("Cube", torch.autograd.Function)
   function Cube.forward(ctx, x)
      ctx:save_for_backward(x)
      return x * x * x
   end
   function Cube.backward(ctx, grad)
      local x = ctx:saved_tensors()
      return grad * 3 * factor * x * x
   end
   return function(x) return Cube:apply(x) end
end

describe("torch.autograd.gradcheck", function()
   before_each(function() torch.manual_seed(1) end)

   it("accepts correct derivatives", function()
      assert.is_true(gradcheck(cube(1), float64(3)))
      assert.is_true(gradcheck(function(a, b) return a * b + a:sin() end, {float64(2), float64(2)}))
      assert.is_true(gradcheck(function(x) return x:t() end, {float64({2, 3})}))
   end)

   it("describes the first mismatch", function()
      local x = torch.tensor({2.0, 1.0}, {dtype = "float64", requires_grad = true})
      assert.raises("gradcheck: output 1, input 1", "element 1 of the output by element 1",
         "is 13.2", "by differences 12", function() gradcheck(cube(1.1), x) end)
      local ok, fault = gradcheck(cube(1.1), x, {raise_exception = false})
      assert.is_false(ok)
      assert.matches("output 1", fault)
   end)

   it("passes other arguments to the function, and leaves inputs unchanged", function()
      local x = float64(3)
      local before = x:tolist()
      assert.is_true(gradcheck(function(a, n, b) return a ^ n + b end, {x, 2, torch.ones(3)}))
      assert.close(before, x:tolist(), 0)
   end)

   it("checks every result", function()
      assert.is_true(gradcheck(function(x) return x:max(), x * 2 end, float64(4)))
      assert.raises("output 2", function() gradcheck(function(x) return x * 2, cube(2)(x) end, float64(2)) end)
   end)

   it("requires an input that requires a gradient", function()
      assert.raises("no input requires a gradient", function() gradcheck(function(x) return x end, torch.ones(2)) end)
   end)

   it("checks modules", function()
      local layer = torch.nn.Linear(3, 2):double()
      assert.is_true(gradcheck(layer, float64({4, 3})))
   end)
end)

it("torch.autograd.gradgradcheck accepts correct second derivatives and refuses wrong ones", function()
   torch.manual_seed(1)
   assert.is_true(gradgradcheck(function(a, b) return a:tanh() * b end, {float64(3), float64(3)}))
   -- the first derivative of Half is right, but the second derivative lacks a factor
   local Half = torch.class("Half", torch.autograd.Function)
   function Half.forward(ctx, x)
      ctx:save_for_backward(x)
      return x * x
   end
   function Half.backward(ctx, grad)
      local x = ctx:saved_tensors()
      return grad * (x + x:detach())
   end
   local fn = function(x) return Half:apply(x) end
   assert.is_true(gradcheck(fn, float64(3)))
   assert.has_error(function() gradgradcheck(fn, float64(3)) end)
end)

describe("torch.autograd.gradcheck of a function that cuts the graph", function()
   local x = torch.tensor({1.0, -2.0}, {dtype = "float64", requires_grad = true})

   -- PyTorch raises "Numerical gradient for function expected to be zero" for the first three functions.
   it("refuses results that depend on the inputs and require no gradient", function()
      for _, fn in ipairs {
         function(v) return v:detach() * 2 end,
         function(v) return torch.no_grad(function() return v * 2 end) end,
         function(v) return torch.tensor(v:sum():item(), {dtype = "float64"}) end,
      } do
         assert.raises("is 0, by differences ", "no result requires a gradient: was it computed with detach",
            function() torch.autograd.gradcheck(fn, {x}) end)
      end
      assert.is_true(torch.autograd.gradcheck(function(v) return v:sign():detach() end, {x}))
      assert.is_true(torch.autograd.gradcheck(function(v) return v * 2, v:detach() end, {x}))
   end)

   it("names float32 as the cause of a difference", function()
      local y = torch.tensor({0.3, -1.7}, {requires_grad = true})
      assert.raises("differences need inputs of float64",
         function() torch.autograd.gradcheck(function(v) return v ^ 3 end, {y}) end)
   end)
end)

describe("torch.autograd.functional", function()
   local functional = torch.autograd.functional
   local x = torch.tensor({1.0, 2.0}, {dtype = "float64"})

   it("computes Jacobians", function()
      assert.close({{2, 0}, {0, 4}}, functional.jacobian(function(v) return v * v end, x):tolist())
      local both = functional.jacobian(function(a, b) return a * b:sum() end, {x, x})
      assert.close({{3, 0}, {0, 3}}, both[1]:tolist())
      assert.close({{1, 1}, {2, 2}}, both[2]:tolist())
      local none = functional.jacobian(function() return torch.ones(1):double() end, x)
      assert.close({{0, 0}}, none:tolist())
   end)

   it("computes Hessians", function()
      local function fn(v) return v[1] ^ 2 * v[2] end
      assert.close({{4, 2}, {2, 0}}, functional.hessian(fn, x):tolist())
      local blocks = functional.hessian(function(a, b) return (a * b):sum() end, {x, x})
      assert.close({{0, 0}, {0, 0}}, blocks[1][1]:tolist())
      assert.close({{1, 0}, {0, 1}}, blocks[1][2]:tolist())
   end)

   it("multiplies Jacobians and Hessians with vectors", function()
      local v = torch.tensor({1.0, -1.0}, {dtype = "float64"})
      local square = function(t) return t * t end
      local y, product = functional.vjp(square, x, v)
      assert.close({1, 4}, y:tolist())
      assert.close({2, -4}, product:tolist())
      assert.close({2, -4}, select(2, functional.jvp(square, x, v)):tolist())
      local function fn(t) return t[1] ^ 2 * t[2] end
      assert.close({4 - 2, 2}, select(2, functional.hvp(fn, x, v)):tolist())
      assert.close({4 - 2, 2}, select(2, functional.vhp(fn, x, v)):tolist())
   end)

   -- PyTorch raises errors for the same functions.
   it("with strict refuses an output that does not depend on an input", function()
      local strict = {strict = true}
      local function first(a) return a * a end -- the second input is not used
      assert.raises("autograd.functional.jacobian: strict: the output does not depend on input 2",
         function() functional.jacobian(first, {x, x}, strict) end)
      assert.raises("autograd.functional.vjp: strict: the output does not depend on the inputs",
         function() functional.vjp(function(a) return a:detach() end, x, x, strict) end)
      assert.raises("autograd.functional.jvp: strict: the output does not depend on input 2",
         function() functional.jvp(first, {x, x}, {x, x}, strict) end)
      local function linear(a) return a:sum() end
      for _, name in ipairs {"hessian", "hvp", "vhp"} do
         assert.raises("strict: the output does not depend on",
            function() functional[name](linear, x, {v = name ~= "hessian" and x or nil, strict = true}) end)
      end
      assert.close({{2, 0}, {0, 4}}, functional.jacobian(first, x, strict):tolist())
      assert.close({{2, 0}, {0, 2}}, functional.hessian(function(a) return first(a):sum() end, x, strict):tolist())
   end)

   it("takes PyTorch's options for speed", function()
      local function square(a) return a * a end
      assert.close({{2, 0}, {0, 4}}, functional.jacobian(square, x,
         {vectorize = true, strategy = "forward-mode"}):tolist())
      assert.close({{2, 0}, {0, 2}}, functional.hessian(function(a) return square(a):sum() end, x,
         {vectorize = true, outer_jacobian_strategy = "forward-mode"}):tolist())
      assert.raises('jacobian: strategy: expected "reverse-mode" or "forward-mode", got "forward"',
         function() functional.jacobian(square, x, {strategy = "forward"}) end)
   end)

   it("names the arguments that it expects", function()
      assert.raises("one that returns one number", function() functional.hessian(function(t) return t end, x) end)
      assert.raises("v: expected a tensor", function() functional.vjp(function(t) return t end, x) end)
      assert.raises("input 1: expected a floating-point tensor", function()
         functional.jacobian(function(t) return t end, torch.tensor {1})
      end)
   end)
end)
