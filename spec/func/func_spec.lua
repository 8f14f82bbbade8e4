-- Tests torch.func by comparing it with PyTorch's. func.py has written the values in spec/fixtures/func.lua.
local torch = require "tlua"
local sorted = require "spec.support.sorted"
local F, fn = torch.nn.functional, torch.func
local rows = dofile "spec/fixtures/func.lua"

-- Returns input values, which equal those that func.py computes.
local function values(shape, shift)
   local n = 1
   for _, size in ipairs(shape) do n = n * size end
   local list = {}
   for k = 1, n do list[k] = 0.8 * math.cos(0.7 * (k - 1) + (shift or 0)) end
   return torch.tensor(list, {dtype = "float64"}):view(shape)
end

local A, B = values({3, 3}, 1), values({4, 3}, 2)

local functions = {
   to_one_sin = function(x) return (x:sin() * x):sum() end,
   to_one_quadratic = function(x) return x:matmul(A):matmul(x) end,
   to_one_logsumexp = function(x) return torch.logsumexp(x * 3, 1) end,
   to_one_norm = function(x) return torch.linalg.vector_norm(x) end,
   to_one_prod = function(x) return x:prod() + x:cumsum(1):pow(2):sum() end,
   to_one_mlp = function(x) return F.mse_loss(F.softplus(B:matmul(x)), values {4}) end,
   to_one_det = function(x) return torch.linalg.det(torch.diag(x) + A) end,
   to_one_conv = function(x) return F.conv1d(x:view(1, 1, 3), values {2, 1, 2}):tanh():pow(2):sum() end,
   to_one_cross_entropy = function(x) return F.cross_entropy(B:matmul(x):view(2, 2), torch.tensor {2, 1}) end,
   to_one_layer_norm = function(x) return (F.layer_norm(x, {3}) * values({3}, 3)):pow(3):sum() end,
   exp = function(x) return x:exp() end,
   product = function(x) return B:matmul(x) end,
   softmax = function(x) return torch.softmax(x, 1) end,
   outer = function(x) return torch.outer(x, x:cos()) end,
   gelu = function(x) return F.gelu(B:matmul(x)) end,
   sort = function(x) return (torch.sort(x * x)) end,
   gather = function(x) return x[torch.tensor {3, 1, 1}] * x end,
   solve = function(x) return torch.linalg.solve(A + 2 * torch.eye(3, {dtype = "float64"}), x * x) end,
   where = function(x) return torch.where(x:gt(0), x * x, x:exp()) end,
   cat = function(x) return torch.cat({x, x * x}):flip(1) end,
}

local x, v, batch = values({3}, 0.5), values({3}, 4), values({2, 3}, 5)

for name, f in sorted(functions) do
   describe("torch.func of " .. name, function()
      local row = rows[name]
      local function pulled(input)
         local output, pull = fn.vjp(f, input)
         return pull(values(output.shape, 6)), output
      end

      local function pushed(input) return select(2, fn.jvp(f, input, v)) end

      it("has PyTorch's first derivatives", function()
         local gradient, output = pulled(x)
         assert.close(row.value, output, 1e-10)
         assert.close(row.vjp, gradient, 1e-10)
         assert.is_false(gradient.requires_grad or output.requires_grad)
         assert.close(row.jvp, pushed(x), 1e-10)
         assert.close(row.jacrev, fn.jacrev(f)(x), 1e-10)
         assert.close(row.jacfwd, fn.jacfwd(f)(x), 1e-10)
         local _, push = fn.linearize(f, x)
         assert.close(row.jvp, push(v), 1e-10)
      end)

      it("has PyTorch's second derivatives", function()
         assert.close(row.hessian, fn.hessian(f)(x), 1e-9)
         assert.close(row.hessian, fn.jacfwd(fn.jacrev(f))(x), 1e-9)
      end)

      it("works on batches", function()
         assert.close(row.vmap, fn.vmap(f)(batch), 1e-10)
         assert.close(row.vmap_vjp, fn.vmap(function(b) return (pulled(b)) end)(batch), 1e-10)
         assert.close(row.vmap_jvp, fn.vmap(pushed)(batch), 1e-10)
      end)

      it("gives linear maps that work on batches", function()
         local output, pull = fn.vjp(f, x)
         local _, push = fn.linearize(f, x)
         local seeds = values({3, table.unpack(output.shape)}, 7)
         assert.close(row.vmap_of_pull, fn.vmap(pull)(seeds), 1e-10)
         assert.close(row.vmap_of_push, fn.vmap(push)(batch), 1e-10)
         assert.close(row.nested_pull, fn.vmap(function(b)
            local _, own = fn.vjp(f, b)
            return (fn.vmap(own)(seeds))
         end)(batch), 1e-10)
         assert.close(row.nested_push, fn.vmap(function(b)
            local _, own = fn.linearize(f, b)
            return fn.vmap(own)(batch)
         end)(batch), 1e-10)
         assert.close(row.nested_push, fn.vmap(function(b)
            return fn.vmap(function(t) return select(2, fn.jvp(f, b, t)) end)(batch)
         end)(batch), 1e-10)
      end)

      if row.grad then
         it("has PyTorch's gradients", function()
            assert.close(row.grad, fn.grad(f)(x), 1e-10)
            assert.close(row.grad_twice, fn.grad(function(y) return fn.grad(f)(y):pow(2):sum() end)(x), 1e-9)
            assert.close(row.vmap_grad, fn.vmap(fn.grad(f))(batch), 1e-10)
         end)
      end
   end)
end

describe("torch.func", function()
   local two = torch.tensor(2.0)

   it("differentiates by the arguments of argnums", function()
      local function f(a, b, c) return (a * b * b + c):sum() end
      assert.equal(4, fn.grad(f)(two, two, two):item())
      assert.equal(8, fn.grad(f, {argnums = 2})(two, two, two):item())
      local grads = fn.grad(f, {argnums = {3, 1}})(two, two, two)
      assert.equal(1, grads[1]:item())
      assert.equal(4, grads[2]:item())
      local H = fn.hessian(f, {argnums = {1, 2}})(two, two, two)
      assert.equal(0, H[1][1]:item())
      assert.equal(4, H[1][2]:item())
      assert.equal(4, H[2][2]:item())
   end)

   it("differentiates by tables, however nested", function()
      local function f(p) return (p.a * p.list[1] + p.list[2]):sum() end
      local grads = fn.grad(f) {a = two, list = {two * 2, two}}
      assert.equal(4, grads.a:item())
      assert.equal(2, grads.list[1]:item())
      assert.equal(1, grads.list[2]:item())
      local J = fn.jacrev(function(p) return {sum = p.a:sum(), twice = p.a * 2} end) {a = torch.ones(2)}
      assert.same({1, 1}, J.sum.a:tolist())
      assert.same({{2, 0}, {0, 2}}, J.twice.a:tolist())
   end)

   -- PyTorch gives the same: all results have a grad_fn, and w.grad is 6.
   it("records operations on an outer tensor that requires a gradient", function()
      local w, a = torch.tensor(2.0):requires_grad_(), torch.tensor {1.0, 2.0}
      local function f(b) return (b * b * w):sum() end
      fn.grad(f)(a):sum():backward()
      assert.equal(6, w.grad:item())
      local _, pull = fn.vjp(function(b) return b * w end, a)
      w.grad = nil
      pull(torch.ones(2))[1]:backward()
      assert.equal(1, w.grad:item())
      local _, push = fn.linearize(f, a)
      local output, tangent = fn.jvp(f, a, torch.ones(2))
      for _, value in ipairs {output, tangent, push(a), fn.jacrev(f)(a), fn.jacfwd(f)(a),
         fn.vmap(fn.grad(f))(a:view(2, 1)), fn.vmap(push)(torch.eye(2)), fn.hessian(f)(a)} do
         w.grad = nil
         value:sum():backward()
         assert.is_not_nil(w.grad)
      end
      assert.is_false(fn.grad(function(b) return (b * b * w:detach()):sum() end)(a).requires_grad)
      w.grad = nil
      fn.vmap(fn.grad(f))(torch.ones(3, 2)):sum():backward()
      assert.equal(12, w.grad:item())
   end)

   it("may be interleaved with other calls in coroutines", function()
      local a = torch.tensor {1.0, 2.0}
      local function square(b) return (b * b):sum() end
      local waits = coroutine.wrap(function()
         return fn.grad(function(b)
            coroutine.yield()
            return square(b)
         end)(a)
      end)
      waits()
      local own = fn.grad(square)(a)
      assert.is_false(own.requires_grad)
      assert.is_nil(own.grad_fn)
      assert.same({2, 4}, waits():tolist())
   end)

   it("returns values and auxiliary results", function()
      local function f(a) return a * a, "beside" end
      local grad, aux = fn.grad(f, {has_aux = true})(two)
      assert.equal(4, grad:item())
      assert.equal("beside", aux)
      local g, value, more = fn.grad_and_value(f, {has_aux = true})(two)
      assert.same({4, 4, "beside"}, {g:item(), value:item(), more})
      local output, pull, last = fn.vjp(f, two, {has_aux = true})
      assert.same({4, "beside"}, {output:item(), last})
      assert.equal(4, pull(torch.tensor(1.0)):item())
      local _, tangent, other = fn.jvp(f, two, torch.tensor(1.0), {has_aux = true})
      assert.same({4, "beside"}, {tangent:item(), other})
      assert.same({4, "beside"}, {fn.jacfwd(f, {has_aux = true})(two):item(),
         (select(2, fn.jacfwd(f, {has_aux = true})(two)))})
   end)

   it("takes several results and arguments", function()
      local outputs, pull = fn.vjp(function(a, b) return a * b, a + b end, two, two * 2)
      assert.same({8, 6}, {outputs[1]:item(), outputs[2]:item()})
      local a, b = pull(torch.tensor(1.0), torch.tensor(10.0))
      assert.same({14, 12}, {a:item(), b:item()})
      local values_of, tangents = fn.jvp(function(p, q) return p * q, q end, {two, two},
         {torch.tensor(1.0), torch.tensor(0.0)})
      assert.equal(4, values_of[1]:item())
      assert.same({2, 0}, {tangents[1]:item(), tangents[2]:item()})
   end)

   it("returns zeros if nothing depends on an argument", function()
      assert.same({0, 0}, fn.grad(function() return two end)(torch.ones(2)):tolist())
      assert.same({{0, 0}}, fn.jacfwd(function() return torch.ones(1) end)(torch.ones(2)):tolist())
   end)

   it("can be differentiated from outside, if an argument requires a gradient", function()
      local w = torch.tensor(3.0, {requires_grad = true})
      local g = fn.grad(function(p) return p ^ 3 end)(w)
      g:backward()
      assert.equal(18, w.grad:item())
   end)

   it("works within no_grad", function()
      torch.no_grad(function() assert.equal(4, fn.grad(function(a) return a * a end)(two):item()) end)
   end)

   it("leaves no level behind when the function fails", function()
      assert.has_error(function() fn.grad(function() error "x" end)(two) end)
      assert.is_false(fn.grad(function(a) return a * a end)(two).requires_grad)
   end)

   it("computes per-sample gradients of a module", function()
      local model = torch.nn.Linear(3, 1):double()
      local parameters = {}
      for name, p in model:named_parameters() do parameters[name] = p:detach() end
      local function loss(p, input, target) return (fn.functional_call(model, p, input) - target):pow(2):sum() end
      local targets = values({2, 1}, 9)
      local grads = fn.vmap(fn.grad(loss), {in_dims = {false, 1, 1}})(parameters, batch, targets)
      for i = 1, 2 do
         model:zero_grad();
         (model(batch[i]) - targets[i]):pow(2):sum():backward()
         assert.close(model.weight.grad, grads.weight[i], 1e-12)
         assert.close(model.bias.grad, grads.bias[i], 1e-12)
      end
   end)

   it("runs an ensemble", function()
      local models = {torch.nn.Linear(3, 2):double(), torch.nn.Linear(3, 2):double()}
      local parameters, buffers = fn.stack_module_state(models)
      local outputs = fn.vmap(function(p, b, input)
         return fn.functional_call(models[1], {p, b}, input)
      end, {in_dims = {1, 1, false}})(parameters, buffers, batch)
      assert.close(models[2](batch), outputs[2], 1e-14)
   end)

   it("differentiates in inference mode, too", function()
      local plain = torch.tensor {1.0, 2.0}
      local function cubes(a) return (a ^ 3):sum() end
      local made
      do
         local _ <close> = torch.inference_mode()
         made = torch.tensor {1.0, 2.0}
         for _, input in ipairs {plain, made} do
            assert.same({3, 12}, fn.grad(cubes)(input):tolist())
            assert.same({3, 12}, fn.jacrev(cubes)(input):tolist())
            assert.same({3, 12}, fn.jacfwd(cubes)(input):tolist())
            assert.same({{6, 0}, {0, 12}}, fn.hessian(cubes)(input):tolist())
            assert.equal(15, select(2, fn.jvp(cubes, {input}, {torch.ones(2)})):item())
            assert.same({3, 12}, select(2, fn.vjp(cubes, input))(torch.tensor(1.0)):tolist())
            local functional = torch.autograd.functional
            assert.same({3, 12}, functional.jacobian(cubes, input):tolist())
            assert.same({{6, 0}, {0, 12}}, functional.hessian(cubes, input):tolist())
            assert.same({6, 12}, select(2, functional.hvp(cubes, input, torch.ones(2))):tolist())
         end
         assert.is_true(torch.is_inference_mode_enabled())
      end
      assert.same({3, 12}, fn.grad(cubes)(made):tolist())
      assert.is_false(torch.is_inference_mode_enabled())
   end)

   it("refuses wrong arguments", function()
      assert.raises("func.grad: the function: expected one that returns one number",
         function() fn.grad(function(a) return a end)(torch.ones(2)) end)
      assert.raises("func.grad: argument: expected floating-point tensors", function()
         fn.grad(function(a) return a:sum() end)(torch.tensor {1, 2})
      end)
      assert.raises("argnums: expected positions from 1 to 1, got 2", function()
         fn.grad(function(a) return a end, {argnums = 2})(two)
      end)
      assert.raises("unknown option argnum; did you mean argnums?", function()
         fn.grad(function(a) return a end, {argnum = 2})
      end)
      assert.raises("func.vjp: cotangents: expected a tensor of shape (2)", function()
         select(2, fn.vjp(function(a) return a * 2 end, torch.ones(2)))(torch.ones(3))
      end)
      assert.raises("func.jvp: tangents: expected 1 tensors, got 2", function()
         fn.jvp(function(a) return a end, two, {two, two})
      end)
      assert.raises("func.vmap: chunk_size: expected at least 1, got 0",
         function() fn.vmap(torch.sin, {chunk_size = 0}) end)
      assert.raises("func.vjp: fn: expected a function, got 3", function() fn.vjp(3, two) end)
   end)

   -- Complex numbers run only on the CPU, not yet on a GPU. The expected values are PyTorch's results.
   local cpu <const> = {device = "cpu"}

   it("differentiates functions with complex results and arguments", function()
      local ramp, ones = torch.arange(4.0, cpu), torch.ones(4, cpu)
      local fft = torch.fft
      local want = {{4, 0}, {0, 0}, {0, 0}}
      local y, tangent = fn.jvp(fft.rfft, {ramp}, {ones})
      assert.close({{6, 0}, {-2, 2}, {-2, 0}}, y:view_as_real(), 1e-6)
      assert.close(want, tangent:view_as_real(), 1e-6)
      local _, push = fn.linearize(fft.rfft, ramp)
      assert.close(want, push(ones):view_as_real(), 1e-6)
      _, tangent = torch.autograd.functional.jvp(fft.rfft, ramp, ones)
      assert.close(want, tangent:view_as_real(), 1e-6)
      local up, flat = torch.arange(3.0, cpu), torch.ones(3, cpu)
      local z, w = torch.complex(up, flat), torch.complex(flat, up)
      y, tangent = fn.jvp(fft.irfft, {z}, {w})
      assert.close({1, -1, 0, 0}, y, 1e-6)
      assert.close({1, -0.5, 0, 0.5}, tangent, 1e-6)
      local square = function(a) return a * a end
      up, flat = torch.arange(2.0, cpu), torch.ones(2, cpu)
      z, w = torch.complex(up, flat), torch.complex(flat, flat)
      _, tangent = fn.jvp(square, {z}, {w})
      assert.close({{-2, 2}, {0, 4}}, tangent:view_as_real(), 1e-6)
      _, tangent = torch.autograd.functional.jvp(square, z, w)
      assert.close({{-2, 2}, {0, 4}}, tangent:view_as_real(), 1e-6)
      local _, pull = fn.vjp(square, z)
      assert.close({{2, -2}, {4, 0}}, pull(w):view_as_real(), 1e-6)
      local slope = fn.grad(function(a) return a:abs():sum() end)(z)
      assert.close({{0, 1}, {0.5 ^ 0.5, 0.5 ^ 0.5}}, slope:view_as_real(), 1e-6)
      local columns = fn.jacfwd(function(a) return fft.rfft(a):view_as_real() end)(ramp)
      assert.close({{1, 1, 1, 1}, {1, 0, -1, 0}, {1, -1, 1, -1}}, columns:select(2, 1), 1e-6)
      assert.close({{0, 0, 0, 0}, {0, -1, 0, 1}, {0, 0, 0, 0}}, columns:select(2, 2), 1e-6)
   end)

   it("refuses complex results and tangents that have no derivative of this kind", function()
      local fft, ones = torch.fft.fft, torch.ones(2, cpu)
      local z = torch.complex(ones, ones)
      for _, name in ipairs {"jacrev", "jacfwd"} do
         assert.raises("func." .. name .. ": the function: expected one that returns real tensors, got a complex64",
            function() fn[name](fft)(ones) end)
         assert.raises("func." .. name .. ": argument: expected floating-point tensors, got a complex64",
            function() fn[name](torch.abs)(z) end)
      end
      assert.raises("func.grad: the function: expected one that returns one number as a tensor, a real one",
         function() fn.grad(function(a) return fft(a):sum() end)(ones) end)
      local function double(a) return a * 2 end
      assert.raises("func.jvp: tangents: expected a real tensor, got a complex64",
         function() fn.jvp(double, {ones}, {z}) end)
      assert.raises("autograd.functional.jvp: v: expected a real tensor, got a complex64",
         function() torch.autograd.functional.jvp(double, ones, z) end)
   end)

   it("removes running statistics of normalisations", function()
      local model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
      fn.replace_all_batch_norm_modules_(model)
      assert.is_nil(model[1].running_mean)
      model:evaluate()
      assert.close(torch.zeros(3), model(torch.randn(8, 3)):mean(1), 1e-6)
   end)
end)
